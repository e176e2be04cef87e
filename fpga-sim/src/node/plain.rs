//! Registers without a function in the model.

/// They keep what is written (spec 8.1).
pub(super) const PLAIN: [std::ops::Range<u64>; 7] = [
    0x4000..0x6400,         // PCIe core
    0x8010..0x8090,         // info: addresses, time, scratchpads, timer
    0x8800..0x9400,         // I2C, GPIO, HTAX bridge
    0x9400..0x9600,         // network ports
    0x1_0000..0x1_1000,     // SNQ and its program
    0x44_0000..0x45_4100,   // barrier, global interrupts
    0x150_0018..0x150_0020, // WCB
];

/// Words of all of them.
pub(super) const PLAIN_WORDS: usize = {
    let (mut words, mut i) = (0, 0);
    while i < PLAIN.len() {
        words += (PLAIN[i].end - PLAIN[i].start) / 8;
        i += 1;
    }
    words as usize
};

/// Place of such a register among them.
pub(super) fn plain(offset: u64) -> Option<usize> {
    let mut before = 0;
    for range in &PLAIN {
        if range.contains(&offset) {
            return Some((before + (offset - range.start) / 8) as usize);
        }
        before += (range.end - range.start) / 8;
    }
    None
}

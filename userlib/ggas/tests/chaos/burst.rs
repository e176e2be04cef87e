//! Bursts: what one member sends to another before it waits for an answer. They follow from the seed, from who sends, to
//! whom, and from their number; so the receiver knows what to expect.

/// Bytes of an inbox that are for one sender.
pub const AREA: usize = 128 << 10;
/// What stands wherever nothing was put.
pub const FILL: u8 = 0xa5;
/// Bytes that a burst's puts are taken from.
pub const SOURCE: usize = 2 * AREA;
/// Bursts of a member are numbered below this.
pub const NUMBERS: u32 = 1 << 16;
/// Bytes that others may get from a member.
pub const LIBRARY: usize = 256 << 10;
/// Most puts and notifications of a burst: their numbers have 8 bits. More than a card queues, and more bytes than a
/// ring between two processes has.
const ITEMS: usize = 250;
/// Of an ordinary burst.
const FEW: usize = 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Note,
    Immediate,
    Put,
}

#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub what: What,
    /// Where its bytes go in the area, and where they are in the source.
    pub at: usize,
    pub source: usize,
    pub len: usize,
    /// The receiver gets a notification.
    pub is_told: bool,
    /// The sender gets one.
    pub is_confirmed: bool,
}

pub struct Burst {
    from: u32,
    to: u32,
    number: u32,
    /// The first and the last are notifications.
    pub items: Vec<Item>,
}

impl Burst {
    pub fn of(seed: u64, from: u32, to: u32, number: u32) -> Burst {
        let mut random = fastrand::Rng::with_seed(seed ^ name(from, to, number, 0, 0));
        let note = Item { what: What::Note, at: 0, source: 0, len: 0, is_told: true, is_confirmed: false };
        let (mut at, mut source, mut items) = (random.usize(1..64), random.usize(0..64), vec![note]);
        let is_flood = random.u8(0..8) == 0;
        for _ in 0..if is_flood { ITEMS - 2 } else { random.usize(1..FEW) } {
            let what = match random.u8(0..10) {
                0..3 => What::Note,
                3 => What::Immediate,
                _ => What::Put,
            };
            let len = match what {
                What::Note => 0,
                What::Immediate => random.usize(1..=8),
                What::Put if is_flood => random.usize(1..=1500),
                What::Put => size(&mut random),
            };
            if at + len + 64 > AREA {
                break;
            }
            let is_put = what == What::Put;
            let (is_told, is_confirmed) = (!is_put || random.u8(0..4) > 0, is_put && random.bool());
            items.push(Item { what, at, source, len, is_told, is_confirmed });
            at += len + random.usize(1..64);
            source += len + random.usize(0..64);
        }
        items.push(note);
        Burst { from, to, number, items }
    }

    /// The bytes of an item.
    pub fn bytes(&self, index: usize) -> Vec<u8> {
        pattern(|word| name(self.from, self.to, self.number, index as u32, word), 0, self.items[index].len)
    }

    /// The area once all of it has arrived.
    pub fn area(&self) -> Vec<u8> {
        let mut area = vec![FILL; AREA];
        for (index, item) in self.items.iter().enumerate() {
            area[item.at..item.at + item.len].copy_from_slice(&self.bytes(index));
        }
        area
    }
}

fn size(random: &mut fastrand::Rng) -> usize {
    match random.u8(0..16) {
        0..6 => random.usize(1..=8),
        6..12 => random.usize(1..=1000),
        12..15 => random.usize(1..=20_000),
        _ => random.usize(1..=100 << 10),
    }
}

/// Bytes of a member's library.
pub fn library(of: u32, offset: usize, len: usize) -> Vec<u8> {
    pattern(|word| name(of, 0xfff, 0xffff, 0xff, word), offset, len)
}

/// What 8 bytes of an item are made of: everything that says which they are.
fn name(from: u32, to: u32, number: u32, index: u32, word: usize) -> u64 {
    u64::from(from) << 52
        | u64::from(to) << 40
        | u64::from(number) << 24
        | u64::from(index) << 16
        | word as u64 & 0xffff
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
const INVERSE: u64 = 0xf1de_83e1_9937_733d;

/// Has each byte depend on all of a name.
fn mixed(name: u64) -> u64 {
    let half = (name ^ name >> 32).wrapping_mul(ODD);
    half ^ half >> 32
}

fn pattern(name: impl Fn(usize) -> u64, offset: usize, len: usize) -> Vec<u8> {
    let words = offset / 8..(offset + len).div_ceil(8);
    let bytes: Vec<u8> = words.flat_map(|word| mixed(name(word)).to_le_bytes()).collect();
    bytes[offset % 8..offset % 8 + len].to_vec()
}

/// Which bytes these are, that stand where others should.
pub fn explain(bytes: &[u8]) -> String {
    let Some(word) = bytes.first_chunk::<8>() else { return format!("{bytes:x?}") };
    let half = u64::from_le_bytes(*word);
    let half = (half ^ half >> 32).wrapping_mul(INVERSE);
    let name = half ^ half >> 32;
    let [from, to, number, index] = [name >> 52, name >> 40 & 0xfff, name >> 24 & 0xffff, name >> 16 & 0xff];
    format!(
        "{word:x?}, which would be of {from} for {to}: burst {number}, item {index}, word {}",
        name & 0xffff
    )
}

#[test]
fn patterns_say_what_they_are() {
    assert_eq!(ODD.wrapping_mul(INVERSE), 1);
    let burst = Burst::of(7, 4000, 3, 65_000);
    let (index, item) = burst.items.iter().enumerate().max_by_key(|(_, item)| item.len).expect("items");
    assert!(item.len >= 8);
    assert!(
        explain(&burst.bytes(index)).contains(&format!("of 4000 for 3: burst 65000, item {index}, word 0"))
    );
    assert_eq!(library(5, 13, 50), library(5, 0, 100)[13..63]);
}

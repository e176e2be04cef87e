//! Configuration space of a device (PCI 3.0, PCI Express; identity of the card: spec 1.1, 1.2).

use extoll_abi::regs;

/// Bytes of BAR 0: a BAR is a power of two (spec 1.2 wants 96 MiB).
pub const BAR0_BYTES: u64 = 128 << 20;

const BYTES: usize = 4096;
const COMMAND: usize = 0x04;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
const FIRST_BAR: usize = 0x10;
const PM: usize = 0x40;
const MSI: usize = 0x50;
const EXPRESS: usize = 0x60;
const MSIX: usize = 0xa0;
/// Vendor-specific capability of cards that fail on demand; its byte 4 says how.
const TROUBLE: usize = 0xc0;
/// Accesses to BAR 0 that reached the server: stores to requester areas, and all others. 32 bits each.
const REQUESTER_STORES: usize = 0xe0;
const OTHER_ACCESSES: usize = 0xe4;
const DEVICE_CONTROL: usize = EXPRESS + 8;
/// Initiate function level reset, in the upper byte of the device control.
const INITIATE_RESET: u8 = 1 << 7;
/// Vectors that the card offers by MSI: 2^2.
const MSI_VECTORS_LOG: u16 = 2;

/// Vectors that the card offers by MSI.
pub const MSI_VECTORS: u32 = 1 << MSI_VECTORS_LOG;
/// Vectors that it offers by MSI-X, where that is on. Their table lies in the register file (spec 1.1).
pub const MSIX_VECTORS: u32 = 8;
const MSIX_TABLE: u32 = 0x6000;
const MSIX_PENDING: u32 = 0x6200;

/// How a card fails, for tests of drivers. A reset ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// Not at all.
    #[default]
    None,
    /// It has left the bus: reads give all ones, writes are lost, no access to memory.
    Gone,
    /// Registers read as anything.
    Nonsense,
    /// It carries out no command of the translation unit, and so never says that a flush is over.
    Mute,
    /// Its server ends, with all cards that it serves.
    Dead,
    /// Answers to its requests stay on the way until this ends.
    Late,
}

/// What a write to configuration space asks of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Reset the function.
    pub reset: bool,
    /// Bus mastering, or where BARs answer, may have changed.
    pub decoding: bool,
}

/// A device's configuration space.
pub struct ConfigSpace {
    bytes: Box<[u8; BYTES]>,
    writable: Box<[u8; BYTES]>,
    initial: Box<[u8; BYTES]>,
    /// Bytes of each 64-bit BAR, by index.
    bars: Vec<(usize, u64)>,
}

impl ConfigSpace {
    /// The card's; with `msix`, and with a capability by which it can be told to fail.
    pub fn card(msix: bool, trouble: bool) -> ConfigSpace {
        let class = [regs::EXTOLL_PCI_REVISION as u8, 0x00, 0x80, 0x02]; // network controller, other
        let ids = (regs::EXTOLL_PCI_VENDOR as u16, regs::EXTOLL_PCI_TOURMALET as u16);
        let mut config = ConfigSpace::new(ids, class);
        config.bar(0, BAR0_BYTES, false);
        config.bar(2, regs::EXTOLL_SMFU_WINDOW_BYTES, true);
        config.capability_msi();
        if msix {
            config.put(EXPRESS + 1, &[MSIX as u8]);
            config.put(MSIX, &[0x11, 0]);
            config.put(MSIX + 2, &(MSIX_VECTORS as u16 - 1).to_le_bytes());
            config.put(MSIX + 4, &MSIX_TABLE.to_le_bytes());
            config.put(MSIX + 8, &MSIX_PENDING.to_le_bytes());
            config.allow(MSIX + 3, &[0xc0]);
        }
        if trouble {
            config.put(if msix { MSIX } else { EXPRESS } + 1, &[TROUBLE as u8]);
            config.put(TROUBLE, &[0x09, 0, 8]);
            config.allow(TROUBLE + 4, &[0xff]);
        }
        config.finish()
    }

    /// A device with `bytes` of memory (a power of two) in BAR 0: a stand-in for a GPU.
    pub fn gpu(bytes: u64) -> ConfigSpace {
        let class = [0x01, 0x00, 0x02, 0x03]; // 3D controller
        let mut config = ConfigSpace::new((crate::gpu::VENDOR, crate::gpu::DEVICE), class);
        config.bar(0, bytes, true);
        config.put(PM + 1, &[EXPRESS as u8]);
        config.finish()
    }

    fn new((vendor, device): (u16, u16), class: [u8; 4]) -> ConfigSpace {
        let blank = || Box::new([0; BYTES]);
        let mut config =
            ConfigSpace { bytes: blank(), writable: blank(), initial: blank(), bars: Vec::new() };
        for at in [0, 0x2c] {
            config.put(at, &vendor.to_le_bytes());
            config.put(at + 2, &device.to_le_bytes());
        }
        config.put(0x06, &[0x10, 0]); // has capabilities
        config.put(0x08, &class);
        config.put(0x34, &[PM as u8]);
        config.allow(COMMAND, &[0x06, 0x05]);
        config.allow(0x0c, &[0xff]);
        config.allow(0x3c, &[0xff]);
        config.put(PM, &[0x01, MSI as u8, 0x03, 0x00]);
        config.allow(PM + 4, &[0x03]);
        config.put(EXPRESS, &[0x10, 0x00, 0x02, 0x00]); // endpoint, version 2
        config.put(EXPRESS + 4, &0x1000_8001u32.to_le_bytes()); // function level reset, payload 256
        config.put(EXPRESS + 0xc, &0x0000_0103u32.to_le_bytes()); // 8 GT/s, 16 lanes
        config.put(EXPRESS + 0x12, &0x0103u16.to_le_bytes());
        config.allow(DEVICE_CONTROL, &[0xff, 0x7f]);
        config
    }

    fn capability_msi(&mut self) {
        self.put(MSI, &[0x05, EXPRESS as u8]);
        self.put(MSI + 2, &(1 << 7 | MSI_VECTORS_LOG << 1).to_le_bytes()); // 64-bit address
        self.allow(MSI + 2, &[0x71]);
        self.allow(MSI + 4, &[0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }

    /// A 64-bit memory BAR.
    fn bar(&mut self, index: usize, bytes: u64, prefetchable: bool) {
        let at = FIRST_BAR + 4 * index;
        self.put(at, &[if prefetchable { 0x0c } else { 0x04 }]);
        self.allow(at, &(!(bytes - 1)).to_le_bytes());
        self.bars.push((index, bytes));
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }

    fn finish(mut self) -> ConfigSpace {
        self.initial.copy_from_slice(&*self.bytes);
        self
    }

    /// Bytes of a BAR, 0 where there is none.
    pub fn bar_bytes(&self, index: usize) -> u64 {
        self.bars.iter().find(|(bar, _)| *bar == index).map_or(0, |(_, bytes)| *bytes)
    }

    /// Every register at its reset value.
    pub fn reset(&mut self) {
        self.bytes.copy_from_slice(&*self.initial);
    }

    /// Reads; what lies outside reads all ones.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            let at = offset.saturating_add(i as u64) as usize;
            *byte = self.bytes.get(at).copied().unwrap_or(0xff);
        }
    }

    /// Writes what may be written.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Change {
        let mut change = Change::default();
        for (i, byte) in data.iter().enumerate() {
            let at = offset.saturating_add(i as u64) as usize;
            let Some((old, mask)) = self.bytes.get_mut(at).zip(self.writable.get(at)) else { break };
            *old = *old & !mask | byte & mask;
            change.reset |= at == DEVICE_CONTROL + 1 && byte & INITIATE_RESET != 0;
            change.decoding |= (COMMAND..FIRST_BAR + 6 * 4).contains(&at) || at == TROUBLE + 4;
        }
        change
    }

    /// Counts an access to BAR 0, for tests of what traps.
    pub fn count(&mut self, requester_store: bool) {
        let at = if requester_store { REQUESTER_STORES } else { OTHER_ACCESSES };
        if let Some(count) = self.bytes[at..].first_chunk_mut::<4>() {
            *count = u32::from_le_bytes(*count).wrapping_add(1).to_le_bytes();
        }
    }

    /// How the device was told to fail.
    pub fn trouble(&self) -> Trouble {
        match self.bytes[TROUBLE + 4] {
            1 => Trouble::Gone,
            2 => Trouble::Nonsense,
            3 => Trouble::Mute,
            4 => Trouble::Dead,
            5 => Trouble::Late,
            _ => Trouble::None,
        }
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    /// Whether the device may reach memory.
    pub fn bus_master(&self) -> bool {
        self.command() & COMMAND_MASTER != 0
    }

    /// Where a BAR answers; `None` while it does not.
    pub fn bar_address(&self, index: usize) -> Option<u64> {
        let at = FIRST_BAR + 4 * index;
        let word = self.bytes.get(at..at + 8)?;
        let address = u64::from_le_bytes(word.try_into().ok()?) & !0xf;
        (self.command() & COMMAND_MEMORY != 0 && address != 0).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(config: &ConfigSpace, at: u64) -> u32 {
        let mut bytes = [0; 4];
        config.read(at, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn the_card_has_its_own_identity() {
        let config = ConfigSpace::card(false, false);
        assert_eq!(word(&config, 0), 0x0011_1cad);
        assert_eq!(word(&config, 8), 0x0280_0040);
        let mut at = word(&config, 0x34) & 0xff;
        let mut found = Vec::new();
        while at != 0 {
            let head = word(&config, at.into());
            found.push(head & 0xff);
            at = head >> 8 & 0xff;
        }
        assert_eq!(found, [0x01, 0x05, 0x10], "power management, MSI, PCI Express");
    }

    #[test]
    fn bars_tell_their_size_and_keep_their_place() {
        let mut config = ConfigSpace::card(false, false);
        config.write(0x10, &[0xff; 8]);
        let size = u64::from(word(&config, 0x10)) | u64::from(word(&config, 0x14)) << 32;
        assert_eq!(!(size & !0xf) + 1, 128 << 20);
        assert_eq!(config.bar_address(0), None, "memory is not enabled");
        config.write(0x10, &0x12_0000_0000u64.to_le_bytes());
        assert!(config.write(4, &[6, 0]).decoding);
        assert_eq!((config.bar_address(0), config.bus_master()), (Some(0x12_0000_0000), true));
        config.reset();
        assert_eq!((config.bar_address(0), config.bus_master()), (None, false));
    }

    #[test]
    fn function_level_reset_is_noticed_and_reads_back_as_zero() {
        let mut config = ConfigSpace::card(false, false);
        assert!(!config.write(0x68, &[0x10, 0x28]).reset);
        assert!(config.write(0x68, &[0x10, 0xa8]).reset);
        assert_eq!(word(&config, 0x68) & 0x8000, 0);
    }

    #[test]
    fn a_card_fails_if_it_may_be_told_to_and_until_it_is_reset() {
        let mut config = ConfigSpace::card(true, false);
        config.write(TROUBLE as u64 + 4, &[1]);
        assert_eq!(config.trouble(), Trouble::None);
        let mut config = ConfigSpace::card(true, true);
        assert_eq!(word(&config, MSIX as u64) >> 8 & 0xff, TROUBLE as u32);
        assert!(config.write(TROUBLE as u64 + 4, &[1]).decoding);
        assert_eq!(config.trouble(), Trouble::Gone);
        config.reset();
        assert_eq!(config.trouble(), Trouble::None);
    }

    #[test]
    fn accesses_outside_are_harmless() {
        let mut config = ConfigSpace::card(false, false);
        for offset in [4095, 4096, u64::MAX] {
            config.write(offset, &[0; 8]);
            let mut out = [0; 8];
            config.read(offset, &mut out);
            assert_eq!(out[7], 0xff);
        }
    }
}

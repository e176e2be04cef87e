//! VELO ports of a card (spec 7).

use extoll_abi::bindings::{
    EXTOLL_MAP_VELO_MAILBOX, EXTOLL_MAP_VELO_REQUESTER, EXTOLL_MAP_VELO_RP, EXTOLL_MAP_VELO_WCB,
    EXTOLL_RIGHT_PROTECTION, EXTOLL_UNIT_VELO, extoll_port_open, extoll_port_rights,
};

use super::file::{CardFile, failed};
use super::port::{open_call, shape};
use super::unit::{Layout, OfUnit, Unit};
use crate::{DeviceError, Kind, MailboxMap, MailboxSlots, VeloDevice, VeloSetup};

const LAYOUT: Layout = Layout {
    unit: EXTOLL_UNIT_VELO,
    requester: EXTOLL_MAP_VELO_REQUESTER,
    wcb: EXTOLL_MAP_VELO_WCB,
    rp: EXTOLL_MAP_VELO_RP,
    queue: EXTOLL_MAP_VELO_MAILBOX,
};
/// One page for each traffic class.
const CLASSES: u32 = 0xf;

/// An open VELO port: a file of the driver with a VPID on it.
#[derive(Debug)]
pub(super) struct HwVelo {
    unit: Unit,
    slots: MailboxSlots,
}

impl HwVelo {
    pub(super) fn open(file: CardFile, setup: &VeloSetup) -> Result<HwVelo, DeviceError> {
        let VeloSetup { mailbox_bytes: bytes, segment_bytes: segment, slots } = *setup;
        let (mailbox_bytes, mailbox_segment_bytes) = shape(bytes, segment)?;
        let units = EXTOLL_UNIT_VELO as u32;
        let mut open = extoll_port_open { units, mailbox_bytes, mailbox_segment_bytes, ..Default::default() };
        open_call(&file, &mut open, bytes, segment)?;
        if open.slot_bytes as usize != slots.bytes() {
            let problem =
                "the driver runs the card's mailboxes with slots of another size; ask for 128 bytes";
            return Err(DeviceError::QueueShape { bytes, segment, problem });
        }
        let unit = Unit::new(file, &open, &LAYOUT, CLASSES, open.mailbox_bytes_out, open.slot_bytes)?;
        Ok(HwVelo { unit, slots })
    }
}

impl OfUnit for HwVelo {
    #[inline]
    fn unit(&self) -> &Unit {
        &self.unit
    }
}

impl VeloDevice for HwVelo {
    fn mailbox(&self) -> MailboxMap {
        MailboxMap { base: self.unit.queue.word(0), slots: self.unit.slots, size: self.slots }
    }

    #[inline]
    fn store(&self, class: u8, offset: u64, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            self.unit.store(usize::from(class & 3), offset + 8 * i as u64, *word);
        }
    }

    fn set_protection(&self, send: u16, receive: u16) -> Result<(), DeviceError> {
        let file = self.unit.file()?;
        if send != receive {
            let reason = "its driver gives a port one protection id: ask for the same twice".to_owned();
            return Err(DeviceError::NotAvailable { kind: Kind::Hw, reason });
        }
        let mask = EXTOLL_RIGHT_PROTECTION as u32;
        let mut rights = extoll_port_rights { mask, protection: send.into(), ..Default::default() };
        file.port_rights(&mut rights).map_err(|errno| failed("a protection id of one's own choice", errno))
    }
}

impl Drop for HwVelo {
    fn drop(&mut self) {
        self.unit.close();
    }
}

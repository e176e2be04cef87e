//! Completer: where data arrives, from puts at the target and from responses at the origin (spec 3.1).

use std::collections::HashMap;

use extoll_abi::regs::{self, ErrorCounter};
use extoll_abi::{Access, Command as Code, ErrorUnits, Kind as Unit, Mode, Modifier, Spec};

use crate::memory::runs::Runs;
use crate::packet::{Address, Kind, Packet, Payload};
use crate::units::counters;
use crate::units::report::Report;
use crate::units::requester::Context;
use crate::units::responder::is_register_access;
use crate::units::vpid::VpidEntry;

/// What to do with a packet.
#[derive(Debug)]
pub enum Delivery {
    /// Nothing: dropped and counted.
    Dropped,
    /// No bytes to move; report it (see [`Completer::report`]).
    Report,
    /// Write the payload here, then report.
    Write(Runs),
    /// Write the payload to the registers at `packet.address`, then report.
    Registers,
}

/// A port's table entry, and whether errors are reported even where nobody asked for notifications.
pub type Reports = (VpidEntry, bool);

/// Fragments of one command share this.
type Flow = (Address, u8, Kind, u32);

/// The unit. Remembers commands of which a fragment failed, so that their last fragment reports the error.
#[derive(Debug, Default)]
pub struct Completer {
    failed: HashMap<Flow, ErrorUnits>,
}

/// Failed commands remembered at once; those beyond report only what their last fragment met.
const FAILED_MAX: usize = 1024;

fn flow(packet: &Packet) -> Flow {
    (packet.source, packet.destination.vpid, packet.kind, packet.tag)
}

impl Completer {
    /// Decides about a packet. Where the answer is not [`Delivery::Dropped`], call [`Completer::report`] when the
    /// bytes are there.
    pub fn receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Delivery {
        let registers = packet.mode.contains(Mode::RRA) && packet.kind == Kind::Put;
        if !cx.entry.is_open() && !registers {
            cx.counters.error(regs::COMPL_VPID);
            return Delivery::Dropped;
        }
        if cx.entry.is_open() && packet.protection != cx.entry.protection() {
            cx.counters.error(regs::COMPL_PDID);
            return Delivery::Dropped;
        }
        if !packet.error.is_empty() {
            cx.counters.error(regs::COMPL_ERRCMD);
            return Delivery::Report;
        }
        count(cx, packet);
        if matches!(packet.kind, Kind::Notification | Kind::LockResponse) {
            return Delivery::Report;
        }
        match place(cx, packet, registers) {
            Ok(delivery) => delivery,
            Err(counter) => {
                cx.counters.error(counter);
                packet.error |= ErrorUnits::COMPLETER;
                packet.payload = Payload::None;
                Delivery::Report
            }
        }
    }

    /// Whether fragments have failed whose commands are not over.
    #[inline]
    pub fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Errors that a command has met up to this packet of it.
    pub fn errors(&self, packet: &Packet) -> ErrorUnits {
        packet.error | self.failed.get(&flow(packet)).copied().unwrap_or_default()
    }

    /// The notifications owed after a packet of a port: with NTR for each fragment, else with the last one.
    pub fn report(&mut self, (entry, force_errors): Reports, packet: &Packet) -> Option<Report> {
        let last = packet.is_last() || packet.kind == Kind::Notification;
        let each = packet.mode.contains(Mode::NTR);
        let mut error = packet.error;
        if !last && !each {
            if !error.is_empty()
                && (self.failed.len() < FAILED_MAX || self.failed.contains_key(&flow(packet)))
            {
                self.failed.insert(flow(packet), error);
            }
            return None;
        }
        if last && !self.failed.is_empty() {
            error |= self.failed.remove(&flow(packet)).unwrap_or_default();
        }
        let asked = packet.spec.contains(Spec::COMPLETER) || !error.is_empty() && force_errors;
        if !asked || !entry.is_open() {
            return None;
        }
        let mut report = Report::new(
            Unit::Completer,
            packet,
            packet.destination.vpid,
            packet.source,
            packet.command,
            packet.address,
        );
        if packet.kind == Kind::Put || packet.kind == Kind::GetResponse {
            report.len = packet.len;
        }
        report.fail(error);
        Some(report)
    }
}

/// Where the payload goes, or the counter of what is wrong.
fn place(cx: &mut Context<'_>, packet: &Packet, registers: bool) -> Result<Delivery, ErrorCounter> {
    check_payload(packet)?;
    if packet.modifier.contains(Modifier::EWA) {
        // Nothing is attached to the model's Excellerate port.
        return Err(if cx.entry.excellerate() { regs::COMPL_TRANS } else { regs::COMPL_EXLDIS });
    }
    if registers {
        let fits = is_register_access(packet.address, packet.len);
        return if fits { Ok(Delivery::Registers) } else { Err(regs::COMPL_CMDT) };
    }
    let vpid = packet.destination.vpid;
    cx.resolve(vpid, packet.mode, packet.address, packet.len, Access::WRITE)
        .map(Delivery::Write)
        .ok_or(regs::COMPL_TRANS)
}

/// The packet must bring exactly the bytes that its header announces.
fn check_payload(packet: &Packet) -> Result<(), ErrorCounter> {
    let (have, announced) = (packet.payload.len(), packet.len as usize);
    if have == announced && have != 0 {
        return Ok(());
    }
    Err(match have {
        0 => regs::COMPL_NODAT,
        _ if have < announced => regs::COMPL_FEWDAT,
        _ => regs::COMPL_MOREDAT,
    })
}

fn count(cx: &mut Context<'_>, packet: &Packet) {
    let fragments = crate::units::fragment::count(packet.len.max(1), packet.fragment);
    let (counter, count) = match packet.command.command() {
        Some(Code::BtPut) => (counters::COMPL_BT_PUT, fragments),
        Some(Code::QwPut) => (counters::COMPL_QW_PUT, fragments),
        Some(Code::GetBtRsp) => (counters::COMPL_BT_GET, fragments),
        Some(Code::GetQwRsp) => (counters::COMPL_QW_GET, fragments),
        Some(Code::NotificationPut) => (counters::COMPL_NOTI_PUT, 1),
        Some(Code::ImmediatePut) => (counters::COMPL_IMM_PUT, 1),
        Some(Code::LockRsp) => (counters::COMPL_LOCK, 1),
        _ => return,
    };
    cx.counters.add(counter, count);
}

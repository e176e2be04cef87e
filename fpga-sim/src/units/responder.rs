//! Responder: answers gets and locks at the target (spec 3.1, 5).
//!
//! Whatever is wrong with a request, its origin hears of it: an error response carries the error bits to the
//! completer there. Only a foreign protection id is dropped without an answer (spec 10.2).

use extoll_abi::regs::{self, ErrorCounter};
use extoll_abi::{Access, Command as Code, CommandCode, ErrorUnits, Kind as Unit, Mode, Modifier, Spec};

use crate::memory::runs::Runs;
use crate::packet::{Kind, Packet, Payload};
use crate::units::counters;
use crate::units::lock::Locks;
use crate::units::report::Report;
use crate::units::requester::{Context, Job};

/// Most bytes of one access to registers \[inferred\]: a fragment's quadwords.
pub const REGISTER_ACCESS_MAX: u32 = 496;

/// Where a response's payload comes from.
#[derive(Debug)]
pub enum Answer {
    /// Nothing to send: dropped and counted.
    Dropped,
    /// Send it; a payload from memory is the job's source.
    Send(Job),
    /// Send it with `packet.total` bytes of registers from this offset on.
    Registers(Job, u64),
}

/// Whether an access to registers is one: whole, aligned 64-bit words inside the register file (spec 1.2).
pub fn is_register_access(offset: u64, len: u32) -> bool {
    let end = offset.saturating_add(u64::from(len));
    offset.is_multiple_of(8)
        && len.is_multiple_of(8)
        && (8..=REGISTER_ACCESS_MAX).contains(&len)
        && end <= regs::EXTOLL_BAR0_PART_BYTES
}

/// Answers one request ([`Kind::Get`] or [`Kind::Lock`]).
pub fn receive(cx: &mut Context<'_>, locks: &Locks, packet: &Packet) -> Answer {
    let vpid = packet.destination.vpid;
    let registers = packet.mode.contains(Mode::RRA) && packet.kind == Kind::Get;
    let open = cx.entry.is_open();
    if open && packet.protection != cx.entry.protection() {
        cx.counters.error(regs::RESP_PDID);
        return Answer::Dropped;
    }
    let mut job = Job { packet: response_to(cx, packet), source: None, report: None };
    let outcome = if !packet.error.is_empty() {
        Err(regs::RESP_ERRCMD)
    } else if !open && !registers {
        Err(regs::RESP_VPID)
    } else if packet.kind == Kind::Lock {
        lock(cx, locks, packet, &mut job.packet).map(|()| None)
    } else if registers {
        check_registers(packet).map(|()| None)
    } else {
        source(cx, packet).map(Some)
    };
    let failed = outcome.is_err();
    match outcome {
        Ok(source) => {
            job.source = source;
            count(cx, packet);
        }
        Err(counter) => {
            cx.counters.error(counter);
            let units = if packet.error.is_empty() { ErrorUnits::RESPONDER } else { packet.error };
            job.fail(units);
        }
    }
    if open && (packet.spec.contains(Spec::RESPONDER) || failed && cx.force_errors) {
        let report =
            Report::new(Unit::Responder, &job.packet, vpid, packet.source, packet.command, packet.address);
        job.report = Some(report);
    }
    if registers && !failed { Answer::Registers(job, packet.address) } else { Answer::Send(job) }
}

/// The response's header.
fn response_to(cx: &Context<'_>, packet: &Packet) -> Packet {
    let (kind, code) = match packet.command.command() {
        Some(Code::LockReq) => (Kind::LockResponse, Code::LockRsp),
        Some(Code::QwGet) => (Kind::GetResponse, Code::GetQwRsp),
        _ => (Kind::GetResponse, Code::GetBtRsp),
    };
    let lock = kind == Kind::LockResponse;
    Packet {
        source: packet.destination,
        destination: packet.source,
        kind,
        command: CommandCode::from(code),
        spec: packet.spec,
        modifier: packet.modifier,
        mode: packet.mode,
        error: packet.error,
        tc: packet.tc,
        protection: packet.protection,
        fragment: cx.fragment,
        address: if lock { packet.address } else { packet.aux },
        // Without a result, a lock's value is what the requester sent [inferred].
        aux: if lock { packet.aux & !0xffff_ffff } else { 0 },
        len: packet.total,
        total: packet.total,
        offset: 0,
        tag: packet.tag,
        process: packet.process,
        payload: Payload::None,
    }
}

fn lock(
    cx: &mut Context<'_>,
    locks: &Locks,
    packet: &Packet,
    response: &mut Packet,
) -> Result<(), ErrorCounter> {
    let (compare, add) = ((packet.aux >> 32) as u32 as i32, packet.aux as u32 as i32);
    let number = packet.address as u32;
    let (added, value) = locks
        .execute(cx.memory, packet.destination.vpid, number, compare, add)
        .map_err(|_| regs::RESP_LOCK)?;
    response.aux = u64::from(value as u32) << 32 | u64::from(added);
    Ok(())
}

fn check_registers(packet: &Packet) -> Result<(), ErrorCounter> {
    if is_register_access(packet.address, packet.total) { Ok(()) } else { Err(regs::RESP_CMDT) }
}

fn source(cx: &mut Context<'_>, packet: &Packet) -> Result<Runs, ErrorCounter> {
    if packet.modifier.contains(Modifier::ERA) {
        // Nothing is attached to the model's Excellerate port.
        return Err(if cx.entry.excellerate() { regs::RESP_TRANS } else { regs::RESP_EXLDIS });
    }
    let vpid = packet.destination.vpid;
    cx.resolve(vpid, packet.mode, packet.address, packet.total.max(1), Access::READ).ok_or(regs::RESP_TRANS)
}

fn count(cx: &mut Context<'_>, packet: &Packet) {
    let counter = match packet.command.command() {
        Some(Code::LockReq) => counters::RESP_LOCK,
        Some(Code::QwGet) => counters::RESP_QW_GET,
        _ => counters::RESP_BT_GET,
    };
    cx.counters.add(counter, 1);
}

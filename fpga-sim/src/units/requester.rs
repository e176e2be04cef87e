//! Requester: decodes descriptors, checks and translates what they read here, and makes packets (spec 2).
//!
//! Errors: a command that the card cannot carry out moves no byte. It is counted, reported by a requester
//! notification where one was asked for, and travels on as an empty packet with its error bit, so that the
//! notification at the other side arrives too, with that bit \[inferred\].

use extoll_abi::regs::{self, ErrorCounter};
use extoll_abi::{Access, Address, Command as Code, ErrorUnits, Kind as Unit, Mode, Modifier, Request, Spec};

use crate::memory::Memory;
use crate::memory::runs::Runs;
use crate::packet::{Kind, Packet, Payload};
use crate::units::atu::Atu;
use crate::units::counters::{self, Counters, PerfCounter};
use crate::units::report::{self, Report};
use crate::units::vpid::VpidEntry;
use crate::units::wcb::Command;

/// What a unit works with besides its input.
pub struct Context<'a> {
    /// This card.
    pub node: u16,
    /// Main memory, for translation tables and range checks.
    pub memory: &'a dyn Memory,
    /// Translation.
    pub atu: &'a mut Atu,
    /// Counters.
    pub counters: &'a Counters,
    /// Table entry of the VPID at work here.
    pub entry: VpidEntry,
    /// Payload bytes of a full fragment.
    pub fragment: u16,
    /// Error notifications even where none is asked for (configuration bit 32).
    pub force_errors: bool,
}

impl Context<'_> {
    /// Bus memory of `len` bytes at `address`, by translation or physically.
    #[inline]
    pub fn resolve(&mut self, vpid: u8, mode: Mode, address: u64, len: u32, access: Access) -> Option<Runs> {
        span!("translation", node = self.node, vpid, address, len);
        if mode.contains(Mode::TE) {
            return self.atu.translate(self.memory, vpid, address, len, access).ok();
        }
        self.memory.contains(address, len as usize).then(|| Runs::one(address, len))
    }
}

/// One outgoing packet or bulk transfer, and what to report when it has left.
#[derive(Debug)]
pub struct Job {
    /// Complete but for the payload where there is a source; the header is that of the whole command.
    pub packet: Packet,
    /// Memory that the payload comes from.
    pub source: Option<Runs>,
    /// Notifications owed here afterwards.
    pub report: Option<Report>,
}

impl Job {
    /// Turns the job into its error form: no payload, error bits in packet and report.
    pub fn fail(&mut self, unit: ErrorUnits) {
        self.packet.error |= unit;
        self.packet.payload = Payload::None;
        self.source = None;
        if let Some(report) = &mut self.report {
            report.fail(unit);
        }
    }
}

/// The unit. Commands are numbered so that fragments of one command can be told from the next one's.
#[derive(Debug, Default)]
pub struct Requester {
    tag: u32,
}

impl Requester {
    /// Number of the next command, which who carries that out [uses](Requester::use_tag).
    #[inline]
    pub fn next_tag(&self) -> u32 {
        self.tag.wrapping_add(1)
    }

    /// A command has this number.
    #[inline]
    pub fn use_tag(&mut self, tag: u32) {
        self.tag = tag;
    }

    /// Carries out a command of `vpid`. `None`: dropped and counted, because nobody could be told (the page's
    /// VPID is not open).
    #[inline]
    pub fn execute(&mut self, cx: &mut Context<'_>, vpid: u8, command: &Command) -> Option<Job> {
        if !cx.entry.is_open() {
            cx.counters.error(regs::REQ_CMDT);
            return None;
        }
        self.tag = self.tag.wrapping_add(1);
        let header = command.descriptor.header();
        let packet = Packet {
            source: Address::new(cx.node, vpid),
            destination: header.dst,
            kind: Kind::Put,
            command: header.command,
            spec: header.spec,
            modifier: header.modifier,
            mode: report::mode(command.option.mode(), header.modifier),
            error: ErrorUnits::NONE,
            tc: cx.entry.traffic_class(command.option.traffic_class()),
            protection: cx.entry.protection(),
            fragment: cx.fragment,
            address: 0,
            aux: 0,
            len: 0,
            total: 0,
            offset: 0,
            tag: self.tag,
            process: command.process,
            payload: Payload::None,
        };
        let mut job = Job { packet, source: None, report: None };
        let request = command.descriptor.decode();
        let local = match &request {
            Ok((_, request)) => fill(&mut job.packet, request),
            Err(_) => command.descriptor.word[2],
        };
        let fault = match &request {
            Ok((_, request)) => check(cx, &job.packet, request),
            Err(_) => Some(regs::REQ_CMDT),
        };
        let failed = fault.or_else(|| match request {
            Ok((_, Request::Put { read, size, .. })) => {
                job.source = cx.resolve(vpid, job.packet.mode, read, size, Access::READ);
                job.source.is_none().then_some(regs::REQ_TRANS)
            }
            _ => None,
        });
        match failed {
            None => count(cx.counters, &job.packet),
            Some(counter) => {
                cx.counters.error(counter);
                job.fail(ErrorUnits::REQUESTER);
            }
        }
        if job.packet.spec.contains(Spec::REQUESTER) || failed.is_some() && cx.force_errors {
            let (remote, code) = (job.packet.destination, job.packet.command);
            job.report = Some(Report::new(Unit::Requester, &job.packet, vpid, remote, code, local));
        }
        Some(job)
    }
}

/// Writes the request's parameters into the packet; returns word 0 of the requester's notification.
fn fill(packet: &mut Packet, request: &Request) -> u64 {
    match *request {
        Request::Put { read, write, size, .. } => {
            (packet.address, packet.len, packet.total) = (write, size, size);
            read
        }
        Request::Get { read, write, size, .. } => {
            packet.kind = Kind::Get;
            (packet.address, packet.aux, packet.total) = (read, write, size);
            write
        }
        Request::NotificationPut { class, payload } => {
            packet.kind = Kind::Notification;
            (packet.aux, packet.len) = (payload, u32::from(class));
            payload
        }
        Request::ImmediatePut { count, write, value } => {
            (packet.address, packet.len, packet.total) = (write, u32::from(count), u32::from(count));
            packet.payload = Payload::copy_of(&value.to_le_bytes()[..usize::from(count.min(8))]);
            value
        }
        Request::Lock { number, compare, add, .. } => {
            packet.kind = Kind::Lock;
            packet.address = u64::from(number);
            packet.aux = u64::from(compare as u32) << 32 | u64::from(add as u32);
            0
        }
    }
}

/// What is wrong with a well-formed command, as the counter that says so.
fn check(cx: &Context<'_>, packet: &Packet, request: &Request) -> Option<ErrorCounter> {
    let excellerate = packet.modifier.intersects(Modifier::ERA | Modifier::EWA);
    if excellerate {
        if packet.mode.contains(Mode::RRA) {
            return Some(regs::REQ_EXLREG);
        }
        if !cx.entry.excellerate() {
            return Some(regs::REQ_EXLDIS);
        }
        // Nothing is attached to the model's Excellerate port, so nothing can be read from it.
        if packet.modifier.contains(Modifier::ERA) && matches!(request, Request::Put { .. }) {
            return Some(regs::REQ_TRANS);
        }
    }
    // An answer cannot come from a group [inferred].
    let answered = matches!(request, Request::Get { .. } | Request::Lock { .. });
    (answered && packet.modifier.contains(Modifier::MC)).then_some(regs::REQ_CMDT)
}

fn count(counters: &Counters, packet: &Packet) {
    let counter: PerfCounter = match packet.command.command() {
        Some(Code::BtPut) => counters::REQ_BT_PUT,
        Some(Code::QwPut) => counters::REQ_QW_PUT,
        Some(Code::BtGet) => counters::REQ_BT_GET,
        Some(Code::QwGet) => counters::REQ_QW_GET,
        Some(Code::NotificationPut) => counters::REQ_NOTI_PUT,
        Some(Code::ImmediatePut) => counters::REQ_IMM_PUT,
        Some(Code::LockReq) => counters::REQ_LOCK,
        _ => return,
    };
    counters.add(counter, 1);
}

//! What a unit will say about a command once it is done: which notifications, with which words (spec 3.1).

use extoll_abi::{
    Address, Body, Command, CommandCode, ErrorUnits, Kind, Mode, Modifier, Notification, NotificationHeader,
};

use crate::packet::Packet;
use crate::units::fragment;
use crate::units::notify::Notice;

/// The completion word of a triggered operation (model only, see [`trigger`](crate::units::trigger)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its address for the VPID (NLA).
    pub word: u64,
    /// How often the operation has been started: what the word says once that is over.
    pub times: u32,
}

/// Notifications that one unit owes about one command (or about one fragment of it).
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Queue that gets them.
    pub vpid: u8,
    /// Their header, errors included.
    pub header: NotificationHeader,
    /// Local address of the first byte, or word 0 where the body has no address.
    pub local: u64,
    /// Bytes that the report covers; class or lock result where there are none.
    pub len: u32,
    /// Payload bytes of a full fragment.
    pub fragment: u16,
    /// Number of the lock, else 0.
    pub lock: u32,
    /// No notification was asked for: there is only a word to write.
    pub silent: bool,
    /// Word that is written with the notifications.
    pub done: Option<Done>,
}

/// Notification mode bits of a command (spec 3.1): page option and modifiers.
pub fn mode(option: Mode, modifier: Modifier) -> Mode {
    let mut mode = option;
    for (bit, flag) in [(Modifier::EWA, Mode::EWA), (Modifier::NTR, Mode::NTR), (Modifier::ERA, Mode::ERA)] {
        if modifier.contains(bit) {
            mode |= flag;
        }
    }
    mode
}

impl Report {
    /// A report about `packet` by `unit`, for queue `vpid`; `local` as in [`Report::local`].
    pub fn new(
        unit: Kind,
        packet: &Packet,
        vpid: u8,
        remote: Address,
        command: CommandCode,
        local: u64,
    ) -> Report {
        let header =
            NotificationHeader { kind: unit, command, remote, mode: packet.mode, error: packet.error };
        let mut report = Report {
            vpid,
            header,
            local,
            len: packet.total,
            fragment: packet.fragment,
            lock: 0,
            silent: false,
            done: None,
        };
        match command.command() {
            Some(Command::NotificationPut) => {
                report.len = packet.len;
                report.local = packet.aux;
            }
            Some(Command::LockReq | Command::LockRsp) => {
                report.lock = packet.address as u32 & 0xff_ffff;
                // The requester reports the compare operand and result 0, the others the lock's (spec 5).
                report.local = packet.aux >> 32;
                report.len = if unit == Kind::Requester { 0 } else { packet.aux as u32 & 0xff };
            }
            _ => {}
        }
        report
    }

    /// Adds a failed unit.
    pub fn fail(&mut self, unit: ErrorUnits) {
        self.header.error |= unit;
    }

    /// The notifications in order: one for each fragment with NTR, else one with the last fragment's address and
    /// size.
    pub fn notices(&self, mut push: impl FnMut(Notice)) {
        if self.silent {
            return;
        }
        let total = self.len.max(1);
        match self.header.command.command() {
            Some(Command::NotificationPut) => {
                push(self.notice(Body::Class { class: self.len as u8, payload: self.local }));
            }
            Some(Command::LockReq | Command::LockRsp) => {
                let (result, value) = (self.len as u8, self.local as u32 as i32);
                push(self.notice(Body::Lock { number: self.lock, result, value }));
            }
            Some(Command::ImmediatePut) if self.header.kind == Kind::Requester => {
                push(self.notice(Body::Immediate { count: total.min(8) as u8, value: self.local }));
            }
            None => push(self.notice(Body::Unknown { field: 0, word0: self.local })),
            Some(command) if self.is_replicated(command) => {
                for (offset, len) in fragment::all(total, self.fragment) {
                    push(self.transfer(offset, len));
                }
            }
            Some(_) => {
                let (offset, len) = fragment::last(total, self.fragment);
                push(self.transfer(offset, len));
            }
        }
    }

    /// NTR replicates notifications of what travels in fragments: a get's request is one packet \[inferred\], and
    /// so is a command in its error form.
    fn is_replicated(&self, command: Command) -> bool {
        let one_packet =
            self.header.kind == Kind::Requester && matches!(command, Command::BtGet | Command::QwGet);
        self.header.mode.contains(Mode::NTR) && self.header.error.is_empty() && !one_packet
    }

    fn transfer(&self, offset: u32, size: u32) -> Notice {
        self.notice(Body::Transfer { size, address: self.local.wrapping_add(u64::from(offset)) })
    }

    fn notice(&self, body: Body) -> Notice {
        let entry = Notification::encode(&self.header, &body);
        debug_assert!(entry.is_ok(), "{:?} {body:?}: {entry:?}", self.header);
        Notice {
            vpid: self.vpid,
            unit: self.header.kind,
            interrupt: self.header.mode.contains(Mode::IRQ),
            entry: entry.unwrap_or_default(),
        }
    }
}

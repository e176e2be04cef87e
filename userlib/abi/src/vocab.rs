//! Words shared by descriptors and notifications.

use crate::bindings as facts;
use crate::bits::{OutOfRange, words_of_bits};
use std::fmt;

/// A port in the network: packets are routed by node and VPID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Address {
    /// Node id.
    pub node: u16,
    /// Virtual process id: a port of the node.
    pub vpid: u8,
}

impl Address {
    /// Port `vpid` of `node`.
    pub const fn new(node: u16, vpid: u8) -> Address {
        Address { node, vpid }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} vpid {}", self.node, self.vpid)
    }
}

/// Commands of the RMA unit (spec 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the standard ones
pub enum Command {
    BtGet = facts::EXTOLL_CMD_BT_GET as u8,
    QwGet = facts::EXTOLL_CMD_QW_GET as u8,
    BtPut = facts::EXTOLL_CMD_BT_PUT as u8,
    QwPut = facts::EXTOLL_CMD_QW_PUT as u8,
    NotificationPut = facts::EXTOLL_CMD_NOTIFICATION_PUT as u8,
    ImmediatePut = facts::EXTOLL_CMD_IMMEDIATE_PUT as u8,
    /// Only the hardware makes it: the data of a byte get.
    GetBtRsp = facts::EXTOLL_CMD_GET_BT_RSP as u8,
    /// Only the hardware makes it: the data of a quadword get.
    GetQwRsp = facts::EXTOLL_CMD_GET_QW_RSP as u8,
    LockReq = facts::EXTOLL_CMD_LOCK_REQ as u8,
    /// Only the hardware makes it: the answer to a lock request.
    LockRsp = facts::EXTOLL_CMD_LOCK_RSP as u8,
}

impl Command {
    /// Whether only the hardware makes this command (spec 2.2).
    #[inline]
    pub const fn hardware_only(self) -> bool {
        matches!(self, Command::GetBtRsp | Command::GetQwRsp | Command::LockRsp)
    }

    /// Whether the command moves quadwords: addresses and size are multiples of 8 (spec 2.2).
    #[inline]
    pub const fn is_quadword(self) -> bool {
        matches!(self, Command::QwGet | Command::QwPut | Command::GetQwRsp)
    }

    /// Whether the command's packets answer a request.
    #[inline]
    pub const fn is_response(self) -> bool {
        self.hardware_only()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::BtGet => "get (bytes)",
            Command::QwGet => "get (quadwords)",
            Command::BtPut => "put (bytes)",
            Command::QwPut => "put (quadwords)",
            Command::NotificationPut => "notification put",
            Command::ImmediatePut => "immediate put",
            Command::GetBtRsp => "get response (bytes)",
            Command::GetQwRsp => "get response (quadwords)",
            Command::LockReq => "lock request",
            Command::LockRsp => "lock response",
        })
    }
}

/// The four command bits as they stand in a word, legal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct CommandCode(u8);

impl CommandCode {
    /// The code, if it fits four bits.
    #[inline]
    pub const fn new(code: u8) -> Option<CommandCode> {
        if code < 16 { Some(CommandCode(code)) } else { None }
    }

    #[inline]
    pub(crate) const fn truncate(code: u64) -> CommandCode {
        CommandCode((code & 15) as u8)
    }

    /// The number, 0 to 15.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The command, or `None` for a code without one.
    #[inline]
    pub const fn command(self) -> Option<Command> {
        Some(match self.0 {
            0 => Command::BtGet,
            1 => Command::QwGet,
            2 => Command::BtPut,
            3 => Command::QwPut,
            5 => Command::NotificationPut,
            6 => Command::ImmediatePut,
            10 => Command::GetBtRsp,
            11 => Command::GetQwRsp,
            12 => Command::LockReq,
            13 => Command::LockRsp,
            _ => return None,
        })
    }
}

impl From<Command> for CommandCode {
    #[inline]
    fn from(command: Command) -> CommandCode {
        CommandCode(command as u8)
    }
}

impl fmt::Display for CommandCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.command() {
            Some(command) => command.fmt(f),
            None => write!(f, "illegal command {}", self.0),
        }
    }
}

bitflags::bitflags! {
    /// Notifications that a command asks for (spec 2.2).
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Spec: u8 {
        /// At the origin, when the request has left.
        const REQUESTER = facts::EXTOLL_SPEC_REQUESTER as u8;
        /// At the target of a get or a lock.
        const RESPONDER = facts::EXTOLL_SPEC_RESPONDER as u8;
        /// Where the data arrives.
        const COMPLETER = facts::EXTOLL_SPEC_COMPLETER as u8;
    }
}
words_of_bits!(Spec, none "none", str::to_lowercase);

bitflags::bitflags! {
    /// Modifiers of a command (spec 2.2).
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Modifier: u8 {
        /// The destination node is a multicast group.
        const MC = facts::EXTOLL_MOD_MC as u8;
        /// One notification for each network fragment.
        const NTR = facts::EXTOLL_MOD_NTR as u8;
        /// The read side is the on-chip Excellerate port.
        const ERA = facts::EXTOLL_MOD_ERA as u8;
        /// The write side is the on-chip Excellerate port.
        const EWA = facts::EXTOLL_MOD_EWA as u8;
    }
}
words_of_bits!(Modifier, none "none");

bitflags::bitflags! {
    /// How the noticed command ran (spec 3.1).
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Mode: u8 {
        /// Remote addresses were register-file offsets.
        const RRA = facts::EXTOLL_NOTI_MODE_RRA as u8;
        /// The command asked for interrupts.
        const IRQ = facts::EXTOLL_NOTI_MODE_IRQ as u8;
        /// Addresses were NLAs.
        const TE = facts::EXTOLL_NOTI_MODE_TE as u8;
        /// Excellerate write.
        const EWA = facts::EXTOLL_NOTI_MODE_EWA as u8;
        /// Notification for each fragment.
        const NTR = facts::EXTOLL_NOTI_MODE_NTR as u8;
        /// Excellerate read.
        const ERA = facts::EXTOLL_NOTI_MODE_ERA as u8;
    }
}
words_of_bits!(Mode, none "physical");

bitflags::bitflags! {
    /// Units that met an error (spec 3.1).
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct ErrorUnits: u8 {
        /// The requester.
        const REQUESTER = facts::EXTOLL_NOTI_ERROR_REQUESTER as u8;
        /// The responder.
        const RESPONDER = facts::EXTOLL_NOTI_ERROR_RESPONDER as u8;
        /// The completer.
        const COMPLETER = facts::EXTOLL_NOTI_ERROR_COMPLETER as u8;
    }
}
words_of_bits!(ErrorUnits, none "none", str::to_lowercase);

/// The part of a requester address that chooses how a command runs (spec 2.1): traffic class and three flags.
/// Each of a VPID's 32 requester pages stands for one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PageOption(u8);

impl PageOption {
    /// Physical addresses, traffic class 0.
    pub const PHYSICAL: PageOption = PageOption(facts::EXTOLL_OPTION_PHYSICAL as u8);
    /// Remote addresses are register-file offsets.
    pub const RRA: PageOption = PageOption(facts::EXTOLL_OPTION_RRA as u8);
    /// Raise an interrupt for every notification of the command.
    pub const IRQ: PageOption = PageOption(facts::EXTOLL_OPTION_IRQ as u8);
    /// Main-memory addresses are NLAs.
    pub const TE: PageOption = PageOption(facts::EXTOLL_OPTION_TE as u8);

    /// Option `bits`, if it is one of the 32.
    pub const fn new(bits: u8) -> Result<PageOption, OutOfRange> {
        if bits < 32 {
            Ok(PageOption(bits))
        } else {
            Err(OutOfRange { what: "requester page option", value: bits as u64, max: 31 })
        }
    }

    /// This option with traffic class `tc` (its two low bits count).
    pub const fn with_traffic_class(self, tc: u8) -> PageOption {
        PageOption(self.0 & !3 | tc & 3)
    }

    /// The five bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Traffic class, 0 to 3: indexes the VPID's tc0 to tc3 (spec 8.3).
    #[inline]
    pub const fn traffic_class(self) -> u8 {
        self.0 & 3
    }

    /// Whether every flag of `other` is set.
    #[inline]
    pub const fn contains(self, other: PageOption) -> bool {
        self.0 & other.0 == other.0
    }

    /// Offset in the RMA requester range of this option's page for the source VPID `vpid`.
    #[inline]
    pub const fn page_offset(self, vpid: u8) -> u64 {
        (self.0 as u64) << facts::EXTOLL_PAGE_OPTION_SHIFT | (vpid as u64) << facts::EXTOLL_PAGE_VPID_SHIFT
    }

    /// Option, source VPID and offset within the page of an offset in the RMA requester range; bits above
    /// the range's 32 MiB are ignored.
    #[inline]
    pub const fn from_offset(offset: u64) -> (PageOption, u8, u16) {
        let option = offset >> facts::EXTOLL_PAGE_OPTION_SHIFT & 31;
        (PageOption(option as u8), (offset >> facts::EXTOLL_PAGE_VPID_SHIFT) as u8, (offset & 0xfff) as u16)
    }

    /// Mode bits of the notifications of a command posted through this page.
    #[inline]
    pub const fn mode(self) -> Mode {
        // RRA 4, IRQ 8, TE 16 here; 1, 2, 4 in a notification.
        Mode::from_bits_truncate(self.0 >> 2 & 7)
    }
}

/// Translated addresses, traffic class 0: the default of librma2.
impl Default for PageOption {
    fn default() -> PageOption {
        PageOption::TE
    }
}

impl std::ops::BitOr for PageOption {
    type Output = PageOption;
    fn bitor(self, other: PageOption) -> PageOption {
        PageOption(self.0 | other.0)
    }
}

impl fmt::Display for PageOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, traffic class {}", self.mode(), self.traffic_class())
    }
}

impl fmt::Debug for PageOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageOption({self})")
    }
}

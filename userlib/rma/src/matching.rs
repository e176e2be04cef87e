//! Which notification a caller waits for.

use std::fmt;

use extoll_abi::{Address, Command, Kind, Notification};

/// A pattern of notifications; every part that is set must agree.
///
/// ```
/// use ggas_rma::{Address, Kind, Match};
/// let arrived = Match::any().kind(Kind::Completer).from(Address::new(1, 0)).class(7);
/// assert_eq!(arrived.to_string(), "a completer notification, remote node 1 vpid 0, class 7");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    kind: Option<Kind>,
    commands: Option<u16>,
    node: Option<u16>,
    vpid: Option<u8>,
    class: Option<u8>,
    lock: Option<u32>,
    error: Option<bool>,
    at: Option<u64>,
    last: Option<u64>,
    answer_at: Option<Address>,
}

impl Match {
    /// Every notification.
    pub const fn any() -> Match {
        Match {
            kind: None,
            commands: None,
            node: None,
            vpid: None,
            class: None,
            lock: None,
            error: None,
            at: None,
            last: None,
            answer_at: None,
        }
    }

    /// Written by this unit.
    pub const fn kind(self, kind: Kind) -> Match {
        Match { kind: Some(kind), ..self }
    }

    /// Of this command. The completer of a get or lock sees the response's command (spec 3.1). Several calls
    /// add up.
    pub const fn command(self, command: Command) -> Match {
        let others = match self.commands {
            Some(set) => set,
            None => 0,
        };
        Match { commands: Some(others | 1 << command as u16), ..self }
    }

    /// Of a put or immediate put.
    pub const fn puts(self) -> Match {
        self.command(Command::BtPut).command(Command::QwPut).command(Command::ImmediatePut)
    }

    /// Of a get, at either side.
    pub const fn gets(self) -> Match {
        self.command(Command::BtGet)
            .command(Command::QwGet)
            .command(Command::GetBtRsp)
            .command(Command::GetQwRsp)
    }

    /// Whose other side is this port.
    pub const fn from(self, remote: Address) -> Match {
        Match { node: Some(remote.node), vpid: Some(remote.vpid), ..self }
    }

    /// Whose other side is on this node.
    pub const fn from_node(self, node: u16) -> Match {
        Match { node: Some(node), ..self }
    }

    /// Whose other side has this VPID, on whatever node.
    pub const fn from_vpid(self, vpid: u8) -> Match {
        Match { vpid: Some(vpid), ..self }
    }

    /// A put or get whose last fragment begins at this local address (spec 3.1).
    pub const fn at(self, address: u64) -> Match {
        Match { at: Some(address), ..self }
    }

    /// A put or get whose last byte is at this local address.
    pub const fn ending_at(self, address: u64) -> Match {
        Match { last: Some(address), ..self }
    }

    /// A notification put of this class.
    pub const fn class(self, class: u8) -> Match {
        Match { class: Some(class), ..self }
    }

    /// A lock operation on this number.
    pub const fn lock(self, number: u32) -> Match {
        Match { lock: Some(number), ..self }
    }

    /// The answer to a lock operation as port `here` sees it, once for each: the responder's notification for an
    /// operation on `here`'s own locks, the completer's for one on another port's (spec 5).
    pub const fn lock_answer(self, here: Address) -> Match {
        let wanted = self.command(Command::LockReq).command(Command::LockRsp);
        Match { answer_at: Some(here), ..wanted }
    }

    /// With (`true`) or without (`false`) an error.
    pub const fn error(self, error: bool) -> Match {
        Match { error: Some(error), ..self }
    }

    /// The unit, if it is set.
    pub(crate) fn wanted_kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Node and VPID of the other side, as far as they are set.
    pub(crate) fn remote(&self) -> Option<(u16, Option<u8>)> {
        self.node.map(|node| (node, self.vpid))
    }

    /// Whether `notification` agrees.
    pub fn accepts(&self, notification: &Notification) -> bool {
        let command = notification.command();
        let of = |wanted: &[Command]| command.command().is_some_and(|c| wanted.contains(&c));
        let remote = notification.remote();
        self.kind.is_none_or(|kind| notification.kind() == Some(kind))
            && self.commands.is_none_or(|set| set >> command.get() & 1 == 1)
            && self.node.is_none_or(|node| remote.node == node)
            && self.vpid.is_none_or(|vpid| remote.vpid == vpid)
            && self.class.is_none_or(|class| of(&[Command::NotificationPut]) && notification.class() == class)
            && self.lock.is_none_or(|number| {
                of(&[Command::LockReq, Command::LockRsp]) && notification.lock_number() == number
            })
            && self.error.is_none_or(|error| notification.error().is_empty() != error)
            && self.answer_at.is_none_or(|here| match notification.kind() {
                Some(Kind::Responder) => true,
                Some(Kind::Completer) => remote != here,
                _ => false,
            })
            && self.at.is_none_or(|address| notification.word0 == address)
            && self.last.is_none_or(|address| {
                notification.word0.wrapping_add(u64::from(notification.size()) - 1) == address
            })
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "a {} notification", format!("{kind:?}").to_lowercase())?,
            None => f.write_str("a notification")?,
        }
        if let Some(set) = self.commands {
            write!(f, " of commands")?;
            for code in (0..16).filter(|code| set >> code & 1 == 1) {
                write!(f, " {code}")?;
            }
        }
        match (self.node, self.vpid) {
            (Some(node), Some(vpid)) => write!(f, ", remote {}", Address::new(node, vpid))?,
            (Some(node), None) => write!(f, ", remote node {node}")?,
            (None, Some(vpid)) => write!(f, ", remote vpid {vpid}")?,
            (None, None) => {}
        }
        for (what, address) in [("at", self.at), ("ending at", self.last)] {
            if let Some(address) = address {
                write!(f, ", {what} {address:#x}")?;
            }
        }
        if let Some(class) = self.class {
            write!(f, ", class {class}")?;
        }
        if let Some(lock) = self.lock {
            write!(f, ", lock {lock}")?;
        }
        match self.error {
            Some(true) => f.write_str(", with an error"),
            Some(false) => f.write_str(", without error"),
            None => Ok(()),
        }
    }
}

//! Descriptors and notifications in words, for people.

use crate::desc::{DecodeError, Descriptor, Header, Request};
use crate::noti::{Body, Kind, Notification, NotificationError, NotificationHeader};
use crate::vocab::{Command, ErrorUnits, Mode, Modifier, PageOption};
use std::fmt::{self, Display, Formatter};

/// An address as the requester page or the notification says it is meant.
struct Place {
    mode: Mode,
    /// On the side that register access concerns.
    remote: bool,
    address: u64,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = if self.remote && self.mode.contains(Mode::RRA) {
            "register"
        } else if self.mode.contains(Mode::TE) {
            "NLA"
        } else {
            "physical address"
        };
        write!(f, "{what} {:#x}", self.address)
    }
}

struct Destination(Header);

impl Display for Destination {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = if self.0.modifier.contains(Modifier::MC) { "multicast group" } else { "node" };
        write!(f, "{what} {} vpid {}", self.0.dst.node, self.0.dst.vpid)
    }
}

/// A descriptor in words; see [`Descriptor::display`].
#[derive(Debug, Clone, Copy)]
pub struct DescriptorDisplay {
    descriptor: Descriptor,
    option: PageOption,
}

impl Descriptor {
    /// The descriptor in words, as posted through the page of `option`. [`Descriptor`]'s own `Display` takes
    /// the default page.
    ///
    /// ```
    /// use extoll_abi::{Address, Descriptor, Modifier, PageOption, Request, Spec};
    /// let request = Request::Put { qw: false, read: 0x4000_0000, write: 0x80, size: 4096 };
    /// let spec = Spec::REQUESTER | Spec::COMPLETER;
    /// let descriptor = Descriptor::encode(Address::new(3, 7), spec, Modifier::NONE, &request)?;
    /// assert_eq!(
    ///     descriptor.to_string(),
    ///     "put (bytes) 4096 B from NLA 0x40000000 to node 3 vpid 7 at NLA 0x80, notify requester+completer"
    /// );
    /// assert!(descriptor.display(PageOption::RRA).to_string().contains("at register 0x80"));
    /// # Ok::<(), extoll_abi::EncodeError>(())
    /// ```
    pub fn display(&self, option: PageOption) -> DescriptorDisplay {
        DescriptorDisplay { descriptor: *self, option }
    }
}

impl Display for Descriptor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.display(PageOption::default()).fmt(f)
    }
}

impl Display for DescriptorDisplay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let header = self.descriptor.header();
        match self.descriptor.decode() {
            Ok((_, request)) => self.request(f, header, &request)?,
            Err(error) => {
                match error {
                    DecodeError::Unaligned => write!(f, "unaligned {}", header.command)?,
                    DecodeError::QuadwordCount(n) => write!(f, "{} with quadword count {n}", header.command)?,
                    DecodeError::HardwareOnly(command) => write!(f, "illegal {command}")?,
                    DecodeError::IllegalCommand(_) => header.command.fmt(f)?,
                }
                write!(f, " to {}", Destination(header))?;
            }
        }
        if !header.spec.is_empty() {
            write!(f, ", notify {}", header.spec)?;
        }
        if !header.modifier.is_empty() {
            write!(f, ", modifiers {}", header.modifier)?;
        }
        for (i, bits) in
            self.descriptor.reserved_bits().into_iter().enumerate().filter(|(_, bits)| *bits != 0)
        {
            write!(f, ", undefined bits {bits:#x} in word {i}")?;
        }
        Ok(())
    }
}

impl DescriptorDisplay {
    fn request(&self, f: &mut Formatter<'_>, header: Header, request: &Request) -> fmt::Result {
        let command = header.command;
        let destination = Destination(header);
        let local = |address| Place { mode: self.option.mode(), remote: false, address };
        let remote = |address| Place { mode: self.option.mode(), remote: true, address };
        match *request {
            Request::Put { read, write, size, .. } => {
                write!(f, "{command} {size} B from {} to {destination} at {}", local(read), remote(write))
            }
            Request::Get { read, write, size, .. } => {
                write!(f, "{command} {size} B from {destination} at {} to {}", remote(read), local(write))
            }
            Request::NotificationPut { class, payload } => {
                write!(f, "{command} class {class} payload {payload:#x} to {destination}")
            }
            Request::ImmediatePut { count, write, value } => {
                write!(f, "{command} {count} B of {value:#x} to {destination} at {}", remote(write))
            }
            Request::Lock { to_responder, number, compare, add } => {
                let unit = if to_responder { "responder" } else { "completer" };
                write!(f, "{command} {number} at {unit} of {destination}: if <= {compare}, add {add}")
            }
        }
    }
}

/// The notification in words.
///
/// ```
/// use extoll_abi::Notification;
/// let notification = Notification { word0: 0x4000_0000, word1: 0x0214_0003_0380_0fff };
/// assert_eq!(
///     notification.to_string(),
///     "completer notification of put (bytes) from node 3 vpid 7: last fragment 4096 B at NLA 0x40000000"
/// );
/// ```
impl Display for Notification {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (header, body) = match self.decode() {
            Ok(decoded) => decoded,
            Err(NotificationError::Free) => return f.write_str("free entry"),
            Err(_) => return write!(f, "no notification: {:#x} {:#x}", self.word0, self.word1),
        };
        let direction = if at_origin(&header) { "to" } else { "from" };
        write!(f, "{} notification of {} {direction} {}: ", header.kind, header.command, header.remote)?;
        body_in_words(f, &header, &body)?;
        let rest = [(Mode::IRQ, "IRQ"), (Mode::NTR, "NTR"), (Mode::ERA, "ERA"), (Mode::EWA, "EWA")];
        for (_, name) in rest.iter().filter(|(bit, _)| header.mode.contains(*bit)) {
            write!(f, ", {name}")?;
        }
        if header.error != ErrorUnits::NONE {
            write!(f, ", error in {}", header.error)?;
        }
        Ok(())
    }
}

/// In words, and the words of memory: for assertions and logs.
///
/// ```
/// use extoll_abi::Notification;
/// let notification = Notification { word0: 0x4000_0000, word1: 0x0214_0003_0380_0fff };
/// assert_eq!(
///     format!("{notification:?}"),
///     "Notification(0x40000000 0x214000303800fff: completer notification of put (bytes) from node 3 vpid 7: \
///      last fragment 4096 B at NLA 0x40000000)"
/// );
/// ```
impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Notification({:#x} {:#x}: {self})", self.word0, self.word1)
    }
}

/// Whether this side posted the command: the requester, and the completer of a response (spec 3.1).
fn at_origin(header: &NotificationHeader) -> bool {
    let response = header.command.command().is_some_and(Command::is_response);
    header.kind == Kind::Requester || header.kind == Kind::Completer && response
}

fn body_in_words(f: &mut Formatter<'_>, header: &NotificationHeader, body: &Body) -> fmt::Result {
    match *body {
        Body::Transfer { size, address } => {
            let place = Place { mode: header.mode, remote: !at_origin(header), address };
            write!(f, "last fragment {size} B at {place}")
        }
        Body::Class { class, payload } => write!(f, "class {class} payload {payload:#x}"),
        Body::Immediate { count, value } => write!(f, "{count} B of {value:#x}"),
        Body::Lock { number, result, value } => write!(f, "lock {number} result {result} value {value}"),
        Body::Unknown { field, word0 } => write!(f, "field {field:#x} word 0 {word0:#x}"),
    }
}

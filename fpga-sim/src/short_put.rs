//! Short puts: the packet that programs wait for most, with what differs between two of them and nothing else.

use extoll_abi::{Address, Command, CommandCode, ErrorUnits, Mode, Modifier, Spec};

use crate::packet::{Kind, NOBODY, Packet, Payload};

/// A put of one fragment of which nothing is unusual: to a translated address, without modifiers and errors. Its bytes go beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortPut {
    /// As of [`Packet`], from here on.
    pub source: Address,
    /// Receiver.
    pub destination: Address,
    /// [`Command::BtPut`], or [`Command::QwPut`].
    pub command: CommandCode,
    /// Notifications asked for.
    pub spec: Spec,
    /// Traffic class 0..3.
    pub tc: u8,
    /// Protection id of the sender's port.
    pub protection: u16,
    /// Payload bytes of a full fragment at the sender: no less than `len`.
    pub fragment: u16,
    /// NLA at the receiver.
    pub address: u64,
    /// Bytes, at least one.
    pub len: u32,
    /// The sender's count of commands.
    pub tag: u32,
    /// Which process is at the other end.
    pub process: u32,
}

/// How a short put runs.
pub(crate) const MODE: Mode = Mode::TE;

impl ShortPut {
    /// What a packet with these bytes is, if it is one.
    #[inline]
    pub fn of(packet: &Packet, bytes: &[u8]) -> Option<ShortPut> {
        let plain = (packet.kind == Kind::Put)
            & (packet.mode == MODE)
            & (packet.modifier == Modifier::NONE)
            & packet.error.is_empty()
            & matches!(packet.command.command(), Some(Command::BtPut | Command::QwPut))
            & (packet.process != NOBODY)
            & (packet.len as usize == bytes.len())
            & (packet.len == packet.total)
            & (packet.offset == 0)
            & (1..=u32::from(packet.fragment)).contains(&packet.len);
        let Packet { source, destination, command, spec, tc, protection, .. } = *packet;
        let Packet { fragment, address, len, tag, process, .. } = *packet;
        let put = ShortPut {
            source,
            destination,
            command,
            spec,
            tc,
            protection,
            fragment,
            address,
            len,
            tag,
            process,
        };
        plain.then_some(put)
    }

    /// The packet that it is.
    pub fn packet(&self, bytes: &[u8]) -> Packet {
        let ShortPut { source, destination, command, spec, tc, protection, .. } = *self;
        let ShortPut { fragment, address, len, tag, process, .. } = *self;
        Packet {
            source,
            destination,
            kind: Kind::Put,
            command,
            spec,
            modifier: Modifier::NONE,
            mode: MODE,
            error: ErrorUnits::NONE,
            tc,
            protection,
            fragment,
            address,
            aux: 0,
            len,
            total: len,
            offset: 0,
            tag,
            process,
            payload: Payload::copy_of(bytes),
        }
    }
}

//! Operation codes of reliable connections (IBTA table 38).

/// Where in its message a packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

impl Place {
    /// Whether a message begins here.
    pub fn begins(self) -> bool {
        matches!(self, Place::First | Place::Only)
    }

    /// Whether a message ends here.
    pub fn ends(self) -> bool {
        matches!(self, Place::Last | Place::Only)
    }

    /// The place of a packet that begins, ends, or does both or neither.
    pub fn of(begins: bool, ends: bool) -> Place {
        match (begins, ends) {
            (true, true) => Place::Only,
            (true, false) => Place::First,
            (false, true) => Place::Last,
            (false, false) => Place::Middle,
        }
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal),+ $(,)?) => {
        /// What a packet of a reliable connection is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$doc])* $name = $value),+
        }

        impl Opcode {
            /// All of them.
            pub const ALL: &[Opcode] = &[$(Opcode::$name),+];

            /// The operation that a byte names.
            pub fn of(byte: u8) -> Option<Opcode> {
                match byte {
                    $($value => Some(Opcode::$name),)+
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// Begins a send.
    SendFirst = 0x00,
    /// Continues a send.
    SendMiddle = 0x01,
    /// Ends a send.
    SendLast = 0x02,
    /// Ends a send, with an immediate value.
    SendLastImmediate = 0x03,
    /// A whole send.
    SendOnly = 0x04,
    /// A whole send, with an immediate value.
    SendOnlyImmediate = 0x05,
    /// Begins a write.
    WriteFirst = 0x06,
    /// Continues a write.
    WriteMiddle = 0x07,
    /// Ends a write.
    WriteLast = 0x08,
    /// Ends a write, with an immediate value.
    WriteLastImmediate = 0x09,
    /// A whole write.
    WriteOnly = 0x0a,
    /// A whole write, with an immediate value.
    WriteOnlyImmediate = 0x0b,
    /// Asks for memory.
    ReadRequest = 0x0c,
    /// Begins a read's answer.
    ReadResponseFirst = 0x0d,
    /// Continues a read's answer.
    ReadResponseMiddle = 0x0e,
    /// Ends a read's answer.
    ReadResponseLast = 0x0f,
    /// A read's whole answer.
    ReadResponseOnly = 0x10,
    /// Acknowledges, or says why not.
    Acknowledge = 0x11,
    /// An atomic operation's answer.
    AtomicAcknowledge = 0x12,
    /// Compare and swap.
    CompareSwap = 0x13,
    /// Fetch and add.
    FetchAdd = 0x14,
    /// Ends a send that invalidates a key.
    SendLastInvalidate = 0x16,
    /// A whole send that invalidates a key.
    SendOnlyInvalidate = 0x17,
}

impl Opcode {
    /// Where in its message the packet stands; requests of one packet are `Only`.
    pub fn place(self) -> Place {
        use Opcode::*;
        match self {
            SendFirst | WriteFirst | ReadResponseFirst => Place::First,
            SendMiddle | WriteMiddle | ReadResponseMiddle => Place::Middle,
            SendLast | SendLastImmediate | SendLastInvalidate | WriteLast | WriteLastImmediate
            | ReadResponseLast => Place::Last,
            _ => Place::Only,
        }
    }

    /// Whether it is part of a send.
    pub fn is_send(self) -> bool {
        (self as u8) <= 0x05 || (self as u8) >= 0x16
    }

    /// Whether it is part of a write.
    pub fn is_write(self) -> bool {
        (0x06..=0x0b).contains(&(self as u8))
    }

    /// Whether it answers a request: goes from the responder to the requester.
    pub fn is_response(self) -> bool {
        (0x0d..=0x12).contains(&(self as u8))
    }

    /// Whether it is part of a read's answer.
    pub fn is_read_response(self) -> bool {
        (0x0d..=0x10).contains(&(self as u8))
    }

    /// Whether it asks for an atomic operation.
    pub fn is_atomic(self) -> bool {
        matches!(self, Opcode::CompareSwap | Opcode::FetchAdd)
    }

    /// Whether it has an extended header for remote memory (RETH).
    pub fn has_reth(self) -> bool {
        (self.is_write() && self.place().begins()) || self == Opcode::ReadRequest
    }

    /// Whether it has an extended header of acknowledges (AETH): middle packets of answers have none.
    pub fn has_aeth(self) -> bool {
        self.is_response() && self != Opcode::ReadResponseMiddle
    }

    /// Whether it has an immediate value.
    pub fn has_immediate(self) -> bool {
        use Opcode::*;
        matches!(self, SendLastImmediate | SendOnlyImmediate | WriteLastImmediate | WriteOnlyImmediate)
    }

    /// Whether it names a key to invalidate.
    pub fn has_invalidate(self) -> bool {
        matches!(self, Opcode::SendLastInvalidate | Opcode::SendOnlyInvalidate)
    }

    /// Whether it may carry payload.
    pub fn has_payload(self) -> bool {
        self.is_send() || self.is_write() || self.is_read_response()
    }

    /// Bytes of the extended headers between BTH and payload.
    pub fn extended_len(self) -> usize {
        let atomic = if self.is_atomic() { 28 } else { 0 };
        let original = if self == Opcode::AtomicAcknowledge { 8 } else { 0 };
        let words = [self.has_reth().then_some(16), self.has_aeth().then_some(4)];
        let value = if self.has_immediate() || self.has_invalidate() { 4 } else { 0 };
        words.into_iter().flatten().sum::<usize>() + atomic + original + value
    }
}

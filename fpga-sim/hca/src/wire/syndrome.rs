//! What acknowledges say: syndromes, credits, times of a receiver that is not ready (IBTA 9.7.5.1, tables 43 to 47).

use super::WireError;

/// Why a request was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Nak {
    /// A packet before this one is missing.
    Sequence = 0,
    /// The request makes no sense here, or its lengths are wrong.
    InvalidRequest = 1,
    /// Key, rights or range forbid it.
    RemoteAccess = 2,
    /// The responder failed.
    RemoteOperation = 3,
}

/// The syndrome of an acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// All up to this number was executed. A credit code, see [`credits_of_code`]; 31: the responder does not count.
    Ack(u8),
    /// No receive is posted; a code of the time to wait, an index of [`RNR_NANOS`].
    NotReady(u8),
    /// Refused.
    Nak(Nak),
}

/// The credit code of a responder that does not count receives.
pub const NO_CREDITS: u8 = 31;

impl Syndrome {
    /// The byte in the header.
    pub fn byte(self) -> u8 {
        match self {
            Syndrome::Ack(code) => code & 0x1f,
            Syndrome::NotReady(code) => 0x20 | code & 0x1f,
            Syndrome::Nak(nak) => 0x60 | nak as u8,
        }
    }

    /// What a byte says.
    ///
    /// # Errors
    /// [`WireError::Syndrome`] for reserved values.
    pub fn of(byte: u8) -> Result<Syndrome, WireError> {
        Ok(match (byte >> 5, byte & 0x1f) {
            (0, code) => Syndrome::Ack(code),
            (1, code) => Syndrome::NotReady(code),
            (3, 0) => Syndrome::Nak(Nak::Sequence),
            (3, 1) => Syndrome::Nak(Nak::InvalidRequest),
            (3, 2) => Syndrome::Nak(Nak::RemoteAccess),
            (3, 3) => Syndrome::Nak(Nak::RemoteOperation),
            _ => return Err(WireError::Syndrome(byte)),
        })
    }
}

/// The header of acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// What became of the request.
    pub syndrome: Syndrome,
    /// How many messages the responder has executed, modulo 2^24.
    pub msn: u32,
}

/// Nanoseconds for each code of a receiver that is not ready (IBTA table 45).
pub const RNR_NANOS: [u64; 32] = {
    let hundredths_ms: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    let mut nanos = [0; 32];
    let mut code = 0;
    while code < 32 {
        nanos[code] = hundredths_ms[code] * 10_000;
        code += 1;
    }
    nanos
};

/// How many receives a credit code stands for: 0, 1, 2, 3, 4, 6, 8, 12, ... 32768. `None`: not counted.
pub fn credits_of_code(code: u8) -> Option<u32> {
    match u32::from(code) {
        code @ 0..=1 => Some(code),
        code @ 2..=30 if code % 2 == 0 => Some(1 << (code / 2)),
        code @ 2..=30 => Some(3 << (code / 2 - 1)),
        _ => None,
    }
}

/// The code of the most credits that are not above `receives`.
pub fn credit_code(receives: u32) -> u8 {
    // From 2 on there are two codes for each power of two: it, and one and a half of it.
    match receives {
        0 | 1 => receives as u8,
        _ => {
            let power = receives.ilog2();
            let half = receives >> (power - 1) & 1;
            (2 * power + half).min(30) as u8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_follow_the_standards_table() {
        let table: Vec<_> = (0..=31).map(credits_of_code).collect();
        let begin = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192].map(Some);
        assert_eq!(table[..16], begin);
        assert_eq!(table[28..], [Some(16384), Some(24576), Some(32768), None]);
        assert_eq!([0, 5, 7, 100_000].map(credit_code), [0, 4, 5, 30]);
        for receives in (0..50_000).chain([u32::MAX - 1, u32::MAX]) {
            let most = (0..=30).rev().find(|code| credits_of_code(*code).unwrap() <= receives);
            assert_eq!(Some(credit_code(receives)), most, "{receives}");
        }
    }

    #[test]
    fn times_follow_the_standards_table() {
        assert_eq!(
            [RNR_NANOS[0], RNR_NANOS[1], RNR_NANOS[12], RNR_NANOS[31]],
            [655_360_000, 10_000, 640_000, 491_520_000]
        );
    }

    #[test]
    fn bytes_are_read_as_written() {
        for byte in 0..=255u8 {
            if let Ok(syndrome) = Syndrome::of(byte) {
                assert_eq!(syndrome.byte(), byte);
            }
        }
        assert_eq!(Syndrome::of(0x64), Err(WireError::Syndrome(0x64)), "NAK 4 is of reliable datagrams");
        assert_eq!(Syndrome::of(0x40), Err(WireError::Syndrome(0x40)));
    }
}

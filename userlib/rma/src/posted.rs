//! What a port has posted, as far as it explains why a wait was in vain.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use extoll_abi::{Descriptor, Kind, Spec};

use crate::Match;

/// The notifications that the descriptors of a port asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It has posted nothing.
    Nothing,
    /// All that any of them asked for.
    Asking(Spec),
}

/// The same while it grows; of any thread.
#[derive(Debug, Default)]
pub(crate) struct Asked(AtomicU8);

/// Something was posted, whatever it asked for.
const ANY: u8 = 1 << 7;

impl Asked {
    /// A descriptor with this first word was posted.
    #[inline]
    pub(crate) fn note(&self, word0: u64) {
        let spec = Descriptor { word: [word0, 0, 0] }.header().spec;
        let bits = ANY | spec.bits();
        // Nearly always there already; a plain look leaves the line to all threads.
        if self.0.load(Ordering::Relaxed) & bits != bits {
            self.0.fetch_or(bits, Ordering::Relaxed);
        }
    }

    pub(crate) fn posted(&self) -> Posted {
        match self.0.load(Ordering::Relaxed) {
            0 => Posted::Nothing,
            bits => Posted::Asking(Spec::from_bits_truncate(bits & !ANY)),
        }
    }
}

/// What is likely wrong where a host waited in vain, and what to do.
pub(crate) struct Advice<'a> {
    pub(crate) wanted: &'a Match,
    pub(crate) posted: Posted,
}

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.wanted.wanted_kind();
        // What a port waits for that does not say is most often the other's data.
        let asked_for = kind.unwrap_or(Kind::Completer);
        let constant = format!("Spec::{}", asked_for.to_string().to_uppercase());
        let any = kind.is_none();
        match self.posted {
            Posted::Nothing => write!(
                f,
                "This port posted nothing, so a peer is to send it: check that what the peer posts asks for a \
                 {asked_for} notification ({constant})"
            )?,
            Posted::Asking(asked) if asked.is_empty() || !any && !asked.contains(spec_of(asked_for)) => {
                let what = kind.map_or("a".to_owned(), |kind| format!("a {kind}"));
                write!(
                    f,
                    "No descriptor that this port posted asked for {what} notification: set {constant} there or, if a \
                     peer is to send it, in what the peer posts"
                )?;
            }
            Posted::Asking(_) => {
                write!(f, "Check that what is to send it asks for a {asked_for} notification ({constant})")?;
            }
        }
        f.write_str(
            "; that the port is armed where kernels post (KernelPort::arm); and the error counters of both nodes",
        )
    }
}

fn spec_of(kind: Kind) -> Spec {
    match kind {
        Kind::Requester => Spec::REQUESTER,
        Kind::Responder => Spec::RESPONDER,
        Kind::Completer => Spec::COMPLETER,
    }
}

/// What of a port for kernels may explain a wait of theirs that was in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPortState {
    /// Whether it was armed when the wait ended ([`KernelPort::arm`](crate::KernelPort::arm)).
    pub armed: bool,
    /// What kernels posted through it. Of a slot ring, what still stands there; `None` where the ring is out of the
    /// host's reach.
    pub posted: Option<Posted>,
}

impl KernelPortState {
    /// What is likely wrong with a wait, and what to do; `notification`: it was one for a notification.
    pub(crate) fn advise(&self, f: &mut fmt::Formatter<'_>, notification: bool) -> fmt::Result {
        if !self.armed {
            return f.write_str(
                "; the port was not armed: call KernelPort::arm before the launch, and keep what it returns until the \
                 kernels have ended",
            );
        }
        let Some(posted) = self.posted.filter(|_| notification) else { return Ok(()) };
        match posted {
            Posted::Nothing => f.write_str(
                "; nothing was posted on this port: check that what its peers post asks for a completer notification \
                 (EXTOLL_SPEC_COMPLETER), and that their ports are armed",
            ),
            Posted::Asking(asked) => {
                let kinds = [Kind::Requester, Kind::Responder, Kind::Completer];
                let never = kinds.into_iter().filter(|kind| !asked.contains(spec_of(*kind)));
                let names: Vec<_> = never.map(|kind| kind.to_string()).collect();
                if names.is_empty() {
                    return Ok(());
                }
                write!(
                    f,
                    "; no descriptor that was posted on this port asked for a {} notification: if it waits for one, \
                     set EXTOLL_SPEC_* where it is asked for, here or at the peer",
                    names.join(" or ")
                )
            }
        }
    }
}

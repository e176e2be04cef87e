//! Which way payloads in GPU memory take: the one place that decides it.

use std::fmt;

use crate::error::WireError;
use crate::library::Library;
use crate::offer::Offer;

/// The variable that asks for a way.
const ASKED: &str = "GGAS_FABRIC_GPU";

/// How long payloads get from GPU memory to the wire, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuWay {
    /// The library reads and writes GPU memory.
    Direct,
    /// By way of the host's memory: our copies.
    Staged,
}

/// The way that was chosen for GPU memory, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuChoice {
    /// The way.
    pub way: GpuWay,
    /// Why.
    pub reason: GpuReason,
}

/// Why a [`GpuWay`] was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuReason {
    /// `GGAS_FABRIC_GPU` asks for it.
    Asked,
    /// The provider does not reach GPU memory.
    OutOfReach,
    /// Network devices read and write memory themselves.
    Rdma,
    /// The provider reaches it, but its processors copy all the same.
    Copies,
    /// This crate uses the library for host memory alone.
    NotUsed,
}

impl GpuChoice {
    /// The way of a provider: the one that is asked for; else direct where network devices reach GPU memory.
    ///
    /// # Errors
    /// [`WireError::Gpu`]: direct is asked for, and the provider does not reach GPU memory.
    pub(crate) fn of(library: Library, offer: &Offer, asked: Option<GpuWay>) -> Result<GpuChoice, WireError> {
        use GpuReason::{Asked, Copies, NotUsed, OutOfReach, Rdma};
        let used = library == Library::Ucx;
        let (way, reason) = match (asked, offer.gpu_memory) {
            (Some(GpuWay::Direct), reached) if !(reached && used) => {
                return Err(WireError::Gpu { library, provider: offer.provider.clone(), reached });
            }
            (Some(way), _) => (way, Asked),
            (None, false) => (GpuWay::Staged, OutOfReach),
            (None, true) if !used => (GpuWay::Staged, NotUsed),
            (None, true) if offer.rdma => (GpuWay::Direct, Rdma),
            (None, true) => (GpuWay::Staged, Copies),
        };
        Ok(GpuChoice { way, reason })
    }

    /// Whether the library reads and writes GPU memory.
    pub fn is_direct(self) -> bool {
        self.way == GpuWay::Direct
    }
}

impl fmt::Display for GpuWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GpuWay::Direct => "direct",
            GpuWay::Staged => "staged",
        })
    }
}

impl fmt::Display for GpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.way {
            GpuWay::Direct => "the library reads and writes it",
            GpuWay::Staged => "copied by way of host memory",
        };
        write!(f, "{}, {what}: ", self.way)?;
        match self.reason {
            GpuReason::Asked => write!(f, "{ASKED} asks for it"),
            GpuReason::OutOfReach => f.write_str("the provider does not reach GPU memory"),
            GpuReason::Rdma => f.write_str("network devices reach memory by themselves"),
            GpuReason::Copies => {
                write!(
                    f,
                    "no network device here reaches memory by itself ({ASKED}=direct has the library copy)"
                )
            }
            GpuReason::NotUsed => f.write_str("of this library GPU memory is not used"),
        }
    }
}

/// What the variable asks for.
pub(crate) fn asked() -> Result<Option<GpuWay>, WireError> {
    match std::env::var_os(ASKED) {
        None => Ok(None),
        Some(value) => asked_in(&value.to_string_lossy()),
    }
}

fn asked_in(value: &str) -> Result<Option<GpuWay>, WireError> {
    match value {
        "" => Ok(None),
        "direct" => Ok(Some(GpuWay::Direct)),
        "staged" => Ok(Some(GpuWay::Staged)),
        _ => Err(WireError::GpuWord { value: value.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(library: Library, gpu_memory: bool, rdma: bool, asked: &str) -> Result<GpuChoice, WireError> {
        let (provider, device) = ("all".to_owned(), "eth0".to_owned());
        let (fit, notifies, keeps_order, sleeps, write_max) = (true, true, true, true, 1 << 30);
        let offer =
            Offer { provider, device, write_max, fit, notifies, keeps_order, sleeps, gpu_memory, rdma };
        GpuChoice::of(library, &offer, asked_in(asked).unwrap())
    }

    #[test]
    fn direct_where_devices_reach_memory_or_somebody_asks() {
        use GpuReason::{Asked, Copies, NotUsed, OutOfReach, Rdma};
        let ucx = |gpu_memory, rdma, asked| {
            let GpuChoice { way, reason } = chosen(Library::Ucx, gpu_memory, rdma, asked).unwrap();
            (way, reason)
        };
        assert_eq!(ucx(true, true, ""), (GpuWay::Direct, Rdma));
        assert_eq!(ucx(true, false, ""), (GpuWay::Staged, Copies));
        assert_eq!(ucx(false, true, ""), (GpuWay::Staged, OutOfReach));
        assert_eq!(ucx(true, false, "direct"), (GpuWay::Direct, Asked));
        assert_eq!(ucx(true, true, "staged"), (GpuWay::Staged, Asked));
        assert_eq!(chosen(Library::Libfabric, true, true, "").unwrap().reason, NotUsed);
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        for (library, reached) in
            [(Library::Ucx, false), (Library::Libfabric, true), (Library::Libfabric, false)]
        {
            let error = chosen(library, reached, true, "direct").unwrap_err().to_string();
            assert!(error.contains("GGAS_FABRIC_GPU") && error.contains("all"), "{error}");
        }
        let error = asked_in("Direct").unwrap_err().to_string();
        assert!(error.contains("Direct") && error.contains("staged"), "{error}");
    }
}

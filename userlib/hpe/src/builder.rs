//! A runtime's settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ggas_gpu::Gpu;

use crate::context::{Context, Locking, Wait};
use crate::copy::Counters;
use crate::device::{CudaDevice, Device, ExecutorDevice};
use crate::direct::Direct;
use crate::error::HpeError;
use crate::fork;
use crate::objects::Objects;
use crate::pinned::Pool;
use crate::runtime::{Inner, Runtime};
use crate::segment::{PAGE, Segment};
use crate::shared::fault::Handler;
use crate::shared::object::{self, Between, Keeping};
use crate::shared::serve::{Desk, Server, pipe};
use crate::shared::track::Track;
use crate::shared::userfault::Userfault;
use crate::staged::Staging;

/// How the host's accesses to shared objects are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// `mprotect`; the handler of SIGSEGV serves a fault itself where the device can be called there, else has a thread do it.
    Protect,
    /// `mprotect`; a thread serves all faults.
    ProtectByThread,
    /// `userfaultfd`: a thread serves all faults, also those of system calls. Needs Linux 5.19, and the right to; before 6.4 blocks that
    /// are only read go back to the device, too.
    Userfault,
}

/// Settings of a [`Runtime`].
pub struct Builder {
    executors: usize,
    gpus: Vec<Gpu>,
    peers: bool,
    staging: Staging,
    buffer: usize,
    bound: usize,
    wait: Wait,
    locking: Locking,
    timeout: Duration,
    block: usize,
    shadow: bool,
    tracking: Tracking,
    between: Between,
    protects: bool,
    direct: bool,
    cufile: Option<PathBuf>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            executors: 0,
            gpus: Vec::new(),
            peers: true,
            staging: Staging::default(),
            buffer: 4 << 20,
            bound: 66 << 20,
            wait: Wait::SPIN_FIRST,
            locking: Locking::Short,
            timeout: Duration::from_secs(30),
            block: 64 << 10,
            shadow: true,
            tracking: Tracking::Protect,
            between: None,
            protects: true,
            direct: false,
            cufile: None,
        }
    }
}

impl Builder {
    /// So many devices of the CPU executor; none by default.
    #[must_use]
    pub fn executors(self, executors: usize) -> Builder {
        Builder { executors, ..self }
    }

    /// These GPUs; none by default.
    #[must_use]
    pub fn gpus(self, gpus: Vec<Gpu>) -> Builder {
        Builder { gpus, ..self }
    }

    /// Whether devices copy from each other's memory where they can (yes by default). Without, copies between them are staged, as
    /// between GPUs on different buses.
    #[must_use]
    pub fn peers(self, peers: bool) -> Builder {
        Builder { peers, ..self }
    }

    /// How copies between devices that are staged go through their pair of buffers; [`Staging::default`] by default.
    #[must_use]
    pub fn staging(self, staging: Staging) -> Builder {
        Builder { staging, ..self }
    }

    /// Bytes of a pinned buffer, 4 MiB by default, and the most bytes that are pinned at a time, 66 MiB by default: eight pairs of buffers,
    /// and 2 MiB for short copies, which wait for pairs where the bound has no room for both.
    #[must_use]
    pub fn pinned(self, buffer: usize, bound: usize) -> Builder {
        Builder { buffer, bound, ..self }
    }

    /// How threads wait for copies; [`Wait::SPIN_FIRST`] by default.
    #[must_use]
    pub fn wait(self, wait: Wait) -> Builder {
        Builder { wait, ..self }
    }

    /// How long a device's lock is held; [`Locking::Short`] by default.
    #[must_use]
    pub fn locking(self, locking: Locking) -> Builder {
        Builder { locking, ..self }
    }

    /// Bound of a wait for a copy, 30 s by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Builder {
        Builder { timeout, ..self }
    }

    /// Bytes of a block of shared objects, which is fetched and sent as one: whole pages, 64 KiB by default.
    #[must_use]
    pub fn block(self, block: usize) -> Builder {
        Builder { block, ..self }
    }

    /// Whether shared objects have a shadow mapping (yes by default). Without, threads may read halves of what arrives.
    #[must_use]
    pub fn shadow(self, shadow: bool) -> Builder {
        Builder { shadow, ..self }
    }

    /// How accesses to shared objects are seen; [`Tracking::Protect`] by default.
    #[must_use]
    pub fn tracking(self, tracking: Tracking) -> Builder {
        Builder { tracking, ..self }
    }

    /// Whether long transfers between regular files and GPUs go past memory of the host, by NVIDIA's libcufile, where it is installed and takes
    /// the file (no by default: what is in the page cache comes sooner through pinned buffers). [`Runtime::direct_storage`] says
    /// whether they do.
    #[must_use]
    pub fn direct_storage(self, direct: bool) -> Builder {
        Builder { direct, ..self }
    }

    /// The same by a library that has its calls, for devices of the executor, too: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn cufile(self, path: &Path) -> Builder {
        Builder { direct: true, cufile: Some(path.to_owned()), ..self }
    }

    /// Whether `userfaultfd` maps pages protected (yes by default), as Linux can since 6.4: for tests of what is done without.
    #[doc(hidden)]
    #[must_use]
    pub fn protects_at_once(self, protects: bool) -> Builder {
        Builder { protects, ..self }
    }

    /// Calls `look` between the halves of each copy of a shared object's block, for tests. It may run in a signal handler.
    #[doc(hidden)]
    #[must_use]
    pub fn between(self, look: impl Fn() + Send + Sync + 'static) -> Builder {
        Builder { between: Some(Arc::new(look)), ..self }
    }

    /// Makes the runtime, with executor devices first.
    ///
    /// # Errors
    /// [`HpeError::Devices`] without a device or with more than there are segments, [`HpeError::Reserve`], [`HpeError::Pinned`]; what
    /// the operating system or a driver refuses.
    pub fn build(self) -> Result<Runtime, HpeError> {
        let generation = fork::watch();
        let asked = self.executors + self.gpus.len();
        if asked == 0 || asked > usize::from(crate::address::MAX_DEVICES) {
            return Err(HpeError::Devices { asked, free: crate::segment::free() });
        }
        let mut segments = Vec::new();
        let mut contexts = Vec::new();
        for index in 0..asked {
            let segment = Segment::reserve().map_err(|error| match error {
                HpeError::Devices { free, .. } => HpeError::Devices { asked, free: free + index },
                error => error,
            })?;
            let id = segment.device();
            let device: Arc<dyn Device> = match index.checked_sub(self.executors) {
                None => Arc::new(ExecutorDevice::new(id)?),
                Some(gpu) => Arc::new(CudaDevice::new(self.gpus[gpu].clone())?),
            };
            contexts.push(Context::new(id, device, self.wait, self.locking, self.timeout));
            segments.push(Arc::new(segment));
        }
        let (requests, hand_over) = pipe()?;
        let keeping = Arc::new(Keeping {
            track: match self.tracking {
                Tracking::Userfault => Track::Userfault(Userfault::new(self.protects)?),
                Tracking::Protect | Tracking::ProtectByThread => Track::Protect,
            },
            shadow: self.shadow,
            block: self.block.max(1).next_multiple_of(PAGE),
            between: self.between,
            counters: object::Counters::default(),
            desk: Desk::new(hand_over),
            by_thread: self.tracking == Tracking::ProtectByThread,
        });
        let inner = Inner {
            generation,
            timeout: self.timeout,
            network: std::sync::OnceLock::new(),
            direct: match self.direct {
                true => Direct::open(self.cufile.as_deref(), self.gpus.first()),
                false => Err("nobody asked for it: Builder::direct_storage".to_owned()),
            },
            objects: Objects::default(),
            _handler: Handler::install()?,
            _server: Server::start(requests, keeping.clone())?,
            keeping,
            pool: Pool::new(self.buffer, self.bound, self.gpus.into_iter().next())?,
            counters: Counters::default(),
            peers: self.peers,
            staging: self.staging,
            contexts,
            segments,
        };
        Ok(Runtime { inner: Arc::new(inner) })
    }
}

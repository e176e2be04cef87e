//! Contexts: an adapter, its page of doorbells, and its queue pairs by number.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use extoll_abi::layout::ggas_report;
use extoll_sim::memory::HostMemory;
use ggas_hca::formats::Format;
use ggas_hca::{Domain, Event, Front, Network};
use ggas_kernels::{KernelMem, Processor};

use crate::VerbsError;
use crate::doorbells::Doorbells;
use crate::layout::{GGAS_IBV_MLX4, GGAS_IBV_MLX5, ggas_ibv_ctx, ggas_ibv_qp};
use crate::qp::Rings;

/// Places of the table of queue pairs that kernels look into.
pub(crate) const QP_TABLE: u32 = 256;
/// How long a kernel waits for a completion, if nobody says.
const TIMEOUT_NS: u64 = 20_000_000_000;

/// An adapter that was opened: every object belongs to one.
pub struct Context {
    pub(crate) network: Arc<Network>,
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) processor: Processor,
    pub(crate) number: usize,
    pub(crate) format: Format,
    pub(crate) qps: Mutex<HashMap<u32, Weak<Rings>>>,
    /// struct ggas_ibv_ctx, its table, its report, and a queue pair that no completion names: places of those that are gone
    /// lead there.
    pub(crate) kernel: KernelMem,
    pub(crate) doorbells: Doorbells,
}

impl Context {
    const TABLE: usize = size_of::<ggas_ibv_ctx>().next_multiple_of(64);
    const REPORT: usize = Context::TABLE + QP_TABLE as usize * 8;
    const GONE: usize = Context::REPORT + size_of::<ggas_report>().next_multiple_of(64);

    /// Opens a new adapter in `network`, whose memory is `memory`, for kernels of `processor` and the host.
    ///
    /// # Errors
    /// [`VerbsError::Memory`]; [`VerbsError::Hca`] where the process has too many; on a GPU [`VerbsError::Thread`].
    pub fn open(
        network: &Arc<Network>,
        memory: &Arc<HostMemory>,
        processor: &Processor,
        format: Format,
    ) -> Result<Arc<Context>, VerbsError> {
        let number = network.add(format)?;
        let doorbells = Doorbells::new(network, number, format, processor)?;
        let kernel = processor.alloc(Context::GONE + size_of::<ggas_ibv_qp>())?;
        let context = ggas_ibv_ctx {
            uar: doorbells.address(),
            qp_table: kernel.address() + Context::TABLE as u64,
            report: kernel.address() + Context::REPORT as u64,
            timeout_ns: TIMEOUT_NS,
            qp_mask: QP_TABLE - 1,
            node: number as u32,
            format: match format {
                Format::Mlx4 => GGAS_IBV_MLX4,
                Format::Mlx5 => GGAS_IBV_MLX5,
            },
            reserved: 0,
        };
        kernel.write(0, crate::export::bytes(&context))?;
        let gone = [0xff; size_of::<ggas_ibv_qp>()];
        kernel.write(Context::GONE, &gone)?;
        Ok(Arc::new(Context {
            network: network.clone(),
            memory: memory.clone(),
            processor: processor.clone(),
            number,
            format,
            qps: Mutex::default(),
            kernel,
            doorbells,
        }))
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The network that its adapter is in.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// How long a kernel waits for a completion (`ggas_ibv_wait_cq`); at first 20 s.
    ///
    /// # Errors
    /// [`VerbsError::Memory`].
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), VerbsError> {
        let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Ok(self.kernel.store_u64(offset_of!(ggas_ibv_ctx, timeout_ns), ns)?)
    }

    /// What has happened that no completion says, oldest first: a queue pair has failed by itself, a completion queue was full.
    pub fn event(&self) -> Option<Event> {
        self.front(|front| front.hca.event())
    }

    /// A protection domain. One that kernels use is not for the host as well (thesis 5.5.1).
    pub fn pd(self: &Arc<Context>) -> Pd {
        let domain = self.front(|front| front.hca.domain());
        Pd { context: self.clone(), domain }
    }

    pub(crate) fn front<R>(&self, work: impl FnOnce(&mut Front) -> R) -> R {
        // Adapters of a network are never taken away.
        self.network.with(self.number, work).expect("the context's own adapter")
    }

    pub(crate) fn qps(&self) -> MutexGuard<'_, HashMap<u32, Weak<Rings>>> {
        self.qps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a queue pair's structure into the table that kernels look into.
    ///
    /// # Errors
    /// [`VerbsError::Exports`] where it is full.
    pub(crate) fn enter(&self, number: u32, address: u64) -> Result<(), VerbsError> {
        let _table = self.qps();
        let gone = self.gone();
        if self.change_table(number, |found| found == 0 || found == gone, address)? {
            return Ok(());
        }
        Err(VerbsError::Exports(QP_TABLE))
    }

    /// Takes it out again: those behind it are still found.
    pub(crate) fn leave(&self, number: u32, address: u64) -> Result<(), VerbsError> {
        let _table = self.qps();
        self.change_table(number, |found| found == address, self.gone()).map(|_| ())
    }

    fn gone(&self) -> u64 {
        self.kernel.address() + Context::GONE as u64
    }

    fn change_table(&self, number: u32, is: impl Fn(u64) -> bool, to: u64) -> Result<bool, VerbsError> {
        for i in 0..QP_TABLE {
            let at = Context::TABLE + (number.wrapping_add(i) % QP_TABLE) as usize * 8;
            if is(self.kernel.load_u64(at)?) {
                self.kernel.store_u64(at, to)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A protection domain.
pub struct Pd {
    pub(crate) context: Arc<Context>,
    pub(crate) domain: Domain,
}

impl Pd {
    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

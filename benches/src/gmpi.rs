//! What the benchmarks of GMPI share: ranks of this process, by our own messages or by an MPI library.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ggas::Window;
use ggas_gmpi::carrier::mpi::Mpi;
use ggas_gmpi::carrier::own::{Opening, Own};
use ggas_gmpi::carrier::{Carrier, Operation};
use ggas_gmpi::{Class, Comm, Config, Direct, Gmpi, Span, Staging};
use ggas_kernels::KernelMem;

use crate::error::Doing;
use crate::setup::Setup;
use crate::space::window;
use crate::{BenchError, Options};

/// Whether an MPI library carries calls: one whose launcher started this process, unless `GGAS_GMPI` says otherwise.
pub(crate) fn is_by_mpi() -> bool {
    match std::env::var("GGAS_GMPI").as_deref() {
        Ok("own") => false,
        Ok("mpi") => true,
        _ => Mpi::is_launched(),
    }
}

/// A communicator whose messages go from kernel to kernel.
pub(crate) struct ByKernels {
    pub comm: Comm,
    window: Arc<Window>,
    /// Of the mailboxes in each part.
    end: usize,
}

impl ByKernels {
    /// Where kernels of `node` receive without a second copy.
    pub fn place(&self, node: u32) -> Result<u64, BenchError> {
        let member = self.window.member(node as usize).doing("choosing a member")?;
        Ok(member.pointer_of(node as usize).doing("looking for a part of a window")? + self.end as u64)
    }
}

/// The ranks of this process: one for each of its nodes, of the same number.
pub(crate) struct Ranks {
    pub gmpis: Vec<Gmpi>,
    /// What was attached to each.
    attached: AtomicUsize,
    timeout: Duration,
}

impl Ranks {
    /// By our own messages.
    pub fn own(setup: &Setup, config: &Config) -> Result<Ranks, BenchError> {
        const DOING: &str = "opening GMPI by our own messages";
        let open =
            |node| Opening::new(setup.node(node)?, node as usize, setup.options.nodes as usize).doing(DOING);
        let opened = setup.local().map(open).collect::<Result<Vec<_>, BenchError>>()?;
        let inboxes = setup.share(opened.iter().map(Opening::inbox).collect())?;
        let carriers = opened.into_iter().map(|opening| opening.connect(&inboxes));
        let open = |(node, own): (u32, Own)| {
            Gmpi::with(setup.processor(node), config, move || Ok(Box::new(own))).doing(DOING)
        };
        let gmpis = setup.local().zip(carriers).map(open).collect::<Result<Vec<_>, _>>()?;
        Ranks::checked(setup, gmpis)
    }

    /// By the MPI library that started the processes, each with one node.
    pub fn mpi(setup: &Setup, config: &Config) -> Result<Ranks, BenchError> {
        let node = setup.local().start;
        let gmpi = Gmpi::mpi(setup.processor(node), config, Staging::Needed).doing("opening GMPI by MPI")?;
        Ranks::checked(setup, vec![gmpi])
    }

    /// A world of node 0 alone.
    pub fn of_one(setup: &Setup, config: &Config) -> Result<Gmpi, BenchError> {
        let own =
            Own::local(std::slice::from_ref(setup.node(0)?)).doing("opening a carrier")?.into_iter().next();
        let own = own.ok_or_else(|| BenchError::Unsupported("a node makes one carrier".to_owned()))?;
        Gmpi::with(setup.processor(0), config, move || Ok(Box::new(own))).doing("opening GMPI")
    }

    fn checked(setup: &Setup, gmpis: Vec<Gmpi>) -> Result<Ranks, BenchError> {
        for (node, gmpi) in setup.local().zip(&gmpis) {
            if (gmpi.rank(), gmpi.size()) != (node, setup.options.nodes) {
                return Err(BenchError::Unsupported(format!(
                    "node {node} of {} is rank {} of {} ({}): start as many processes as nodes, by one launcher",
                    setup.options.nodes,
                    gmpi.rank(),
                    gmpi.size(),
                    gmpi.carrier()
                )));
            }
        }
        Ok(Ranks { gmpis, attached: AtomicUsize::new(0), timeout: setup.options.timeout })
    }

    pub fn carrier(&self) -> &str {
        self.gmpis.first().map_or("", Gmpi::carrier)
    }

    /// Attaches memory, one for each rank here; gives its number, for [`Span`]s.
    pub fn attach<'m>(
        &self,
        memories: impl Iterator<Item = &'m Arc<KernelMem>>,
    ) -> Result<usize, BenchError> {
        for (gmpi, memory) in self.gmpis.iter().zip(memories) {
            gmpi.attach(memory).doing("attaching memory")?;
        }
        Ok(self.attached.fetch_add(1, Ordering::Relaxed))
    }

    /// A communicator whose messages go from kernel to kernel, as all ranks name it, with `more` bytes of each part of its window for
    /// what is received.
    pub fn direct(&self, setup: &Setup, ports: u32, more: usize) -> Result<ByKernels, BenchError> {
        let mailboxes = Direct::default();
        let end = mailboxes.end(ports, setup.options.nodes as usize);
        let end = end.ok_or_else(|| BenchError::Unsupported("no room for mailboxes".to_owned()))?;
        let end = end.next_multiple_of(256);
        let (window, mailboxes) = (&window(setup, end + more)?, &mailboxes);
        let comms = together(self.gmpis.iter(), |gmpi| {
            gmpi.direct(Comm::WORLD, window, mailboxes).doing("making a direct communicator")
        })?;
        let comm = comms.first().copied();
        let comm = comm.ok_or_else(|| BenchError::Unsupported("a process without nodes".to_owned()))?;
        Ok(ByKernels { comm, window: window.clone(), end })
    }

    /// Has the thread of each rank's daemon do something with its carrier, all at the same time: an MPI library is that thread's alone.
    pub fn by_carriers<T: Send + 'static, W>(
        &self,
        bound: Duration,
        works: impl Iterator<Item = W>,
    ) -> Result<Vec<T>, BenchError>
    where
        W: FnOnce(&mut dyn Carrier) -> Result<T, BenchError> + Send + 'static,
    {
        together(self.gmpis.iter().zip(works), |(gmpi, work)| {
            let all = gmpi.by_carrier("a benchmark", bound, move |carrier| Ok(work(carrier)));
            all.doing("having the daemon communicate")?
        })
    }

    /// After kernels have ended.
    pub fn check(&self) -> Result<(), BenchError> {
        self.gmpis.iter().try_for_each(|gmpi| gmpi.check().doing("making calls"))
    }

    /// The end, of all ranks together.
    pub fn close(self) -> Result<(), BenchError> {
        together(self.gmpis.into_iter(), |gmpi| gmpi.close().doing("closing GMPI")).map(drop)
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// What nodes of this process do at the same time, a thread each.
pub(crate) fn together<T: Send, I: Send>(
    items: impl Iterator<Item = I>,
    one: impl Fn(I) -> Result<T, BenchError> + Sync,
) -> Result<Vec<T>, BenchError> {
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = items.map(|item| scope.spawn(move || one(item))).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect()
    })
}

/// How the daemon of a benchmark waits, and for how long.
pub(crate) fn config(options: &Options) -> Config {
    Config {
        placement: ggas_gmpi::Placement::Tagged,
        polling: ggas_gmpi::Polling::Yield,
        timeout: options.timeout,
        ..Config::default()
    }
}

fn refused(class: Class) -> BenchError {
    BenchError::Refused(class.to_string())
}

/// Starts operations of a host and waits until all are over, bounded.
pub(crate) fn finish(
    carrier: &mut dyn Carrier,
    operations: &[Operation],
    timeout: Duration,
) -> Result<(), BenchError> {
    let mut open = Vec::new();
    for operation in operations {
        open.push(carrier.start(operation).map_err(refused)?);
    }
    let begun = Instant::now();
    while let Some(token) = open.last() {
        match carrier.test(*token) {
            Some(ended) => {
                ended.map_err(refused)?;
                open.pop();
            }
            None if carrier.progress() => {}
            None if begun.elapsed() > timeout => {
                let what = format!("no end of an operation within {timeout:?}");
                return Err(BenchError::Refused(what));
            }
            None => std::thread::yield_now(),
        }
    }
    Ok(())
}

/// Bytes of attached memory.
pub(crate) fn span(index: usize, memory: &Arc<KernelMem>, offset: usize, len: usize) -> Span {
    Span { index, memory: memory.clone(), offset, len, shape: None }
}

/// What a carrier says of a call of its own.
pub(crate) fn plain(ended: Result<(), Class>) -> Result<(), BenchError> {
    ended.map_err(refused)
}

//! [`Gmpi`]: the host's side.

use std::mem::offset_of;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ggas::kernels::{KernelMem, Processor};
use ggas::{Job, ReportCell};
use ggas_clock::{Backoff, Clock, Step};

use crate::busy::Busy;
use crate::carrier::mpi::{Mpi, Staging};
use crate::carrier::own::Own;
use crate::carrier::{Carrier, Place};
use crate::daemon::Daemon;
use crate::direct::Placed;
use crate::layout::{GMPI_RANGES, gmpi_buf, gmpi_port, gmpi_range};
use crate::rings::{Rings, Store};
use crate::{Config, GmpiError};

type Task = Box<dyn FnOnce(&mut Daemon) + Send>;

/// What [`Gmpi::join`] found: GMPI, where kernels run, and the job, if it is one.
pub struct Joined {
    /// GMPI; goes before the job.
    pub gmpi: Gmpi,
    /// Where this process's kernels run.
    pub processor: Processor,
    /// The job.
    pub job: Option<Job>,
}

/// Whether an MPI library is to carry calls.
fn by_mpi() -> Result<bool, GmpiError> {
    match std::env::var("GGAS_GMPI").as_deref() {
        Ok("own") => Ok(false),
        Ok("mpi") => Mpi::must_have_a_launcher().map(|()| true),
        Ok(other) => Err(GmpiError::Mpi(format!("GGAS_GMPI is {other}: it has to be own or mpi"))),
        // A launcher of MPI may also be one that our jobs know (PMIx): its library comes first.
        Err(_) => Ok(Mpi::is_launched()),
    }
}

/// This process among those of its host, as the launchers of MPI libraries say: they take the host's GPUs in turn.
fn local_rank() -> u32 {
    let said = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];
    let said = said.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    said.unwrap_or(0)
}

/// GMPI of one process: rings that kernels write, and the daemon's thread that serves them until this is dropped.
///
/// Three steps: open it, [attach](Self::attach) the memory that kernels name in calls, and hand kernels its [`address`](Self::address),
/// a `gmpi_buf_t *`. After they have ended [`check`](Self::check) says what went wrong.
pub struct Gmpi {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<Result<(), GmpiError>>>,
    name: String,
    rank: u32,
    size: u32,
    report: ReportCell,
    busy: Arc<Busy>,
    /// How long the daemon may take to do what the host asks for, by which clock.
    bound: Duration,
    clock: Clock,
    // Of the rings, too, which the daemon uses: kernels write them even where its thread has ended.
    pub(crate) buf: KernelMem,
    _ports: KernelMem,
    _rings: Vec<Arc<Store>>,
    pub(crate) direct: Mutex<Option<Placed>>,
    /// How many memories kernels know.
    ranges: Mutex<u32>,
    pub(crate) processor: Processor,
    pub(crate) ports: u32,
    pub(crate) timeout: Duration,
}

impl Gmpi {
    /// Over our own messages, among the processes of a job. Collective.
    ///
    /// # Errors
    /// [`GmpiError::Config`]; no memory; processes that do not come.
    pub fn open(job: &Job, processor: &Processor, config: &Config) -> Result<Gmpi, GmpiError> {
        config.check()?;
        let own = Own::join(job, config.timeout)?;
        Gmpi::with(processor, config, move || Ok(Box::new(own)))
    }

    /// Over the MPI library whose `mpirun` or `srun` started this process. Collective. The daemon's thread initializes MPI unless the program has, and
    /// finalizes what it initialized when it is [closed](Self::close): MPI can be initialized once in a process, so a program that opens GMPI
    /// again initializes MPI itself, with `MPI_THREAD_MULTIPLE`.
    ///
    /// # Errors
    /// As of [`open`](Self::open); [`GmpiError::Mpi`] says what is missing.
    pub fn mpi(processor: &Processor, config: &Config, staging: Staging) -> Result<Gmpi, GmpiError> {
        let (timeout, clock) = (config.timeout, config.clock.clone());
        Gmpi::with(processor, config, move || Ok(Box::new(Mpi::open(staging)?.bound(timeout, clock))))
    }

    /// By whatever started this process: a job of `ggas run` by our own messages, an MPI launcher by its library; alone, a job of
    /// one. `GGAS_GMPI` (`own`, `mpi`) says otherwise. Collective.
    ///
    /// # Errors
    /// As of [`open`](Self::open) and [`mpi`](Self::mpi).
    pub fn join(config: &Config) -> Result<Joined, GmpiError> {
        config.check()?;
        if by_mpi()? {
            let (processor, _) = ggas::device::choose(None, None)?.processor(local_rank())?;
            let gmpi = Gmpi::mpi(&processor, config, Staging::Needed)?;
            return Ok(Joined { gmpi, processor, job: None });
        }
        let job = Job::join()?;
        let (processor, _) = job.processor()?;
        let gmpi = Gmpi::open(&job, &processor, config)?;
        Ok(Joined { gmpi, processor, job: Some(job) })
    }

    /// Over a carrier, which the daemon's thread makes: with an MPI library it alone calls it.
    ///
    /// # Errors
    /// [`GmpiError::Config`]; no memory; what making the carrier says.
    pub fn with(
        processor: &Processor,
        config: &Config,
        carrier: impl FnOnce() -> Result<Box<dyn Carrier>, GmpiError> + Send + 'static,
    ) -> Result<Gmpi, GmpiError> {
        config.check()?;
        let rings = (0..config.ports).map(|_| Rings::new(processor, config.placement, config.entries));
        let rings = rings.collect::<Result<Vec<_>, _>>()?;
        let _rings = rings.iter().map(Rings::store).collect();
        let report = ReportCell::new(processor)?;
        let (ports, buf) = place(processor, config, &rings, &report)?;
        let (tasks, receiver) = channel::<Task>();
        let (said, hears) = channel();
        let (config, count, timeout) = (config.clone(), config.ports, config.timeout);
        let (bound, clock) = (config.timeout.saturating_add(config.grace), config.host_clock.clone());
        let busy = Arc::new(Busy::default());
        let daemons_busy = busy.clone();
        let serve = move || {
            let carrier = carrier()?;
            let place = carrier.place(0).unwrap_or(Place { rank: 0, size: 1 });
            // Whoever opened waits for it, or is gone, and so will be the sender of tasks.
            let _ = said.send((carrier.name(), place));
            run(Daemon::new(carrier, rings, config.clone(), daemons_busy), &receiver, &config)
        };
        let thread = std::thread::Builder::new().name("gmpi-daemon".to_owned()).spawn(serve);
        let thread = thread.map_err(GmpiError::Thread)?;
        let what = "opening GMPI: the start of its carrier";
        let opened = hear(&hears, &clock, bound.saturating_add(OPENING));
        let opened = opened.map_err(|waited| GmpiError::Stuck { what, doing: busy.text(), waited })?;
        let Some((name, place)) = opened else { return Err(ended(thread)) };
        let head = offset_of!(gmpi_buf, rank);
        buf.write(head, &[place.rank.to_ne_bytes(), place.size.to_ne_bytes()].concat())?;
        let (tasks, thread) = (Some(tasks), Some(thread));
        let (rank, size) = (place.rank, place.size);
        let (_ports, ports, direct, processor) = (ports, count, Mutex::new(None), processor.clone());
        Ok(Gmpi {
            tasks,
            thread,
            name,
            rank,
            size,
            ranges: Mutex::new(0),
            report,
            busy,
            bound,
            clock,
            buf,
            _ports,
            _rings,
            direct,
            processor,
            ports,
            timeout,
        })
    }

    /// For kernels: the `gmpi_buf_t *`. Valid until this is dropped.
    pub fn address(&self) -> u64 {
        self.buf.address()
    }

    /// What carries calls.
    pub fn carrier(&self) -> &str {
        &self.name
    }

    /// This process's rank in the world.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Blocks that may call.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// Processes of the world.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Has the daemon do something, and waits for it, bounded: it may be in a call of a library that never returns.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&mut Daemon) -> Result<T, GmpiError> + Send + 'static,
    ) -> Result<T, GmpiError> {
        self.ask_within(what, self.bound, work)
    }

    fn ask_within<T: Send + 'static>(
        &self,
        what: &'static str,
        bound: Duration,
        work: impl FnOnce(&mut Daemon) -> Result<T, GmpiError> + Send + 'static,
    ) -> Result<T, GmpiError> {
        let (says, hears) = channel();
        let task: Task = Box::new(move |daemon| {
            // Who asked waits below, or has given up.
            daemon.busy.clone().with(what, || drop(says.send(work(daemon))));
        });
        let gone = || GmpiError::Gone("its thread has ended; what it logged says why".to_owned());
        self.tasks.as_ref().ok_or_else(gone)?.send(task).map_err(|_| gone())?;
        match hear(&hears, &self.clock, bound) {
            Ok(answer) => answer.ok_or_else(gone)?,
            Err(waited) => Err(GmpiError::Stuck { what, doing: self.busy.text(), waited }),
        }
    }

    /// Has the daemon's thread, which alone may, use what carries calls: for messages of host code beside those of kernels. Meanwhile no
    /// call of a kernel is served. `bound`: how long this may take.
    ///
    /// # Errors
    /// What `work` says; [`GmpiError::Stuck`].
    pub fn by_carrier<T: Send + 'static>(
        &self,
        what: &'static str,
        bound: Duration,
        work: impl FnOnce(&mut dyn Carrier) -> Result<T, GmpiError> + Send + 'static,
    ) -> Result<T, GmpiError> {
        self.ask_within(what, bound, move |daemon| work(&mut *daemon.carrier))
    }

    /// Ends the daemon's thread; one that is stuck is left behind.
    fn end(&mut self) -> Result<(), GmpiError> {
        self.tell_all_sent();
        drop(self.tasks.take());
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let mut wait = Backoff::new(&self.clock, self.bound);
        while !thread.is_finished() {
            let what = "the end of GMPI's daemon";
            wait.pause().map_err(|waited| GmpiError::Stuck { what, doing: self.busy.text(), waited })?;
        }
        thread.join().unwrap_or_else(|_| Err(GmpiError::Gone("its thread panicked".to_owned())))
    }

    /// Lets kernels name this memory in calls, until this is dropped. Other addresses get `GMPI_ERR_BUFFER`.
    ///
    /// # Errors
    /// [`GmpiError::Overlap`]; the carrier cannot use it.
    pub fn attach(&self, memory: &Arc<KernelMem>) -> Result<(), GmpiError> {
        let reached = reaches(&self.processor, memory);
        let range = [memory.address(), memory.len() as u64];
        let memory = memory.clone();
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask("attaching memory", move |daemon| {
            let index = daemon.attached.add(memory.clone(), reached)?;
            let attached = daemon.carrier.attach(index, memory);
            attached.inspect_err(|_| daemon.attached.remove_last())
        })?;
        if reached && *ranges < GMPI_RANGES {
            let at = offset_of!(gmpi_buf, range) + *ranges as usize * size_of::<gmpi_range>();
            self.buf.write_u64s(at, &range)?;
            *ranges += 1;
            self.buf.store_u32(offset_of!(gmpi_buf, ranges), *ranges)?;
        }
        Ok(())
    }

    /// After kernels have ended: whether all went well.
    ///
    /// # Errors
    /// [`GmpiError::OpenRequests`], of requests that are then given up; [`GmpiError::OpenMessages`]; [`GmpiError::NoPort`]; [`GmpiError::Kernel`]: a wait for the daemon
    /// ended without an answer.
    pub fn check(&self) -> Result<(), GmpiError> {
        if let Some(report) = self.report.get() {
            let no_port = report.status == extoll_abi::layout::GGAS_ERR_ARGUMENT;
            return Err(match no_port {
                true => GmpiError::NoPort { block: report.seen, ports: report.expected },
                false => GmpiError::Kernel(Box::new(report)),
            });
        }
        self.ask("a look at what kernels left open", Daemon::settle)?;
        self.direct.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(Ok(()), Placed::check)
    }

    /// Ends it together with all other processes; dropping it does not wait for them.
    ///
    /// # Errors
    /// As of [`check`](Self::check); processes that do not come to the end.
    pub fn close(mut self) -> Result<(), GmpiError> {
        let checked = self.check();
        let stuck = matches!(checked, Err(GmpiError::Stuck { .. }));
        let finished =
            if stuck { Ok(()) } else { self.ask("the end of GMPI", |daemon| daemon.carrier.finish()) };
        let ended = self.end();
        checked.and(finished).and(ended)
    }
}

impl Drop for Gmpi {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!("GMPI's daemon: {error}");
        }
    }
}

/// Whether kernels load from this memory and store there, so that short messages may travel in the rings.
fn reaches(processor: &Processor, memory: &KernelMem) -> bool {
    match (processor, memory.device_buffer()) {
        (Processor::Cpu(_), None) => true,
        (Processor::Gpu(gpu), Some(buffer)) => gpu.device() == buffer.gpu(),
        _ => false,
    }
}

/// Beside `Config::timeout` for the start of a carrier: a shim may have to be compiled.
const OPENING: Duration = Duration::from_secs(120);

/// What the daemon says; `None`: its thread has ended. How long was waited, where it says nothing.
fn hear<T>(hears: &Receiver<T>, clock: &Clock, bound: Duration) -> Result<Option<T>, Duration> {
    let mut wait = Backoff::new(clock, bound);
    loop {
        match hears.try_recv() {
            Ok(said) => return Ok(Some(said)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => wait.pause()?,
        }
    }
}

/// Why a thread that should run does not.
fn ended(thread: JoinHandle<Result<(), GmpiError>>) -> GmpiError {
    match thread.join() {
        Ok(Err(error)) => error,
        _ => GmpiError::Gone("its thread panicked at the start".to_owned()),
    }
}

/// What kernels read: ports, and the structure that names them.
fn place(
    processor: &Processor,
    config: &Config,
    rings: &[Rings],
    report: &ReportCell,
) -> Result<(KernelMem, KernelMem), GmpiError> {
    const PORT: usize = size_of::<gmpi_port>();
    let ports = processor.alloc(PORT * rings.len())?;
    for (i, rings) in rings.iter().enumerate() {
        let gmpi_port { requests, request_tail, answers, answer_tail, mask, form, .. } = rings.port();
        let numbers = u64::from(mask) | u64::from(form) << 32;
        ports.write_u64s(i * PORT, &[requests, request_tail, answers, answer_tail, numbers])?;
    }
    let buf = processor.alloc(size_of::<gmpi_buf>())?;
    let wait: Duration = config.timeout.saturating_add(config.grace);
    let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    let counts = u64::from(config.ports) | u64::from(config.single) << 32;
    buf.write_u64s(0, &[ports.address(), report.address(), wait, counts, 0, 0])?;
    Ok((ports, buf))
}

/// The daemon's thread, until whoever opened it lets go.
fn run(mut daemon: Daemon, tasks: &Receiver<Task>, config: &Config) -> Result<(), GmpiError> {
    let clock = config.clock.clone();
    let mut wait = Backoff::endless(config.polling.ladder(), &clock);
    loop {
        let mut moved = daemon.round()?;
        match tasks.try_recv() {
            Ok(task) => {
                task(&mut daemon);
                moved = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        if moved {
            wait = Backoff::endless(config.polling.ladder(), &clock);
            continue;
        }
        match wait.step() {
            Step::Again => {}
            Step::Sleep(left) => wait.nap(left),
            Step::Over(_) => wait = Backoff::endless(config.polling.ladder(), &clock),
        }
    }
}

//! GMPI between processes: each test starts itself as the ranks, by the variables of a job and by the launchers of MPI libraries that are
//! installed. `GGAS_TEST_MPI` names the `bin` folder of one more.

#[path = "gmpi/world.rs"]
mod world;

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use ggas::Window;
use ggas::kernels::{KernelMem, Processor, start};
use ggas_clock::{Backoff, Clock, Manual};
use ggas_gmpi::carrier::mpi::Mpi;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Config, Direct, Gmpi, GmpiError, Joined, PLACEMENTS, Placement, Staging};
use ggas_selftest::args::*;
use world::{BYTES, INT, LONG, Results, SOON, Script, WORLD, config};

/// Which part this process has.
const PART: &str = "GGAS_GMPI_TEST";

fn again(name: &str, command: &mut Command, part: &str) -> Child {
    command.args([name, "--exact", "--nocapture", "--test-threads", "1"]).env(PART, part);
    command.spawn().expect("started")
}

/// How the ranks of a job ended.
fn job(name: &str, ranks: u32) -> Vec<ExitStatus> {
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.env("GGAS_RANK", rank.to_string()).env("GGAS_SIZE", ranks.to_string());
        command.env("GGAS_JOB", format!("gmpi-{name}-{}", std::process::id())).env("GGAS_DEVICE", "sim");
        again(name, &mut command, "rank")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    children.into_iter().map(|mut child| child.wait().expect("ended")).collect()
}

/// Launcher and compiler of the MPI libraries that there are.
fn libraries() -> Vec<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        |name: &str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let both = |suffix: &str| Some((found(&format!("mpirun.{suffix}"))?, found(&format!("mpicc.{suffix}"))?));
    let given = std::env::var_os("GGAS_TEST_MPI").map(PathBuf::from);
    let given = given.map(|bin| (bin.join("mpirun"), bin.join("mpicc")));
    [both("openmpi"), both("mpich"), given].into_iter().flatten().collect()
}

/// Runs a test's part as two processes of each MPI library.
fn by_mpi(name: &str, part: &str) {
    let libraries = libraries();
    if libraries.is_empty() {
        println!("skipped: neither mpirun.openmpi nor mpirun.mpich with its mpicc is installed");
    }
    for (mpirun, mpicc) in libraries {
        let status = again(name, &mut two_by(&mpirun, &mpicc), part).wait().expect("ended");
        assert!(status.success(), "{}: {status}", mpirun.display());
    }
}

/// This program as two processes of an MPI library.
fn two_by(mpirun: &Path, mpicc: &Path) -> Command {
    let mut command = Command::new(mpirun);
    // More ranks than cores, and root in containers: Open MPI asks to be told.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.env("GGAS_GMPI_MPICC", mpicc).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.args(["-n", "2"]).arg(std::env::current_exe().expect("a name"));
    command
}

/// This process's part, if it is not the test itself.
fn part() -> Option<String> {
    std::env::var(PART).ok()
}

struct Here {
    gmpi: Gmpi,
    processor: Processor,
    memory: Arc<KernelMem>,
}

impl Here {
    fn with(gmpi: Gmpi, processor: Processor) -> Here {
        let memory = Arc::new(processor.alloc(BYTES).expect("memory"));
        gmpi.attach(&memory).expect("attached");
        Here { gmpi, processor, memory }
    }

    fn at(&self, offset: usize) -> u64 {
        self.memory.address() + offset as u64
    }

    fn run(&self, script: Script) -> Results {
        let results = Results::new(&self.processor, self.gmpi.address(), vec![script]);
        // SAFETY: the structure is this kernel's, and its memory lives until the kernel has ended.
        let launch =
            unsafe { ggas_selftest::launch(&self.processor, "ggas_selftest_gmpi", 1, 64, &results.args) };
        start(&[launch]).expect("it starts").wait(SOON).expect("it ends");
        results
    }

    fn succeed(&self, script: Script) -> Results {
        let results = self.run(script);
        assert!(results.errors(0).iter().all(|error| *error == 0), "{:?}", results.errors(0));
        results
    }

    fn read(&self, offset: usize, count: usize) -> Vec<u64> {
        self.memory.read_u64s(offset, count).expect("in range")
    }
}

/// Something of everything, with the neighbours in a ring.
fn everything(here: &Here) {
    let (rank, size) = (u64::from(here.gmpi.rank()), u64::from(here.gmpi.size()));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (at, half) = (here.at(0), here.at(BYTES / 2));
    for count in [0u64, 1, 505, 30_000] {
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, count, 1000 * rank])
            .call(GMPI_CALL_IRECV, &[half, count, LONG, before, 3, WORLD])
            .request(0)
            .call(GMPI_CALL_ISEND, &[at, count, LONG, next, 3, WORLD])
            .request(1)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
            .status(0);
        let results = here.succeed(script);
        assert_eq!(results.status(0), (before as i32, 3, 0, 8 * count));
        assert!(here.read(BYTES / 2, count as usize).into_iter().eq(1000 * before..1000 * before + count));
    }
    let sums = here.succeed(
        Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, 6, 10 * rank])
            .call(GMPI_CALL_ALLREDUCE, &[at, half, 6, LONG, GMPI_SUM.into(), WORLD])
            .call(GMPI_CALL_REDUCE, &[at, half + 64, 1, LONG, GMPI_MAX.into(), 0, WORLD])
            .call(GMPI_CALL_ALLGATHER, &[at, 1, LONG, half + 128, 1, LONG, WORLD])
            .call(GMPI_CALL_ALLTOALL, &[at, 1, LONG, half + 256, 1, LONG, WORLD])
            .call(GMPI_CALL_BCAST, &[at, 6, LONG, size - 1, WORLD])
            .call(GMPI_CALL_ALLREDUCE, &[GMPI_IN_PLACE.into(), at, 1, LONG, GMPI_PROD.into(), WORLD])
            .call(GMPI_CALL_RECV, &[at, 1, INT, -2i64 as u64, 0, WORLD])
            // Behind the barrier others may have gone on.
            .call(GMPI_CALL_IPROBE, &[u64::MAX, u64::MAX, WORLD])
            .call(GMPI_CALL_BARRIER, &[WORLD]),
    );
    assert_eq!(sums.value(8), 0, "nothing is under way");
    let of = |of: u64, i| 10 * of + i;
    assert_eq!(
        here.read(BYTES / 2, 6),
        (0..6).map(|i| (0..size).map(|r| of(r, i)).sum()).collect::<Vec<u64>>()
    );
    if rank == 0 {
        assert_eq!(here.read(BYTES / 2 + 64, 1), [10 * (size - 1)]);
    }
    assert_eq!(here.read(BYTES / 2 + 128, size as usize), (0..size).map(|r| of(r, 0)).collect::<Vec<_>>());
    assert_eq!(here.read(BYTES / 2 + 256, size as usize), (0..size).map(|r| of(r, rank)).collect::<Vec<_>>());
    assert_eq!(here.read(0, 2), [of(size - 1, 0).pow(size as u32), of(size - 1, 1)]);
    later(here);
    wrong(here);
    others(here);
}

/// Calls on several requests, a send and a receive in one, collectives that are waited for later.
fn later(here: &Here) {
    let (rank, size) = (u64::from(here.gmpi.rank()), u64::from(here.gmpi.size()));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (at, half) = (here.at(0), here.at(BYTES / 2));
    let both = |first: u64, second: u64| first | second << 32;
    for count in [1u64, 600, 20_000] {
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, count, 1000 * rank])
            .call(
                GMPI_CALL_SENDRECV,
                &[at, half, both(count, count), both(LONG, LONG), both(next, before), both(4, 4), WORLD],
            )
            .status(0);
        let results = here.succeed(script);
        assert_eq!(results.status(0), (before as i32, 4, 0, 8 * count));
        assert!(here.read(BYTES / 2, count as usize).into_iter().eq(1000 * before..1000 * before + count));
    }
    let script = Script::default()
        .call(GMPI_CALL_IALLREDUCE, &[at, half, 1, LONG, GMPI_SUM.into(), WORLD])
        .request(0)
        .call(GMPI_CALL_IBARRIER, &[WORLD])
        .request(1)
        .call(GMPI_CALL_IBCAST, &[at + 64, 1, LONG, 0, WORLD])
        .request(2)
        .call(GMPI_CALL_IREDUCE, &[at, half + 64, 1, LONG, GMPI_MAX.into(), 0, WORLD])
        .request(3)
        .call(GMPI_CALL_IALLGATHER, &[at, 1, LONG, half + 128, 1, LONG, WORLD])
        .request(4)
        .call(GMPI_CALL_IALLTOALL, &[at, 1, LONG, half + 256, 1, LONG, WORLD])
        .request(5)
        .call(GMPI_CALL_WAITANY, &[6])
        .request(0)
        .call(GMPI_CALL_WAITSOME, &[6, at + BYTES as u64 - 64])
        .request(0)
        .call(GMPI_CALL_WAITALL, &[6])
        .request(0)
        .call(GMPI_CALL_TESTALL, &[6])
        .request(0)
        .call(GMPI_CALL_TESTANY, &[6])
        .request(0);
    let results = here.succeed(script);
    assert!(results.value(6) < 6 && results.value(7) >= 1);
    assert_eq!((results.value(9), results.value(10)), (1, (GMPI_UNDEFINED as u32) << 1 | 1));
    assert_eq!(here.read(BYTES / 2, 1), [(0..size).map(|rank| 1000 * rank).sum::<u64>()]);
    assert_eq!(here.read(BYTES / 2 + 128, size as usize), (0..size).map(|of| 1000 * of).collect::<Vec<_>>());
    assert_eq!(here.read(BYTES / 2 + 256, 1), [rank]);
}

/// Errors of the carrier arrive as classes.
fn wrong(here: &Here) {
    let (rank, at) = (u64::from(here.gmpi.rank()), here.at(0));
    let script = Script::default().call(GMPI_CALL_SEND, &[at, 1, INT, 99, 0, WORLD]);
    assert_eq!(here.run(script).errors(0), [GMPI_ERR_RANK]);
    // Two longs for a receive of one.
    let script = match rank {
        0 => Script::default().call(GMPI_CALL_SEND, &[at, 2, LONG, 1, 0, WORLD]),
        1 => Script::default().call(GMPI_CALL_RECV, &[at, 1, LONG, 0, 0, WORLD]),
        _ => Script::default(),
    };
    let errors = here.run(script).errors(0);
    if rank == 1 {
        assert_eq!(errors, [GMPI_ERR_TRUNCATE]);
    }
}

/// Communicators and windows that the host makes.
fn others(here: &Here) {
    let (rank, size) = (here.gmpi.rank(), here.gmpi.size());
    let comm = here.gmpi.split(Comm::WORLD, Some(7), -(rank as i32)).expect("all came").expect("in it");
    let place = here.succeed(Script::default().call(GMPI_CALL_COMM_PLACE, &[comm.0])).value(0);
    assert_eq!(place, (size - 1 - rank) | size << 16);
    let win = here.gmpi.window(comm, &here.memory).expect("all came");
    let (at, half) = (here.at(0), BYTES as u64 / 2);
    let next = u64::from((size - rank) % size);
    let script = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 2000, 1000 * u64::from(rank)])
        .call(GMPI_CALL_WIN_FENCE, &[0, win.0])
        .call(GMPI_CALL_PUT, &[at, 2000, LONG, next, half, 2000, LONG, win.0])
        .call(GMPI_CALL_WIN_FENCE, &[0, win.0])
        .call(GMPI_CALL_GET, &[at + 16_000, 2000, LONG, next, half, 2000, LONG, win.0])
        .call(GMPI_CALL_WIN_FENCE, &[0, win.0]);
    here.succeed(script);
    // In the communicator rank r is the world's size - 1 - r: it puts to the one before it there, which is the next in the world.
    let put = here.read(BYTES / 2, 2000);
    let from = (0..size).find(|of| (size - *of) % size == size - 1 - rank).expect("one puts here");
    assert!(put.into_iter().eq(1000 * u64::from(from)..1000 * u64::from(from) + 2000), "puts");
    assert_eq!(here.read(16_000, 1), [1000 * u64::from(rank)], "gets");
    here.gmpi.free_window(win).expect("it was there");
    here.gmpi.free(comm).expect("it was there");
    let freed = here.run(Script::default().call(GMPI_CALL_BARRIER, &[comm.0]));
    assert_eq!(freed.errors(0), [GMPI_ERR_COMM]);
}

#[test]
fn everything_between_processes_of_a_job() {
    if part().is_some() {
        let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
        let here = Here::with(gmpi, processor);
        everything(&here);
        here.gmpi.close().expect("all came");
        drop(job);
        return;
    }
    for ranks in [1, 2, 3] {
        if ranks == 1 {
            continue;
        }
        let ends = job("everything_between_processes_of_a_job", ranks);
        assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
    }
}

#[test]
fn messages_go_from_kernel_to_kernel_between_processes() {
    const NAME: &str = "messages_go_from_kernel_to_kernel_between_processes";
    if part().is_none() {
        let ends = job(NAME, 3);
        return assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
    }
    let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
    let job = job.expect("variables of a job are set");
    let here = Here::with(gmpi, processor);
    let mailboxes = Direct { slots: 2, slot_bytes: 4096, offset: 0 };
    let bytes = mailboxes.end(1, job.size() as usize).expect("a window's worth");
    let window = Window::across(job.membership(), job.node(), &here.processor, bytes, SOON);
    let window = Arc::new(window.expect("a window"));
    let comm = here.gmpi.direct(Comm::WORLD, &window, &mailboxes).expect("all came").0;
    let (rank, size) = (u64::from(here.gmpi.rank()), u64::from(here.gmpi.size()));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let (at, half) = (here.at(0), here.at(BYTES / 2));
    for count in [0u64, 1, 32, 33, 30_000] {
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, count, 1000 * rank])
            .call(GMPI_CALL_ISEND, &[at, count, LONG, next, 3, comm])
            .request(1)
            .call(GMPI_CALL_IRECV, &[half, count, LONG, before, 3, comm])
            .request(0)
            .call(GMPI_CALL_WAITALL, &[2])
            .request(0)
            .status(0);
        let results = here.succeed(script);
        assert_eq!(results.status(0), (before as i32, 3, 0, 8 * count));
        assert!(here.read(BYTES / 2, count as usize).into_iter().eq(1000 * before..1000 * before + count));
    }
    // Collectives on it are the daemon's.
    here.succeed(Script::default().call(GMPI_CALL_BARRIER, &[comm]));
    here.gmpi.close().expect("all came");
}

#[test]
fn everything_by_mpi_libraries() {
    match part().as_deref() {
        Some("plain") => {
            let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
            assert!(job.is_none(), "an MPI launcher started this");
            println!("{}", gmpi.carrier());
            let here = Here::with(gmpi, processor);
            everything(&here);
            here.gmpi.close().expect("all came");
        }
        Some(_) => {
            // Through copies, as with GPU memory that the library does not take.
            let processor = Processor::cpu();
            let config = Config { placement: Placement::Tagged, ..config() };
            let here =
                Here::with(Gmpi::mpi(&processor, &config, Staging::Always).expect("all came"), processor);
            everything(&here);
            here.gmpi.close().expect("all came");
        }
        None => {
            for part in ["plain", "staged"] {
                by_mpi("everything_by_mpi_libraries", part);
            }
        }
    }
}

/// The MPI library that the compiler links with.
fn library_of(mpicc: &str) -> Option<CString> {
    let output = Command::new(mpicc).arg("-show").output().expect("the compiler runs");
    let said = String::from_utf8(output.stdout).expect("a command line");
    // libmpi.so may be a script of the linker's.
    let names = ["libmpi.so.40", "libmpi.so.12", "libmpi.so"];
    let folders = said.split_whitespace().filter_map(|word| word.strip_prefix("-L"));
    let library = folders.flat_map(|folder| names.map(|name| Path::new(folder).join(name)));
    let library = library.into_iter().find(|path| path.exists())?;
    Some(CString::new(library.into_os_string().into_vec()).expect("a path"))
}

/// Initializes MPI as a program of one thread does; false: it is not known where the library is.
fn initialize() -> bool {
    let mpicc = std::env::var("GGAS_GMPI_MPICC").expect("the test sets it");
    let Some(library) = library_of(&mpicc) else { return false };
    // SAFETY: loading runs the library's initialization; the function takes two pointers that may be null.
    unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        assert!(!library.is_null(), "it was found");
        let init = libc::dlsym(library, c"MPI_Init".as_ptr());
        let init: unsafe extern "C" fn(*mut i32, *mut u8) -> i32 = std::mem::transmute(init);
        init(std::ptr::null_mut(), std::ptr::null_mut()) == 0
    }
}

#[test]
fn a_program_that_initialized_mpi_for_one_thread_is_refused() {
    if part().is_none() {
        return by_mpi("a_program_that_initialized_mpi_for_one_thread_is_refused", "single");
    }
    if !initialize() {
        println!("skipped: mpicc -show names no folder with the library");
        return;
    }
    let error = Gmpi::join(&config()).err();
    let refused = matches!(&error, Some(GmpiError::Mpi(why)) if why.contains("MPI_THREAD_MULTIPLE"));
    assert!(refused, "{error:?}");
    // Its launcher waits for the end.
    // SAFETY: as above; MPI is initialized.
    unsafe {
        let finalize = libc::dlsym(libc::RTLD_DEFAULT, c"MPI_Finalize".as_ptr());
        let finalize: unsafe extern "C" fn() -> i32 = std::mem::transmute(finalize);
        assert_eq!(finalize(), 0);
    }
}

/// The test below.
const CARRIED: &str = "a_shim_that_was_compiled_elsewhere_needs_no_compiler";

#[test]
fn a_shim_that_was_compiled_elsewhere_needs_no_compiler() {
    if part().is_some() {
        let gmpi = Gmpi::mpi(&Processor::cpu(), &config(), Staging::Needed).expect("all came");
        return Here::with(gmpi, Processor::cpu()).gmpi.close().expect("all came");
    }
    for (mpirun, mpicc) in libraries() {
        let cache = folder(&format!("gmpi-shim-{}", std::process::id()));
        let with = |compiler: &Path, shim: Option<&Path>| {
            let mut command = two_by(&mpirun, compiler);
            command.env("XDG_CACHE_HOME", &cache);
            shim.map(|shim| command.env("GGAS_GMPI_SHIM", shim));
            again(CARRIED, &mut command, "carried").wait().expect("ended").success()
        };
        assert!(with(&mpicc, None), "{}: compiled here", mpirun.display());
        let files = std::fs::read_dir(cache.join("ggas-gmpi")).expect("the cache");
        let shim = files.map(|file| file.expect("a file").path()).find(|path| path.extension().is_some());
        let shim = shim.expect("a shim in it");
        let carried = cache.join("carried.so");
        std::fs::rename(&shim, &carried).expect("moved");
        let none = cache.join("no-mpicc");
        assert!(with(&none, Some(&carried)), "{}: carried here", mpirun.display());
        assert!(!with(&none, Some(&shim)), "{}: a file that is not there", mpirun.display());
        std::fs::remove_dir_all(&cache).expect("it was there");
    }
}

/// A folder of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn a_member_that_does_not_come_ends_a_call_of_the_host_by_mpi_too() {
    if part().is_none() {
        return by_mpi("a_member_that_does_not_come_ends_a_call_of_the_host_by_mpi_too", "late");
    }
    const LONG_TIME: Duration = Duration::from_secs(1_000_000);
    let (clock, time) = Manual::new();
    let processor = Processor::cpu();
    let carrier = move || Ok(Box::new(Mpi::open(Staging::Needed)?.bound(LONG_TIME, clock)) as Box<_>);
    let here = Here::with(Gmpi::with(&processor, &config(), carrier).expect("all came"), processor);
    let at = here.at(0);
    let split = || here.gmpi.split(Comm::WORLD, Some(0), 0);
    if here.gmpi.rank() == 0 {
        let error = std::thread::scope(|scope| {
            let asked = scope.spawn(split);
            while !asked.is_finished() {
                time.advance(2 * LONG_TIME);
                Clock::REAL.yield_now();
            }
            asked.join().expect("no panic").err()
        });
        assert!(matches!(error, Some(GmpiError::Timeout { .. })), "{error:?}");
        // The daemon still serves kernels.
        here.succeed(Script::default().call(GMPI_CALL_SEND, &[at, 1, LONG, 1, 0, WORLD]));
    } else {
        here.succeed(Script::default().call(GMPI_CALL_RECV, &[at, 1, LONG, 0, 0, WORLD]));
    }
    // Who comes again joins the meeting that goes on.
    let comm = split().expect("all came").expect("in it");
    here.succeed(Script::default().call(GMPI_CALL_BARRIER, &[comm.0]));
    here.gmpi.close().expect("all came");
}

/// Names the file in which a rank says how its opening ended.
const SAID: &str = "GGAS_GMPI_TEST_SAID";

#[test]
fn a_rank_that_never_comes_ends_the_opening_by_mpi_libraries() {
    const NAME: &str = "a_rank_that_never_comes_ends_the_opening_by_mpi_libraries";
    let Ok(said) = std::env::var(SAID) else {
        for (number, (mpirun, mpicc)) in libraries().into_iter().enumerate() {
            let said = format!("{}/gmpi-said-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
            // Launchers call it a failure that ranks end in the midst of MPI's start.
            again(NAME, two_by(&mpirun, &mpicc).env(SAID, &said), "never").wait().expect("ended");
            let text = std::fs::read_to_string(&said).expect("the first rank has said something");
            std::fs::remove_file(&said).expect("it was there");
            assert!(text.contains("the start of its carrier"), "{}: {text}", mpirun.display());
        }
        return;
    };
    let ranks = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    let rank = ranks.into_iter().find_map(|name| std::env::var(name).ok()).expect("a launcher says it");
    let mut wait = Backoff::new(Clock::REAL, SOON);
    if rank != "0" {
        while !Path::new(&said).exists() && wait.pause().is_ok() {}
        std::process::exit(0);
    }
    let (host_clock, time) = Manual::new();
    let config = Config { host_clock, ..config() };
    let error = std::thread::scope(|scope| {
        let opens = scope.spawn(|| Gmpi::mpi(&Processor::cpu(), &config, Staging::Needed).map(drop));
        // Time runs once the library is there, which begins then and waits for the other rank.
        let has_begun =
            || std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("libmpi"));
        let mut wait = Backoff::new(Clock::REAL, SOON);
        while !has_begun() {
            wait.pause().expect("the library is loaded");
        }
        while !opens.is_finished() {
            time.advance(SOON);
            Clock::REAL.yield_now();
        }
        opens.join().expect("no panic").err()
    });
    let text = error.map_or_else(|| "it opened".to_owned(), |error| error.to_string());
    let half = format!("{said}.half");
    std::fs::write(&half, text).and_then(|()| std::fs::rename(&half, &said)).expect("the folder is there");
    // The daemon's thread is left behind in the library.
    std::process::exit(0);
}

#[test]
fn a_process_that_dies_ends_the_waits_for_it() {
    if part().is_none() {
        let ends = job("a_process_that_dies_ends_the_waits_for_it", 2);
        assert!(ends[0].success() && ends[1].code() == Some(3), "{ends:?}");
        return;
    }
    let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
    let here = Here::with(gmpi, processor);
    let at = here.at(0);
    if here.gmpi.rank() == 1 {
        here.succeed(Script::default().call(GMPI_CALL_BARRIER, &[WORLD]));
        std::process::exit(3);
    }
    let script = Script::default()
        .call(GMPI_CALL_ISEND, &[at, 9000, LONG, 1, 0, WORLD])
        .call(GMPI_CALL_BARRIER, &[WORLD])
        .call(GMPI_CALL_WAIT, &[])
        .call(GMPI_CALL_RECV, &[at, 1, INT, 1, 0, WORLD])
        .call(GMPI_CALL_RECV, &[at, 1, INT, u64::MAX, 0, WORLD])
        .call(GMPI_CALL_SEND, &[at, 1, INT, 1, 0, WORLD])
        .call(GMPI_CALL_PROBE, &[1, 0, WORLD])
        .call(GMPI_CALL_BARRIER, &[WORLD]);
    let gone = GMPI_ERR_PROC_FAILED;
    assert_eq!(here.run(script).errors(0), [0, 0, gone, gone, gone, gone, gone, gone]);
    here.gmpi.close().expect("nobody is left to wait for");
    drop(job);
}

#[test]
fn kernels_of_a_process_that_dies_are_not_waited_for() {
    const NAME: &str = "kernels_of_a_process_that_dies_are_not_waited_for";
    if part().is_none() {
        let ends = job(NAME, 3);
        let codes: Vec<_> = ends.iter().map(ExitStatus::code).collect();
        return assert_eq!(codes, [Some(0), Some(3), Some(0)]);
    }
    // The other ranks' waits end long before their time.
    let Joined { gmpi, processor, job } =
        Gmpi::join(&Config { timeout: 10 * SOON, ..config() }).expect("all came");
    let job = job.expect("variables of a job are set");
    let here = Here::with(gmpi, processor);
    let mailboxes = Direct { slots: 2, slot_bytes: 4096, offset: 0 };
    let bytes = mailboxes.end(1, job.size() as usize).expect("a window's worth");
    let window = Window::across(job.membership(), job.node(), &here.processor, bytes, SOON);
    let window = Arc::new(window.expect("a window"));
    let comm = here.gmpi.direct(Comm::WORLD, &window, &mailboxes).expect("all came").0;
    let (at, rank) = (here.at(0), here.gmpi.rank());
    if rank == 1 {
        let last = [0, 2]
            .into_iter()
            .fold(Script::default(), |script, to| script.call(GMPI_CALL_SEND, &[at, 8, LONG, to, 0, comm]));
        here.succeed(last.call(GMPI_CALL_BARRIER, &[WORLD]));
        std::process::exit(3);
    }
    let (short, long) = ([at, 1, LONG, 1, 1, comm], [at, 9000, LONG, 1, 1, comm]);
    let other = 2 - u64::from(rank);
    let both = |first: u64, second: u64| first | second << 32;
    let script = Script::default()
        .call(GMPI_CALL_BARRIER, &[WORLD])
        // What it sent before is there.
        .call(GMPI_CALL_RECV, &[at, 8, LONG, 1, 0, comm])
        .call(GMPI_CALL_RECV, &short)
        .call(GMPI_CALL_IRECV, &short)
        .request(0)
        .call(GMPI_CALL_ISEND, &long)
        .request(1)
        .call(GMPI_CALL_IRECV, &short)
        .request(2)
        .call(GMPI_CALL_IRECV, &short)
        .request(3)
        .call(GMPI_CALL_WAIT, &[])
        .request(0)
        .status(0)
        .call(SELFTEST_GMPI_TEST_UNTIL, &[])
        .request(1)
        .call(GMPI_CALL_WAITANY, &[2])
        .request(2)
        .call(GMPI_CALL_WAITALL, &[2])
        .request(2)
        .call(GMPI_CALL_SEND, &long)
        .call(GMPI_CALL_SENDRECV, &[at, at + 64, both(1, 1), both(LONG, LONG), both(1, 1), 0, comm])
        // Others live.
        .call(GMPI_CALL_SENDRECV, &[at, at + 64, both(1, 1), both(LONG, LONG), both(other, other), 0, comm])
        .call(GMPI_CALL_BARRIER, &[comm]);
    // As many as there is room for are begun, and then none.
    let script = (0..GMPI_DIRECT_OPS).fold(script, |script, _| script.call(GMPI_CALL_IRECV, &short));
    let results = here.run(script);
    let gone = GMPI_ERR_PROC_FAILED;
    let errors = results.errors(0);
    let in_status = GMPI_ERR_IN_STATUS;
    let expected = [0, 0, gone, 0, 0, 0, 0, gone, gone, gone, in_status, gone, gone, 0, gone];
    assert_eq!(errors[..expected.len()], expected);
    assert_eq!(results.value(9), 0, "one of the two");
    assert_eq!(results.status(0), (1, -1, gone, 0));
    assert_eq!(errors.last(), Some(&gone));
    here.gmpi.check().expect("kernels were told: nothing is open");
    drop(here);
    drop(job);
}

#[test]
fn alone_it_is_a_job_of_one() {
    for placement in PLACEMENTS {
        let Joined { gmpi, processor, job } = Gmpi::join(&Config { placement, ..config() }).expect("alone");
        let here = Here::with(gmpi, processor);
        let at = here.at(0);
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, 9000, 5])
            .call(GMPI_CALL_ISEND, &[at, 9000, LONG, 0, 1, WORLD])
            .request(0)
            .call(GMPI_CALL_RECV, &[at + BYTES as u64 / 2, 9000, LONG, 0, 1, WORLD])
            .call(GMPI_CALL_WAIT, &[])
            .request(0)
            .call(GMPI_CALL_BARRIER, &[WORLD]);
        here.succeed(script);
        assert!(here.read(BYTES / 2, 9000).into_iter().eq(5..9005));
        here.gmpi.close().expect("alone");
        drop(job);
    }
}

#[test]
fn a_library_that_cannot_be_used_is_named() {
    if part().is_none() {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.env("GGAS_GMPI", "mpi").env("GGAS_GMPI_MPICC", "/does/not/exist/mpicc");
        let status =
            again("a_library_that_cannot_be_used_is_named", &mut command, "child").wait().expect("ended");
        assert!(status.success());
        return;
    }
    let error = Gmpi::join(&config()).err();
    assert!(matches!(&error, Some(GmpiError::Mpi(why)) if why.contains("/does/not/exist")), "{error:?}");
}

//! MPI libraries carry calls.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ggas::kernels::Processor;
use ggas_clock::{Backoff, Clock, Manual};
use ggas_gmpi::carrier::mpi::Mpi;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Config, Gmpi, GmpiError, Joined, Placement, Staging};
use ggas_selftest::args::SELFTEST_GMPI_FILL;

use crate::calls::everything;
use crate::places::receives_do_not_read_their_place;
use crate::start::{Here, again, by_mpi, libraries, part, two_by};
use crate::world::{BYTES, LONG, SOON, Script, WORLD, config};

#[test]
fn everything_by_mpi_libraries() {
    match part().as_deref() {
        Some("plain") => {
            let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
            assert!(job.is_none(), "an MPI launcher started this");
            println!("{}", gmpi.carrier());
            let here = Here::with(gmpi, processor);
            everything(&here);
            receives_do_not_read_their_place(&here);
            here.gmpi.close().expect("all came");
        }
        Some(_) => {
            // Through copies, as with GPU memory that the library does not take.
            let processor = Processor::cpu();
            let config = Config { placement: Placement::Tagged, ..config() };
            let here =
                Here::with(Gmpi::mpi(&processor, &config, Staging::Always).expect("all came"), processor);
            everything(&here);
            receives_do_not_read_their_place(&here);
            here.gmpi.close().expect("all came");
        }
        None => {
            for part in ["plain", "staged"] {
                by_mpi("libraries::everything_by_mpi_libraries", part);
            }
        }
    }
}

/// The MPI library that the compiler links with.
fn library_of(mpicc: &str) -> Option<CString> {
    let output = Command::new(mpicc).arg("-show").output().expect("the compiler runs");
    let said = String::from_utf8(output.stdout).expect("a command line");
    let words =
        |start: &'static str| said.split_whitespace().filter_map(move |word| word.strip_prefix(start));
    // Two libraries may be in one folder: -lmpi of the one, -lmpich of the other.
    let name = words("-l").find(|name| name.starts_with("mpi"))?;
    // Without a number it may be a script of the linker's.
    let names = ["so.40", "so.12", "so"].map(|end| format!("lib{name}.{end}"));
    let library = words("-L").flat_map(|folder| names.each_ref().map(|name| Path::new(folder).join(name)));
    let library = library.into_iter().find(|path| path.exists())?;
    Some(CString::new(library.into_os_string().into_vec()).expect("a path"))
}

/// Initializes MPI as a program of one thread does, or of several; false: it is not known where the library is.
fn initialize(threads: bool) -> bool {
    // Of mpi.h, MPI_THREAD_MULTIPLE in Open MPI and MPICH.
    const MULTIPLE: i32 = 3;
    let mpicc = std::env::var("GGAS_GMPI_MPICC").expect("the test sets it");
    let Some(library) = library_of(&mpicc) else { return false };
    // SAFETY: loading runs the library's initialization; the functions take two pointers that may be null, and where to write a number.
    unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        assert!(!library.is_null(), "it was found");
        if threads {
            let init = libc::dlsym(library, c"MPI_Init_thread".as_ptr());
            let init: unsafe extern "C" fn(*mut i32, *mut u8, i32, *mut i32) -> i32 =
                std::mem::transmute(init);
            let mut provided = 0;
            return init(std::ptr::null_mut(), std::ptr::null_mut(), MULTIPLE, &mut provided) == 0
                && provided == MULTIPLE;
        }
        let init = libc::dlsym(library, c"MPI_Init".as_ptr());
        let init: unsafe extern "C" fn(*mut i32, *mut u8) -> i32 = std::mem::transmute(init);
        init(std::ptr::null_mut(), std::ptr::null_mut()) == 0
    }
}

/// Ends what [`initialize`] began: the launcher waits for it.
fn finalize() {
    // SAFETY: the function takes nothing, and MPI is initialized.
    unsafe {
        let finalize = libc::dlsym(libc::RTLD_DEFAULT, c"MPI_Finalize".as_ptr());
        let finalize: unsafe extern "C" fn() -> i32 = std::mem::transmute(finalize);
        assert_eq!(finalize(), 0);
    }
}

/// What a process that opens GMPI does at least, with a window of all and one of its own.
fn windows() {
    let Joined { gmpi, processor, .. } = Gmpi::join(&config()).expect("all came");
    let here = Here::with(gmpi, processor);
    let rank = here.gmpi.rank();
    let alone = here.gmpi.split(Comm::WORLD, Some(rank), 0).expect("all came").expect("in it");
    for (comm, next) in [(Comm::WORLD, 1 - u64::from(rank)), (alone, 0)] {
        let win = here.gmpi.window(comm, &here.memory).expect("all came").0;
        let (at, half) = (here.at(0), BYTES as u64 / 2);
        let script = Script::default()
            .call(SELFTEST_GMPI_FILL, &[at, 2000, 7])
            .call(GMPI_CALL_WIN_FENCE, &[0, win])
            .call(GMPI_CALL_PUT, &[at, 1000, LONG, next, half, 1000, LONG, win])
            .call(GMPI_CALL_WIN_FLUSH, &[next, win])
            .call(GMPI_CALL_GET, &[at + 8000, 500, LONG, next, half + 8, 500, LONG, win])
            .call(GMPI_CALL_WIN_FENCE, &[0, win]);
        here.succeed(script);
        assert!(here.read(BYTES / 2, 1000).into_iter().eq(7..1007), "puts of rank {rank}");
        assert!(here.read(8000, 500).into_iter().eq(8..508), "gets of rank {rank}");
    }
    here.gmpi.close().expect("all came");
}

#[test]
fn a_member_alone_has_windows_by_mpi_libraries() {
    if part().is_none() {
        return by_mpi("libraries::a_member_alone_has_windows_by_mpi_libraries", "alone");
    }
    windows();
    // A rule of MPI, which the error names, with what to do.
    let error = Gmpi::join(&config()).err();
    let refused = matches!(&error, Some(GmpiError::Mpi(why)) if why.contains("MPI_THREAD_MULTIPLE"));
    assert!(refused, "{error:?}");
}

/// The library's number of a put that is over is another request's.
fn flush_behind_a_put_that_is_over() {
    let Joined { gmpi, processor, .. } = Gmpi::join(&config()).expect("all came");
    let here = Here::with(gmpi, processor);
    let (rank, other) = (here.gmpi.rank(), 1 - u64::from(here.gmpi.rank()));
    let alone = here.gmpi.split(Comm::WORLD, Some(rank), 0).expect("all came").expect("in it");
    let win = here.gmpi.window(alone, &here.memory).expect("all came").0;
    let (at, half) = (here.at(0), BYTES as u64 / 2);
    let script = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 100, 7 + other])
        .call(GMPI_CALL_PUT, &[at, 100, LONG, 0, half, 100, LONG, win])
        .call(GMPI_CALL_IRECV, &[at + 4096, 100, LONG, other, 5, WORLD])
        .request(0)
        .call(GMPI_CALL_WIN_FLUSH, &[0, win])
        .call(GMPI_CALL_SEND, &[at, 100, LONG, other, 5, WORLD])
        .call(GMPI_CALL_WAIT, &[])
        .request(0)
        .status(0);
    let results = here.succeed(script);
    assert_eq!(results.status(0), (other as i32, 5, 0, 800));
    assert!(here.read(4096, 100).into_iter().eq(7 + u64::from(rank)..107 + u64::from(rank)));
    here.gmpi.close().expect("all came");
}

#[test]
fn a_flush_waits_for_no_request_but_puts_and_gets() {
    if part().is_none() {
        return by_mpi("libraries::a_flush_waits_for_no_request_but_puts_and_gets", "flush");
    }
    flush_behind_a_put_that_is_over();
}

#[test]
fn a_program_with_its_own_mpi_opens_gmpi_again_and_again() {
    if part().is_none() {
        return by_mpi("libraries::a_program_with_its_own_mpi_opens_gmpi_again_and_again", "again");
    }
    if !initialize(true) {
        println!("skipped: mpicc -show names no folder with the library, or it is built without threads");
        return;
    }
    for _ in 0..3 {
        windows();
    }
    finalize();
}

#[test]
fn a_program_that_initialized_mpi_for_one_thread_is_refused() {
    if part().is_none() {
        return by_mpi("libraries::a_program_that_initialized_mpi_for_one_thread_is_refused", "single");
    }
    if !initialize(false) {
        println!("skipped: mpicc -show names no folder with the library");
        return;
    }
    let error = Gmpi::join(&config()).err();
    let refused = matches!(&error, Some(GmpiError::Mpi(why)) if why.contains("MPI_THREAD_MULTIPLE"));
    assert!(refused, "{error:?}");
    finalize();
}

/// The test below.
const CARRIED: &str = "libraries::a_shim_that_was_compiled_elsewhere_needs_no_compiler";

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
        return by_mpi("libraries::a_member_that_does_not_come_ends_a_call_of_the_host_by_mpi_too", "late");
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
    const NAME: &str = "libraries::a_rank_that_never_comes_ends_the_opening_by_mpi_libraries";
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
fn a_library_that_cannot_be_used_is_named() {
    if part().is_none() {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.env("GGAS_GMPI", "mpi").env("GGAS_GMPI_MPICC", "/does/not/exist/mpicc");
        let status = again("libraries::a_library_that_cannot_be_used_is_named", &mut command, "child")
            .wait()
            .expect("ended");
        assert!(status.success());
        return;
    }
    let error = Gmpi::join(&config()).err();
    assert!(matches!(&error, Some(GmpiError::Mpi(why)) if why.contains("/does/not/exist")), "{error:?}");
}

#[test]
fn a_job_of_ours_is_no_job_of_a_library() {
    if part().is_none() {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.env("GGAS_GMPI", "mpi").env("GGAS_SIZE", "2").env("GGAS_RANK", "0").env("GGAS_JOB", "nobody");
        // Nothing is compiled, nor loaded.
        command.env("GGAS_GMPI_MPICC", "/does/not/exist/mpicc");
        for launcher in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_FD", "PMIX_RANK"] {
            command.env_remove(launcher);
        }
        let name = "libraries::a_job_of_ours_is_no_job_of_a_library";
        assert!(again(name, &mut command, "child").wait().expect("ended").success());
        return;
    }
    let error = Gmpi::join(&config()).err();
    assert!(matches!(&error, Some(GmpiError::Mpi(why)) if why.contains("mpirun")), "{error:?}");
}

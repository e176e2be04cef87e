//! GMPI between processes: each test starts itself as the ranks, by the variables of a job and by the launchers of MPI libraries that are
//! installed. `GGAS_TEST_MPI` names the `bin` folder of one more.

mod calls;
mod deaths;
#[path = "../../../window/tests/common/mod.rs"]
#[allow(dead_code, reason = "ranks join by themselves")]
mod jobs;
mod libraries;
mod places;
mod programs;
#[path = "../gmpi/random/mod.rs"]
mod random;
#[path = "../gmpi/rooted.rs"]
mod rooted;
mod start;
#[path = "../../../window/tests/common/wire.rs"]
mod wire;
#[path = "../gmpi/world.rs"]
mod world;

use std::process::ExitStatus;
use std::sync::Arc;

use ggas::Window;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Config, Direct, Gmpi, Joined, PLACEMENTS};
use ggas_mapping::Pattern;
use ggas_selftest::args::*;

use calls::everything;
use start::{Here, job, job_over, job_told, part};
use world::{BYTES, LONG, SOON, Script, WORLD, config};

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
    for ranks in [2, 3] {
        let ends = job("everything_between_processes_of_a_job", ranks);
        assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
    }
}

/// What kernels ask the daemon for; they do not reach each other's memory.
#[test]
fn everything_between_hosts() {
    if part().is_some() {
        let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
        let job = job.expect("variables of a job are set");
        assert!(job.membership().spans_hosts());
        let here = Here::with(gmpi, processor);
        everything(&here);
        let mailboxes = Direct { slots: 2, slot_bytes: 1024, offset: 0 };
        let bytes = mailboxes.end(1, job.size() as usize).expect("a window's worth");
        let window = Window::across(job.membership(), job.node(), &here.processor, bytes, SOON);
        let direct = here.gmpi.direct(Comm::WORLD, &Arc::new(window.expect("a window")), &mailboxes);
        let refused = direct.expect_err("no stores between hosts").to_string();
        assert!(refused.contains("different hosts: use the communicator as it is"), "{refused}");
        here.gmpi.close().expect("all came");
        return;
    }
    if !wire::is_there() {
        return;
    }
    let ends = job_over("everything_between_hosts", &[0, 1, 1]);
    assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
}

#[test]
fn messages_go_from_kernel_to_kernel_between_processes() {
    const NAME: &str = "messages_go_from_kernel_to_kernel_between_processes";
    if part().is_none() {
        for ranks in [2, 3] {
            let ends = job(NAME, ranks);
            assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
        }
        return;
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

/// By `GGAS_TRACE` a process counts what its ports post, too: but for the carrier's, whose frames carry messages that count already.
#[test]
fn messages_of_a_traced_job_count_once() {
    const NAME: &str = "messages_of_a_traced_job_count_once";
    const QUIET: &str = "GGAS_TEST_QUIET";
    // Within a frame, and longer than that.
    let counts = [1u64, 100, 9000];
    if part().is_none() {
        let [all, setup] = ["0", "1"].map(|quiet| {
            let folder = tempfile::tempdir().expect("a folder");
            let prefix = folder.path().join("run");
            let told = [("GGAS_TRACE", prefix.to_str().expect("UTF-8")), (QUIET, quiet)];
            let ends = job_told(NAME, 2, &told);
            assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
            Pattern::traced(&prefix).expect("a file for each rank")
        });
        let more = |from, to| all.bytes(from, to) - setup.bytes(from, to);
        assert_eq!([more(0, 1), more(1, 0)], [8 * counts.iter().sum::<u64>(), 0]);
        return;
    }
    let Joined { gmpi, processor, job } = Gmpi::join(&config()).expect("all came");
    let here = Here::with(gmpi, processor);
    let at = here.at(0);
    let script = counts.iter().fold(Script::default(), |script, count| match here.gmpi.rank() {
        0 => script.call(GMPI_CALL_SEND, &[at, *count, LONG, 1, 5, WORLD]),
        _ => script.call(GMPI_CALL_RECV, &[at, *count, LONG, 0, 5, WORLD]),
    });
    if std::env::var(QUIET).as_deref() == Ok("0") {
        here.succeed(script);
    }
    here.gmpi.close().expect("all came");
    drop(job);
}

#[test]
fn alone_it_is_a_job_of_one() {
    ggas_selftest::add();
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

//! Processes that die.

use std::process::ExitStatus;
use std::sync::Arc;

use ggas::Window;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Config, Direct, Gmpi, Joined};
use ggas_selftest::args::*;

use crate::start::{Here, job, part};
use crate::world::{INT, LONG, SOON, Script, WORLD, config};

#[test]
fn a_process_that_dies_ends_the_waits_for_it() {
    if part().is_none() {
        let ends = job("deaths::a_process_that_dies_ends_the_waits_for_it", 2);
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
    const NAME: &str = "deaths::kernels_of_a_process_that_dies_are_not_waited_for";
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

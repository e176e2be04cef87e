//! What has no end ends in an error, in virtual time, and nothing is lost.

use std::time::Duration;

use ggas_clock::{Backoff, Clock, Manual};
use ggas_gmpi::layout::*;
use ggas_gmpi::{Comm, Config, GmpiError};
use ggas_selftest::args::{SELFTEST_GMPI_FILL, SELFTEST_GMPI_TEST_UNTIL};

use crate::world::*;

/// Between two steps of a virtual clock, which ends after 584 years: who waits by it must have a turn.
const LOOK: Duration = Duration::from_micros(100);
/// Messages in frames that a receiver keeps.
const CREDITS: u64 = 64;

#[test]
fn a_kernel_that_sends_to_one_that_does_not_receive_gets_an_error_and_loses_nothing() {
    // The sender's daemon's time runs by its looks alone.
    let (clock, _time) = Manual::new();
    let config = Config { timeout: Duration::from_millis(20), clock, ..config() };
    let world = World::with(2, &config, |own| own.at_most(4));
    let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
    let most = CREDITS + 4;
    let send = |script: Script, i: u64| {
        script.call(GMPI_CALL_ISEND, &[at + 8 * i, 1, LONG, 1, 3, WORLD]).request(i as u32)
    };
    let fill = Script::default().call(SELFTEST_GMPI_FILL, &[at, most + 1, 1000]);
    let script = (0..=most).fold(fill, send).call(GMPI_CALL_WAIT, &[]).request(most as u32);
    let results = world.run(vec![script, Script::default()]);
    let errors = results[0].errors(0);
    let (last, before) = errors.split_last().expect("calls");
    assert!(before.iter().all(|error| *error == 0), "{before:?}");
    assert_eq!(*last, GMPI_ERR_NO_MEM, "the wait for the one that was refused tells");
    // Those that were taken are all there. Receives are posted first, so no time-out is near.
    let receive = |script: Script, i: u64| {
        script.call(GMPI_CALL_IRECV, &[there + 8 * i, 1, LONG, 0, 3, WORLD]).request(i as u32)
    };
    let script = (0..most).fold(Script::default(), receive);
    let script =
        (0..most).fold(script, |script, i| script.call(SELFTEST_GMPI_TEST_UNTIL, &[]).request(i as u32));
    world.succeed(vec![Script::default(), script]);
    let came = world.ranks[1].memory.read_u64s(0, most as usize).expect("in range");
    assert!(came.iter().copied().eq(1000..1000 + most), "{came:?}");
}

#[test]
fn a_process_has_65_536_open_requests_and_no_more() {
    const MOST: u64 = 65_536;
    let world = World::new(2, &config());
    let at = world.ranks[0].at(0);
    // Receives that nobody sends to, each with a place of its own.
    let receive =
        |script: Script, i: u64| script.call(GMPI_CALL_IRECV, &[at, 0, LONG, 1, i, WORLD]).request(i as u32);
    let script = (0..=MOST).fold(Script::default(), receive);
    let script = script.call(GMPI_CALL_WAIT, &[]).request(MOST as u32);
    let results = world.run(vec![script, Script::default()]);
    let errors = results[0].errors(0);
    let (last, before) = errors.split_last().expect("calls");
    assert!(before.iter().all(|error| *error == 0), "none waits for an answer");
    assert_eq!(*last, GMPI_ERR_NO_MEM, "the wait for the one that was refused tells");
    let open = world.ranks[0].gmpi.check();
    assert!(matches!(open, Err(GmpiError::OpenRequests { count, .. }) if count as u64 == MOST), "{open:?}");
    // Those were given up, so that there is room again.
    let again = receive(Script::default(), 0).call(GMPI_CALL_ISEND, &[at, 0, LONG, 0, 0, WORLD]);
    assert_eq!(world.run(vec![again, Script::default()])[0].errors(0), [0, 0]);
}

#[test]
fn a_host_whose_daemon_is_stuck_is_told_in_which_call() {
    const LONG_TIME: Duration = Duration::from_secs(1000);
    let (host_clock, time) = Manual::new();
    let world = World::new(2, &Config { timeout: LONG_TIME, host_clock, ..config() });
    let [first, second] = &world.ranks[..] else { panic!("two ranks") };
    // The other member does not come, and the daemon waits for it; the host does not, once its time is over.
    let ask = |work: &(dyn Fn() -> Result<(), GmpiError> + Sync)| {
        std::thread::scope(|scope| {
            let asked = scope.spawn(work);
            while !asked.is_finished() {
                time.advance(2 * LONG_TIME);
                Clock::REAL.sleep(LOOK);
            }
            asked.join().expect("no panic")
        })
    };
    let error = ask(&|| first.gmpi.split(Comm::WORLD, Some(0), 0).map(drop));
    assert!(matches!(error, Err(GmpiError::Stuck { .. })), "{error:?}");
    let mut wait = Backoff::new(Clock::REAL, SOON);
    let says = "it is in a split of a communicator";
    while !ask(&|| first.gmpi.check()).is_err_and(|error| error.to_string().contains(says)) {
        wait.pause().expect("the daemon begins the split");
    }
    // It comes, and all goes on.
    second.gmpi.split(Comm::WORLD, Some(0), 0).expect("both are there");
    first.gmpi.check().expect("it answers again");
}

#[test]
fn an_opening_that_does_not_end_is_given_up() {
    let (host_clock, time) = Manual::new();
    let (release, hang) = std::sync::mpsc::channel::<()>();
    let config = Config { host_clock, ..config() };
    let opened = std::thread::scope(|scope| {
        let open = scope.spawn(|| {
            ggas_gmpi::Gmpi::with(&ggas::Processor::cpu(), &config, move || {
                // As MPI_Init does where a process does not come.
                let _ = hang.recv();
                Err(GmpiError::Gone("too late".to_owned()))
            })
        });
        while !open.is_finished() {
            time.advance(Duration::from_secs(3600));
            Clock::REAL.sleep(LOOK);
        }
        open.join().expect("no panic").map(drop)
    });
    assert!(matches!(opened, Err(GmpiError::Stuck { .. })), "{opened:?}");
    drop(release);
}

#[test]
fn a_persistent_send_for_which_there_is_no_room_begins_once_there_is() {
    let world = World::with(2, &config(), |own| own.at_most(1));
    let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
    let send = [at, 1000, LONG, 1, 0, WORLD];
    let first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 1000, 5])
        .call(GMPI_CALL_SEND_INIT, &send)
        .request(1)
        .call(GMPI_CALL_ISEND, &send)
        .request(0)
        .call(GMPI_CALL_START, &[])
        .request(1)
        .call(GMPI_CALL_SEND, &[at, 0, LONG, 1, 1, WORLD])
        .call(GMPI_CALL_WAITALL, &[2]);
    let second = Script::default()
        .call(GMPI_CALL_RECV, &[there, 1000, LONG, 0, 0, WORLD])
        .call(GMPI_CALL_RECV, &[there, 1000, LONG, 0, 0, WORLD])
        .call(GMPI_CALL_RECV, &[there, 0, LONG, 0, 1, WORLD]);
    world.succeed(vec![first, second]);
}

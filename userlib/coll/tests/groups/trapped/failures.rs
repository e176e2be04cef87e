//! Accesses that cannot end well: each ends its launch, says what it was, and leaves everything else as it is.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use extoll_sim::faults::{Event, Faults};
use extoll_sim::torus::Direction;
use ggas_kernels::{CpuConfig, KernelMem, LaunchError, Processor};
use ggas_selftest::args::*;

use super::counts::access;
use super::sides::{Links, SOON, Sides};

/// Bound of loads where one is to end by it.
const LIMIT: Duration = Duration::from_secs(3);
/// Naps of who waits make a wait so much longer.
const NAPS: Duration = Duration::from_millis(2);

/// Accesses of node 0 to node `peer` until one fails: how many went well, and the failure.
pub fn until_failure(sides: &Sides, peer: usize, what: u32) -> (u64, LaunchError) {
    let results = sides.cpu.alloc(16).unwrap();
    let args = selftest_access { rounds: u64::MAX, ..access(sides, peer, what, results.address()) };
    let error = sides.run("ggas_selftest_access", 1, &[args]).expect_err("no access fails");
    (results.load_u64(0).unwrap(), error)
}

/// That the failure names these, and where it was.
pub fn assert_says(error: &LaunchError, what: &str, parts: &[&str]) {
    let LaunchError::Access { kernel, block, thread, access, place, .. } = error else { panic!("{error}") };
    assert_eq!((&kernel[..], *block, *thread, &access[..]), ("ggas_selftest_access", 0, 0, what), "{error}");
    assert!(place.starts_with("byte 64 of member "), "{error}");
    let said = error.to_string();
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

/// Accesses of node 0 to node 1 go on as ever.
fn assert_others_go_on(sides: &Sides) {
    assert_reaches(sides, 1);
}

/// Accesses of node 0 to node `peer` go on as ever.
pub fn assert_reaches(sides: &Sides, peer: usize) {
    let results: KernelMem = sides.cpu.alloc(16).unwrap();
    for what in [SELFTEST_ACCESS_STORE, SELFTEST_ACCESS_SIZES, SELFTEST_ACCESS_LOAD] {
        results.store_u64(0, 0).unwrap();
        let args = selftest_access { rounds: 10, ..access(sides, peer, what, results.address()) };
        sides.run("ggas_selftest_access", 1, &[args]).unwrap();
        assert_eq!(results.load_u64(0).unwrap(), 10);
    }
}

/// A window whose node dies under a kernel that loads from it.
#[test]
fn a_load_from_a_node_that_dies_ends_after_its_time() {
    for seed in 0..4 {
        // Half of the deaths are on lossy links.
        let lost = if seed % 2 == 0 { 0.0 } else { 0.02 };
        let faults = Faults::none().seed(seed).drop(lost).after(500, Event::Kill(2));
        let sides = Sides::new(3, 4096, &Links::Simulated(seed, faults), LIMIT);
        let simulation = sides.simulation.as_ref().expect("simulated");
        sides.windows[2].store_u64(2, 64, 7).unwrap();
        let (went_well, error) = until_failure(&sides, 2, SELFTEST_ACCESS_LOAD);
        assert_says(
            &error,
            "a load of 8 bytes",
            &["byte 64 of member 2's part (node 2)", "no answer", "within 3"],
        );
        assert!(went_well > 10, "{went_well} loads before the death");
        // The loads before took less than a second together; the one that failed, all of its time.
        let elapsed = simulation.elapsed();
        assert!((LIMIT..LIMIT + Duration::from_secs(1)).contains(&elapsed), "{elapsed:?}");
        let [_, sent, ..] = sides.counts(0);
        assert_eq!(sent, went_well + 1, "the load that nobody answered is counted as sent");
        // From now on each ends so, to within a nap.
        let before = simulation.elapsed();
        let (went_well, error) = until_failure(&sides, 2, SELFTEST_ACCESS_LOAD);
        assert_eq!(went_well, 0);
        assert_says(&error, "a load of 8 bytes", &["node 2"]);
        let took = simulation.elapsed() - before;
        assert!((LIMIT..LIMIT + NAPS).contains(&took), "{took:?}");
        assert_others_go_on(&sides);
        assert_eq!(sides.windows[2].load_u64(2, 64).unwrap(), 7, "memory of the dead node is as it was");
    }
}

/// All nodes exchange, and one dies: every kernel ends, by an access or by a wait.
#[test]
fn an_exchange_with_a_node_that_dies_ends() {
    for seed in 0..4 {
        let faults = Faults::none().seed(seed).after(300 + 40 * seed, Event::Kill(2));
        let sides = Sides::new(3, 8192, &Links::Simulated(seed, faults), LIMIT);
        let results = sides.cpu.alloc(48).unwrap();
        let args = |rank: usize| selftest_window {
            window: sides.window(rank),
            status: results.address() + 16 * rank as u64,
            wrong: results.address() + 16 * rank as u64 + 8,
            bytes: 64,
            rounds: 1_000_000,
            atomics: 1,
        };
        let ended = sides.run("ggas_selftest_window", 32, &[args(0), args(1), args(2)]);
        let reports: Vec<_> = (0..3).filter_map(|i| sides.windows[i].member(i).unwrap().report()).collect();
        match ended {
            Ok(()) => assert!(!reports.is_empty(), "a wait timed out, and is reported"),
            Err(LaunchError::Access { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        let elapsed = sides.simulation.as_ref().unwrap().elapsed();
        assert!(elapsed < 3 * LIMIT, "{elapsed:?}");
        sides.windows.iter().zip(0..).for_each(|(window, rank)| window.member(rank).unwrap().clear_report());
        assert_others_go_on(&sides);
    }
}

/// A node that stands still takes nothing; once it goes on, what was taken before arrives.
#[test]
fn a_store_that_the_network_does_not_take_ends_after_ten_seconds() {
    let sides = Sides::new(3, 4096, &Links::Simulated(5, Faults::none()), SOON);
    let simulation = sides.simulation.as_ref().unwrap();
    let network = sides.network.torus().expect("a torus");
    network.happen(Event::Stop(2)).unwrap();
    let before = simulation.elapsed();
    let (taken, error) = until_failure(&sides, 2, SELFTEST_ACCESS_STORE);
    assert_says(&error, "a store of 8 bytes", &["member 2's part (node 2)"]);
    let took = simulation.elapsed() - before;
    assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&took), "{took:?}");
    assert_eq!(sides.counts(0)[0], taken, "the one that was not taken does not count");
    assert_others_go_on(&sides);
    network.happen(Event::Resume(2)).unwrap();
    assert_eq!(sides.windows[0].load_u64(2, 64).unwrap(), taken);
}

/// Node 2 without any cable: loads end after their time, and what was sent arrives once the cables are back.
#[test]
fn links_that_are_down_are_bounded_and_come_back() {
    let sides = Sides::new(3, 4096, &Links::Simulated(6, Faults::none().through_links()), LIMIT);
    let simulation = sides.simulation.as_ref().unwrap();
    let network = sides.network.torus().expect("a torus");
    let cables: Vec<_> =
        Direction::ALL.into_iter().filter(|to| network.torus().neighbour(2, *to).is_some()).collect();
    let results = sides.cpu.alloc(16).unwrap();
    cables.iter().for_each(|to| network.happen(Event::LinkDown(2, *to)).unwrap());
    // A store is posted.
    let args = access(&sides, 2, SELFTEST_ACCESS_STORE, results.address());
    sides.run("ggas_selftest_access", 1, &[args]).unwrap();
    let before = simulation.elapsed();
    let (went_well, error) = until_failure(&sides, 2, SELFTEST_ACCESS_LOAD);
    assert_eq!(went_well, 0);
    assert_says(&error, "a load of 8 bytes", &["node 2", "no answer"]);
    let took = simulation.elapsed() - before;
    assert!((LIMIT..LIMIT + NAPS).contains(&took), "{took:?}");
    assert_others_go_on(&sides);
    cables.iter().for_each(|to| network.happen(Event::LinkUp(2, *to)).unwrap());
    results.store_u64(8, 0).unwrap();
    let args = access(&sides, 2, SELFTEST_ACCESS_LOAD, results.address());
    sides.run("ggas_selftest_access", 1, &[args]).unwrap();
    assert_eq!(results.read_u64s(0, 2).unwrap(), [1, 1], "the store of before has come");
}

/// In real time, past the executor's limit for threads that never pause.
#[test]
fn waiting_for_an_answer_is_no_loop_without_a_pause() {
    let limit = Duration::from_secs(2);
    let mut sides = Sides::new(3, 4096, &Links::Clean, 2 * limit);
    let mut config = CpuConfig::default();
    config.no_pause_limit = limit;
    sides.cpu = Processor::cpu_with(config);
    sides.network.torus().expect("a torus").happen(Event::Kill(2)).unwrap();
    let (_, error) = until_failure(&sides, 2, SELFTEST_ACCESS_LOAD);
    assert_says(&error, "a load of 8 bytes", &["node 2", "no answer"]);
    assert_others_go_on(&sides);
}

/// Accesses that are none of the headers' do not pass unseen.
#[test]
fn plain_accesses_fault() {
    const CHILD: &str = "GGAS_TEST_PLAIN";
    if std::env::var_os(CHILD).is_some() {
        let sides = Sides::new(2, 4096, &Links::Clean, SOON);
        let results = sides.cpu.alloc(16).unwrap();
        let args = access(&sides, 1, SELFTEST_ACCESS_PLAIN, results.address());
        sides.run("ggas_selftest_access", 1, &[args]).expect("unreachable");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let child = ["trapped::failures::plain_accesses_fault", "--exact", "--nocapture"];
    let ended = Command::new(this).args(child).env(CHILD, "1").output().unwrap();
    assert_eq!(ended.status.signal(), Some(libc::SIGSEGV), "{ended:?}");
}

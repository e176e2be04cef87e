//! What kernels get for what they do wrong, and what becomes of the daemon.

use std::time::Duration;

use ggas::kernels::start;
use ggas_clock::Manual;
use ggas_gmpi::layout::*;
use ggas_gmpi::{Config, GmpiError, PLACEMENTS};
use ggas_selftest::args::*;

use crate::world::*;

#[test]
fn arguments_that_make_no_sense_get_their_error_class() {
    for placement in PLACEMENTS {
        let world = World::new(2, &Config { placement, ..config() });
        let at = world.ranks[0].at(0);
        let wrong: Vec<(u32, Vec<u64>, u32)> = vec![
            (GMPI_CALL_SEND, vec![at, -1i64 as u64, INT, 1, 0, WORLD], GMPI_ERR_COUNT),
            (GMPI_CALL_SEND, vec![at, 1, INT + 1, 1, 0, WORLD], GMPI_ERR_TYPE),
            (GMPI_CALL_SEND, vec![at, 1, u64::from(u32::MAX), 1, 0, WORLD], GMPI_ERR_TYPE),
            (GMPI_CALL_SEND, vec![at, 1, INT, 2, 0, WORLD], GMPI_ERR_RANK),
            (GMPI_CALL_SEND, vec![at, 1, INT, ANY, 0, WORLD], GMPI_ERR_RANK),
            (GMPI_CALL_SEND, vec![at, 1, INT, 1, ANY, WORLD], GMPI_ERR_TAG),
            (GMPI_CALL_RECV, vec![at, 1, INT, 1, -3i64 as u64, WORLD], GMPI_ERR_TAG),
            (GMPI_CALL_SEND, vec![at, 1, INT, 1, 0, 0], GMPI_ERR_COMM),
            (GMPI_CALL_SEND, vec![at, 1, INT, 1, 0, u64::MAX], GMPI_ERR_COMM),
            (GMPI_CALL_SEND, vec![at + BYTES as u64 - 3, 1, INT, 1, 0, WORLD], GMPI_ERR_BUFFER),
            (GMPI_CALL_SEND, vec![0, 1, INT, 1, 0, WORLD], GMPI_ERR_BUFFER),
            (GMPI_CALL_BCAST, vec![at, 1, INT, 2, WORLD], GMPI_ERR_ROOT),
            (GMPI_CALL_ALLREDUCE, vec![at, at + 64, 1, DOUBLE, GMPI_BAND.into(), WORLD], GMPI_ERR_OP),
            (GMPI_CALL_ALLREDUCE, vec![at, at + 64, 1, DOUBLE, 77, WORLD], GMPI_ERR_OP),
            (GMPI_CALL_ALLGATHER, vec![at, 2, INT, at + 64, 1, INT, WORLD], GMPI_ERR_COUNT),
            (GMPI_CALL_ALLTOALL, vec![1, 1, INT, at + 64, 1, INT, WORLD], GMPI_ERR_ARG),
            (GMPI_CALL_WIN_FLUSH, vec![0, 1], GMPI_ERR_WIN),
            (SELFTEST_GMPI_UNKNOWN, vec![u64::from(GMPI_CALLS), 1], GMPI_ERR_CALL),
            (SELFTEST_GMPI_UNKNOWN, vec![u64::from(u32::MAX), 1], GMPI_ERR_CALL),
            (SELFTEST_GMPI_UNKNOWN, vec![GMPI_CALL_WAITALL.into(), 16], GMPI_ERR_COUNT),
            (SELFTEST_GMPI_UNKNOWN, vec![GMPI_CALL_WAIT.into(), 1 << 40], GMPI_ERR_REQUEST),
            (SELFTEST_GMPI_UNKNOWN, vec![GMPI_CALL_START.into(), 5], GMPI_ERR_REQUEST),
            (GMPI_CALL_WAITALL, vec![-1i64 as u64], GMPI_ERR_COUNT),
            (GMPI_CALL_ECHO, vec![31], GMPI_ERR_COUNT),
            (GMPI_CALL_ECHO, vec![30], 0),
            (GMPI_CALL_SEND, vec![at, 1, INT, -2i64 as u64, 0, WORLD], 0),
            (GMPI_CALL_RECV, vec![at, 1, INT, -2i64 as u64, 0, WORLD], 0),
            (GMPI_CALL_WAIT, vec![], 0),
        ];
        let script = wrong
            .iter()
            .fold(Script::default(), |script, (call, arguments, _)| script.call(*call, arguments));
        let errors = world.run(vec![script, Script::default()])[0].errors(0);
        for ((call, arguments, expected), error) in wrong.iter().zip(errors) {
            assert_eq!(error, *expected, "{placement:?}: call {call} {arguments:x?}");
        }
        world.ranks[0].gmpi.check().expect("errors of calls are the kernel's to handle");
    }
}

#[test]
fn the_wait_tells_what_was_wrong_with_its_request() {
    let world = World::new(2, &config());
    let at = world.ranks[0].at(0);
    let first = Script::default()
        .call(GMPI_CALL_ISEND, &[at, 1, INT, 7, 0, WORLD])
        .request(0)
        .call(GMPI_CALL_ISEND, &[at, 1, INT, 1, 0, WORLD])
        .request(1)
        .call(GMPI_CALL_WAITALL, &[2])
        .request(0)
        .status(0)
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[]);
    let there = world.ranks[1].at(0);
    let second = Script::default()
        .call(SELFTEST_GMPI_FILL, &[there, 3, 0])
        .call(GMPI_CALL_RECV, &[there, 0, INT, 0, 0, WORLD]);
    let results = world.run(vec![first, second]);
    assert_eq!(results[0].errors(0), [0, 0, GMPI_ERR_IN_STATUS, GMPI_ERR_RANK]);
    assert_eq!((results[0].status(0).2, results[0].status(1).2), (GMPI_ERR_RANK, 0));
    assert_eq!(results[1].errors(0), [0, GMPI_ERR_TRUNCATE]);
}

#[test]
fn long_messages_that_do_not_fit_bring_what_fits() {
    let world = World::new(2, &config());
    let (at, there) = (world.ranks[0].at(0), world.ranks[1].at(0));
    let first = Script::default()
        .call(SELFTEST_GMPI_FILL, &[at, 5000, 1])
        .call(GMPI_CALL_SEND, &[at, 5000, LONG, 1, 0, WORLD]);
    let second = Script::default().call(GMPI_CALL_RECV, &[there, 4000, LONG, 0, 0, WORLD]);
    let results = world.run(vec![first, second]);
    assert_eq!((results[0].errors(0), results[1].errors(0)), (vec![0, 0], vec![GMPI_ERR_TRUNCATE]));
    let came = world.ranks[1].memory.read_u64s(0, 4001).expect("in range");
    assert_eq!((came[0], came[3999], came[4000]), (1, 4000, 0));
}

#[test]
fn a_block_without_a_port_is_refused_and_named() {
    let world = World::new(1, &Config { ports: 2, ..config() });
    let barrier = Script::default()
        .call(GMPI_CALL_COMM_PLACE, &[2])
        .call(SELFTEST_GMPI_SYNCHRONIZE, &[])
        .call(GMPI_CALL_WAITALL, &[1])
        .call(GMPI_CALL_WAITANY, &[1])
        .call(GMPI_CALL_TESTALL, &[1])
        .call(GMPI_CALL_GET_STATUS, &[])
        .call(GMPI_CALL_SENDRECV, &[0, 0, 0, INT | INT << 32, NOBODY | NOBODY << 32, 0, WORLD])
        .call(GMPI_CALL_IBARRIER, &[2])
        .call(GMPI_CALL_WAIT, &[]);
    let results = &world.run_blocks(vec![vec![barrier; 3]], 32)[0];
    assert_eq!([0, 1].map(|block| results.errors(block)), [[0; 9]; 2]);
    assert_eq!(results.errors(2), [GMPI_ERR_PORT; 9]);
    let error = world.ranks[0].gmpi.check();
    assert!(matches!(error, Err(GmpiError::NoPort { block: 2, ports: 2 })), "{error:?}");
}

#[test]
fn a_call_that_nobody_answers_in_time_gets_its_error_and_can_be_made_again() {
    // The daemon's time runs by its looks alone.
    let (clock, _time) = Manual::new();
    let world = World::new(2, &Config { timeout: Duration::from_millis(20), clock, ..config() });
    let at = world.ranks[0].at(0);
    let first = Script::default()
        .call(GMPI_CALL_IRECV, &[at, 1, INT, 1, 0, WORLD])
        .call(GMPI_CALL_WAIT, &[])
        .call(GMPI_CALL_WAIT, &[])
        .status(0)
        .call(GMPI_CALL_PROBE, &[1, 5, WORLD]);
    let errors = world.run(vec![first, Script::default()])[0].errors(0);
    assert_eq!(errors, [0, GMPI_ERR_TIMEOUT, GMPI_ERR_TIMEOUT, GMPI_ERR_TIMEOUT]);
    let error = world.ranks[0].gmpi.check();
    assert!(matches!(error, Err(GmpiError::OpenRequests { count: 1, .. })), "still open: {error:?}");
}

/// `GMPI_PROC_NULL` as one of two ints in an argument.
const NOBODY: u64 = GMPI_PROC_NULL as u32 as u64;

#[test]
fn a_daemon_whose_thread_has_ended_is_told_to_kernels_and_to_the_host() {
    // Attaching memory is bounded by it, too, on a machine that may stall.
    let short = Duration::from_secs(1);
    let mut world = World::new(1, &Config { timeout: short, grace: short, ports: 2, ..config() });
    let here = world.ranks.remove(0);
    let ended = here.gmpi.by_carrier("a test that ends the daemon", SOON, |_| -> Result<(), GmpiError> {
        panic!("the daemon ends here, as the test wants");
    });
    assert!(matches!(ended, Err(GmpiError::Gone(_))), "{ended:?}");
    world.ranks.push(here);
    let at = world.ranks[0].at(0);
    // Whatever a call is, it ends.
    let script = |first: u32, arguments: &[u64]| {
        Script::default()
            .call(first, arguments)
            .call(GMPI_CALL_ISEND, &[at, 1, INT, 0, 0, WORLD])
            .call(GMPI_CALL_WAIT, &[])
    };
    let blocks = vec![script(GMPI_CALL_BARRIER, &[WORLD]), script(GMPI_CALL_TESTALL, &[2])];
    let results = &world.run_blocks(vec![blocks], 32)[0];
    for block in 0..2 {
        assert_eq!(results.errors(block), [GMPI_ERR_DAEMON; 3], "block {block}");
    }
    let here = world.ranks.remove(0);
    let error = here.gmpi.check().expect_err("kernels waited in vain").to_string();
    assert!(error.contains("GMPI"), "{error}");
    assert!(matches!(here.gmpi.split(ggas_gmpi::Comm::WORLD, None, 0), Err(GmpiError::Gone(_))));
    here.gmpi.close().expect_err("it is gone");
}

#[test]
fn a_daemon_that_is_gone_ends_the_waits_of_kernels_and_the_report_says_who_waited() {
    use ggas::kernels::{CpuConfig, Processor};
    let (clock, _time) = Manual::new();
    let processor = Processor::cpu_with(CpuConfig::on_clock(clock));
    // Rings as a daemon leaves them that has ended: nobody reads them.
    let rings = processor.alloc(4 * 256 * 2 + 256).expect("memory");
    let report = processor.alloc(128).expect("memory");
    let ports = processor.alloc(80).expect("memory");
    let base = rings.address();
    let (answers, tails) = (base + 1024, base + 2048);
    ports.write_u64s(0, &[base, tails, answers, tails + 128, 3]).expect("in range");
    let buf = processor.alloc(40).expect("memory");
    buf.write_u64s(0, &[ports.address(), report.address(), 2_000_000_000, 1, 1 << 32]).expect("in range");
    let script = (0..6).fold(Script::default(), |script, _| script.call(GMPI_CALL_START, &[0]));
    let script = script.call(GMPI_CALL_WAIT, &[]).call(SELFTEST_GMPI_SYNCHRONIZE, &[]);
    let results = Results::new(&processor, buf.address(), vec![script]);
    // SAFETY: the structure is this kernel's, and its memory lives until the kernel has ended.
    let launch = unsafe { ggas_selftest::launch(&processor, "ggas_selftest_gmpi", 1, 32, &results.args) };
    start(&[launch]).expect("it starts").wait(SOON).expect("it ends");
    let dead = GMPI_ERR_DAEMON;
    assert_eq!(results.errors(0), [0, 0, 0, 0, dead, dead, dead, dead], "a full ring blocks, bounded");
    let words = report.read_u64s(0, 7).expect("in range");
    assert_eq!(words[0] >> 32, u64::from(extoll_abi::layout::GGAS_ERR_TIMEOUT));
    assert_eq!(words[1] as u32, extoll_abi::layout::GGAS_WAIT_ANSWER);
    assert_eq!(
        (words[4], words[5], words[6]),
        (1, 0, u64::from(GMPI_CALL_START)),
        "the first answer was waited for"
    );
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let refused = [
        Config { ports: 0, ..config() },
        Config { ports: 1025, ..config() },
        Config { ports: 2, single: true, ..config() },
        Config { entries: 3, ..config() },
        Config { entries: 1, ..config() },
        Config { entries: 8192, ..config() },
        Config { timeout: Duration::ZERO, grace: Duration::ZERO, ..config() },
    ];
    for config in refused {
        let opened = ggas_gmpi::Gmpi::with(&ggas::Processor::cpu(), &config, || {
            Err(GmpiError::Gone("nobody asks for this carrier".to_owned()))
        });
        assert!(matches!(opened, Err(GmpiError::Config { .. })), "{:?}", opened.err());
    }
    let carrier = || Err(GmpiError::Gone("no carrier".to_owned()));
    let opened = ggas_gmpi::Gmpi::with(&ggas::Processor::cpu(), &config(), carrier);
    assert!(matches!(opened, Err(GmpiError::Gone(_))), "what the carrier says comes through");
}

#[test]
fn calls_on_several_requests_tell_errors_by_statuses_whatever_their_number() {
    let world = World::new(2, &config());
    let at = world.ranks[0].at(0);
    let wrong = |script: Script, request: u32| {
        script.call(GMPI_CALL_ISEND, &[at, 1, INT, 7, 0, WORLD]).request(request)
    };
    let script = (0..4).fold(Script::default(), |script, i| wrong(script, 20 * i + 15));
    let script = script
        .call(GMPI_CALL_WAITALL, &[1])
        .request(15)
        .status(0)
        .call(GMPI_CALL_WAITALL, &[16])
        .request(20)
        .call(GMPI_CALL_WAITSOME, &[1, at])
        .request(55)
        .status(1)
        .call(GMPI_CALL_WAITANY, &[16])
        .request(60);
    let script = (0..80).fold(script, |script, _| script.call(SELFTEST_GMPI_FILL, &[at, 0, 0]));
    let results = world.run(vec![script, Script::default()]);
    let in_status = GMPI_ERR_IN_STATUS;
    assert_eq!(results[0].errors(0)[4..8], [in_status, in_status, in_status, GMPI_ERR_RANK]);
    assert_eq!((results[0].status(0).2, results[0].status(1).2), (GMPI_ERR_RANK, GMPI_ERR_RANK));
}

#[test]
fn the_wait_tells_that_a_persistent_request_could_not_be_started() {
    let world = World::new(1, &config());
    let at = world.ranks[0].at(0);
    let script = Script::default()
        .call(GMPI_CALL_SEND_INIT, &[at, 1, INT, 7, 0, WORLD])
        .request(0)
        .call(GMPI_CALL_RECV_INIT, &[at, 1, INT, 0, 5, WORLD])
        .request(1)
        .call(GMPI_CALL_SEND_INIT, &[at + 8, 1, INT, 0, 5, WORLD])
        .request(2)
        // The others begin.
        .call(GMPI_CALL_STARTALL, &[3])
        .call(GMPI_CALL_WAITALL, &[3])
        .status(0)
        .call(GMPI_CALL_START, &[])
        .call(GMPI_CALL_WAIT, &[]);
    let results = world.run(vec![script]);
    assert_eq!(results[0].errors(0)[4..], [GMPI_ERR_IN_STATUS, 0, GMPI_ERR_RANK]);
    assert_eq!([0, 1, 2].map(|i| results[0].status(i).2), [GMPI_ERR_RANK, 0, 0]);
}

#[test]
fn blocks_that_stand_by_leave_requests_alone() {
    let world = World::new(1, &Config { single: true, ..config() });
    let rank = &world.ranks[0];
    let free = Script::default().call(GMPI_CALL_REQUEST_FREE, &[]);
    let results = Results::new(&rank.processor, rank.gmpi.address(), vec![Script::default(), free]);
    results.requests.write_u64s(8, &[77]).expect("in range");
    // SAFETY: the structure is this kernel's, and its memory lives until the kernel has ended.
    let launch =
        unsafe { ggas_selftest::launch(&rank.processor, "ggas_selftest_gmpi", 2, 32, &results.args) };
    start(&[launch]).expect("it starts").wait(SOON).expect("it ends");
    assert_eq!(results.requests.read_u64s(8, 1).expect("in range"), [77]);
}

//! Puts, gets, packed puts and bulk puts between kernels (`kernels/include/ggas/put.cuh`): on the CPU executor, or on the first
//! two GPUs with `GGAS_TEST_GPUS=2`.

use std::time::Duration;

use ggas_clock::Manual;
use ggas_device::sim::SimNetwork;
use ggas_kernels::{CpuConfig, Processor, start};
use ggas_rma::{KernelReport, Node};
use ggas_selftest::args::{self, selftest_calls, selftest_put};
use ggas_window::{Rings, Window, WindowError};

const LIMIT: Duration = Duration::from_secs(150);
const WAIT: Duration = Duration::from_secs(60);
/// What kernels wait for that nobody answers.
const IN_VAIN: Duration = Duration::from_secs(3);

struct Bed {
    window: Window,
    processors: [Processor; 2],
    // Nodes of the window.
    _network: SimNetwork,
}

fn bed(bytes: usize, wait: Duration) -> Bed {
    bed_on(Processor::cpu(), bytes, wait)
}

/// For kernels that wait in vain: in virtual time, but on GPUs.
fn timed_bed(bytes: usize, wait: Duration) -> Bed {
    bed_on(Processor::cpu_with(CpuConfig::on_clock(Manual::new().0)), bytes, wait)
}

fn bed_on(cpu: Processor, bytes: usize, wait: Duration) -> Bed {
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    let nodes = [0, 1].map(|i| Node::new(network.device(i).unwrap()));
    ggas_selftest::add(); // before a GPU is opened
    let processors = match std::env::var("GGAS_TEST_GPUS") {
        Ok(_) => [0, 1].map(|gpu| Processor::gpu(gpu).unwrap()),
        Err(_) => [cpu.clone(), cpu],
    };
    let members = [(&nodes[0], &processors[0]), (&nodes[1], &processors[1])];
    let window = Window::with_timeout(&members, bytes, wait).unwrap();
    Bed { window, processors, _network: network }
}

/// What to run; the addresses are filled in.
fn base(form: u32, bytes: u64) -> selftest_put {
    selftest_put {
        window: 0,
        status: 0,
        wrong: 0,
        rings: 0,
        bytes,
        each: (bytes + 32).next_multiple_of(16),
        skew: 0,
        form,
        rounds: 20,
        lanes: 0,
        lines_log2: 0,
        puts: 1,
    }
}

struct Outcome {
    status: [u64; 2],
    wrong: [u64; 2],
    report: [Option<KernelReport>; 2],
}

/// Runs both nodes; `each` may change what a node does.
fn run(
    bed: &Bed,
    grid: u32,
    block: u32,
    args: selftest_put,
    each: impl Fn(usize, &mut selftest_put),
) -> Outcome {
    let words: Vec<_> = bed.processors.iter().map(|processor| processor.alloc(16).unwrap()).collect();
    let mut launches = Vec::new();
    for (node, (processor, words)) in bed.processors.iter().zip(&words).enumerate() {
        words.write_u64s(0, &[0, 0]).unwrap();
        let mut args = args;
        args.window = bed.window.member(node).unwrap().address();
        (args.status, args.wrong) = (words.address(), words.address() + 8);
        each(node, &mut args);
        // SAFETY: the structure of this kernel, and all memory outlives the wait below.
        launches.push(unsafe { ggas_selftest::launch(processor, "ggas_selftest_put", grid, block, &args) });
    }
    start(&launches).and_then(|running| running.wait(LIMIT)).unwrap();
    let of = |at: usize| [0, 1].map(|node: usize| words[node].load_u64(at * 8).unwrap());
    Outcome {
        status: of(0),
        wrong: of(1),
        report: [0, 1].map(|node| bed.window.member(node).unwrap().report()),
    }
}

fn well(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.status, [0, 0], "{what}: {:?}", outcome.report);
    assert_eq!(outcome.wrong, [0, 0], "{what}: wrong bytes");
}

/// Form, blocks, threads, lanes.
const FORMS: [(u32, u32, u32, u32); 5] = [
    (args::SELFTEST_PUT_THREAD, 1, 3, 3),
    (args::SELFTEST_PUT_WARP, 2, 64, 4),
    (args::SELFTEST_PUT_BLOCK, 1, 96, 1),
    (args::SELFTEST_PUT_BLOCK, 3, 32, 3),
    (args::SELFTEST_PUT_GRID, 3, 64, 1),
];

fn data_end(lanes: u32, each: u64) -> usize {
    args::SELFTEST_PUT_DATA as usize + lanes as usize * 3 * each as usize
}

#[test]
fn a_signal_comes_after_its_put() {
    for (form, grid, block, lanes) in FORMS {
        for (bytes, skew) in [(8_u64, 0), (1, 3), (100, 0), (1024, 8), (5000, 4), (4097, 0)] {
            // The blocks of a grid do not meet: each thread fills what it sends, in units of 16 bytes.
            let is_grid = form == args::SELFTEST_PUT_GRID;
            let mut args = base(form, if is_grid { bytes.next_multiple_of(16) } else { bytes });
            args.skew = if is_grid { 0 } else { skew };
            let bed = bed(data_end(lanes, args.each), WAIT);
            well(&run(&bed, grid, block, args, |_, _| {}), &format!("form {form}, {bytes} bytes"));
        }
    }
}

/// The bytes of a grid are shared out by blocks of 128.
#[test]
fn a_signal_comes_after_its_bulk_put() {
    for form in [args::SELFTEST_PUT_BULK_BLOCK, args::SELFTEST_PUT_BULK_GRID] {
        for (grid, block) in [(1, 96), (3, 64)] {
            for (bytes, skew) in [(16, 0), (1000, 3), (5000, 8), (40_000, 0)] {
                let mut args = base(form, bytes);
                args.skew = skew;
                let bed = bed(data_end(grid, args.each), WAIT);
                let what = format!("form {form}, {grid} blocks, {bytes} bytes");
                well(&run(&bed, grid, block, args, |_, _| {}), &what);
            }
        }
    }
}

#[test]
fn packed_puts_carry_any_bytes_around_their_rings() {
    for (form, grid, block, lanes) in FORMS.into_iter().filter(|(form, ..)| *form != args::SELFTEST_PUT_GRID)
    {
        for (bytes, skew, lines, puts) in [
            (8, 0, 8, 1),
            (1, 3, 8, 4),
            (24, 0, 16, 3),
            (1024, 4, 256, 1),
            (1000, 2, 128, 1),
            (5000, 0, 1024, 1),
        ] {
            let mut args = base(form, bytes);
            args.skew = skew;
            args.puts = puts;
            let rings = Rings { offset: data_end(lanes, args.each).next_multiple_of(64), lanes, lines };
            let bed = bed(rings.end(2).unwrap(), WAIT);
            rings.check(&bed.window).unwrap();
            (args.rings, args.lanes, args.lines_log2) = (rings.offset as u64, lanes, rings.lines_log2());
            let what = format!("form {form}, {bytes} bytes, {lines} lines");
            // The second kernel goes on where the first one closed.
            well(&run(&bed, grid, block, args, |_, _| {}), &what);
            well(&run(&bed, grid, block, args, |_, _| {}), &format!("{what}, again"));
        }
    }
}

#[test]
fn messages_may_be_longer_than_their_ring() {
    for (form, grid, block, lanes) in FORMS.into_iter().filter(|(form, ..)| *form != args::SELFTEST_PUT_GRID)
    {
        let mut args = base(form, 3001);
        let rings = Rings { offset: data_end(lanes, args.each).next_multiple_of(64), lanes, lines: 16 };
        let bed = bed(rings.end(2).unwrap(), WAIT);
        (args.rings, args.lanes, args.lines_log2) = (rings.offset as u64, lanes, rings.lines_log2());
        // One side takes first: two that put more than their rings hold would wait for each other.
        well(
            &run(&bed, grid, block, args, |node, args| args.puts = u32::from(node == 0)),
            &format!("form {form}"),
        );
    }
}

#[test]
fn a_wait_says_whom_it_waited_for() {
    let bed = timed_bed(data_end(1, 64), IN_VAIN);
    let mut args = base(args::SELFTEST_PUT_BLOCK, 8);
    args.each = 64;
    let outcome = run(&bed, 1, 32, args, |node, args| args.rounds = if node == 0 { 2 } else { 1 });
    assert_eq!(outcome.status, [u64::from(extoll_abi::layout::GGAS_ERR_TIMEOUT), 0]);
    let report = outcome.report[0].expect("the wait of node 0 failed");
    assert_eq!((report.node, report.peer, report.expected, report.seen), (0, Some(1), 2, 1));
    assert!((IN_VAIN..IN_VAIN + Duration::from_secs(1)).contains(&report.waited), "{report}");
    assert!(report.to_string().contains("from node 1"), "{report}");
}

#[test]
fn rings_are_usable_after_a_failure_once_cleared() {
    let mut args = base(args::SELFTEST_PUT_BLOCK, 100);
    let rings = Rings { offset: data_end(1, args.each).next_multiple_of(64), lanes: 1, lines: 32 };
    (args.rings, args.lanes, args.lines_log2) = (rings.offset as u64, 1, rings.lines_log2());
    let bed = timed_bed(rings.end(2).unwrap(), IN_VAIN);
    let outcome = run(&bed, 1, 32, args, |node, args| args.rounds = if node == 0 { 9 } else { 3 });
    assert_eq!(outcome.status[0], u64::from(extoll_abi::layout::GGAS_ERR_TIMEOUT));
    assert_eq!(outcome.report[0].expect("a report").peer, Some(1));
    rings.clear(&bed.window).unwrap();
    bed.window.members().for_each(|member| member.clear_report());
    well(&run(&bed, 1, 32, args, |_, _| {}), "after clearing");
}

#[test]
fn what_the_window_does_not_have_is_refused() {
    let window = bed(data_end(1, 64), WAIT);
    let mut args = base(args::SELFTEST_PUT_BLOCK, 8);
    args.each = 64;
    // The last lane's buffers would lie behind the window.
    let outcome = run(&window, 1, 32, args, |_, args| args.each = 1 << 20);
    assert_eq!(outcome.status, [u64::from(extoll_abi::layout::GGAS_ERR_ARGUMENT); 2]);
    let report = outcome.report[0].expect("the refusal is reported");
    assert_eq!((report.node, report.peer), (0, Some(1)));

    // Rings of no size that there is, and too many of them.
    for (lanes, lines_log2) in [(1, 64 + 3), (1, 2), (1, 31), (u32::MAX, 30)] {
        let packed = |_, args: &mut args::selftest_put| {
            (args.rings, args.lanes, args.lines_log2) = (64, lanes, lines_log2);
        };
        let outcome = run(&window, 1, 32, args, packed);
        let refused = u64::from(extoll_abi::layout::GGAS_ERR_ARGUMENT);
        assert_eq!(outcome.status, [refused; 2], "{lanes} lanes, 2^{lines_log2} lines");
    }

    let rings = |offset, lanes, lines| Rings { offset, lanes, lines }.check(&window.window);
    assert!(matches!(rings(0, 1, 8), Ok(())));
    for (offset, lanes, lines) in [(0, 1, 4), (0, 1, 12), (0, 0, 8), (8, 1, 8)] {
        assert!(matches!(rings(offset, lanes, lines), Err(WindowError::Rings(_))));
    }
    assert!(matches!(rings(0, u32::MAX, 1 << 30), Err(WindowError::Range { .. })));
}

#[test]
fn single_calls_do_what_put_cuh_says() {
    let bed = timed_bed(8192, IN_VAIN);
    let failed = bed.processors[0].alloc(8).unwrap();
    failed.store_u64(0, 0).unwrap();
    let member = bed.window.member(0).unwrap();
    let args = selftest_calls { window: member.address(), failed: failed.address() };
    // SAFETY: the structure of this kernel, and all memory outlives the wait.
    let launch = unsafe { ggas_selftest::launch(&bed.processors[0], "ggas_selftest_calls", 1, 64, &args) };
    start(&[launch]).and_then(|running| running.wait(LIMIT)).unwrap();
    let failed = failed.load_u64(0).unwrap();
    assert_eq!(failed, 0, "checks {failed:#b} failed");
    // The first refusal: eight bytes for a node behind the last one.
    let report = member.report().expect("a refusal is reported");
    let said = report.to_string();
    assert!(said.contains("refused 8 bytes at offset 0x0 of node 2"), "{said}");
}

//! What kernels put to other nodes of a window is in the trace that a mapping reads, where somebody asks.

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::in_job_with;
use extoll_abi::layout::GGAS_ERR_ARGUMENT;
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_kernels::{Processor, start};
use ggas_mapping::Pattern;
use ggas_members::Job;
use ggas_rma::Node;
use ggas_selftest::args::{self, selftest_put};
use ggas_window::{Rings, Window};

const SOON: Duration = Duration::from_secs(60);
const ROUNDS: u32 = 20;
/// What a grid puts are whole units of 16.
const BYTES: u64 = 1008;
const EACH: u64 = 1040;
/// Form, blocks, threads, lanes.
const FORMS: [(u32, u32, u32, u32); 6] = [
    (args::SELFTEST_PUT_THREAD, 1, 3, 3),
    (args::SELFTEST_PUT_WARP, 2, 64, 4),
    (args::SELFTEST_PUT_BLOCK, 3, 96, 3),
    (args::SELFTEST_PUT_GRID, 3, 64, 1),
    (args::SELFTEST_PUT_BULK_BLOCK, 2, 64, 2),
    (args::SELFTEST_PUT_BULK_GRID, 2, 64, 2),
];

/// Runs a kernel on this process's node: its status.
fn run(
    job: &Job,
    cpu: &Processor,
    window: &Window,
    (form, grid, block): (u32, u32, u32),
    rings: Option<Rings>,
    each: u64,
) -> u64 {
    let words = cpu.alloc(16).expect("memory");
    let args = selftest_put {
        window: window.member(job.rank() as usize).expect("the own one").address(),
        status: words.address(),
        wrong: words.address() + 8,
        rings: rings.map_or(0, |rings| rings.offset as u64),
        bytes: BYTES,
        each,
        skew: 0,
        form,
        rounds: ROUNDS,
        lanes: rings.map_or(0, |rings| rings.lanes),
        lines_log2: rings.map_or(0, |rings| rings.lines_log2()),
        puts: 1,
    };
    // SAFETY: the structure of this kernel, and all memory outlives the wait.
    let launch = unsafe { ggas_selftest::launch(cpu, "ggas_selftest_put", grid, block, &args) };
    start(&[launch]).and_then(|running| running.wait(SOON)).expect("it ends");
    assert_eq!(words.load_u64(8).expect("in range"), 0, "wrong bytes");
    words.load_u64(0).expect("in range")
}

struct Process {
    node: Node,
    cpu: Processor,
    _network: SimNetwork,
}

impl Process {
    fn new(job: &Job) -> Process {
        ggas_selftest::add();
        let network =
            SimNetwork::join(ProcessFabric::join(job.member().clone()).expect("a card")).expect("a node");
        Process { node: Node::new(network.device(0).expect("one")), cpu: Processor::cpu(), _network: network }
    }

    fn with_window(&self, job: &Job, bytes: usize, work: impl FnOnce(&Processor, &Window)) {
        let window = Window::across(job, &self.node, &self.cpu, bytes, SOON).expect("a window");
        work(&self.cpu, &window);
        job.barrier(SOON).expect("all are done");
    }
}

/// Where a test's files are.
fn prefix(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("traced-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.join("run")
}

fn traced(name: &str, member: fn(&Job)) -> Vec<(usize, usize, u64)> {
    let prefix = prefix(name);
    in_job_with(name, 2, ("GGAS_TRACE", prefix.to_str().expect("UTF-8")), member);
    let pattern = Pattern::traced(&prefix).expect("a file for each rank");
    std::fs::remove_dir_all(prefix.parent().expect("a folder")).expect("gone");
    pattern.messages().collect()
}

#[test]
fn puts_signals_and_gets_of_each_form_count_once() {
    let sent = traced("puts_signals_and_gets_of_each_form_count_once", |job| {
        let process = Process::new(job);
        for (form, grid, block, lanes) in FORMS {
            let end = args::SELFTEST_PUT_DATA as usize + lanes as usize * 3 * EACH as usize;
            process.with_window(job, end, |cpu, window| {
                let status = run(job, cpu, window, (form, grid, block), None, EACH);
                assert_eq!(
                    status,
                    0,
                    "form {form}: {:?}",
                    window.member(job.rank() as usize).expect("own").report()
                );
            });
        }
    });
    // By threads, warps and blocks each lane puts, gets, and signals twice; of a grid each block signals twice; in bulk twice each block.
    let lanes = (3 + 4 + 3) * (2 * BYTES + 16);
    let expected = u64::from(ROUNDS) * (lanes + (BYTES + 3 * 16) + 2 * (BYTES + 16) + (BYTES + 2 * 16));
    assert_eq!(sent, [(0, 1, expected), (1, 0, expected)]);
}

#[test]
fn messages_count_in_lines_and_those_before_rings_were_cleared() {
    let sent = traced("messages_count_in_lines_and_those_before_rings_were_cleared", |job| {
        let process = Process::new(job);
        let (data, lanes) = (args::SELFTEST_PUT_DATA as usize + 3 * 3 * EACH as usize, 3);
        let first = Rings { offset: data.next_multiple_of(64), lanes, lines: 256 };
        let second = Rings { offset: first.end(2).expect("it fits"), lanes: 1, lines: 512 };
        process.with_window(job, second.end(2).expect("it fits"), |cpu, window| {
            for (rings, blocks, clears) in
                [(first, 3, false), (first, 3, true), (second, 1, false), (first, 2, false)]
            {
                let form = (args::SELFTEST_PUT_BLOCK, blocks, 64);
                assert_eq!(run(job, cpu, window, form, Some(rings), EACH), 0);
                job.barrier(SOON).expect("nobody uses them");
                if clears {
                    rings.clear(window).expect("cleared");
                    job.barrier(SOON).expect("all have");
                }
            }
        });
    });
    let expected = (3 + 3 + 1 + 2) * u64::from(ROUNDS) * BYTES.div_ceil(12) * 12;
    assert_eq!(sent, [(0, 1, expected), (1, 0, expected)]);
}

#[test]
fn what_the_window_does_not_have_is_refused_as_ever() {
    let sent = traced("what_the_window_does_not_have_is_refused_as_ever", |job| {
        let process = Process::new(job);
        let bytes = args::SELFTEST_PUT_DATA as usize + 3 * EACH as usize;
        process.with_window(job, bytes, |cpu, window| {
            let status = run(job, cpu, window, (args::SELFTEST_PUT_BLOCK, 1, 32), None, 1 << 20);
            assert_eq!(status, u64::from(GGAS_ERR_ARGUMENT));
            let report = window.member(job.rank() as usize).expect("own").report().expect("it is reported");
            assert_eq!(
                (report.peer, report.seen, report.expected),
                (Some(1 - job.rank()), BYTES, bytes as u64)
            );
            assert!(report.line < 1000, "{report}");
        });
    });
    assert_eq!(sent, []);
}

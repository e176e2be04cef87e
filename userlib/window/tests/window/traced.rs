//! What kernels put to other nodes of a window is in the trace that a mapping reads, where somebody asks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::in_job_with;
use extoll_abi::layout::GGAS_ERR_ARGUMENT;
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_kernels::{KernelMem, Processor, start};
use ggas_mapping::Pattern;
use ggas_members::{Job, Member, NetworkShape};
use ggas_rma::{Node, PortConfig, Spec};
use ggas_selftest::args::{self, selftest_put};
use ggas_window::{Atomic, Rings, Window};

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

/// Arguments of a kernel on the own member of a window; what it says is in these words.
fn arguments(window: &Window, words: &KernelMem, form: u32, rings: Option<Rings>, each: u64) -> selftest_put {
    selftest_put {
        window: window.members().next().expect("the own one").address(),
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
    }
}

/// Runs a kernel on this process's node: its status.
fn run(
    cpu: &Processor,
    window: &Window,
    (form, grid, block): (u32, u32, u32),
    rings: Option<Rings>,
    each: u64,
) -> u64 {
    let words = cpu.alloc(16).expect("memory");
    let args = arguments(window, &words, form, rings, each);
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
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}-{}",
        name.replace("::", "-"),
        std::process::id()
    ));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.join("run")
}

fn traced(name: &str, member: fn(&Job)) -> Vec<(usize, usize, u64)> {
    traced_by(name, 2, member)
}

fn traced_by(name: &str, processes: u32, member: fn(&Job)) -> Vec<(usize, usize, u64)> {
    let prefix = prefix(name);
    in_job_with(name, processes, ("GGAS_TRACE", prefix.to_str().expect("UTF-8")), member);
    let pattern = Pattern::traced(&prefix).expect("a file for each rank");
    std::fs::remove_dir_all(prefix.parent().expect("a folder")).expect("gone");
    pattern.messages().collect()
}

#[test]
fn puts_signals_and_gets_of_each_form_count_once() {
    let sent = traced("traced::puts_signals_and_gets_of_each_form_count_once", |job| {
        let process = Process::new(job);
        for (form, grid, block, lanes) in FORMS {
            let end = args::SELFTEST_PUT_DATA as usize + lanes as usize * 3 * EACH as usize;
            process.with_window(job, end, |cpu, window| {
                let status = run(cpu, window, (form, grid, block), None, EACH);
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
    let sent = traced("traced::messages_count_in_lines_and_those_before_rings_were_cleared", |job| {
        let process = Process::new(job);
        let (data, lanes) = (args::SELFTEST_PUT_DATA as usize + 3 * 3 * EACH as usize, 3);
        let first = Rings { offset: data.next_multiple_of(64), lanes, lines: 256 };
        let second = Rings { offset: first.end(2).expect("it fits"), lanes: 1, lines: 512 };
        process.with_window(job, second.end(2).expect("it fits"), |cpu, window| {
            for (rings, blocks, clears) in
                [(first, 3, false), (first, 3, true), (second, 1, false), (first, 2, false)]
            {
                let form = (args::SELFTEST_PUT_BLOCK, blocks, 64);
                assert_eq!(run(cpu, window, form, Some(rings), EACH), 0);
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
    let sent = traced("traced::what_the_window_does_not_have_is_refused_as_ever", |job| {
        let process = Process::new(job);
        let bytes = args::SELFTEST_PUT_DATA as usize + 3 * EACH as usize;
        process.with_window(job, bytes, |cpu, window| {
            let status = run(cpu, window, (args::SELFTEST_PUT_BLOCK, 1, 32), None, 1 << 20);
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

/// What the host of a member of a window does to another member's part: bytes there, and from there.
fn by_hand(window: &Window, own: usize, other: usize) -> [u64; 2] {
    let member = window.member(own).expect("the own one");
    member.store(other, 8, &[1; 100]).expect("stored");
    member.load(other, 8, &mut [0; 30], SOON).expect("loaded");
    let add = Atomic::add(1);
    member.atomic(other, 0, add, SOON).expect("added");
    member.reduce(other, 0, add).expect("added");
    window.write(other, 8, &[2; 500]).expect("written");
    window.read(other, 8, &mut [0; 70]).expect("read");
    // None of these leaves the process.
    window.write(own, 8, &[3; 5000]).expect("written");
    window.load_u64(own, 0).expect("loaded");
    [100 + 8 + 8 + 500, 30 + 8 + 70]
}

#[test]
fn what_hosts_do_in_windows_counts() {
    let sent = traced("traced::what_hosts_do_in_windows_counts", |job| {
        let process = Process::new(job);
        process.with_window(job, 8192, |_, window| {
            if job.rank() == 1 {
                assert_eq!(by_hand(window, 1, 0), [616, 108]);
                window.store_u64(0, 16, 5).expect("stored");
                window.load_u64(0, 16).expect("loaded");
                window.zero(0, 0, 1000).expect("zeroed");
            }
        });
    });
    assert_eq!(sent, [(0, 1, 108 + 8), (1, 0, 616 + 8 + 1000)]);
}

#[test]
fn what_an_open_window_counted_is_there_after_an_exit() {
    let sent = traced("traced::what_an_open_window_counted_is_there_after_an_exit", |job| {
        let process = Process::new(job);
        let data = args::SELFTEST_PUT_DATA as usize + 3 * 3 * EACH as usize;
        let rings = Rings { offset: data.next_multiple_of(64), lanes: 3, lines: 256 };
        let form = (args::SELFTEST_PUT_BLOCK, 3, 64);
        process.with_window(job, rings.end(2).expect("it fits"), |cpu, window| {
            assert_eq!(run(cpu, window, form, Some(rings), EACH), 0);
            process.with_window(job, data, |cpu, window| {
                assert_eq!(run(cpu, window, form, None, EACH), 0);
                job.barrier(SOON).expect("no kernel runs");
                window.write(1 - job.rank() as usize, 8, &[2; 500]).expect("written");
                job.barrier(SOON).expect("all are done");
                std::process::exit(crate::common::WELL);
            });
        });
    });
    let lines = 3 * u64::from(ROUNDS) * BYTES.div_ceil(12) * 12;
    let each = lines + u64::from(ROUNDS) * 3 * (2 * BYTES + 16) + 500;
    assert_eq!(sent, [(0, 1, each), (1, 0, each)]);
}

#[test]
fn a_child_made_by_fork_writes_no_trace_at_its_exit() {
    let sent = traced("traced::a_child_made_by_fork_writes_no_trace_at_its_exit", |job| {
        let process = Process::new(job);
        process.with_window(job, 8192, |_, window| {
            let other = 1 - job.rank() as usize;
            window.write(other, 8, &[2; 500]).expect("written");
            let mut file = std::env::var_os("GGAS_TRACE").expect("asked");
            file.push(format!(".{}.prof", job.rank()));
            let before = std::fs::read(&file).expect("a file");
            // SAFETY: the child does nothing but end.
            match unsafe { libc::fork() } {
                // SAFETY: what is to be tried.
                0 => unsafe { libc::exit(7) },
                child => {
                    let mut status = 0;
                    // SAFETY: a child of this process, and a place for how it ended.
                    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
                }
            }
            assert_eq!(std::fs::read(&file).expect("a file"), before, "the child's");
            window.write(other, 8, &[2; 40]).expect("written");
        });
    });
    assert_eq!(sent, [(0, 1, 540), (1, 0, 540)]);
}

/// Members of a network that is no job, on nodes in any order.
#[test]
fn nodes_of_a_network_count_as_whose_they_are() {
    let sent = traced_by("traced::nodes_of_a_network_count_as_whose_they_are", 1, |_job| {
        ggas_selftest::add();
        let name = format!("traced-{}", std::process::id());
        let shape = NetworkShape::torus(2, 2, 2).expect("a shape");
        // The first one is on no node of the window.
        let nodes = [0, 6, 3].map(|node| {
            let member = Member::join_network(&name, &shape, node).expect("a member");
            let network = SimNetwork::join(ProcessFabric::join(member).expect("a card")).expect("a node");
            (Node::new(network.device(0).expect("one")), network)
        });
        let cpu = Processor::cpu();
        let bytes = args::SELFTEST_PUT_DATA as usize + 3 * 3 * EACH as usize;
        let windows = [&nodes[1].0, &nodes[2].0]
            .map(|node| Window::on_nodes(node, &[3, 6], &cpu, bytes, SOON).expect("a window"));
        let words = [(); 2].map(|()| cpu.alloc(16).expect("memory"));
        let all = [0, 1].map(|i| arguments(&windows[i], &words[i], args::SELFTEST_PUT_BLOCK, None, EACH));
        // SAFETY: the structure of this kernel, and all memory outlives the wait.
        let launch = |args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_put", 3, 96, args) };
        let launches = [launch(&all[0]), launch(&all[1])];
        start(&launches).and_then(|running| running.wait(SOON)).expect("it ends");
        for words in &words {
            assert_eq!([0, 8].map(|at| words.load_u64(at).expect("in range")), [0, 0]);
        }
        // That of node 6, the second member of the network, is the window's second one.
        assert_eq!(by_hand(&windows[0], 1, 0), [616, 108]);
        let port = nodes[0].0.open_port(PortConfig::default()).expect("a port");
        let other = nodes[2].0.open_port(PortConfig::default()).expect("a port");
        port.connect(other.address()).notification_put(1, 2, Spec::NONE).expect("posted");
    });
    let each = u64::from(ROUNDS) * 3 * (2 * BYTES + 16);
    assert_eq!(sent, [(0, 2, 8), (1, 2, each + 616), (2, 1, each + 108)]);
}

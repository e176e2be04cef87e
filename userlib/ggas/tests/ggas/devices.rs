//! The device of jobs and networks, chosen at run time: the same program on each, and what is said where one is not there.
//! A test starts this program again, with itself as the only test and an environment of its own.

#[path = "../../examples/ring.rs"]
#[allow(dead_code, reason = "the example's main")]
mod ring;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas::members::launch::{Launch, Output, Stream};
use ggas::velo::{VeloConfig, VeloPort};
use ggas::{DeviceKind, HostBuffer, Job, KernelPath, Network, PortConfig, Processor, RemoteRegion, Spec};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
/// Bound of a whole job.
const JOB: Duration = Duration::from_secs(170);
/// Set in processes that a test started.
const STARTED: &str = "GGAS_TEST_STARTED";
const SIM: [(&str, &str); 1] = [("GGAS_DEVICE", "sim")];
/// Engines on the CPU executor.
const NVLINK: [(&str, &str); 2] = [("GGAS_DEVICE", "nvlink"), ("GGAS_PROCESSOR", "cpu")];
/// Also on a machine that has a card.
const NO_CARD: (&str, &str) = ("EXTOLL_CARD", "/dev/no-such-card");
/// All that could make the choice another one.
const VARIABLES: [&str; 4] = ["GGAS_DEVICE", "EXTOLL_DEVICE", "GGAS_PROCESSOR", "EXTOLL_CARD"];

/// What two processes print that run `body`, both with success.
fn job_of_two(test: &str, variables: &[(&str, &str)], per_node: u32, body: impl FnOnce()) -> String {
    if std::env::var_os(STARTED).is_some() {
        body();
        return String::new();
    }
    let launch =
        Launch::new(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture", "--quiet"]);
    let launch = VARIABLES.iter().fold(launch, |launch, name| launch.env_remove(name));
    let launch = variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
    let launch =
        launch.env(STARTED, "1").processes(2).per_node(per_node).timeout(JOB).output(Output::Capture);
    let outcome = launch.spawn().unwrap().wait();
    let said = |stream| [0, 1].map(|rank| String::from_utf8_lossy(outcome.output(rank, stream)).into_owned());
    let text = said(Stream::Out).concat();
    assert_eq!(outcome.code(), 0, "{}{text}{}", outcome.summary(), said(Stream::Err).concat());
    // A harness that knows no test of this name ends well, too.
    assert_eq!(text.matches("running 1 test").count(), 2, "{test}: {text}");
    text
}

/// What a process alone prints that runs `body`.
fn alone(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> String {
    if std::env::var_os(STARTED).is_some() {
        body();
        return String::new();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--quiet"]).stdin(Stdio::null());
    VARIABLES.iter().for_each(|name| _ = command.env_remove(name));
    let output = command.envs(variables.iter().copied()).env(STARTED, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("running 1 test"), "{test}: {text}");
    text
}

fn ring_of_two(test: &str, variables: &[(&str, &str)]) {
    let text = job_of_two(test, variables, 1, || ring::ring().unwrap());
    if std::env::var_os(STARTED).is_none() {
        for (rank, other) in [(0, 1), (1, 0)] {
            let line = format!("rank {rank} of 2 on node {rank}: 65536 bytes from node {other} vpid 0");
            assert!(text.contains(&line), "{text}");
        }
    }
}

#[test]
fn a_ring_goes_by_the_model() {
    ring_of_two("devices::a_ring_goes_by_the_model", &SIM);
}

#[test]
fn the_same_ring_goes_by_engines() {
    ring_of_two("devices::the_same_ring_goes_by_engines", &NVLINK);
}

/// The ring fails with these words.
fn ring_fails(test: &str, variables: &[(&str, &str)], parts: &[&str]) {
    let text = alone(test, variables, || println!("{}", ring::ring().unwrap_err()));
    if std::env::var_os(STARTED).is_none() {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn a_ring_on_a_card_that_is_not_there_says_what_is_missing() {
    let test = "devices::a_ring_on_a_card_that_is_not_there_says_what_is_missing";
    let parts = [
        "GGAS_DEVICE=hw: no hw device here: no /dev/no-such-card: load the kernel module",
        "GGAS_DEVICE=sim",
    ];
    ring_fails(test, &[("GGAS_DEVICE", "hw"), NO_CARD], &parts);
}

/// Who names a card means it.
#[test]
fn a_card_that_is_named_and_not_there_is_not_the_model() {
    let test = "devices::a_card_that_is_named_and_not_there_is_not_the_model";
    ring_fails(test, &[NO_CARD], &["no hw device here: no /dev/no-such-card"]);
}

#[test]
fn a_ring_on_rubbish_says_which_devices_there_are() {
    let test = "devices::a_ring_on_rubbish_says_which_devices_there_are";
    ring_fails(test, &[("GGAS_DEVICE", "rubbish")], &["GGAS_DEVICE=rubbish: use sim, hw or nvlink"]);
}

#[test]
fn a_ring_on_engines_without_a_gpu_says_what_would_do() {
    let test = "devices::a_ring_on_engines_without_a_gpu_says_what_would_do";
    let none = [("GGAS_DEVICE", "nvlink"), ("CUDA_VISIBLE_DEVICES", "")];
    ring_fails(test, &none, &["GGAS_DEVICE=nvlink: no nvlink device here", "GGAS_PROCESSOR=cpu"]);
}

#[test]
fn a_job_on_engines_has_a_node_for_each_rank_and_says_what_it_lacks() {
    let test = "devices::a_job_on_engines_has_a_node_for_each_rank_and_says_what_it_lacks";
    job_of_two(test, &NVLINK, 1, || {
        let job = Job::join().unwrap();
        assert_eq!(job.choice().kind, DeviceKind::Nvlink);
        assert_eq!((u32::from(job.node_id()), job.nodes(), job.per_node()), (job.rank(), 2, 1));
        assert_eq!([0, 1, 2].map(|rank| job.node_of(rank)), [Some(0), Some(1), None]);
        assert!(job.network().is_none());
        assert!(matches!(job.processor(), Ok((Processor::Cpu(_), None))));
        let velo = VeloPort::open(job.node().device(), VeloConfig::default()).unwrap_err();
        assert!(velo.to_string().contains("no VELO unit"), "{velo}");
        let pages = PortConfig { path: Some(KernelPath::Card), ..PortConfig::default() };
        let pages = job.node().open_port(pages).unwrap_err();
        assert!(pages.to_string().contains("no card path: use slots"), "{pages}");
        job.barrier(SOON).unwrap();
    });
}

/// The engine of a rank works while nobody of that rank does.
#[test]
fn puts_into_a_rank_that_only_computes_arrive_by_engines() {
    let test = "devices::puts_into_a_rank_that_only_computes_arrive_by_engines";
    job_of_two(test, &NVLINK, 1, || {
        let job = Job::join().unwrap();
        let port = job.node().open_port(PortConfig::default()).unwrap();
        let mut word = Box::new(0u64);
        let start = std::ptr::from_mut(&mut *word);
        // SAFETY: the box outlives the region, and is accessed atomically only.
        let region = unsafe { port.register_raw(start.cast(), 8) }.unwrap();
        let all = job.exchange_values(&RemoteRegion::of(&region), SOON).unwrap();
        if job.rank() == 0 {
            let to = port.connect(all[1].port());
            to.immediate_put(7, 8, all[1].nla(0, 8).unwrap(), Spec::NONE).unwrap();
        } else {
            // SAFETY: the boxed word, which the engine alone writes meanwhile.
            let word = unsafe { AtomicU64::from_ptr(start) };
            let begun = Instant::now();
            while word.load(Ordering::Acquire) != 7 {
                assert!(begun.elapsed() < SOON, "the put did not arrive");
                std::thread::yield_now();
            }
        }
        job.barrier(SOON).unwrap();
        drop(region);
        port.close().unwrap();
    });
}

#[test]
fn engines_serve_one_process_each() {
    job_of_two("devices::engines_serve_one_process_each", &NVLINK, 2, || {
        let error = Job::join().unwrap_err().to_string();
        assert!(error.contains("here are 2 for each node") && error.contains("--per-node 1"), "{error}");
    });
}

#[test]
fn ranks_that_chose_differently_all_hear_of_it() {
    job_of_two("devices::ranks_that_chose_differently_all_hear_of_it", &SIM, 1, || {
        let first = std::env::var("GGAS_RANK").unwrap() == "0";
        let builder = Job::builder().processor(Processor::cpu());
        let builder = if first { builder } else { builder.device(DeviceKind::Nvlink) };
        let error = builder.join().unwrap_err().to_string();
        let expected = match first {
            true => "this rank's device is sim and that of rank 1 is nvlink",
            false => "this rank's device is nvlink and that of rank 0 is sim",
        };
        assert!(error.contains(expected) && error.contains("GGAS_DEVICE"), "{error}");
    });
}

#[test]
fn a_job_on_the_model_has_its_counters_and_goes_by_the_paths_of_the_card() {
    let test = "devices::a_job_on_the_model_has_its_counters_and_goes_by_the_paths_of_the_card";
    alone(test, &[("EXTOLL_DEVICE", "sim"), ("GGAS_PROCESSOR", "cpu")], || {
        let job = Job::join().unwrap();
        assert_eq!((job.network().map(|network| network.len()), job.nodes()), (Some(1), 1));
        assert!(matches!(job.processor(), Ok((Processor::Cpu(_), None))));
        let port = job.node().open_port(PortConfig::default()).unwrap();
        assert_eq!(port.config().path, Some(KernelPath::Card));
        let region = port.register(HostBuffer::zeroed(8).unwrap()).unwrap();
        let to = port.connect(port.address());
        to.immediate_put(1, 8, region.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        port.wait(SOON).unwrap();
    });
}

#[test]
fn networks_are_of_the_model_or_of_a_card() {
    let own = format!("devices-{}", std::process::id());
    let variables = [NO_CARD, ("GGAS_PROCESSOR", "cpu"), ("GGAS_NETWORK", &own), ("GGAS_QUIET", "1")];
    alone("devices::networks_are_of_the_model_or_of_a_card", &variables, || {
        let error = |kind| Network::builder().device(kind).join().unwrap_err().to_string();
        let engines = error(DeviceKind::Nvlink);
        assert!(engines.contains("use Job::join"), "{engines}");
        // Not as a choice of the environment: the advice is the caller's.
        let card = error(DeviceKind::Hw);
        assert!(card.starts_with("no hw device here: no /dev/no-such-card"), "{card}");
        let network = Network::builder().device(DeviceKind::Sim).join().unwrap();
        assert!(network.network().is_some() && network.member().is_some());
        assert_eq!((network.node_id(), network.nodes()), (0, 8));
    });
}

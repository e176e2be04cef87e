//! Benchmarks whose nodes are processes: each runs once, small; failures have the rank of whom they befell.

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One at a time: each starts several processes that poll, and two cores are few.
static ONE: Mutex<()> = Mutex::new(());

fn ggas(args: &[&str]) -> Output {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "170", env!("CARGO_BIN_EXE_ggas")]).args(args).stdin(Stdio::null());
    // Whatever card there is.
    command.env("GGAS_DEVICE", "sim").env_remove("EXTOLL_DEVICE").env_remove("GGAS_PROCESSOR");
    command.output().expect("timeout starts")
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `ggas bench` over processes on the CPU executor and gives its JSON.
fn bench(args: &[&str]) -> serde_json::Value {
    let fixed = ["--fabric", "process", "--device", "cpu", "--timeout", "60", "--json", "-"];
    let output = ggas(&[&["bench"], args, &fixed[..]].concat());
    assert!(output.status.success(), "{args:?}: {}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON of rank 0");
    assert_eq!((&json["fabric"], &json["verified"]), (&"process".into(), &true.into()), "{args:?}");
    assert_eq!(json["nodes"], json["settings"]["processes"]);
    for row in json["rows"].as_array().expect("rows") {
        let latency = &row["latency_us"];
        let [min, median, p99] = ["min", "median", "p99"].map(|key| latency[key].as_f64().unwrap());
        assert!(0.0 <= min && min <= median && median <= p99 && p99 > 0.0, "{args:?}: {row}");
        assert_eq!(row["errors"], 0, "{args:?}");
    }
    json
}

fn methods(json: &serde_json::Value) -> Vec<&str> {
    let rows = json["rows"].as_array().expect("rows");
    let mut methods: Vec<_> = rows.iter().filter_map(|row| row["method"].as_str()).collect();
    methods.dedup();
    methods
}

/// Of benchmarks that start their processes by themselves.
fn bench_alone(args: &[&str]) -> serde_json::Value {
    let output = ggas(&[&["bench"], args, &["--device", "cpu", "--json", "-"]].concat());
    assert!(output.status.success(), "{args:?}: {}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON");
    assert_eq!((&json["fabric"], &json["verified"]), (&"process".into(), &true.into()), "{args:?}");
    json
}

/// Three processes: a tree with a missing child, and shares of unlike length.
const THREE: [&str; 5] = ["--nodes", "3", "--iterations", "2", "--sizes"];
const ALL: &str =
    "chosen host gsb btb dynamic static-direct static-half static-staged static-stores static-bulk";

/// A collective of processes that share a GPU, by each method.
fn shared_gpu(name: &str, ours: &str, sizes: &str) {
    let own = format!("shared-gpu-{name}");
    let json = bench_alone(&[&[own.as_str()], &THREE[..], &[sizes]].concat());
    let found = methods(&json);
    assert!(found.join(" ").starts_with(ours), "{name}: {found:?}");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().filter(|row| row["method"] == "gsb").count(), sizes.split(',').count());
    assert!(rows.iter().all(|row| row["errors"] == 0 && row["bytes"].is_u64()), "{name}");
}

// Several tests: together they took a minute on two cores, most of which is waiting.
#[test]
fn processes_that_share_a_gpu_add() {
    shared_gpu("allreduce", ALL, "8,20000,300000");
    let json =
        bench_alone(&[&["shared-gpu-allreduce", "--method", "static-half"], &THREE[..], &["8"]].concat());
    assert_eq!(json["rows"][0]["copies"], "1+1, 1+1");
}

#[test]
fn processes_that_share_a_gpu_gather() {
    shared_gpu("allgather", &ALL.replace("btb ", ""), "8,300000");
}

#[test]
fn processes_that_share_a_gpu_reduce_and_scatter() {
    shared_gpu("reduce", ALL, "20000");
    shared_gpu("broadcast", "chosen host gsb btb direct", "20000");
    shared_gpu("alltoall", "chosen host gsb", "8,20000");
    shared_gpu("reduce-scatter", "chosen host gsb", "8,20000");
}

#[test]
fn processes_that_share_several_gpus() {
    // On the executor, that of several GPUs has no option: its processes are told.
    let program = env!("CARGO_BIN_EXE_ggas");
    for (name, methods) in [
        ("reduce", "chosen flat-host flat-gsb flat-btb gsb-gsb btb-gsb btb-btb gsb-btb"),
        ("broadcast", "flat-gsb flat-btb"),
        ("allgather", "chosen flat-host flat-gsb"),
        ("alltoall", "chosen flat-host flat-gsb"),
        ("reduce-scatter", "chosen flat-host flat-gsb"),
    ] {
        let bench = format!("shared-gpu-{name} cpu gpus:2 {methods}");
        let output = ggas(&["run", "-n", "3", "--", program, "bench-part", &bench, "3", "2", "7", "20000"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", err(&output));
        let right = said.matches("\"errors\":0").count();
        assert_eq!(right, methods.split(' ').count(), "{name}: {said}");
        assert!(methods.split(' ').all(|method| said.contains(&format!("\"{method}\""))), "{said}");
    }
}

#[test]
fn processes_that_share_a_gpu_are_told_what_does_not_fit() {
    for (wrong, advice) in [
        (["--method", "gsb-btb"], "say how many by --gpus"),
        (["--sizes", "6"], "in multiples of 4"),
        (["--nodes", "300"], "at most 256"),
        (["--fabric", "process"], "leave it out"),
        (["--method", "ring"], "static-direct"),
    ] {
        let output = ggas(&[&["bench", "shared-gpu-reduce"], &wrong[..], &["--device", "cpu"]].concat());
        assert!(!output.status.success() && err(&output).contains(advice), "{}", err(&output));
    }
}

#[test]
fn gaspi() {
    let bench = bench_alone;
    let json = bench(&["gaspi-himeno", "--nodes", "3", "--grid", "40x10x9", "--iterations", "2"]);
    assert_eq!(methods(&json), ["compute", "hybrid"]);
    let json = bench(&["gaspi-gpu-write", "--sizes", "8,70000", "--iterations", "2"]);
    let ways = ["standby", "engine", "stores", "card", "hybrid 524288", "hybrid 2097152", "hybrid 8388608"];
    assert_eq!(methods(&json)[..7], ways);
    let output = ggas(&["bench", "gaspi-himeno", "--nodes", "2", "--grid", "40x10x9"]);
    assert!(!output.status.success() && err(&output).contains("use 40x10x8"), "{}", err(&output));
}

#[test]
fn puts() {
    let json = bench(&["rma-pingpong", "--sizes", "8,5000", "--iterations", "50"]);
    assert_eq!(methods(&json), ["notification", "poll", "host-assisted", "host-driven"]);
    // A put to itself would be found by whoever does not look at ranks.
    bench(&["rma-pingpong", "--nodes", "3", "--sizes", "64", "--iterations", "20", "--path", "card"]);
    let json = bench(&["rma-bandwidth", "--sizes", "1,300000", "--iterations", "32"]);
    let host = ["host-driven", "memcpy", "host-driven", "memcpy"];
    assert_eq!(methods(&json)[2..6], host);
    assert!(methods(&json).contains(&"two copies"));
    bench(&["rma-rate", "--iterations", "20000", "--threads", "32"]);
}

#[test]
fn writes_by_verbs() {
    let json = bench(&["verbs-latency", "--method", "datagrams", "--sizes", "8,5000", "--iterations", "50"]);
    assert_eq!(methods(&json), ["notification-put", "datagrams", "notification-put", "datagrams"]);
    let refused = ggas(&["bench", "verbs-latency", "--fabric", "process", "--method", "packets"]);
    assert!(err(&refused).contains("choose --method datagrams"), "{}", err(&refused));
}

#[test]
fn stores_loads_and_collectives() {
    bench(&["ggas-pingpong", "--threads", "1,64", "--iterations", "20"]);
    bench(&["ggas-bandwidth", "--sizes", "16,10000", "--iterations", "20"]);
    let json = bench(&["barrier", "--nodes", "3", "--iterations", "20"]);
    assert!(json["rows"].as_array().unwrap().iter().all(|row| row["nodes"] == 3));
    bench(&["reduce", "--nodes", "3", "--sizes", "1,1000", "--iterations", "20"]);
    bench(&["allreduce", "--nodes", "3", "--sizes", "1,1000", "--iterations", "20"]);
    bench(&["randomaccess", "--nodes", "3", "--sizes", "4096"]);
}

#[test]
fn all_to_all_of_many_processes() {
    let json = bench(&["alltoall", "--nodes", "12", "--sizes", "8,2000", "--iterations", "20"]);
    let row = &json["rows"][0];
    assert!(row["slowest_over_fastest"].as_f64().unwrap() >= 1.0, "{row}");
}

#[test]
fn puts_into_a_process_that_computes() {
    let json = bench(&["progress", "--method", "every-1ms", "--sizes", "8,70000", "--iterations", "50"]);
    for row in json["rows"].as_array().unwrap() {
        assert!(row["samples"].as_u64().unwrap() > 0 && row["helper_cpu_loaded_percent"].is_f64(), "{row}");
    }
}

/// With UCX there is a ratio; without, the row says how to get it.
#[test]
fn beside_ucx() {
    let json = bench(&["versus-ucx", "--iterations", "200"]);
    let row = &json["rows"][0];
    let peer = row["peer"].as_str().unwrap();
    assert!(row["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0) || peer.contains("apt install"), "{row}");
}

/// Also a launcher of another kind may start the processes.
#[test]
fn a_launcher_starts_them_too() {
    let launched =
        ["run", "-n", "2", "--", env!("CARGO_BIN_EXE_ggas"), "bench", "rma-rate", "--device", "cpu"];
    let output = ggas(&[&launched[..], &["--method", "host-driven", "--iterations", "5000"]].concat());
    assert!(output.status.success(), "{}", err(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("all data verified").count(), 1, "only rank 0 reports: {text}");
}

#[test]
fn himeno_in_three_directions() {
    let sized = ["--grid", "16x8x8", "--scaling", "strong", "--iterations", "4"];
    let json = bench(&[&["himeno", "--split", "2x1x2"], &sized[..]].concat());
    assert_eq!(methods(&json), ["compute", "stream", "device", "queues", "queues-device", "ggas"]);
    let alone = ggas(
        &[&["bench", "himeno", "--nodes", "1", "--form", "compute", "--json", "-"], &sized[..]].concat(),
    );
    let alone: serde_json::Value = serde_json::from_slice(&alone.stdout).expect("one JSON");
    for row in json["rows"].as_array().expect("rows").iter().skip(1) {
        assert_eq!(row["residual"], alone["rows"][0]["residual"], "{row}");
    }
}

/// Each process has its own part of the cube, on one device or two, and compares it with the host's.
#[test]
fn stencils_on_devices_of_several_processes() {
    let small = ["--sizes", "13", "--devices", "1,2", "--iterations", "10"];
    let json = bench(&[&["hpe-stencil", "--nodes", "3"], &small[..]].concat());
    let ran = methods(&json);
    assert_eq!(ran[..5], ["proxy", "sharing", "remote", "shared", "overlap"]);
    // Not every system lets programs have `userfaultfd`.
    assert!(matches!(&ran[5..], [] | ["userfault"]), "{ran:?}");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(2 * ran.len()));
    let output = ggas(&["bench", "hpe-fft", "--fabric", "process", "--device", "cpu"]);
    assert!(err(&output).contains("leave --fabric process out"), "{}", err(&output));
}

/// By one call from and to memory of another process, and by what a program does without it.
#[test]
fn copies_go_between_memories_of_processes() {
    for nodes in ["2", "3"] {
        let json = bench(&["hpe-copy", "--nodes", nodes, "--sizes", "8,1500000", "--iterations", "20"]);
        assert_eq!(methods(&json), ["own", "rank-get", "rank-put", "rank-host", "by-puts"]);
        assert_eq!(json["rows"].as_array().map(Vec::len), Some(10));
    }
    let of_one = ["bench", "hpe-copy", "--fabric", "process", "--device", "cpu", "--method", "peer"];
    let output = ggas(&of_one);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("not of so many processes"), "{}", err(&output));
}

#[test]
fn options_that_do_not_fit_are_said_once() {
    let refused = |args: &[&str], what: &str| {
        let output = ggas(&[&["bench"], args, &["--fabric", "process", "--device", "cpu"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert_eq!(err(&output).matches(what).count(), 1, "{args:?} says: {}", err(&output));
        assert!(output.stdout.is_empty());
    };
    refused(&["rma-pingpong", "--nodes", "1"], "2 to 1024");
    refused(&["rma-pingpong", "--nodes", "1025"], "2 to 1024");
    refused(&["rma-pingpong", "--sizes", "0"], "use 1 to");
    refused(&["randomaccess", "--nodes", "2", "--sizes", "1000"], "power of two");
    refused(&["alltoall", "--nodes", "3", "--sizes", "2M"], "use 1 to");
    refused(&["rma-pingpong", "--nodes", "1000", "--pin"], "cores");
    let output = ggas(&["bench", "rma-pingpong", "--device", "cpu", "--pin"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    let output = ggas(&["bench", "progress", "--device", "cpu"]);
    assert!(err(&output).contains("--fabric process"), "{}", err(&output));
}

/// Ids of the processes that `launcher` started.
fn children(launcher: u32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{launcher}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Starts the benchmark with `args` over processes, kills the one of rank `victim` when `ready`, and gives what the rest said.
fn killed(args: &[&str], processes: usize, victim: usize, ready: impl Fn(i32) -> bool) -> Output {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    command.arg("bench").args(args).args(["--fabric", "process", "--device", "cpu"]);
    command.env("GGAS_DEVICE", "sim").stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut launcher = command.spawn().expect("ggas starts");
    let begun = Instant::now();
    let within = |limit: u64| assert!(begun.elapsed() < Duration::from_secs(limit), "it hangs");
    while !children(launcher.id()).get(victim).is_some_and(|id| ready(*id))
        || children(launcher.id()).len() < processes
    {
        within(60);
        std::thread::sleep(Duration::from_millis(5));
    }
    let victim = children(launcher.id())[victim];
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(victim), nix::sys::signal::Signal::SIGKILL).unwrap();
    while launcher.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(120) {
            let _ = launcher.kill();
            panic!("the run goes on without a process");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = launcher.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(err(&output).contains("signal 9"), "{}", err(&output));
    output
}

#[test]
fn a_process_that_is_killed_ends_the_run() {
    let args = ["alltoall", "--nodes", "4", "--sizes", "8", "--iterations", "1000000000"];
    killed(&args, 4, 2, |_| true);
}

/// Processor time of a process, in ticks of a hundredth of a second: joining and the first data take a few.
fn ticks(id: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Who is left says in which iteration it was, and of whom it heard nothing; the result is written and does not count.
#[test]
fn himeno_without_one_of_its_nodes_is_marked() {
    for form in ["persistent", "stream", "queues-device"] {
        let sized = ["--grid", "16x8x8", "--iterations", "100000000", "--timeout", "6", "--json", "-"];
        let args = [&["himeno", "--nodes", "2", "--form", form], &sized[..]].concat();
        // The launcher's child is the guard of a process.
        let output = killed(&args, 2, 1, |id| children(id as u32).iter().any(|id| ticks(*id) > 200));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a JSON of rank 0");
        assert_eq!(json["verified"], false, "{form}");
        let note = json["notes"].to_string();
        for part in [&format!("incomplete: {form} of 16x8x16"), "node 0 stopped in iteration"] {
            assert!(note.contains(part), "{form}: {note}");
        }
        // As whoever noticed calls it.
        assert!(["node 1", "rank 1", "member 1"].iter().any(|name| note.contains(name)), "{form}: {note}");
    }
}

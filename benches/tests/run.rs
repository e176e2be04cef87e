//! Every benchmark once, small, on the model and the CPU executor: it runs, its data are right, its JSON is whole.

use std::sync::Mutex;
use std::time::Duration;

use ggas_benches::{Bench, Device, Options, Path, Progress, Report, Team, Via, find};

/// One at a time: each starts nodes and kernels of its own, and two cores are few.
static ONE: Mutex<()> = Mutex::new(());

fn run(name: &str, options: Options) -> Report {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let bench: &dyn Bench = find(name).unwrap();
    let report = bench
        .run(&Team::alone(), &options, &mut Progress::silent())
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    report.check().unwrap();
    check_json(&report);
    report
}

/// As [`run`], with rates that cannot be mistaken for times; a machine may stall in one run, but not in each.
fn run_at_a_rate(name: &str, options: Options) -> Report {
    let runs = (0..5).map(|_| run(name, options.clone()));
    let is_quick = |report: &Report| report.rows.iter().all(|row| row.rate_per_s.unwrap() > 1000.0);
    { runs }.find(is_quick).unwrap_or_else(|| panic!("{name}: 1000 a second are not reached in any run"))
}

fn check_json(report: &Report) {
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!((&json["schema"], &json["verified"]), (&1.into(), &true.into()));
    assert_eq!(json["bench"], report.bench);
    let rows = json["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let latency = &row["latency_us"];
        let [min, median, p99] = ["min", "median", "p99"].map(|key| latency[key].as_f64().unwrap());
        // Puts that are not waited for one by one may arrive in one go.
        let least = if report.bench == "rma-rate" { -1.0 } else { 0.0 };
        assert!(least < min && min <= median && median <= p99, "{}: {row}", report.bench);
        assert!(row["samples"].as_u64().unwrap() > 0);
        assert_eq!(row["errors"], 0);
        let sized = row["bytes"].is_u64() || row["elements"].is_u64();
        let without = ["barrier", "litmus", "engine-idle"].contains(&report.bench)
            || row["method"] == "barrier"
            || row["method"] == "lock";
        assert!(sized || without, "{row}");
    }
}

fn small(sizes: &[u64]) -> Options {
    // A machine may stall for seconds.
    let timeout = Duration::from_secs(60);
    Options { sizes: sizes.to_vec(), iterations: Some(20), timeout, ..Options::default() }
}

fn methods(report: &Report) -> Vec<&str> {
    let mut methods: Vec<_> = report.rows.iter().filter_map(|row| row.method.as_deref()).collect();
    methods.dedup();
    methods
}

#[test]
fn pingpong_by_all_methods_and_both_paths() {
    for path in [Path::Slots, Path::Card] {
        let report = run("rma-pingpong", Options { path: Some(path), ..small(&[8, 5000]) });
        assert_eq!(methods(&report), ["notification", "poll", "host-assisted", "host-driven"]);
        assert_eq!(report.rows.len(), 8);
    }
}

#[test]
fn pingpong_with_a_single_slot() {
    run("rma-pingpong", Options { slots: 1, method: Some("notification".into()), ..small(&[64]) });
}

#[test]
fn bandwidth_has_a_memcpy_beside_it() {
    let report = run("rma-bandwidth", small(&[1, 100_000]));
    assert_eq!(methods(&report)[..2], ["notification", "host-assisted"]);
    let host: Vec<_> = report.rows.iter().filter(|row| row.extra.contains_key("of_memcpy")).collect();
    assert_eq!(host.len(), 2);
    assert_eq!(report.rows.iter().filter(|row| row.method.as_deref() == Some("memcpy")).count(), 2);
}

#[test]
fn round_trips_by_the_host() {
    let report = run("rma-roundtrip", small(&[1, 5000]));
    assert_eq!(methods(&report), ["get", "lock"]);
    assert_eq!(report.rows.len(), 3);
}

#[test]
fn cards_take_what_descriptors_and_messages_do() {
    let on_card = |name: &str, options: Options| {
        let options = Options { via: Via::Hw, ..options };
        options.validate(find(name).unwrap()).map_err(|error| error.to_string())
    };
    for name in ["rma-pingpong", "rma-bandwidth", "rma-rate", "rma-roundtrip", "velo-pingpong"] {
        assert_eq!(on_card(name, Options::default()), Ok(()));
    }
    let refused = |name, options| on_card(name, options).unwrap_err();
    let barrier = refused("barrier", Options::default());
    assert!(barrier.contains("by a card go: rma-pingpong"), "{barrier}");
    let private = Options { method: Some("host-driven-private".into()), ..Options::default() };
    assert!(refused("rma-bandwidth", private).contains("use: notification, host-assisted, host-driven"));
    let slots = Options { path: Some(Path::Slots), ..Options::default() };
    assert!(refused("rma-rate", slots).contains("requester pages"));
    assert!(refused("rma-rate", Options { nodes: 3, ..Options::default() }).contains("two ends"));
}

#[test]
fn puts_by_all_forms() {
    for name in ["put-signal", "put-packed"] {
        let report = run(name, small(&[8, 100, 20_000]));
        assert_eq!(methods(&report), ["thread", "warp", "block", "grid"]);
        assert_eq!(report.rows.len(), 12);
    }
    let report = run("get", small(&[8, 100, 20_000]));
    assert_eq!(methods(&report), ["thread", "warp", "block"]);
    assert_eq!(report.rows.len(), 9);
    let report = run("tn", small(&[8, 100, 20_000]));
    assert_eq!(methods(&report), ["put-signal", "trigger", "trigger-prepared", "graph"]);
    assert_eq!(report.rows.len(), 12);
    let report = run("put-bandwidth", small(&[100, 65_536]));
    assert_eq!(methods(&report), ["store", "bulk", "store-both", "bulk-both"]);
    let report = run_at_a_rate("put-rate", small(&[1, 8, 100]));
    assert_eq!(methods(&report), ["put", "put-apart", "put-signal"]);
    let report = run_at_a_rate("atomics-random", Options { nodes: 3, ..small(&[1 << 16]) });
    assert_eq!(methods(&report), ["no-result", "result"]);
}

/// Four ways, and by the model's unit.
const PROGRAMS: [&str; 5] = ["cpu", "hdn", "gds", "gpu-tn", "gpu-tn-unit"];

#[test]
fn lines_by_all_ways() {
    let report = run("tn-line", small(&[64, 4096]));
    assert_eq!((methods(&report), report.rows.len()), (PROGRAMS.to_vec(), 10));
}

#[test]
fn relaxations_are_those_of_a_serial_run_whatever_the_way() {
    // Two nodes exchange columns; four in a square rows as well; six have a node with three neighbours.
    for (nodes, sides) in [(2, &[1, 24, 100][..]), (4, &[17]), (6, &[8])] {
        let report = run("tn-jacobi", Options { nodes, ..small(sides) });
        assert_eq!(report.rows.len(), PROGRAMS.len() * sides.len());
        assert_eq!(methods(&report)[..5], PROGRAMS);
    }
    // More blocks: all have a part in what leaves to the sides, one in what leaves above and below.
    let many = Options { nodes: 4, blocks: vec![5], threads: vec![64], ..small(&[40]) };
    run("tn-jacobi", many);
}

#[test]
fn sums_of_a_ring_are_right_whatever_the_way() {
    for (nodes, sizes) in [(2, &[32, 65_536][..]), (3, &[20_012]), (8, &[8192, 1004, 128])] {
        let options = Options { nodes, iterations: Some(3), ..small(sizes) };
        let report = run("tn-allreduce", options);
        assert_eq!(report.rows.len(), PROGRAMS.len() * sizes.len());
        assert_eq!(methods(&report)[..5], PROGRAMS);
    }
    let empty = find("tn-allreduce").unwrap().run(&Team::alone(), &small(&[16]), &mut Progress::silent());
    assert!(empty.unwrap_err().to_string().contains("use 32 to"));
    let slices = Options { nodes: 4, blocks: vec![6], iterations: Some(2), ..small(&[4096]) };
    run("tn-allreduce", slices);
}

#[test]
fn workloads_are_projected_from_allreduces_by_their_shares() {
    // Of Table 3, in the order of the columns.
    let shares = [("AN4 LSTM", 0.5), ("AlexNet", 0.14), ("CIFAR", 0.04), ("Large Synth", 0.28)];
    let shares = shares.into_iter().chain([("MNIST Conv", 0.12), ("MNIST Hidden", 0.29)]);
    let options = Options { nodes: 3, iterations: Some(3), ..small(&[4096, 1212]) };
    let report = run("tn-learning", options);
    assert_eq!(report.rows.len(), 2 * PROGRAMS.len());
    for rows in report.rows.chunks(PROGRAMS.len()) {
        let hdn = rows[1].latency_us.median;
        for (row, method) in rows.iter().zip(PROGRAMS) {
            assert_eq!((row.method.as_deref(), row.bytes), (Some(method), rows[0].bytes));
            let relative = row.latency_us.median / hdn;
            let wanted = shares.clone().map(|(name, share)| (name, 1.0 / (1.0 + share * (relative - 1.0))));
            let ours = row.extra.iter().map(|(name, speedup)| (*name, speedup.as_f64().unwrap()));
            for (ours, wanted) in ours.zip(wanted.clone()) {
                assert!(ours.0 == wanted.0 && (ours.1 - wanted.1).abs() < 1e-9, "{ours:?}, not {wanted:?}");
            }
            assert_eq!(row.extra.len(), wanted.count());
        }
    }
    assert!(
        report.notes[1].contains("AN4 LSTM, 50 % blocked on 131,192")
            && report.notes[1].contains("(paper: 20")
    );
}

#[test]
fn only_the_model_has_a_unit() {
    for name in ["tn-line", "tn-jacobi", "tn-allreduce"] {
        let options = Options {
            via: Via::Nvlink,
            device: Device::Gpu,
            gpus: 2,
            method: Some("gpu-tn-unit".into()),
            ..small(&[])
        };
        let error = find(name).unwrap().run(&Team::alone(), &options, &mut Progress::silent()).unwrap_err();
        assert!(error.to_string().contains("only the model has the unit"), "{error}");
    }
}

#[test]
fn transfers_beside_computation() {
    let small = |sizes: &[u64]| Options { iterations: Some(3), ..small(sizes) };
    let puts = run("put-overlap", small(&[8, 20_000]));
    assert_eq!((methods(&puts), puts.rows.len()), (vec!["block", "warp", "bulk"], 6));
    let posts = run("rma-overlap", small(&[8, 20_000]));
    for row in [puts, posts].iter().flat_map(|report| &report.rows) {
        let [alone, computing, hidden] = ["communication_us", "computation_us", "overlap_percent"]
            .map(|column| row.extra[column].as_f64().unwrap());
        assert!(alone > 0.0 && computing > 0.0, "{row:?}");
        let wanted = 100.0 * (alone + computing - row.latency_us.median) / alone.min(computing);
        assert!((hidden - wanted).abs() < 1e-6, "{row:?}");
    }
}

#[test]
fn litmus_tests_find_nothing_in_the_right_build() {
    let report = run("litmus", small(&[]));
    // 3 tests and 6 forms of puts on two kinds of memory, right and weak; store buffering by a fence as well. Three nodes
    // and grids that meet share the window only.
    assert_eq!((methods(&report).len(), report.rows.len()), (11, 9 * 2 * 2 + 2 + 2 * 2));
    assert!(report.rows.iter().all(|row| row.extra["observed"].as_u64() > Some(0)));
    let triggers = run("litmus-trigger", small(&[]));
    assert_eq!((methods(&triggers), triggers.rows.len()), (vec!["right", "weak"], 6));
}

#[test]
fn only_what_needs_no_nic_goes_by_peer_memory() {
    let options = Options { via: ggas_benches::Via::Nvlink, gpus: 2, ..Options::default() };
    let refused =
        |name: &str, options: &Options| options.validate(find(name).unwrap()).unwrap_err().to_string();
    assert!(refused("alltoall", &options).contains("put-signal"));
    assert!(refused("put-signal", &options).contains("--device gpu"));
    let options = Options { device: ggas_benches::Device::Gpu, ..options };
    assert!(options.validate(find("put-signal").unwrap()).is_ok());
    let options = Options { nodes: 3, ..options };
    assert!(refused("put-signal", &options).contains("--gpus 3"));
}

#[test]
fn engines_carry_what_kernels_post() {
    let via = ggas_benches::Via::Nvlink;
    let pingpong = run("rma-pingpong", Options { via, ..small(&[8, 5000]) });
    assert_eq!(methods(&pingpong), ["notification", "poll"]);
    assert_eq!(methods(&run("rma-bandwidth", Options { via, ..small(&[5000]) })), ["notification"]);
    // Tens of thousands of puts by threads that yield: beside others that do not, it takes minutes.
    let timeout = Duration::from_secs(240);
    let rate = run("rma-rate", Options { via, threads: vec![32], blocks: vec![1], timeout, ..small(&[]) });
    assert_eq!(methods(&rate), ["put", "put-notify", "put-ports", "put-notify-ports"]);
    let forced = Options { via, requesters: Some(2), helpers: Some(2), ..small(&[5000]) };
    let forced = run("rma-bandwidth", forced).json();
    let forced: serde_json::Value = serde_json::from_str(&forced).unwrap();
    assert_eq!((&forced["settings"]["requesters"], &forced["settings"]["helpers"]), (&2.into(), &2.into()));
    // Of a benchmark that windows carry as well, only what is asked for.
    let random = Options { via, method: Some("rma".into()), nodes: 3, ..small(&[4096]) };
    assert_eq!(methods(&run("randomaccess", random)), ["rma"]);
    for (method, path) in [(Some("host-driven"), None), (None, Some(ggas_benches::Path::Card))] {
        let options = Options { via, method: method.map(str::to_owned), path, ..Options::default() };
        assert!(options.validate(find("rma-pingpong").unwrap()).is_err());
    }
}

#[test]
fn engines_pass_time_without_work() {
    let via = ggas_benches::Via::Nvlink;
    assert_eq!(methods(&run("engine-idle", Options { via, ..small(&[]) })), ["idle"]);
    let none = find("engine-idle").unwrap().run(&Team::alone(), &small(&[]), &mut Progress::silent());
    assert!(none.unwrap_err().to_string().contains("--via nvlink"));
}

#[test]
fn the_c_interface_beside_the_library_below_it() {
    let report = run("c-interface", small(&[8, 5000]));
    assert_eq!(report.nodes, 1);
    assert_eq!(report.rows.iter().filter(|row| row.extra.contains_key("ratio")).count(), 2);
    assert_eq!(methods(&report), ["rust", "c", "rust", "c"]);
}

#[test]
fn rates() {
    let report = run_at_a_rate(
        "rma-rate",
        Options { blocks: vec![2], threads: vec![64], iterations: Some(20_000), ..small(&[]) },
    );
    assert_eq!(methods(&report), ["put", "put-notify", "host-driven", "host-driven-notify"]);
}

#[test]
fn messages_beside_notification_puts() {
    let report = run("velo-pingpong", small(&[1, 120]));
    assert_eq!(report.rows.len(), 8);
    let names = ["notification-put", "message", "kernel-notification-put", "kernel-message"];
    for (row, name) in report.rows.iter().zip([&names[..2], &names[..2], &names[2..], &names[2..]].concat()) {
        assert_eq!(row.method.as_deref(), Some(name));
        assert_eq!(row.extra.contains_key("of_notification"), name.ends_with("message"));
        assert!(row.latency_us.min > 0.0);
    }
}

#[test]
fn stores_and_loads() {
    let report = run("ggas-pingpong", Options { threads: vec![1, 64], ..small(&[]) });
    assert_eq!(report.rows.len(), 4);
    let report =
        run("ggas-bandwidth", Options { blocks: vec![2], threads: vec![64], ..small(&[16, 10_000]) });
    assert_eq!(report.rows.len(), 8);
}

#[test]
fn barriers_of_two_to_five_nodes() {
    let options = Options { nodes: 5, blocks: vec![3], threads: vec![32], ..small(&[]) };
    let report = run("barrier", options);
    let nodes: Vec<_> = report.rows.iter().filter_map(|row| row.nodes).collect();
    let methods = report.rows.iter().map(|row| &row.method).collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(nodes, [2, 4, 5].repeat(methods));
    assert!(methods >= 2, "thesis and packets");
    let ends = report.rows.iter().filter(|row| row.method.as_deref() == Some("relaunch"));
    assert_eq!(ends.map(|row| (row.nodes, row.batch)).collect::<Vec<_>>(), [2, 4, 5].map(|n| (Some(n), 1)));
    let graph = Options { method: Some("graph".into()), ..small(&[]) };
    let refused = find("barrier").unwrap().run(&Team::alone(), &graph, &mut Progress::silent());
    assert!(refused.unwrap_err().to_string().contains("GPUs"));
}

#[test]
fn sums() {
    for name in ["reduce", "allreduce"] {
        run(name, Options { nodes: 3, ..small(&[1, 1000]) });
        run(name, Options { blocks: vec![2], threads: vec![64], ..small(&[5000]) });
    }
}

#[test]
fn values_of_all_nodes_become_one_sum() {
    let report = run("global-reduction", Options { nodes: 3, ..small(&[1, 1000]) });
    assert_eq!(report.rows.len(), 2);
    assert!(report.rows.iter().all(|row| row.rate_per_s > Some(0.0)));
}

#[test]
fn tuning_keeps_what_was_quickest() {
    let options = Options { nodes: 3, iterations: Some(2), sizes: vec![100, 3000], ..Options::default() };
    let tuned = ggas_benches::tune(&Team::alone(), &options, &mut Progress::silent()).unwrap();
    assert_eq!((tuned.choices.device.as_str(), tuned.choices.nodes), ("cpu", 3));
    assert_eq!(tuned.reports.len(), 2);
    let rows = &tuned.reports[0].rows;
    let of = |elements| rows.iter().filter(move |row| row.elements == Some(elements));
    for (elements, bytes) in [(100, 400), (3000, 12_000)] {
        let quickest = of(elements).map(|row| row.latency_us.median).fold(f64::INFINITY, f64::min);
        let shape = tuned.choices.sum(bytes);
        let chosen = of(elements)
            .find(|row| row.blocks == Some(shape.blocks) && row.extra["chunks"] == shape.chunks)
            .unwrap();
        assert_eq!(chosen.latency_us.median, quickest);
    }
}

#[test]
fn collectives_that_the_host_starts() {
    for nodes in [2, 3] {
        let report = run("collectives-stream", Options { nodes, ..small(&[1000]) });
        assert_eq!(report.rows.len(), 7);
    }
}

#[test]
fn random_access_on_any_number_of_nodes() {
    let report = run("randomaccess", Options { nodes: 3, ..small(&[4096]) });
    assert_eq!(methods(&report), ["ggas", "rma", "atomics"]);
    assert!(report.rows.iter().all(|row| row.extra["look_ahead"].as_u64().unwrap() <= 1024));
    run(
        "randomaccess",
        Options { blocks: vec![2], threads: vec![64], method: Some("ggas".into()), ..small(&[4096]) },
    );
}

#[test]
fn options_that_do_not_fit_say_what_would() {
    let mut silent = Progress::silent();
    let refuse = |name: &str, options: Options| {
        let error = find(name).unwrap().run(&Team::alone(), &options, &mut Progress::silent()).unwrap_err();
        error.to_string()
    };
    assert!(refuse("rma-pingpong", Options { nodes: 1, ..small(&[8]) }).contains("2 to 1024"));
    assert!(refuse("rma-pingpong", Options { method: Some("push".into()), ..small(&[]) }).contains("poll"));
    assert!(refuse("rma-pingpong", small(&[0])).contains("use 1 to"));
    assert!(refuse("rma-pingpong", small(&[(8 << 20) + 1])).contains("use 1 to"));
    assert!(
        refuse("rma-pingpong", Options { method: Some("poll".into()), ..small(&[9]) })
            .contains("multiples of 8")
    );
    assert!(refuse("rma-rate", Options { threads: vec![33], ..small(&[]) }).contains("multiples of 32"));
    assert!(refuse("barrier", small(&[8])).contains("no size"));
    assert!(refuse("randomaccess", small(&[1000])).contains("power of two"));
    assert!(refuse("randomaccess", Options { nodes: 65, ..small(&[]) }).contains("64 nodes"));
    assert!(refuse("allreduce", Options { slots: 3, ..small(&[8]) }).contains("power of two"));
    assert!(refuse("rma-rate", Options { requesters: Some(2), ..small(&[]) }).contains("--via nvlink"));
    assert!(refuse("barrier", Options { helpers: Some(1), ..small(&[]) }).contains("--via nvlink"));
    assert!(refuse("ggas-pingpong", Options { threads: vec![1025], ..small(&[]) }).contains("1024"));
    assert!(find("rma-pong").err().unwrap().to_string().contains("rma-pingpong"));
    silent.finish();
}

#[test]
fn without_a_gpu_the_reason_is_given() {
    if ggas_gpu::probe().is_ok() {
        return;
    }
    let options = Options { device: ggas_benches::Device::Gpu, ..small(&[8]) };
    let error = find("barrier").unwrap().run(
        &Team::alone(),
        &Options { sizes: vec![], ..options },
        &mut Progress::silent(),
    );
    let error = error.unwrap_err();
    assert!(std::error::Error::source(&error).is_some(), "{error}");
}

#[test]
fn all_to_all_of_several_nodes() {
    let report = run("alltoall", Options { nodes: 7, ..small(&[1, 8, 5000]) });
    assert_eq!(report.rows.len(), 3);
    run("alltoall", small(&[8]));
}

#[test]
fn nodes_that_a_process_has_no_room_for_are_refused_before_it_takes_it() {
    let options = Options { nodes: 512, method: Some("gather".to_owned()), ..small(&[16]) };
    let error = find("allreduce").unwrap().run(&Team::alone(), &options, &mut Progress::silent());
    let error = error.unwrap_err().to_string();
    for part in ["--nodes 512: ", "at most 2048 MiB", "use fewer nodes, or --fabric process"] {
        assert!(error.contains(part), "{error}");
    }
}

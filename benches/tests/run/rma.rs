//! What descriptors, notifications and messages carry.

use std::time::Duration;

use ggas_benches::{Options, Path, Progress, Team, Via, find};

use crate::{methods, run, run_at_a_rate, small};

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
    for name in ["rma-pingpong", "rma-bandwidth", "rma-rate", "rma-roundtrip", "velo-pingpong", "queues"] {
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
fn messages_by_calls_of_kernels_and_beside_them() {
    let report = run("gmpi-pingpong", small(&[8, 5000]));
    let all = ["direct", "direct-send", "direct-slots", "kernels", "kernels-send", "kernel-ends", "hosts"];
    assert_eq!(methods(&report), [all, all].concat());
}

#[test]
fn kernels_beside_daemons_that_poll() {
    let report = run("gmpi-polling", Options { iterations: Some(1), ..small(&[]) });
    let all = ["none", "sleep", "yield", "spin", "spin-copied"];
    assert_eq!(methods(&report), [all, all].concat());
    assert!(report.rows.iter().all(|row| row.extra.contains_key("over_none_percent")));
}

#[test]
fn himeno_by_calls_of_kernels_and_beside_them() {
    let small = Options { iterations: Some(4), ..small(&[]) };
    let report = run("gmpi-himeno", small.clone());
    let all = ["put", "ggas", "direct", "own", "own-kernel-ends"];
    assert_eq!(methods(&report), [all, all].concat(), "cut in planes, then in rows");
    for row in report.rows.iter().filter(|row| row.method.as_deref() != Some("ggas")) {
        let parts =
            ["computation_us", "halo_us", "convergence_us"].map(|part| row.extra[part].as_f64().unwrap());
        assert!(parts.iter().all(|part| *part > 0.0), "{row:?}");
    }
    let split = "1x2x2".parse().unwrap();
    let four = run("gmpi-himeno", Options { nodes: 4, split: Some(split), ..small });
    assert_eq!(methods(&four), all, "edges, too, where two faces meet");
}

#[test]
fn calls_of_kernels_by_their_arguments() {
    let report = run("gmpi-calls", small(&[1, 7, 31]));
    assert_eq!(methods(&report), ["mapped", "tagged", "copied"]);
    let mut beyond = Progress::silent();
    let refused = find("gmpi-calls").unwrap().run(&Team::alone(), &small(&[32]), &mut beyond);
    assert!(refused.unwrap_err().to_string().contains("32"));
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
fn all_to_all_of_several_nodes() {
    let report = run("alltoall", Options { nodes: 7, ..small(&[1, 8, 5000]) });
    assert_eq!(report.rows.len(), 3);
    run("alltoall", small(&[8]));
}

#[test]
fn queues_by_both_paths() {
    for path in [Path::Slots, Path::Card] {
        let report = run("queues", Options { path: Some(path), ..small(&[8, 100]) });
        let all = [
            "bare-signal",
            "bare-signal-apart",
            "queue-signal",
            "rate-stores",
            "bare-put",
            "queue-put",
            "rate-device",
        ];
        assert_eq!(methods(&report), all);
        // Rates by 1 to 32 queues.
        assert_eq!(report.rows.len(), 2 * (5 + 2 * 6));
    }
}

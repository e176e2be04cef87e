//! What goes by windows.

use ggas_benches::{Options, Progress, Team, find};

use crate::{methods, run, run_at_a_rate, small};

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

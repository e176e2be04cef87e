//! Programs and what nodes compute together.

use ggas_benches::{Device, Options, Progress, Team, Via, find};

use crate::{methods, run, small};

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
fn values_of_all_nodes_become_one_sum() {
    let report = run("global-reduction", Options { nodes: 3, ..small(&[1, 1000]) });
    assert_eq!(report.rows.len(), 2);
    assert!(report.rows.iter().all(|row| row.rate_per_s > Some(0.0)));
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

use std::time::Duration;

use super::*;

/// Blocks of odd numbers of rows, tiles that are not full, and planes that 2, 3, 4 and 8 nodes share.
const GRID: Grid = Grid { x: 37, y: 11, z: 24 };

fn options(nodes: u32) -> Options {
    let timeout = Duration::from_secs(60);
    let (scaling, iterations) = (Scaling::Strong, Some(4));
    Options { nodes, grids: vec![GRID], scaling, iterations, timeout, ..Options::default() }
}

fn run(options: &Options) -> Result<Report, BenchError> {
    Himeno.run(&Team::alone(), options, &mut Progress::silent())
}

fn residuals(report: &Report) -> Vec<u64> {
    let bits = |row: &Row| row.extra.get("residual").and_then(serde_json::Value::as_f64).map(f64::to_bits);
    report.rows.iter().filter_map(bits).collect()
}

#[test]
fn every_form_gives_the_same_bits_on_any_number_of_nodes() {
    let mut all = Vec::new();
    for nodes in [1, 2, 3, 4] {
        let report = run(&options(nodes)).unwrap();
        report.check().unwrap();
        assert_eq!(report.rows.len(), Form::ALL.len() - if nodes == 1 { 2 } else { 0 });
        all.extend(residuals(&report));
    }
    let report = run(&Options { method: Some("in-kernel".into()), ..options(8) }).unwrap();
    report.check().unwrap();
    all.extend(residuals(&report));
    assert_eq!(all.len(), 9 + 3 * 8 + 1);
    assert!(all.iter().all(|bits| *bits == all[0]));
}

/// Blocks for two units above each other, and rows of two tiles, so that groups of tiles begin in the midst of a row.
#[test]
fn blocks_wait_for_all_parts_around_their_own() {
    for (grid, blocks) in [(GRID, 11), (Grid { x: 130, y: 9, z: 12 }, 15)] {
        for form in ["ggas", "persistent"] {
            let (grids, blocks, method) = (vec![grid], vec![blocks], Some(form.into()));
            run(&Options { grids, blocks, method, ..options(3) }).unwrap().check().unwrap();
        }
    }
}

#[test]
fn nodes_of_two_planes_have_boundaries_only() {
    let grids = vec![Grid { z: 8, ..GRID }];
    run(&Options { grids, ..options(4) }).unwrap().check().unwrap();
}

#[test]
fn weak_scaling_gives_each_node_the_grid() {
    let report = run(&Options { scaling: Scaling::Weak, method: Some("ggas".into()), ..options(2) }).unwrap();
    report.check().unwrap();
    assert_eq!(report.rows[0].elements, Some(37 * 11 * 48));
}

#[test]
fn what_does_not_fit_says_what_would() {
    let refused = |options: Options| run(&options).unwrap_err().to_string();
    assert!(refused(options(5)).contains("use 37x11x20, 37x11x25"));
    assert!(refused(Options { method: Some("gossip".into()), ..options(2) }).contains("in-kernel"));
    assert!(refused(Options { sizes: vec![8], ..options(2) }).contains("--grid"));
    assert!(refused(Options { threads: vec![48], ..options(2) }).contains("multiple of 32"));
    let bench = crate::find("barrier").unwrap();
    assert!(options(2).validate(bench).unwrap_err().to_string().contains("no grids"));
}

/// A node whose neighbour is gone ends by itself and says where it stood.
#[test]
fn a_node_that_stays_away_is_missed_in_an_iteration() {
    let options = Options { timeout: Duration::from_millis(50), ..options(2) };
    let team = Team::alone();
    let task = Task::new(&Himeno, &team, &options).unwrap();
    let setup = Setup::new(task, Worker::Kernels).unwrap();
    let slices = Slices::new(GRID, Scaling::Strong, 2).unwrap();
    for form in [
        Form::InKernel,
        Form::Parts,
        Form::Stream,
        Form::Device,
        Form::Ggas,
        Form::Persistent,
        Form::ExchangeFlags,
    ] {
        let mut run = Run::new(&setup, slices).unwrap();
        run.fill(&Data { whole: GRID, seed: 0 }).unwrap();
        run.lose(1);
        let error = run.iterate(form, 4).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("node 0 stopped in iteration") && text.contains("--timeout"), "{text}");
        let mut report = task.report();
        mark(&mut report, form, GRID, &error);
        assert!(report.notes[0].contains("incomplete") && report.check().is_err());
    }
}

use std::time::Duration;

use super::*;
use crate::Split;
use crate::himeno::Data;

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

/// Of grids with as many points, too, a row is run again alone.
#[test]
fn a_row_s_grid_is_one_of_those_asked_for() {
    let grids = vec![GRID, Grid { x: 11, y: 37, z: 24 }];
    let compute = Options { grids, method: Some("compute".into()), sizes: vec![GRID.points()], ..options(2) };
    let of = |options: &Options| {
        run(options).map(|report| report.rows.iter().map(|row| row.extra["grid"].clone()).collect())
    };
    let all: Vec<_> = of(&compute).unwrap();
    assert_eq!(all, ["37x11x24", "11x37x24"]);
    for grid in all {
        let again = Options { grid_of_row: grid.as_str().map(str::to_owned), ..compute.clone() };
        assert_eq!(of(&again).unwrap(), [grid]);
    }
    assert!(of(&Options { grid_of_row: Some("1x1x1".into()), ..compute }).is_err());
}

#[test]
fn every_form_gives_the_same_bits_on_any_number_of_nodes() {
    let mut all = Vec::new();
    for nodes in [1, 2, 3, 4] {
        let report = run(&options(nodes)).unwrap();
        report.check().unwrap();
        assert_eq!(report.rows.len(), Form::ALL.len() - if nodes == 1 { 4 } else { 0 });
        all.extend(residuals(&report));
    }
    let report = run(&Options { method: Some("in-kernel".into()), ..options(8) }).unwrap();
    report.check().unwrap();
    all.extend(residuals(&report));
    assert_eq!(all.len(), 9 + 3 * 10 + 1);
    assert!(all.iter().all(|bits| *bits == all[0]));
}

/// Cuts in all directions, through tiles and between them; a part in the midst has 18 neighbours.
#[test]
fn parts_of_three_directions_give_the_same_bits() {
    let small = Grid { x: 24, y: 12, z: 12 };
    let cases = [
        (small, vec![[2, 2, 2], [1, 2, 2], [2, 1, 1], [3, 1, 1], [1, 4, 1], [2, 1, 2]]),
        (Grid { x: 256, y: 6, z: 6 }, vec![[2, 1, 1], [1, 2, 1]]),
        (Grid { x: 264, y: 6, z: 6 }, vec![[2, 1, 1], [3, 1, 2]]),
    ];
    for (grid, splits) in cases {
        let of = |[x, y, z]: [u32; 3]| {
            let split = Split { x, y, z };
            let (split, grids) = (Some(split), vec![grid]);
            let report = run(&Options { split, grids, ..options(x * y * z) }).unwrap();
            report.check().unwrap_or_else(|error| panic!("{grid} in {x}x{y}x{z}: {error}"));
            residuals(&report)
        };
        let alone = of([1, 1, 1])[0];
        for split in splits {
            let all = of(split);
            assert_eq!(all, [alone; 6], "{grid} in {split:?}");
        }
    }
}

#[test]
fn a_part_in_the_midst_of_27_gets_all_it_reads() {
    let split = Some(Split { x: 3, y: 3, z: 3 });
    for form in ["stream", "ggas"] {
        let (grids, method) = (vec![Grid { x: 24, y: 9, z: 9 }], Some(form.into()));
        run(&Options { split, grids, method, ..options(27) }).unwrap().check().unwrap();
    }
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

/// A grid of which they keep little, so that each has units from below to above.
#[test]
fn blocks_take_many_units_in_turn() {
    for (blocks, form) in [(5, "ggas"), (5, "persistent"), (70, "ggas")] {
        let (grids, blocks, method) = (vec![Grid { x: 128, y: 34, z: 46 }], vec![blocks], Some(form.into()));
        run(&Options { grids, blocks, method, threads: vec![32], ..options(2) }).unwrap().check().unwrap();
    }
}

#[test]
fn queues_go_by_the_pages_of_a_card() {
    for split in [Split { x: 1, y: 1, z: 3 }, Split { x: 2, y: 2, z: 1 }] {
        let (path, method) = (Some(crate::Path::Card), Some("queues-device".into()));
        let grids = vec![Grid { x: 24, y: 12, z: 12 }];
        run(&Options { split: Some(split), path, method, grids, ..options(split.nodes()) })
            .unwrap()
            .check()
            .unwrap();
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
    let split = |x, y, z| Options { split: Some(Split { x, y, z }), ..options(x * y * z) };
    assert!(refused(split(2, 1, 1)).contains("use 40x11x24"));
    assert!(
        refused(Options { method: Some("persistent".into()), ..split(1, 11, 1) }).contains("--split 1x1x11")
    );
    let bench = crate::find("himeno").unwrap();
    let unequal = Options { nodes: 3, ..split(1, 2, 1) }.validate(bench).unwrap_err().to_string();
    assert!(unequal.contains("use --nodes 2"), "{unequal}");
    assert!(refused(Options { sizes: vec![8], ..options(2) }).contains("--grid"));
    assert!(refused(Options { threads: vec![48], ..options(2) }).contains("multiple of 32"));
    assert!(refused(Options { threads: vec![544], ..options(2) }).contains("at most 512"));
    // As a row of exchanges of large boundaries says.
    let many = Options { method: Some("exchange".into()), threads: vec![512], ..options(2) };
    run(&many).unwrap().check().unwrap();
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
    let parts = Parts::new(GRID, Scaling::Strong, Split::slices(2)).unwrap();
    for form in [
        Form::InKernel,
        Form::Parts,
        Form::Stream,
        Form::Device,
        Form::Queues,
        Form::QueuesDevice,
        Form::Ggas,
        Form::Persistent,
        Form::ExchangeFlags,
    ] {
        let mut run = Run::new(&setup, parts).unwrap();
        run.fill(&Data { whole: GRID, seed: 0 }).unwrap();
        run.lose(1);
        let error = run.iterate(form, 4).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("node 0 stopped in iteration") && text.contains("--timeout"), "{text}");
        let mut report = task.report();
        mark(&mut report, form.name(), GRID, &error);
        assert!(report.notes[0].contains("incomplete") && report.check().is_err());
    }
}

//! The programs of HPE: the bits are the host's on any number of devices, whatever the way.

use std::time::Duration;

use ggas_benches::{Options, Progress, Team, find};

use crate::{methods, run, small};

fn on(devices: &[u32], sizes: &[u64]) -> Options {
    Options { devices: devices.to_vec(), iterations: Some(1), ..small(sizes) }
}

fn refused(name: &str, options: &Options) -> String {
    let error = find(name).unwrap().run(&Team::alone(), options, &mut Progress::silent());
    error.unwrap_err().to_string()
}

#[test]
fn stencils_at_every_level_are_the_host_s() {
    let report = run("hpe-stencil", on(&[], &[8]));
    // Where the system allows it, also by userfaultfd.
    let has = report.notes.iter().all(|note| !note.starts_with("userfault: not run"));
    let levels = ["proxy", "sharing", "remote", "shared", "overlap", "userfault"];
    let levels = &levels[..5 + usize::from(has)];
    assert_eq!((methods(&report), report.rows.len()), (levels.to_vec(), 3 * levels.len()));
    let devices: Vec<u64> = report.rows.iter().map(|row| row.extra["devices"].as_u64().unwrap()).collect();
    assert_eq!(devices[..3], [1, 2, 4], "unless others are asked for");
    // What the listings are about: copies that the program makes in a step, of two devices.
    let copies: Vec<f64> =
        report.rows.chunks(3).map(|rows| rows[1].extra["copies"].as_f64().unwrap()).collect();
    assert_eq!(copies, [4.0, 2.0, 0.0, 0.0, 2.0, 0.0][..levels.len()]);
    // Parts of different length, and the shortest.
    run("hpe-stencil", on(&[3, 5], &[10, 13]));
}

#[test]
fn transforms_are_the_host_s_by_all_ways() {
    let report = run("hpe-fft", on(&[1, 2, 4, 8], &[32, 1024]));
    assert_eq!((methods(&report).len(), report.rows.len()), (6, 24));
    assert_eq!(methods(&report)[..3], ["staged", "copies", "remote"]);
}

#[test]
fn lists_of_any_length_are_sorted_on_any_number_of_devices() {
    let report = run("hpe-sort", on(&[1, 2, 3, 4], &[1, 5, 333, 4096]));
    assert_eq!((methods(&report).len(), report.rows.len()), (12, 48));
    assert_eq!(methods(&report)[..3], ["staged", "copies", "remote"]);
}

/// Whatever blocks of whatever pinned buffers.
#[test]
fn staged_copies_are_right_by_all_shapes() {
    for method in ["staged", "thread-2x4M", "thread-3x2M", "thread-8x1M", "thread-16x512K", "both-ways"] {
        let report = run("hpe-copy", Options { method: Some(method.to_owned()), ..small(&[300_000]) });
        assert_eq!(report.rows.len(), 1, "{method}");
    }
    // Without GPUs no engine waits for another one's event.
    let report = run("hpe-copy", small(&[4096]));
    assert!(methods(&report).iter().all(|method| !method.starts_with("events")), "{report:?}");
}

#[test]
fn kernels_count_what_leaves_their_device_and_no_copy_outlives_a_fence() {
    let report = run("hpe-remote", Options { iterations: Some(3), ..small(&[64, 12_352]) });
    let of = |row: usize, name: &str| report.rows[row].extra[name].as_u64().unwrap();
    assert_eq!(methods(&report), ["loads", "loads-kept", "fence", "fence-kept"]);
    // 12,352 bytes: two pages on device 0, the rest on device 1; each device loads all of them.
    let runs = of(1, "local") / 1544;
    assert_eq!((of(1, "local"), of(1, "remote"), of(1, "kept")), (1544 * runs, 1544 * runs, 0));
    assert_eq!((of(3, "local"), of(3, "remote"), of(3, "kept")), (1544 * runs, 386 * runs, 1158 * runs));
    // Right and weak builds: what is kept is stale without a fence, each time.
    let seen = [4, 5, 6, 7].map(|row| (of(row, "observed"), of(row, "forbidden")));
    assert_eq!((seen[0], seen[2]), ((48, 0), (48, 0)));
    assert_eq!(seen[3], (48, 48), "the weak build of kept lines");
}

#[test]
fn options_that_do_not_fit_say_what_would() {
    for (name, options, what) in [
        ("hpe-stencil", on(&[4], &[7]), "use 8 points or more"),
        ("hpe-stencil", on(&[2], &[2]), "use 3 to 1024"),
        ("hpe-stencil", on(&[17], &[]), "use 1 to 16"),
        ("hpe-stencil", Options { nodes: 3, ..on(&[], &[]) }, "--devices"),
        ("hpe-fft", on(&[3], &[]), "use 1, 2, 4, 8 or 16"),
        ("hpe-fft", on(&[2], &[100]), "a power of two"),
        ("hpe-sort", Options { nodes: 3, ..on(&[], &[]) }, "of one process: use --devices"),
        ("hpe-sort", on(&[0], &[]), "use 1 to 16"),
        ("hpe-sort", on(&[], &[0]), "use 1 to"),
        ("hpe-copy", on(&[2], &[]), "hpe-stencil, hpe-fft, hpe-sort only"),
        ("hpe-fft", Options { timeout: Duration::ZERO, ..on(&[], &[]) }, "at least one millisecond"),
    ] {
        let error = refused(name, &options);
        assert!(error.contains(what), "{name}: {error}");
    }
}

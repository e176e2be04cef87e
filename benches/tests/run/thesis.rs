//! What chapters 3 to 6 of the thesis measure beside ping-pongs.

use ggas_benches::{Options, Progress, Team, find};

use crate::{methods, run, small};

#[test]
fn every_second_value_is_accessed_and_no_other() {
    let report =
        run("ggas-coalescing", Options { blocks: vec![2], threads: vec![64], ..small(&[4, 64, 4000]) });
    assert_eq!(methods(&report), ["store", "store-second", "load", "load-second"]);
    assert_eq!(
        report.rows.iter().map(|row| row.elements).collect::<Vec<_>>(),
        [1, 16, 1000].map(Some).repeat(4)
    );
}

#[test]
fn grids_of_thousands_of_threads_store_and_load() {
    let wide = Options { iterations: Some(2), ..small(&[8, 2048 * 8]) };
    let report = run("ggas-pingpong", wide);
    let shapes: Vec<_> = report.rows.iter().map(|row| (row.blocks, row.threads)).collect();
    assert_eq!(shapes, [(Some(1), Some(1)), (Some(32), Some(64))].repeat(2));
    let shaped = run("ggas-pingpong", Options { blocks: vec![3], threads: vec![32], ..small(&[]) });
    assert_eq!(shaped.rows[0].bytes, Some(8 * 96));
    let refused = |options: Options| {
        let run = find("ggas-pingpong").unwrap().run(&Team::alone(), &options, &mut Progress::silent());
        run.unwrap_err().to_string()
    };
    assert!(refused(small(&[1025 * 8])).contains("multiples of 512"));
    assert!(refused(Options { blocks: vec![9], threads: vec![1024], ..small(&[]) }).contains("8192 threads"));
}

#[test]
fn kernels_copy_themselves_or_by_the_engine() {
    let report = run("device-copy", small(&[16, 10_000]));
    assert_eq!(methods(&report), ["store", "engine-write", "load", "engine-read"]);
    assert_eq!(report.rows.len(), 8);
    for (note, what) in report.notes.iter().zip(["written", "read"]) {
        assert!(note.starts_with(what) && note.contains("the copy engine is"), "{note}");
    }
}

#[test]
fn memory_of_hosts_and_kernels_in_all_directions() {
    let report = run("directions", small(&[1, 5000]));
    assert_eq!(methods(&report), ["host-host", "host-gpu", "gpu-host", "gpu-gpu"]);
    let by: Vec<_> = report.rows.iter().map(|row| row.extra["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["put", "copy"].repeat(8));
}

#[test]
fn kernel_memory_passes_the_hosts_in_chunks() {
    // The last chunk is shorter.
    let report = run("staged", small(&[100, 50_000]));
    assert_eq!(methods(&report), ["direct", "staged", "pipelined"]);
    let chunks: Vec<_> =
        report.rows.iter().map(|row| row.extra.get("chunk").and_then(|n| n.as_u64())).collect();
    assert_eq!(chunks, [None, None, Some(100), Some(50_000), Some(16_384)]);
}

#[test]
fn hosts_learn_of_a_kernel_s_end() {
    let report = run("host-sync", Options { iterations: Some(3), ..small(&[]) });
    // The executor has no driver that waits.
    assert_eq!(methods(&report), ["word"]);
    let report = run("host-wait", Options { iterations: Some(2), ..small(&[]) });
    assert_eq!(methods(&report), ["word", "word-sleeping-1ms", "word-sleeping-5ms"]);
    for row in &report.rows {
        assert!(row.latency_us.min >= 2000.0 && row.extra["late_us"].as_f64() >= Some(0.0), "{row:?}");
        assert!(row.extra["host_cpu_percent"].as_f64() > Some(0.0), "{row:?}");
    }
    for (name, options, says) in [
        ("host-sync", Options { method: Some("device".into()), ..small(&[]) }, "only CUDA's driver"),
        ("host-wait", small(&[8]), "has no size"),
    ] {
        let error = find(name).unwrap().run(&Team::alone(), &options, &mut Progress::silent()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn hosts_work_while_a_transfer_passes() {
    let report = run("post-work-wait", Options { iterations: Some(5), ..small(&[8, 300_000]) });
    assert_eq!(methods(&report), ["put", "copy", "staged"]);
    for row in &report.rows {
        let column = |name: &str| row.extra[name].as_f64().unwrap();
        let overhead = row.latency_us.median - column("computation_us");
        assert!((column("overhead_us") - overhead).abs() < 1e-6, "{row:?}");
        assert!(column("communication_us") > 0.0 && column("computation_us") > 0.0, "{row:?}");
    }
}

/// Each of the four methods moves what it should.
#[test]
fn verbs_by_four_methods() {
    let rows = |name, options| run(name, options).rows.len();
    assert_eq!(rows("verbs-bandwidth", Options { iterations: Some(3), ..small(&[64]) }), 4);
    let few = Options { blocks: vec![1, 3], threads: vec![32], iterations: Some(3), ..small(&[32]) };
    assert_eq!(rows("verbs-rate", few), 8);
    assert_eq!(rows("verbs-atomics", small(&[])), 8);
    assert_eq!(rows("verbs-latency", small(&[64])), 7);
}

/// What each step of Table 5.4 leaves out is left out, and nothing else (Fig. 5.16).
#[test]
fn steps_of_verbs_leave_out_what_they_name() {
    let options = Options { threads: vec![1, 64], iterations: Some(20), ..small(&[64]) };
    let report = run("verbs-ladder", options);
    // Of step 5 with queues of the GPU only.
    assert_eq!(report.rows.len(), (5 + 2) * 2 * 2 * 2 + 2 * 2 * 2 + 2);
    let counts_of = |mlx5: bool, call: &str, threads: u32, column: &str| {
        let is_it = |row: &&ggas_benches::Row| {
            row.extra["call"] == call
                && row.method.as_deref().is_some_and(|method| method.starts_with("mlx5")) == mlx5
                && row.threads == Some(threads)
                && row.extra.get("queues") == Some(&"host".into())
        };
        let of = report.rows.iter().filter(is_it).map(|row| row.extra[column].as_u64().unwrap());
        of.collect::<Vec<_>>()
    };
    let counts = |call: &str, threads: u32, column: &str| counts_of(false, call, threads, column);
    // A request of 48 bytes: six words by one thread; its two sectors and the first word again by a block.
    assert_eq!(counts("post", 1, "queue_writes"), [600; 5]);
    assert_eq!(counts("post", 64, "queue_writes"), [600, 300, 300, 300, 300]);
    // Stamping reads an old request's size; nobody reads it who does not stamp.
    for threads in [1, 64] {
        assert_eq!(counts("post", threads, "queue_reads"), [100, 100, 100, 0, 0]);
        assert_eq!(counts("post", threads, "doorbells"), [100; 5]);
        assert_eq!(counts("post", threads, "table_writes"), [100, 100, 100, 100, 0]);
        assert_eq!(counts("poll", threads, "queue_writes"), [100; 5]);
        // The queue pair by its number, and the poster's number of the request.
        assert_eq!(counts("poll", threads, "table_reads"), [200, 200, 200, 200, 0]);
    }
    assert_eq!(counts("poll", 1, "queue_reads"), [400, 400, 400, 400, 100]);
    assert_eq!(counts("poll", 64, "queue_reads"), [400, 200, 200, 200, 100]);
    // Step 5, with queues of the GPU only, tells of each quarter of 16 entries.
    let near =
        |row: &&ggas_benches::Row| row.extra["call"] == "poll" && row.extra.get("step") == Some(&5.into());
    let told: Vec<_> =
        report.rows.iter().filter(near).map(|row| row.extra["queue_writes"].as_u64().unwrap()).collect();
    assert_eq!(told, [25; 4]);
    // mlx5 has a counter beside its requests, no stamps, and completions of two sectors, of which one word and the last say all.
    for (threads, writes, reads) in [(1, 700, [200, 100]), (64, 400, [300, 100])] {
        assert_eq!(counts_of(true, "post", threads, "queue_writes"), [writes; 2]);
        assert_eq!(counts_of(true, "post", threads, "queue_reads"), [0; 2]);
        assert_eq!(counts_of(true, "post", threads, "doorbells"), [100; 2]);
        assert_eq!(counts_of(true, "poll", threads, "queue_reads"), reads);
        assert_eq!(counts_of(true, "poll", threads, "queue_writes"), [100; 2]);
    }
}

//! The program from outside: exit codes, what goes to which stream, what errors say.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// On the model, whatever the environment says and whatever there is.
fn ggas(args: &[&str]) -> Output {
    with_device(&[("GGAS_DEVICE", "sim")], args)
}

/// With these variables and none else of those that choose a device.
fn with_device(variables: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    for name in ["GGAS_DEVICE", "EXTOLL_DEVICE", "GGAS_PROCESSOR", "EXTOLL_CARD"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).args(args).stdin(Stdio::null()).output().expect("ggas starts")
}

fn with_input(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("ggas starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input).expect("ggas reads its input");
    drop(stdin);
    child.wait_with_output().expect("ggas ends")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Fails with code 2 and says `what`.
fn is_usage_error(args: &[&str], what: &str) {
    let output = ggas(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
    assert!(err(&output).contains(what), "{args:?} says: {}", err(&output));
    assert!(output.stdout.is_empty(), "{args:?} prints: {}", out(&output));
}

/// Node 1, VPID 2, completer notification, 64 bytes (spec 2.2).
const PUT: [&str; 3] = ["0x3f04_0001_020f", "0x0000_1000", "2000"];

fn put_words() -> [String; 3] {
    // quadwords 3, QW put, VPID 2 @8, node 1 @16, completer @32, size-1 @40
    let word0 = 3u64 | 3 << 2 | 2 << 8 | 1 << 16 | 4 << 32 | 63 << 40;
    [format!("{word0:#x}"), "0x1000".into(), "0x2000".into()]
}

#[test]
fn an_error_is_one_write() {
    // Each write is a datagram: what others write to the same place cannot come between.
    let (reader, writer) = UnixDatagram::pair().expect("a pair of sockets");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    command.args(["decode", "1"]).stderr(OwnedFd::from(writer));
    assert_eq!(command.status().expect("ggas starts").code(), Some(2));
    let mut line = [0; 4096];
    reader.set_read_timeout(Some(Duration::from_secs(20))).expect("a bound");
    let len = reader.recv(&mut line).expect("an error");
    let line = String::from_utf8_lossy(&line[..len]).into_owned();
    assert!(line.starts_with("ggas: ") && line.ends_with('\n'), "{line:?}");
}

#[test]
fn decode_says_what_a_descriptor_does() {
    let words = put_words();
    let output = ggas(&["decode", &words[0], &words[1], &words[2]]);
    assert!(output.status.success(), "{}", err(&output));
    for part in ["put (quadwords)", "node 1 vpid 2", "completer", "0x0000000000001000", "bytes          64"] {
        assert!(out(&output).contains(part), "no `{part}` in {}", out(&output));
    }
    // The same words, written as people do.
    assert_eq!(out(&ggas(&["decode", PUT[0], PUT[1], PUT[2]])), out(&output));
}

#[test]
fn commands_print_what_the_readme_shows() {
    let text = include_str!("../../../README.md");
    let examples: Vec<_> = text.split("$ ggas ").skip(1).collect();
    assert!(!examples.is_empty(), "the README shows examples");
    for example in examples {
        let (line, shown) = example.split_once('\n').expect("a line and what is printed");
        let shown = shown.split("```").next().unwrap_or_default();
        let output = ggas(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(out(&output), shown, "ggas {line}: {}", err(&output));
    }
}

#[test]
fn decode_reads_lines() {
    let words = put_words().join(" ");
    let input =
        format!("# a comment\n\n{words}   # a put\n0x5, {:#x}\n", 4u64 << 48 | 5 << 51 | 7 << 32 | 0x2a);
    let output = with_input(&["decode"], input.as_bytes());
    assert!(output.status.success(), "{}", err(&output));
    for part in
        ["descriptor\n", "notification\n", "the completer", "notification put", "node 7", "class          42"]
    {
        assert!(out(&output).contains(part), "no `{part}` in {}", out(&output));
    }
}

#[test]
fn decode_names_the_line_that_is_wrong() {
    let output = with_input(&["decode"], b"# fine\n1 2 3 4\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("line 2: 4 words: give three"), "{}", err(&output));
    let output = with_input(&["decode"], b"\xff\xfe\n");
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
}

#[test]
fn decode_refuses_garbage() {
    is_usage_error(&["decode", "xyz", "0", "0"], "`xyz` is no hex number");
    is_usage_error(&["decode", "1", "11112222333344445"], "more than 64 bits");
    is_usage_error(&["decode", "1"], "1 words: give three for a descriptor or two");
}

#[test]
fn words_that_the_card_refuses_are_shown_and_fail() {
    let output = ggas(&["decode", "0x13", "0", "0"]); // command 4
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("illegal command 4"), "{}", out(&output));
    assert!(err(&output).contains("use 0 to 3, 5, 6 or 12"), "{}", err(&output));
    let output = ggas(&["decode", "0", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("free"), "{}", err(&output));
}

#[test]
fn bad_arguments_say_what_to_do() {
    is_usage_error(&[], "Usage");
    is_usage_error(&["bench"], "Usage");
    is_usage_error(&["frobnicate"], "unrecognized subcommand");
    is_usage_error(&["bench", "nothing"], "no benchmark is called `nothing`; there are:");
    is_usage_error(&["bench", "barrier", "--device", "tpu"], "use one of: cpu, gpu");
    is_usage_error(&["bench", "barrier", "--via", "ether"], "use sim, hw or nvlink");
    is_usage_error(&["bench", "barrier", "--nodes", "-1"], "unexpected argument");
    is_usage_error(&["bench", "barrier", "--nodes", "99999999999"], "invalid value");
    is_usage_error(&["bench", "rma-bandwidth", "--sizes", "8,x"], "`x` is no size");
    is_usage_error(&["bench", "rma-bandwidth", "--timeout", "-3"], "unexpected argument");
    is_usage_error(&["bench", "rma-bandwidth", "--timeout", "0"], "use 0.001 to 86400 seconds");
}

#[test]
fn benchmarks_refuse_what_does_not_fit() {
    let cpu = |args: &[&'static str]| [&["bench", "rma-pingpong", "--device", "cpu"], args].concat();
    is_usage_error(&cpu(&["--nodes", "0"]), "--nodes 0");
    is_usage_error(&cpu(&["--method", "telepathy"]), "--method telepathy");
    is_usage_error(&cpu(&["--slots", "3"]), "--slots 3");
    is_usage_error(&cpu(&["--sizes", "0"]), "--sizes 0");
    is_usage_error(&cpu(&["--sizes", "16G"]), "--sizes 17179869184");
    is_usage_error(&cpu(&["--memory", "gpu"]), "--memory gpu");
    is_usage_error(&cpu(&["--iterations", "0"]), "--iterations 0");
    is_usage_error(&cpu(&["--iterations", "1000000000000000"]), "use 1 to 4294967296");
    is_usage_error(&cpu(&["--plot", "-"]), "--plot -: standard output is for the table or the JSON");
    is_usage_error(&cpu(&["--gpus", "7"]), "--gpus 7: kernels run on the CPU executor");
    is_usage_error(&cpu(&["--path", "card", "--slots", "4"]), "--slots 4: a card's pages have no slots");
    let own = "gaspi-pingpong starts processes by itself; leave it out";
    is_usage_error(&["bench", "gaspi-pingpong", "--fabric", "in-process"], own);
    // Nothing is promised before it is refused.
    let crowd = ggas(&cpu(&["--nodes", "100000"]));
    assert!(err(&crowd).contains("use 2 to 1024") && !err(&crowd).contains("minutes"), "{}", err(&crowd));
    is_usage_error(&["plot", "/dev/zero"], "/dev/zero: it is no regular file");
    is_usage_error(&["card", "plan", "/dev/zero"], "cannot read /dev/zero: it is no regular file");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    for option in ["--json", "--plot"] {
        let args = ["bench", "rma-pingpong", "--device", "cpu", option, "/nonexistent/result"];
        is_usage_error(&args, "cannot write /nonexistent/result");
    }
}

#[test]
fn results_that_were_kept_become_pictures() {
    let folder = std::env::temp_dir().join(format!("ggas-plot-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let json = folder.join("kept.json").to_str().expect("UTF-8").to_owned();
    let row = r#"{"method": "poll", "bytes": 8, "latency_us": {"min": 1.0, "median": 2.0, "p99": 3.0}}"#;
    let report =
        format!(r#"{{"bench": "rma-pingpong", "nodes": 2, "device": "gpu", "rows": [{row}, {row}]}}"#);
    std::fs::write(&json, report).expect("written");
    let output = ggas(&["plot", &json]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(err(&output), format!("written to {}\n", folder.join("kept.svg").display()));
    let svg = std::fs::read_to_string(folder.join("kept.svg")).expect("a picture");
    assert!(svg.contains("rma-pingpong (2 nodes, gpu)"), "{svg}");
    std::fs::write(&json, "{}").expect("written");
    is_usage_error(&["plot", &json], "it has no rows");
    is_usage_error(&["plot", "/etc/passwd"], "/etc/passwd: no result that `ggas bench --json` wrote");
    std::fs::remove_dir_all(&folder).expect("removed");
    is_usage_error(&["plot", &json], "No such file");
}

#[test]
fn device_kinds_that_are_not_there_say_why() {
    for (via, why) in [("hw", "/dev/extoll"), ("nvlink", "no GPU")] {
        let output = without_gpu(&["bench", "rma-pingpong", "--via", via]);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains(why), "{}", err(&output));
        assert!(err(&output).contains("use --via sim"), "{}", err(&output));
    }
}

/// Variables of the environment, and their values.
type Variables = &'static [(&'static str, &'static str)];

/// Settings of the device, the exit code of a program that takes what is set, and what it and `ggas info` say.
const DEVICES: [(Variables, i32, &str); 5] = [
    (
        &[("GGAS_DEVICE", "hw")],
        1,
        "GGAS_DEVICE=hw: no hw device here: no /dev/no-such-card: load the kernel module",
    ),
    (&[], 1, "no hw device here: no /dev/no-such-card"),
    (&[("GGAS_DEVICE", "rubbish")], 2, "GGAS_DEVICE=rubbish: use sim, hw or nvlink"),
    (&[("EXTOLL_DEVICE", "rubbish")], 2, "EXTOLL_DEVICE=rubbish: use sim or hw"),
    (&[("GGAS_DEVICE", "sim"), ("EXTOLL_DEVICE", "hw")], 2, "GGAS_DEVICE=sim and EXTOLL_DEVICE=hw differ"),
];
const NO_CARD: (&str, &str) = ("EXTOLL_CARD", "/dev/no-such-card");

#[test]
fn info_shows_the_device_that_programs_take() {
    let chosen = |variables: &[(&str, &str)]| {
        let output = with_device(&[variables, &[NO_CARD]].concat(), &["info"]);
        assert!(output.status.success(), "{}", err(&output));
        let text = out(&output);
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("chosen "));
        line.unwrap_or_else(|| panic!("no `chosen` in {text}")).trim_start().to_owned()
    };
    assert_eq!(chosen(&[("GGAS_DEVICE", "sim")]), "sim: GGAS_DEVICE says so");
    assert_eq!(chosen(&[("EXTOLL_DEVICE", "sim")]), "sim: EXTOLL_DEVICE says so");
    let engines = [("GGAS_DEVICE", "nvlink"), ("GGAS_PROCESSOR", "cpu")];
    assert_eq!(chosen(&engines), "nvlink: GGAS_DEVICE says so");
    for (variables, _, why) in DEVICES {
        let line = chosen(variables);
        assert!(line.starts_with(&format!("none: {why}")), "{variables:?}: {line}");
    }
}

#[test]
fn programs_take_the_device_that_is_set_or_say_why_not() {
    let bench = ["bench", "rma-pingpong", "--method", "host-driven", "--device", "cpu", "--sizes", "8"];
    let bench = [&bench[..], &["--iterations", "20"]].concat();
    for (variables, code, why) in DEVICES {
        let output = with_device(&[variables, &[NO_CARD]].concat(), &bench);
        assert_eq!(output.status.code(), Some(code), "{variables:?}: {}", err(&output));
        assert!(err(&output).contains(why) && output.stdout.is_empty(), "{variables:?}: {}", err(&output));
        // Who asks for a device on the command line gets that one.
        let output =
            with_device(&[variables, &[NO_CARD]].concat(), &[&bench[..], &["--via", "sim"]].concat());
        assert!(
            output.status.success() && out(&output).contains("via sim"),
            "{variables:?}: {}",
            err(&output)
        );
    }
    let output = with_device(&[("GGAS_DEVICE", "rubbish")], &["demo"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    let engines = ["bench", "rma-pingpong", "--method", "poll", "--sizes", "8", "--iterations", "5"];
    let output = with_device(&[("GGAS_DEVICE", "nvlink"), ("GGAS_PROCESSOR", "cpu")], &engines);
    assert!(output.status.success() && out(&output).contains("via nvlink"), "{}", err(&output));
}

/// Without a GPU in this process, whatever the machine has.
fn without_gpu(args: &[&str]) -> Output {
    with_device(&[("CUDA_VISIBLE_DEVICES", "")], args)
}

#[test]
fn asking_for_a_gpu_where_there_is_none_fails() {
    for args in [&["demo", "--device", "gpu"][..], &["bench", "rma-pingpong", "--device", "gpu"]] {
        let output = without_gpu(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", err(&output));
        assert!(err(&output).contains("--device gpu: no GPU"), "{args:?}: {}", err(&output));
        assert!(!err(&output).contains("using the CPU executor"), "{}", err(&output));
    }
}

#[test]
fn info_always_answers() {
    let output = ggas(&["info"]);
    assert!(output.status.success(), "{}", err(&output));
    for part in ["cores", "locked memory", "GPU code", "cpu", "sim", "hw", "nvlink", "between hosts"] {
        assert!(out(&output).contains(part), "no `{part}` in {}", out(&output));
    }
}

#[test]
fn info_says_what_is_missing_between_hosts() {
    let between_hosts = |variables: &[(&str, &str)]| {
        let output = with_device(variables, &["info"]);
        assert!(output.status.success(), "{}", err(&output));
        let text = out(&output);
        text.split_once("between hosts").unwrap_or_else(|| panic!("not in {text}")).1.to_owned()
    };
    let usual = between_hosts(&[]);
    if usual.contains("was built without libfabric") {
        assert!(usual.contains("`cargo xtask setup` installs"), "{usual}");
        return;
    }
    let missing = between_hosts(&[("GGAS_LIBFABRIC", "/nowhere.so")]);
    assert!(missing.contains("/nowhere.so") && missing.contains("apt-get install libfabric1"), "{missing}");
    if !usual.contains("was built without UCX") {
        let neither = between_hosts(&[("GGAS_LIBFABRIC", "/nowhere.so"), ("GGAS_UCX", "/no/ucx.so")]);
        assert!(neither.contains("/no/ucx.so") && neither.contains("apt-get install libucx0"), "{neither}");
        assert!(neither.contains("chosen         none"), "{neither}");
    }
    if !usual.contains("libfabric cannot be used") {
        let wrong = between_hosts(&[("GGAS_FABRIC", "pigeons")]);
        assert!(wrong.contains("chosen         none: GGAS_FABRIC=pigeons"), "{wrong}");
        let named = between_hosts(&[("GGAS_FABRIC", "libfabric:tcp;ofi_rxm")]);
        assert!(named.contains("chosen         tcp;ofi_rxm of libfabric"), "{named}");
    }
}

#[test]
fn list_names_every_benchmark() {
    let output = ggas(&["bench", "list"]);
    assert!(output.status.success(), "{}", err(&output));
    let names = ["rma-pingpong", "rma-bandwidth", "rma-rate", "ggas-pingpong", "ggas-bandwidth", "barrier"];
    for name in names.into_iter().chain(["reduce", "allreduce", "randomaccess", "get", "global-reduction"]) {
        assert!(out(&output).contains(name), "no {name} in {}", out(&output));
    }
    // What each is about begins in one column, also behind the longest name.
    let begins = |line: &str| line.len() - line[2..].trim_start_matches(|c| c != ' ').trim_start().len();
    let text = out(&output);
    let columns: Vec<usize> = text.lines().filter(|line| !line.starts_with("   ")).map(begins).collect();
    assert!(columns.iter().all(|column| *column == columns[0]), "{text}");
}

#[test]
fn peers_stand_beside_the_rows_they_belong_to() {
    let path = std::env::temp_dir().join(format!("ggas-peers-{}.jsonl", std::process::id()));
    let figure = r#"{"peer": "Other 1.0", "bench": "barrier", "nodes": 2, "method": "single", "value": 1e9}"#;
    std::fs::write(&path, figure).expect("written");
    let file = path.to_str().expect("a name");
    let args = ["bench", "barrier", "--device", "cpu", "--iterations", "20", "--json", "-", "--peer"];
    let output = ggas(&[&args[..], &[file]].concat());
    assert!(output.status.success(), "{}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("only JSON");
    for row in json["rows"].as_array().expect("rows") {
        let single = row["method"] == "single";
        assert_eq!(
            (row["peer"] == "Other 1.0", row["ratio"].as_f64() > Some(1.0)),
            (single, single),
            "{row}"
        );
    }
    std::fs::write(&path, "not a figure").expect("written");
    let output = ggas(&[&args[..], &[file]].concat());
    assert!(output.status.success() && out(&output).contains("line 1 is no figure"), "{}", out(&output));
    std::fs::remove_file(&path).expect("removed");
    let output = ggas(&[&args[..], &[file]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("no such file"), "{}", err(&output));
}

#[test]
fn json_has_standard_output_to_itself() {
    let args = ["bench", "rma-pingpong", "--device", "cpu", "--method", "host-driven"];
    let output = ggas(&[&args[..], &["--sizes", "8,64", "--iterations", "200", "--json", "-"]].concat());
    assert!(output.status.success(), "{}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("only JSON");
    assert_eq!((&json["schema"], &json["bench"]), (&1.into(), &"rma-pingpong".into()));
    assert_eq!((&json["verified"], &json["nodes"]), (&true.into(), &2.into()));
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| row["bytes"].as_u64()).collect::<Vec<_>>(), [Some(8), Some(64)]);
    for row in rows {
        let latency = &row["latency_us"];
        let [min, median, p99] = ["min", "median", "p99"].map(|key| latency[key].as_f64().expect("a number"));
        assert!(0.0 < min && min <= median && median <= p99, "{latency}");
    }
    assert!(err(&output).contains("median us"), "the table goes to standard error: {}", err(&output));
}

#[test]
fn the_list_of_benchmarks_is_json_where_that_is_asked_for() {
    let output = ggas(&["bench", "list", "--json", "-"]);
    assert!(output.status.success(), "{}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("only JSON");
    let names: Vec<_> = json.as_array().expect("a list").iter().map(|bench| bench["name"].as_str()).collect();
    assert!(names.contains(&Some("rma-pingpong")), "{names:?}");
}

#[test]
fn nodes_that_only_stand_by_are_named() {
    let args = ["bench", "rma-pingpong", "--device", "cpu", "--method", "host-driven", "--nodes", "3"];
    let output = ggas(&[&args[..], &["--sizes", "8", "--iterations", "10"]].concat());
    assert!(out(&output).contains("nodes 0 and 1 of 3 do all of it"), "{}", out(&output));
}

#[test]
fn every_benchmark_refuses_more_iterations_than_fit_in_memory() {
    for bench in ["litmus", "alltoall", "rma-roundtrip", "velo-pingpong", "c-interface", "atomics-random"] {
        let args = ["bench", bench, "--device", "cpu", "--iterations", "18446744073709551615"];
        is_usage_error(&args, "--iterations 18446744073709551615: use 1 to 4294967296");
    }
}

#[test]
fn a_run_that_a_signal_ends_leaves_no_file() {
    let folder = std::env::temp_dir().join(format!("ggas-ended-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    command.env("GGAS_DEVICE", "sim").args(["bench", "rma-pingpong", "--device", "cpu", "--method"]);
    command.args(["host-driven", "--iterations", "1000000000", "--json"]).arg(folder.join("x.json"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ggas starts");
    // The result is open before anything is measured.
    let files = format!("/proc/{}/fd", child.id());
    let has_opened = || {
        let links = std::fs::read_dir(&files).into_iter().flatten().flatten();
        links.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|file| file.starts_with(&folder))
    };
    while !has_opened() {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended");
        std::thread::yield_now();
    }
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    let left = std::fs::read_dir(&folder).expect("a folder").count();
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(left, 0);
}

#[test]
fn a_full_disk_leaves_the_last_result_as_it_was() {
    let args = ["bench", "rma-pingpong", "--device", "cpu", "--method", "host-driven", "--sizes", "8"];
    let output = ggas(&[&args[..], &["--iterations", "10", "--json", "/dev/full"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("cannot write /dev/full: No space left"), "{}", err(&output));
}

#[test]
fn messages_have_no_colour_codes_where_nobody_sees_colours() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    command.env("RUST_LOG", "trace").args(["bench", "rma-pingpong", "--device", "cpu", "--sizes", "8"]);
    let output = command.args(["--method", "host-driven", "--iterations", "10"]).output().expect("ggas runs");
    assert!(!err(&output).contains('\u{1b}'), "{}", err(&output));
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
    command.args(["info"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("ggas starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ggas ends");
    assert!(!err(&output).contains("panic"), "{}", err(&output));
    assert!(output.status.success(), "{:?}: {}", output.status, err(&output));
}

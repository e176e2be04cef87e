//! `ggas map` from outside, and `ggas run --gpus`.

use std::fs;
use std::process::{Command, Output};

fn ggas(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ggas")).args(args).output().expect("ggas starts")
}

/// Its standard output; it must end well.
fn out(args: &[&str]) -> String {
    let output = ggas(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Fails with 2 and says `what`; prints nothing.
fn fails(args: &[&str], what: &str) {
    let output = ggas(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(what), "{args:?} says: {said}");
    assert!(output.stdout.is_empty(), "{args:?} prints");
}

#[test]
fn a_mapping_is_shown_in_each_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (json, svg) = (file("map.json"), file("map.svg"));
    let args = ["map", "3d:2x2x4+weight", "--topology", "helios", "--json", &json, "--plot", &svg];
    let table = out(&args);
    for part in ["16 ranks on helios, mapped by bandwidth: by a heuristic", "random 4", "--gpus "] {
        assert!(table.contains(part), "no `{part}` in {table}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("written")).expect("JSON");
    let far = |row: usize| report["rows"][row]["congestion"][3].as_f64().expect("a number");
    assert!((far(0) / far(1) - 6.0).abs() < 1e-9, "{} to {}", far(0), far(1));
    assert!(fs::read_to_string(&svg).expect("drawn").contains("load of links"));
    assert_eq!(table, out(&args), "the same each time");
}

#[test]
fn bad_input_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let map = |pattern: &str, what: &str| fails(&["map", pattern, "--topology", "pascal"], what);
    map(&file("ragged", "0 1\n1\n"), "line 2: 1 number, but there are 2 lines");
    map(&file("negative", "0 -1\n1 0\n"), "-1 is negative");
    map(&file("words", "0 x\n1 0\n"), "`x` is no number");
    map("2d:4x4", "16 ranks do not fit 4 places of pascal");
    map("2d:4", "is no pattern");
    map("/nonexistent", "/nonexistent");
    let pair = file("pair", "0 1\n1 0\n");
    fails(&["map", &pair, "--topology", "pascal", "--devices", "0,7"], "no device `7`; it has 0, 1, 2, 3");
    fails(&["map", &pair, "--topology", "pascal", "--metric", "latency"], "no latency_us");
    fails(&["map", &pair, "--topology", "hal"], "built in are helios, pascal");
    fails(&["map", &pair, "--topology", "pascal", "--rankfile", "x"], "needs --hosts");
    fails(&["map", &pair, "--topology", "pascal", "--hosts", "a b"], "no name of a host");
    fails(&["map", &pair, "--topology", "pascal", "--hosts", "a,a"], "a is there twice");
    fails(&["map"], "PATTERN");
    fails(&["map", &pair, "--topology", "pascal", "--measure"], "of the GPUs of this host");
    fails(
        &["map", "traced:/nonexistent/run", "--topology", "pascal"],
        "--mca pml_monitoring_filename PREFIX",
    );
}

#[test]
fn the_last_run_of_a_prefix_is_taken_and_files_of_others_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |rank: usize, job: &str, ranks: usize, written: u64| {
        let text = format!("# RANKS\t{ranks}\n# RUN\t{job}\t1\t{written}\n# POINT TO POINT\n# END\n");
        fs::write(folder.path().join(format!(".{rank}.prof")), text).expect("written");
    };
    (0..4).for_each(|rank| write(rank, "first", 4, 2));
    (0..2).for_each(|rank| write(rank, "second", 2, 3));
    let prefix = format!("traced:{}/", folder.path().display());
    let output = ggas(&["map", &prefix, "--topology", "pascal"]);
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && table.starts_with("2 ranks on pascal"), "{table}{said}");
    assert!(said.starts_with("ggas map: left out, of other runs: ") && said.contains("/.2.prof, "), "{said}");
    fails(&["map", "traced:", "--topology", "pascal"], "has no prefix");
}

#[test]
fn launchers_get_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (rankfile, hostfile, script) = (file("ranks"), file("hosts"), file("gpus.sh"));
    let args = ["map", "coll:4x4x4", "--topology", "helios", "--hosts", "n0,n1,n2,n3"];
    let table =
        out(&[&args[..], &["--rankfile", &rankfile, "--hostfile", &hostfile, "--script", &script]].concat());
    assert!(table.contains("mapped") && table.contains(" 0 B mapped"), "{table}");
    let ranks = fs::read_to_string(&rankfile).expect("written");
    assert_eq!(ranks.lines().count(), 64);
    assert!(ranks.lines().all(|line| line.contains("=n") && line.contains(" slot=")), "{ranks}");
    assert_eq!(fs::read_to_string(&hostfile).expect("written").lines().count(), 64);
    assert!(fs::read_to_string(&script).expect("written").starts_with("#!/bin/sh\n"));
}

#[test]
fn a_launchers_file_goes_to_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let map = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ggas"));
        command.current_dir(&folder).args(["map", "2d:2x2", "--topology", "pascal", "--hosts", "n0"]);
        let output = command.args(args).output().expect("ggas starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for option in ["--rankfile", "--hostfile", "--script"] {
        assert_eq!(map(&[option, "f"]).0, Some(0));
        let file = fs::read_to_string(folder.path().join("f")).expect("written");
        let (code, out, said) = map(&[option, "-"]);
        assert_eq!((code, out), (Some(0), file), "{option}: {said}");
        assert!(said.contains("between nodes: "), "{option}: {said}");
    }
    assert!(!folder.path().join("-").exists());
    let (code, out, said) = map(&["--rankfile", "-", "--script", "-"]);
    assert_eq!((code, &*out), (Some(2), ""), "{said}");
    assert!(said.contains("--rankfile and --script"), "{said}");
}

#[test]
fn neighbouring_seeds_share_no_mapping() {
    let random = |seed: &str| {
        let report = out(&["map", "2d:4x4", "--topology", "helios", "--json", "-", "--seed", seed]);
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let rows = report["rows"].as_array().expect("rows").iter();
        rows.filter(|row| row["mapping"].as_str().expect("a name").starts_with("random "))
            .map(|row| row["devices"].to_string())
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = ["1", "2", "3"].into_iter().flat_map(random).collect();
    assert_eq!(all.len(), 12);
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 12, "{all:?}");
}

#[test]
fn one_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (one, pair) = (file("one", "\u{feff}5\n"), file("pair", "0 1\n1 0\n"));
    let table = out(&["map", &one, "--topology", "pascal"]);
    assert!(table.starts_with("1 rank on pascal"), "{table}");
    let alone = ["--topology", "pascal", "--devices", "0"];
    fails(&[&["map", &pair], &alone[..]].concat(), "2 ranks do not fit 1 place of pascal");
    fails(
        &["map", &pair, "--topology", "pascal", "--hosts", "a", "--network", &file("net", TWO)],
        "1 host, but",
    );
}

/// Two nodes.
const TWO: &str = "name = \"net\"\ngroups = [2]\n[[channel]]\nname = \"switch\"\n";

#[test]
fn a_topology_that_is_shown_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.toml");
    let text = out(&["map", "--show-topology", "--topology", "helios", "--devices", "0,1,8"]);
    fs::write(&path, &text).expect("written");
    let again = out(&["map", "--show-topology", "--topology", path.to_str().expect("UTF-8")]);
    assert_eq!(text, again);
}

#[test]
fn processes_see_the_gpus_in_the_order_that_is_asked_for() {
    let show = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"];
    let run = [&["run", "-n", "2", "--per-node", "2", "--no-prefix", "--gpus", "2,0,1", "--"], &show[..]];
    assert_eq!(out(&run.concat()), "2,0,1 PCI_BUS_ID\n".repeat(2));
    fails(&["run", "-n", "1", "--gpus", "0,x", "--", "true"], "`x` is no GPU");
    fails(&["run", "-n", "1", "--gpus", "0,0", "--", "true"], "GPU 0 is there twice");
}

/// A ring of four, in which rank r sends 10 messages of (r + 1) * 1000 bytes.
const RING: &str = "#include <mpi.h>
int main(int argc, char **argv)
{
\tstatic char out[4000], in[4000];
\tint rank;
\tMPI_Init(&argc, &argv);
\tMPI_Comm_rank(MPI_COMM_WORLD, &rank);
\tfor (int i = 0; i < 10; i++)
\t\tMPI_Sendrecv(out, 1000 * (rank + 1), MPI_CHAR, (rank + 1) % 4, 0, in, 4000, MPI_CHAR, (rank + 3) % 4, 0, MPI_COMM_WORLD,
\t\t\t     MPI_STATUS_IGNORE);
\treturn MPI_Finalize();
}
";

#[test]
fn a_run_that_open_mpi_traced_is_mapped() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (source, program, prefix, json) = (file("ring.c"), file("ring"), file("run"), file("map.json"));
    fs::write(&source, RING).expect("written");
    let compiled = Command::new("mpicc.openmpi").args([&source, "-o", &program]).output();
    if !compiled.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no mpicc.openmpi with its headers is installed: apt-get install libopenmpi-dev");
        return;
    }
    let watch = ["--mca", "pml_monitoring_enable", "2", "--mca", "pml_monitoring_enable_output", "3"];
    let started = Command::new("mpirun.openmpi")
        .args(["--allow-run-as-root", "--oversubscribe", "-n", "4"])
        .args(watch)
        .args(["--mca", "pml_monitoring_filename", &prefix, "--mca", "btl", "self,vader", &program])
        .output()
        .expect("Open MPI starts");
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let pattern = ggas_mapping::Pattern::traced(prefix.as_ref()).expect("four files");
    let sent: Vec<_> = pattern.messages().collect();
    assert_eq!(sent, [(0, 1, 10_000), (1, 2, 20_000), (2, 3, 30_000), (3, 0, 40_000)]);
    let traced = format!("traced:{prefix}");
    let table = out(&["map", &traced, "--topology", "pascal", "--json", &json]);
    assert!(table.contains("4 ranks on pascal"), "{table}");
    fs::remove_file(format!("{prefix}.2.prof")).expect("it is there");
    fails(&["map", &traced, "--topology", "pascal"], "keep those of all ranks together");
}

/// Few bytes are not rounded to none, and what does not fit names the hosts.
#[test]
fn hosts_have_room_for_as_many_ranks_as_gpus() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("five");
    fs::write(&file, "0 1 0 0 0\n0 0 1 0 0\n0 0 0 1 0\n0 0 0 0 1\n0 0 0 0 0\n").expect("written");
    let five = file.to_str().expect("UTF-8");
    let map = |hosts| ["map", five, "--topology", "pascal", "--hosts", hosts];
    let said = out(&map("a,b"));
    assert!(said.contains("between nodes: 1 B by default, 1 B mapped"), "{said}");
    fails(&map("a"), "5 ranks do not fit 1 host with room for 4 each");
    fails(&map(""), "\"\" is no name of a host");
}

#[test]
fn processes_of_a_network_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let write = |number: u32, lines: &str| {
        let text = format!("# NETWORK\n# RUN\t-\t1000\t2000\n# POINT TO POINT\n{lines}# END\n");
        fs::write(file(&format!("run.{number}.prof")), text).expect("written");
    };
    write(3, "");
    write(112, "E\t112\t3\t5000 bytes\t1 msgs sent\n");
    let json = file("map.json");
    let prefix = format!("traced:{}", file("run"));
    let table = out(&["map", &prefix, "--topology", "pascal", "--json", &json]);
    let row = |line: &&str| line.split_whitespace().collect::<Vec<_>>()[..2] == ["1", "112"];
    assert!(table.contains(" process ") && table.lines().any(|line| line.len() > 4 && row(&line)), "{table}");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("written")).expect("JSON");
    assert_eq!(report["processes"], serde_json::json!([3, 112]));
}

/// As `mpirun` takes both files, on this host.
#[test]
fn mpirun_starts_ranks_where_the_files_say() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mpirun = Command::new("mpirun.openmpi").arg("--version").output();
    if cores < 2 || !mpirun.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no mpirun.openmpi is installed, or there is one core");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (pattern, topology, cores) = (file("pattern"), file("topology"), file("cores"));
    let (rankfile, script) = (file("ranks"), file("gpus.sh"));
    // Only GPUs 4 and 6 are near each other.
    fs::write(&pattern, "0 9\n9 0\n").expect("written");
    let levels = "levels = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]\n";
    let channels = "[[channel]]\nname = 'near'\n[[channel]]\nname = 'far'\n";
    let gpus = format!("name = 'odd'\ndevices = ['5', '4', '6']\n{levels}{channels}");
    fs::write(&topology, gpus).expect("written");
    fs::write(&cores, "name = 'cores'\ndevices = ['1', '0']\ngroups = [2]\n[[channel]]\nname = 'x'\n")
        .expect("written");
    let args = ["map", &pattern, "--topology", &topology, "--hosts", "localhost", "--cores", &cores];
    out(&[&args[..], &["--rankfile", &rankfile, "--script", &script]].concat());
    let said = "echo $OMPI_COMM_WORLD_RANK $CUDA_VISIBLE_DEVICES";
    let started = Command::new("mpirun.openmpi")
        .args(["--allow-run-as-root", "--rankfile", &rankfile, "sh", &script, "sh", "-c", said])
        .output()
        .expect("Open MPI starts");
    let text = String::from_utf8_lossy(&started.stdout).into_owned();
    assert!(started.status.success(), "{text}{}", String::from_utf8_lossy(&started.stderr));
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let near =
        ["4,6,5", "6,4,5"].into_iter().find(|gpus| lines[0].ends_with(gpus)).expect("two that are near");
    assert_eq!(lines, [format!("0 {near}"), format!("1 {near}")]);
}

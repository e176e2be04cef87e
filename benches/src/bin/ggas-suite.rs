//! Runs the list of benchmarks that `benches/results` needs, each in a process of its own with a time
//! limit, and prints one compact table. A benchmark that fails or hangs does not stop the others.
//!
//! Needs nothing but itself on the machine:
//! `ggas-suite <folder> [--device cpu|gpu] [--gpus N] [--fabric in-process|process] [--only TEXT]`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use ggas_benches::{BenchError, Device, Fabric, Memory, Options, Progress, Report, Team};
use serde_json::Value;

/// A run longer than this is killed.
const LIMIT: Duration = Duration::from_secs(40);

/// One benchmark with its options.
struct Run {
    label: String,
    bench: &'static str,
    options: Options,
}

struct Arguments {
    folder: PathBuf,
    device: Device,
    gpus: u32,
    fabric: Fabric,
    only: String,
    /// Run just this entry here and print its JSON: what the parent asks its children for.
    child: Option<String>,
}

fn main() -> ExitCode {
    let result = parse(env::args().skip(1)).and_then(|arguments| match &arguments.child {
        Some(label) => run_one(&arguments, label),
        None => run_all(&arguments),
    });
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ggas-suite: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        folder: PathBuf::new(),
        device: Device::Gpu,
        gpus: 1,
        fabric: Fabric::InProcess,
        only: String::new(),
        child: None,
    };
    while let Some(word) = words.next() {
        if !word.starts_with("--") {
            arguments.folder = word.into();
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--device" => arguments.device = value.parse().map_err(|error: BenchError| error.to_string())?,
            "--gpus" => {
                arguments.gpus = value.parse().map_err(|_| format!("--gpus {value}: use a number"))?
            }
            "--fabric" => arguments.fabric = value.parse().map_err(|error: BenchError| error.to_string())?,
            "--only" => arguments.only = value,
            "--child" => arguments.child = Some(value),
            _ => return Err(format!("{word} is unknown; use --device, --gpus, --fabric or --only")),
        }
    }
    if arguments.folder.as_os_str().is_empty() && arguments.child.is_none() {
        return Err("name a folder for the results: ggas-suite <folder> [--device cpu|gpu] [--gpus N]".into());
    }
    Ok(arguments)
}

/// Everything to run.
fn plan(arguments: &Arguments) -> Vec<Run> {
    let Arguments { device, gpus, fabric, .. } = *arguments;
    match fabric {
        Fabric::InProcess => plan_in_process(device, gpus),
        Fabric::Process => plan_of_processes(device, gpus),
    }
}

/// One process per node, on GPUs each with a GPU of its own: 2 processes, and 4 where there are 4 GPUs. On the CPU
/// also what several processes on few cores and comparisons need.
fn plan_of_processes(device: Device, gpus: u32) -> Vec<Run> {
    let cpu = device == Device::Cpu;
    let base = Options { device, gpus: 2, ..Options::default() };
    let of = |label: String, bench, options| Run { label, bench, options };
    let mut runs = Vec::new();
    for bench in ["rma-pingpong", "rma-bandwidth", "rma-rate"] {
        let memories: &[Memory] = if cpu { &[Memory::Host] } else { &[Memory::Host, Memory::Gpu] };
        for &memory in memories {
            runs.push(of(format!("{bench}-{memory}-p2"), bench, Options { memory, ..base.clone() }));
        }
    }
    for bench in ["ggas-pingpong", "ggas-bandwidth"] {
        runs.push(of(format!("{bench}-p2"), bench, base.clone()));
    }
    for nodes in if cpu || gpus >= 4 { vec![2, 4] } else { vec![2] } {
        for bench in ["barrier", "reduce", "allreduce", "randomaccess"] {
            runs.push(of(format!("{bench}-p{nodes}"), bench, Options { nodes, gpus: nodes, ..base.clone() }));
        }
    }
    if cpu {
        for bench in ["versus-ucx", "progress"] {
            runs.push(of(format!("{bench}-p2"), bench, base.clone()));
        }
        for nodes in [2, 8, 64] {
            let options = Options { nodes, timeout: Duration::from_secs(20), ..base.clone() };
            runs.push(of(format!("alltoall-p{nodes}"), "alltoall", options));
        }
    }
    runs
}

/// All nodes in one process. On GPUs each benchmark that moves payload runs with it in host and in GPU memory, and
/// with its nodes on one GPU and, where there are two, on two.
fn plan_in_process(device: Device, gpus: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    let base = Options { device, ..Options::default() };
    let spreads: &[u32] = if device == Device::Gpu && gpus > 1 { &[1, 2] } else { &[1] };
    let memories: &[Memory] =
        if device == Device::Gpu { &[Memory::Host, Memory::Gpu] } else { &[Memory::Host] };
    for &gpus in spreads {
        for bench in ["rma-pingpong", "rma-bandwidth", "rma-rate"] {
            for &memory in memories {
                let options = Options { memory, gpus, ..base.clone() };
                runs.push(Run { label: format!("{bench}-{memory}-{gpus}"), bench, options });
            }
        }
        for bench in ["ggas-pingpong", "ggas-bandwidth"] {
            runs.push(Run {
                label: format!("{bench}-{gpus}"),
                bench,
                options: Options { gpus, ..base.clone() },
            });
        }
        let nodes = if device == Device::Gpu { 8 } else { 4 };
        for (bench, nodes) in
            [("barrier", nodes), ("reduce", 2), ("allreduce", 2), ("reduce", 4), ("allreduce", 4)]
        {
            let options = Options { gpus, nodes, ..base.clone() };
            runs.push(Run { label: format!("{bench}-n{nodes}-{gpus}"), bench, options });
        }
        for nodes in [2, 4] {
            let options = Options { gpus, nodes, ..base.clone() };
            runs.push(Run { label: format!("randomaccess-n{nodes}-{gpus}"), bench: "randomaccess", options });
        }
    }
    runs
}

fn run_one(arguments: &Arguments, label: &str) -> Result<ExitCode, String> {
    let run = plan(arguments)
        .into_iter()
        .find(|run| run.label == label)
        .ok_or_else(|| format!("no run is called {label}"))?;
    if arguments.fabric == Fabric::Process && !Team::is_launched() {
        let code = ggas_benches::launch(run.options.nodes, None, run.options.timeout)
            .map_err(|error| error_chain(&error))?;
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    }
    let measured = || -> Result<(Team, Report), BenchError> {
        let team = if Team::is_launched() { Team::join(None)? } else { Team::alone() };
        let report = ggas_benches::find(run.bench)?.run(&team, &run.options, &mut Progress::silent())?;
        Ok((team, report))
    };
    let (team, report) = measured().map_err(|error| error_chain(&error))?;
    if !team.is_first() {
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", report.json());
    eprint!("{}", report.table());
    Ok(if report.verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_all(arguments: &Arguments) -> Result<ExitCode, String> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut summary = format!("{SUMMARY_HEAD}\n");
    let mut failures = Vec::new();
    for run in plan(arguments) {
        if !run.label.contains(&arguments.only) {
            continue;
        }
        let begun = Instant::now();
        let outcome =
            in_child(arguments, &run.label).and_then(|()| summarize(folder, &run.label, &mut summary));
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => eprintln!("{:<28} {seconds:5.1} s  ok", run.label),
            Err(reason) => {
                eprintln!("{:<28} {seconds:5.1} s  FAILED: {reason}", run.label);
                failures.push(format!("{}: {reason}", run.label));
            }
        }
    }
    for failure in &failures {
        let _ = writeln!(summary, "FAILED {failure}");
    }
    print!("{summary}");
    fs::write(folder.join("summary.txt"), summary).map_err(|error| error.to_string())?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one entry in a process of its own: `<label>.json` and `<label>.txt` in the folder.
fn in_child(arguments: &Arguments, label: &str) -> Result<(), String> {
    let file = |ending: &str| fs::File::create(arguments.folder.join(format!("{label}.{ending}")));
    let spawn = || -> io::Result<Child> {
        Command::new(env::current_exe()?)
            .args(["--child", label, "--device", arguments.device.name()])
            .args(["--gpus", &arguments.gpus.to_string(), "--fabric", arguments.fabric.name()])
            .stdin(Stdio::null())
            .stdout(file("json")?)
            .stderr(file("txt")?)
            .spawn()
    };
    let mut child = spawn().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + LIMIT;
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{status}; {}", last_line(&arguments.folder, label))),
            None if Instant::now() >= deadline => break,
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("killed after {} s; {}", LIMIT.as_secs(), last_line(&arguments.folder, label)))
}

fn last_line(folder: &Path, label: &str) -> String {
    let text = fs::read_to_string(folder.join(format!("{label}.txt"))).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").trim().to_owned()
}

const SUMMARY_HEAD: &str = "run                          method                    size threads    median us       p99 us         MB/s        per s";

/// Appends one line per row of a result.
fn summarize(folder: &Path, label: &str, summary: &mut String) -> Result<(), String> {
    let text = fs::read_to_string(folder.join(format!("{label}.json"))).map_err(|error| error.to_string())?;
    let report: Value =
        serde_json::from_str(&text).map_err(|error| format!("its JSON is broken: {error}"))?;
    for row in report["rows"].as_array().into_iter().flatten() {
        let size =
            row["bytes"].as_u64().or(row["elements"].as_u64()).map_or(String::new(), |n| n.to_string());
        let threads = match (row["blocks"].as_u64(), row["threads"].as_u64()) {
            (Some(blocks), Some(threads)) if blocks > 1 => format!("{blocks}x{threads}"),
            (_, Some(threads)) => threads.to_string(),
            _ => String::new(),
        };
        let method = match (row["method"].as_str(), row["nodes"].as_u64()) {
            (method, Some(nodes)) => format!("{} n={nodes}", method.unwrap_or("")),
            (method, None) => method.unwrap_or("").to_owned(),
        };
        let number =
            |value: &Value, digits: usize| value.as_f64().map_or(String::new(), |v| format!("{v:.digits$}"));
        let _ = writeln!(
            summary,
            "{label:<28} {method:<20} {size:>9} {threads:>7} {:>12} {:>12} {:>12} {:>12}",
            number(&row["latency_us"]["median"], 3),
            number(&row["latency_us"]["p99"], 3),
            number(&row["bandwidth_mbps"], 1),
            number(&row["rate_per_s"], 0),
        );
    }
    Ok(())
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

//! Figures of other libraries beside ours: lines of JSON that `benches/peers` defines.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use serde::Deserialize;

use crate::{BenchError, Report, Row};

/// How long a program may take that gives figures.
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of figures that are read: thousands of times those of our peers.
const MOST: u64 = 64 << 20;
/// How long its output may stay open once it has ended.
const LINGER: Duration = Duration::from_secs(5);

/// What a peer needed for the work of a row, or reached in it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Figure {
    /// Name, version, and what of it.
    peer: String,
    bench: String,
    nodes: u32,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    elements: Option<u64>,
    value: f64,
    #[serde(default)]
    unit: Unit,
}

/// What a figure's value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Unit {
    /// Microseconds of one operation.
    #[default]
    #[serde(rename = "us")]
    Microseconds,
    /// Payload of one direction, in 10^6 bytes per second.
    #[serde(rename = "MB/s")]
    Megabytes,
    /// Operations per second, all nodes together.
    #[serde(rename = "per s")]
    Rate,
    /// 10^9 operations per second, all nodes together.
    #[serde(rename = "GUPS")]
    Gups,
    /// Communication that passes while a block computes.
    #[serde(rename = "%")]
    Percent,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "us",
            Self::Megabytes => "MB/s",
            Self::Rate => "per s",
            Self::Gups => "GUPS",
            Self::Percent => "%",
        }
    }

    /// The same of a row of ours, if it has it.
    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::Microseconds => Some(row.latency_us.median),
            Self::Megabytes => row.bandwidth_mbps,
            Self::Rate => row.rate_per_s,
            Self::Gups => row.extra.get("gups").and_then(serde_json::Value::as_f64),
            Self::Percent => row.extra.get("overlap_percent").and_then(serde_json::Value::as_f64),
        }
    }

    /// Above 1: `ours` is better.
    fn ratio(self, ours: f64, theirs: f64) -> f64 {
        let (better, worse) = if self == Self::Microseconds { (theirs, ours) } else { (ours, theirs) };
        // Who hides nothing may measure less than nothing.
        better / worse.max(if self == Self::Percent { 1.0 } else { 1e-9 })
    }
}

/// Figures of peers for one benchmark.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    figures: Vec<Figure>,
}

impl Peers {
    /// Adds the figures in `path`, or, if that is a program, runs it as `path <bench> <nodes>` and reads what it
    /// prints; lines that are no JSON objects are not looked at then.
    ///
    /// # Errors
    /// [`BenchError::Peer`]: nothing to read there, a line that is no figure, a program that failed, took longer
    /// than 300 s, or printed more than 64 MiB.
    pub fn add(&mut self, path: &Path, bench: &str, nodes: u32) -> Result<(), BenchError> {
        let failed = |reason: String| BenchError::Peer { path: path.display().to_string(), reason };
        let text = if is_program(path).map_err(|error| failed(error.to_string()))? {
            let output = run(path, bench, nodes).map_err(failed)?;
            output.lines().filter(|line| line.starts_with('{')).map(|line| line.to_owned() + "\n").collect()
        } else {
            ggas_files::read_to_string(path, MOST).map_err(|error| failed(error.to_string()))?
        };
        self.parse(&text, bench, nodes).map_err(failed)
    }

    fn parse(&mut self, text: &str, bench: &str, nodes: u32) -> Result<(), String> {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let figure: Figure = serde_json::from_str(line).map_err(|error| {
                format!("line {number} is no figure of a peer ({error}); benches/peers/README.md shows them")
            })?;
            if figure.bench == bench && figure.nodes == nodes {
                self.figures.push(figure);
            }
        }
        Ok(())
    }

    /// Puts the best figure for the same work beside each row: `peer`, `peer_value`, `peer_unit` where it is not µs,
    /// and `ratio`, above 1 where ours is better. Notes it where there is none at all.
    pub fn join(&self, report: &mut Report) {
        let mut joined = 0;
        for row in &mut report.rows {
            let best = self.figures.iter().filter_map(|figure| Some((figure, figure.ratio(row)?)));
            let Some((figure, ratio)) = best.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            row.extra.insert("peer", figure.peer.as_str().into());
            row.extra.insert("peer_value", figure.value.into());
            if figure.unit != Unit::Microseconds {
                row.extra.insert("peer_unit", figure.unit.name().into());
            }
            row.extra.insert("ratio", ratio.into());
            joined += 1;
        }
        if joined == 0 {
            report.notes.push(format!("no peer has a figure for a row of {}", report.bench));
        }
    }
}

impl Figure {
    /// Ours over this or the other way round, if it is the same work.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let same = |theirs: Option<u64>, ours: Option<u64>| theirs.is_none() || theirs == ours;
        let method = self.method.is_none() || self.method == row.method;
        let nodes = row.nodes.is_none_or(|nodes| nodes == self.nodes);
        let fits = method && nodes && same(self.bytes, row.bytes) && same(self.elements, row.elements);
        let ours = self.unit.of(row).filter(|_| fits)?;
        Some(self.unit.ratio(ours, self.value))
    }
}

fn is_program(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = fs::metadata(path)?;
    Ok(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// What the program prints; what it says on standard error goes to ours.
fn run(path: &Path, bench: &str, nodes: u32) -> Result<String, String> {
    let program = path.canonicalize().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args([bench, &nodes.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(output.map_or(Ok(String::new()), text_of)));
    let status = wait(&mut child).map_err(|error| error.to_string())?;
    let Some(status) = status else { return Err(format!("it was stopped after {} s", LIMIT.as_secs())) };
    match receiver.recv_timeout(LINGER) {
        // One that printed too much is ended by its closed output: that says less.
        Ok(Err(error)) => Err(error.to_string()),
        _ if !status.success() => Err(format!("it failed: {status}")),
        Ok(Ok(text)) => Ok(text),
        Err(_) => Err(format!(
            "it has ended, and what it started held its output open for {} s: it should wait for that, or redirect it",
            LINGER.as_secs()
        )),
    }
}

/// What is printed, and no more than a bound of it.
fn text_of(output: ChildStdout) -> io::Result<String> {
    let mut text = String::new();
    output.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::other(format!("it prints more than {} MiB", MOST >> 20)));
    }
    Ok(text)
}

/// `None`: it took too long, and was killed.
fn wait(child: &mut Child) -> io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait().map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Options, Samples, Team};

    fn figures(text: &str, bench: &str, nodes: u32) -> Result<Peers, String> {
        let mut peers = Peers::default();
        peers.parse(text, bench, nodes).map(|()| peers)
    }

    const FIGURES: &str = r#"
{"peer": "Other 1.2 put", "bench": "put-signal", "nodes": 2, "bytes": 8, "blocks": 1, "value": 4.0}
{"peer": "Other 1.2 put", "bench": "put-signal", "nodes": 2, "bytes": 8, "blocks": 2, "value": 3.0, "unit": "us"}
{"peer": "Other 1.2 put", "bench": "put-signal", "nodes": 2, "method": "grid", "bytes": 64, "value": 9.0}
{"peer": "Other 1.2 put", "bench": "put-signal", "nodes": 4, "bytes": 8, "value": 1.0}
{"peer": "Other 1.2 put", "bench": "put-bandwidth", "nodes": 2, "bytes": 8, "value": 16.0, "unit": "MB/s"}
{"peer": "Other 1.2 put", "bench": "put-overlap", "nodes": 2, "bytes": 8, "value": 40.0, "unit": "%"}
{"peer": "Other 1.2 put", "bench": "put-overlap", "nodes": 2, "bytes": 64, "value": -3.0, "unit": "%"}
"#;

    fn report() -> Report {
        let mut report = Report::new("put-signal", &Team::alone(), &Options::default());
        for bytes in [8, 64] {
            let samples = Samples::new(vec![2000.0], 1);
            report
                .push(Row::new(&samples).method("block").bytes(bytes).bandwidth_of(bytes), Check::default());
        }
        report
    }

    #[test]
    fn the_best_figure_for_the_same_work_stands_beside_a_row() {
        let mut report = report();
        figures(FIGURES, "put-signal", 2).unwrap().join(&mut report);
        let extra = &report.rows[0].extra;
        assert_eq!((&extra["peer"], &extra["peer_value"]), (&"Other 1.2 put".into(), &3.0.into()));
        assert_eq!(extra["ratio"], 1.5);
        assert!(report.rows[1].extra.is_empty() && report.notes.is_empty());
    }

    #[test]
    fn more_is_better_of_rates() {
        let mut report = report();
        figures(FIGURES, "put-bandwidth", 2).unwrap().join(&mut report);
        let extra = &report.rows[0].extra;
        assert_eq!((&extra["ratio"], &extra["peer_unit"]), (&0.25.into(), &"MB/s".into()));
    }

    #[test]
    fn who_hides_nothing_is_no_reason_to_divide_by_it() {
        let mut report = report();
        report.rows.iter_mut().for_each(|row| drop(row.extra.insert("overlap_percent", 80.0.into())));
        figures(FIGURES, "put-overlap", 2).unwrap().join(&mut report);
        assert_eq!(
            (&report.rows[0].extra["ratio"], &report.rows[1].extra["ratio"]),
            (&2.0.into(), &80.0.into())
        );
    }

    #[test]
    fn no_figure_is_said_and_a_bad_line_refused() {
        let mut report = report();
        figures(FIGURES, "barrier", 2).unwrap().join(&mut report);
        assert!(report.notes[0].contains("no peer"));
        let error = figures("{\"peer\": 1}", "barrier", 2).unwrap_err();
        assert!(error.contains("line 1") && error.contains("README"), "{error}");
    }

    #[test]
    fn programs_are_run_and_files_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("ggas-peer-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("peer.sh");
        let script = "#!/bin/sh\necho hello\necho \"{\\\"peer\\\": \\\"P\\\", \\\"bench\\\": \\\"$1\\\", \
                      \\\"nodes\\\": $2, \\\"value\\\": 1}\"\n";
        fs::write(&program, script).unwrap();
        let mut peers = Peers::default();
        let error = peers.add(&program, "barrier", 3).unwrap_err();
        assert!(matches!(error, BenchError::Peer { .. }), "no program yet: {error}");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        peers.add(&program, "barrier", 3).unwrap();
        assert_eq!(peers.figures.len(), 1);
        fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
        assert!(
            Peers::default().add(&program, "barrier", 3).unwrap_err().to_string().contains("exit status: 3")
        );
        assert!(peers.add(&folder.join("none"), "barrier", 3).is_err());
        fs::write(&program, "#!/bin/sh\nexec yes\n").unwrap();
        let error = peers.add(&program, "barrier", 3).unwrap_err().to_string();
        assert!(error.contains("it prints more than 64 MiB"), "{error}");
        // It ends, and what it started does not.
        let pid = folder.join("pid");
        fs::write(&program, format!("#!/bin/sh\nsleep 200 &\necho $! > {}\n", pid.display())).unwrap();
        let error = peers.add(&program, "barrier", 3).unwrap_err().to_string();
        let sleeper = fs::read_to_string(pid).unwrap();
        assert!(Command::new("kill").arg(sleeper.trim()).status().unwrap().success());
        assert!(error.contains("held its output open"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

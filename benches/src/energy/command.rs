//! Energy of a program, over the stretches of its time that it marks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::columns::Work;
use super::rows::MARGIN;
use super::{EnergyFacts, Meter};
use crate::error::Doing;
use crate::report::{significant, text_of};
use crate::{BenchError, Device, HostFacts, Options, SCHEMA};

/// Bytes of a line that are looked at together.
const LINE: u64 = 1 << 20;

/// A line that a program prints where work begins or ends.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Mark {
    /// Work of this name begins.
    Begin { begin: String },
    /// It ends, and was so many operations.
    End { end: String, operations: Option<f64> },
}

/// A stretch of a program's time.
#[derive(Clone, Debug, Serialize)]
pub struct Stretch {
    /// What the program did, as it says; `the whole run` of one that marks nothing.
    pub method: String,
    /// How long it took.
    pub seconds: f64,
    /// What it did in that time; 1, if it does not say.
    pub operations: f64,
    /// Time of one of these.
    pub us_per_op: f64,
    /// What the counters say, as in the rows of a benchmark.
    #[serde(flatten)]
    pub columns: BTreeMap<&'static str, Value>,
}

/// Energy of a program.
#[derive(Clone, Debug, Serialize)]
pub struct CommandReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `energy`.
    pub bench: &'static str,
    /// `gpu` where there are GPUs.
    pub device: Device,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether it ended with success.
    pub verified: bool,
    /// How it ended.
    pub status: String,
    /// The machine and the build.
    pub host: HostFacts,
    /// What a reader should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Counters, and power over time.
    pub energy: EnergyFacts,
    /// One per stretch.
    pub rows: Vec<Stretch>,
}

/// Runs a program and counts the energy of the stretches that it marks by lines of JSON on its standard output:
/// `{"begin": "NAME"}` and, behind the work, `{"end": "NAME", "operations": N}`. Without any, the whole run is one.
/// Before, nothing runs for 1.15 times `seconds`: the idle power. `tell` is given each line that the program prints.
///
/// A program that fails is no error here: the report says how it ended, and what was counted before is kept.
///
/// # Errors
/// [`BenchError::Library`] if it cannot be started, or its output cannot be read.
pub fn of_command(
    command: &[OsString],
    seconds: f64,
    tell: &mut dyn FnMut(&str),
) -> Result<CommandReport, BenchError> {
    let gpus = ggas_gpu::probe().map_or(0, |gpus| gpus.len() as u32);
    let device = if gpus > 0 { Device::Gpu } else { Device::Cpu };
    let meter = Meter::open(&Options { device, gpus, ..Options::default() });
    let idle = || std::thread::sleep(Duration::from_secs_f64(MARGIN * seconds));
    let mut report = with_meter(meter, idle, command, tell)?;
    report.device = device;
    report.host.add_gpus(gpus);
    for row in report.rows.iter().filter(|row| row.seconds < seconds) {
        let (method, took) = (&row.method, row.seconds);
        report
            .notes
            .push(format!("{method} took {took:.1} s: let it take {seconds} s to see its energy well"));
    }
    Ok(report)
}

fn with_meter(
    mut meter: Meter,
    idle: impl FnOnce(),
    command: &[OsString],
    tell: &mut dyn FnMut(&str),
) -> Result<CommandReport, BenchError> {
    let mut facts = meter.idle(idle);
    let recorder = meter.start();
    let mut marks = Marks::default();
    let begin = recorder.seconds(Instant::now());
    let status = run(command, &mut |line| {
        let at = recorder.seconds(Instant::now());
        marks.take(at, line);
        tell(line);
    });
    let end = recorder.seconds(Instant::now());
    let recording = meter.stop(recorder);
    let status = status?;
    let (stretches, mut notes) = marks.stretches(begin, end);
    let mut rows = Vec::new();
    for (at, Marked { what, from, to, operations }) in stretches.into_iter().enumerate() {
        let seconds = (to - from).max(f64::MIN_POSITIVE);
        let work = Work { from, to, per_second: operations / seconds };
        rows.push(Stretch {
            method: what,
            seconds,
            operations,
            us_per_op: 1e6 * seconds / operations,
            columns: work.columns(&recording, &facts),
        });
        facts.windows.push(work.window(&recording, at));
    }
    facts.power.extend(recording.power(None));
    facts.missing = meter.missing;
    notes.extend(facts.missing.iter().map(|m| format!("no energy of {}: {}", m.component, m.reason)));
    Ok(CommandReport {
        schema: SCHEMA,
        bench: "energy",
        device: Device::Cpu,
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        verified: status.success(),
        status: status.to_string(),
        host: HostFacts::collect(),
        notes,
        energy: facts,
        rows,
    })
}

/// Runs it to its end; `line` sees what it prints.
fn run(command: &[OsString], line: &mut dyn FnMut(&str)) -> Result<ExitStatus, BenchError> {
    let Some((program, args)) = command.split_first() else {
        return Err(BenchError::Unsupported("there is no program to run".to_owned()));
    };
    let doing = || format!("running {}", program.display());
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .doing_with(doing)?;
    let read = child.stdout.take().map_or(Ok(()), |output| lines(output, line));
    if read.is_err() {
        // It has nobody to print to any more.
        child.kill().doing_with(doing)?;
    }
    let status = child.wait().doing_with(doing)?;
    read.doing_with(doing)?;
    Ok(status)
}

fn lines(output: impl Read, line: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut reader = BufReader::new(output);
    let mut bytes = Vec::new();
    while (&mut reader).take(LINE).read_until(b'\n', &mut bytes)? > 0 {
        line(String::from_utf8_lossy(&bytes).trim_end());
        bytes.clear();
    }
    Ok(())
}

/// Work of a program, in seconds of a recording.
#[derive(Debug, PartialEq)]
struct Marked {
    what: String,
    from: f64,
    to: f64,
    operations: f64,
}

/// What a program has marked so far.
#[derive(Default)]
struct Marks {
    open: Vec<(String, f64)>,
    done: Vec<Marked>,
    notes: Vec<String>,
}

impl Marks {
    fn take(&mut self, at: f64, line: &str) {
        match serde_json::from_str(line) {
            Ok(Mark::Begin { begin }) => self.open.push((begin, at)),
            Ok(Mark::End { end, operations }) => self.end(at, end, operations.unwrap_or(1.0)),
            Err(_) => {}
        }
    }

    fn end(&mut self, to: f64, what: String, operations: f64) {
        let Some(index) = self.open.iter().rposition(|(open, _)| *open == what) else {
            self.notes.push(format!("the program says that {what} ended, which did not begin"));
            return;
        };
        let (what, from) = self.open.remove(index);
        match operations.is_finite() && operations > 0.0 {
            true => self.done.push(Marked { what, from, to, operations }),
            false => self.notes.push(format!("{what} was {operations} operations, as the program says")),
        }
    }

    /// What it marked, or all of it; and what is wrong with its marks.
    fn stretches(mut self, begin: f64, end: f64) -> (Vec<Marked>, Vec<String>) {
        let open = self.open.iter();
        self.notes.extend(open.map(|(what, _)| format!("no energy of {what}, which did not end")));
        if self.done.is_empty() && self.notes.is_empty() {
            let what = "the whole run".to_owned();
            self.done.push(Marked { what, from: begin, to: end, operations: 1.0 });
        }
        (self.done, self.notes)
    }
}

impl CommandReport {
    /// The JSON, indented, with a newline at its end.
    pub fn json(&self) -> String {
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The table for people, then notes and how the program ended.
    pub fn table(&self) -> String {
        let mut keys: Vec<&str> = self.rows.iter().flat_map(|row| row.columns.keys().copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        let titles = ["s", "operations", "us per op"].into_iter().map(str::to_owned);
        let titles = titles.chain(keys.iter().map(|key| key.replace('_', " ")));
        let mut header = vec![ggas_table::Column::text("what")];
        header.extend(titles.map(|title| ggas_table::Column::number(&title)));
        let cells = |row: &Stretch| {
            let numbers = [row.seconds, row.operations, row.us_per_op].map(significant);
            let columns = keys.iter().map(|key| row.columns.get(key).map(text_of).unwrap_or_default());
            std::iter::once(row.method.clone()).chain(numbers).chain(columns).collect::<Vec<_>>()
        };
        let mut text = format!("energy of {}\n", self.command.join(" "));
        text += &ggas_table::table(&header, self.rows.iter().map(cells));
        text += "\n";
        for note in &self.notes {
            text += &format!("  {note}\n");
        }
        text + &format!("  it ended with {}\n", self.status)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::super::counter::{Counter, Found};
    use super::super::tests::component;
    use super::*;

    /// Rises by a joule at each look, and makes a file after twenty of them in the program's work.
    struct Looks {
        joules: Arc<AtomicU64>,
        working: Arc<AtomicBool>,
        seen: u64,
        file: PathBuf,
    }

    impl Counter for Looks {
        fn joules(&mut self) -> Result<f64, String> {
            let joules = self.joules.fetch_add(1, Ordering::Relaxed);
            self.seen += u64::from(self.working.load(Ordering::Relaxed));
            if self.seen == 20 {
                std::fs::write(&self.file, "").map_err(|error| error.to_string())?;
            }
            Ok(joules as f64)
        }
    }

    /// The report of a shell's script, whose first argument is a file that is there once its work was looked at.
    fn report(script: &str) -> CommandReport {
        let folder = tempfile::tempdir().expect("a folder");
        let working = Arc::<AtomicBool>::default();
        let file = folder.path().join("seen");
        let joules = Arc::<AtomicU64>::default();
        let looks = Looks { joules: joules.clone(), working: working.clone(), seen: 0, file: file.clone() };
        let components = vec![component("gpu 0", Box::new(looks))];
        let meter = Meter::of(Found { components, ..Found::default() });
        let command = ["sh", "-c", script, "sh"].map(OsString::from).into_iter().chain([file.into()]);
        let command: Vec<OsString> = command.collect();
        let wait = || {
            while joules.load(Ordering::Relaxed) < 5 {
                std::thread::yield_now();
            }
        };
        let tell = &mut |line: &str| {
            if line.contains("begin") {
                working.store(true, Ordering::Relaxed);
            }
        };
        with_meter(meter, wait, &command, tell).expect("it runs")
    }

    const WORK: &str = r#"echo hello; echo '{"begin": "put"}'; while [ ! -e "$1" ]; do sleep 0.01; done
        echo '{"end": "put", "operations": 50}'"#;

    #[test]
    fn work_that_a_program_marks_has_its_energy() {
        let report = report(WORK);
        let [row] = &report.rows[..] else { panic!("{report:?}") };
        assert_eq!((&*row.method, row.operations, report.verified), ("put", 50.0, true));
        let value = |key: &str| row.columns[key].as_f64().expect("a number");
        assert!(value("gpu_w") > 0.0 && value("energy_s") > 0.0 && value("energy_s") <= row.seconds);
        let joules = value("gpu_uj_per_op") * row.operations / 1e6;
        assert!((joules / (value("gpu_w") * row.seconds) - 1.0).abs() < 1e-9, "{row:?}");
        assert!(joules >= 17.0, "a joule at each of at least 18 looks: {joules}");
        let (window, power) = (report.energy.windows[0], &report.energy.power[1]);
        assert!(window.from_s >= power.begin_s && window.to_s - window.from_s <= row.seconds + 1e-9);
        assert!(report.table().contains("put") && report.json().contains("\"gpu_w\""), "{}", report.table());
    }

    #[test]
    fn what_failed_is_kept_and_marked() {
        let report = report(&format!("{WORK}\necho '{{\"begin\": \"more\"}}'; exit 3"));
        assert!(!report.verified && report.status.contains('3'), "{}", report.status);
        assert_eq!(report.rows.len(), 1);
        assert!(report.notes.iter().any(|note| note.contains("no energy of more")), "{:?}", report.notes);
    }

    #[test]
    fn marks_that_do_not_fit_are_said() {
        let mut marks = Marks::default();
        marks.take(1.0, r#"{"end": "a", "operations": 2}"#);
        marks.take(2.0, r#"{"begin": "b"}"#);
        marks.take(3.0, r#"{"end": "b", "operations": 0}"#);
        marks.take(3.5, r#"{"peer": "P", "bench": "put", "nodes": 2, "value": 1}"#);
        let (done, notes) = marks.stretches(0.0, 4.0);
        assert!(done.is_empty(), "{done:?}");
        assert!(notes[0].contains("did not begin") && notes[1].contains("0 operations"), "{notes:?}");
        let (done, notes) = Marks::default().stretches(0.0, 4.0);
        assert_eq!((done[0].what.as_str(), done[0].to, notes.len()), ("the whole run", 4.0, 0));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&["/no/such/program".into()], &mut |_| {}).expect_err("there is none");
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}

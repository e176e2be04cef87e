//! Runs commands with progress: a moving line each on a terminal, plain lines elsewhere. The whole
//! output goes to `build/log/`; a failure prints its end and the command that repeats it.

use crate::place;
use anyhow::{Context, Result, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Lines of a failed command's output that are shown.
const TAIL: usize = 60;

/// A command with a name and a time limit.
pub struct Step<'a> {
    pub name: &'a str,
    pub command: Command,
    pub limit: Duration,
}

impl Step<'_> {
    /// Runs it; the error carries the end of the log, the log's place and the command line.
    pub fn run(mut self) -> Result<Duration> {
        let log = log_path(self.name)?;
        let line = command_line(&self.command);
        let (reader, writer) = std::io::pipe().context("no pipe for the command's output")?;
        self.command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        self.command.current_dir(place::root());
        let start = Instant::now();
        let spawned = self.command.spawn();
        let program = self.command.get_program().to_owned();
        drop(self.command); // closes our ends of the pipe, so that the reader sees the end
        let mut child = spawned.with_context(|| format!("cannot start {}", program.display()))?;

        let bar = spinner(self.name);
        let done = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let limit = self.limit;
            let pid = child.id();
            let guard = scope.spawn({
                let done = &done;
                move || watch(pid, limit, done)
            });
            let kept = follow(BufReader::new(reader), &log, &bar);
            let status = wait(&mut child);
            done.store(true, Ordering::Release);
            guard.thread().unpark();
            let late = guard.join().unwrap_or(false);
            anyhow::Ok((kept?, status?, late))
        });
        bar.finish_and_clear();
        let (tail, status, late) = outcome?;
        if late || !status.success() {
            let why = if late { format!("not done after {:?}", self.limit) } else { status.to_string() };
            bail!(
                "{}\n{}: {why}\n  whole output: {}\n  repeat it:    {line}",
                tail.join("\n"),
                self.name,
                place::shown(&log)
            );
        }
        Ok(start.elapsed())
    }
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    child.wait().context("lost the command")
}

/// Copies output to the log and its last line to the spinner; keeps the end.
fn follow(mut reader: impl BufRead, log: &PathBuf, bar: &ProgressBar) -> Result<Vec<String>> {
    let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut tail = std::collections::VecDeque::new();
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).context("cannot read the command's output")? > 0 {
        file.write_all(&bytes)
            .with_context(|| format!("cannot write {}: is the disk full?", log.display()))?;
        let text = String::from_utf8_lossy(&bytes).trim_end().to_string();
        bar.set_message(text.rsplit('\r').next().unwrap_or("").trim().to_string());
        tail.push_back(text);
        if tail.len() > TAIL {
            tail.pop_front();
        }
        bytes.clear();
    }
    Ok(tail.into())
}

/// Ends the command and everything it started once `limit` is over. True when it did.
fn watch(pid: u32, limit: Duration, done: &AtomicBool) -> bool {
    let end = Instant::now() + limit;
    while !done.load(Ordering::Acquire) {
        let now = Instant::now();
        if now >= end {
            let ids: Vec<String> = family(pid).iter().map(u32::to_string).collect();
            let _ = Command::new("sh").arg("-c").arg(format!("kill -9 {}", ids.join(" "))).status();
            return true;
        }
        std::thread::park_timeout(end - now);
    }
    false
}

/// `pid` and its descendants.
fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "pid (name) state ppid ...": the name may hold spaces and parentheses
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() {
        all.extend(children.remove(&all[next]).unwrap_or_default());
        next += 1;
    }
    all
}

fn log_path(name: &str) -> Result<PathBuf> {
    let dir = place::logs();
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let file: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Ok(dir.join(file + ".log"))
}

/// Time that processors gave to what this process started and has seen end: where cores waited it is less than the
/// time that all of it took, times their number.
pub fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // "pid (name) state ...": the name may hold spaces. Fields 16 and 17 are hundredths of a second.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().skip(13).take(2);
    Duration::from_millis(fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Tells a failure, and notes it in `build/log/failed.txt`: what has a thousand lines behind it shows that file at its end.
pub fn tell_failure(text: &str) {
    report!("{text}");
    if cfg!(test) {
        return; // tests fail on purpose
    }
    let noted = log_path("failed").map(|log| log.with_extension("txt")).and_then(|path| {
        let mut file = File::options().create(true).append(true).open(path)?;
        Ok(writeln!(file, "{text}\n")?)
    });
    if let Err(error) = noted {
        report!("xtask: the failure is not noted: {error:#}");
    }
}

/// A spinner on a terminal; elsewhere one plain line.
fn spinner(name: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() || place::ci() {
        report!("      {name} ...");
        return ProgressBar::hidden();
    }
    // A line for each step that runs.
    static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);
    let bar = BARS.add(ProgressBar::new_spinner());
    let style = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg:.dim}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.set_prefix(name.to_string());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// The command as one would type it, with the variables it sets.
pub fn command_line(command: &Command) -> String {
    let vars = command.get_envs().filter_map(|(k, v)| Some(format!("{}={}", k.display(), quoted(v?))));
    let program = command.get_program();
    let cargo = std::path::Path::new(program).file_name().is_some_and(|name| name == "cargo");
    let program = if cargo { "cargo".as_ref() } else { program };
    let words = std::iter::once(program).chain(command.get_args()).map(quoted);
    vars.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &std::ffi::OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.,:+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The cargo that runs us.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// Does `work` for all of them, as many at a time as there are cores. An error is told once those that have begun are
/// done; no more are begun then.
pub fn side_by_side<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = || {
        while !failed.load(Ordering::Relaxed)
            && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
        {
            work(item).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let ends: Vec<Result<()>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect();
        ends.into_iter().collect()
    })
}

/// A command's standard output, when it succeeds.
pub fn ask(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Duration> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let name = format!("test {}", script.len());
        Step { name: &name, command, limit }.run()
    }

    #[test]
    fn a_failure_shows_the_end_of_the_output_and_how_to_repeat_it() {
        let error = shell("seq 100; echo why >&2; exit 3", Duration::from_secs(20)).unwrap_err().to_string();
        for part in ["100\nwhy\n", "exit status: 3", "sh -c 'seq 100; echo why >&2; exit 3'", "build/log/"] {
            assert!(error.contains(part), "no `{part}` in {error}");
        }
        assert!(!error.contains("\n40\n"), "the whole output is in the log, not in the message");
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let start = Instant::now();
        let error = shell("sleep 121 & sleep 122", Duration::from_millis(300)).unwrap_err().to_string();
        assert!(error.contains("not done after 300ms"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(50), "the pipe stayed open: a child lives on");
    }

    #[test]
    fn all_are_done_unless_one_fails() {
        let done = AtomicUsize::new(0);
        let add = |n: &usize| {
            done.fetch_add(*n, Ordering::Relaxed);
            Ok(())
        };
        let all: Vec<usize> = (1..=100).collect();
        side_by_side(&all, add).unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 5050);
        let error =
            side_by_side(&all, |n| if *n == 70 { bail!("{n} is wrong") } else { add(n) }).unwrap_err();
        assert_eq!(error.to_string(), "70 is wrong");
        // A panic is the caller's too: a thread that is gone has not done its part.
        assert!(
            std::panic::catch_unwind(|| side_by_side(&all, |n| {
                assert_ne!(*n, 3);
                Ok(())
            }))
            .is_err()
        );
    }

    #[test]
    fn a_log_that_cannot_be_written_is_named() {
        let lines: &[u8] = b"one\ntwo\n";
        let error = follow(lines, &PathBuf::from("/dev/full"), &ProgressBar::hidden()).unwrap_err();
        assert!(error.to_string().contains("cannot write /dev/full"), "{error:#}");
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_a_step() {
        assert!(shell("printf '\\377\\000x'", Duration::from_secs(20)).is_ok());
    }
}

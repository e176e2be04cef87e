//! What guests' logs say of their scenarios.

use crate::place;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Lines of a guest's log that are shown when it fails.
const TAIL: usize = 60;
/// How a guest says that a scenario ended well, before the time.
const WELL: &str = "0 ";
/// Lines by which a kernel says that something is wrong.
const REPORTS: [&str; 17] = [
    "BUG:",
    "WARNING:",
    "KASAN:",
    "UBSAN:",
    "DMA-API:",
    "INFO: possible",
    "INFO: task",
    "Oops:",
    "Kernel panic",
    "general protection fault",
    "unreferenced object",
    "refcount_t:",
    "kernel BUG at",
    "invalid opcode:",
    "divide error:",
    "non-static key",
    "nobody cared",
];

/// A log, as text.
pub fn text(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).replace('\r', "")
}

/// Whether a scenario ended well; `None` before its end.
pub fn ended_well(log: &str, name: &str) -> Option<bool> {
    end_of(log, name).map(|(said, _)| said.starts_with(WELL))
}

/// Whether a kernel came to grief on its own: nothing of ours runs before the guest's first program.
pub fn fell_before_its_first_program(log: &Path) -> bool {
    fell_early(&text(log))
}

fn fell_early(log: &str) -> bool {
    !log.lines().any(|line| line.starts_with("guest: ")) && REPORTS.iter().any(|report| log.contains(report))
}

/// Whether the guest has reset its cards for what comes after a scenario.
pub fn fresh_after(log: &str, name: &str) -> bool {
    log.contains(&format!("\nguest: fresh after {name}\n"))
}

/// How each scenario ended, by the guests' logs.
pub fn outcomes(logs: &[PathBuf], names: &[&str], late: Option<Duration>) -> Vec<(Duration, Result<()>)> {
    let texts: Vec<String> = logs.iter().map(|log| text(log)).collect();
    let verdicts: Vec<Vec<Verdict>> = texts.iter().map(|text| verdicts(text, names)).collect();
    let mut failed: Option<&str> = None;
    let mut all = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let time = verdicts.iter().map(|of| of[i].time).max().unwrap_or_default();
        if let Some(other) = failed {
            all.push((time, Err(anyhow::anyhow!("not run: the guest ended in {other}"))));
        } else if verdicts.iter().all(|of| of[i].wrong.is_none()) {
            all.push((time, Ok(())));
        } else {
            let mut message = late.map_or_else(String::new, |limit| format!("not done after {limit:?}\n"));
            for (log, of) in logs.iter().zip(&verdicts) {
                let wrong = of[i].wrong.as_deref().unwrap_or("ended well");
                message += &format!("--- {}: {wrong}\n{}\n", place::shown(log), tail(log));
            }
            failed = Some(name);
            all.push((time, Err(anyhow::anyhow!("{}", message.trim_end()))));
        }
    }
    if let (None, Some(limit), Some(last)) = (failed, late, all.last_mut()) {
        last.1 = Err(anyhow::anyhow!("all ended well, but a guest was not switched off after {limit:?}"));
    }
    all
}

/// How a scenario ended in a guest.
struct Verdict {
    wrong: Option<String>,
    /// By the guest's clock; of the first one with the time that the guest took to start.
    time: Duration,
}

/// The rest of the line by which a guest says that a scenario has ended, and where in its log that is over.
fn end_of<'a>(log: &'a str, name: &str) -> Option<(&'a str, usize)> {
    let said = format!("guest: {name} done with ");
    let start = if log.starts_with(&said) { 0 } else { log.find(&format!("\n{said}"))? + 1 };
    let rest = &log[start + said.len()..];
    let len = rest.find('\n')?;
    Some((&rest[..len], start + said.len() + len))
}

/// What is wrong with each scenario's part of a guest's log. QEMU's own exit status says nothing: a guest has to say that
/// all went well, and its kernel must not have said anything else.
fn verdicts(log: &str, names: &[&str]) -> Vec<Verdict> {
    let (mut rest, mut before) = (log, Duration::ZERO);
    let mut all = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let end = end_of(rest, name);
        // What the kernel says while the machine is switched off is the last one's.
        let at = end.filter(|_| i + 1 < names.len()).map_or(rest.len(), |(_, at)| at);
        let report = rest[..at].lines().find(|line| REPORTS.iter().any(|report| line.contains(report)));
        let wrong = match (report, end) {
            (Some(report), _) => Some(format!("the kernel reports: {}", report.trim())),
            (None, None) => Some("it did not come to its end".into()),
            (None, Some((said, _))) if said.starts_with(WELL) => None,
            (None, Some((said, _))) => Some(format!("its test ended with {said}")),
        };
        let seconds = |said: &str| said.split_whitespace().rev().nth(1)?.parse().ok();
        let time = end.and_then(|(said, _)| seconds(said)).map_or(before, Duration::from_secs_f64);
        all.push(Verdict { wrong, time: time.saturating_sub(before) });
        (rest, before) = (&rest[at..], time);
    }
    all
}

/// The end of a log, and what QEMU said.
fn tail(log: &Path) -> String {
    let text = text(log) + &text(&log.with_extension("qemu"));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_falls_before_the_first_program_is_told_from_who_falls_later() {
        let fell = "[    0.05] BUG: KASAN: null-ptr-deref in mask_ioapic_irq+0x3b/0x140\n";
        assert!(fell_early(fell));
        assert!(!fell_early("[    0.05] ACPI: IRQ 4 override\n"), "it may still come");
        assert!(!fell_early(&format!("guest: 6.1.176, up after 3.79 s\n{fell}")));
    }

    #[test]
    fn only_a_guest_that_says_so_ended_well() {
        let wrong = |log: &str| verdicts(log, &["x"]).pop().unwrap().wrong;
        assert_eq!(wrong("y\nguest: x done with 0 after 3.25 s\n[ 4.0] reboot: Power down\n"), None);
        assert!(wrong("").is_some());
        assert!(wrong("guest: x done with 1 after 3 s\n").is_some());
        assert!(wrong("guest: y done with 0 after 3 s\n").is_some());
        assert!(wrong("guest: x done with 0 after 3 s\n[ 1.0] BUG: KASAN: use-after-free in x\n").is_some());
        assert!(wrong("[ 1.0] WARNING: CPU: 0 PID: 1\nguest: x done with 0 after 3 s\n").is_some());
        assert!(wrong("[ 1.0] kernel BUG at x.c:1!\nguest: x done with 0 after 3 s\n").is_some());
    }

    #[test]
    fn a_failure_names_its_scenario_and_those_behind_it_did_not_run() {
        let log = "up\nguest: a done with 0 after 3.5 s\n[ 4.0] BUG: x\nguest: b done with 98 after 6.0 s\n";
        let all = verdicts(log, &["a", "b", "c"]);
        assert_eq!(all[0].wrong, None);
        assert_eq!(all[0].time, Duration::from_secs_f64(3.5));
        assert_eq!(all[1].wrong.as_deref(), Some("the kernel reports: [ 4.0] BUG: x"));
        assert_eq!(all[1].time, Duration::from_secs_f64(2.5));
        assert!(all[2].wrong.is_some());

        let dir = std::env::temp_dir().join(format!("extoll-guest-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("0.log"), log).unwrap();
        let all = outcomes(&[dir.join("0.log")], &["a", "b", "c"], None);
        let told = |i: usize| all[i].1.as_ref().map_or_else(ToString::to_string, |()| "passed".into());
        assert_eq!((told(0).as_str(), told(2).as_str()), ("passed", "not run: the guest ended in b"));
        assert!(told(1).contains("BUG: x") && told(1).contains("done with 98"), "{}", told(1));
        // A guest that hangs when all is over has not ended well.
        let late = outcomes(&[dir.join("0.log")], &["a"], Some(Duration::from_secs(60)));
        assert!(late[0].1.is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}

//! Defects put into the modules on purpose: the scenario that is named for each has to fail, and with the report that
//! tells what is wrong. A check that notices nothing is worth nothing.

use super::debs::{self, Archive};
use super::kernel::{Kernel, copy_sources};
use super::lab::{Built, Job, Lab};
use super::logs;
use super::machine;
use super::scenario::{Boot, Scenario};
use crate::place;
use crate::run::Step;
use crate::setup::Policy;
use crate::test::seconds;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use ggas_table::Column;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A patch to `kmod`, after a head that says what it is.
#[derive(Debug)]
struct Defect {
    name: String,
    patch: PathBuf,
    /// In a sentence.
    what: String,
    kernel: Kernel,
    scenario: String,
    /// One of them has to be in a guest's log.
    expect: Vec<String>,
}

impl Defect {
    /// All of them, by name.
    fn all() -> Result<Vec<Defect>> {
        let dir = place::root().join("tests/vm/defects");
        let mut all = Vec::new();
        for entry in fs::read_dir(&dir).with_context(|| format!("no {}", dir.display()))? {
            let patch = entry?.path();
            if patch.extension().is_some_and(|extension| extension == "patch") {
                let text = fs::read_to_string(&patch)?;
                all.push(parse(patch.clone(), &text).with_context(|| place::shown(&patch))?);
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}

/// Reads the head: a sentence, then lines `key: value` up to the patch.
fn parse(patch: PathBuf, text: &str) -> Result<Defect> {
    let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let what = text.lines().next().unwrap_or_default().to_owned();
    let (mut kernel, mut scenario, mut expect) = (Kernel::Debug, String::new(), Vec::new());
    for line in text.lines().skip(1).take_while(|line| !line.starts_with("--- ")) {
        match line.split_once(": ") {
            Some(("kernel", value)) => kernel = Kernel::from_str(value, false).map_err(anyhow::Error::msg)?,
            Some(("scenario", value)) => value.clone_into(&mut scenario),
            Some(("expect", value)) => expect.push(value.to_owned()),
            _ if line.is_empty() => {}
            _ => bail!("`{line}`: there are kernel, scenario, expect"),
        }
    }
    if what.is_empty() || scenario.is_empty() || expect.is_empty() {
        bail!("the head lacks a sentence, `scenario: NAME` or `expect: TEXT`");
    }
    Ok(Defect { name, patch, what, kernel, scenario, expect })
}

/// Runs all defects, or those named in `only`, and prints a table; fails if one went unnoticed.
pub fn all(policy: Policy, scenarios: &[Scenario], only: &[String]) -> Result<()> {
    let mut defects = Defect::all()?;
    if let Some(name) = only.iter().find(|name| !defects.iter().any(|d| d.name == **name)) {
        bail!("no defect is called `{name}`; they are the patches in tests/vm/defects");
    }
    defects.retain(|d| only.is_empty() || only.contains(&d.name));
    defects.iter().try_for_each(|defect| defect.kernel.tools(policy))?;
    let archive = Archive::open()?;
    let lab = Lab::new(&archive, scenarios.iter().filter(|s| defects.iter().any(|d| d.scenario == s.name)))?;
    let mut lines = Vec::new();
    let mut missed = 0;
    for defect in &defects {
        let start = Instant::now();
        let told = caught(&lab, &archive, scenarios, defect);
        missed += usize::from(told.is_err());
        let told = told.unwrap_or_else(|error| format!("NOT CAUGHT: {error:#}"));
        lines.push((defect, told, start.elapsed()));
    }
    let [defect, kernel, scenario, told] = ["defect", "kernel", "scenario", "reported as"].map(Column::text);
    let rows = lines.iter().map(|(defect, told, time)| {
        let Defect { name, scenario, kernel, .. } = defect;
        [name.to_string(), kernel.name().to_string(), scenario.to_string(), seconds(*time), told.clone()]
    });
    say!("\n{}", ggas_table::table(&[defect, kernel, scenario, Column::number("time"), told], rows));
    match missed {
        0 => Ok(()),
        missed => bail!("{missed} of {} defects went unnoticed", lines.len()),
    }
}

/// The line by which a defect was noticed.
fn caught(lab: &Lab, archive: &Archive, scenarios: &[Scenario], defect: &Defect) -> Result<String> {
    report!("      defect {}: {}", defect.name, defect.what);
    let scenario = scenarios.iter().find(|s| s.name == defect.scenario);
    let scenario = scenario.with_context(|| format!("no scenario is called `{}`", defect.scenario))?;
    let kernel = defect.kernel.get(archive)?;
    let dir = debs::folder().join("defects");
    let kmod = dir.join("kmod");
    let _ = fs::remove_dir_all(&kmod);
    copy_sources(&place::root().join("kmod"), &kmod)?;
    let mut patch = Command::new("patch");
    patch.args(["-p1", "--batch", "--fuzz=0", "-d"]).arg(&kmod).arg("-i").arg(&defect.patch);
    let step = format!("vm defect {}", defect.name);
    Step { name: &step, command: patch, limit: Duration::from_secs(20) }.run()?;
    let mut modules = Vec::new();
    for module in &scenario.modules {
        // One place for all defects: what a patch leaves alone is built once.
        let out = dir.join(format!("build-{}", defect.kernel.name())).join(module);
        modules.push((module.clone(), kernel.modules_of(&kmod, &out, module, &[])?));
    }
    let stem = format!("defect-{}", defect.name);
    let boot = Boot::of(vec![scenario]).context("a boot has a scenario")?;
    let log = |guest| Ok::<_, anyhow::Error>(machine::run_folder()?.join(format!("{stem}-{guest}.log")));
    for guest in 0..scenario.guests {
        // What an earlier run said is not this one's.
        let _ = fs::remove_file(log(guest)?);
    }
    let job = Job { built: Arc::new(Built { kernel, modules }), boot };
    if lab.boot(&job, &stem).iter().all(|(_, result)| result.is_ok()) {
        bail!("the scenario passed");
    }
    for guest in 0..scenario.guests {
        let text = logs::text(&log(guest)?);
        let expected = |line: &&str| defect.expect.iter().any(|expect| line.contains(expect));
        if let Some(line) = text.lines().find(expected) {
            return Ok(shortened(line));
        }
    }
    bail!("the scenario failed without saying `{}`", defect.expect.join("` or `"))
}

/// A line of a log, less its time and what is specific to this machine.
fn shortened(line: &str) -> String {
    let line = line.trim();
    let line = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, rest)| rest);
    let root = format!("{}/", place::root().display());
    line.replace(&root, "").chars().take(110).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_patch_says_what_must_notice_it() {
        let text =
            "Something.\n\nscenario: abi\nkernel: 6.12\nexpect: KASAN: x\nexpect: BUG\n\n--- a/x\n+++ b/x\n";
        let defect = parse("a/wrong.patch".into(), text).unwrap();
        assert_eq!((defect.name.as_str(), defect.kernel), ("wrong", Kernel::V6_12));
        assert_eq!((defect.scenario.as_str(), defect.what.as_str()), ("abi", "Something."));
        assert_eq!(defect.expect, ["KASAN: x", "BUG"]);
        assert!(parse("x.patch".into(), "Something.\n\nscenario: abi\n--- a/x\n").is_err());
        assert!(parse("x.patch".into(), "Something.\n\nscenaria: abi\n--- a/x\n").is_err());
    }

    #[test]
    fn every_defect_can_be_read_and_names_a_scenario() {
        let scenarios = Scenario::all().unwrap();
        let defects = Defect::all().unwrap();
        assert!(defects.len() >= 10);
        for defect in defects {
            assert!(scenarios.iter().any(|s| s.name == defect.scenario), "{}", defect.name);
        }
    }

    #[test]
    fn every_defect_fits_the_modules_of_today() {
        if place::which("patch").is_none() {
            return eprintln!("SKIPPED: no `patch`");
        }
        for defect in Defect::all().unwrap() {
            let mut patch = Command::new("patch");
            patch.args(["-p1", "--batch", "--dry-run", "--fuzz=0", "-d"]).arg(place::root().join("kmod"));
            let told = patch.arg("-i").arg(&defect.patch).output().unwrap();
            assert!(told.status.success(), "{}: {}", defect.name, String::from_utf8_lossy(&told.stdout));
        }
    }

    #[test]
    fn lines_of_a_log_lose_their_time() {
        assert_eq!(shortened("[   12.345] BUG: KASAN: x in y\r"), "BUG: KASAN: x in y");
    }
}

//! `cargo xtask hosts`: programs on several hosts, which are namespaces of this machine.

mod lab;
mod scenarios;

use crate::capi::{self, Profile};
use crate::run::{Step, cargo, tell_failure};
use crate::setup::Policy;
use crate::test::seconds;
use crate::{gaspi, place};
use anyhow::{Context, Result, bail};
use ggas_table::Column;
use lab::Lab;
use scenarios::{ALL, InC, Scenario};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest that building takes, on a machine that does other things.
const BUILD: Duration = Duration::from_secs(3600);

/// What to run.
#[derive(clap::Args)]
pub struct Select {
    /// These scenarios only
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO")]
    only: Vec<String>,
    /// Those scenarios only that `.ci/run` has time for
    #[arg(long, conflicts_with = "only")]
    short: bool,
    /// List the scenarios
    #[arg(long)]
    list: bool,
}

impl Select {
    /// All scenarios.
    pub fn everything() -> Select {
        Select { only: Vec::new(), short: false, list: false }
    }

    fn chosen(&self) -> impl Iterator<Item = &'static Scenario> {
        let named = |scenario: &Scenario| self.only.iter().any(|name| name == scenario.name);
        ALL.iter().filter(move |scenario| match self.only.is_empty() {
            true => scenario.short || !self.short,
            false => named(scenario),
        })
    }
}

/// Programs that scenarios run.
pub struct Built {
    /// `ggas`, and in `examples/` those of the library.
    target: PathBuf,
    /// C programs for librma2.
    librma2: PathBuf,
    /// What is installed of GASPI, with C programs in `tests`.
    gaspi: PathBuf,
}

impl Built {
    pub fn ggas(&self) -> PathBuf {
        self.target.join("ggas")
    }

    pub fn example(&self, name: &str) -> PathBuf {
        self.target.join("examples").join(name)
    }

    pub fn librma2(&self, name: &str) -> PathBuf {
        self.librma2.join(name)
    }

    pub fn gaspi(&self, name: &str) -> PathBuf {
        self.gaspi.join("tests").join(name)
    }
}

/// Builds the programs and runs the scenarios; all of them, even if one fails.
pub fn hosts(select: &Select, _policy: Policy) -> Result<()> {
    if select.list {
        for Scenario { name, about, hosts, .. } in select.chosen() {
            say!("  {name:<12} {hosts} hosts  {about}");
        }
        return Ok(());
    }
    if let Some(name) = select.only.iter().find(|name| !ALL.iter().any(|s| s.name == **name)) {
        bail!("no scenario is called `{name}`; `cargo xtask hosts --list` lists them");
    }
    if let Some(why) = lab::missing() {
        report!("xtask: SKIPPED hosts: {why}");
        return Ok(());
    }
    let start = Instant::now();
    let chosen: Vec<&Scenario> = select.chosen().collect();
    let built = build(&chosen)?;
    let (mut rows, mut failed) = (vec![row("build", "passed", "", start.elapsed())], 0);
    for scenario in chosen {
        report!("      {} ...", scenario.name);
        let start = Instant::now();
        match Lab::new(scenario.hosts).and_then(|lab| (scenario.run)(&lab, &built)) {
            Ok(notes) => {
                let result = if notes.starts_with("skipped") { "skipped" } else { "passed" };
                rows.push(row(scenario.name, result, &notes, start.elapsed()));
            }
            Err(error) => {
                tell_failure(&format!("hosts: {} FAILED: {error:#}", scenario.name));
                failed += 1;
                rows.push(row(scenario.name, "FAILED", "", start.elapsed()));
            }
        }
    }
    rows.push(row("all of it", "", "", start.elapsed()));
    let [name, result, notes] = ["scenario", "result", "notes"].map(Column::text);
    say!("\n{}", ggas_table::table(&[name, result, notes, Column::number("time")], rows));
    if failed > 0 { bail!("{failed} scenarios failed") } else { Ok(()) }
}

fn row(name: &str, result: &str, notes: &str, time: Duration) -> [String; 4] {
    [name, result, notes, &seconds(time)].map(str::to_owned)
}

/// As the tests build, so that nothing is built twice.
fn build(chosen: &[&Scenario]) -> Result<Built> {
    let needs = |what| chosen.iter().any(|scenario| scenario.in_c == Some(what));
    let examples = ["everyone", "processes", "ring", "service"].map(|name| ["--example", name]);
    let programs = [&["--bin", "ggas"][..], &examples.concat()].concat();
    // Peers are compared with what they build for themselves.
    if chosen.iter().any(|scenario| scenario.in_c != Some(InC::Peers)) {
        let command = cargo(&[&["build", "--workspace"][..], &programs].concat());
        Step { name: "hosts build", command, limit: BUILD }.run()?;
    }
    let prefix = place::build().join("librma2 for hosts");
    let gaspi = place::build().join("gaspi for hosts");
    let built = Built { target: capi::target().join("debug"), librma2: prefix.join("tests"), gaspi };
    if needs(InC::Librma2) {
        capi::build_into(&prefix, Profile::Debug)?;
        compile("tests/librma2/pair.c", &prefix, "lib", "rma2")?;
    }
    if needs(InC::Gaspi) {
        gaspi::build_into(&built.gaspi, Profile::Debug)?;
        for name in ["transfer", "meet", "jacobi"] {
            compile(&format!("tests/gaspi/{name}.c"), &built.gaspi, "lib64", "GPI2")?;
        }
    }
    Ok(built)
}

/// A program into the folder `tests` of what is installed, with this library of it.
fn compile(source: &str, prefix: &Path, lib: &str, library: &str) -> Result<()> {
    let bin = prefix.join("tests");
    std::fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    let (name, lib) = (Path::new(source).file_stem().unwrap_or_default(), prefix.join(lib));
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-pthread", source, "-o"]).arg(bin.join(name));
    command.arg("-I").arg(prefix.join("include")).arg("-L").arg(&lib);
    command.arg(format!("-Wl,-rpath,{}", lib.display())).args([format!("-l{library}"), "-lm".to_owned()]);
    Step { name: "hosts programs in C", command, limit: BUILD }.run().map(|_| ())
}

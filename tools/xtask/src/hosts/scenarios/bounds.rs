//! How soon ends are known, and what is none. `fpga-sim`'s simulation holds hosts to these bounds in virtual time, at the millisecond;
//! here programs run for real, on a machine that does other things, so what fails is only what is out of all proportion.

use super::super::Built;
use super::super::lab::{Lab, Runs};
use super::SOON;
use super::jobs::{self, kill_rank, signal_rank, watching};
use anyhow::{Result, ensure};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A host that is silent for so long is lost, by default.
const SILENCE: Duration = Duration::from_secs(5);
/// What is none: a host that stands still, or a cut, for so long.
const SHORT: Duration = Duration::from_secs(3);

/// Two hosts of two ranks.
pub(super) const FOUR: &str = "h1:2,h2:2";

/// The command that launches them.
type Launch<'a> = &'a dyn Fn() -> Command;

pub fn bounds(lab: &Lab, built: &Built) -> Result<String> {
    bounds_of(lab, &|| jobs::launch(lab, built, FOUR), built)
}

pub(super) fn bounds_of(lab: &Lab, launch: Launch, built: &Built) -> Result<String> {
    let killed = killed(launch, built)?;
    harmless(lab, launch, built)?;
    let cut = cut(lab, launch, built)?;
    let puts = among_puts(launch, built)?;
    Ok(format!(
        "a killed rank known to all after {} ms, a cut host after {:.1} s; {puts}",
        killed.as_millis(),
        cut.as_secs_f64()
    ))
}

/// While all put to all: a rank is killed, of which all others hear, and they go on; then one is stopped for a while, and goes on, too.
fn among_puts(launch: Launch, built: &Built) -> Result<String> {
    let mut running = putting(launch(), built)?;
    let begun = Instant::now();
    kill_rank(built, 3)?;
    running.says("rank 3 is lost", 3)?;
    let took = begun.elapsed();
    let output = running.ends(2 * SOON)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = || format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(said.matches("at last with 2 others").count() == 3, "{}", why());
    ensure!(said.matches("is lost").count() == 3, "somebody is lost who lives:\n{}", why());
    let running = putting(launch(), built)?;
    signal_rank(built, 2, "STOP")?;
    thread::sleep(SHORT);
    signal_rank(built, 2, "CONT")?;
    let said = running.succeeds(2 * SOON)?;
    ensure!(!said.contains("is lost"), "somebody is lost who lives:\n{said}");
    ensure!(said.matches("at last with 3 others").count() == 4, "{said}");
    Ok(format!("one killed among puts after {} ms, one stopped for {SHORT:?} goes on", took.as_millis()))
}

/// Four ranks that put to each other again and again.
fn putting(mut command: Command, built: &Built) -> Result<Runs> {
    command.args(["--keep-going", "--"]).arg(built.example("everyone")).args(["rounds", "60"]);
    let mut running = Runs::start(command, "ranks that put")?;
    running.says("goes on", 4)?;
    Ok(running)
}

/// All others hear of it.
fn killed(launch: Launch, built: &Built) -> Result<Duration> {
    let mut running = watching(launch(), built, 4, 120)?;
    let begun = Instant::now();
    kill_rank(built, 3)?;
    running.says("rank 3 is lost", 3)?;
    Ok(begun.elapsed())
}

/// A host stands still and runs again, then a cut heals: nobody is lost, nor is who leaves afterwards, and all goes well.
fn harmless(lab: &Lab, launch: Launch, built: &Built) -> Result<()> {
    let running = watching(launch(), built, 4, 20)?;
    lab.signal(2, "STOP");
    thread::sleep(SHORT);
    lab.signal(2, "CONT");
    // Both sides have heard of each other again, which they try four times in a second.
    thread::sleep(Duration::from_secs(1));
    lab.cut(2, true)?;
    thread::sleep(SHORT);
    lab.cut(2, false)?;
    let said = running.succeeds(2 * SOON)?;
    ensure!(!said.contains("is lost"), "somebody is lost who lives:\n{said}");
    ensure!(said.matches("watched").count() == 4, "{said}");
    Ok(())
}

/// Both ranks of each side hear of both of the other one.
fn cut(lab: &Lab, launch: Launch, built: &Built) -> Result<Duration> {
    let mut running = watching(launch(), built, 4, 120)?;
    lab.cut(2, true)?;
    let begun = Instant::now();
    known(&mut running, &[2, 3])?;
    let took = begun.elapsed();
    ensure!(took >= SILENCE - SHORT / 2, "a cut that may heal is a loss after {took:?}");
    lab.cut(2, false)?;
    Ok(took)
}

fn known(running: &mut Runs, ranks: &[u32]) -> Result<()> {
    ranks.iter().try_for_each(|rank| running.says(&format!("rank {rank} is lost"), 2))
}

//! What guests run: scripts of `tests/vm`, each with a head that says what it needs.

use super::kernel::Kernel;
use crate::place;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// MiB of memory of a guest, unless its script says otherwise.
const MEMORY: u32 = 512;

/// A script, and what it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub name: String,
    pub script: PathBuf,
    /// Guests that run it at the same time, each a node of one network.
    pub guests: u32,
    /// Cards of each guest, all of one network.
    pub cards: u32,
    /// MiB of a GPU stand-in in each guest; 0: none.
    pub gpu: u32,
    /// The card and the GPU stand-in have no bridge in common.
    pub apart: bool,
    /// MiB of memory of each guest.
    pub memory: u32,
    /// Processors of each guest.
    pub processors: u32,
    /// Guests have an IOMMU, through which their cards reach memory.
    pub iommu: bool,
    /// The processor's clock counts instructions: what the host does meanwhile does not show.
    pub icount: bool,
    /// Cards fail when they are told to.
    pub trouble: bool,
    /// The guest ends its cards' server, by the same means.
    pub orphan: bool,
    /// A guest says that it has ended well, and switches itself off under the others.
    pub leaves: bool,
    /// It leaves its guest in a state that others have no use for.
    pub alone: bool,
    /// The guest sleeps and wakes.
    pub sleeps: bool,
    /// Most of its time is waiting for time limits, so it takes no room from others.
    pub waits: bool,
    /// Cards offer MSI-X besides MSI.
    pub msix: bool,
    /// No page of the cards' registers is mapped: each access is counted.
    pub trap: bool,
    /// Links of the guests' network lose, corrupt, repeat, reorder and delay what they carry.
    pub faults: bool,
    /// Program of this host that is in one network with the guests' cards; empty: they have a network of their own.
    pub host: String,
    /// Modules that it loads, folders of `kmod`.
    pub modules: Vec<String>,
    /// Modules that come with the kernel, which it loads in the order in which the guest has them.
    pub stock: Vec<String>,
    /// Arguments of the program at the other end of the guests' Ethernet devices; `None`: they have no such device.
    pub wire: Option<Vec<String>>,
    /// Large programs that it starts; small ones are always there.
    pub programs: Vec<String>,
    /// Time that all guests may take, on a kernel without checks.
    pub limit: Duration,
    /// Kernels that it runs on; empty: all.
    pub kernels: Vec<String>,
    /// Those of them that it runs on after every change; on the others only where there is time. None: all of them.
    pub daily: Option<Vec<String>>,
    /// On one of those each day, in turn, from this one on. None: on each of them.
    pub turn: Option<u32>,
    /// The kernels that take turns, if not all of those; on the others it runs every day.
    pub turning: Vec<String>,
}

/// What a run is for.
#[derive(Clone, Copy)]
pub enum When {
    /// A change, on this day since 1970.
    Day(u32),
    /// There is time for all.
    Long,
}

impl When {
    /// The debug kernel takes minutes to build, and its guests are slow: it has every second day.
    pub fn has(self, kernel: Kernel) -> bool {
        match self {
            When::Day(day) => kernel != Kernel::Debug || day.is_multiple_of(2),
            When::Long => true,
        }
    }
}

impl Scenario {
    /// All of them, by name.
    pub fn all() -> Result<Vec<Scenario>> {
        let dir = place::root().join("tests/vm");
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&dir).with_context(|| format!("no {}", dir.display()))? {
            let script = entry?.path();
            if script.extension().is_some_and(|extension| extension == "sh") {
                let text = std::fs::read_to_string(&script)?;
                all.push(parse(script.clone(), &text).with_context(|| place::shown(&script))?);
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Whether it runs on a kernel.
    pub fn runs_on(&self, kernel: Kernel, when: When) -> bool {
        let named = |names: &[String], kernel: Kernel| names.iter().any(|name| name == kernel.name());
        let of = |kernel: &Kernel| self.kernels.is_empty() || named(&self.kernels, *kernel);
        let When::Day(day) = when else { return of(&kernel) };
        let daily =
            |kernel: &Kernel| of(kernel) && self.daily.as_ref().is_none_or(|names| named(names, *kernel));
        let daily = |kernel: &Kernel| daily(kernel) && when.has(*kernel);
        let turns = |kernel: &Kernel| self.turning.is_empty() || named(&self.turning, *kernel);
        let Some(turn) = self.turn.filter(|_| turns(&kernel)) else { return daily(&kernel) };
        let all: Vec<Kernel> = Kernel::ALL.into_iter().filter(|one| daily(one) && turns(one)).collect();
        // Of days that have the debug kernel each has the next turn.
        let number = if all.contains(&Kernel::Debug) { day / 2 } else { day };
        !all.is_empty() && all[(number + turn) as usize % all.len()] == kernel
    }

    /// Whether both can have the same guest, one after the other. What one of them has besides is nothing to the other.
    fn shares(&self, other: &Scenario) -> bool {
        let own = |s: &Scenario| {
            let card = (s.cards, s.msix, s.trap, s.apart, s.faults);
            let time = (s.icount, s.sleeps);
            (s.guests, card, s.memory, s.processors, s.iommu, time, s.stock.clone(), s.wire.clone())
        };
        own(self) == own(other)
            && ![self, other].iter().any(|s| s.orphan || s.leaves || s.alone || s.waits || !s.host.is_empty())
    }
}

/// Scenarios that have a guest in common, in the order in which they run, and all that it needs.
pub struct Boot<'a> {
    pub scenarios: Vec<&'a Scenario>,
    pub machine: Scenario,
}

impl<'a> Boot<'a> {
    pub fn of(scenarios: Vec<&'a Scenario>) -> Option<Boot<'a>> {
        let mut machine = Scenario::clone(scenarios.first()?);
        for scenario in &scenarios[1..] {
            machine.name += "-";
            machine.name += &scenario.name;
            machine.gpu = machine.gpu.max(scenario.gpu);
            machine.trouble |= scenario.trouble;
            machine.modules.extend(scenario.modules.clone());
            machine.programs.extend(scenario.programs.clone());
            machine.limit += scenario.limit;
        }
        machine.modules.sort();
        machine.modules.dedup();
        Some(Boot { scenarios, machine })
    }

    /// Starting a guest takes longer than most scenarios: those that can share one do, in as many parts of about the same
    /// time as there is room for their guests.
    pub fn all(scenarios: &[&'a Scenario], room: u32) -> Vec<Boot<'a>> {
        let mut groups: Vec<Vec<&Scenario>> = Vec::new();
        for scenario in scenarios {
            match groups.iter_mut().find(|group| group[0].shares(scenario)) {
                Some(group) => group.push(scenario),
                None => groups.push(vec![scenario]),
            }
        }
        let parts = |group: &[&Scenario]| room / group[0].guests.max(1);
        groups.into_iter().flat_map(|group| split(parts(&group), group)).filter_map(Boot::of).collect()
    }
}

/// The longest first, each to where the least is.
fn split(parts: u32, mut group: Vec<&Scenario>) -> Vec<Vec<&Scenario>> {
    group.sort_by_key(|scenario| std::cmp::Reverse(scenario.limit));
    let mut split = vec![Vec::new(); (parts as usize).clamp(1, group.len())];
    for scenario in group {
        let time = |part: &Vec<&Scenario>| part.iter().map(|s| s.limit).sum::<Duration>();
        if let Some(part) = split.iter_mut().min_by_key(|part| time(part)) {
            part.push(scenario);
        }
    }
    split
}

/// Reads the head: lines `#: key value`.
fn parse(script: PathBuf, text: &str) -> Result<Scenario> {
    let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (guests, cards, gpu, memory, limit) = (1, 1, 0, MEMORY, Duration::from_secs(90));
    let (modules, programs, kernels) = (Vec::new(), Vec::new(), Vec::new());
    let (trouble, orphan, msix, trap, iommu, icount) = (false, false, false, false, false, false);
    let (processors, host) = (1, String::new());
    let (apart, faults, leaves, alone, sleeps, waits) = (false, false, false, false, false, false);
    let mut scenario = Scenario {
        name,
        script,
        guests,
        cards,
        gpu,
        apart,
        memory,
        processors,
        iommu,
        icount,
        trouble,
        orphan,
        leaves,
        alone,
        sleeps,
        waits,
        msix,
        trap,
        faults,
        host,
        modules,
        stock: Vec::new(),
        wire: None,
        programs,
        limit,
        kernels,
        daily: None,
        turn: None,
        turning: Vec::new(),
    };
    for line in text.lines().filter_map(|line| line.strip_prefix("#: ")) {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let words = || value.split_whitespace().map(str::to_owned).collect();
        let number = || value.trim().parse().with_context(|| format!("`{line}`: no number"));
        match key {
            "guests" => scenario.guests = number()?,
            "cards" => scenario.cards = number()?,
            "gpu" => scenario.gpu = number()?,
            "apart" => scenario.apart = number()? != 0,
            "memory" => scenario.memory = number()?,
            "processors" => scenario.processors = number()?,
            "iommu" => scenario.iommu = number()? != 0,
            "icount" => scenario.icount = number()? != 0,
            "orphan" => scenario.orphan = number()? != 0,
            "leaves" => scenario.leaves = number()? != 0,
            "alone" => scenario.alone = number()? != 0,
            "sleeps" => scenario.sleeps = number()? != 0,
            "waits" => scenario.waits = number()? != 0,
            "trouble" => scenario.trouble = number()? != 0,
            "msix" => scenario.msix = number()? != 0,
            "trap" => scenario.trap = number()? != 0,
            "faults" => scenario.faults = number()? != 0,
            "seconds" => scenario.limit = Duration::from_secs(number()?.into()),
            "host" => scenario.host = value.trim().to_owned(),
            "modules" => scenario.modules = words(),
            "stock" => scenario.stock = words(),
            "wire" => scenario.wire = Some(words()),
            "programs" => scenario.programs = words(),
            "kernels" => scenario.kernels = known(line, words())?,
            "daily" => scenario.daily = Some(known(line, words())?),
            "turn" => {
                let (first, names) = value.split_once(' ').unwrap_or((value, ""));
                scenario.turn = Some(first.trim().parse().with_context(|| format!("`{line}`: no number"))?);
                scenario.turning = known(line, names.split_whitespace().map(str::to_owned).collect())?;
            }
            _ => {
                bail!(
                    "`{line}`: there are guests, cards, gpu, apart, memory, processors, iommu, icount, trouble, orphan, \
                     leaves, alone, sleeps, waits, msix, trap, faults, host, seconds, modules, stock, wire, programs, kernels, \
                     daily, turn"
                )
            }
        }
    }
    Ok(scenario)
}

/// Names of kernels: one that no kernel has would keep the scenario from ever being run.
fn known(line: &str, names: Vec<String>) -> Result<Vec<String>> {
    let is = |name: &String| Kernel::ALL.iter().any(|kernel| kernel.name() == name);
    match names.iter().find(|name| !is(name)) {
        Some(name) => bail!("`{line}`: no kernel is called `{name}`"),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_what_a_script_needs() {
        let text = "#!/bin/sh\n#: guests 2\n#: modules extoll gpumap\n#: gpu 16\n#: seconds 20\necho x\n";
        let scenario = parse("a/pair.sh".into(), text).unwrap();
        assert_eq!((scenario.name.as_str(), scenario.guests, scenario.gpu), ("pair", 2, 16));
        assert_eq!((scenario.modules.join(","), scenario.limit.as_secs()), ("extoll,gpumap".into(), 20));
        assert!(parse("x.sh".into(), "#: guest 2").is_err());
        assert!(parse("x.sh".into(), "#: guests two").is_err());
        assert!(parse("x.sh".into(), "#: kernels 6.1 debug").is_ok());
        assert!(parse("x.sh".into(), "#: kernels 6.1, debug").is_err());
        assert!(parse("x.sh".into(), "#: daily 6.2").is_err());
    }

    #[test]
    fn what_tells_nothing_new_runs_where_there_is_time() {
        let on = |head: &str| {
            let scenario = parse("x.sh".into(), head).unwrap();
            [When::Day(6), When::Long].map(|when| {
                Kernel::ALL.iter().map(|kernel| u8::from(scenario.runs_on(*kernel, when))).collect::<Vec<_>>()
            })
        };
        assert_eq!(on(""), [[1, 1, 1, 1], [1, 1, 1, 1]]);
        assert_eq!(on("#: kernels 6.1 debug"), [[1, 0, 0, 1], [1, 0, 0, 1]]);
        assert_eq!(on("#: kernels 6.1 debug\n#: daily debug 6.12"), [[0, 0, 0, 1], [1, 0, 0, 1]]);
        assert_eq!(on("#: daily"), [[0, 0, 0, 0], [1, 1, 1, 1]], "never after every change");
    }

    #[test]
    fn kernels_take_turns_by_the_day() {
        let on = |head: &str| {
            let scenario = parse("x.sh".into(), head).unwrap();
            let of =
                |when| Kernel::ALL.into_iter().filter(|kernel| scenario.runs_on(*kernel, when)).collect();
            [When::Day(6), When::Day(7), When::Day(8), When::Long].map(|when| -> Vec<Kernel> { of(when) })
        };
        let (old, new, debug) = (Kernel::V6_12, Kernel::V7_2, Kernel::Debug);
        let both = vec![old, debug];
        let two = "#: kernels 6.12 debug\n#: turn";
        assert_eq!(on(&format!("{two} 0")), [vec![debug], vec![old], vec![old], both.clone()]);
        assert_eq!(on(&format!("{two} 1")), [vec![old], vec![old], vec![debug], both]);
        let all = vec![old, new, debug];
        let daily = "#: kernels 6.12 7.2 debug\n#: daily 7.2 6.12\n#: turn 0";
        assert_eq!(on(daily), [vec![old], vec![new], vec![old], all.clone()], "none but the daily ones");
        assert_eq!(on("#: kernels 6.12 7.2 debug\n#: daily\n#: turn 0"), [vec![], vec![], vec![], all]);
        assert!(parse("x.sh".into(), "#: turn debug").is_err());
    }

    #[test]
    fn of_some_kernels_one_each_day_and_the_others_every_day() {
        let scenario = parse("x.sh".into(), "#: turn 1 6.1 debug").unwrap();
        let on = |when| Kernel::ALL.map(|kernel| u8::from(scenario.runs_on(kernel, when)));
        let days = [When::Day(6), When::Day(7), When::Day(8), When::Long].map(on);
        assert_eq!(days, [[1, 1, 1, 0], [1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]]);
        assert!(parse("x.sh".into(), "#: turn 1 6.2").is_err());
    }

    #[test]
    fn scenarios_that_need_the_same_machine_share_it() {
        let scenario = |name: &str, head: &str| parse(format!("{name}.sh").into(), head).unwrap();
        let all = [
            scenario("a", "#: seconds 50\n#: modules x"),
            scenario("b", "#: seconds 40\n#: gpu 16\n#: modules x y"),
            scenario("c", "#: seconds 30"),
            scenario("p", "#: guests 2"),
            scenario("q", "#: guests 2"),
            scenario("o", "#: orphan 1"),
            scenario("l", "#: guests 2\n#: leaves 1"),
            scenario("w", "#: waits 1"),
            scenario("x", "#: alone 1"),
            scenario("m", "#: memory 1024"),
            scenario("h", "#: host x"),
        ];
        let all: Vec<&Scenario> = all.iter().collect();
        let names = |parts| {
            let mut names: Vec<_> =
                Boot::all(&all, parts).into_iter().map(|boot| boot.machine.name).collect();
            names.sort();
            names
        };
        assert_eq!(names(1), ["a-b-c", "h", "l", "m", "o", "p-q", "w", "x"]);
        assert_eq!(names(2), ["a", "b-c", "h", "l", "m", "o", "p-q", "w", "x"]);
        assert_eq!(names(9).len(), 11);
        let shared = Boot::of(all[..3].to_vec()).unwrap().machine;
        assert_eq!((shared.gpu, shared.modules.join(","), shared.limit.as_secs()), (16, "x,y".into(), 120));
    }
}

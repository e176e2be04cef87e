//! Who sent how much to whom in a run that Open MPI watched, or this suite.

mod files;
mod run;

use std::path::Path;

use self::files::{Found, file_of, find, read};
use self::run::{Run, choose};
use crate::{MapError, Pattern};

/// How Open MPI is told to watch, `PREFIX` being what [`Pattern::traced`] takes.
const HOW: &str = "mpirun --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename PREFIX";

impl Pattern {
    /// What the ranks of `MPI_COMM_WORLD` sent each other, from the files `PREFIX.0.prof`, `PREFIX.1.prof` and so on that Open MPI's
    /// component `monitoring` writes when the ranks end: their messages, those that collective calls are made of, and what windows
    /// put and get. Processes of a network that this suite traced are ranks in the order of their numbers ([`processes`](Self::processes)).
    /// Of several runs of this suite the last one counts ([`left_out`](Self::left_out)). A prefix may end with `/`.
    ///
    /// # Errors
    /// [`MapError::Pattern`]: there is no such file, which says how to have them written; there are too many; a line names a rank that
    /// has none; a file is not whole, or is missing. [`MapError::File`]: one cannot be read.
    pub fn traced(prefix: &Path) -> Result<Pattern, MapError> {
        let found = find(prefix)?;
        if found.is_empty() {
            return Err(wrong(&file_of(prefix, 0), none_of(prefix)));
        }
        let Run { files, is_network, left_out } = choose(prefix, found)?;
        let numbers: Vec<usize> = files.iter().map(|file| file.number).collect();
        let mut pattern = Pattern::new(numbers.len())?;
        for Found { path, .. } in &files {
            add_file(&mut pattern, &read(path)?, &numbers, is_network)
                .map_err(|message| wrong(path, message))?;
        }
        let pattern = pattern.without(left_out);
        Ok(if is_network { pattern.of_processes(numbers) } else { pattern })
    }
}

fn wrong(path: &Path, message: String) -> MapError {
    MapError::Pattern { origin: path.display().to_string(), message }
}

/// What is said where there are no files.
fn none_of(prefix: &Path) -> String {
    let folder = if prefix.is_dir() {
        let prefix = prefix.display();
        format!(" (`{prefix}` is a folder: what GGAS_TRACE={prefix}/ has written is traced:{prefix}/)")
    } else {
        String::new()
    };
    format!(
        "there is no such file{folder}; Open MPI writes one for each rank: {HOW} ./program; what this suite moves is written with \
         GGAS_TRACE=PREFIX in front of `ggas run`"
    )
}

/// Adds what one process's file says. Lines of collective calls as such (`C`, `A2A`, `O2A`, `A2O`) are left out: their messages are
/// lines of their own.
fn add_file(pattern: &mut Pattern, text: &str, numbers: &[usize], is_network: bool) -> Result<(), String> {
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split('\t');
        let is_got = match words.next() {
            // External and internal messages, and what a window sends.
            Some("E" | "I" | "S") => false,
            Some("R") => true,
            _ => continue,
        };
        let mut word = || words.next().and_then(|word| word.split(' ').next()?.parse::<u64>().ok());
        let (Some(own), Some(other), Some(bytes)) = (word(), word(), word()) else {
            return Err(format!("line {number}: `{line}` has no two ranks and bytes: is it Open MPI's?"));
        };
        let (from, to) = if is_got { (other, own) } else { (own, other) };
        let place = |process: u64| numbers.binary_search(&usize::try_from(process).ok()?).ok();
        let added = place(from).zip(place(to)).is_some_and(|(from, to)| pattern.add(from, to, bytes));
        if !added && is_network {
            return Err(format!(
                "line {number}: processes {from} and {to}, but one of them has no file of this run: start all with GGAS_TRACE=PREFIX, and let \
                 them end by themselves"
            ));
        }
        if !added {
            let ranks = pattern.ranks();
            return Err(format!(
                "line {number}: ranks {from} and {to}, but there are files of {ranks}: keep those of all ranks together"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Who sent how much to whom in a run that Open MPI watched, or this suite.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{MapError, Pattern};

/// How Open MPI is told to watch, `PREFIX` being what [`Pattern::traced`] takes.
const HOW: &str = "mpirun --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename PREFIX";

/// Most bytes of a rank's file: a line of 300 bytes for each of 1,024 ranks, of each of four kinds, and its communicators.
const MOST_BYTES: u64 = 16 << 20;

/// How the first line of a file of a network begins that is no job: its processes may have any numbers.
const NETWORK: &str = "# NETWORK";

impl Pattern {
    /// What the ranks of `MPI_COMM_WORLD` sent each other, from the files `PREFIX.0.prof`, `PREFIX.1.prof` and so on that Open MPI's
    /// component `monitoring` writes when the ranks end: their messages, those that collective calls are made of, and what windows
    /// put and get. Processes of a network that this suite traced are ranks in the order of their numbers ([`processes`](Self::processes)).
    ///
    /// # Errors
    /// [`MapError::Pattern`]: there is no such file, which says how to have them written; there are too many; a line names a rank that
    /// has none. [`MapError::File`]: one cannot be read.
    pub fn traced(prefix: &Path) -> Result<Pattern, MapError> {
        let found = numbers_of(prefix);
        let is_network = match found.first() {
            Some(first) => read(&file_of(prefix, *first))?.starts_with(NETWORK),
            None => false,
        };
        let mut numbers = found;
        if !is_network {
            let without_gap = (0..).zip(&numbers).take_while(|(rank, number)| rank == *number).count();
            numbers.truncate(without_gap);
        }
        if numbers.is_empty() {
            let origin = file_of(prefix, 0).display().to_string();
            let message = format!(
                "there is no such file; Open MPI writes one for each rank: {HOW} ./program; what this suite moves is written with \
                 GGAS_TRACE=PREFIX in front of `ggas run`"
            );
            return Err(MapError::Pattern { origin, message });
        }
        let mut pattern = Pattern::new(numbers.len())?;
        for number in &numbers {
            let path = file_of(prefix, *number);
            add_file(&mut pattern, &read(&path)?, &numbers, is_network)
                .map_err(|message| MapError::Pattern { origin: path.display().to_string(), message })?;
        }
        Ok(if is_network { pattern.of_processes(numbers) } else { pattern })
    }
}

fn file_of(prefix: &Path, rank: usize) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".{rank}.prof"));
    PathBuf::from(name)
}

/// The numbers of the files, ascending.
fn numbers_of(prefix: &Path) -> Vec<usize> {
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Some(name), Ok(entries)) = (prefix.file_name(), fs::read_dir(folder)) else { return Vec::new() };
    let number = |entry: fs::DirEntry| {
        let rest = entry.file_name().as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b".")?.to_vec();
        let digits = String::from_utf8(rest).ok()?.strip_suffix(".prof")?.to_owned();
        let number: usize = digits.parse().ok()?;
        // None that has another name as well.
        (number.to_string() == digits).then_some(number)
    };
    let mut numbers: Vec<usize> = entries.flatten().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn read(path: &Path) -> Result<String, MapError> {
    let read = ggas_files::read_to_string(path, MOST_BYTES);
    read.map_err(|source| MapError::File { path: path.to_owned(), source })
}

/// Fails where a file of a run of `wrote` ranks is among other than so many, or one is missing.
fn must_be_whole(wrote: &str, ranks: usize) -> Result<(), String> {
    match wrote.parse::<usize>() {
        Ok(wrote) if wrote == ranks => Ok(()),
        Ok(wrote) if wrote > ranks => Err(format!(
            "a run of {wrote} ranks wrote it, but rank {ranks} has no file: it was killed, ended by `exit` with windows, groups or queues (drop \
             them before), or its file is elsewhere: keep those of all ranks together"
        )),
        _ => Err(format!(
            "a run of {wrote} ranks wrote it, but there are files of {ranks}: remove those of other runs, and keep those of all ranks together"
        )),
    }
}

/// Adds what one process's file says. Lines of collective calls as such (`C`, `A2A`, `O2A`, `A2O`) are left out: their messages are
/// lines of their own.
fn add_file(pattern: &mut Pattern, text: &str, numbers: &[usize], is_network: bool) -> Result<(), String> {
    if text.starts_with(NETWORK) != is_network {
        return Err("some files are of a network, and others of a job: remove those of other runs".to_owned());
    }
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split('\t');
        let is_got = match words.next() {
            // Of this suite: other runs may have left files of higher ranks.
            Some("# RANKS") => {
                must_be_whole(words.next().unwrap_or_default(), pattern.ranks())?;
                continue;
            }
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
                "line {number}: processes {from} and {to}, but one of them has no file: start all with GGAS_TRACE=PREFIX, and let them end by themselves"
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
mod tests {
    use super::*;

    /// As Open MPI 4.1.4 writes them.
    const ZERO: &str = "# POINT TO POINT\nE\t0\t1\t10000 bytes\t10 msgs sent\t0,0,0,10\nI\t0\t1\t8 bytes\t1 msgs sent\n# OSC\n\
                        S\t0\t2\t100 bytes\t1 msgs sent\nR\t0\t2\t7 bytes\t1 msgs sent\n# COLLECTIVES\nC\t0\t1\t8 bytes\t1 msgs sent\n\
                        D\tMPI_COMM_WORLD\tprocs: 0,1,2\nO2A\t0\t0 bytes\t0 msgs sent\nA2A\t0\t24 bytes\t1 msgs sent\n";

    fn written(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("run.of.mine");
        for (rank, text) in files.iter().enumerate() {
            fs::write(file_of(&prefix, rank), text).expect("written");
        }
        (folder, prefix)
    }

    #[test]
    fn messages_of_all_kinds_count_and_calls_do_not() {
        let (_folder, prefix) = written(&[ZERO, "", "E\t2\t1\t5 bytes\t1 msgs sent\n"]);
        let pattern = Pattern::traced(&prefix).expect("three ranks");
        let sent: Vec<_> = pattern.messages().collect();
        assert_eq!(sent, [(0, 1, 10008), (0, 2, 100), (2, 0, 7), (2, 1, 5)]);
    }

    #[test]
    fn processes_of_a_network_are_ranks_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("run");
        let write = |number: usize, lines: &str| {
            fs::write(file_of(&prefix, number), format!("# NETWORK\n# POINT TO POINT\n{lines}"))
                .expect("written");
        };
        write(12, "E\t12\t3\t5 bytes\t1 msgs sent\n# OSC\nR\t12\t700\t9 bytes\t1 msgs sent\n");
        write(3, "E\t3\t12\t70 bytes\t1 msgs sent\n");
        write(700, "");
        // None of them.
        for name in ["run.012.prof", "run.7.prof.old", "run.x.prof", "ran.8.prof"] {
            fs::write(folder.path().join(name), "E\t0\t1\tmany").expect("written");
        }
        let pattern = Pattern::traced(&prefix).expect("three processes");
        assert_eq!(pattern.messages().collect::<Vec<_>>(), [(0, 1, 70), (1, 0, 5), (2, 1, 9)]);
        assert_eq!(pattern.processes(), Some(&[3, 12, 700][..]));
        fs::remove_file(file_of(&prefix, 700)).expect("gone");
        let said = Pattern::traced(&prefix).expect_err("one is missing").to_string();
        assert!(said.contains("processes 700 and 12") && said.contains("GGAS_TRACE"), "{said}");
        fs::write(file_of(&prefix, 12), "# RANKS\t2\n").expect("written");
        let said = Pattern::traced(&prefix).expect_err("of another run").to_string();
        assert!(said.contains("remove those of other runs"), "{said}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let said = |files: &[&str]| {
            let (_folder, prefix) = written(files);
            Pattern::traced(&prefix).expect_err("wrong").to_string()
        };
        let none = said(&[]);
        assert!(none.contains("of.mine.0.prof") && none.contains("pml_monitoring_filename"), "{none}");
        assert!(said(&[ZERO, ""]).contains("line 5: ranks 0 and 2, but there are files of 2"));
        assert!(said(&["# POINT TO POINT\nE\t0\t1\tmany\n"]).contains("line 2"));
        let of_two = "# RANKS\t2\n# POINT TO POINT\n";
        let stale = said(&[of_two, of_two, "# RANKS\t3\n"]);
        assert!(stale.contains("a run of 2 ranks") && stale.contains("files of 3"), "{stale}");
        let of_three = "# RANKS\t3\n# POINT TO POINT\n";
        let short = said(&[of_three, of_three]);
        assert!(short.contains("a run of 3 ranks") && short.contains("rank 2 has no file"), "{short}");
        let most = vec![""; Pattern::MOST_RANKS + 1];
        assert!(said(&most).contains("use 1 to 1024"));
    }
}

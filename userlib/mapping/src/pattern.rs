//! Who sends how much to whom.

use std::path::{Path, PathBuf};

use crate::error::there_are;
use crate::{MapError, counted};

/// Bytes that each rank of a job sends to each other one. Where the messages are short and the latency counts, it can be a
/// number of messages just as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    ranks: usize,
    bytes: Vec<u64>,
    /// Of a network's processes their numbers.
    processes: Option<Vec<usize>>,
    /// Files of a trace that are not in it.
    left_out: Vec<PathBuf>,
}

impl Pattern {
    /// Most ranks.
    pub const MOST_RANKS: usize = 1024;

    /// Ranks that send nothing yet.
    ///
    /// # Errors
    /// [`MapError::Pattern`] for none, or more than [`MOST_RANKS`](Self::MOST_RANKS).
    pub fn new(ranks: usize) -> Result<Pattern, MapError> {
        if !(1..=Self::MOST_RANKS).contains(&ranks) {
            let message = format!("{ranks} ranks: use 1 to {}", Self::MOST_RANKS);
            return Err(MapError::Pattern { origin: "the pattern".to_owned(), message });
        }
        Ok(Pattern { ranks, bytes: vec![0; ranks * ranks], processes: None, left_out: Vec::new() })
    }

    /// Reads a matrix: a line for each sender, in it a number for each receiver, separated by spaces or commas. Empty lines, and
    /// what follows a `#`, do not count, nor does a byte order mark at the begin.
    ///
    /// # Errors
    /// [`MapError::File`], or [`MapError::Pattern`] as [`parse`](Self::parse).
    pub fn load(path: &Path) -> Result<Pattern, MapError> {
        // 1,024 lines of 1,024 numbers of 20 digits.
        let read = ggas_files::read_to_string(path, 24 << 20);
        let text = read.map_err(|source| MapError::File { path: path.to_owned(), source })?;
        Pattern::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a file. `origin` is its name in errors.
    ///
    /// # Errors
    /// [`MapError::Pattern`]: the line that is shorter or longer than others, or has what is no whole number from 0.
    pub fn parse(text: &str, origin: &str) -> Result<Pattern, MapError> {
        let mut rows: Vec<(usize, Vec<u64>)> = Vec::new();
        // Editors of some systems begin a file with the mark of its encoding.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words = line.split([' ', '\t', ',', ';']).filter(|word| !word.trim().is_empty());
            let row = words.map(|word| volume(word.trim())).collect::<Result<Vec<_>, _>>();
            let row = row.map_err(|message| at(origin, number, message))?;
            if !row.is_empty() {
                rows.push((number, row));
            }
        }
        let ranks = rows.len();
        if ranks == 0 {
            let message = "it has no numbers: write a line for each rank that sends, in it the bytes for each that receives";
            return Err(MapError::Pattern { origin: origin.to_owned(), message: message.to_owned() });
        }
        let mut pattern = Pattern::new(ranks)?;
        for (from, (number, row)) in rows.iter().enumerate() {
            if row.len() != ranks {
                let (has, there) = (counted(row.len(), "number"), there_are(ranks, "line"));
                let message = format!("{has}, but {there}: use as many");
                return Err(at(origin, *number, message));
            }
            pattern.bytes[from * ranks..][..ranks].copy_from_slice(row);
        }
        Ok(pattern)
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Of a traced network that is no job: which numbers the processes have there that are ranks here.
    pub fn processes(&self) -> Option<&[usize]> {
        self.processes.as_deref()
    }

    /// Of a traced run: files of the same prefix that other runs have left, which do not count.
    pub fn left_out(&self) -> &[PathBuf] {
        &self.left_out
    }

    pub(crate) fn without(self, left_out: Vec<PathBuf>) -> Pattern {
        Pattern { left_out, ..self }
    }

    pub(crate) fn of_processes(self, processes: Vec<usize>) -> Pattern {
        Pattern { processes: Some(processes), ..self }
    }

    /// What one rank sends to another.
    ///
    /// # Panics
    /// There is no such rank.
    pub fn bytes(&self, from: usize, to: usize) -> u64 {
        assert!(to < self.ranks, "rank {to} of {}", self.ranks);
        self.bytes[from * self.ranks + to]
    }

    /// What two ranks send each other, in both directions; 0 for a rank and itself.
    pub fn between(&self, one: usize, other: usize) -> f64 {
        if one == other { 0.0 } else { self.bytes(one, other) as f64 + self.bytes(other, one) as f64 }
    }

    /// Counts a message, as a traced run has them. Ranks that do not exist are left out and told: false.
    pub fn add(&mut self, from: usize, to: usize, bytes: u64) -> bool {
        let is_there = from < self.ranks && to < self.ranks;
        if is_there {
            let sum = &mut self.bytes[from * self.ranks + to];
            *sum = sum.saturating_add(bytes);
        }
        is_there
    }

    /// All messages with their bytes: from, to, bytes. None of a rank with itself.
    pub fn messages(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let pairs = (0..self.ranks).flat_map(|from| (0..self.ranks).map(move |to| (from, to)));
        let sent = pairs.filter(|(from, to)| from != to).map(|(from, to)| (from, to, self.bytes(from, to)));
        sent.filter(|(.., bytes)| *bytes > 0)
    }

    /// Of these ranks only, which become 0, 1 and so on.
    pub(crate) fn among(&self, ranks: &[usize]) -> Pattern {
        let bytes = ranks.iter().flat_map(|from| ranks.iter().map(|to| self.bytes(*from, *to))).collect();
        let processes = |all: &Vec<usize>| ranks.iter().map(|rank| all[*rank]).collect();
        let (processes, left_out) = (self.processes.as_ref().map(processes), self.left_out.clone());
        Pattern { ranks: ranks.len(), bytes, processes, left_out }
    }

    /// What both send.
    ///
    /// # Errors
    /// [`MapError::Unlike`]
    pub fn plus(&self, other: &Pattern) -> Result<Pattern, MapError> {
        if self.ranks != other.ranks {
            return Err(MapError::Unlike { one: self.ranks, other: other.ranks });
        }
        let bytes = self.bytes.iter().zip(&other.bytes).map(|(a, b)| a.saturating_add(*b)).collect();
        Ok(Pattern { bytes, ..self.clone() })
    }

    /// The file that [`load`](Self::load) reads.
    pub fn text(&self) -> String {
        let rows = self.bytes.chunks(self.ranks);
        let lines = rows.map(|row| row.iter().map(u64::to_string).collect::<Vec<_>>().join(" ") + "\n");
        lines.collect()
    }
}

fn at(origin: &str, line: usize, message: String) -> MapError {
    MapError::Pattern { origin: format!("{origin}, line {line}"), message }
}

fn volume(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| match word.parse::<f64>() {
        Ok(number) if number < 0.0 => format!("{word} is negative: bytes are 0 or more"),
        _ => format!("`{word}` is no number of bytes: use whole numbers from 0 to 2^64-1"),
    })
}

/// Patterns that the thesis maps (6.4.2, Table 6.1): each message has `bytes`.
impl Pattern {
    /// Neighbours along each dimension of a grid whose last dimension changes first with the rank. `wrap` joins the ends of a
    /// dimension; messages along the first one have `weight` times the bytes.
    ///
    /// # Errors
    /// [`MapError::Pattern`], as [`new`](Self::new).
    pub fn stencil(grid: &[usize], wrap: bool, weight: u64, bytes: u64) -> Result<Pattern, MapError> {
        let mut pattern = Pattern::new(cells(grid))?;
        for rank in 0..pattern.ranks {
            for (dimension, size) in grid.iter().enumerate() {
                let stride = cells(&grid[dimension + 1..]);
                let here = rank / stride % size;
                let volume = if dimension == 0 { bytes.saturating_mul(weight) } else { bytes };
                let first = rank - here * stride;
                for next in [here.checked_sub(1).or(wrap.then(|| size - 1)), after(here, *size, wrap)] {
                    if let Some(next) = next.filter(|next| *next != here) {
                        pattern.add(rank, first + next * stride, volume);
                    }
                }
            }
        }
        Ok(pattern)
    }

    /// All to all among ranks that differ in the first dimension of a grid only.
    ///
    /// # Errors
    /// [`MapError::Pattern`], as [`new`](Self::new).
    pub fn all_to_all(grid: &[usize], bytes: u64) -> Result<Pattern, MapError> {
        let mut pattern = Pattern::new(cells(grid))?;
        let stride = cells(grid.get(1..).unwrap_or_default());
        for from in 0..pattern.ranks {
            for to in (from % stride..pattern.ranks).step_by(stride).filter(|to| *to != from) {
                pattern.add(from, to, bytes);
            }
        }
        Ok(pattern)
    }
}

fn cells(grid: &[usize]) -> usize {
    grid.iter().fold(1, |cells: usize, size| cells.saturating_mul(*size))
}

fn after(here: usize, size: usize, wrap: bool) -> Option<usize> {
    if here + 1 < size { Some(here + 1) } else { wrap.then_some(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_is_written() {
        let pattern = Pattern::parse("# three ranks\n0, 5 7\n\n1;0;2 # b\n3\t4 9\n", "p").expect("a matrix");
        assert_eq!((pattern.ranks(), pattern.bytes(0, 2), pattern.bytes(2, 0)), (3, 7, 3));
        assert_eq!((pattern.between(0, 2), pattern.between(2, 2)), (10.0, 0.0));
        assert_eq!(Pattern::parse(&pattern.text(), "again").expect("the same"), pattern);
        assert_eq!(pattern.messages().count(), 6);
    }

    #[test]
    fn a_byte_order_mark_does_not_count() {
        let marked = Pattern::parse("\u{feff}0 1\n1 0\n", "p").expect("two ranks");
        assert_eq!(marked, Pattern::parse("0 1\n1 0\n", "p").expect("two ranks"));
        assert!(Pattern::parse("0 1\n\u{feff}1 0\n", "p").is_err(), "in its midst it is none");
    }

    #[test]
    fn what_is_no_matrix_names_the_line() {
        let wrong = |text: &str, parts: [&str; 2]| {
            let error = Pattern::parse(text, "p.txt").expect_err(text).to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        wrong("0 1\n# x\n1 0 2\n", ["p.txt, line 3", "3 numbers, but there are 2 lines"]);
        wrong("0 1\n-4 0\n", ["p.txt, line 2", "-4 is negative"]);
        wrong("0 1\n1.5 0\n", ["line 2", "`1.5` is no number of bytes"]);
        wrong("0 x\n1 0\n", ["line 1", "`x` is no number"]);
        wrong("0 99999999999999999999\n1 0\n", ["line 1", "2^64-1"]);
        wrong("# nothing\n", ["p.txt", "no numbers"]);
        wrong(&"0\n".repeat(1025), ["1025 ranks", "1 to 1024"]);
        assert!(
            Pattern::load(Path::new("/dev/zero")).expect_err("no file").to_string().contains("/dev/zero")
        );
    }

    #[test]
    fn stencils_have_the_neighbours_of_the_thesis() {
        let plain = Pattern::stencil(&[4, 4], false, 1, 10).expect("16 ranks");
        assert_eq!(plain.messages().count(), 48);
        assert_eq!(
            (plain.bytes(0, 1), plain.bytes(0, 4), plain.bytes(0, 3), plain.bytes(0, 12)),
            (10, 10, 0, 0)
        );
        let wrapped = Pattern::stencil(&[4, 4], true, 3, 10).expect("16 ranks");
        assert_eq!(
            (wrapped.bytes(0, 1), wrapped.bytes(0, 4), wrapped.bytes(0, 3), wrapped.bytes(0, 12)),
            (10, 30, 10, 30)
        );
        // Both neighbours along a dimension of two are the same rank.
        let cube = Pattern::stencil(&[2, 2, 4], true, 3, 10).expect("16 ranks");
        assert_eq!(
            (cube.bytes(0, 8), cube.bytes(0, 4), cube.bytes(0, 1), cube.bytes(0, 3)),
            (60, 20, 10, 10)
        );
        let groups = Pattern::all_to_all(&[4, 2, 2], 10).expect("16 ranks");
        assert_eq!((groups.messages().count(), groups.bytes(1, 13), groups.bytes(1, 2)), (48, 10, 0));
    }

    #[test]
    fn sums_do_not_wrap_and_ranks_must_agree() {
        let mut most = Pattern::new(2).expect("2");
        assert!(most.add(0, 1, u64::MAX) && most.add(0, 1, 1) && !most.add(2, 0, 1));
        assert_eq!(most.plus(&most).expect("2").bytes(0, 1), u64::MAX);
        let three = Pattern::new(3).expect("3");
        assert!(most.plus(&three).expect_err("unlike").to_string().contains("2 ranks, the other 3"));
    }
}

//! Whether the processes of a host have a core each: how they wait depends on it.

use ggas_clock::Ladder;

/// Cores that a process may run on, a bit each.
pub(crate) type Cores = [u64; 16];

/// A wait of a process whose partner cannot run while it spins: it leaves the core at once.
const CROWDED: Ladder = Ladder { spins: 1, yields: 4096, ..Ladder::SHORT };
/// Looks of a wait that come before anything else is done meanwhile.
const LOOKS: u32 = 64;

/// How this process waits for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub ladder: Ladder,
    /// Looks in a row to begin with.
    pub looks: u32,
    /// They have fewer cores than they are.
    pub is_crowded: bool,
}

/// Those of this process; none where the system does not say.
pub(crate) fn own_cores() -> Cores {
    let mut cores = Cores::default();
    // SAFETY: the call writes at most as many bytes as it is told.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<Cores>(), cores.as_mut_ptr().cast()) };
    if got == 0 { cores } else { Cores::default() }
}

impl Pace {
    /// Of processes of a host with these cores.
    pub(crate) fn of(processes: impl Iterator<Item = Cores>) -> Pace {
        let (mut all, mut count) = (Cores::default(), 0);
        for cores in processes {
            all.iter_mut().zip(cores).for_each(|(all, own)| *all |= own);
            count += 1;
        }
        let cores: u32 = all.iter().map(|word| word.count_ones()).sum();
        let is_crowded = cores > 0 && count > cores;
        if is_crowded {
            Pace { ladder: CROWDED, looks: 1, is_crowded }
        } else {
            Pace { ladder: Ladder::SHORT, looks: LOOKS, is_crowded }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_crowded(words: &[u64]) -> bool {
        let cores = |word| {
            let mut cores = Cores::default();
            cores[1] = word;
            cores
        };
        Pace::of(words.iter().copied().map(cores)).is_crowded
    }

    #[test]
    fn processes_are_crowded_where_all_together_have_fewer_cores() {
        assert!(!is_crowded(&[0b11, 0b11]));
        assert!(is_crowded(&[0b11, 0b11, 0b11]));
        assert!(!is_crowded(&[0b01, 0b10]), "each kept to its own");
        assert!(is_crowded(&[0b01, 0b01]));
        assert!(!is_crowded(&[0, 0, 0]), "nothing is known");
        assert!(own_cores().iter().any(|word| *word > 0));
    }
}

//! Whether the processes of a host have a core each: how they wait depends on it.

/// Cores that a process may run on, a bit each.
pub type Cores = [u64; 16];

/// Those of this process; none where the system does not say.
pub fn own() -> Cores {
    let mut cores = Cores::default();
    // SAFETY: the call writes at most as many bytes as it is told.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<Cores>(), cores.as_mut_ptr().cast()) };
    if got == 0 { cores } else { Cores::default() }
}

/// Whether processes of a host with these cores have fewer of them than they are; not where nothing is known.
pub fn are_crowded(processes: impl Iterator<Item = Cores>) -> bool {
    let (mut all, mut count) = (Cores::default(), 0);
    for cores in processes {
        all.iter_mut().zip(cores).for_each(|(all, own)| *all |= own);
        count += 1;
    }
    let cores: u32 = all.iter().map(|word| word.count_ones()).sum();
    cores > 0 && count > cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_crowded_where_all_together_have_fewer_cores() {
        let are_crowded = |words: &[u64]| {
            are_crowded(words.iter().map(|word| {
                let mut cores = Cores::default();
                cores[1] = *word;
                cores
            }))
        };
        assert!(!are_crowded(&[0b11, 0b11]));
        assert!(are_crowded(&[0b11, 0b11, 0b11]));
        assert!(!are_crowded(&[0b01, 0b10]), "each kept to its own");
        assert!(are_crowded(&[0b01, 0b01]));
        assert!(!are_crowded(&[0, 0, 0]), "nothing is known");
        assert!(own().iter().any(|word| *word > 0));
    }
}

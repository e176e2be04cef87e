//! Vectors of collectives of processes that share a GPU: how long they are, and what a result should be.

use std::ops::Range;

use ggas_shared_gpu::Collective;

/// Vectors of a collective for one size, as one process has them.
///
/// A size is that by which the library chooses: bytes of a vector, and of calls with a part for each process, or of each, of all parts
/// together: those are rounded down to a whole float each, but have one at least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors {
    pub(crate) collective: Collective,
    pub(crate) me: usize,
    pub(crate) ranks: usize,
    /// Floats of a call: of a vector, or of a part.
    pub(crate) count: usize,
}

impl Vectors {
    pub(crate) fn new(collective: Collective, me: usize, ranks: usize, bytes: u64) -> Vectors {
        let floats = bytes as usize / 4;
        let count = if has_parts(collective) { (floats / ranks).max(1) } else { floats };
        Vectors { collective, me, ranks, count }
    }

    /// Floats of the input and of the output.
    pub(crate) fn floats(&self) -> [usize; 2] {
        let Vectors { count, ranks, .. } = *self;
        match self.collective {
            Collective::Allgather => [count, ranks * count],
            Collective::Alltoall => [ranks * count; 2],
            Collective::ReduceScatter => [ranks * count, count],
            _ => [count; 2],
        }
    }

    /// Bytes by which the library chooses.
    pub(crate) fn bytes(&self) -> usize {
        4 * if has_parts(self.collective) { self.ranks * self.count } else { self.count }
    }

    /// Floats of the result that this process is to check: where all have the same, a share.
    pub(crate) fn checked(&self) -> Range<usize> {
        let [_, output] = self.floats();
        match self.collective {
            Collective::Reduce if self.me > 0 => 0..0,
            Collective::Allreduce | Collective::Broadcast | Collective::Allgather => {
                self.me * output / self.ranks..(self.me + 1) * output / self.ranks
            }
            _ => 0..output,
        }
    }

    /// Processes, from the first on, that have the same result.
    pub(crate) fn alike(&self) -> usize {
        match self.collective {
            Collective::Reduce | Collective::Alltoall | Collective::ReduceScatter => 1,
            _ => self.ranks,
        }
    }

    /// The process and the float of its input that one of the result is; `None` where it is the sum of all processes' floats there.
    pub(crate) fn source(&self, at: usize) -> (Option<usize>, usize) {
        let Vectors { me, count, .. } = *self;
        match self.collective {
            Collective::Broadcast => (Some(0), at),
            Collective::Allgather => (Some(at / count), at % count),
            Collective::Alltoall => (Some(at / count), me * count + at % count),
            Collective::ReduceScatter => (None, me * count + at),
            _ => (None, at),
        }
    }
}

fn has_parts(collective: Collective) -> bool {
    matches!(collective, Collective::Allgather | Collective::Alltoall | Collective::ReduceScatter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(collective: Collective, me: usize, bytes: u64) -> Vectors {
        Vectors::new(collective, me, 3, bytes)
    }

    #[test]
    fn parts_are_whole_floats_of_what_a_size_has() {
        for collective in [Collective::Allgather, Collective::Alltoall, Collective::ReduceScatter] {
            assert_eq!((of(collective, 0, 4).count, of(collective, 0, 4).bytes()), (1, 12), "one at least");
            assert_eq!((of(collective, 0, 64).count, of(collective, 0, 64).bytes()), (5, 60));
        }
        assert_eq!(of(Collective::Allreduce, 0, 64).bytes(), 64);
        assert_eq!(of(Collective::Allgather, 0, 64).floats(), [5, 15]);
        assert_eq!(of(Collective::Alltoall, 0, 64).floats(), [15, 15]);
        assert_eq!(of(Collective::ReduceScatter, 0, 64).floats(), [15, 5]);
    }

    #[test]
    fn each_float_of_a_result_has_its_source() {
        let found = |collective| [0, 4, 5].map(|at| of(collective, 1, 64).source(at));
        assert_eq!(found(Collective::Allgather), [(Some(0), 0), (Some(0), 4), (Some(1), 0)]);
        assert_eq!(found(Collective::Alltoall), [(Some(0), 5), (Some(0), 9), (Some(1), 5)]);
        assert_eq!(found(Collective::ReduceScatter)[..2], [(None, 5), (None, 9)]);
        assert_eq!(found(Collective::Allreduce)[1], (None, 4));
        assert_eq!(found(Collective::Broadcast)[1], (Some(0), 4));
    }

    #[test]
    fn all_of_a_result_is_checked_by_somebody() {
        for collective in Collective::TUNED {
            let each: Vec<usize> = (0..3).map(|me| of(collective, me, 64).checked().len()).collect();
            let [_, output] = of(collective, 0, 64).floats();
            let wanted = match of(collective, 0, 64).alike() {
                1 if collective != Collective::Reduce => 3 * output,
                _ => output,
            };
            assert_eq!(each.iter().sum::<usize>(), wanted, "{collective}");
        }
    }
}

//! How ranks on several GPUs of a host make a call: GPU by GPU (chapter 4), or all beside each other.

use crate::rules::{self, Sharing};
use crate::{Algorithm, Choices, Collective};

/// How ranks on several GPUs of a host make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Levels {
    /// All beside each other, as if they shared the first one's GPU: one step. Not in the text. `None`: by an algorithm that suits the size.
    Flat(Option<Algorithm>),
    /// Inside each GPU, between their leaders, and inside each again (4.2.1); `None`: by an algorithm that suits the level and the size.
    Steps {
        /// Of the ranks on one GPU.
        inside: Option<Algorithm>,
        /// Of their leaders.
        between: Option<Algorithm>,
    },
}

/// What calls of a host's ranks have to choose from; alike on all of them.
#[derive(Debug)]
pub(crate) struct Choosing {
    /// Forced of all ranks beside each other.
    pub(crate) flat: Option<Algorithm>,
    /// Forced inside GPUs and between them.
    pub(crate) steps: [Option<Algorithm>; 2],
    /// Some rank forces that.
    pub(crate) has_steps: bool,
    /// Of the table, those for ranks like these.
    pub(crate) measured: Vec<Choices>,
    /// `None`: nothing goes through host memory.
    pub(crate) sharing: Option<Sharing>,
    /// Ranks, and GPUs.
    pub(crate) ranks: usize,
    pub(crate) gpus: usize,
}

impl Choosing {
    pub(crate) fn levels(&self, collective: Collective, bytes: usize) -> Levels {
        let measured = || {
            let of_this = self.measured.iter().find(|choices| choices.collective == collective)?;
            of_this.choice(bytes)
        };
        if self.gpus == 1 || self.flat.is_some() {
            return Levels::Flat(self.flat);
        }
        if !collective.has_steps() {
            return Levels::Flat(measured().map(|choice| choice.algorithm));
        }
        let [inside, between] = self.steps;
        if self.has_steps {
            return Levels::Steps { inside, between };
        }
        if let Some(choice) = measured() {
            let inside = Some(choice.algorithm);
            return match choice.between {
                between @ Some(_) => Levels::Steps { inside, between },
                None => Levels::Flat(inside),
            };
        }
        // Of a rank on each GPU there is one step only.
        let sharing = self.sharing.filter(|_| self.ranks > self.gpus);
        let flat =
            sharing.and_then(|sharing| rules::flat(sharing, collective, (self.ranks, self.gpus), bytes));
        match flat {
            Some(algorithm) => Levels::Flat(Some(algorithm)),
            None => Levels::Steps { inside, between },
        }
    }
}

#[cfg(test)]
mod tests {
    use Algorithm::{Btb, Gsb, Host};

    use super::*;
    use crate::Choice;

    fn choosing() -> Choosing {
        Choosing {
            flat: None,
            steps: [None; 2],
            has_steps: false,
            measured: Vec::new(),
            sharing: Some(Sharing::AtOnce),
            ranks: 8,
            gpus: 2,
        }
    }

    const BUILT_IN: Levels = Levels::Steps { inside: None, between: None };

    fn table() -> Vec<Choices> {
        let of = |collective, by_size: &[(usize, Algorithm, Option<Algorithm>)]| {
            let choice = |&(from_bytes, algorithm, between)| Choice { from_bytes, algorithm, between };
            let by_size = by_size.iter().map(choice).collect();
            let (device, measured_by) = ("a GPU".to_owned(), String::new());
            Choices { device, collective, ranks: 8, gpus: vec![4, 4], mps: true, by_size, measured_by }
        };
        vec![
            of(Collective::Allreduce, &[(0, Host, None), (1000, Gsb, Some(Btb))]),
            of(Collective::Allgather, &[(0, Gsb, None)]),
            of(Collective::Broadcast, &[(0, Host, None), (1 << 20, Gsb, None)]),
        ]
    }

    #[test]
    fn short_calls_go_through_host_memory_then_gsb_and_long_ones_gpu_by_gpu() {
        let of = |sharing, ranks, bytes| {
            let sharing = Some(sharing);
            Choosing { sharing, ranks, ..choosing() }.levels(Collective::Allreduce, bytes)
        };
        let flat = Levels::Flat(Some(Host));
        assert_eq!([8, 64 << 10].map(|bytes| of(Sharing::AtOnce, 8, bytes)), [flat; 2]);
        let gsb = Levels::Flat(Some(Gsb));
        assert_eq!(
            [65 << 10, 2 << 20, 3 << 20].map(|bytes| of(Sharing::AtOnce, 8, bytes)),
            [gsb, gsb, BUILT_IN]
        );
        let more = |gpus, collective| Choosing { gpus, ..choosing() }.levels(collective, 256 << 10);
        assert_eq!(more(4, Collective::Allreduce), BUILT_IN, "not measured");
        assert_eq!(more(2, Collective::Broadcast), BUILT_IN, "not measured");
        assert_eq!([16 << 10, 64 << 10].map(|bytes| of(Sharing::AtOnce, 24, bytes)), [flat, BUILT_IN]);
        assert_eq!([128 << 10, 256 << 10].map(|bytes| of(Sharing::Turns, 8, bytes)), [flat, BUILT_IN]);
        assert_eq!(of(Sharing::AtOnce, 2, 8), BUILT_IN, "a rank on each");
        let on_gpu = Choosing { sharing: None, ..choosing() };
        assert_eq!(on_gpu.levels(Collective::Allreduce, 8), BUILT_IN, "no words in host memory");
        assert_eq!(choosing().levels(Collective::Alltoall, 1 << 20), Levels::Flat(None), "it has parts");
    }

    #[test]
    fn a_table_counts_but_for_what_is_forced() {
        let tuned = || Choosing { measured: table(), ..choosing() };
        let of = |choosing: &Choosing, bytes| choosing.levels(Collective::Allreduce, bytes);
        assert_eq!(of(&tuned(), 999), Levels::Flat(Some(Host)));
        assert_eq!(of(&tuned(), 1000), Levels::Steps { inside: Some(Gsb), between: Some(Btb) });
        assert_eq!(tuned().levels(Collective::Allgather, 8), Levels::Flat(Some(Gsb)));
        let broadcast = [8, 1 << 20].map(|bytes| tuned().levels(Collective::Broadcast, bytes));
        assert_eq!(
            broadcast,
            [Levels::Flat(Some(Host)), Levels::Flat(Some(Gsb))],
            "all beside each other at any size"
        );
        assert_eq!(tuned().levels(Collective::Reduce, 1 << 20), BUILT_IN, "not in the table");
        let forced = Choosing { steps: [Some(Btb), None], has_steps: true, ..tuned() };
        assert_eq!(of(&forced, 8), Levels::Steps { inside: Some(Btb), between: None });
        // By another rank: the two are to meet in the same steps all the same.
        assert_eq!(of(&Choosing { has_steps: true, ..tuned() }, 8), BUILT_IN);
        assert_eq!(of(&Choosing { flat: Some(Btb), ..tuned() }, 1 << 30), Levels::Flat(Some(Btb)));
        assert_eq!(of(&Choosing { gpus: 1, ..tuned() }, 8), Levels::Flat(None));
    }
}

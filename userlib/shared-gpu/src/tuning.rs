//! The algorithm for each collective, size, number of ranks and state of MPS, as it was measured (5.3.1); of ranks on several GPUs of a
//! host, those inside GPUs and between them.

use serde::{Deserialize, Serialize};

use crate::{Algorithm, Collective};

/// An algorithm for vectors from a size on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Bytes of the shortest vector.
    pub from_bytes: usize,
    /// That of vectors from this size up to that of the next choice.
    pub algorithm: Algorithm,
    /// Of ranks on several GPUs: that between GPUs, where `algorithm` is that inside each; `None`: `algorithm` is that of all ranks, beside
    /// each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Algorithm>,
}

/// Choices for a collective of one number of ranks on one kind of GPU, or on several GPUs of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// `cpu`, or the name of the GPU.
    pub device: String,
    /// Which.
    pub collective: Collective,
    /// Processes that share the GPU, or the GPUs.
    pub ranks: usize,
    /// Where they are on several GPUs: how many on each, in the order of their first ranks. Empty: on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<usize>,
    /// Whether MPS was on.
    pub mps: bool,
    /// The first from 0 bytes on, then ever longer ones.
    pub by_size: Vec<Choice>,
    /// Versions of what measured it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub measured_by: String,
}

impl Choices {
    /// That of vectors of so many bytes.
    pub fn algorithm(&self, bytes: usize) -> Option<Algorithm> {
        self.choice(bytes).map(|choice| choice.algorithm)
    }

    pub(crate) fn choice(&self, bytes: usize) -> Option<Choice> {
        self.by_size.iter().rev().find(|choice| choice.from_bytes <= bytes).copied()
    }

    fn check(&self) -> Result<(), String> {
        let Choices { device, collective, ranks, gpus, by_size, .. } = self;
        let wrong = |what: String| Err(format!("{collective} of {ranks} ranks that share {device}: {what}"));
        if by_size.first().is_none_or(|first| first.from_bytes != 0) {
            return wrong("the first choice is for vectors from_bytes 0 on".to_owned());
        }
        if !by_size.is_sorted_by(|a, b| a.from_bytes < b.from_bytes) {
            return wrong("choices are in the order of from_bytes".to_owned());
        }
        let is_one = gpus.is_empty();
        if !is_one && (gpus.len() < 2 || gpus.contains(&0) || gpus.iter().sum::<usize>() != *ranks) {
            return wrong(format!("{gpus:?} on each GPU are not as many, on two GPUs or more"));
        }
        // What parts are for ranks has no levels.
        let may_have_steps = !is_one && collective.has_steps();
        if !may_have_steps && by_size.iter().any(|choice| choice.between.is_some()) {
            return wrong("it has no algorithm between GPUs".to_owned());
        }
        let all = by_size.iter().flat_map(|choice| [Some(choice.algorithm), choice.between]).flatten();
        if !is_one && let Some(other) = all.into_iter().find(|one| !one.is_of_levels()) {
            return wrong(format!(
                "{other:?} is none of host, gsb and btb, which ranks on several GPUs have"
            ));
        }
        let most = ranks.saturating_sub(1);
        let too_many = |choice: &Choice| match choice.algorithm {
            Algorithm::Static { staged, .. } if staged > most => Some(staged),
            _ => None,
        };
        match by_size.iter().find_map(too_many) {
            Some(staged) => wrong(format!("{staged} staged copies; there are {most}")),
            None => Ok(()),
        }
    }

    fn is_for(&self, other: &Choices) -> bool {
        let key = |one: &Choices| (one.collective, one.ranks, one.mps);
        self.device == other.device && self.gpus == other.gpus && key(self) == key(other)
    }
}

/// Choices of a host, as `ggas tune --shared-gpu` measures them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table(Vec<Choices>);

impl Table {
    /// Inserts choices. They replace those for the same device, collective, ranks and state of MPS.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn insert(&mut self, choices: Choices) -> Result<(), String> {
        choices.check()?;
        self.0.retain(|old| !old.is_for(&choices));
        self.0.push(choices);
        Ok(())
    }

    /// Those for a device, a number of ranks that share it, and a state of MPS.
    pub fn find<'a>(
        &'a self,
        device: &'a str,
        ranks: usize,
        mps: bool,
    ) -> impl Iterator<Item = &'a Choices> + 'a {
        self.find_on(device, &[], mps).filter(move |one| one.ranks == ranks)
    }

    /// Those for several devices of a kind, a number of ranks on each, and a state of MPS.
    pub fn find_on<'a>(
        &'a self,
        device: &'a str,
        gpus: &'a [usize],
        mps: bool,
    ) -> impl Iterator<Item = &'a Choices> + 'a {
        self.0.iter().filter(move |one| one.device == device && one.gpus == gpus && one.mps == mps)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks what was read.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.0.iter().try_for_each(Choices::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Copier;

    fn choices(ranks: usize, by_size: &[(usize, Algorithm)]) -> Choices {
        let choice = |&(from_bytes, algorithm)| Choice { from_bytes, algorithm, between: None };
        Choices {
            device: "a GPU".to_owned(),
            collective: Collective::Allreduce,
            ranks,
            mps: true,
            gpus: Vec::new(),
            by_size: by_size.iter().map(choice).collect(),
            measured_by: String::new(),
        }
    }

    /// Of as many ranks on each of two GPUs.
    fn on_two(collective: Collective, algorithm: Algorithm, between: Option<Algorithm>) -> Choices {
        let by_size = vec![Choice { from_bytes: 0, algorithm, between }];
        Choices { collective, gpus: vec![2, 2], by_size, ..choices(4, &[]) }
    }

    #[test]
    fn ranks_on_several_gpus_have_choices_of_their_own() {
        let mut table = Table::default();
        table.insert(choices(4, &[(0, Algorithm::Host)])).expect("good");
        table.insert(on_two(Collective::Allreduce, Algorithm::Gsb, Some(Algorithm::Btb))).expect("good");
        table.insert(on_two(Collective::Allgather, Algorithm::Host, None)).expect("good");
        assert_eq!(table.find("a GPU", 4, true).count(), 1, "on one");
        assert_eq!(table.find_on("a GPU", &[2, 2], true).count(), 2);
        assert_eq!(table.find_on("a GPU", &[3, 1], true).count(), 0, "another shape");
        let text = serde_json::to_string(&table).expect("JSON");
        assert_eq!(serde_json::from_str::<Table>(&text).expect("a table"), table);
        let refused = |choices: Choices| choices.check().expect_err("wrong");
        let parts = on_two(Collective::Allgather, Algorithm::Gsb, Some(Algorithm::Gsb));
        assert!(refused(parts).contains("no algorithm between GPUs"));
        let other = on_two(Collective::Reduce, Algorithm::Gsb, Some(Algorithm::Dynamic));
        assert!(refused(other).contains("Dynamic is none of"));
        let five = Choices { ranks: 5, ..on_two(Collective::Reduce, Algorithm::Gsb, None) };
        assert!(refused(five).contains("[2, 2] on each GPU are not as many"));
        let mut one = choices(4, &[(0, Algorithm::Gsb)]);
        one.by_size[0].between = Some(Algorithm::Gsb);
        assert!(refused(one).contains("no algorithm between GPUs"));
    }

    #[test]
    fn the_longest_choice_below_a_size_counts_and_new_ones_replace_old_ones() {
        let mut table = Table::default();
        table.insert(choices(4, &[(0, Algorithm::Gsb)])).expect("good");
        table.insert(choices(8, &[(0, Algorithm::Btb)])).expect("good");
        let new =
            choices(4, &[(0, Algorithm::Host), (1000, Algorithm::Static { staged: 3, by: Copier::Stores })]);
        table.insert(new).expect("good");
        let of = |ranks, mps| table.find("a GPU", ranks, mps).collect::<Vec<_>>();
        assert_eq!((of(4, true).len(), of(8, true).len()), (1, 1));
        assert!(of(4, false).is_empty() && of(5, true).is_empty(), "nothing is known");
        let found = [0, 999, 1000, 1 << 40].map(|bytes| of(4, true)[0].algorithm(bytes));
        let (host, four) = (Some(Algorithm::Host), Some(Algorithm::Static { staged: 3, by: Copier::Stores }));
        assert_eq!(found, [host, host, four, four]);
    }

    #[test]
    fn choices_that_cannot_be_are_refused_with_the_reason() {
        let refused = |by_size: &[_]| choices(4, by_size).check().expect_err("wrong");
        assert!(refused(&[]).contains("from_bytes 0"));
        assert!(refused(&[(1, Algorithm::Gsb)]).contains("from_bytes 0"));
        assert!(refused(&[(0, Algorithm::Gsb), (0, Algorithm::Btb)]).contains("order"));
        let refused = refused(&[(0, Algorithm::Static { staged: 4, by: Copier::Engine })]);
        assert_eq!(refused, "allreduce of 4 ranks that share a GPU: 4 staged copies; there are 3");
    }

    #[test]
    fn tables_of_static_ones_without_a_copier_have_the_engine() {
        let read = |text: &str| serde_json::from_str::<Algorithm>(text).expect("an algorithm");
        let of = |staged, by| Algorithm::Static { staged, by };
        assert_eq!(read(r#"{"static": {"staged": 3}}"#), of(3, Copier::Engine));
        assert_eq!(read(r#"{"static": {"staged": 0, "by": "bulk"}}"#), of(0, Copier::Bulk));
        let text = serde_json::to_string(&of(1, Copier::Stores)).expect("it can be written");
        assert_eq!(read(&text), of(1, Copier::Stores));
        assert!(
            serde_json::from_str::<Algorithm>(r#"{"static": {"staged": 3, "by": "multicast"}}"#).is_err()
        );
    }
}

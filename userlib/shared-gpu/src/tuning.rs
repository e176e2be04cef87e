//! The algorithm for each collective, size, number of ranks and state of MPS, as it was measured (5.3.1).

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
}

/// Choices for a collective of one number of ranks on one kind of GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// `cpu`, or the name of the GPU.
    pub device: String,
    /// Which.
    pub collective: Collective,
    /// Processes that share the GPU.
    pub ranks: usize,
    /// Whether MPS was on.
    pub mps: bool,
    /// The first from 0 bytes on, then ever longer ones.
    pub by_size: Vec<Choice>,
}

impl Choices {
    /// That of vectors of so many bytes.
    pub fn algorithm(&self, bytes: usize) -> Option<Algorithm> {
        self.by_size.iter().rev().find(|choice| choice.from_bytes <= bytes).map(|choice| choice.algorithm)
    }

    fn check(&self) -> Result<(), String> {
        let Choices { device, collective, ranks, by_size, .. } = self;
        let wrong = |what: String| Err(format!("{collective} of {ranks} ranks that share {device}: {what}"));
        if by_size.first().is_none_or(|first| first.from_bytes != 0) {
            return wrong("the first choice is for vectors from_bytes 0 on".to_owned());
        }
        if !by_size.is_sorted_by(|a, b| a.from_bytes < b.from_bytes) {
            return wrong("choices are in the order of from_bytes".to_owned());
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
        self.device == other.device && key(self) == key(other)
    }
}

/// Choices of a host, as `ggas tune --shared-gpu` measures them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table(Vec<Choices>);

impl Table {
    /// Inserts choices. They replace those for the same device, collective, number of ranks and state of MPS.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn insert(&mut self, choices: Choices) -> Result<(), String> {
        choices.check()?;
        self.0.retain(|old| !old.is_for(&choices));
        self.0.push(choices);
        Ok(())
    }

    /// Those for a device, a number of ranks and a state of MPS.
    pub fn find<'a>(
        &'a self,
        device: &'a str,
        ranks: usize,
        mps: bool,
    ) -> impl Iterator<Item = &'a Choices> + 'a {
        self.0.iter().filter(move |one| one.device == device && one.ranks == ranks && one.mps == mps)
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
        let choice = |&(from_bytes, algorithm)| Choice { from_bytes, algorithm };
        Choices {
            device: "a GPU".to_owned(),
            collective: Collective::Allreduce,
            ranks,
            mps: true,
            by_size: by_size.iter().map(choice).collect(),
        }
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

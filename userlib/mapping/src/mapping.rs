//! Places of ranks, and how they are found.

use crate::problem::Problem;
use crate::{MapError, Metric, Pattern, Topology, exact, heuristic};

/// The place of each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping(Vec<usize>);

/// How the places are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Topologies of at most so many places are searched for the best mapping there is; at most 12.
    pub exact_up_to: usize,
    /// Of the choices at random.
    pub seed: u64,
    /// Beginnings of the heuristic, beside two that are not at random.
    pub tries: usize,
}

impl Default for Search {
    /// The best mapping up to 8 places, as the thesis suggests (6.4.2).
    fn default() -> Search {
        Search { exact_up_to: 8, seed: 1, tries: 100 }
    }
}

impl Mapping {
    #[cfg(test)]
    pub(crate) fn of(places: Vec<usize>) -> Mapping {
        Mapping(places)
    }

    /// Rank i at place i, as without a mapping.
    ///
    /// # Errors
    /// [`MapError::Crowded`]
    pub fn default_of(topology: &Topology, pattern: &Pattern) -> Result<Mapping, MapError> {
        must_fit(topology, pattern)?;
        Ok(Mapping((0..pattern.ranks()).collect()))
    }

    /// Places at random, for comparison.
    ///
    /// # Errors
    /// [`MapError::Crowded`]
    pub fn random(topology: &Topology, pattern: &Pattern, seed: u64) -> Result<Mapping, MapError> {
        must_fit(topology, pattern)?;
        let mut places: Vec<usize> = (0..topology.places()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut places);
        places.truncate(pattern.ranks());
        Ok(Mapping(places))
    }

    /// So many of them, which follow from one seed: neighbouring seeds share none.
    ///
    /// # Errors
    /// [`MapError::Crowded`]
    pub fn randoms(
        topology: &Topology,
        pattern: &Pattern,
        seed: u64,
        count: usize,
    ) -> Result<Vec<Mapping>, MapError> {
        let mut seeds = fastrand::Rng::with_seed(seed);
        (0..count).map(|_| Mapping::random(topology, pattern, seeds.u64(..))).collect()
    }

    /// The place of a rank.
    ///
    /// # Panics
    /// There is no such rank.
    pub fn place(&self, rank: usize) -> usize {
        self.0[rank]
    }

    /// The places of rank 0, 1 and so on.
    pub fn places(&self) -> &[usize] {
        &self.0
    }

    pub(crate) fn must_be_of(&self, pattern: &Pattern) -> Result<(), MapError> {
        match self.0.len() == pattern.ranks() {
            true => Ok(()),
            false => Err(MapError::Unlike { one: self.0.len(), other: pattern.ranks() }),
        }
    }
}

fn must_fit(topology: &Topology, pattern: &Pattern) -> Result<(), MapError> {
    let (ranks, places) = (pattern.ranks(), topology.places());
    match ranks <= places {
        true => Ok(()),
        false => Err(MapError::Crowded { ranks, places, topology: topology.name().to_owned() }),
    }
}

/// Gives each rank a place, so that [`Metric::cost`] is low: the lowest there is where the topology is small enough
/// ([`Search::exact_up_to`]), else at most that of the default mapping. If none is better than the default, it is that one.
///
/// # Errors
/// [`MapError::Crowded`], [`MapError::Unmeasured`]; [`MapError::TooLarge`] if an exact search among more than 12 places is asked
/// for.
pub fn map(
    topology: &Topology,
    pattern: &Pattern,
    metric: Metric,
    search: Search,
) -> Result<Mapping, MapError> {
    solve(&Problem::new(topology, pattern, metric)?, pattern.ranks(), search)
}

pub(crate) fn solve(problem: &Problem, ranks: usize, search: Search) -> Result<Mapping, MapError> {
    let is_exact = problem.size <= search.exact_up_to;
    if is_exact && problem.size > exact::MOST {
        return Err(MapError::TooLarge { places: problem.size, most: exact::MOST });
    }
    // A few tries are enough to begin an exact search with.
    let tries = if is_exact { 4 } else { search.tries };
    let mut places = heuristic::search(problem, search.seed, tries);
    if is_exact {
        places = exact::search(problem, places);
    }
    let default: Vec<usize> = (0..problem.size).collect();
    if problem.total(&places) >= problem.total(&default) * (1.0 - 1e-12) {
        places = default;
    }
    places.truncate(ranks);
    Ok(Mapping(places))
}

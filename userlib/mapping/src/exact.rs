//! The best mapping there is: all of them are tried, but for those that cannot be better than one that is known.

use crate::problem::Problem;

/// Most places: time grows with the factorial.
pub(crate) const MOST: usize = 12;

/// For each rank in the order and each place, what the rank would cost there with the ranks that are placed.
type Costs = [[f64; MOST]; MOST];

/// Beginning with a mapping that is known, the best.
pub(crate) fn search(problem: &Problem, known: Vec<usize>) -> Vec<usize> {
    debug_assert!(problem.size <= MOST);
    let order = order(problem);
    let mut search = Tree {
        rest: rests(problem, &order),
        among: vec![f64::NAN; 1 << problem.size],
        twins: twins(problem),
        costs: sorted_costs(problem),
        levels: vec![[[0.0; MOST]; MOST]; order.len() + 1],
        placed: Vec::with_capacity(order.len()),
        best_cost: problem.total(&known),
        best: known,
        problem,
        order,
    };
    search.descend(0, 0.0);
    search.best
}

struct Tree<'p> {
    problem: &'p Problem,
    /// Ranks that send anything, in the order in which they are placed.
    order: Vec<usize>,
    /// At each depth, the volumes between ranks that are not placed, the highest first.
    rest: Vec<Vec<f64>>,
    /// For each set of places that are used, a bound of what the ranks that are left cost among themselves; NaN: not known yet.
    among: Vec<f64>,
    /// For each place, those before it that all others reach alike.
    twins: Vec<u32>,
    /// Pairs of places with their cost, the cheapest first.
    costs: Vec<(f64, u32)>,
    /// At each depth.
    levels: Vec<Costs>,
    /// Places of the first ranks of `order`.
    placed: Vec<usize>,
    best: Vec<usize>,
    best_cost: f64,
}

impl Tree<'_> {
    fn descend(&mut self, used: u32, cost: f64) {
        let (size, depth) = (self.problem.size, self.placed.len());
        if depth == self.order.len() {
            if cost < self.best_cost {
                self.keep(used);
                self.best_cost = cost;
            }
            return;
        }
        let least = cost + self.least(used);
        if !self.may_be_better(least) {
            return;
        }
        for place in (0..size).filter(|place| used >> place & 1 == 0) {
            // Of twins that are free only the first: the others give the same.
            if self.twins[place] & !used != 0 {
                continue;
            }
            let here = self.levels[depth][depth][place];
            if !self.may_be_better(cost + here) {
                continue;
            }
            let (volumes, costs) = (self.problem.volume_of(self.order[depth]), self.problem.cost_of(place));
            let (above, below) = self.levels.split_at_mut(depth + 1);
            for (at, later) in self.order.iter().enumerate().skip(depth + 1) {
                let volume = volumes[*later];
                for ((sum, before), cost) in below[0][at].iter_mut().zip(&above[depth][at]).zip(costs) {
                    *sum = before + volume * cost;
                }
            }
            self.placed.push(place);
            self.descend(used | 1 << place, cost + here);
            self.placed.pop();
        }
    }

    fn may_be_better(&self, least: f64) -> bool {
        // Sums in another order differ in the last digits.
        least < self.best_cost * (1.0 - 1e-12)
    }

    /// No mapping of the ranks that are left costs less: each alone where it is best with those that are placed, and what they
    /// cost among themselves.
    fn least(&mut self, used: u32) -> f64 {
        let (size, depth) = (self.problem.size, self.placed.len());
        let mut sum = self.among(used);
        for costs in &self.levels[depth][depth..self.order.len()] {
            let free = (0..size).filter(|place| used >> place & 1 == 0);
            sum += free.map(|place| costs[place]).fold(f64::INFINITY, f64::min);
        }
        sum
    }

    /// The highest volumes over the cheapest channels between free places.
    fn among(&mut self, used: u32) -> f64 {
        let known = self.among[used as usize];
        if !known.is_nan() {
            return known;
        }
        let free = self.costs.iter().filter(|(_, pair)| pair & used == 0);
        let bound =
            self.rest[self.placed.len()].iter().zip(free).map(|(volume, (cost, _))| volume * cost).sum();
        self.among[used as usize] = bound;
        bound
    }

    /// The ranks that send nothing get what is left.
    fn keep(&mut self, used: u32) {
        let mut free = (0..self.problem.size).filter(|place| used >> place & 1 == 0);
        let mut best = vec![usize::MAX; self.problem.size];
        for (rank, place) in self.order.iter().zip(&self.placed) {
            best[*rank] = *place;
        }
        for place in best.iter_mut().filter(|place| **place == usize::MAX) {
            *place = free.next().unwrap_or_default();
        }
        self.best = best;
    }
}

/// Ranks that send anything; next is always the one that sends most to those before it, so that costs are known early.
fn order(problem: &Problem) -> Vec<usize> {
    let sum = |rank: usize| problem.volume_of(rank).iter().sum::<f64>();
    let mut left: Vec<usize> = (0..problem.size).filter(|rank| sum(*rank) > 0.0).collect();
    let mut order: Vec<usize> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let known = |rank: usize| order.iter().map(|other| problem.volume_of(rank)[*other]).sum::<f64>();
        let key = |at: &usize| (known(left[*at]), sum(left[*at]));
        let next = (0..left.len()).max_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        order.push(left.remove(next.unwrap_or_default()));
    }
    order
}

fn rests(problem: &Problem, order: &[usize]) -> Vec<Vec<f64>> {
    let rest = |depth: usize| {
        let left = &order[depth..];
        let pairs =
            left.iter().enumerate().flat_map(|(at, one)| left[..at].iter().map(move |other| (one, other)));
        let mut volumes: Vec<f64> = pairs.map(|(one, other)| problem.volume_of(*one)[*other]).collect();
        volumes.sort_by(|a, b| b.total_cmp(a));
        volumes
    };
    (0..=order.len()).map(rest).collect()
}

fn twins(problem: &Problem) -> Vec<u32> {
    let alike = |one: usize, other: usize| {
        let (a, b) = (problem.cost_of(one), problem.cost_of(other));
        (0..problem.size).filter(|place| *place != one && *place != other).all(|place| a[place] == b[place])
    };
    let before = |place: usize| {
        (0..place).filter(|other| alike(*other, place)).fold(0, |mask, other| mask | 1 << other)
    };
    (0..problem.size).map(before).collect()
}

fn sorted_costs(problem: &Problem) -> Vec<(f64, u32)> {
    let pairs = (0..problem.size).flat_map(|one| (0..one).map(move |other| (one, other)));
    let mut costs: Vec<(f64, u32)> =
        pairs.map(|(one, other)| (problem.cost_of(one)[other], 1 << one | 1 << other)).collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;
    use crate::problem::tests::random;

    /// All orders, one by one.
    fn by_trying_all(problem: &Problem) -> f64 {
        fn try_all(problem: &Problem, place_of: &mut Vec<usize>, from: usize, best: &mut f64) {
            if from == place_of.len() {
                *best = best.min(problem.total(place_of));
            }
            for other in from..place_of.len() {
                place_of.swap(from, other);
                try_all(problem, place_of, from + 1, best);
                place_of.swap(from, other);
            }
        }
        let mut best = f64::INFINITY;
        try_all(problem, &mut (0..problem.size).collect(), 0, &mut best);
        best
    }

    #[test]
    fn it_is_the_best_of_all() {
        let mut rng = fastrand::Rng::with_seed(1);
        for round in 0..120 {
            let places = rng.usize(1..=7);
            // Few ranks find the best place wherever they begin.
            let ranks = rng.usize(places.div_ceil(2)..=places);
            let (topology, pattern) = random(&mut rng, ranks, places);
            let problem = Problem::new(&topology, &pattern, Metric::ALL[round % 3]).expect("it fits");
            let found = search(&problem, (0..places).collect());
            let mut sorted = found.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..places).collect::<Vec<_>>());
            let (ours, best) = (problem.total(&found), by_trying_all(&problem));
            assert!((ours - best).abs() <= 1e-9 * best, "{places} places: {ours}, not {best}");
        }
    }

    #[test]
    fn twins_are_places_that_all_others_reach_alike() {
        let helios = crate::Topology::named("helios").expect("built in");
        let pattern = crate::Pattern::new(2).expect("2");
        let problem = Problem::new(&helios, &pattern, Metric::Distance).expect("it fits");
        assert_eq!(&twins(&problem)[..4], [0, 1, 0, 4]);
    }
}

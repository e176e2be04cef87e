//! Well-known algorithms of MPI libraries among hosts (2.3.3), as rounds of messages between places of vectors.

use std::ops::Range;

use crate::Checked;

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// A parent gets from its children one after the other; they all read its result at once.
    Fan { radix: usize },
    /// To the root and back from there, over distances that double and halve.
    Binomial,
    /// All exchange all that they have with one other in each round, over distances that double.
    Doubling,
    /// Reduce-scatter by halves, and allgather by doubling.
    Rabenseifner,
    /// Each gives to the next what it got in the round before.
    Ring,
}

impl Host {
    /// Each of them; radix 7 is that of Fig. 2.2(a).
    pub(super) const ALL: [Host; 5] =
        [Host::Fan { radix: 7 }, Host::Binomial, Host::Doubling, Host::Rabenseifner, Host::Ring];
}

/// Bytes of one process that another gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Of the vector; the same at both.
    pub(super) range: Range<usize>,
    /// Whether they are added to those that are there.
    pub(super) adds: bool,
}

/// Messages that are under way at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) messages: Vec<Message>,
    /// Whether processes meet for it; of a parent's children, only the first is waited for.
    pub(super) meets: bool,
}

fn met(messages: Vec<Message>) -> Round {
    Round { messages, meets: true }
}

fn message(from: usize, to: usize, range: Range<usize>, adds: bool) -> Message {
    Message { from, to, range, adds }
}

/// An allreduce of vectors of so many bytes.
pub(super) fn allreduce(host: Host, ranks: usize, bytes: usize) -> Vec<Round> {
    match host {
        Host::Fan { radix } => fan(ranks, radix.max(1), bytes),
        Host::Binomial => binomial(ranks, bytes),
        Host::Doubling => of_power(ranks, bytes, |active| {
            let whole = |distance: usize| {
                let one = |at: usize| message(active[at], active[at ^ distance], 0..bytes, true);
                met((0..active.len()).map(one).collect())
            };
            distances(active.len()).map(whole).collect()
        }),
        Host::Rabenseifner => of_power(ranks, bytes, |active| halves(active, bytes)),
        Host::Ring => {
            let part = |at: usize| at % ranks * bytes / ranks..(at % ranks + 1) * bytes / ranks;
            let round = |step: usize, adds: bool| {
                // In step s a rank gives the part that it got in the one before.
                let one =
                    |rank: usize| message(rank, (rank + 1) % ranks, part(rank + 2 * ranks - step), adds);
                met((0..ranks).map(one).collect())
            };
            let adding = (0..ranks - 1).map(|step| round(step, true));
            adding.chain((0..ranks - 1).map(|step| round(step + ranks - 1, false))).collect()
        }
    }
}

/// An allgather of so many bytes of each rank, one behind the other in the order of ranks, where they are at first. Of other numbers than
/// 2^n, all but the ring have none here.
pub(super) fn allgather(host: Host, ranks: usize, bytes: usize) -> Option<Vec<Round>> {
    let part = |first: usize, number: usize| first * bytes..(first + number) * bytes;
    match host {
        Host::Ring => {
            let one = |rank: usize, step: usize| {
                message(rank, (rank + 1) % ranks, part((rank + ranks - step) % ranks, 1), false)
            };
            let round = |step: usize| met((0..ranks).map(|rank| one(rank, step)).collect());
            Some((0..ranks - 1).map(round).collect())
        }
        Host::Doubling if ranks.is_power_of_two() => {
            let one = |rank: usize, distance: usize| {
                message(rank, rank ^ distance, part(rank / distance * distance, distance), false)
            };
            let round = |distance: usize| met((0..ranks).map(|rank| one(rank, distance)).collect());
            Some(distances(ranks).map(round).collect())
        }
        _ => None,
    }
}

/// Runs rounds on words, and compares each rank's with what it is to have.
pub(super) fn check(rounds: &[Round], mut vectors: Vec<Vec<u64>>, expected: &[u64]) -> Checked {
    for round in rounds {
        // All of a round read what was there before it.
        let sent: Vec<Vec<u64>> = round
            .messages
            .iter()
            .map(|message| vectors[message.from][message.range.clone()].to_vec())
            .collect();
        for (message, words) in round.messages.iter().zip(sent) {
            for (here, word) in vectors[message.to][message.range.clone()].iter_mut().zip(words) {
                *here = if message.adds { *here + word } else { word };
            }
        }
    }
    let mut checked = Checked::default();
    vectors.iter().for_each(|vector| checked.compare(vector, expected));
    checked
}

/// 1, 2, 4, ... below.
fn distances(ranks: usize) -> impl DoubleEndedIterator<Item = usize> {
    (0..usize::BITS)
        .map(|power| 1 << power)
        .take_while(move |distance| *distance < ranks)
        .collect::<Vec<_>>()
        .into_iter()
}

/// With 2^n ranks; the first of those beyond give their vectors to a neighbour first, and get the result from there.
fn of_power(ranks: usize, bytes: usize, act: impl Fn(&[usize]) -> Vec<Round>) -> Vec<Round> {
    let beyond = ranks - (1 << ranks.ilog2());
    let active: Vec<usize> = (0..beyond).map(|pair| 2 * pair + 1).chain(2 * beyond..ranks).collect();
    let mut rounds = act(&active);
    if beyond > 0 {
        let to = |pair: usize| message(2 * pair, 2 * pair + 1, 0..bytes, true);
        let back = |pair: usize| message(2 * pair + 1, 2 * pair, 0..bytes, false);
        rounds.insert(0, met((0..beyond).map(to).collect()));
        rounds.push(met((0..beyond).map(back).collect()));
    }
    rounds
}

/// Of 2^n ranks: the nearest exchange half of the vector, the next a quarter; and back.
fn halves(active: &[usize], bytes: usize) -> Vec<Round> {
    let mut own = vec![0..bytes; active.len()];
    let mut rounds = Vec::new();
    let mut before = Vec::new();
    for distance in distances(active.len()) {
        let all = own.clone();
        for (at, range) in own.iter_mut().enumerate() {
            let middle = range.start.midpoint(range.end);
            *range = if at & distance == 0 { range.start..middle } else { middle..range.end };
        }
        // What the other keeps.
        let one = |at: usize| message(active[at], active[at ^ distance], own[at ^ distance].clone(), true);
        rounds.push(met((0..active.len()).map(one).collect()));
        before.push((distance, all));
    }
    for (distance, all) in before.into_iter().rev() {
        let one = |at: usize| message(active[at], active[at ^ distance], own[at].clone(), false);
        rounds.push(met((0..active.len()).map(one).collect()));
        own = all;
    }
    rounds
}

fn binomial(ranks: usize, bytes: usize) -> Vec<Round> {
    let pairs =
        |distance: usize| (0..ranks).step_by(2 * distance).filter(move |rank| rank + distance < ranks);
    let up = |distance: usize| {
        met(pairs(distance).map(|rank| message(rank + distance, rank, 0..bytes, true)).collect())
    };
    let down = |distance: usize| {
        met(pairs(distance).map(|rank| message(rank, rank + distance, 0..bytes, false)).collect())
    };
    distances(ranks).map(up).chain(distances(ranks).rev().map(down)).collect()
}

fn fan(ranks: usize, radix: usize, bytes: usize) -> Vec<Round> {
    // Places of each level, from the first to the one behind the last, the root's level first.
    let mut levels = vec![(0, 1)];
    while let Some((first, end)) = levels.last().filter(|(first, _)| first * radix + 1 < ranks) {
        levels.push((first * radix + 1, (end * radix + 1).min(ranks)));
    }
    let children = |(first, end): (usize, usize), which: usize| -> Vec<(usize, usize)> {
        let child = |parent: usize| parent * radix + 1 + which;
        (first..end).map(|parent| (parent, child(parent))).filter(|(_, child)| *child < ranks).collect()
    };
    let mut rounds = Vec::new();
    for level in levels.iter().rev() {
        for which in 0..radix {
            let sent = children(*level, which).into_iter();
            let messages: Vec<_> =
                sent.map(|(parent, child)| message(child, parent, 0..bytes, true)).collect();
            if !messages.is_empty() {
                rounds.push(Round { messages, meets: which == 0 });
            }
        }
    }
    for level in &levels {
        let read = (0..radix).flat_map(|which| children(*level, which));
        let messages: Vec<_> = read.map(|(parent, child)| message(parent, child, 0..bytes, false)).collect();
        if !messages.is_empty() {
            rounds.push(met(messages));
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Host> {
        Host::ALL.into_iter().chain([Host::Fan { radix: 2 }])
    }

    fn vectors(ranks: usize, words: usize) -> Vec<Vec<u64>> {
        (0..ranks).map(|rank| (0..words).map(|at| (1 << rank) + 1000 * at as u64).collect()).collect()
    }

    fn sum(vectors: &[Vec<u64>]) -> Vec<u64> {
        (0..vectors[0].len()).map(|at| vectors.iter().map(|vector| vector[at]).sum()).collect()
    }

    #[test]
    fn all_have_the_sum_of_all() {
        for (host, ranks) in all().flat_map(|host| (1..=24).map(move |ranks| (host, ranks))) {
            for words in [1, 5, 24, 100] {
                let given = vectors(ranks, words);
                let expected = sum(&given);
                let checked = check(&allreduce(host, ranks, words), given, &expected);
                assert_eq!(checked.wrong, 0, "{host:?}, {ranks} ranks, {words} words");
                assert_eq!(checked.values, (ranks * words) as u64);
            }
        }
    }

    #[test]
    fn a_round_that_is_left_out_is_seen() {
        for host in all() {
            let given = vectors(16, 32);
            let expected = sum(&given);
            for left_out in 0..allreduce(host, 16, 32).len() {
                let mut rounds = allreduce(host, 16, 32);
                rounds.remove(left_out);
                assert!(check(&rounds, given.clone(), &expected).wrong > 0, "{host:?}, round {left_out}");
            }
        }
    }

    #[test]
    fn all_have_the_parts_of_all_in_their_order() {
        for (host, ranks) in
            [Host::Ring, Host::Doubling].into_iter().flat_map(|host| (1..=17).map(move |r| (host, r)))
        {
            let Some(rounds) = allgather(host, ranks, 3) else {
                assert!(host == Host::Doubling && !ranks.is_power_of_two());
                continue;
            };
            let expected: Vec<u64> = (1..=3 * ranks as u64).collect();
            let own = |rank: usize| {
                (0..3 * ranks).map(|at| if at / 3 == rank { expected[at] } else { 0 }).collect::<Vec<_>>()
            };
            let checked = check(&rounds, (0..ranks).map(own).collect(), &expected);
            assert_eq!(checked.wrong, 0, "{host:?}, {ranks} ranks");
        }
        assert_eq!(allgather(Host::Binomial, 4, 1), None);
    }
}

//! Collectives as rounds of messages: what is sent from, and received into, which bytes of one buffer. A round begins when the one
//! before is over, so any number of collectives go on side by side, and none needs a thread.

use std::ops::Range;

/// What a receive does with what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    Copy,
    /// Adds it to what is there, by the collective's operation.
    Combine,
}

/// Sends and receives that do not wait for each other. What is sent is what the buffer holds as the round begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    pub sends: Vec<(u32, Range<usize>)>,
    pub receives: Vec<(u32, Range<usize>, Take)>,
}

fn send(to: u32, range: Range<usize>) -> Round {
    Round { sends: vec![(to, range)], receives: Vec::new() }
}

fn receive(from: u32, range: Range<usize>, take: Take) -> Round {
    Round { sends: Vec::new(), receives: vec![(from, range, take)] }
}

/// Who is who where `root` counts as 0.
struct Turned {
    root: u32,
    size: u32,
}

impl Turned {
    fn of(&self, rank: u32) -> u32 {
        (rank + self.size - self.root) % self.size
    }

    fn back(&self, turned: u32) -> u32 {
        (turned + self.root) % self.size
    }
}

/// Dissemination: after round k all have heard of the 2^(k+1) before them.
pub fn barrier(rank: u32, size: u32) -> Vec<Round> {
    let steps = std::iter::successors(Some(1), |step| Some(2 * step)).take_while(|step| *step < size);
    let round = |step: u32| Round {
        sends: vec![((rank + step) % size, 0..0)],
        receives: vec![((rank + size - step) % size, 0..0, Take::Copy)],
    };
    steps.map(round).collect()
}

/// A binomial tree from the root down.
pub fn broadcast(rank: u32, size: u32, root: u32, len: usize) -> Vec<Round> {
    let turned = Turned { root, size };
    let mine = turned.of(rank);
    let mut rounds = Vec::new();
    let low = if mine == 0 { size.next_power_of_two() } else { mine & mine.wrapping_neg() };
    if mine != 0 {
        rounds.push(receive(turned.back(mine - low), 0..len, Take::Copy));
    }
    let steps = std::iter::successors(Some(low / 2), |step| Some(step / 2)).take_while(|step| *step > 0);
    for step in steps.filter(|step| mine + step < size) {
        rounds.push(send(turned.back(mine + step), 0..len));
    }
    rounds
}

/// The same tree upwards; the same order of operands each time.
pub fn reduce(rank: u32, size: u32, root: u32, len: usize) -> Vec<Round> {
    let turned = Turned { root, size };
    let mine = turned.of(rank);
    let mut rounds = Vec::new();
    let mut step = 1;
    while step < size {
        if mine & step != 0 {
            rounds.push(send(turned.back(mine - step), 0..len));
            break;
        }
        if mine + step < size {
            rounds.push(receive(turned.back(mine + step), 0..len, Take::Combine));
        }
        step *= 2;
    }
    rounds
}

/// Recursive doubling where the size allows it: all operations commute, so all get the same bits. Else to rank 0 and back.
pub fn allreduce(rank: u32, size: u32, len: usize) -> Vec<Round> {
    if !size.is_power_of_two() {
        let mut rounds = reduce(rank, size, 0, len);
        rounds.extend(broadcast(rank, size, 0, len));
        return rounds;
    }
    let steps = std::iter::successors(Some(1), |step| Some(2 * step)).take_while(|step| *step < size);
    let round = |step: u32| Round {
        sends: vec![(rank ^ step, 0..len)],
        receives: vec![(rank ^ step, 0..len, Take::Combine)],
    };
    steps.map(round).collect()
}

/// Round a ring: in each round the block that came last goes on. The buffer holds `size` blocks, the own one in place.
pub fn allgather(rank: u32, size: u32, block: usize) -> Vec<Round> {
    let at = |of: u32| (of % size) as usize * block..((of % size) as usize + 1) * block;
    let round = |step: u32| Round {
        sends: vec![((rank + 1) % size, at(rank + size - step))],
        receives: vec![((rank + size - 1) % size, at(rank + 2 * size - step - 1), Take::Copy)],
    };
    (0..size.saturating_sub(1)).map(round).collect()
}

/// All at once. The buffer holds what is sent, then what is received, the own block in place.
pub fn alltoall(rank: u32, size: u32, block: usize) -> Vec<Round> {
    let whole = size as usize * block;
    let at = |of: u32, base: usize| base + of as usize * block..base + (of as usize + 1) * block;
    let others = || (1..size).map(|step| (rank + step) % size);
    vec![Round {
        sends: others().map(|to| (to, at(to, 0))).collect(),
        receives: others().map(|from| (from, at(from, whole), Take::Copy)).collect(),
    }]
}

/// All to the root at once. Its buffer holds `size` blocks, the own one in place; that of others their block.
pub fn gather(rank: u32, size: u32, root: u32, block: usize) -> Vec<Round> {
    if rank != root {
        return vec![send(root, 0..block)];
    }
    let at = |of: u32| of as usize * block..(of as usize + 1) * block;
    let others = (1..size).map(|step| (rank + step) % size);
    vec![Round { sends: Vec::new(), receives: others.map(|from| (from, at(from), Take::Copy)).collect() }]
}

/// The same buffers, the other way.
pub fn scatter(rank: u32, size: u32, root: u32, block: usize) -> Vec<Round> {
    if rank != root {
        return vec![receive(root, 0..block, Take::Copy)];
    }
    let at = |of: u32| of as usize * block..(of as usize + 1) * block;
    let others = (1..size).map(|step| (rank + step) % size);
    vec![Round { sends: others.map(|to| (to, at(to))).collect(), receives: Vec::new() }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, VecDeque};

    /// Runs the rounds of all ranks until nothing moves; addition of bytes.
    fn run(rounds: Vec<Vec<Round>>, buffers: &mut [Vec<u8>]) {
        let mut left: Vec<VecDeque<Round>> = rounds.into_iter().map(VecDeque::from).collect();
        let mut wires: HashMap<(u32, u32), VecDeque<Vec<u8>>> = HashMap::new();
        let mut sent = vec![false; left.len()];
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for rank in 0..left.len() {
                let Some(round) = left[rank].front_mut() else { continue };
                if !std::mem::replace(&mut sent[rank], true) {
                    for (to, range) in &round.sends {
                        wires
                            .entry((rank as u32, *to))
                            .or_default()
                            .push_back(buffers[rank][range.clone()].to_vec());
                    }
                    moved = true;
                }
                let buffer = &mut buffers[rank];
                round.receives.retain(|(from, range, take)| {
                    let Some(bytes) = wires.entry((*from, rank as u32)).or_default().pop_front() else {
                        return true;
                    };
                    assert_eq!(bytes.len(), range.len());
                    let combine = *take == Take::Combine;
                    buffer[range.clone()].iter_mut().zip(bytes).for_each(|(to, from)| {
                        *to = if combine { to.wrapping_add(from) } else { from };
                    });
                    moved = true;
                    false
                });
                if round.receives.is_empty() {
                    left[rank].pop_front();
                    sent[rank] = false;
                    moved = true;
                }
            }
        }
        assert!(left.iter().all(VecDeque::is_empty), "nobody waits for ever");
        assert!(wires.values().all(VecDeque::is_empty), "nothing is sent in vain");
    }

    #[test]
    fn every_collective_of_every_size_does_what_it_says() {
        for size in 1..=9u32 {
            let all = |make: &dyn Fn(u32) -> Vec<Round>| (0..size).map(make).collect::<Vec<_>>();
            let own = || (0..size).map(|rank| vec![rank as u8 + 1, 100 + rank as u8]).collect::<Vec<_>>();
            let sum: Vec<u8> = vec![
                (1..=size as u8).sum(),
                (0..size).fold(0u8, |sum, rank| sum.wrapping_add(100 + rank as u8)),
            ];
            run(all(&|rank| barrier(rank, size)), &mut own());
            for root in 0..size {
                let mut data = own();
                run(all(&|rank| broadcast(rank, size, root, 2)), &mut data);
                assert!(data.iter().all(|bytes| *bytes == own()[root as usize]), "{size} {root}");
                let mut data = own();
                run(all(&|rank| reduce(rank, size, root, 2)), &mut data);
                assert_eq!(data[root as usize], sum, "{size} {root}");
            }
            let mut data = own();
            run(all(&|rank| allreduce(rank, size, 2)), &mut data);
            assert!(data.iter().all(|bytes| *bytes == sum), "{size}");
            gathers(size);
            (0..size).for_each(|root| of_a_root(size, root));
        }
    }

    fn of_a_root(size: u32, root: u32) {
        let all = |make: &dyn Fn(u32) -> Vec<Round>| (0..size).map(make).collect::<Vec<_>>();
        let block = |rank: u32| vec![rank as u8 + 1, 100 + rank as u8];
        let whole: Vec<u8> = (0..size).flat_map(block).collect();
        let mut data: Vec<Vec<u8>> = (0..size).map(block).collect();
        data[root as usize] = vec![0; whole.len()];
        data[root as usize][2 * root as usize..][..2].copy_from_slice(&block(root));
        run(all(&|rank| gather(rank, size, root, 2)), &mut data);
        assert_eq!(data[root as usize], whole, "{size} {root}");

        let mut data = vec![vec![0; 2]; size as usize];
        data[root as usize] = whole.clone();
        run(all(&|rank| scatter(rank, size, root, 2)), &mut data);
        for rank in (0..size).filter(|rank| *rank != root) {
            assert_eq!(data[rank as usize], block(rank), "{size} {root}");
        }
    }

    fn gathers(size: u32) {
        let all = |make: &dyn Fn(u32) -> Vec<Round>| (0..size).map(make).collect::<Vec<_>>();
        let n = size as usize;
        let mut data = vec![vec![0; n]; n];
        (0..n).for_each(|rank| data[rank][rank] = rank as u8 + 1);
        run(all(&|rank| allgather(rank, size, 1)), &mut data);
        assert!(data.iter().all(|bytes| *bytes == (1..=n as u8).collect::<Vec<_>>()), "{size}");

        let mut data: Vec<Vec<u8>> =
            (0..n).map(|rank| (0..2 * n).map(|i| (10 * rank + i) as u8).collect()).collect();
        (0..n).for_each(|rank| data[rank][n + rank] = data[rank][rank]);
        run(all(&|rank| alltoall(rank, size, 1)), &mut data);
        for (rank, bytes) in data.iter().enumerate() {
            assert_eq!(bytes[n..], (0..n).map(|from| (10 * from + rank) as u8).collect::<Vec<_>>(), "{size}");
        }
    }
}

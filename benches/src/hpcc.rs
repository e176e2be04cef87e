//! The rules of HPCC RandomAccess: its random stream, who owns an entry, and the check.

/// Primitive polynomial of the stream, without its leading term.
const POLY: u64 = 7;

/// Period of the stream.
const PERIOD: i128 = 1_317_624_576_693_539_401;

/// Updates that a node may hold back before it applies or sends them.
pub(crate) const LOOK_AHEAD: u32 = 1024;

/// Updates per table entry.
pub(crate) const UPDATES_PER_ENTRY: u64 = 4;

/// The number after `x`.
pub(crate) fn next(x: u64) -> u64 {
    (x << 1) ^ if x >> 63 == 1 { POLY } else { 0 }
}

/// Number `n` of the stream, without those before it: the state is a polynomial over GF(2), so number n is
/// x^n modulo the primitive polynomial, by repeated squaring.
pub(crate) fn start(n: i64) -> u64 {
    let n = (i128::from(n).rem_euclid(PERIOD)) as u64;
    if n == 0 {
        return 1;
    }
    // squares[i] is x^(2i): squaring spreads bit i to bit 2i.
    let mut squares = [0_u64; 64];
    let mut power = 1_u64;
    for square in &mut squares {
        *square = power;
        power = next(next(power));
    }
    let mut ran = 2_u64;
    for bit in (0..n.ilog2()).rev() {
        let squared = (0..64).filter(|j| ran >> j & 1 == 1).fold(0, |sum, j| sum ^ squares[j]);
        ran = if n >> bit & 1 == 1 { next(squared) } else { squared };
    }
    ran
}

/// A table of 2^k words spread over nodes in equal blocks; the last ones may be shorter or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Entries of the whole table, a power of two.
    pub entries: u64,
    /// Nodes that hold it.
    pub nodes: u32,
}

impl Table {
    /// Entries per node, rounded up.
    pub fn per_node(&self) -> u64 {
        self.entries.div_ceil(u64::from(self.nodes))
    }

    /// Entries that `node` holds: its first one and how many.
    pub fn part(&self, node: u32) -> (u64, u64) {
        let first = (self.per_node() * u64::from(node)).min(self.entries);
        (first, self.per_node().min(self.entries - first))
    }

    /// Updates of all nodes.
    pub fn updates(&self) -> u64 {
        UPDATES_PER_ENTRY * self.entries
    }

    /// Which updates `node` makes: the running number of the first one, and how many.
    pub fn updates_of(&self, node: u32) -> (u64, u64) {
        let (nodes, node) = (u64::from(self.nodes), u64::from(node));
        let (each, rest) = (self.updates() / nodes, self.updates() % nodes);
        (each * node + rest.min(node), each + u64::from(node < rest))
    }

    /// The entry that a random number updates. HPCC takes the low bits.
    pub fn entry(&self, random: u64) -> u64 {
        random & (self.entries - 1)
    }

    /// Makes all updates once more, which undoes them, and counts the entries that do not hold their own
    /// index again (HPCC allows 1 %).
    pub fn count_wrong(&self, mut table: Vec<u64>) -> u64 {
        let mut random = start(0);
        for _ in 0..self.updates() {
            random = next(random);
            table[self.entry(random) as usize] ^= random;
        }
        (0..).zip(&table).filter(|(index, value)| index != *value).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule as written: shift, and xor with the polynomial if the top bit fell out.
    fn naive(n: u64) -> u64 {
        (0..n).fold(1, |x: u64, _| if x & (1 << 63) != 0 { (x << 1) ^ 7 } else { x << 1 })
    }

    #[test]
    fn starts_agree_with_walking_there() {
        for n in (0..300).chain([1000, 4095, 4096, 65_537, 1_000_003]) {
            assert_eq!(start(n), naive(n as u64), "number {n}");
        }
    }

    #[test]
    fn starts_are_periodic() {
        assert_eq!(start(0), 1);
        assert_eq!(start(PERIOD as i64), 1);
        assert_eq!(start(PERIOD as i64 + 77), start(77));
        assert_eq!(start(-1), start(PERIOD as i64 - 1));
        assert_eq!(next(start(-1)), 1);
        assert_eq!(next(start(PERIOD as i64 / 3)), start(PERIOD as i64 / 3 + 1));
    }

    #[test]
    fn nodes_share_entries_and_updates_without_gaps() {
        for nodes in [1, 2, 3, 5, 8, 12, 100] {
            let table = Table { entries: 64, nodes };
            let (mut entry, mut update) = (0, 0);
            for node in 0..nodes {
                let (first, count) = table.part(node);
                assert_eq!(first, entry);
                entry += count;
                let (first, count) = table.updates_of(node);
                assert_eq!(first, update);
                update += count;
            }
            assert_eq!((entry, update), (64, 256), "{nodes} nodes");
        }
    }

    #[test]
    fn the_check_accepts_all_updates_in_any_order_and_counts_a_lost_one() {
        let table = Table { entries: 1024, nodes: 3 };
        let mut words: Vec<u64> = (0..1024).collect();
        for node in (0..3).rev() {
            let (first, count) = table.updates_of(node);
            let mut random = start(first as i64);
            for _ in 0..count {
                random = next(random);
                words[table.entry(random) as usize] ^= random;
            }
        }
        assert_eq!(table.count_wrong(words.clone()), 0);
        words[17] ^= 1;
        assert_eq!(table.count_wrong(words), 1);
    }
}

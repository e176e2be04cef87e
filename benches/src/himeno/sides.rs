//! What a node exchanges with each neighbour where a grid is cut in more directions than one: faces, and the lines in which two
//! of them meet. The stencil reads no corners.

use super::Parts;
use crate::args::{BENCH_HIMENO_PIECES, bench_himeno_side};

/// A direction in which neighbours are: -1, 0 or 1 along x, y and z, one or two of them not 0.
type Direction = [i32; 3];

/// Directions, those that lead nowhere and corners included: places for messages and words.
const DIRECTIONS: u64 = 27;

/// Bytes between words that neighbours set.
const WORD: u64 = 128;

/// Bytes of those words.
pub(crate) const WORDS: u64 = DIRECTIONS * WORD;

/// Flags of queues: for each direction, of each piece of a message.
pub(crate) const FLAGS: u32 = DIRECTIONS as u32 * BENCH_HIMENO_PIECES;

/// Its number, that of the opposite one the same from the other end.
fn number(direction: Direction) -> u64 {
    direction.iter().rev().fold(0, |all, step| all * 3 + (step + 1) as u64)
}

fn directions() -> impl Iterator<Item = Direction> {
    let steps = [-1, 0, 1];
    let all = steps
        .into_iter()
        .flat_map(move |z| steps.into_iter().flat_map(move |y| steps.into_iter().map(move |x| [x, y, z])));
    all.filter(|direction| (1..=2).contains(&direction.iter().filter(|step| **step != 0).count()))
}

impl Parts {
    /// Points of a box that lies in this direction of a part.
    fn extent(&self, direction: Direction) -> [u32; 3] {
        let own = [self.own.x, self.own.y, self.own.z];
        std::array::from_fn(|axis| if direction[axis] == 0 { own[axis] } else { 1 })
    }

    /// Bytes of a place for a message in this direction.
    fn message(&self, direction: Direction) -> u64 {
        let cut =
            (0..3).all(|axis| direction[axis] == 0 || [self.split.x, self.split.y, self.split.z][axis] > 1);
        let bytes = self.extent(direction).iter().map(|points| u64::from(*points)).product::<u64>() * 4;
        if cut && !self.split.is_of_slices() { bytes.next_multiple_of(256) } else { 0 }
    }

    fn messages(&self) -> u64 {
        directions().map(|direction| self.message(direction)).sum()
    }

    /// Offset of the words that neighbours set, in front of the messages.
    pub fn words(&self) -> u64 {
        self.fields_end()
    }

    /// Bytes of the window. A message is packed in one place, and arrives in another one, of even or odd iterations.
    pub fn window_bytes(&self) -> u64 {
        self.words() + (WORDS + 3 * self.messages()).next_multiple_of(256)
    }

    /// Offset of a place for a message: 0 and 1, where it arrives; 2, where it is packed.
    fn message_at(&self, place: u64, direction: Direction) -> u64 {
        let before = directions().take_while(|other| *other != direction);
        let before: u64 = before.map(|other| self.message(other)).sum();
        self.words() + WORDS + place * self.messages() + before
    }

    /// The first point of the box that a neighbour in this direction needs, or that it has (`beyond`): a float of a field. At the
    /// beginning of all rows the point before is one float back.
    fn box_at(&self, node: u32, direction: Direction, beyond: bool) -> i64 {
        let own = [self.own.x, self.own.y, self.own.z].map(i64::from);
        let origin = [0, i64::from(self.rows_of(node).0), 1];
        let out = i64::from(beyond);
        let at: [i64; 3] = std::array::from_fn(|axis| match direction[axis] {
            0 => origin[axis],
            -1 => origin[axis] - out,
            _ => origin[axis] + own[axis] - 1 + out,
        });
        (at[2] * i64::from(self.rows()) + at[1]) * i64::from(self.pitch()) + at[0]
    }

    /// All neighbours of a node. Where it has whole planes, these lie together and need not be packed.
    pub fn sides(&self, node: u32) -> Vec<bench_himeno_side> {
        let with = |direction: Direction| {
            let back = direction.map(|step| -step);
            let neighbour = self.split.neighbour(node, direction)?;
            let (here, there) = (number(back), number(direction));
            let mut side = bench_himeno_side {
                from: self.box_at(node, direction, false),
                to: self.box_at(neighbour, back, true),
                beyond: self.box_at(node, direction, true),
                sent: self.message_at(2, direction),
                arrives: [0, 1].map(|place| self.message_at(place, direction)),
                arrives_there: [0, 1].map(|place| self.message_at(place, back)),
                signal: self.words() + there * WORD,
                seen: self.words() + here * WORD,
                extent: self.extent(direction),
                packed: 1,
                node: neighbour,
                flag: here as u32 * BENCH_HIMENO_PIECES,
                flag_there: there as u32 * BENCH_HIMENO_PIECES,
                reserved: 0,
            };
            if self.split.is_of_slices() {
                side.packed = 0;
                side.extent = [self.pitch(), self.rows(), 1];
            }
            Some(side)
        };
        directions().filter_map(with).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scaling;
    use crate::himeno::{Grid, Split};

    #[test]
    fn parts_in_the_midst_have_18_neighbours_and_they_agree() {
        let split = Split { x: 3, y: 3, z: 3 };
        let parts = Parts::new(Grid { x: 24, y: 9, z: 9 }, Scaling::Strong, split).unwrap();
        assert_eq!([13, 0, 1].map(|node| parts.sides(node).len()), [18, 6, 9]);
        for node in 0..27 {
            for side in parts.sides(node) {
                let back = parts.sides(side.node).into_iter().find(|back| back.node == node).unwrap();
                assert_eq!((side.to, side.signal, side.flag_there), (back.beyond, back.seen, back.flag));
                assert_eq!((side.arrives_there, side.extent), (back.arrives, back.extent));
            }
        }
        let [first, second] = [parts.message_at(0, [-1, 0, 0]), parts.message_at(1, [-1, 0, 0])];
        assert!(first >= parts.words() + WORDS && second - first == parts.messages());
        assert!(parts.message_at(2, [0, 1, 1]) + 8 * 4 <= parts.window_bytes());
    }

    #[test]
    fn whole_planes_are_sent_as_they_are() {
        let parts = Parts::new(Grid { x: 20, y: 9, z: 12 }, Scaling::Strong, Split::slices(3)).unwrap();
        let sides = parts.sides(1);
        assert_eq!(sides.iter().map(|side| (side.node, side.packed)).collect::<Vec<_>>(), [(0, 0), (2, 0)]);
        assert_eq!((sides[0].from, sides[0].to), (9 * 32, 5 * 9 * 32));
        assert_eq!(parts.messages(), 0);
    }
}

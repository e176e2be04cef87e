//! Things that a caller names by an id, which says nothing once the thing was given back.

/// Names a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    place: u32,
    turn: u32,
}

/// Things with ids. Places are used again, ids are not.
pub struct Slots<T>(Vec<(u32, Option<T>)>, Vec<u32>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots(Vec::new(), Vec::new())
    }
}

impl<T> Slots<T> {
    pub fn add(&mut self, thing: T) -> Id {
        let place = self.1.pop().unwrap_or(self.0.len() as u32);
        if place as usize == self.0.len() {
            self.0.push((0, None));
        }
        let (turn, free) = &mut self.0[place as usize];
        *free = Some(thing);
        Id { place, turn: *turn }
    }

    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        let (turn, thing) = self.0.get(id.place as usize)?;
        thing.as_ref().filter(|_| *turn == id.turn)
    }

    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let (turn, thing) = self.0.get_mut(id.place as usize)?;
        thing.as_mut().filter(|_| *turn == id.turn)
    }

    pub fn take(&mut self, id: Id) -> Option<T> {
        self.get(id)?;
        let (turn, thing) = &mut self.0[id.place as usize];
        *turn = turn.wrapping_add(1);
        self.1.push(id.place);
        thing.take()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let entry = |(place, (turn, thing)): (usize, &'_ (u32, Option<T>))| {
            thing.as_ref().map(|_| Id { place: place as u32, turn: *turn })
        };
        self.0.iter().enumerate().filter_map(entry).filter_map(|id| Some((id, self.get(id)?)))
    }
}

impl Id {
    /// As a number that a library carries.
    pub fn number(self) -> u64 {
        u64::from(self.place) | u64::from(self.turn) << 32
    }

    pub fn from_number(number: u64) -> Id {
        Id { place: number as u32, turn: (number >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_not_used_again() {
        let mut slots = Slots::default();
        let (one, two) = (slots.add("one"), slots.add("two"));
        assert_eq!(slots.take(one), Some("one"));
        let three = slots.add("three");
        assert_eq!(slots.get(one), None);
        assert_eq!(slots.take(one), None);
        assert_eq!((slots.get(two), slots.get(three)), (Some(&"two"), Some(&"three")));
        assert_eq!(Id::from_number(three.number()), three);
        assert_eq!(slots.iter().count(), 2);
    }
}

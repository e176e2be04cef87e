//! Handles of communicators and windows, as kernels have them.

use crate::layout::GMPI_HANDLE_GENERATION_SHIFT;

/// What handles stand for: a number from 1 on, and a generation, so that one that was freed is never taken for another.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    slots: Vec<(u32, Option<T>)>,
}

impl<T: Copy> Handles<T> {
    /// With these under handles 1, 2, ...
    pub fn of(first: impl IntoIterator<Item = T>) -> Handles<T> {
        Handles { slots: first.into_iter().map(|value| (0, Some(value))).collect() }
    }

    pub fn add(&mut self, value: T) -> u64 {
        let free = self.slots.iter().position(|(_, value)| value.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() - 1
        });
        let (generation, slot) = &mut self.slots[index];
        *generation = generation.wrapping_add(1);
        *slot = Some(value);
        (index as u64 + 1) | u64::from(*generation) << GMPI_HANDLE_GENERATION_SHIFT
    }

    fn slot(&self, handle: u64) -> Option<usize> {
        let index = usize::try_from(handle & 0xffff_ffff).ok()?.checked_sub(1)?;
        let generation = handle >> GMPI_HANDLE_GENERATION_SHIFT;
        self.slots.get(index).filter(|(of, _)| u64::from(*of) == generation).map(|_| index)
    }

    pub fn get(&self, handle: u64) -> Option<T> {
        self.slot(handle).and_then(|index| self.slots[index].1)
    }

    pub fn remove(&mut self, handle: u64) -> Option<T> {
        self.slot(handle).and_then(|index| self.slots[index].1.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_never_taken_for_another() {
        let mut handles = Handles::of([10, 11]);
        assert_eq!(
            (handles.get(1), handles.get(2), handles.get(0), handles.get(3)),
            (Some(10), Some(11), None, None)
        );
        let third = handles.add(12);
        assert_eq!(handles.remove(third), Some(12));
        let fourth = handles.add(13);
        assert_eq!((handles.get(third), handles.get(fourth)), (None, Some(13)));
        assert_eq!(handles.remove(third), None);
    }
}

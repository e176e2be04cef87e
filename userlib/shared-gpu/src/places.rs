//! Where ranks are: what they tell each other before they set anything up.

use crate::SharedGpuError;

/// Where a rank is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The lowest rank of its host.
    pub(crate) leader: u32,
    pub(crate) has_node: bool,
    pub(crate) gpu: String,
}

impl Place {
    pub(crate) fn words(&self) -> Vec<u8> {
        [&self.leader.to_ne_bytes()[..], &[u8::from(self.has_node)], self.gpu.as_bytes()].concat()
    }

    fn read(words: &[u8]) -> Option<Place> {
        let (leader, rest) = words.split_first_chunk()?;
        let (has_node, gpu) = rest.split_first()?;
        let gpu = String::from_utf8_lossy(gpu).into_owned();
        Some(Place { leader: u32::from_ne_bytes(*leader), has_node: *has_node != 0, gpu })
    }
}

/// What all ranks say of their places.
pub(crate) fn places(ranks: &[u32], said: &[Vec<u8>]) -> Result<Vec<Place>, SharedGpuError> {
    let other =
        |rank: u32| SharedGpuError::Peer { rank: rank as usize, what: "it runs another version".to_owned() };
    ranks.iter().zip(said).map(|(rank, words)| Place::read(words).ok_or(other(*rank))).collect()
}

/// Ranks by GPU, in the order of their first ones.
pub(crate) fn by_gpu<'a>(ranks: impl Iterator<Item = (&'a u32, &'a Place)>) -> Vec<Vec<u32>> {
    let mut gpus: Vec<(&str, Vec<u32>)> = Vec::new();
    for (rank, place) in ranks {
        match gpus.iter_mut().find(|(name, _)| *name == place.gpu) {
            Some((_, ranks)) => ranks.push(*rank),
            None => gpus.push((&place.gpu, vec![*rank])),
        }
    }
    gpus.into_iter().map(|(_, ranks)| ranks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_said() {
        let place = Place { leader: 7, has_node: true, gpu: "GPU-1".to_owned() };
        assert_eq!(Place::read(&place.words()), Some(place));
        assert_eq!(Place::read(&[1, 2, 3, 4]), None, "cut short");
    }
}

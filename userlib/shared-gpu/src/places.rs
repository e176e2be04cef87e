//! Where ranks are: what they tell each other before they set anything up.

use crate::SharedGpuError;

/// Where a rank is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The lowest rank of its host.
    pub(crate) leader: u32,
    pub(crate) has_node: bool,
    /// Its configuration forces steps of GPUs.
    pub(crate) has_steps: bool,
    /// The GPU, and its kind as in tables.
    pub(crate) gpu: String,
    pub(crate) device: String,
}

impl Place {
    pub(crate) fn words(&self) -> Vec<u8> {
        let Place { leader, has_node, has_steps, gpu, device } = self;
        let flags = [u8::from(*has_node), u8::from(*has_steps)];
        [&leader.to_ne_bytes()[..], &flags, gpu.as_bytes(), b"\n", device.as_bytes()].concat()
    }

    fn read(words: &[u8]) -> Option<Place> {
        let (leader, rest) = words.split_first_chunk()?;
        let ([has_node, has_steps], names) = rest.split_first_chunk()?;
        let names = String::from_utf8_lossy(names);
        let (gpu, device) = names.split_once('\n')?;
        Some(Place {
            leader: u32::from_ne_bytes(*leader),
            has_node: *has_node != 0,
            has_steps: *has_steps != 0,
            gpu: gpu.to_owned(),
            device: device.to_owned(),
        })
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
        let place = Place {
            leader: 7,
            has_node: true,
            has_steps: false,
            gpu: "GPU-1".to_owned(),
            device: "a GPU".to_owned(),
        };
        assert_eq!(Place::read(&place.words()), Some(place));
        assert_eq!(Place::read(&[1, 2, 3, 4]), None, "cut short");
    }
}

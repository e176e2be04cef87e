//! Links that lose packets, between processes.
//!
//! A card's link layer repeats what a link loses or damages: nothing is lost silently, and order stays. So a loss shows
//! as a packet that goes later. Here the sender finds, by the network's seed and its own slot, that a packet was lost on
//! its way: it is not taken, as where there is no credit, and goes when the repetition is due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// From the loss of a packet to its repetition.
pub(super) const REPEAT: Duration = Duration::from_micros(100);
/// Most packets that may be lost: of each ten, nine.
const DROP_MAX: f64 = 0.9;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Losses {
    drop: f64,
    random: Mutex<fastrand::Rng>,
    repeated: AtomicU64,
}

impl Losses {
    /// What a network's shape says of its faults: `drop=0.01,seed=7`, in any order; nothing: none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, slot: u32) -> Result<Losses, String> {
        let (mut drop, mut seed) = (0.0, 0u64);
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong =
                || format!("`{part}` of the network's faults: use drop=0 to {DROP_MAX}, and seed=NUMBER");
            match part.split_once('=') {
                Some(("drop", value)) => {
                    drop = value
                        .parse()
                        .ok()
                        .filter(|drop| (0.0..=DROP_MAX).contains(drop))
                        .ok_or_else(wrong)?;
                }
                Some(("seed", value)) => seed = value.parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        let random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(slot));
        Ok(Losses { drop, random: Mutex::new(random), repeated: AtomicU64::new(0) })
    }

    /// Whether the next packet is lost on its way.
    #[inline]
    pub fn strike(&self) -> bool {
        self.drop > 0.0 && self.draw()
    }

    #[cold]
    fn draw(&self) -> bool {
        let lost = self.random.lock().unwrap_or_else(PoisonError::into_inner).f64() < self.drop;
        self.repeated.fetch_add(lost.into(), Ordering::Relaxed);
        lost
    }

    /// Packets that were lost and repeated.
    pub fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_losses_again() {
        let draw = |text: &str, slot| {
            let losses = Losses::parse(text, slot).unwrap();
            (0..64).map(|_| losses.strike()).collect::<Vec<_>>()
        };
        assert_eq!(draw("drop=0.5,seed=7", 1), draw("seed=7,drop=0.5", 1));
        assert_ne!(draw("drop=0.5,seed=7", 1), draw("drop=0.5,seed=7", 2));
        assert_ne!(draw("drop=0.5,seed=7", 1), draw("drop=0.5,seed=8", 1));
        assert!(!draw("", 1).contains(&true));
        let half = Losses::parse("drop=0.5", 0).unwrap();
        let lost = (0..1000).filter(|_| half.strike()).count();
        assert!((350..650).contains(&lost) && half.repeated() == lost as u64, "{lost}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["drop", "drop=2", "drop=-1", "seed=x", "colour=red", "drop=NaN"] {
            assert!(Losses::parse(text, 0).unwrap_err().contains("drop="), "{text}");
        }
    }
}

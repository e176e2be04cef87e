//! The time limit of a load from the SMFU window.

use std::time::{Duration, Instant};

/// The virtual machine gives a device up after five seconds.
const MOST: Duration = Duration::from_secs(2);
/// Behind many that had no answer. A kernel that copies from the window loads byte by byte, and nothing can interrupt
/// it.
const LEAST: Duration = Duration::from_millis(10);
/// What comes so much later is no part of the same copy.
const COPY_GAP: Duration = Duration::from_secs(1);

/// Half as long behind each load of a copy that had no answer.
pub(crate) struct Patience {
    next: Duration,
    /// When the last one had none.
    unanswered: Option<Instant>,
}

impl Patience {
    /// Of a card that nobody loaded from.
    pub fn new() -> Patience {
        Patience { next: MOST, unanswered: None }
    }

    /// How long a load that begins now may take.
    pub fn of_load(&mut self, now: Instant) -> Duration {
        if self.unanswered.is_none_or(|then| now.duration_since(then) > COPY_GAP) {
            self.next = MOST;
        }
        self.next
    }

    /// It ended, with an answer or without.
    pub fn ended(&mut self, answered: bool, now: Instant) {
        self.unanswered = (!answered).then_some(now);
        if !answered {
            self.next = (self.next / 2).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads without an answer, one right after the other: how long all of them took, and when that was over.
    fn in_vain(patience: &mut Patience, loads: u32, mut now: Instant) -> (Duration, Instant) {
        let begun = now;
        for _ in 0..loads {
            now += patience.of_load(now);
            patience.ended(false, now);
        }
        (now - begun, now)
    }

    #[test]
    fn a_copy_without_answers_comes_to_an_end() {
        let (took, _) = in_vain(&mut Patience::new(), 200, Instant::now());
        assert!(took < Duration::from_secs(7), "{took:?}");
    }

    #[test]
    fn patience_returns_with_an_answer_or_after_a_while() {
        let mut patience = Patience::new();
        let (_, now) = in_vain(&mut patience, 20, Instant::now());
        assert_eq!(patience.of_load(now + COPY_GAP), LEAST, "the same copy");
        assert_eq!(patience.of_load(now + COPY_GAP + Duration::from_millis(1)), MOST, "another one");
        let (_, now) = in_vain(&mut patience, 20, now);
        patience.ended(true, now);
        assert_eq!(patience.of_load(now), MOST);
    }
}

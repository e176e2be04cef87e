//! Faults to inject: what happens to frames on the links, and what happens to links and cards.
//!
//! Decisions are drawn from the seed, the link, and the frame's number and attempt, not from time or threads: the
//! same frame of the same run of packets meets the same fate each time, however the threads are scheduled.

use std::time::Duration;

use thiserror::Error;

use crate::network::links::link::FrameId;
use crate::network::links::torus::{Direction, Torus};

/// How long a frame that is to be overtaken waits.
const OVERTAKEN_FOR: Duration = Duration::from_micros(30);

/// Faults that make no sense.
#[derive(Clone, PartialEq, Error)]
pub enum FaultError {
    /// A probability out of range. At 1, nothing would ever get through.
    #[error("the {what} rate is {rate}; it must be at least 0 and below 1")]
    Rate {
        /// Which one.
        what: &'static str,
        /// As given.
        rate: f64,
    },
    /// A delay so long that waits of the users run out first.
    #[error("frames would be delayed by {0:?}; choose at most {MAX_DELAY:?}")]
    Delay(Duration),
    /// An event names a node that the torus lacks.
    #[error("the torus has no node {0}")]
    Node(u16),
    /// An event names a link that the torus lacks.
    #[error("the torus has no link of node {0} in direction {1}")]
    Link(u16, Direction),
    /// What a network between processes does not do to its cards.
    #[error(
        "{0:?} happens in networks of one process only: between processes stop and continue the process itself (SIGSTOP, \
         SIGCONT)"
    )]
    OneProcess(Event),
}

ggas_errors::debug_as_display!(FaultError);

/// Longest delay of a frame.
pub const MAX_DELAY: Duration = Duration::from_millis(100);

/// Something that happens to a link or a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The cable at this node in this direction stops carrying frames, both ways. Packets wait.
    LinkDown(u16, Direction),
    /// It works again.
    LinkUp(u16, Direction),
    /// The node dies: packets from and to it are thrown away and counted, others are routed around it.
    Kill(u16),
    /// A dead node is back, as after a cold start: the network is routed over it again. Its card is another one; whoever
    /// made the dead one detaches it first.
    Return(u16),
    /// The card stops: it neither takes, sends nor forwards anything. Packets wait.
    Stop(u16),
    /// It goes on.
    Resume(u16),
    /// The node gets no credit for requests, so its command queues fill up.
    Starve(u16),
    /// It gets credits again.
    Feed(u16),
    /// Management computes route tables around everything that is down.
    Reroute,
}

impl Event {
    /// The node that it happens to, or at.
    pub fn node(self) -> Option<u16> {
        match self {
            Event::LinkDown(node, _) | Event::LinkUp(node, _) => Some(node),
            Event::Kill(node) | Event::Return(node) | Event::Stop(node) | Event::Resume(node) => Some(node),
            Event::Starve(node) | Event::Feed(node) => Some(node),
            Event::Reroute => None,
        }
    }

    /// That there is what it happens to.
    pub(crate) fn check(self, torus: &Torus) -> Result<(), FaultError> {
        match self {
            Event::LinkDown(node, direction) | Event::LinkUp(node, direction) => {
                torus.neighbour(node, direction).map(|_| ()).ok_or(FaultError::Link(node, direction))
            }
            event => match event.node() {
                Some(node) => torus.index(node).map(|_| ()).ok_or(FaultError::Node(node)),
                None => Ok(()),
            },
        }
    }
}

/// Which faults a network has. Start from [`Faults::none`] and add.
///
/// ```
/// use extoll_sim::faults::{Event, Faults};
/// let faults = Faults::none().seed(7).drop(0.01).corrupt(0.01).after(1000, Event::Kill(3));
/// assert!(faults.validate().is_ok());
/// assert!(Faults::none().drop(1.5).validate().is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    seed: u64,
    drop: f64,
    corrupt: f64,
    duplicate: f64,
    reorder: f64,
    delay: f64,
    delay_by: Duration,
    starve: f64,
    plan: Vec<(u64, Event)>,
    links: bool,
}

/// What happens to one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fate {
    pub dropped: bool,
    /// Which bit flips, modulo the frame's length.
    pub flipped: Option<u64>,
    pub delay: Duration,
    pub twice: bool,
}

impl Faults {
    /// No faults: packets are handed over directly.
    pub fn none() -> Faults {
        Faults {
            seed: 0,
            drop: 0.0,
            corrupt: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            delay: 0.0,
            delay_by: Duration::from_micros(200),
            starve: 0.0,
            plan: Vec::new(),
            links: false,
        }
    }

    /// Seed of all decisions.
    pub fn seed(mut self, seed: u64) -> Faults {
        self.seed = seed;
        self
    }

    /// Part of the frames that get lost on a link.
    pub fn drop(mut self, rate: f64) -> Faults {
        self.drop = rate;
        self
    }

    /// Part of the frames in which a bit flips.
    pub fn corrupt(mut self, rate: f64) -> Faults {
        self.corrupt = rate;
        self
    }

    /// Part of the frames that arrive twice.
    pub fn duplicate(mut self, rate: f64) -> Faults {
        self.duplicate = rate;
        self
    }

    /// Part of the frames that later ones overtake.
    pub fn reorder(mut self, rate: f64) -> Faults {
        self.reorder = rate;
        self
    }

    /// Part of the frames that arrive late, and by how much.
    pub fn delay(mut self, rate: f64, by: Duration) -> Faults {
        (self.delay, self.delay_by) = (rate, by);
        self
    }

    /// Part of the attempts to inject a packet that find no credit.
    pub fn starve(mut self, rate: f64) -> Faults {
        self.starve = rate;
        self
    }

    /// Lets an event happen once `packets` packets have entered the network.
    pub fn after(mut self, packets: u64, event: Event) -> Faults {
        self.plan.push((packets, event));
        self
    }

    /// Hop-by-hop transfer through the link layer although nothing goes wrong.
    pub fn through_links(mut self) -> Faults {
        self.links = true;
        self
    }

    /// Whether packets can be handed over directly.
    pub fn is_none(&self) -> bool {
        let rates = [self.drop, self.corrupt, self.duplicate, self.reorder, self.delay, self.starve];
        !self.links && self.plan.is_empty() && rates == [0.0; 6]
    }

    /// Checks the rates.
    pub fn validate(&self) -> Result<(), FaultError> {
        let rates = [
            ("drop", self.drop),
            ("corrupt", self.corrupt),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("delay", self.delay),
            ("starve", self.starve),
        ];
        if let Some(&(what, rate)) = rates.iter().find(|(_, rate)| !(0.0..1.0).contains(rate)) {
            return Err(FaultError::Rate { what, rate });
        }
        (self.delay_by <= MAX_DELAY).then_some(()).ok_or(FaultError::Delay(self.delay_by))
    }

    /// Planned events, by the number of packets after which they happen.
    pub fn plan(&self) -> &[(u64, Event)] {
        &self.plan
    }

    /// Fate of one frame on one link. Control frames have attempt 0.
    pub(crate) fn fate(&self, link: u64, frame: FrameId) -> Fate {
        let frame = u64::from(frame.number) | u64::from(frame.attempt) << 32;
        let mut draw = self.draw(link, frame);
        let mut happens = |rate: f64| rate > 0.0 && draw.f64() < rate;
        let (dropped, flipped) = (happens(self.drop), happens(self.corrupt));
        let (twice, overtaken, late) = (happens(self.duplicate), happens(self.reorder), happens(self.delay));
        let delay = if late { self.delay_by } else { Duration::ZERO }
            + if overtaken { OVERTAKEN_FOR } else { Duration::ZERO };
        Fate { dropped, flipped: flipped.then(|| draw.u64(..)), delay, twice }
    }

    /// Whether attempt number `attempt` of a node to inject a packet finds no credit.
    pub(crate) fn starves(&self, node: u16, attempt: u64) -> bool {
        self.starve > 0.0 && self.draw(1 << 32 | u64::from(node), attempt).f64() < self.starve
    }

    fn draw(&self, place: u64, number: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(mix(mix(mix(self.seed) ^ place) ^ number))
    }
}

/// A bijection that spreads neighbouring numbers over all 64 bits (splitmix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(faults: &Faults, link: u64) -> Vec<Fate> {
        (0..2000).map(|number| faults.fate(link, FrameId { number, attempt: 1 })).collect()
    }

    #[test]
    fn decisions_repeat_with_the_seed_and_differ_between_links_and_seeds() {
        let faults = Faults::none().drop(0.3).corrupt(0.3).duplicate(0.3).reorder(0.3);
        assert_eq!(fates(&faults.clone().seed(1), 5), fates(&faults.clone().seed(1), 5));
        assert_ne!(fates(&faults.clone().seed(1), 5), fates(&faults.clone().seed(2), 5));
        assert_ne!(fates(&faults.clone().seed(1), 5), fates(&faults.seed(1), 6));
    }

    #[test]
    fn rates_are_met() {
        let faults = Faults::none().seed(3).drop(0.25).delay(0.5, Duration::from_micros(9));
        let fates = fates(&faults, 0);
        let part =
            |picked: &dyn Fn(&Fate) -> bool| fates.iter().filter(|f| picked(f)).count() as f64 / 2000.0;
        assert!((part(&|fate| fate.dropped) - 0.25).abs() < 0.04);
        assert!((part(&|fate| fate.delay == Duration::from_micros(9)) - 0.5).abs() < 0.04);
        assert_eq!(part(&|fate| fate.twice || fate.flipped.is_some()), 0.0);
    }

    #[test]
    fn senseless_rates_are_refused() {
        for bad in [1.0, -0.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                Faults::none().drop(bad).validate(),
                Err(FaultError::Rate { what: "drop", .. })
            ));
            assert!(matches!(
                Faults::none().starve(bad).validate(),
                Err(FaultError::Rate { what: "starve", .. })
            ));
        }
        assert!(Faults::none().delay(0.1, Duration::from_secs(3600)).validate().is_err());
        assert!(Faults::none().is_none() && !Faults::none().through_links().is_none());
    }
}

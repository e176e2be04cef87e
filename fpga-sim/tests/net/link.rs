//! The link layer against a cable that loses, damages, repeats, delays and swaps frames.

use std::sync::Arc;
use std::time::{Duration, Instant};

use extoll_sim::link::{CHANNELS, Frame, LinkConfig, LinkPort, REQUESTS, RESPONSES};
use proptest::prelude::*;

/// What a hostile cable does to the next frame.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Pass,
    Drop,
    Flip(usize),
    Twice,
    Late(u64),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Pass),
        1 => Just(Fate::Drop),
        1 => any::<usize>().prop_map(Fate::Flip),
        1 => Just(Fate::Twice),
        2 => (1u64..2000).prop_map(Fate::Late),
    ]
}

/// Two ends and a cable with a clock of its own: frames in flight with their arrival time and target end.
struct Cable {
    ends: [LinkPort<u32>; 2],
    flying: Vec<(u64, usize, Frame<u32>)>,
    fates: Vec<Fate>,
    used: usize,
    down: bool,
    start: Instant,
    now: u64,
}

impl Cable {
    fn new(config: LinkConfig, fates: Vec<Fate>) -> Cable {
        let ends = [LinkPort::new(config), LinkPort::new(config)];
        Cable { ends, flying: Vec::new(), fates, used: 0, down: false, start: Instant::now(), now: 0 }
    }

    fn push(&mut self, end: usize, channel: usize, packet: u32) {
        let bytes: Vec<u8> = (0..packet % 97).map(|i| (packet + i) as u8).collect();
        self.ends[end].push(channel, packet, Arc::from(bytes));
    }

    /// Frames onto the cable, each to its fate; once the list is used up they pass.
    fn transmit(&mut self) {
        let time = self.start + Duration::from_micros(self.now);
        for end in 0..2 {
            while let Some((mut frame, _)) = self.ends[end].transmit(time) {
                let fate = self.fates.get(self.used).copied().unwrap_or(Fate::Pass);
                self.used += 1;
                let mut delay = 1;
                match if self.down { Fate::Drop } else { fate } {
                    Fate::Pass => {}
                    Fate::Drop => continue,
                    Fate::Flip(bit) => {
                        let bits = frame.bytes.len() * 8;
                        frame.bytes[bit % bits / 8] ^= 1 << (bit % 8);
                    }
                    Fate::Twice => self.flying.push((self.now + 7, 1 - end, frame.clone())),
                    Fate::Late(by) => delay = by,
                }
                self.flying.push((self.now + delay, 1 - end, frame));
            }
        }
    }

    /// One microsecond, or a leap to the next thing that happens.
    fn advance(&mut self) {
        self.transmit();
        let deadlines = self.ends.iter().filter_map(|end| end.deadline());
        let timers = deadlines.map(|at| at.saturating_duration_since(self.start).as_micros() as u64);
        let next = self.flying.iter().map(|flying| flying.0).chain(timers).min();
        self.now = next.unwrap_or(0).max(self.now + 1);
        let time = self.start + Duration::from_micros(self.now);
        self.ends.iter_mut().for_each(|end| end.timeout(time));
        let (arrived, flying) = std::mem::take(&mut self.flying).into_iter().partition(|f| f.0 <= self.now);
        self.flying = flying;
        for (_, end, frame) in Vec::from_iter::<Vec<_>>(arrived) {
            self.ends[end].receive(frame);
        }
    }

    fn run(&mut self, steps: usize, mut each: impl FnMut(&mut Cable) -> bool) -> bool {
        (0..steps).any(|_| {
            self.advance();
            each(self)
        })
    }
}

/// Takes everything that arrived at `end`; a packet's number orders it within its channel.
fn take_all(cable: &mut Cable, end: usize, got: &mut [Vec<u32>; CHANNELS]) {
    for (channel, got) in got.iter_mut().enumerate() {
        got.extend(std::iter::from_fn(|| cable.ends[end].take(channel)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_arrives_once_and_in_order(
        fates in prop::collection::vec(fate(), 0..600),
        channels in prop::collection::vec(0usize..CHANNELS, 1..120),
        back in prop::collection::vec(0usize..CHANNELS, 0..60),
        window in 1usize..40,
        credits in 1u32..20,
    ) {
        let config = LinkConfig { window, credits, ..LinkConfig::default() };
        let mut cable = Cable::new(config, fates);
        let mut sent = [[vec![], vec![]], [vec![], vec![]]];
        for (end, channels) in [(0, &channels), (1, &back)] {
            for (number, &channel) in channels.iter().enumerate() {
                cable.push(end, channel, number as u32);
                sent[1 - end][channel].push(number as u32);
            }
        }
        let mut got = [[vec![], vec![]], [vec![], vec![]]];
        let done = cable.run(100_000, |cable| {
            (0..2).for_each(|end| take_all(cable, end, &mut got[end]));
            got == sent && cable.ends.iter().all(LinkPort::is_idle)
        });
        prop_assert!(done, "after {} us: got {got:?}, sent {sent:?}", cable.now);
        // Whatever still flies must not bring a packet twice.
        cable.run(200, |cable| {
            (0..2).for_each(|end| take_all(cable, end, &mut got[end]));
            false
        });
        prop_assert_eq!(got, sent);
    }
}

#[test]
fn a_clean_link_sends_each_frame_once() {
    let mut cable = Cable::new(LinkConfig::default(), vec![]);
    (0..100).for_each(|number| cable.push(0, REQUESTS, number));
    let mut got = [vec![], vec![]];
    assert!(cable.run(1000, |cable| {
        take_all(cable, 1, &mut got);
        got[REQUESTS].len() == 100 && cable.ends[0].is_idle()
    }));
    let (tx, rx) = (cable.ends[0].counters(), cable.ends[1].counters());
    assert_eq!((tx.sent, tx.retransmitted, tx.timeouts), (100, 0, 0));
    assert_eq!((rx.received, rx.received_bytes), (100, tx.sent_bytes));
    assert_eq!((rx.crc_errors, rx.sequence_errors), (0, 0));
}

#[test]
fn acknowledged_frames_are_not_sent_again() {
    // Frames arrive one by one, so that acknowledgements come while others still fly.
    let fates = (0..16).map(|i| Fate::Late(10 * i + 1)).collect();
    let mut cable = Cable::new(LinkConfig::default(), fates);
    (0..16).for_each(|number| cable.push(0, REQUESTS, number));
    assert!(
        cable.run(1000, |cable| cable.ends[0].counters().sent == 16 && cable.ends[0].unacknowledged() == 0)
    );
    assert_eq!(cable.ends[0].counters().retransmitted, 0);
}

#[test]
fn a_gap_is_repaired_before_the_timer_runs_out() {
    let mut cable = Cable::new(LinkConfig::default(), vec![Fate::Pass, Fate::Drop]);
    (0..8).for_each(|number| cable.push(0, REQUESTS, number));
    let mut got = [vec![], vec![]];
    assert!(cable.run(100, |cable| {
        take_all(cable, 1, &mut got);
        got[REQUESTS].len() == 8 && cable.ends[0].is_idle()
    }));
    let counters = cable.ends[0].counters();
    assert_eq!((counters.timeouts, counters.retransmitted), (0, 7), "asked once, from the gap on");
}

#[test]
fn faults_are_counted() {
    let mut cable = Cable::new(LinkConfig::default(), vec![Fate::Drop, Fate::Flip(50), Fate::Twice]);
    (0..3).for_each(|number| cable.push(0, REQUESTS, number));
    let mut got = [vec![], vec![]];
    assert!(cable.run(1000, |cable| {
        take_all(cable, 1, &mut got);
        got[REQUESTS] == [0, 1, 2] && cable.ends[0].is_idle()
    }));
    let (tx, rx) = (cable.ends[0].counters(), cable.ends[1].counters());
    assert!(tx.retransmitted >= 3, "{tx:?}");
    assert_eq!(rx.crc_errors, 1, "{rx:?}");
    assert!(rx.sequence_errors >= 1, "{rx:?}");
}

#[test]
fn a_cable_that_is_down_loses_nothing() {
    let mut cable = Cable::new(LinkConfig::default(), vec![]);
    cable.down = true;
    (0..50).for_each(|number| cable.push(0, REQUESTS, number));
    let mut got = [vec![], vec![]];
    cable.run(50, |cable| {
        take_all(cable, 1, &mut got);
        false
    });
    assert!(got[REQUESTS].is_empty() && cable.ends[0].counters().timeouts > 0);
    cable.down = false;
    assert!(cable.run(1000, |cable| {
        take_all(cable, 1, &mut got);
        got[REQUESTS].len() == 50
    }));
    assert_eq!(got[REQUESTS], (0..50).collect::<Vec<_>>());
}

#[test]
fn without_room_the_sender_waits_and_responses_pass_requests() {
    let config = LinkConfig { credits: 4, ..LinkConfig::default() };
    let mut cable = Cable::new(config, vec![]);
    (0..10).for_each(|number| cable.push(0, REQUESTS, number));
    cable.run(100, |_| false);
    assert_eq!(cable.ends[0].counters().sent, 4, "as many as there are credits");
    // The receiver takes no requests, yet responses get through.
    (0..3).for_each(|number| cable.push(0, RESPONSES, number));
    let mut responses = vec![];
    assert!(cable.run(100, |cable| {
        responses.extend(cable.ends[1].take(RESPONSES));
        responses == [0, 1, 2]
    }));
    let mut got = [vec![], vec![]];
    assert!(cable.run(1000, |cable| {
        take_all(cable, 1, &mut got);
        got[REQUESTS].len() == 10
    }));
}

#[test]
fn a_lost_credit_is_asked_for() {
    let config = LinkConfig { credits: 1, ..LinkConfig::default() };
    // Data, its acknowledgement, then the message that the buffer is free: lost.
    let mut cable = Cable::new(config, vec![Fate::Pass, Fate::Pass, Fate::Drop]);
    (0..2).for_each(|number| cable.push(0, REQUESTS, number));
    assert!(cable.run(10, |cable| cable.ends[0].counters().sent == 1 && cable.used == 2));
    cable.run(2, |_| false);
    assert_eq!(cable.ends[1].take(REQUESTS), Some(0));
    let mut second = None;
    assert!(cable.run(1000, |cable| {
        second = cable.ends[1].take(REQUESTS);
        second.is_some()
    }));
    assert_eq!(second, Some(1));
    assert!(cable.ends[0].counters().timeouts >= 1, "it had to ask");
}

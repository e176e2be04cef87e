//! What the wire brings, and what follows from it. A part of [`Core`].

use std::fmt::Arguments;

use ggas_wire::{Event, WireError};

use super::super::grants::{Long, WRITE};
use super::super::link::{Intake, Unfit};
use super::super::message;
use super::super::wire::Wire;
use super::Core;
use crate::network::fabric::First;

#[cold]
fn debug(what: Arguments<'_>) {
    tracing::debug!("{what}");
}

impl<W: Wire> Core<W> {
    /// Moves the wire on. Whether there are packets, or the card has to try again what was refused.
    pub fn pump(&mut self) -> bool {
        self.pump_to(None)
    }

    /// The same for a card, which has requests at once in `first`, while that is free.
    pub fn pump_to(&mut self, first: Option<&mut dyn First>) -> bool {
        let (mut lost, mut told, mut failed) = (Vec::new(), Vec::new(), false); // most often none
        if self.long.incoming.desk.is_busy() | self.offers {
            self.prepare();
        }
        let Core { wire, links, arrived, owed, counts, me, places, retry, long, meetings, .. } = self;
        let Long { incoming, landings, ended, written, releases, .. } = long;
        let (me, places, most) = (*me, *places, message::payload_of(wire.message_max()) as u32);
        let mut intake = Intake {
            links,
            arrived,
            first: first.map(|first| first as &mut dyn First),
            at_once: false,
            owed,
            known: meetings.known.as_ref(),
            may_open: !meetings.leaving, // to whom this process says no goodbye, it would be lost
            told: &mut told,
            retry,
            incoming,
            landings,
            releases,
            me,
            places,
            most,
        };
        let mut take = |taken| match taken {
            Ok(()) => {}
            Err(Unfit::Foreign) => counts.foreign += 1,
            Err(Unfit::Malformed(node)) => {
                counts.malformed += 1;
                lost.push(node);
            }
        };
        let polled = wire.poll(|event| match event {
            Event::Message(bytes) => take(intake.message(bytes)),
            Event::Written(immediate) => take(intake.written(immediate)),
            Event::Led(led) => match intake.led(&led) {
                Ok(false) => {}
                at_once => {
                    led.take();
                    take(at_once.map(|_| ()));
                }
            },
            Event::Done { token } if token & WRITE != 0 => written.push((token & !WRITE, true)),
            Event::Done { token } => ended.push((token, true)),
            Event::Failed { token, why } => {
                debug(format_args!("a read, or a write, failed: {why}"));
                match token & WRITE {
                    0 => ended.push((token, false)),
                    _ => written.push((token & !WRITE, false)),
                }
            }
            other => {
                debug(format_args!("{other:?}"));
                failed = true; // a peer is gone, or has not got something
            }
        });
        let at_once = intake.at_once;
        // Asked often, so without a branch for each part.
        let more = polled.is_err()
            | self.waits
            | !lost.is_empty()
            | failed
            | !told.is_empty()
            | !self.owed.is_empty()
            | !self.leave.is_empty()
            | self.long.has_more();
        if more {
            if !told.is_empty() {
                self.hear_told(told, &mut lost);
            }
            if failed {
                self.hear_failed(); // behind what came before
            }
            self.follow(polled.err(), lost, at_once);
        }
        let come = self.note_arrivals() || at_once;
        if come {
            self.seen.asks.spare();
        }
        self.retry || come
    }

    /// The wire has told of peers that they are gone, or have not got something.
    #[cold]
    fn hear_failed(&mut self) {
        for node in 0..self.links.len() as u16 {
            if self.links[usize::from(node)].peer.is_some_and(|peer| self.wire.has_failed(peer)) {
                self.misses(node, &"the wire says so");
            }
        }
        self.hear_news();
    }

    /// What goes before the wire is asked.
    #[inline(never)]
    fn prepare(&mut self) {
        if self.long.incoming.desk.is_busy() {
            self.serve_long(); // what cards wait for goes first
        }
        self.let_offers_go();
    }

    /// What follows from what the wire brought, but packets. `at_once`: the card had some.
    #[inline(never)]
    fn follow(&mut self, error: Option<WireError>, lost: Vec<u16>, at_once: bool) {
        if let Some(error) = error {
            tracing::warn!("{error}");
        }
        for node in lost {
            tracing::warn!("node {node} sent a packet that breaks the rules: it is treated as lost");
            self.links[usize::from(node)].ticket = 0;
            self.meetings.expel(node);
            self.hear_news();
        }
        if !self.long.written.is_empty() {
            self.hear_written(); // before more is sent: to whom a packet did not come, none goes
        }
        if self.waits {
            (self.waits, self.retry) = (false, true);
            self.tell_words();
            self.let_all_go();
        }
        // What the card has at once goes first: the next pump sees to this before it asks the wire.
        if self.long.incoming.desk.is_busy() || !self.long.incoming.released.is_empty() {
            match at_once {
                true => self.long.incoming.desk.owe(),
                false => self.serve_long(),
            }
        }
        if !self.long.landings.wanted.is_empty() {
            self.open_landings();
        }
        if !self.long.unread.is_empty() {
            self.ask_unread(None);
        }
        self.tell_owed();
        self.see_off();
    }
}

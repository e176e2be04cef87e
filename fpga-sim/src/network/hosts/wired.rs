//! Ways to processes of a job that [know each other](super::known): packets go to them at once, and that they live their packets say, or empty
//! messages, five times in the time after which who is silent is lost. That they are gone rank 0 tells all. A connection of two is made only where
//! one hears nothing of the other for a while, when rank 0 is gone, and where one does not know how to reach the other one's wire; from then on
//! all is as between processes that have met.

use std::time::{Duration, Instant};

use super::events::{Bounds, End, News, Out, Want};
use super::lives::Ways;
use super::meeting::{Meetings, State};
use super::proof::Word;
use ggas_members::meeting::bad;

/// After so many beats without a packet an empty message says that this process lives: those of all pairs cost a host with many ranks more
/// than beats of connections do, and as much as a packet for each other rank.
const SAYS: u32 = 2;
/// After so many of silence a process is called.
const MISSED: u32 = 4;

pub(super) struct Wired {
    /// Packets may go there; else it is not known how.
    met: bool,
    /// So long nothing has come; whether anything has.
    silent: Duration,
    heard: bool,
    said: Instant,
    /// It said goodbye.
    leaves: bool,
    /// The wire said that it does not reach it; what it may miss then is lost to it for good.
    doubted: bool,
    misses: bool,
    /// Rank 0 said that it is gone, and whether it left; until then what was sent before is taken.
    broke: Option<Instant>,
    left: bool,
}

impl Wired {
    /// Whether packets go there as they are to. A wire that has failed goes on failing until it is told of the process again.
    pub fn is_reached(&self) -> bool {
        self.met && !self.doubted
    }

    pub fn misses(&self) -> bool {
        self.misses
    }

    /// Whether it leaves, or left, and until when what was sent before its end is taken.
    pub fn ends(&self) -> (bool, Option<Instant>) {
        (self.leaves || self.left, self.broke)
    }

    /// The same, of a process that has ended.
    pub fn end(&self) -> End {
        if self.leaves || self.left { End::Left } else { End::Lost }
    }
}

impl Meetings {
    /// A process that is known: whether packets to it wait, where none goes now.
    pub(super) fn want_known(&mut self, node: u16, now: Instant) -> Option<Want> {
        self.known.as_ref()?;
        if self.wired(node).is_none() && matches!(self.state(node), State::Unmet) && !self.leaving {
            self.open_way(node, now);
            self.call_missed(node, now); // others may have waited too long by now
            return Some(Want::Wait);
        }
        let wired = self.wired(node)?;
        let waits = !wired.met || wired.misses;
        Some(if !waits || wired.broke.is_some() || self.leaving { Want::ThrowAway } else { Want::Wait })
    }

    /// From now on packets of a known process are taken, and go there once it is known how.
    pub(super) fn open_way(&mut self, node: u16, now: Instant) {
        let Some(known) = &self.known else { return };
        self.news.push(News::Opened { node, ticket: known.ticket(node), process: known.process(node) });
        self.way_is_open(node, now);
    }

    /// The same, of a process from which something came that it can only send to this one.
    pub fn way_is_open(&mut self, node: u16, now: Instant) {
        let wired = Wired {
            met: false,
            silent: Duration::ZERO,
            heard: false,
            said: now,
            leaves: false,
            doubted: false,
            misses: false,
            broke: None,
            left: false,
        };
        self.nodes[usize::from(node)].wired = Some(wired);
        self.meet_known(node);
        let until = self.papers_until(node, now).unwrap_or(now + self.bounds.beat);
        self.look_at_latest(until, now);
    }

    /// So long it may still be told how a process is reached.
    fn papers_until(&mut self, node: u16, now: Instant) -> Option<Instant> {
        let until = now + self.bounds.nobody;
        let met = self.wired(node).is_none_or(|wired| wired.met);
        self.known.as_mut().filter(|_| !met).map(|known| known.waits(until).unwrap_or(now))
    }

    fn meet_known(&mut self, node: u16) {
        let Some((papers, process)) =
            self.known.as_ref().and_then(|k| Some((k.papers(node)?, k.process(node)?)))
        else {
            return;
        };
        if let Some(wired) = self.nodes[usize::from(node)].wired.as_mut().filter(|wired| !wired.met) {
            wired.met = true;
            self.news.push(News::Met { node, process, papers });
        }
    }

    /// Rank 0 tells how all are reached.
    pub fn hear_papers(&mut self, papers: &[Option<Vec<u8>>]) {
        if let Some(known) = &mut self.known {
            known.hear(papers, &self.provider);
        }
        (0..self.nodes.len() as u16).for_each(|node| self.meet_known(node));
    }

    /// Rank 0 tells that a process left, or is lost.
    pub fn hear_end(&mut self, node: u16, left: bool, now: Instant) {
        let until = now + self.bounds.linger;
        let Some(of) = self.nodes.get_mut(usize::from(node)).filter(|of| !of.never) else { return };
        match (&mut of.wired, &of.state) {
            (Some(wired), _) => {
                wired.broke.get_or_insert(until);
                wired.left |= left;
                self.news.push(News::Broke { node });
            }
            (None, State::Up(_)) => {} // its connection tells, behind what it said
            (None, _) => self.gone(node, if left { End::Left } else { End::Lost }),
        }
    }

    /// Rank 0 is gone: nobody tells any more who else is.
    pub fn hear_no_more(&mut self) {
        self.alone = true;
    }

    /// The wire says that it does not reach a process. One of which nothing has come is met: that tells whether it lives, and why it is not
    /// reached. Where it may miss something that was sent to it, it is lost then. False: it is as good as met.
    pub fn doubt(&mut self, node: u16, may_miss: bool, now: Instant) -> bool {
        let wired = self.nodes[usize::from(node)].wired.as_mut();
        let Some(wired) = wired.filter(|wired| !wired.heard && wired.broke.is_none()) else { return false };
        if self.leaving {
            return false;
        }
        wired.doubted = true;
        if may_miss && !wired.misses {
            wired.misses = true;
            self.news.push(News::Broke { node });
        }
        if matches!(self.state(node), State::Unmet)
            && let Err(error) = self.call(node, now)
        {
            tracing::warn!("rank {node} cannot be called: {error}");
        }
        true
    }

    /// Whether it is to be met since the wire does not reach it.
    pub fn is_doubted(&self, node: u16) -> bool {
        self.wired(node).is_some_and(|wired| wired.doubted)
    }

    /// Something did not come to a process, or will not, as the wire says. Who cannot be [met](Self::doubt) is lost behind what it sent before,
    /// as one whose connection breaks; who leaves, once that is known otherwise.
    pub fn fails(&mut self, node: u16, may_miss: bool, now: Instant) {
        let until = now + self.bounds.linger;
        if self.leaving || self.doubt(node, may_miss, now) {
            return;
        }
        let of = &mut self.nodes[usize::from(node)];
        let broke = match (&mut of.wired, &mut of.state) {
            (Some(wired), _) if !wired.leaves => &mut wired.broke,
            (None, State::Up(up)) if !up.leaves => &mut up.broke,
            _ => return,
        };
        if broke.is_none() {
            *broke = Some(until);
            self.news.push(News::Broke { node });
            self.look_at_latest(until, now);
        }
    }

    /// Has the next look be now where it would be later than then.
    fn look_at_latest(&mut self, until: Instant, now: Instant) {
        if self.next.is_none_or(|next| next > until) {
            self.next = Some(now);
            self.out.push(Out::Look);
        }
    }

    /// Whether packets of a process are taken without a connection.
    pub fn is_wired(&self, node: u16) -> bool {
        self.wired(node).is_some()
    }

    /// Whether anything has come of a process by now that was not met.
    pub fn has_come(&self, node: u16) -> bool {
        self.wired(node).is_some_and(|wired| wired.heard)
    }

    /// Something came of it lately, whoever does not answer calls.
    pub(super) fn is_heard(&self, node: u16) -> bool {
        self.wired(node).is_some_and(|wired| wired.heard && wired.silent < MISSED * self.bounds.beat)
    }

    /// What a process says with its packets.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn told_by_wire(&mut self, node: u16, word: Word) -> std::io::Result<()> {
        let Some(wired) = &mut self.nodes[usize::from(node)].wired else { return self.told(node, word) };
        match word {
            Word::Beat { .. } => {}
            Word::Goodbye { .. } if wired.leaves => return Err(bad("it said goodbye twice")),
            Word::Goodbye { sent, taken } => {
                wired.leaves = true;
                self.news.push(News::Leaves { node, sent, taken });
            }
            Word::Farewell if self.leaving => {
                self.nodes[usize::from(node)].wired = None;
                self.hang_up(node);
                self.set(node, State::Unmet);
            }
            Word::Farewell => return Err(bad("it says farewell to who stays")),
        }
        Ok(())
    }

    /// Says goodbye where that goes with the packets.
    pub(super) fn leave_wired(&mut self, node: u16, (sent, taken): ([u32; 2], [u32; 2])) {
        let wired = &mut self.nodes[usize::from(node)].wired;
        match wired {
            Some(wired) if wired.met => {
                self.news.push(News::Tell { node, word: Word::Goodbye { sent, taken } })
            }
            _ => *wired = None,
        }
    }

    /// Whether all of a process that leaves is here.
    pub(super) fn is_leaving(&self, node: u16) -> bool {
        self.wired(node).is_some_and(|wired| wired.leaves)
    }

    /// Does what is due with a process that is not connected; when to look again.
    pub(super) fn look_at_wired(
        &mut self,
        node: u16,
        ways: Ways,
        passed: Duration,
        now: Instant,
    ) -> Option<Instant> {
        let Bounds { beat, silence, unreached, .. } = self.bounds;
        let looked = self.looked;
        let of = &mut self.nodes[usize::from(node)];
        let wired = of.wired.as_mut()?;
        let passed = passed.min(now.saturating_duration_since(wired.said)); // its way may be open since the last look
        wired.silent = if ways.fresh { Duration::ZERO } else { wired.silent + passed };
        wired.heard |= ways.fresh;
        if ways.fresh {
            of.vain = None; // of whom something comes, no call is in vain for long
        }
        let bound = if wired.heard { silence } else { unreached };
        if wired.broke.map_or(wired.silent >= bound, |until| until <= now) {
            let end = wired.end();
            // Of whom something came, no firewall has to be looked for.
            if wired.broke.is_none() && !wired.heard && matches!(of.state, State::Calling { .. }) {
                self.out.push(Out::Unanswered(node));
            }
            self.gone(node, end);
            return None;
        }
        if wired.broke.is_some() || wired.leaves || self.leaving {
            return wired.broke.or(Some(now + beat));
        }
        if ways.went {
            wired.said = wired.said.max(looked); // or later
        }
        if wired.met && now >= wired.said + SAYS * beat {
            self.news.push(News::Tell { node, word: Word::Beat { came: true } });
        }
        self.call_missed(node, now);
        let papers = self.papers_until(node, now).filter(|until| *until > now);
        papers.into_iter().chain([now + beat]).min()
    }

    /// What says that this process lives went at the last look; where there was no room for it, the next one tries again.
    pub fn has_said(&mut self, node: u16) {
        if let Some(wired) = &mut self.nodes[usize::from(node)].wired {
            wired.said = self.looked;
        }
    }

    /// Calls a process of which nothing is heard, or who cannot be reached otherwise.
    fn call_missed(&mut self, node: u16, now: Instant) {
        let Some(wired) = self.wired(node) else { return };
        // Of whom is doubted, what comes does not help.
        let misses = wired.doubted || wired.silent >= MISSED * self.bounds.beat;
        let unknown = self.papers_until(node, now).is_some_and(|until| until <= now);
        if (misses || unknown || self.alone)
            && matches!(self.state(node), State::Unmet)
            && let Err(error) = self.call(node, now)
        {
            tracing::warn!("rank {node} cannot be called: {error}");
        }
    }

    /// Ends a call, of whichever side.
    pub(super) fn hang_up(&mut self, node: u16) {
        if let State::Calling { on, .. } | State::Called { on, .. } = self.state(node) {
            let on = *on;
            self.close(on);
        }
    }

    fn wired(&self, node: u16) -> Option<&Wired> {
        self.nodes[usize::from(node)].wired.as_ref()
    }

    fn state(&self, node: u16) -> &State {
        &self.nodes[usize::from(node)].state
    }
}

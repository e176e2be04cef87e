//! Beats, goodbyes and ends of processes that were met, and what is due: the other half of [`Meetings`].

use std::io;
use std::time::{Duration, Instant};

use super::events::{Bounds, Connection, End, News, Out};
use super::meeting::{Calling, Meetings, State, Up};
use super::proof::{Answer, Hello, Papers, Word};
use ggas_members::meeting::bad;

/// Of the packets of two processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ways {
    /// Some were to go to the other one.
    pub used: bool,
    /// Some have come from there.
    pub came: bool,
}

/// Lost processes of a node that are remembered.
const LOST_MAX: usize = 16;

impl Meetings {
    pub(super) fn met(&mut self, on: Connection, node: u16, process: u64, papers: Papers, now: Instant) {
        let (silent, unheard) = (Duration::ZERO, Duration::ZERO);
        let up = Up { on, process, silent, unheard, heard: false, said: now, leaves: false, broke: None };
        self.nodes[usize::from(node)].vain = None;
        self.set(node, State::Up(up));
        self.news.push(News::Met { node, process, papers });
    }

    /// What a process that is up says.
    pub(super) fn told(&mut self, node: u16, word: Word) -> io::Result<()> {
        let State::Up(up) = &mut self.nodes[usize::from(node)].state else { return Ok(()) };
        match word {
            Word::Beat { came } => up.heard |= came,
            Word::Goodbye { .. } if up.leaves => return Err(bad("it said goodbye twice")),
            Word::Goodbye { sent, taken } => {
                up.leaves = true;
                self.news.push(News::Leaves { node, sent, taken });
            }
            Word::Farewell if self.leaving => {
                let on = up.on;
                self.close(on);
                self.set(node, State::Unmet);
            }
            Word::Farewell => return Err(bad("it says farewell to who stays")),
        }
        Ok(())
    }

    /// All that a process sent before its goodbye is here.
    pub fn has_all(&mut self, node: u16) {
        if let State::Up(Up { on, leaves: true, .. }) = self.nodes[usize::from(node)].state {
            self.say(on, Word::Farewell);
            self.gone(node, End::Left);
        }
    }

    /// A process broke the rules of packets, or cannot be reached.
    pub fn expel(&mut self, node: u16) {
        if matches!(self.nodes[usize::from(node)].state, State::Up(_)) {
            self.gone(node, End::Lost);
        }
    }

    /// Says goodbye to all, with what `counts` says of packets sent and taken.
    pub fn leave(&mut self, counts: impl Fn(u16) -> ([u32; 2], [u32; 2])) {
        self.leaving = true;
        for node in (0..self.nodes.len()).map(|node| node as u16) {
            match self.nodes[usize::from(node)].state {
                State::Up(Up { on, broke: None, .. }) => {
                    let (sent, taken) = counts(node);
                    self.say(on, Word::Goodbye { sent, taken });
                }
                State::Calling { on, .. } => {
                    self.close(on);
                    self.settle(node, State::Unmet);
                }
                // Of those who call this process is up for some already: they hear of it once they have said their papers.
                _ => {}
            }
        }
    }

    /// Nobody is left who might wait for what this process sent.
    pub fn has_left(&self) -> bool {
        let waits = |state: &State| matches!(state, State::Up(_) | State::Called { .. });
        self.leaving && !self.nodes.iter().any(|node| waits(&node.state))
    }

    /// Does what is due; when to look again. What connections brought has to be told before: a process that stood still
    /// itself takes nobody for silent. It looks at least once a beat; where more time has passed it did not run, and where it has
    /// to wait for a processor others may have to, too. So silence counts by looks, in each of which the other one could have
    /// been heard: ten of them at least, however far apart they are. `ways` says what has become of the ways of packets to and from a node.
    pub fn look(&mut self, now: Instant, ways: impl Fn(u16) -> Ways) -> Option<Instant> {
        let passed = now.saturating_duration_since(self.looked).min(self.bounds.beat);
        self.looked = now;
        let late = self.unknown.iter().filter(|unknown| unknown.until <= now);
        self.out.extend(late.map(|unknown| Out::Close(unknown.on)));
        self.unknown.retain(|unknown| unknown.until > now);
        let nodes =
            (0..self.nodes.len() as u16).filter_map(|node| self.look_at(node, ways(node), passed, now));
        let next = nodes.collect::<Vec<_>>().into_iter();
        next.chain(self.unknown.iter().map(|unknown| unknown.until)).min()
    }

    fn look_at(&mut self, node: u16, ways: Ways, passed: Duration, now: Instant) -> Option<Instant> {
        let Bounds { beat, silence, unreached, .. } = self.bounds;
        match &mut self.nodes[usize::from(node)].state {
            State::Unmet => None,
            // Of a job the packets wait.
            State::Nobody { until } if self.job && *until > now => Some(*until),
            State::Nobody { .. } if self.job => {
                self.settle(node, State::Unmet);
                None
            }
            State::Nobody { .. } => None,
            State::Awaited { until } | State::Calling { until, .. } | State::Called { until, .. }
                if *until > now =>
            {
                Some(*until)
            }
            State::Calling { on, .. } => {
                let on = *on;
                self.out.push(Out::Unanswered(node));
                self.close(on);
                self.nobody(node, now);
                None
            }
            State::Called { on, .. } => {
                let on = *on;
                self.close(on);
                self.settle(node, State::Unmet);
                None
            }
            State::Awaited { .. } => {
                self.settle(node, State::Unmet);
                None
            }
            State::Up(up) => {
                up.silent += passed;
                let before = up.unheard;
                if ways.used && !up.heard && up.broke.is_none() && !up.leaves {
                    up.unheard += passed;
                }
                let passes = |bound: Duration| before < bound && up.unheard >= bound;
                if passes(unreached / 4) {
                    self.out.push(Out::Unheard(node)); // the program may not wait until the end
                }
                let over = up.broke.map_or(up.silent >= silence, |until| until <= now);
                if over || passes(unreached) {
                    let end = if up.leaves { End::Left } else { End::Lost };
                    self.gone(node, end);
                    return None;
                }
                let on = (up.broke.is_none() && !self.leaving && now >= up.said + beat).then_some(up.on);
                if on.is_some() {
                    up.said = now;
                }
                let next = up.broke.unwrap_or(up.said.max(now) + beat);
                if let Some(on) = on {
                    self.say(on, Word::Beat { came: ways.came });
                }
                Some(next)
            }
        }
    }

    /// Nobody was met. Packets of a job are for a process that is there, or was: it is lost where that goes on.
    pub(super) fn nobody(&mut self, node: u16, now: Instant) {
        match self.job && self.in_vain(node, now) >= self.bounds.unreached {
            true => self.never_met(node),
            false => self.settle(node, State::Nobody { until: now + self.bounds.nobody }),
        }
    }

    /// So long a node is called.
    pub(super) fn in_vain(&self, node: u16, now: Instant) -> Duration {
        self.nodes[usize::from(node)]
            .vain
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// A process of a job is lost, whoever it is.
    pub(super) fn never_met(&mut self, node: u16) {
        self.nodes[usize::from(node)].never = true;
        self.gone(node, End::Lost);
    }

    pub(super) fn gone(&mut self, node: u16, end: End) {
        if let State::Up(Up { on, process, .. }) = self.nodes[usize::from(node)].state {
            if end == End::Lost {
                self.remember_lost(node, process);
            }
            self.close(on);
        }
        self.set(node, State::Unmet);
        self.news.push(News::Gone { node, end });
    }

    pub(super) fn remember_lost(&mut self, node: u16, process: u64) {
        let lost = &mut self.nodes[usize::from(node)].lost;
        if !lost.contains(&process) {
            lost.push(process);
            if lost.len() > LOST_MAX {
                lost.remove(0);
            }
        }
    }

    /// What waits for the node is tried again, or thrown away.
    pub(super) fn settle(&mut self, node: u16, state: State) {
        self.set(node, state);
        self.news.push(News::Settled { node });
    }

    pub(super) fn set(&mut self, node: u16, state: State) {
        self.nodes[usize::from(node)].state = state;
    }

    pub(super) fn close(&mut self, on: Connection) {
        self.connections.remove(&on);
        self.out.push(Out::Close(on));
    }

    /// The node that this connection calls, and how far that is.
    pub(super) fn calling(&mut self, on: Connection) -> Option<(u16, &mut Calling)> {
        let node = *self.connections.get(&on)?;
        match &mut self.nodes[usize::from(node)].state {
            State::Calling { on: own, stage, .. } if *own == on => Some((node, stage)),
            _ => None,
        }
    }

    pub(super) fn say(&mut self, on: Connection, word: Word) {
        self.out.push(Out::Say(on, word.bytes()));
    }

    pub(super) fn say_papers(&mut self, on: Connection, ticket: u64) {
        let (provider, address) = (self.provider.clone(), self.address.clone());
        self.out.push(Out::Say(on, Papers { ticket, provider, address }.bytes()));
    }

    pub(super) fn say_hello(&mut self, on: Connection, node: u16, answer: Answer) -> io::Result<()> {
        let hello = Hello { from: self.me, to: node, answer, incarnation: self.process };
        let number = (self.random)()?;
        self.out.push(Out::Say(on, hello.bytes(number)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::events::Want;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

    /// Process 0 of a job of two, or of a network.
    fn meetings(job: bool, begin: Instant) -> Meetings {
        let (mut number, wire) = (0, ("tcp".to_owned(), vec![1; 16]));
        let random = move || {
            number += 1;
            Ok(number << 17)
        };
        let bounds = Bounds::of(5 * SECOND);
        let mut meetings = Meetings::new((0, 2), 77, wire, bounds, Box::new(random), begin);
        meetings.job = job;
        meetings
    }

    /// The call that was made last.
    fn call(meetings: &mut Meetings) -> Option<Connection> {
        let called = |out| if let Out::Call(1, on) = out { Some(on) } else { None };
        std::mem::take(&mut meetings.out).into_iter().filter_map(called).next_back()
    }

    fn is_lost(meetings: &mut Meetings) -> bool {
        let gone = |news: &News| matches!(news, News::Gone { node: 1, end: End::Lost });
        std::mem::take(&mut meetings.news).iter().any(gone)
    }

    /// All of a job were there when it began: packets wait until the process is met, or is lost, which is final.
    #[test]
    fn a_process_of_a_job_that_is_not_met_is_lost() {
        let begin = Instant::now();
        let mut meetings = meetings(true, begin);
        let (mut now, mut calls) = (begin, 0);
        while !is_lost(&mut meetings) {
            assert_eq!(meetings.want(1, now), Want::Wait, "after {:?}", now - begin);
            // No answer; then the host is said not to be reached.
            if let Some(on) = call(&mut meetings) {
                calls += 1;
                if calls > 1 {
                    meetings.broke(on, now);
                }
            }
            now += SECOND / 10;
            meetings.look(now, |_| Ways::default());
        }
        assert!((10 * SECOND..11 * SECOND).contains(&(now - begin)), "{:?}", now - begin);
        assert!(calls > 10, "{calls}");
        assert_eq!(meetings.want(1, now), Want::ThrowAway);
        // It is told so when it calls.
        let on = meetings.accepted(HOST, now);
        let hello = Hello { from: 1, to: 0, answer: Answer::Come, incarnation: 5 };
        meetings.heard(on, &hello.bytes(1), now).unwrap();
        let said =
            meetings.out.iter().find_map(|out| if let Out::Say(_, body) = out { Some(body) } else { None });
        assert_eq!(Hello::of(said.unwrap()).unwrap().answer, Answer::Lost);
    }

    /// Where nobody listens for a second nobody will; in a network somebody may yet.
    #[test]
    fn who_refuses_is_gone_from_a_job_and_not_yet_in_a_network() {
        let begin = Instant::now();
        for job in [true, false] {
            let mut meetings = meetings(job, begin);
            for again in [Duration::ZERO, SECOND] {
                let now = begin + again;
                meetings.look(now, |_| Ways::default());
                assert_eq!(meetings.want(1, now), Want::Wait);
                let on = call(&mut meetings).unwrap();
                meetings.refused(on, now);
                assert_eq!(is_lost(&mut meetings), job && now > begin);
                let wait = job && now == begin;
                assert_eq!(meetings.want(1, now), if wait { Want::Wait } else { Want::ThrowAway });
            }
            assert_eq!(meetings.want(1, begin + 2 * SECOND), if job { Want::ThrowAway } else { Want::Wait });
        }
    }

    /// A cut that heals within 3 s while calls are made loses nobody.
    #[test]
    fn a_process_that_is_met_late_is_met() {
        let begin = Instant::now();
        let mut meetings = meetings(true, begin);
        assert_eq!(meetings.want(1, begin), Want::Wait);
        let on = call(&mut meetings).unwrap();
        let now = begin + 4 * SECOND;
        meetings.broke(on, now);
        meetings.look(now + SECOND, |_| Ways::default());
        assert!(!is_lost(&mut meetings));
        assert_eq!(meetings.want(1, now + SECOND), Want::Wait);
        assert!(call(&mut meetings).is_some());
    }

    /// However many call, and however often, from another host.
    #[test]
    fn strangers_cut_nobody_off_who_comes_from_a_host_with_fewer() {
        let stranger = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 9));
        strangers_cut_nobody_off(stranger, false);
    }

    /// Not even where they come from its own host: it has shown its pass.
    #[test]
    fn strangers_cut_nobody_off_who_has_a_pass() {
        strangers_cut_nobody_off(HOST, true);
    }

    fn strangers_cut_nobody_off(from: IpAddr, passes: bool) {
        let begin = Instant::now();
        let mut meetings = meetings(true, begin);
        meetings.unknown_max = 8;
        let on = meetings.accepted(HOST, begin);
        if passes {
            meetings.passed(on);
        }
        let strangers: Vec<Connection> = (0..1000).map(|_| meetings.accepted(from, begin)).collect();
        let stay = 8 - usize::from(!passes);
        assert_eq!(meetings.unknown.len(), stay + 1);
        assert_eq!(closed(&mut meetings), strangers[..1000 - stay]);
        // It says who it is in its time, and is heard.
        let hello = Hello { from: 1, to: 0, answer: Answer::Come, incarnation: 5 };
        meetings.heard(on, &hello.bytes(1), begin + 4 * SECOND).unwrap();
        assert!(
            matches!(meetings.out[..], [Out::Say(hello, _), Out::Say(papers, _)] if [hello, papers] == [on; 2])
        );
        // Others have that time as well, and no more.
        meetings.look(begin + 5 * SECOND, |_| Ways::default());
        assert!(meetings.unknown.is_empty());
    }

    /// Passes may be shown again by who recorded them: there is an end to their places, too, and to their time.
    #[test]
    fn few_callers_with_passes_are_kept() {
        let begin = Instant::now();
        let mut meetings = meetings(true, begin);
        meetings.unknown_max = 8;
        let stranger = meetings.accepted(HOST, begin);
        let callers: Vec<Connection> = (0..100)
            .map(|_| {
                let on = meetings.accepted(HOST, begin);
                meetings.passed(on);
                on
            })
            .collect();
        assert_eq!(closed(&mut meetings), callers[..92]);
        assert!(meetings.unknown.iter().any(|unknown| unknown.on == stranger));
        meetings.look(begin + 5 * SECOND, |_| Ways::default());
        assert!(meetings.unknown.is_empty());
    }

    /// Connections that were ended since the last look.
    fn closed(meetings: &mut Meetings) -> Vec<Connection> {
        let closed = |out| if let Out::Close(on) = out { Some(on) } else { None };
        std::mem::take(&mut meetings.out).into_iter().filter_map(closed).collect()
    }
}

//! What becomes of who is called, and of who calls.

mod known;

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::network::hosts::events::Want;
use crate::network::hosts::known::Known;

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

/// While it is wanted now and then no packet waits for it; when it is not, it is called no more, and the next one waits again.
#[test]
fn a_silent_host_is_called_again_while_it_is_wanted() {
    let begin = Instant::now();
    let mut meetings = meetings(false, begin);
    assert_eq!(meetings.want(1, begin), Want::Wait);
    let (mut calls, mut next) = (Vec::new(), begin);
    for second in 0..300 {
        let now = begin + SECOND * second;
        if now >= next {
            next = meetings.look(now, |_| Ways::default()).unwrap_or(begin + 1000 * SECOND);
        }
        if [50, 100].contains(&second) {
            assert_eq!(meetings.want(1, now), Want::ThrowAway);
            next = now;
        }
        calls.extend(call(&mut meetings).map(|_| second));
    }
    let apart: Vec<u32> = calls.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(apart.iter().all(|apart| *apart <= 16), "{calls:?}");
    assert!((140..165).contains(calls.last().unwrap()), "{calls:?}");
    assert_eq!(meetings.want(1, begin + 300 * SECOND), Want::Wait);
}

/// Of two calls at once that of the lower node counts, unless the other one alone is through.
#[test]
fn a_call_is_taken_while_the_own_one_is_not_through() {
    let begin = Instant::now();
    for through in [false, true] {
        let mut meetings = meetings(true, begin);
        assert_eq!(meetings.want(1, begin), Want::Wait);
        let own = call(&mut meetings).unwrap();
        if through {
            meetings.connected(own, begin);
        }
        let on = meetings.accepted(HOST, begin);
        let hello = Hello { from: 1, to: 0, answer: Answer::Come, incarnation: 5 };
        meetings.heard(on, &hello.bytes(1), begin).unwrap();
        let says = |out: &Out| if let Out::Say(to, body) = out { Some((*to, body.clone())) } else { None };
        let answer = meetings.out.iter().filter_map(says).find(|(to, _)| *to == on);
        let answer = Hello::of(&answer.unwrap().1).unwrap().answer;
        assert_eq!(answer, if through { Answer::Busy } else { Answer::Come });
        assert_eq!(closed(&mut meetings), [if through { on } else { own }]);
        let papers = Papers { ticket: 5, provider: "tcp".to_owned(), address: vec![1; 16] };
        meetings.heard(on, &papers.bytes(), begin).unwrap();
        let met = |news: &News| matches!(news, News::Met { node: 1, .. });
        assert_eq!(meetings.news.iter().any(met), !through);
        // What becomes of the own call then matters no more.
        meetings.broke(own, begin);
        assert_eq!(meetings.news.iter().any(|news| matches!(news, News::Settled { .. })), through);
    }
}

/// The processes of a job know each other by their numbers.
#[test]
fn a_process_of_another_run_of_the_job_is_not_met() {
    let begin = Instant::now();
    let mut meetings = meetings(true, begin);
    meetings.known = Some(Known::new([7; 16], 0, vec![77, 5]));
    for (incarnation, is_it) in [(6, false), (5, true)] {
        let on = meetings.accepted(HOST, begin);
        let hello = Hello { from: 1, to: 0, answer: Answer::Come, incarnation };
        assert_eq!(meetings.heard(on, &hello.bytes(1), begin).is_ok(), is_it);
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

/// What passed before two met is no silence of theirs.
#[test]
fn silence_begins_where_two_meet() {
    let begin = Instant::now();
    let mut meetings = meetings(false, begin);
    let met = begin + 4 * SECOND;
    let papers = Papers { ticket: 5, provider: "tcp".to_owned(), address: vec![1; 16] };
    meetings.met(9, 1, 5, papers, met);
    let mut now = met;
    while !is_lost(&mut meetings) {
        meetings.look(now, |_| Ways::default());
        now += SECOND / 2;
    }
    assert_eq!(now - SECOND / 2, met + 5 * SECOND);
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

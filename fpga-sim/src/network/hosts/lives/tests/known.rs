//! Processes of a job, which know each other.

use super::*;
use crate::network::hosts::meeting::{State, Up};

const MEETING: Duration = Duration::from_millis(250);

/// Process 0 of a job of three.
fn job(begin: Instant) -> Meetings {
    let random = Box::new(|| Ok(7 << 17));
    let wire = ("tcp".to_owned(), vec![1; 16]);
    let mut meetings = Meetings::new((0, 3), 77, wire, Bounds::of(5 * SECOND), random, begin);
    meetings.job = true;
    meetings.known = Some(Known::new([7; 16], 0, vec![77, 5, 6]));
    meetings
}

fn look(meetings: &mut Meetings, at: Instant, fresh: bool) -> Option<Instant> {
    meetings.look(at, |node| Ways { fresh: fresh && node == 1, ..Ways::default() })
}

fn end(meetings: &mut Meetings) -> Option<End> {
    let end = |news| if let News::Gone { node: 1, end } = news { Some(end) } else { None };
    std::mem::take(&mut meetings.news).into_iter().find_map(end)
}

fn calls(meetings: &mut Meetings) -> Vec<u16> {
    let called = |out| if let Out::Call(node, _) = out { Some(node) } else { None };
    std::mem::take(&mut meetings.out).into_iter().filter_map(called).collect()
}

#[test]
fn papers_that_do_not_come_cost_no_more_than_is_waited_for_them() {
    let begin = Instant::now();
    let mut meetings = job(begin);
    assert_eq!(meetings.want(1, begin), Want::Wait);
    assert!(meetings.out.iter().any(|out| matches!(out, Out::Look)));
    assert_eq!(look(&mut meetings, begin, false), Some(begin + MEETING));
    assert!(calls(&mut meetings).is_empty());
    look(&mut meetings, begin + MEETING, false);
    assert_eq!(calls(&mut meetings), [1]);
    // For the next one they have been waited for.
    assert_eq!(meetings.want(2, begin + MEETING), Want::Wait);
    assert_eq!(calls(&mut meetings), [2]);
}

/// Also where the next look is not due before.
#[test]
fn papers_that_do_not_come_in_time_are_looked_for() {
    let begin = Instant::now();
    let mut meetings = job(begin);
    meetings.way_is_open(1, begin);
    look(&mut meetings, begin, true);
    look(&mut meetings, begin + MEETING, true);
    calls(&mut meetings);
    meetings.way_is_open(2, begin + MEETING);
    assert!(matches!(meetings.out[..], [Out::Look]));
    look(&mut meetings, begin + MEETING, true);
    assert_eq!(calls(&mut meetings), [2]);
}

/// Packets say that this process lives: no second passes without one or an empty message.
#[test]
fn who_sends_packets_says_nothing_else() {
    let begin = Instant::now();
    let mut meetings = job(begin);
    meetings.known.as_mut().unwrap().hear(&vec![Some(Known::own("tcp", &[1; 16])); 3], "tcp");
    meetings.open_way(1, begin);
    let mut beats = Vec::new();
    for at in 0..12 {
        // Packets go behind the first look, the sixth one and the seventh.
        let (now, went) = (begin + SECOND / 2 * at, [1, 6, 7].contains(&at));
        meetings.look(now, |node| Ways { went: went && node == 1, fresh: true, ..Ways::default() });
        let says = |news: &News| matches!(news, News::Tell { node: 1, word: Word::Beat { .. } });
        let says = std::mem::take(&mut meetings.news).iter().any(says);
        beats.extend(says.then_some(at));
        if says && at != 8 {
            meetings.has_said(1); // else there was no room
        }
    }
    assert_eq!(beats, [2, 4, 8, 9, 11]);
}

/// What passed before its first packet is no silence of a process.
#[test]
fn silence_begins_with_the_way() {
    let begin = Instant::now();
    let mut meetings = job(begin);
    meetings.known.as_mut().unwrap().hear(&vec![Some(Known::own("tcp", &[1; 16])); 3], "tcp");
    let opened = begin + 4 * SECOND;
    meetings.open_way(1, opened);
    let mut now = opened;
    while calls(&mut meetings).is_empty() {
        look(&mut meetings, now, false);
        now += SECOND / 2;
    }
    // It is called after two seconds.
    assert_eq!(now - SECOND / 2, opened + 2 * SECOND);
}

/// It may have the same secret.
#[test]
fn another_run_of_the_job_harms_nobody() {
    let begin = Instant::now();
    let hello = |answer| Hello { from: 1, to: 0, answer, incarnation: 9 }.bytes(1);
    let mut meetings = job(begin);
    meetings.open_way(1, begin);
    let (silent, unheard, heard) = (Duration::ZERO, Duration::ZERO, false);
    let up = Up { on: 99, process: 5, silent, unheard, heard, said: begin, leaves: false, broke: None };
    meetings.set(1, State::Up(up));
    let on = meetings.accepted(HOST, begin);
    assert!(meetings.heard(on, &hello(Answer::Come), begin).is_err());
    assert!(matches!(meetings.nodes[1].state, State::Up(Up { on: 99, .. })));
    assert_eq!(end(&mut meetings), None);
    // Nor where it listens at a place of this run.
    for answer in [Answer::Come, Answer::Lost, Answer::Busy] {
        let mut meetings = job(begin);
        meetings.call(1, begin).unwrap();
        let on = call(&mut meetings).unwrap();
        meetings.connected(on, begin);
        assert!(meetings.heard(on, &hello(answer), begin).is_err(), "{answer:?}");
        assert!(matches!(meetings.nodes[1].state, State::Nobody { .. }), "{answer:?}");
        assert_eq!(end(&mut meetings), None, "{answer:?}");
    }
}

#[test]
fn who_has_left_is_not_lost_by_what_comes_of_it_later() {
    let begin = Instant::now();
    for left in [true, false] {
        let mut meetings = job(begin);
        meetings.open_way(1, begin);
        meetings.hear_end(1, left, begin);
        meetings.expel(1);
        assert_eq!(end(&mut meetings), Some(if left { End::Left } else { End::Lost }));
    }
}

/// A host that ends is no firewall.
#[test]
fn of_whom_something_came_it_is_not_said_that_there_is_no_answer() {
    let begin = Instant::now();
    for heard in [true, false] {
        let mut meetings = job(begin);
        meetings.open_way(1, begin);
        look(&mut meetings, begin, heard);
        let (mut now, mut unanswered) = (begin, false);
        while end(&mut meetings).is_none() {
            now += SECOND / 2;
            look(&mut meetings, now, false);
            unanswered |= meetings.out.iter().any(|out| matches!(out, Out::Unanswered(1)));
        }
        assert_eq!((unanswered, now >= begin + 10 * SECOND), (!heard, !heard));
    }
}

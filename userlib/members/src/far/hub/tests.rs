//! Ranks that have the secret, and break the rules or end: they are lost, and nobody else; what they said before counts.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Hub, Serving, Shared};
use crate::far::Meet;
use crate::far::frame::{FROM_HUB, FromHub, FromRank, Hello, PAPERS_MAX, frame, take};
use crate::far::reach::reach;
use crate::far::shared::WINDOW;
use crate::shape::Shape;
use ggas_clock::Clock;

const LONG: Duration = Duration::from_secs(60);

/// A hub, and the connections of its three ranks, which have heard that all have come.
fn job() -> (Hub, Vec<Rank>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let places = vec![listener.local_addr().unwrap().to_string()];
    let shape = Shape::new(3, 1).unwrap();
    let hub = Hub::start(listener, "job-a", shape, [7; 16]).unwrap();
    let meet = Meet { places, secret: [7; 16], listener: None };
    let rank = |rank: u32| {
        let stream = reach(rank, &meet, &hello(rank), Clock::REAL.deadline(LONG), LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Rank { stream, came: Vec::new() }
    };
    let mut ranks: Vec<Rank> = (0..3).map(rank).collect();
    ranks.iter_mut().for_each(|rank| assert!(matches!(rank.hears(), FromHub::Start(_))));
    (hub, ranks)
}

fn hello(rank: u32) -> Hello {
    let (job, host) = ("job-a".to_owned(), "h".to_owned());
    Hello { job, rank, size: 3, per_node: 1, token: 9, host, port: 1, nonce: rank.into() }
}

/// What serves such a job, which serves nobody by itself, and the ranks' ends of its connections.
fn served() -> (Serving, Vec<Rank>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shared = Shared::new("job-a", Shape::new(3, 1).unwrap(), [7; 16]).unwrap();
    let rank = |rank: u32| {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let (served, _) = listener.accept().unwrap();
        served.set_nonblocking(true).unwrap();
        shared.came.lock().unwrap().push((hello(rank), Arc::new(served)));
        Rank { stream, came: Vec::new() }
    };
    let mut ranks: Vec<Rank> = (0..3).map(rank).collect();
    let mut serving = Serving::new(Arc::new(shared));
    serving.enter_those_who_came();
    ranks.iter_mut().for_each(|rank| assert!(matches!(rank.hears(), FromHub::Start(_))));
    (serving, ranks)
}

struct Rank {
    stream: TcpStream,
    came: Vec<u8>,
}

impl Rank {
    fn says(&mut self, said: &FromRank) {
        let _ = self.stream.write_all(&frame(said)); // it may be over
    }

    fn hears(&mut self) -> FromHub {
        let mut bytes = [0; 4096];
        loop {
            if let Some(said) = take(&mut self.came, FROM_HUB).unwrap() {
                return said;
            }
            let len = self.stream.read(&mut bytes).unwrap();
            assert!(len > 0, "the hub is gone");
            self.came.extend_from_slice(&bytes[..len]);
        }
    }

    /// Hears that this one is lost, behind so many messages of it.
    fn hears_of(&mut self, lost: u32, messages: u32) {
        for _ in 0..messages {
            let said = self.hears();
            assert!(matches!(said, FromHub::Told { from, .. } if from == lost), "{said:?}");
        }
        let said = self.hears();
        assert!(matches!(said, FromHub::Gone { rank, left: false, .. } if rank == lost), "{said:?}");
    }
}

#[test]
fn who_sends_more_messages_than_it_may_is_lost() {
    let (_hub, mut ranks) = job();
    for _ in 0..WINDOW + 1 {
        ranks[2].says(&FromRank::Tell { to: 1, kind: 5, body: vec![1; 100] });
    }
    ranks[1].hears_of(2, WINDOW);
    ranks[0].hears_of(2, 0);
}

#[test]
fn who_lies_about_messages_or_calls_is_lost() {
    let lies = [
        FromRank::Took { from: 1, messages: 1 },
        FromRank::Enter { call: 7, bytes: None },
        FromRank::Took { from: 2, messages: u32::MAX },
    ];
    for lie in lies {
        let (_hub, mut ranks) = job();
        ranks[2].says(&lie);
        ranks[1].hears_of(2, 0);
        // The others go on, and of those that are not there nothing is to be told.
        ranks[1].says(&FromRank::Tell { to: 2, kind: 5, body: Vec::new() });
        ranks[1].says(&FromRank::Tell { to: 99, kind: 5, body: Vec::new() });
        ranks[1].says(&FromRank::Tell { to: 0, kind: 5, body: Vec::new() });
        ranks[0].hears_of(2, 0);
        assert!(matches!(ranks[0].hears(), FromHub::Told { from: 1, .. }));
    }
}

/// A length that lies, and bytes that are no frame.
#[test]
fn who_says_what_is_none_is_lost() {
    for garbage in [&[0xff; 8][..], &[1, 0, 0, 0, 99]] {
        let (_hub, mut ranks) = job();
        ranks[2].stream.write_all(garbage).unwrap();
        ranks[1].hears_of(2, 0);
    }
}

/// The hub looks late: all that a rank said, and its end, are there at once.
#[test]
fn what_a_rank_said_before_its_end_is_passed_on() {
    for end in ["closed", "garbage", "reset"] {
        let (mut serving, mut ranks) = served();
        let mut last = ranks.pop().unwrap();
        for _ in 0..100 {
            last.says(&FromRank::Tell { to: 1, kind: 5, body: vec![1; 100] });
        }
        last.says(&FromRank::Enter { call: 1, bytes: None });
        let of_last = serving.ranks[2].as_mut().unwrap();
        match end {
            "garbage" => last.stream.write_all(&[0xff; 8]).unwrap(),
            // What is closed with something unread is reset, and what it is told then fails.
            "reset" => {
                of_last.stream.as_ref().write_all(&[0; 8]).unwrap();
                last.stream.peek(&mut [0]).unwrap();
                of_last.out.push_back(Arc::from([1_u8; 8]));
            }
            _ => {}
        }
        drop(last);
        let hangs_up = PollFlags::from_bits_retain(libc::POLLRDHUP);
        poll(&mut [PollFd::new(of_last.stream.as_fd(), hangs_up)], PollTimeout::NONE).unwrap();
        serving.serve(2);
        ranks[1].hears_of(2, 100);
        let said = ranks[0].hears();
        assert!(matches!(said, FromHub::Gone { rank: 2, left: false, entered: 1 }), "{end}: {said:?}");
    }
}

/// The last rank that enters a call ends at once, and the hub finds both in one look.
#[test]
fn a_call_that_who_ends_was_the_last_to_enter_is_over() {
    for left in [true, false] {
        let (mut serving, mut ranks) = served();
        for (rank, of) in ranks.iter_mut().enumerate() {
            let mut said = frame(&FromRank::Enter { call: 1, bytes: Some(vec![rank as u8]) });
            match (rank, left) {
                (2, true) => said.extend(frame(&FromRank::Leave)),
                (2, false) => said.extend([0xff; 8]),
                _ => {}
            }
            of.stream.write_all(&said).unwrap();
            let came = serving.ranks[rank].as_ref().unwrap().stream.clone();
            poll(&mut [PollFd::new(came.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
            serving.serve(rank);
        }
        for rank in &mut ranks[..2] {
            let bytes = [0, 1, 2].map(|rank| Some(vec![rank])).to_vec();
            assert_eq!(rank.hears(), FromHub::All { call: 1, bytes });
            assert_eq!(rank.hears(), FromHub::Gone { rank: 2, left, entered: 1 });
        }
    }
}

#[test]
fn papers_go_to_all_once_all_that_are_there_have_said_theirs() {
    let (_hub, mut ranks) = job();
    ranks[0].says(&FromRank::Papers(vec![0]));
    ranks[1].says(&FromRank::Papers(vec![1; PAPERS_MAX]));
    // Nobody has heard any before this comes back.
    ranks[1].says(&FromRank::Tell { to: 0, kind: 5, body: Vec::new() });
    assert!(matches!(ranks[0].hears(), FromHub::Told { .. }));
    drop(ranks.pop());
    for rank in &mut ranks {
        assert!(matches!(rank.hears(), FromHub::Gone { rank: 2, .. }));
        assert_eq!(rank.hears(), FromHub::Papers(vec![Some(vec![0]), Some(vec![1; PAPERS_MAX]), None]));
    }
}

#[test]
fn who_says_papers_twice_or_too_long_ones_is_lost() {
    for lie in [vec![1; 5], vec![1; PAPERS_MAX + 1]] {
        let (_hub, mut ranks) = job();
        if lie.len() <= PAPERS_MAX {
            ranks[2].says(&FromRank::Papers(lie.clone()));
        }
        ranks[2].says(&FromRank::Papers(lie));
        ranks[1].hears_of(2, 0);
    }
    // Also when all have heard them.
    let (_hub, mut ranks) = job();
    ranks.iter_mut().for_each(|rank| rank.says(&FromRank::Papers(Vec::new())));
    assert!(matches!(ranks[1].hears(), FromHub::Papers(_)));
    ranks[2].says(&FromRank::Papers(Vec::new()));
    ranks[1].hears_of(2, 0);
}

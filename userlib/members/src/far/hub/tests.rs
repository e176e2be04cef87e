//! Ranks that have the secret, and break the rules: they are lost, and nobody else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::Hub;
use crate::far::Meet;
use crate::far::frame::{FROM_HUB, FromHub, FromRank, Hello, frame, take};
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
        let (job, host) = ("job-a".to_owned(), "h".to_owned());
        let hello = Hello { job, rank, size: 3, per_node: 1, token: 9, host, port: 1, nonce: rank.into() };
        let stream = reach(rank, &meet, &hello, Clock::REAL.deadline(LONG), LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Rank { stream, came: Vec::new() }
    };
    let mut ranks: Vec<Rank> = (0..3).map(rank).collect();
    ranks.iter_mut().for_each(|rank| assert!(matches!(rank.hears(), FromHub::Start(_))));
    (hub, ranks)
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

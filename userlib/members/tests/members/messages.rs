//! Messages between members: all arrive, in order, whoever connects first and whenever they are asked for.

use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ggas_members::{Member, Members, NetworkShape};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
const KIND: u16 = 40;

#[test]
fn messages_keep_their_order_whoever_connects_first() {
    const MESSAGES: u32 = 30;
    let first = Member::join_private(&NetworkShape::default(), 0).unwrap();
    for round in 0..300u64 {
        let pair = [1, 2].map(|node| Member::join_network(first.network(), first.shape(), node).unwrap());
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for (me, to) in [(&pair[0], pair[1].me()), (&pair[1], pair[0].me())] {
                let start = &start;
                scope.spawn(move || {
                    let heard = Arc::new(Mutex::new(Vec::new()));
                    let list = heard.clone();
                    start.wait();
                    for number in 0..MESSAGES {
                        // What comes before it is asked for is kept.
                        if u64::from(number) == round % 40 {
                            listen(me, &list);
                        }
                        let sent = me.send(to, KIND, &number.to_ne_bytes(), &[], Instant::now() + SOON);
                        assert!(sent.unwrap());
                    }
                    if round % 40 >= u64::from(MESSAGES) {
                        listen(me, &list);
                    }
                    let deadline = Instant::now() + SOON;
                    while heard.lock().unwrap().len() < MESSAGES as usize {
                        assert!(Instant::now() < deadline, "{:?}", heard.lock().unwrap());
                        std::thread::yield_now();
                    }
                    assert!(
                        heard.lock().unwrap().iter().copied().eq(0..MESSAGES),
                        "{:?}",
                        heard.lock().unwrap()
                    );
                });
            }
        });
    }
}

fn listen(member: &Member, heard: &Arc<Mutex<Vec<u32>>>) {
    let heard = heard.clone();
    member.handle(
        KIND,
        Arc::new(move |_, body, _| {
            let number = body.try_into().map(u32::from_ne_bytes).expect("a number");
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }),
    );
}

/// A member's threads of messages, held up until this is dropped.
struct HeldUp(Arc<Barrier>);

impl HeldUp {
    fn new(member: &Member) -> HeldUp {
        let barrier = Arc::new(Barrier::new(2));
        let there = barrier.clone();
        member.soon(Duration::ZERO, move || {
            there.wait();
            there.wait();
        });
        barrier.wait();
        HeldUp(barrier)
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Where both have connected at once, and one left before the other has looked at its connection.
#[test]
fn what_one_said_that_left_is_heard_on_each_connection() {
    const MESSAGES: u32 = 30;
    let stays = Member::join_private(&NetworkShape::default(), 0).unwrap();
    let leaves = Member::join_network(stays.network(), stays.shape(), 1).unwrap();
    let (say, heard) = std::sync::mpsc::channel();
    let gone = say.clone();
    stays.handle(KIND, Arc::new(move |_, body, _| say.send(Some(body)).unwrap_or_default()));
    let _gone = stays.on_gone(Arc::new(move |_, _| gone.send(None).unwrap_or_default()));
    let held = [&stays, &leaves].map(|member| HeldUp::new(member));
    assert!(stays.send(leaves.me(), KIND, &[], &[], Instant::now() + SOON).unwrap());
    for number in 0..MESSAGES {
        assert!(leaves.send(stays.me(), KIND, &number.to_ne_bytes(), &[], Instant::now() + SOON).unwrap());
    }
    let [here, there] = held;
    drop(there);
    drop(leaves);
    drop(here);
    let said: Vec<_> = std::iter::from_fn(|| heard.recv_timeout(SOON).expect("all, and its end")).collect();
    assert!(said.into_iter().eq((0..MESSAGES).map(|number| number.to_ne_bytes().to_vec())));
}

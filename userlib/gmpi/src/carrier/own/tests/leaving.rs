//! The end: what others are owed leaves, whoever dies meanwhile.

use extoll_sim::faults::{Event, Faults};
use ggas::device::PeerEnd;

use super::*;

/// The card has taken the frames, and they wait for their way there: whoever left now would lose them with their memory.
#[test]
fn frames_that_wait_in_the_card_have_not_left() {
    let network = SimNetwork::builder().nodes(2).faults(Faults::none().through_links());
    let mut pair = Pair::over(network.build().expect("a network"));
    let happen =
        |pair: &Pair, event| pair.network.torus().expect("a torus").happen(event).expect("it happens");
    let sent = pair.fill(0);
    happen(&pair, Event::Stop(1));
    let nla = pair.own[1].regions[0].nla(0).expect("in range");
    let own = &mut pair.own[0];
    let put = own.net.put(1, &own.regions[0], 0, BYTES, nla).expect("it goes");
    assert_eq!(put, BYTES, "more than lies on the way");
    pair.until("the card has it", |pair| pair.own[0].net.port().outstanding() == 0);
    (0..100).for_each(|_| assert!(!pair.own[0].is_quiet(), "it cannot have left"));
    happen(&pair, Event::Resume(1));
    pair.until("it leaves", |pair| pair.own[0].is_quiet());
    drop(pair.own.remove(0));
    pair.until("it arrives", |pair| pair.read(1, 0, BYTES) == sent);
}

/// Rank 1 is through the barrier at the end while rank 0 waits for rank 2, which waits for rank 1's first word.
#[test]
fn who_left_in_order_does_not_end_the_last_barrier_of_others() {
    let mut own = several(4);
    let tokens: Vec<Token> = own.iter_mut().map(|own| own.begin_closing().expect("it begins")).collect();
    // What rank 2 says first leaves, and it takes nothing.
    let first_word = |own: &mut Own| {
        let mut over = Vec::new();
        own.flow.send(&mut own.net, &own.regions, &mut over).expect("it goes");
    };
    first_word(&mut own[2]);
    let mut ended = None;
    work(&mut own, &[0, 1, 3], "rank 1 is through", |own| {
        ended = own[1].test(tokens[1]);
        ended.is_some()
    });
    assert!(matches!(ended, Some(Ok(_))), "{ended:?}");
    work(&mut own, &[0, 1], "its frames are here", |own| own[1].is_quiet());
    own[0].net.ended(1, PeerEnd::Left);
    own[0].progress();
    assert_eq!(own[0].test(tokens[0]), None, "rank 2 comes yet");
    work(&mut own, &[0, 2], "rank 2", |own| own[2].is_quiet() && !own[0].pending.contains_key(&tokens[0]));
    assert_eq!(own[0].test(tokens[0]), Some(Ok(Status::EMPTY)));
}

/// Rank 0 waits for what rank 2 says.
#[test]
fn who_left_before_the_last_barrier_ends_it() {
    for end in [PeerEnd::Left, PeerEnd::Lost] {
        let mut own = several(4);
        let token = own[0].begin_closing().expect("it begins");
        own[0].net.ended(2, end);
        own[0].progress();
        assert_eq!(own[0].test(token), Some(Err(Class::PROC_FAILED)), "{end:?}");
    }
}

/// More frames than fit on the way wait for a process that lives.
#[test]
fn behind_a_death_what_others_are_owed_still_leaves() {
    const COUNT: u64 = 40;
    let mut own = several(3);
    let memory = Arc::new(Processor::cpu().alloc(8 * COUNT as usize).expect("memory"));
    for own in &mut own {
        own.attach(0, memory.clone()).expect("attached");
    }
    own[0].gone[2].store(true, Ordering::Release);
    own[0].progress();
    for i in 0..COUNT as usize {
        let at = Span { index: 0, memory: memory.clone(), offset: 8 * i, len: 8, shape: None };
        own[0].start(&Operation::Send { at, of: OF, to: 1, tag: 0, comm: 0 }).expect("it starts");
    }
    let mut leaving = own.remove(0);
    let left = std::thread::spawn(move || leaving.leave());
    work(&mut own, &[0], "all messages", |own| {
        own[0].matching.kept().count() == COUNT as usize || left.is_finished()
    });
    left.join().expect("no panic").expect("it leaves");
    work(&mut own, &[0], "the last of them", |own| own[0].matching.kept().count() == COUNT as usize);
}

/// One that takes nothing is not waited for longer than the host has said.
#[test]
fn behind_a_death_the_end_is_bounded() {
    let mut own = several(3);
    let memory = Arc::new(Processor::cpu().alloc(8).expect("memory"));
    let mut first = own.remove(0).timeout(Duration::from_millis(20));
    first.attach(0, memory.clone()).expect("attached");
    first.gone[2].store(true, Ordering::Release);
    first.progress();
    for _ in 0..CREDITS {
        let at = Span { index: 0, memory: memory.clone(), offset: 0, len: 8, shape: None };
        first.start(&Operation::Send { at, of: OF, to: 1, tag: 0, comm: 0 }).expect("it starts");
    }
    assert!(matches!(first.leave(), Err(GmpiError::Timeout { .. })));
}

/// More frames than fit on the way wait for rank 1, which takes none before rank 2 has died in the midst of the last barrier.
#[test]
fn a_death_within_the_last_barrier_ends_it_and_what_is_owed_still_leaves() {
    const COUNT: usize = 40;
    let mut own = several(3);
    let memory = Arc::new(Processor::cpu().alloc(8 * COUNT).expect("memory"));
    for own in &mut own {
        own.attach(0, memory.clone()).expect("attached");
    }
    let closing = own[0].begin_closing().expect("it begins");
    for i in 0..COUNT {
        let at = Span { index: 0, memory: memory.clone(), offset: 8 * i, len: 8, shape: None };
        own[0].start(&Operation::Send { at, of: OF, to: 1, tag: 0, comm: 0 }).expect("it starts");
    }
    own[0].progress();
    assert!(own[0].pending.contains_key(&closing), "the barrier waits for rank 2");
    own[0].gone[2].store(true, Ordering::Release);
    let mut leaving = own.remove(0);
    let left = std::thread::spawn(move || leaving.leave());
    // Beside those of the barrier.
    let came = |own: &[Own]| own[0].matching.kept().filter(|kept| kept.envelope.context == 0).count();
    work(&mut own, &[0], "the last of them, or the end", |own| came(own) == COUNT || left.is_finished());
    let ended = left.join().expect("no panic");
    let failed = matches!(ended, Err(GmpiError::Failed { class: Class::PROC_FAILED, .. }));
    assert!(failed, "{ended:?}");
    work(&mut own, &[0], "what was owed", |own| came(own) == COUNT);
}

//! Communicators that were freed, here or there.

use super::*;

const COMM: usize = 2;

/// Both in one more communicator.
fn with_another() -> Pair {
    let mut pair = Pair::new();
    for (rank, own) in pair.own.iter_mut().enumerate() {
        let members = vec![0, 1];
        own.groups.push(Some(Group { context: 4, rank: rank as u32, members, collectives: 0, freed: None }));
        own.next_context = 6;
    }
    pair
}

fn send(pair: &mut Pair, from: usize, to: u32, len: usize) -> Token {
    let at = pair.span(from, 0, len);
    pair.own[from].start(&Operation::Send { at, of: OF, to, tag: 0, comm: COMM }).expect("it starts")
}

fn ended(pair: &mut Pair, what: &str, rank: usize, token: Token) -> Result<Status, Class> {
    let mut ended = None;
    pair.until(what, |pair| {
        ended = pair.own[rank].test(token);
        ended.is_some()
    });
    ended.expect("it has ended")
}

#[test]
fn messages_that_nobody_will_receive_give_their_credits_back() {
    let mut pair = with_another();
    // Some wait as it is freed, the others come behind that.
    for _ in 0..10 {
        send(&mut pair, 0, 1, 8);
    }
    pair.until("they wait", |pair| pair.kept(1) == (10, 0));
    pair.own[1].free(COMM);
    assert_eq!(pair.kept(1), (0, 0));
    for i in 0..3 * CREDITS {
        let token = send(&mut pair, 0, 1, 8);
        let how = ended(&mut pair, "a send", 0, token);
        assert!(matches!(how, Ok(_) | Err(Class::COMM)), "send {i}: {how:?}");
        assert_eq!(pair.kept(1), (0, 0), "send {i}");
    }
    // Those of other communicators have credits.
    pair.until("a credit", |pair| pair.own[0].net.takes_credit(1));
    let token = pair.send(0, 1, 0, 8);
    pair.finish("a send of another one", 0, token);
    pair.until("it is there", |pair| pair.kept(1) == (1, 0));
}

#[test]
fn a_send_whose_bytes_wait_is_refused() {
    let mut pair = with_another();
    let before = send(&mut pair, 0, 1, 20_000);
    let own = send(&mut pair, 1, 1, 20_000);
    pair.until("it is known", |pair| pair.kept(1).1 == 1);
    pair.own[1].free(COMM);
    assert_eq!(pair.own[1].test(own).and_then(Result::err), None, "bytes that are here already");
    assert_eq!(ended(&mut pair, "the one before", 0, before), Err(Class::COMM));
    let behind = send(&mut pair, 0, 1, 20_000);
    assert_eq!(ended(&mut pair, "the one behind", 0, behind), Err(Class::COMM));
    // As many as are offered are counted.
    let limited = pair.own.remove(0).at_most(1);
    pair.own.insert(0, limited);
    let at = pair.span(0, 0, 20_000);
    assert!(
        pair.own[0].has_room(&Operation::Send { at, of: OF, to: 1, tag: 0, comm: 0 }),
        "none is on offer"
    );
}

#[test]
fn a_send_to_the_process_itself_is_refused_too() {
    let mut pair = with_another();
    let sends: Vec<Token> = (0..=CREDITS).map(|_| send(&mut pair, 0, 0, 8)).collect();
    assert_eq!(pair.kept(0), (CREDITS, 1));
    pair.own[0].free(COMM);
    assert_eq!(pair.kept(0), (0, 0));
    assert_eq!(pair.own[0].test(sends[CREDITS as usize]), Some(Err(Class::COMM)));
    assert!(pair.own[0].net.takes_credit(0));
}

#[test]
fn a_collective_of_which_a_member_takes_no_part_fails() {
    let mut pair = with_another();
    // Without credits its pieces are on offer, one at a time.
    for _ in 0..CREDITS {
        pair.send(0, 1, 0, 8);
    }
    let root = Operation::Bcast { at: pair.span(0, 0, 20_001), of: OF, root: 0, comm: COMM };
    let token = pair.own[0].start(&root).expect("it starts");
    pair.own[1].free(COMM);
    assert_eq!(ended(&mut pair, "the broadcast", 0, token), Err(Class::COMM));
}

#[test]
fn what_is_under_way_goes_on_and_nothing_is_begun() {
    let mut pair = with_another();
    let sent = pair.fill(0);
    let receive = |pair: &Pair, len: usize| {
        let at = pair.span(1, 2 * BYTES, len);
        Operation::Recv { at, of: OF, from: None, tag: None, comm: COMM }
    };
    let operation = receive(&pair, 20_000);
    let token = pair.own[1].start(&operation).expect("it starts");
    let sum = |pair: &Pair, rank: usize| {
        let (from, to) = (pair.span(rank, 0, 9000), pair.span(rank, BYTES, 9000));
        Operation::Allreduce { from, to, of: Type(GMPI_UNSIGNED_CHAR), op: GMPI_SUM, comm: COMM }
    };
    let operation = sum(&pair, 1);
    let collective = pair.own[1].start(&operation).expect("it starts");
    pair.own[1].free(COMM);
    let again = receive(&pair, 8);
    assert_eq!(pair.own[1].start(&again), Err(Class::COMM));
    assert_eq!(pair.own[1].start(&operation), Err(Class::COMM));
    assert_eq!(pair.own[1].place(COMM), None);
    let operation = sum(&pair, 0);
    let other = pair.own[0].start(&operation).expect("it starts");
    let sends = send(&mut pair, 0, 1, 20_000);
    pair.own[0].free(COMM);
    let status = Status { source: 0, tag: 0, bytes: 20_000, error: None };
    assert_eq!(ended(&mut pair, "the receive", 1, token), Ok(status));
    assert_eq!(pair.read(1, 2 * BYTES, 20_000), sent[..20_000]);
    for (rank, token) in [(0, other), (1, collective), (0, sends)] {
        pair.finish("what was under way", rank, token);
    }
    pair.until("nothing is kept of it", |pair| pair.own.iter().all(|own| own.groups[COMM].is_none()));
    assert!(pair.own.iter().all(|own| own.leaving.is_empty()));
}

/// Who was first has made it, and sends.
#[test]
fn a_message_of_a_communicator_that_is_to_come_is_kept() {
    let mut pair = with_another();
    pair.own[1].groups[COMM] = None;
    pair.own[1].next_context = 4;
    send(&mut pair, 0, 1, 8);
    pair.until("it waits", |pair| pair.kept(1) == (1, 0));
    // It did not come to be here.
    pair.own[1].next_context = 6;
    pair.own[1].refuse_all();
    assert_eq!(pair.kept(1), (0, 0));
}

/// Rank 2 is a round ahead of rank 0, which waits for rank 1.
#[test]
fn what_a_collective_needs_later_is_kept_though_its_communicator_was_freed() {
    let mut own = several(4);
    let memory = Arc::new(Processor::cpu().alloc(64).expect("memory"));
    for (rank, own) in own.iter_mut().enumerate() {
        own.attach(0, memory.clone()).expect("attached");
        let (rank, members) = (rank as u32, vec![0, 1, 2, 3]);
        own.groups.push(Some(Group { context: 4, rank, members, collectives: 0, freed: None }));
        own.next_context = 6;
        memory.write(8 * rank as usize, &[1 << rank]).expect("in range");
    }
    let sum = |own: &mut [Own], rank: usize| {
        let at = |offset: usize| Span { index: 0, memory: memory.clone(), offset, len: 1, shape: None };
        let (from, to) = (at(8 * rank), at(32 + 8 * rank));
        let of = Type(GMPI_UNSIGNED_CHAR);
        let sum = Operation::Allreduce { from, to, of, op: GMPI_SUM, comm: COMM };
        own[rank].start(&sum).expect("it starts")
    };
    let mut tokens = vec![(0, sum(&mut own, 0))];
    own[0].free(COMM);
    tokens.extend([2, 3].map(|rank| (rank, sum(&mut own, rank))));
    work(&mut own, &[0, 2, 3], "rank 2's part", |own| own[0].matching.kept().count() == 1);
    tokens.push((1, sum(&mut own, 1)));
    work(&mut own, &[0, 1, 2, 3], "the sum", |own| {
        tokens.retain(|(rank, token)| own[*rank].test(*token).is_none());
        tokens.is_empty()
    });
    for rank in 0..4 {
        let mut sum = [0];
        memory.read(32 + 8 * rank, &mut sum).expect("in range");
        assert_eq!(sum, [15], "rank {rank}");
    }
}

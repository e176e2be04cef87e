//! Processes of a job, which know each other before any of them says anything.

use super::*;

const PROCESSES: [u64; 5] = [10, 11, 12, 13, 14];

fn job() -> Taking {
    Taking { known: Some(Known::new([7; 16], ME, PROCESSES.to_vec())), ..Taking::new() }
}

/// What a process of the job with this secret and these processes has for this one.
fn ticket_of(from: u16, secret: u8, processes: [u64; 5]) -> u64 {
    Known::new([secret; 16], ME, processes.to_vec()).ticket(from)
}

#[test]
fn the_first_that_comes_needs_the_ticket_that_only_processes_of_the_job_can_have() {
    let ticket = ticket_of(2, 7, PROCESSES);
    let packet = Packet { source: extoll_abi::Address::new(2, 0), ..some_put() };
    let mut taking = job();
    let another_run = [PROCESSES[0], PROCESSES[1], 99, PROCESSES[3], PROCESSES[4]];
    let strangers = [
        0,
        2,
        1 << 16 | 2,
        ticket ^ 1 << 17,
        ticket ^ 1 << 63,
        (ticket & !0xffff) | 1,
        ticket_of(2, 8, PROCESSES),
        ticket_of(2, 7, another_run),
        ticket_of(1, 7, PROCESSES) & !0xffff | 2,
        ticket_of(ME, 7, PROCESSES),
        (ticket & !0xffff) | 77,
    ];
    for stranger in strangers {
        assert!(
            matches!(taking.take(&message(stranger, [0, 0], &packet)), Err(Unfit::Foreign)),
            "{stranger:x}"
        );
    }
    assert!(taking.told.is_empty() && taking.links.iter().all(|link| !link.ways.came));
    let first = message(ticket, [0, 0], &packet);
    assert!(taking.take(&first).is_ok() && taking.take(&first).is_ok());
    assert!(matches!(taking.told[..], [(2, Told::Opened)]), "{:?}", taking.told);
    assert_eq!((taking.links[2].received, taking.links[2].era), ([2, 0], 1));
    // Nobody is known in a network, and who is gone stays so.
    let mut network = Taking::new();
    assert!(matches!(network.take(&first), Err(Unfit::Foreign)));
    let mut late = job();
    late.links[2].over = true;
    assert!(matches!(late.take(&first), Err(Unfit::Foreign)));
    // Nor does anybody begin with a process that leaves.
    let mut leaves = Taking { leaving: true, ..job() };
    assert!(matches!(leaves.take(&first), Err(Unfit::Foreign)));
    assert!(leaves.told.is_empty() && leaves.links[2].ticket == 0);
}

#[test]
fn words_come_with_packets_and_whole() {
    let ticket = ticket_of(2, 7, PROCESSES);
    let head = Head { ticket, taken: [0; 2] }.bytes();
    let words = [Word::Goodbye { sent: [1, 2], taken: [3, u32::MAX] }, Word::Farewell];
    for word in words {
        let mut taking = job();
        let said = [&head[..], &word.bytes()].concat();
        assert!(taking.take(&said).is_ok());
        assert!(matches!(taking.told[..], [_, (2, Told::Word(told))] if told == word), "{:?}", taking.told);
        for len in head.len() + 1..said.len() {
            let cut = taking.take(&said[..len]);
            assert!(message::has_releases(&said[head.len()..len]) || matches!(cut, Err(Unfit::Malformed(2))));
        }
        assert!(matches!(taking.take(&[&said[..], &[0]].concat()), Err(Unfit::Malformed(2))));
        // Processes of a network say it where they have met.
        let mut network = Taking::new();
        let said = [&Head { ticket: TICKET, taken: [0; 2] }.bytes()[..], &word.bytes()].concat();
        assert!(matches!(network.take(&said), Err(Unfit::Malformed(3))));
    }
    let beat = [&head[..], &Word::Beat { came: true }.bytes()].concat();
    assert!(matches!(job().take(&beat), Err(Unfit::Malformed(2))));
}

//! Requester pages and register access from other nodes (spec 2.1, 2.4, 6.4).

use std::time::Duration;

use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use ggas_clock::Manual;
use proptest::prelude::*;

/// What a notification says, in short: kind, command, error.
fn shorts(notifications: Vec<Notification>) -> Vec<(u8, u8, u8)> {
    let short = |n: &Notification| {
        let header = n.header().unwrap();
        (header.kind as u8, header.command.get(), header.error.bits())
    };
    notifications.iter().map(short).collect()
}

#[test]
fn registers_of_other_nodes() {
    let rra = PageOption::PHYSICAL | PageOption::RRA;
    let setup = Setup::inline();
    let (a, b) = (setup.node(0), setup.node(1));
    let mut p = a.open(252, 1);
    let local = Pages::new(&a.memory, 4096, 4096);
    let post = |p: &Port, vpid, request: &Request, spec| {
        let d = Descriptor::encode(Address::new(1, vpid), spec, Modifier::NONE, request).unwrap();
        p.post_words(rra, d.word);
    };
    // VPID 0 and 127 of the target are not open (spec 3.4).
    let write = Request::ImmediatePut { count: 8, write: scratchpad(3), value: 0xabcdef };
    post(&p, 0, &write, Spec::REQUESTER);
    assert_eq!(shorts(p.drain()), [(1, 6, 0)]);
    assert_eq!(b.nic.reg_read(scratchpad(3)), 0xabcdef);
    let read = Request::Get { qw: false, read: EXTOLL_RF_INFO_NODE, write: local.address(), size: 8 };
    post(&p, 127, &read, Spec::COMPLETER);
    assert_eq!(shorts(p.drain()), [(4, 10, 0)]);
    assert_eq!(INFO_NODE.get(local.load(0)), 1);
    // Words of a bulk put, too.
    (0..8).for_each(|i| local.store(i, 100 + i as u64));
    post(
        &p,
        0,
        &Request::Put { qw: true, read: local.address(), write: scratchpad(0), size: 64 },
        Spec::NONE,
    );
    (0..3).for_each(|i| assert_eq!(b.nic.reg_read(scratchpad(i)), 100 + u64::from(i)));
    assert_eq!((a.all_errors(), b.all_errors()), (vec![], vec![]));
    // Not whole words, or outside the register file.
    for (address, size) in
        [(scratchpad(0) + 4, 8), (scratchpad(0), 4), (EXTOLL_BAR0_PART_BYTES, 8), (u64::MAX - 7, 8)]
    {
        post(
            &p,
            0,
            &Request::Get { qw: false, read: address, write: local.address(), size },
            Spec::COMPLETER,
        );
        assert_eq!(shorts(p.drain()), [(4, 10, 2)]);
    }
    assert_eq!(b.all_errors(), [(RESP_CMDT.name, 4)]);
    post(&p, 0, &Request::ImmediatePut { count: 4, write: scratchpad(0), value: 1 }, Spec::NONE);
    assert_eq!(b.nic.reg_read(scratchpad(0)), 100);
    assert_eq!(b.errors(COMPL_CMDT), 1);
}

#[test]
fn stores_beside_the_descriptor_are_counted() {
    let setup = Setup::inline();
    let a = setup.node(0);
    let _p = a.open(3, 1);
    let page = PageOption::TE.page_offset(3);
    a.nic.requester_store(page + 24, 1);
    a.nic.requester_store(page + 4, 1);
    a.nic.requester_store(page + 0xff8, 1);
    a.nic.requester_store(page, 1);
    a.nic.requester_store(PageOption::RRA.page_offset(3), 1);
    // length 1 (the line gave way to another page), too long 2, unaligned 1
    assert_eq!(a.nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS), 1 | 2 << 16 | 1 << 32);
    assert_eq!(a.nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS_2), 3);
}

#[test]
fn a_line_at_once_is_three_stores() {
    let posts = |at_once: bool| {
        let setup = Setup::inline();
        let a = setup.node(0);
        let mut p = a.open(3, 1);
        let note = Request::NotificationPut { class: 1, payload: 2 };
        let line = Descriptor::encode(p.address(), Spec::COMPLETER, Modifier::NONE, &note).unwrap().word;
        let page = PageOption::TE.page_offset(3);
        // Behind a whole line, behind words of this one, and behind those of another page, which are given up.
        let before = [None, Some((page, 77)), Some((PageOption::RRA.page_offset(3) + 8, 78)), None];
        let seen = before.map(|word| {
            word.into_iter().for_each(|(offset, word)| a.nic.requester_store(offset, word));
            if at_once {
                a.nic.requester_line(page, line);
            } else {
                (0..3).for_each(|i| a.nic.requester_store(page + 8 * i, line[i as usize]));
            }
            (a.nic.reg_read(wcb_state(3)), a.nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS), shorts(p.drain()))
        });
        // Not where a line begins: the last word is behind it.
        a.nic.requester_line(page + 8, line);
        (seen, a.nic.reg_read(wcb_state(3)), a.nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS))
    };
    let at_once = posts(true);
    assert_eq!(at_once.0.each_ref().map(|(_, _, notes)| notes.len()), [1; 4]);
    assert_eq!(at_once.2, 1 | 1 << 16);
    assert_eq!(posts(false), at_once);
}

#[test]
fn a_partial_line_times_out() {
    let (clock, time) = Manual::new();
    let setup = Setup { clock, ..Setup::inline() };
    let a = setup.node(0);
    let mut p = a.open(3, 1);
    let d = Descriptor::encode(
        p.address(),
        Spec::COMPLETER,
        Modifier::NONE,
        &Request::NotificationPut { class: 1, payload: 2 },
    );
    let (page, word) = (PageOption::TE.page_offset(3), d.unwrap().word);
    a.nic.reg_write(EXTOLL_RF_RMA_WCB_TIMEOUT, 2 << 32 | 1); // two ticks of 50 ms
    a.nic.requester_store(page, word[0]);
    assert!(!WcbState(a.nic.reg_read(wcb_state(3))).idle());
    time.advance(Duration::from_millis(99));
    assert_eq!(a.nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS), 0, "its time is not over");
    time.advance(Duration::from_millis(1));
    assert_ne!(a.nic.reg_read(EXTOLL_RF_RMA_WCB_ERRORS), 0);
    assert!(WcbState(a.nic.reg_read(wcb_state(3))).idle());
    a.nic.requester_store(page + 8, word[1]);
    a.nic.requester_store(page + 16, word[2]);
    assert_eq!(p.drain(), [], "the late words begin a line of their own");
    a.nic.reg_write(wcb_state(3), 0);
    p.post_words(PageOption::TE, word);
    assert_eq!(p.drain().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any words to any registers, from the host and from another node: the card may be of no use afterwards, but it
    /// neither panics nor hangs, nor touches memory that is not declared.
    #[test]
    fn hostile_register_values_do_no_harm(
        writes in proptest::collection::vec((0usize..24, any::<u64>(), any::<u64>(), any::<bool>()), 1..40),
    ) {
        let setup = Setup::inline();
        let (a, b) = (setup.node(0), setup.node(1));
        let (p, mut q) = (a.open(1, 1), b.open(2, 1));
        let memory = Pages::new(&a.memory, 8192, 4096);
        let (src, dst) = (a.register(1, &memory, Access::ALL), b.register(2, &memory, Access::ALL));
        let places = [
            bq_ub(2), bq_table(2), bq_current(2), bq_next(2), bq_wp(2), bq_rp(2), wcb_state(2), vpid_table(2),
            gat(0), gat(1023), EXTOLL_RF_ATU_ENABLE, EXTOLL_RF_ATU_COMMAND, EXTOLL_RF_ATU_PRELOAD + 32,
            EXTOLL_RF_ATU_PRELOAD + 40, EXTOLL_RF_RMA_CONFIG, EXTOLL_RF_RMA_LOCK_BASE, EXTOLL_RF_RMA_LOCK_CONFIG,
            EXTOLL_RF_RMA_BQ_TIMEOUT, EXTOLL_RF_RMA_WCB_TIMEOUT, EXTOLL_RF_BQ_RMA_GENERAL, int_vec(1),
            EXTOLL_RF_RMA_PERF_CONTROL, smfu_control(3), link_status(2),
        ];
        for (place, word, value, remote) in writes {
            let offset = if word % 8 == 0 { word } else { places[place] };
            // A queue over other memory of this process would rightly overwrite it: no pointers into it.
            let value = if value % 3 == 0 { value % 64 } else { value };
            if remote {
                let write = Request::ImmediatePut { count: 8, write: offset, value };
                let d = Descriptor::encode(q.address(), Spec::ALL, Modifier::NONE, &write).unwrap();
                p.post_words(PageOption::PHYSICAL | PageOption::RRA, d.word);
            } else {
                b.nic.reg_write(offset, value);
                b.nic.reg_read(offset);
            }
            p.put(q.address(), Spec::ALL, src, dst + 100, 2000);
            p.get(q.address(), Spec::ALL, dst, src + 4096, 600);
            q.drain();
        }
    }
}

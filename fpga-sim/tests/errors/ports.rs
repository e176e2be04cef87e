//! VPIDs that are not open, and what an open one may not do.

use super::*;

#[test]
fn vpids_that_are_not_open() {
    let closed = |q: &Port| Address::new(1, q.vpid + 1);
    expect(
        true,
        |_, p, q, m| p.put(closed(q), ALL, m.src, m.dst, 100),
        &[(1, 2, 0)],
        &[],
        &[],
        &[COMPL_VPID],
    );
    expect(
        true,
        |_, p, q, m| p.get(closed(q), ALL, m.dst, m.src, 100),
        &[(1, 0, 0), (4, 10, 2)],
        &[],
        &[COMPL_ERRCMD],
        &[RESP_VPID],
    );
    let lock = Request::Lock { to_responder: false, number: 0, compare: 0, add: 1 };
    expect(
        true,
        |_, p, q, _| p.post(closed(q), ALL, Modifier::NONE, &lock),
        &[(1, 12, 0), (4, 13, 2)],
        &[],
        &[COMPL_ERRCMD],
        &[RESP_VPID],
    );
    let note = Request::NotificationPut { class: 1, payload: 2 };
    expect(
        true,
        |_, p, q, _| p.post(closed(q), ALL, Modifier::NONE, &note),
        &[(1, 5, 0)],
        &[],
        &[],
        &[COMPL_VPID],
    );
    // A page of a VPID that is not open here: nobody can be told.
    expect(
        true,
        |pair, _, q, _| {
            let d = Descriptor::encode(q.address(), ALL, Modifier::NONE, &note).unwrap();
            let page = PageOption::TE.page_offset(77);
            (0..3).for_each(|i| pair.a.nic.requester_store(page + 8 * i, d.word[i as usize]));
        },
        &[],
        &[],
        &[REQ_CMDT],
        &[],
    );
}

#[test]
fn excellerate_is_disabled_and_unattached() {
    let put = |m: &Memory| Request::Put { qw: false, read: m.src, write: m.dst, size: 8 };
    let get = |m: &Memory| Request::Get { qw: false, read: m.dst, write: m.src, size: 8 };
    for modifier in [Modifier::EWA, Modifier::ERA] {
        expect(
            true,
            |_, p, q, m| p.post(q.address(), ALL, modifier, &put(m)),
            &[(1, 2, 1)],
            &[(4, 2, 1)],
            &[REQ_EXLDIS],
            &[COMPL_ERRCMD],
        );
        expect(
            true,
            |_, p, q, m| p.post(q.address(), ALL, modifier, &get(m)),
            &[(1, 0, 1), (4, 10, 1)],
            &[(2, 0, 1)],
            &[REQ_EXLDIS, COMPL_ERRCMD],
            &[RESP_ERRCMD],
        );
    }
    let allow = |node: &Node, vpid| node.nic.reg_write(vpid_table(vpid), vpid_entry(0) | VPID_EXCELL.put(1));
    expect(
        true,
        |pair, p, q, m| {
            allow(&pair.a, 3);
            p.post(q.address(), ALL, Modifier::EWA, &put(m));
        },
        &[(1, 2, 0)],
        &[(4, 2, 4)],
        &[],
        &[COMPL_EXLDIS],
    );
    expect(
        true,
        |pair, p, q, m| {
            allow(&pair.a, 3);
            allow(&pair.b, 5);
            p.post(q.address(), ALL, Modifier::EWA, &put(m));
        },
        &[(1, 2, 0)],
        &[(4, 2, 4)],
        &[],
        &[COMPL_TRANS],
    );
    expect(
        true,
        |pair, p, q, m| {
            allow(&pair.a, 3);
            p.post(q.address(), ALL, Modifier::ERA, &get(m));
        },
        &[(1, 0, 0), (4, 10, 2)],
        &[(2, 0, 2)],
        &[COMPL_ERRCMD],
        &[RESP_EXLDIS],
    );
    // With registers on the other side.
    expect(
        true,
        |_, p, q, m| {
            let d = Descriptor::encode(q.address(), ALL, Modifier::EWA, &put(m)).unwrap();
            p.post_words(PageOption::TE | PageOption::RRA, d.word);
        },
        &[(1, 2, 1)],
        &[(4, 2, 1)],
        &[REQ_EXLREG],
        &[COMPL_ERRCMD],
    );
}

#[test]
fn foreign_protection_ids_are_dropped() {
    let set = |node: &Node, vpid| node.nic.reg_write(vpid_table(vpid), vpid_entry(7));
    expect(
        true,
        |pair, p, q, m| {
            set(&pair.b, 5);
            p.put(q.address(), ALL, m.src, m.dst, 8);
        },
        &[(1, 2, 0)],
        &[],
        &[],
        &[COMPL_PDID],
    );
    expect(
        true,
        |pair, p, q, m| {
            set(&pair.b, 5);
            p.get(q.address(), ALL, m.dst, m.src, 8);
        },
        &[(1, 0, 0)],
        &[],
        &[],
        &[RESP_PDID],
    );
    let pair = Pair::new(true);
    let (p, mut q) = (pair.a.open(3, 1), pair.b.open(5, 1));
    set(&pair.a, 3);
    set(&pair.b, 5);
    let m = pair.memory(&p, &q);
    p.put(q.address(), Spec::COMPLETER, m.src, m.dst, 8);
    assert_eq!(shorts(q.drain()), [(4, 2, 0)], "equal ids may talk");
}

#[test]
fn errors_are_notified_unasked_if_configured() {
    let force = 512 | CONFIG_FORCE_ERRORS.put(1);
    let post = |pair: &Pair, p: &Port, q: &Port, m: &Memory| {
        pair.a.nic.reg_write(EXTOLL_RF_RMA_CONFIG, force);
        pair.b.nic.reg_write(EXTOLL_RF_RMA_CONFIG, force);
        p.put(q.address(), Spec::NONE, m.src + 0x100_0000, m.dst, 8);
    };
    expect(true, post, &[(1, 2, 1)], &[(4, 2, 1)], &[REQ_TRANS], &[COMPL_ERRCMD]);
}

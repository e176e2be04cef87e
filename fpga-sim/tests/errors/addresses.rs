//! Addresses without a translation, with somebody else's, or the wrong way round.

use super::*;

#[test]
fn bad_source_addresses_of_puts() {
    for (size, direct) in [(8, true), (100, true), (5000, true), (5000, false)] {
        for offset in [0x100_0000, 1 << 30, 1 << 40, 1 << 63, (1 << 16) - 4] {
            expect(
                direct,
                |_, p, q, m| p.put(q.address(), ALL, m.src.wrapping_add(offset), m.dst, size),
                &[(1, 2, 1)],
                &[(4, 2, 1)],
                &[REQ_TRANS],
                &[COMPL_ERRCMD],
            );
        }
    }
}

#[test]
fn bad_target_addresses_of_puts() {
    for size in [8, 100, 5000] {
        for offset in [0x100_0000, 1 << 30, 1 << 40, 1 << 63, (1 << 16) - 4] {
            let post = |_: &Pair, p: &Port, q: &Port, m: &Memory| {
                p.put(q.address(), ALL, m.src, m.dst.wrapping_add(offset), size);
            };
            expect(true, post, &[(1, 2, 0)], &[(4, 2, 4)], &[], &[COMPL_TRANS]);
        }
    }
    expect(
        true,
        |_, p, q, m| {
            let request = Request::ImmediatePut { count: 8, write: m.dst + 0x100_0000, value: 1 };
            p.post(q.address(), ALL, Modifier::NONE, &request);
        },
        &[(1, 6, 0)],
        &[(4, 6, 4)],
        &[],
        &[COMPL_TRANS],
    );
}

#[test]
fn a_failed_fragment_is_reported_once_by_the_last() {
    let pair = Pair::new(false);
    let (mut p, mut q) = (pair.a.open(3, 1), pair.b.open(5, 1));
    let m = pair.memory(&p, &q);
    // The first page of the target is taken away: of 11 fragments, 9 fail.
    pair.b.unregister(m.dst, &m.remote);
    for page in 1..16 {
        let address = m.remote.address() + 4096 * page;
        let gate = Gate::new(5, Access::WRITE, address, PageSize::K4).unwrap();
        pair.b.set_gate((m.dst >> 12) as u32 + page as u32, gate);
    }
    p.put(q.address(), ALL, m.src, m.dst, 5000);
    assert_eq!(shorts(p.drain()), [(1, 2, 0)]);
    assert_eq!(shorts(q.drain()), [(4, 2, 4)], "the last fragment arrived, but the command failed");
    assert_eq!(pair.b.all_errors(), [(COMPL_TRANS.name, 9)]);
    p.put(q.address(), ALL, m.src, m.dst + 4096, 5000);
    assert_eq!(shorts(q.drain()), [(4, 2, 0)], "the next command is not blamed");
    assert_eq!(shorts(p.drain()), [(1, 2, 0)]);
}

#[test]
fn bad_addresses_of_gets() {
    for direct in BOTH {
        for size in [8, 5000] {
            let far = |_: &Pair, p: &Port, q: &Port, m: &Memory| {
                p.get(q.address(), ALL, m.dst + 0x100_0000, m.src, size);
            };
            let (origin, target) = (&[(1, 0, 0), (4, 10, 2)], &[(2, 0, 2)]);
            expect(direct, far, origin, target, &[COMPL_ERRCMD], &[RESP_TRANS]);
        }
        let near = |_: &Pair, p: &Port, q: &Port, m: &Memory| {
            p.get(q.address(), ALL, m.dst, m.src + 0x100_0000, 100);
        };
        expect(direct, near, &[(1, 0, 0), (4, 10, 4)], &[(2, 0, 0)], &[COMPL_TRANS], &[]);
    }
}

#[test]
fn translations_of_other_vpids_and_directions() {
    expect(
        true,
        |pair, p, q, m| {
            let foreign = pair.b.register(9, &m.remote, Access::ALL);
            p.put(q.address(), ALL, m.src, foreign, 8);
        },
        &[(1, 2, 0)],
        &[(4, 2, 4)],
        &[],
        &[COMPL_TRANS],
    );
    expect(
        true,
        |pair, p, q, m| {
            let read_only = pair.b.register(5, &m.remote, Access::READ);
            p.put(q.address(), ALL, m.src, read_only, 8);
        },
        &[(1, 2, 0)],
        &[(4, 2, 4)],
        &[],
        &[COMPL_TRANS],
    );
    expect(
        true,
        |pair, p, q, m| {
            let write_only = pair.a.register(3, &m.local, Access::WRITE);
            p.put(q.address(), ALL, write_only, m.dst, 8);
        },
        &[(1, 2, 1)],
        &[(4, 2, 1)],
        &[REQ_TRANS],
        &[COMPL_ERRCMD],
    );
}

#[test]
fn physical_addresses_reach_declared_memory_only() {
    let post = |p: &Port, q: &Port, request: &Request| {
        let d = Descriptor::encode(q.address(), ALL, Modifier::NONE, request).unwrap();
        p.post_words(PageOption::PHYSICAL, d.word);
    };
    for hostile in [0, 8, 0x1000, 1 << 47, u64::MAX - 7, 1 << 63] {
        expect(
            true,
            |_, p, q, m| {
                let write = m.remote.address();
                post(p, q, &Request::Put { qw: false, read: hostile, write, size: 8 });
            },
            &[(1, 2, 1)],
            &[(4, 2, 1)],
            &[REQ_TRANS],
            &[COMPL_ERRCMD],
        );
        expect(
            true,
            |_, p, q, m| {
                let read = m.local.address();
                post(p, q, &Request::Put { qw: false, read, write: hostile, size: 1000 });
            },
            &[(1, 2, 0)],
            &[(4, 2, 4)],
            &[],
            &[COMPL_TRANS],
        );
    }
    let pair = Pair::new(true);
    let (p, mut q) = (pair.a.open(3, 1), pair.b.open(5, 1));
    let m = pair.memory(&p, &q);
    post(&p, &q, &Request::Put { qw: false, read: m.local.address(), write: m.remote.address(), size: 999 });
    assert_eq!(q.next().mode(), Mode::NONE);
    assert_eq!(m.remote.bytes(0, 999), m.local.bytes(0, 999));
}

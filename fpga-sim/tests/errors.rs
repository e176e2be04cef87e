//! Every illegal input of the specification's section 12: its counter, its notifications, and no byte elsewhere.

mod common;

use common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::*;
use proptest::prelude::*;

const ALL: Spec = Spec::ALL;
const BOTH: [bool; 2] = [true, false];

/// Two cards, a port on each, and a page of memory for each port.
struct Pair {
    a: Node,
    b: Node,
}

struct Memory {
    local: Pages,
    remote: Pages,
    /// NLAs for everything.
    src: u64,
    dst: u64,
}

impl Pair {
    fn new(direct: bool) -> Pair {
        let setup = Setup::over(fabric::Loopback::new(4096, direct));
        Pair { a: setup.node(0), b: setup.node(1) }
    }

    fn memory(&self, p: &Port, q: &Port) -> Memory {
        let (local, remote) =
            (Pages::new(&self.a.memory, 1 << 16, 4096), Pages::new(&self.b.memory, 1 << 16, 4096));
        local.fill_pattern(1);
        remote.fill_pattern(2);
        let (src, dst) =
            (self.a.register(p.vpid, &local, Access::ALL), self.b.register(q.vpid, &remote, Access::ALL));
        Memory { local, remote, src, dst }
    }
}

/// What a notification says, in short: kind, command, error.
fn short(n: &Notification) -> (u8, u8, u8) {
    let header = n.header().unwrap();
    n.decode().unwrap();
    (header.kind as u8, header.command.get(), header.error.bits())
}

fn shorts(notifications: Vec<Notification>) -> Vec<(u8, u8, u8)> {
    notifications.iter().map(short).collect()
}

/// Runs `post` and compares: notifications at origin and target, counters at origin and target.
#[track_caller]
fn expect(
    direct: bool,
    post: impl Fn(&Pair, &Port, &Port, &Memory),
    origin: &[(u8, u8, u8)],
    target: &[(u8, u8, u8)],
    origin_errors: &[ErrorCounter],
    target_errors: &[ErrorCounter],
) {
    let pair = Pair::new(direct);
    let (mut p, mut q) = (pair.a.open(3, 1), pair.b.open(5, 1));
    let memory = pair.memory(&p, &q);
    let before = (memory.local.bytes(0, 1 << 16), memory.remote.bytes(0, 1 << 16));
    post(&pair, &p, &q, &memory);
    assert_eq!((shorts(p.drain()), shorts(q.drain())), (origin.to_vec(), target.to_vec()));
    let names = |counters: &[ErrorCounter]| counters.iter().map(|c| (c.name, 1)).collect::<Vec<_>>();
    assert_eq!(pair.a.all_errors(), names(origin_errors), "origin");
    assert_eq!(pair.b.all_errors(), names(target_errors), "target");
    assert!(memory.local.bytes(0, 1 << 16) == before.0, "a byte changed at the origin");
    assert!(memory.remote.bytes(0, 1 << 16) == before.1, "a byte changed at the target");
}

#[test]
fn illegal_commands_notify_both_sides_with_the_requesters_error() {
    for code in [4u64, 7, 8, 9, 10, 11, 13, 14, 15] {
        expect(
            true,
            |_, p, q, _| {
                let word0 = 3 | code << 2 | u64::from(q.vpid) << 8 | 1 << 16 | 7 << 32 | 100 << 40;
                p.post_words(PageOption::TE, [word0, 0x1000, 0x2000]);
            },
            &[(1, code as u8, 1)],
            &[(4, code as u8, 1)],
            &[REQ_CMDT],
            &[COMPL_ERRCMD],
        );
    }
}

#[test]
fn wrong_quadword_counts_and_alignments_are_illegal() {
    let words: [fn(&Port, &Memory) -> [u64; 3]; 3] = [
        |q, m| [1 | 2 << 2 | u64::from(q.vpid) << 8 | 1 << 16 | 7 << 32 | 7 << 40, m.src, m.dst],
        |q, m| [3 | 3 << 2 | u64::from(q.vpid) << 8 | 1 << 16 | 7 << 32 | 6 << 40, m.src, m.dst],
        |q, m| [3 | 3 << 2 | u64::from(q.vpid) << 8 | 1 << 16 | 7 << 32 | 7 << 40, m.src + 4, m.dst],
    ];
    for (i, words) in words.into_iter().enumerate() {
        let code = if i == 0 { 2 } else { 3 };
        expect(
            true,
            |_, p, q, m| p.post_words(PageOption::TE, words(q, m)),
            &[(1, code, 1)],
            &[(4, code, 1)],
            &[REQ_CMDT],
            &[COMPL_ERRCMD],
        );
    }
}

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
fn locks_out_of_range() {
    for number in [16, 0xff_ffff] {
        let lock = Request::Lock { to_responder: true, number, compare: 5, add: 1 };
        expect(
            true,
            |_, p, q, _| p.post(q.address(), ALL, Modifier::NONE, &lock),
            &[(1, 12, 0), (4, 13, 2)],
            &[(2, 12, 2)],
            &[COMPL_ERRCMD],
            &[RESP_LOCK],
        );
    }
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
fn groups_cannot_answer() {
    let get = |m: &Memory| Request::Get { qw: false, read: m.dst, write: m.src, size: 8 };
    expect(
        true,
        |_, p, q, m| p.post(q.address(), Spec::REQUESTER, Modifier::MC, &get(m)),
        &[(1, 0, 1)],
        &[],
        &[REQ_CMDT, COMPL_ERRCMD],
        &[RESP_ERRCMD],
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Words straight into any page: nothing panics or hangs, and nothing outside the regions is touched. Half of
    /// them have a form that gets past the decoder.
    #[test]
    fn hostile_words_do_no_harm(
        direct: bool,
        seeds in proptest::collection::vec((any::<[u64; 3]>(), 0u8..32, any::<bool>(), 0u64..16), 1..24),
    ) {
        let pair = Pair::new(direct);
        let (mut p, mut q) = (pair.a.open(3, 1), pair.b.open(5, 1));
        let m = pair.memory(&p, &q);
        let guard = Pages::new(&pair.b.memory, 4096, 4096);
        guard.fill_pattern(3);
        let kept = guard.bytes(0, 4096);
        for (mut words, option, plausible, code) in seeds {
            if plausible {
                let node = words[0] >> 17 & 1;
                let vpid = [3u64, 5, 6, 252][(words[0] >> 8 & 3) as usize];
                words[0] = words[0] & !0xffff_ffff | 3 | code << 2 | vpid << 8 | node << 16;
                words[1] = m.src + words[1] % (1 << 17);
                words[2] = m.dst + words[2] % (1 << 17);
            }
            // Registers can rightly reconfigure the card; that is for another test.
            let option = PageOption::new(option & !4).unwrap();
            p.post_words(option, words);
            p.drain().iter().chain(&q.drain()).for_each(|n| assert!(n.decode().is_ok()));
        }
        prop_assert!(guard.bytes(0, 4096) == kept);
        p.put(q.address(), Spec::COMPLETER, m.src, m.dst, 8);
        prop_assert_eq!(shorts(q.drain()), [(4, 2, 0)], "the cards still work");
    }
}

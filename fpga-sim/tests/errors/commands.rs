//! Commands that mean nothing, or not this.

use super::*;

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

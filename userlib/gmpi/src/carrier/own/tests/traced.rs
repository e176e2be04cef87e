//! What is sent is counted where somebody asks for it.

use ggas::members::Trace;
use ggas_mapping::Pattern;

use super::*;

#[test]
fn what_is_sent_is_counted_by_who_gets_it_in_files_that_a_mapping_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("run");
    let mut pair = Pair::new();
    for (rank, own) in pair.own.iter_mut().enumerate() {
        own.net.trace(Trace::new(&prefix, rank, Some(2)));
    }
    // In one frame, in none, and by puts.
    let lens = [(0, 8), (0, 0), (0, 513), (1, 100), (0, 4032), (0, 5001), (0, BYTES)];
    for (from, len) in lens {
        let send = pair.send(from, 1 - from, 0, len);
        let receive = pair.receive(1 - from, from, 2 * BYTES, len);
        pair.finish("a receive", 1 - from, receive);
        pair.finish("a send", from, send);
    }
    let early = Pattern::traced(&prefix).expect_err("they go on").to_string();
    assert!(early.contains("it is not whole"), "{early}");
    drop(pair);
    let pattern = Pattern::traced(&prefix).expect("two ranks");
    let sent: Vec<_> = pattern.messages().collect();
    let of = |rank| lens.iter().filter(|(from, _)| *from == rank).map(|(_, len)| *len as u64).sum::<u64>();
    assert_eq!(sent, [(0, 1, of(0)), (1, 0, of(1))]);
}

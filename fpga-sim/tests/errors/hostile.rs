//! Any words at all.

use proptest::prelude::*;

use super::*;

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

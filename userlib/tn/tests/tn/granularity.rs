//! Kernels trigger as threads, warps, blocks, pairs and all together; before and after it is registered; again.

use super::*;

#[test]
fn kernels_send_at_every_granularity_and_may_write_again_once_it_is_complete() {
    let inline = network(Progress::Inline);
    let networks = [inline, network(Progress::Threads(1)), between_processes()];
    for network in &networks {
        for config in configs() {
            for form in FORMS {
                let pair = Pair::new(network, config);
                let words = pair.register(form);
                assert!(words.iter().enumerate().all(|(i, word)| word.word() == i as u32));
                pair.run(&pair.args(form, 1, 0)).unwrap();
                pair.check(form, 1);
                for word in words {
                    assert_eq!(pair.triggers.completed(word).times, 1);
                }
                let counts = pair.triggers.counts();
                assert_eq!((counts.started, counts.waiting, counts.late), (pieces(form).len() as u64, 0, 0));
            }
        }
    }
}

#[test]
fn what_kernels_trigger_first_is_sent_when_it_is_registered() {
    for config in configs() {
        for form in [SELFTEST_TN_ITEMS, SELFTEST_TN_GROUPS, SELFTEST_TN_BY_ITEMS, SELFTEST_TN_FIELDS] {
            let pair = Pair::new(&network(Progress::Threads(1)), config);
            // The kernels end before anything is registered.
            pair.run(&selftest_tn { times: 0, ..pair.args(form, 1, 0) }).unwrap();
            let tags = pieces(form).len() as u64;
            until("triggers are counted", || pair.triggers.counts().unregistered >= tags);
            assert_eq!(pair.triggers.counts().started, 0);
            let words = pair.register(form);
            words.iter().for_each(|word| pair.triggers.wait(*word, 1, SOON).unwrap());
            pair.check(form, 1);
            // And while they run: they wait for what comes later.
            let pair = Pair::new(&network(Progress::Threads(1)), config);
            let _armed = pair.triggers.arm();
            let running = pair.start(&pair.args(form, 1, 0));
            pair.register(form);
            running.wait(SOON).unwrap();
            pair.check(form, 1);
        }
    }
}

#[test]
fn operations_are_armed_again_by_kernels_and_by_the_host() {
    for config in configs() {
        for form in [SELFTEST_TN_ITEMS, SELFTEST_TN_PAIRS, SELFTEST_TN_BY_GROUPS, SELFTEST_TN_FIELDS] {
            let pair = Pair::new(&network(Progress::Threads(1)), config);
            pair.register(form);
            pair.run(&pair.args(form, 1, 0)).unwrap();
            pair.check(form, 1);
            for (round, rearm) in [(2, 1), (3, 2), (4, 0)] {
                if rearm == 0 {
                    (TAG..).zip(pieces(form)).for_each(|(tag, _)| pair.triggers.rearm(tag).unwrap());
                }
                // Behind the triggers of all blocks only where one thread has triggered all.
                let behind = rearm == 2 && matches!(form, SELFTEST_TN_ITEMS | SELFTEST_TN_FIELDS);
                let rearm = if rearm == 2 && !behind { 1 } else { rearm };
                pair.run(&selftest_tn { rearm, ..pair.args(form, round, 0) }).unwrap();
                pair.check(form, round);
            }
            let status = pair.triggers.status();
            assert_eq!((status.refused, status.failed), (0, 0));
        }
    }
}

#[test]
fn kernels_fetch() {
    for progress in [Progress::Inline, Progress::Threads(1)] {
        for config in configs() {
            let pair = Pair::new(&network(progress), config);
            let words: Vec<u8> = (0..ALL as u64).flat_map(|thread| value(thread, 1).to_le_bytes()).collect();
            pair.destination.write(0, &words).unwrap();
            let (from, nla) = (pair.target.address(), pair.destination.nla(0).unwrap());
            let when = When::tag(TAG).after(BLOCKS);
            let fetched = pair.triggers.get(when, &pair.source, 0..BYTES, from, nla).unwrap();
            pair.run(&pair.args(SELFTEST_TN_GETS, 1, 0)).unwrap();
            assert_eq!(pair.status.read_u64s(0, 2).unwrap(), [0, 0], "{:?}", pair.triggers.report());
            assert_eq!(pair.triggers.completed(fetched).times, 1);
            let mut seen = vec![0; BYTES];
            pair.data.read(0, &mut seen).unwrap();
            assert_eq!(seen, words);
        }
    }
}

//! What the host asks for: the errors of registering, and what it learns of triggers.

use super::*;
use extoll_abi::{EncodeError, ErrorUnits};
use ggas_device::{DeviceError, TriggerError};
use ggas_rma::RegionError;
use ggas_tn::TriggerLookup;

const PIECE: Piece = Piece { first: 0, words: 2, threshold: 1 };

#[test]
fn registering_says_what_is_wrong() {
    for config in configs() {
        let pair = Pair::new(&network(Progress::Inline), config);
        let triggers = &pair.triggers;
        pair.put(5, Piece { threshold: 2, ..PIECE }, false).unwrap();
        assert!(matches!(pair.put(5, PIECE, false), Err(TnError::Trigger(TriggerError::Taken { tag: 5 }))));
        let error = pair.put(6, Piece { threshold: 0, ..PIECE }, false).unwrap_err();
        assert!(matches!(error, TnError::Trigger(TriggerError::Threshold { tag: 6 })), "{error}");
        assert!(matches!(triggers.rearm(5), Err(TnError::Trigger(TriggerError::Waits { tag: 5 }))));
        assert!(matches!(triggers.rearm(7), Err(TnError::Trigger(TriggerError::Unknown { tag: 7 }))));
        assert!(matches!(triggers.cancel(7), Err(TnError::Trigger(TriggerError::Unknown { tag: 7 }))));
        let put = |region: &Region, range| {
            let remote = pair.destination.nla(0).unwrap();
            triggers.put(When::tag(8), region, range, pair.target.address(), remote, Spec::empty())
        };
        let error = put(&pair.source, BYTES - 8..BYTES + 8).unwrap_err();
        assert!(matches!(&error, TnError::Region(e) if matches!(**e, RegionError::Range { .. })), "{error}");
        assert!(matches!(put(&pair.source, 8..8), Err(TnError::Encode(EncodeError::SizeZero))));
        let error = put(&pair.destination, 0..8).unwrap_err();
        assert!(
            matches!(&error, TnError::Region(e) if matches!(**e, RegionError::OtherPort { .. })),
            "{error}"
        );
        assert_eq!(triggers.counts().used, 1);
        triggers.trigger(5);
        assert_eq!((triggers.counted(5), triggers.counted(6)), (Some(1), None));
        assert_eq!(triggers.cancel(5).unwrap(), 1);
        assert_eq!(triggers.counts().used, 0);
    }
    let many = Config { lookup: TriggerLookup::Associative, tags: 17, ..Config::default() };
    let node = Node::new(network(Progress::Inline).device(0).unwrap());
    let error = Triggers::open(&node, &Processor::cpu(), many).unwrap_err();
    assert!(matches!(error, TnError::Device(DeviceError::TriggerTags { tags: 17, max: 16 })), "{error}");
    let poster = Config { way: Some(Way::Poster), ..Config::default() };
    assert!(matches!(Triggers::open(&node, &Processor::cpu(), poster), Err(TnError::Poster)));
}

#[test]
fn a_full_table_is_an_error_here_and_in_kernels() {
    for lookup in [TriggerLookup::Associative, TriggerLookup::Hash, TriggerLookup::List] {
        for config in configs() {
            let pair = Pair::new(&network(Progress::Threads(1)), Config { lookup, tags: 16, ..config });
            for i in 0..16 {
                pair.put(TAG + i as u64, Piece { first: i, words: 1, threshold: 1 }, false).unwrap();
            }
            let error = pair.put(TAG + 16, PIECE, false).unwrap_err();
            assert!(matches!(error, TnError::Trigger(TriggerError::Full { tags: 16 })), "{error}");
            // The threads of the first warp have 16 tags that are registered, and the others none.
            let args = selftest_tn { times: 0, ..pair.args(SELFTEST_TN_ITEMS, 1, 0) };
            pair.run(&args).unwrap();
            for _ in 0..16 {
                pair.target.wait(SOON).unwrap();
            }
            let refused = (ALL - 16) as u64;
            until("refused triggers are counted", || pair.triggers.status().refused >= refused);
            assert_eq!(pair.triggers.counts().refused, refused);
            assert!(pair.target.poll().is_none(), "what was not registered is not started");
            // Kernels that wait for one that was refused are told, at once.
            let never = pair.put(TAG, Piece { first: 0, words: 1, threshold: 2 }, false).unwrap();
            let wait = selftest_tn { form: SELFTEST_TN_BY_GROUPS, times: 7, word: never.word(), ..args };
            pair.run(&selftest_tn { tag: TAG + 99, ..wait }).unwrap();
            assert_eq!(pair.failed(), ggas_tn_error(), "{:?}", pair.triggers.report());
            let report = pair.triggers.report().unwrap().to_string();
            assert!(report.contains("found the table full"), "{report}");
            let error = pair.triggers.wait(never, 2, Duration::from_millis(1)).unwrap_err().to_string();
            assert!(error.contains("found the table full"), "{error}");
        }
    }
}

fn ggas_tn_error() -> u64 {
    u64::from(extoll_abi::layout::GGAS_ERR_TRIGGER)
}

#[test]
fn tags_fired_too_often_are_counted_and_start_nothing() {
    for config in configs() {
        let pair = Pair::new(&network(Progress::Inline), config);
        let sent = pair.put(3, Piece { threshold: 2, ..PIECE }, false).unwrap();
        for _ in 0..5 {
            pair.triggers.trigger(3);
        }
        pair.triggers.wait(sent, 1, SOON).unwrap();
        pair.target.wait(SOON).unwrap();
        until("late triggers are counted", || {
            pair.triggers.port().progress();
            pair.triggers.status().late >= 3
        });
        assert_eq!((pair.triggers.status().late_tag, pair.triggers.counted(3)), (3, Some(5)));
        assert!(pair.target.poll().is_none() && pair.triggers.completed(sent).times == 1);
        // They count for the next times: two more, and one is left.
        pair.triggers.rearm(3).unwrap();
        pair.triggers.wait(sent, 2, SOON).unwrap();
        pair.triggers.rearm(3).unwrap();
        assert_eq!((pair.triggers.counted(3), pair.triggers.counts().started), (Some(1), 2));
    }
}

#[test]
fn a_command_that_fails_says_so_in_its_completion() {
    for config in configs() {
        let pair = Pair::new(&network(Progress::Inline), config);
        // Where nothing is registered at the target, the source may be used again all the same.
        let nowhere = pair.destination.nla(0).unwrap() + (1 << 30);
        let (target, source) = (pair.target.address(), &pair.source);
        let put = pair.triggers.put(When::tag(1), source, 0..64, target, nowhere, Spec::empty()).unwrap();
        pair.triggers.trigger(1);
        pair.triggers.wait(put, 1, SOON).unwrap();
        // A get hears of it.
        let get = pair.triggers.get(When::tag(2), source, 0..64, target, nowhere).unwrap();
        pair.triggers.trigger(2);
        let error = pair.triggers.wait(get, 1, SOON).unwrap_err();
        assert!(matches!(error, TnError::Failed { tag: 2, units } if units != ErrorUnits::NONE), "{error}");
        // So does whoever asks for what cannot be read here.
        let memory = Arc::new(pair.cpu.alloc(4096).unwrap());
        let gone = pair.triggers.port().register_kernel_memory(memory).unwrap();
        let remote = pair.destination.nla(0).unwrap();
        let put = pair.triggers.put(When::tag(3), &gone, 0..64, target, remote, Spec::empty()).unwrap();
        gone.unregister().unwrap();
        pair.triggers.trigger(3);
        let error = pair.triggers.wait(put, 1, SOON).unwrap_err();
        assert!(matches!(error, TnError::Failed { tag: 3, .. }), "{error}");
    }
}

#[test]
fn a_port_that_is_gone_takes_nothing_and_the_sender_goes_on() {
    for config in configs() {
        let pair = Pair::new(&network(Progress::Inline), config);
        let sent = pair.put(1, PIECE, false).unwrap();
        let Pair { triggers, target, destination, .. } = pair;
        drop(destination);
        target.close().unwrap();
        triggers.trigger(1);
        triggers.wait(sent, 1, SOON).unwrap();
        assert_eq!(triggers.counts().started, 1);
    }
}

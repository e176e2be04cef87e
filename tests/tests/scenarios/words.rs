//! The card path word by word: any order within a line, partial lines, stores beside it (spec 2.1, 2.4).

use std::sync::Arc;

use extoll_abi::{Descriptor, WcbState, regs};
use extoll_sim::Nic;
use extoll_sim::faults::Event;
use ggas::{Address, Modifier, PageOption, Path, Port, Request, Spec};
use ggas_tests::{Area, Bed, Pair, Setting, Shape, each_of, until};

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn card(setting: &Setting) -> bool {
    setting.path == Path::Card
}

/// A port's pages as a driver maps them: what is stored here does not pass the library.
struct Pages {
    nic: Arc<Nic>,
    vpid: u8,
}

impl Pages {
    fn of(bed: &Bed, port: &Port) -> Pages {
        Pages { nic: bed.nic(bed.origin()), vpid: port.address().vpid }
    }

    fn store(&self, option: PageOption, offset: u64, value: u64) {
        self.nic.requester_store(option.page_offset(self.vpid) | offset, value);
    }

    fn word(&self, descriptor: &Descriptor, word: usize) {
        self.store(PageOption::default(), 8 * word as u64, descriptor.word[word]);
    }

    fn write(&self, descriptor: &Descriptor, order: [usize; 3]) {
        order.iter().for_each(|word| self.word(descriptor, *word));
        self.accepted();
    }

    fn state(&self) -> WcbState {
        WcbState(self.nic.reg_read(regs::wcb_state(self.vpid)))
    }

    fn set_state(&self, state: WcbState) {
        self.nic.reg_write(regs::wcb_state(self.vpid), state.0);
    }

    /// Software that keeps no ring waits until nothing was rejected; with so few in flight nothing may be.
    fn accepted(&self) {
        let state = self.state();
        assert!(state.rejected() == 0 && !state.retry(), "rejected with an empty command queue: {state:?}");
    }
}

/// The library, which posted nothing, finds the state as it left it.
impl Drop for Pages {
    fn drop(&mut self) {
        self.set_state(WcbState::default());
    }
}

fn put(to: Address, read: u64, write: u64, size: u32) -> Descriptor {
    let request = Request::Put { qw: false, read, write, size };
    Descriptor::encode(to, Spec::COMPLETER, Modifier::NONE, &request).unwrap()
}

fn settle(pages: &Pages, pair: &Pair) -> ggas_tests::Seen {
    pair.fence().iter().for_each(|descriptor| pages.write(descriptor, ORDERS[0]));
    pair.settle_fenced()
}

#[test]
fn words_of_a_line_come_in_any_order() {
    each_of(card, |bed| {
        let pair = bed.pair();
        let pages = Pages::of(bed, &pair.origin);
        let (source, destination) = (Area::new(&pair.origin, 4096, 1), Area::new(pair.target(), 8192, 2));
        let mut committed = pages.state().committed();
        for round in 0..20 {
            for (i, order) in ORDERS.into_iter().enumerate() {
                let (from, to, len) = (17 * i + round, 601 * i + 31 * round, 1 + 7 * round + i);
                let descriptor = put(pair.to.remote(), source.nla(from), destination.nla(to), len as u32);
                pages.write(&descriptor, order);
                destination.expect(to, &source.expected(from, len));
                // Every accepted descriptor counts at once, modulo 256.
                committed = committed.wrapping_add(1);
                assert_eq!(pages.state().committed(), committed);
            }
            let seen = settle(&pages, &pair);
            committed = committed.wrapping_add(2);
            destination.verify("puts with words in any order");
            assert_eq!((seen.origin.len(), seen.target.len()), (0, 6));
        }
    });
}

#[test]
fn the_words_of_two_vpids_interleave() {
    each_of(card, |bed| {
        let first = bed.pair();
        let second = bed.pair();
        let pages = [Pages::of(bed, &first.origin), Pages::of(bed, &second.origin)];
        let pairs = [&first, &second];
        let sources = pairs.map(|p| Area::new(&p.origin, 4096, 3 + u64::from(p.origin.address().vpid)));
        let destinations = pairs.map(|p| Area::new(p.target(), 4096, 9));
        for (i, a) in ORDERS.into_iter().enumerate() {
            for (j, b) in ORDERS.into_iter().enumerate() {
                let at = 100 * i + 10 * j;
                let words = [0, 1].map(|k| {
                    destinations[k].expect(at, &sources[k].expected(at, 9));
                    put(pairs[k].to.remote(), sources[k].nla(at), destinations[k].nla(at), 9)
                });
                for step in 0..3 {
                    pages[0].word(&words[0], a[step]);
                    pages[1].word(&words[1], b[step]);
                }
            }
            for k in [0, 1] {
                let seen = settle(&pages[k], pairs[k]);
                assert_eq!(seen.target.len(), 6);
                destinations[k].verify("puts whose words interleaved with another port's");
            }
        }
    });
}

/// Length errors (lines that were never completed), counted over both registers, whatever their fields.
fn wcb_errors(nic: &Nic) -> (u64, u64) {
    (nic.reg_read(regs::EXTOLL_RF_RMA_WCB_ERRORS), nic.reg_read(regs::EXTOLL_RF_RMA_WCB_ERRORS_2))
}

#[test]
fn a_line_that_stays_partial_does_nothing_and_is_counted() {
    each_of(
        |s| card(s) && !s.troubled(),
        |bed| {
            let pair = bed.pair();
            let pages = Pages::of(bed, &pair.origin);
            let (source, destination) = (Area::new(&pair.origin, 4096, 4), Area::new(pair.target(), 4096, 5));
            let set_timeout = |ticks: u64| {
                bed.origin().write_register(regs::EXTOLL_RF_RMA_WCB_TIMEOUT, ticks << 32 | 1).unwrap();
            };
            // Whoever loses the processor between two words writes the second one late.
            set_timeout(1200);
            for missing in 0..3 {
                let before = wcb_errors(&pages.nic);
                let descriptor = put(pair.to.remote(), source.nla(0), destination.nla(0), 64);
                for word in (0..3).filter(|word| *word != missing) {
                    pages.word(&descriptor, word);
                }
                let counted = || {
                    bed.origin().progress();
                    (wcb_errors(&pages.nic) != before).then_some(())
                };
                // The shortest that is not none.
                set_timeout(1);
                until(|| format!("the error of a line without word {missing}"), counted);
                set_timeout(1200);
                // The next line is whole, and is none of the old one's words.
                let whole = put(pair.to.remote(), source.nla(100), destination.nla(1000 * missing + 200), 64);
                pages.write(&whole, ORDERS[0]);
                destination.expect(1000 * missing + 200, &source.expected(100, 64));
                let seen = settle(&pages, &pair);
                assert_eq!(
                    (seen.origin.len(), seen.target.len()),
                    (0, 1),
                    "only the whole line's: {seen:x?}"
                );
                destination.verify("a partial line");
            }
        },
    );
}

#[test]
fn stores_beside_the_three_words_are_counted_and_do_nothing() {
    each_of(card, |bed| {
        let pair = bed.pair();
        let pages = Pages::of(bed, &pair.origin);
        let (source, destination) = (Area::new(&pair.origin, 4096, 6), Area::new(pair.target(), 4096, 7));
        for (i, offset) in [24u64, 32, 4, 1, 12, 4088, 4095, 2048].into_iter().enumerate() {
            let before = wcb_errors(&pages.nic);
            pages.store(PageOption::default(), offset, 0x1234_5678_9abc_def0);
            assert_ne!(wcb_errors(&pages.nic), before, "a store at {offset} of a page is an error");
            let descriptor = put(pair.to.remote(), source.nla(i), destination.nla(50 * i), 40);
            pages.write(&descriptor, ORDERS[i % 6]);
            destination.expect(50 * i, &source.expected(i, 40));
        }
        let seen = settle(&pages, &pair);
        assert_eq!(seen.target.len(), 8);
        destination.verify("stores beside the words");
    });
}

#[test]
fn a_repeated_word_is_the_last_one_written() {
    each_of(card, |bed| {
        let pair = bed.pair();
        let pages = Pages::of(bed, &pair.origin);
        let (source, destination) = (Area::new(&pair.origin, 4096, 8), Area::new(pair.target(), 4096, 9));
        let wrong = put(pair.to.remote(), source.nla(0), destination.nla(0), 500);
        let right = put(pair.to.remote(), source.nla(64), destination.nla(128), 8);
        pages.word(&wrong, 1);
        pages.word(&right, 1);
        pages.word(&wrong, 0);
        pages.word(&right, 0);
        pages.word(&right, 2);
        pages.accepted();
        destination.expect(128, &source.expected(64, 8));
        let seen = settle(&pages, &pair);
        assert_eq!(seen.target.len(), 1);
        destination.verify("a word written twice");
    });
}

#[test]
fn rejected_lines_are_posted_again_by_the_protocol_and_arrive_once_in_order() {
    const LINES: u64 = 200; // less than the 256 of the software's ring, more than the card's queue
    each_of(
        |s| s.has_events() && card(s) && matches!(s.shape, Shape::TwoNodes | Shape::Torus),
        |bed| {
            let pair = bed.pair();
            let pages = Pages::of(bed, &pair.origin);
            let happen = |event| bed.cluster.network().torus().unwrap().happen(event).unwrap();
            let line = |i: u64| {
                let request = Request::NotificationPut { class: 5, payload: i };
                Descriptor::encode(pair.to.remote(), Spec::COMPLETER, Modifier::NONE, &request).unwrap()
            };
            let write = |from: u64| {
                for i in from..LINES {
                    ORDERS[i as usize % 6].iter().for_each(|word| pages.word(&line(i), *word));
                }
            };
            // What was rejected: the last ones, all of them, and it says how many (spec 2.4).
            let missing = || {
                let state = pages.state();
                let missing = LINES - u64::from(state.committed());
                assert_eq!(u64::from(state.rejected()), missing, "{state:?}");
                assert_eq!(state.retry(), missing > 0, "{state:?}");
                assert!(state.idle(), "{state:?}");
                missing
            };
            happen(Event::Starve(0));
            write(0);
            assert!(missing() > 0, "without credit the card takes {LINES} lines");
            // Posted again while nothing has changed, they are rejected again.
            pages.set_state(pages.state().acknowledged());
            let from = u64::from(pages.state().committed());
            write(from);
            assert!(missing() > 0);
            happen(Event::Feed(0));
            let mut next = 0;
            let all = || {
                while let Some(n) = pair.target().poll() {
                    assert_eq!((n.word0, n.class()), (next, 5), "in order, once each");
                    next += 1;
                }
                if pages.state().rejected() > 0 {
                    let from = LINES - missing();
                    pages.set_state(pages.state().acknowledged());
                    write(from);
                }
                bed.origin().progress();
                (next == LINES).then_some(())
            };
            until(|| "all lines to arrive".to_owned(), all);
            assert_eq!(missing(), 0);
            assert_eq!(settle(&pages, &pair).target, []);
        },
    );
}

//! Engines and many threads: nothing is lost, nothing is used while idle, nothing is touched after an unregister.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use extoll_abi::*;
use extoll_sim::*;
use ggas_clock::Manual;

fn with_engine(threads: usize, inline: bool) -> Setup {
    let driver: Option<std::sync::Arc<dyn Driver>> = Some(NicThreads::new(threads));
    Setup { driver, inline, ..Setup::inline() }
}

fn note(dst: Address, payload: u64) -> [u64; 3] {
    let request = Request::NotificationPut { class: 0, payload };
    Descriptor::encode(dst, Spec::COMPLETER, Modifier::NONE, &request).unwrap().word
}

/// Waits without driving any card.
fn poll_only(port: &mut Port) -> Notification {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(notification) = port.try_next() {
            return notification;
        }
        assert!(Instant::now() < deadline, "no notification");
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn the_engine_carries_out_what_nobody_drives() {
    let setup = with_engine(1, false);
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, mut q) = (a.open(1, 1), b.open(2, 1));
    for i in 0..100 {
        p.post_words(PageOption::TE, note(q.address(), i));
        assert_eq!(poll_only(&mut q).word0, i);
        if i % 10 == 0 {
            std::thread::sleep(Duration::from_millis(5)); // let the driver fall asleep in between
        }
    }
}

#[test]
fn armed_slots_are_polled_without_being_told() {
    let setup = with_engine(1, true);
    let (a, b) = (setup.node(0), setup.node(1));
    let (_p, mut q) = (a.open(1, 1), b.open(2, 1));
    let slots = Pages::new(&a.memory, 32 * 8 + 8, 4096);
    let consumed: *const AtomicU64 = slots.word(32);
    let ring = SlotRing { base: slots.address() as *mut _, count: 8, consumed, option: 16 };
    // SAFETY: detached below.
    unsafe { a.nic.attach_slots(1, ring) }.unwrap();
    let mut tail = 0usize;
    let mut publish = |payload| {
        let slot = 4 * (tail % 8);
        let words = note(Address::new(1, 2), payload);
        (0..3).for_each(|w| slots.store(slot + w, words[w]));
        tail += 1;
        slots.store(slot + 3, tail as u64);
    };
    a.nic.arm(1);
    for i in 0..50 {
        publish(i);
        assert_eq!(poll_only(&mut q).word0, i);
        if i % 10 == 0 {
            std::thread::sleep(Duration::from_millis(30)); // beyond spinning and yielding
        }
    }
    // What comes last may not have been seen yet, and nobody looks later.
    publish(50);
    a.nic.disarm(1);
    assert_eq!(poll_only(&mut q).word0, 50);
    a.nic.disarm(1); // unmatched: no effect
    publish(51);
    a.nic.kick();
    assert_eq!(poll_only(&mut q).word0, 51);
    a.nic.detach_slots(1);
}

/// Many threads post through a few cards and drive each other's; every command arrives once, in order.
#[test]
fn threads_share_cards_without_losing_or_swapping_anything() {
    const THREADS: u8 = 4;
    const COMMANDS: u64 = 4000;
    for (driver, inline) in [(1, true), (1, false), (2, true)] {
        let setup = with_engine(driver, inline);
        let (a, b) = (setup.node(0), setup.node(1));
        let bytes = Pages::new(&a.memory, 1 << 16, 4096);
        std::thread::scope(|scope| {
            for t in 0..THREADS {
                let (a, b, bytes) = (&a, &b, &bytes);
                scope.spawn(move || {
                    // Every other thread goes the other way.
                    let (from, to) = if t % 2 == 0 { (a, b) } else { (b, a) };
                    let (p, mut q) = (from.open(t, 1), to.open(t + 100, 1));
                    let (src, dst) =
                        (from.register(t, bytes, Access::READ), to.register(t + 100, bytes, Access::READ));
                    let mut seen = 0;
                    for i in 0..COMMANDS {
                        // Reads of the target page are allowed only, so the put moves nothing but is in order.
                        if i % 7 == 0 {
                            p.put(q.address(), Spec::NONE, src, dst, 3000);
                        }
                        p.post_words(PageOption::TE, note(q.address(), i));
                        while i - seen >= 32 {
                            assert_eq!(q.next().word0, seen);
                            seen += 1;
                        }
                    }
                    while seen < COMMANDS {
                        assert_eq!(q.next().word0, seen);
                        seen += 1;
                    }
                });
            }
        });
    }
}

/// Two threads post at the same moment, and nobody drives the card afterwards: whoever held the core when the other
/// came must have done the other's work too.
#[test]
fn work_brought_to_a_held_core_is_done_by_its_holder() {
    const ROUNDS: u64 = 40_000;
    let setup = Setup::inline();
    let a = setup.node(0);
    let (mut p, mut q) = (a.open(1, 1), a.open(2, 1));
    let (round, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let wait_for = |counter: &AtomicU64, value| {
        let mut spins = 0;
        while counter.load(Ordering::Acquire) < value {
            spins += 1;
            if spins > 1000 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    };
    // The last word makes the descriptor whole.
    let prepare = |vpid, i| {
        let (page, words) = (PageOption::TE.page_offset(vpid), note(Address::new(0, vpid), i));
        a.nic.requester_store(page, words[0]);
        a.nic.requester_store(page + 8, words[1]);
        (page + 16, words[2])
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=ROUNDS {
                let (offset, word) = prepare(2, i);
                wait_for(&round, i);
                // At every distance from the other's post.
                (0..i % 128).for_each(|_| std::hint::spin_loop());
                a.nic.requester_store(offset, word);
                done.store(i, Ordering::Release);
            }
        });
        let mut lost = None;
        for i in 1..=ROUNDS {
            let (offset, word) = prepare(1, i);
            round.store(i, Ordering::Release);
            a.nic.requester_store(offset, word);
            wait_for(&done, i);
            let seen = [p.try_next(), q.try_next()].map(|n| n.map(|n| n.word0));
            if seen != [Some(i); 2] {
                lost.get_or_insert((i, seen));
                p.drain();
                q.drain();
            }
        }
        assert_eq!(lost, None);
    });
}

/// Sleepers are woken by what other threads bring about.
#[test]
fn a_sleeper_hears_of_its_notification() {
    let setup = with_engine(1, true);
    let (a, b) = (setup.node(0), setup.node(1));
    let (mut p, mut q) = (a.open(1, 1), b.open(2, 1));
    let (to_p, to_q) = (p.address(), q.address());
    let rounds = 2000;
    std::thread::scope(|scope| {
        let sleep = |port: &mut Port, expect: u64| {
            let mut seen = None;
            let nic = port.node.nic.clone();
            nic.wait_notification(PATIENCE, &mut || {
                seen = port.try_next();
                seen.is_some()
            });
            assert_eq!(seen.map(|n| n.word0), Some(expect));
        };
        let p = &mut p;
        let q = &mut q;
        // SAFETY of sharing: each thread has one port; the cards are thread-safe.
        scope.spawn(move || {
            for i in 0..rounds {
                p.post_words(PageOption::TE, note(to_q, i));
                sleep(p, i);
            }
        });
        scope.spawn(move || {
            for i in 0..rounds {
                sleep(q, i);
                q.post_words(PageOption::TE, note(to_p, i));
            }
        });
    });
    let (clock, _time) = Manual::new();
    let card = Setup { clock: clock.clone(), ..Setup::inline() }.node(2);
    let start = clock.now();
    assert!(!card.nic.wait_notification(Duration::from_millis(30), &mut || false));
    assert_eq!(clock.since(start), Duration::from_millis(30));
}

/// Puts into and gets from a region go on while it is unregistered: after the flush not one byte changes.
#[test]
fn an_unregistered_region_is_left_alone() {
    for direct in [true, false] {
        let driver: Option<std::sync::Arc<dyn Driver>> = Some(NicThreads::new(1));
        let setup = Setup { driver, ..Setup::over(fabric::Loopback::new(256, direct)) };
        let (a, b) = (setup.node(0), setup.node(1));
        let (p, q) = (a.open(1, 4), b.open(2, 4));
        let source = Pages::new(&a.memory, 1 << 20, 4096);
        source.fill_pattern(1);
        let src = a.register(1, &source, Access::ALL);
        let target = Pages::new(&b.memory, 1 << 20, 4096);
        let nla = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = fastrand::Rng::with_seed(2);
                while !stop.load(Ordering::Relaxed) {
                    let dst = nla.load(Ordering::Relaxed);
                    let size = rng.u32(1..1 << 19);
                    if rng.bool() {
                        p.put(q.address(), Spec::NONE, src, dst, size);
                    } else {
                        p.get(q.address(), Spec::NONE, dst, src + (1 << 19), size);
                    }
                    a.nic.progress();
                    let state = WcbState(a.nic.wcb_state(1).load(Ordering::Acquire));
                    if state.retry() {
                        a.nic.wcb_state(1).store(state.acknowledged().0, Ordering::Release);
                    }
                }
            });
            let _stop = Stop(&stop);
            for round in 0..60u64 {
                let at = b.register(2, &target, Access::ALL);
                nla.store(at, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
                b.unregister(at, &target);
                // The pages are the owner's again.
                (0..1 << 17).for_each(|i| target.store(i, round));
                std::thread::sleep(Duration::from_millis(2));
                let strange = (0..1 << 17).find(|i| target.load(*i) != round);
                assert_eq!(strange, None, "written after the flush, round {round}, direct {direct}");
            }
        });
    }
}

/// Cards that go while others still talk to them.
#[test]
fn a_card_may_go_at_any_time() {
    let setup = with_engine(1, true);
    let a = setup.node(0);
    let p = a.open(1, 1);
    let source = Pages::new(&a.memory, 1 << 16, 4096);
    let src = a.register(1, &source, Access::ALL);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                p.put(Address::new(1, 2), Spec::NONE, src, 1 << 12, 1 << 15);
                p.get(Address::new(1, 2), Spec::NONE, 1 << 12, src, 1 << 15);
                let state = WcbState(a.nic.wcb_state(1).load(Ordering::Acquire));
                if state.retry() {
                    a.nic.wcb_state(1).store(state.acknowledged().0, Ordering::Release);
                }
            }
        });
        let _stop = Stop(&stop);
        for _ in 0..50 {
            let b = setup.node(1);
            let q = b.open(2, 1);
            let target = Pages::new(&b.memory, 1 << 16, 4096);
            b.register(2, &target, Access::ALL);
            std::thread::sleep(Duration::from_millis(1));
            drop(q);
            b.nic.detach();
        }
    });
    a.unregister(src, &source);
}

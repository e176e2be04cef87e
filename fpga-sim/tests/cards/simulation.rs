//! The simulation itself: its programs, its time, and several of them in one process.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::common::Setup;
use extoll_abi::{Modifier, Request, Spec};
use extoll_sim::Simulation;

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What it panics with.
fn told(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).expect("a text")
}

type Program<'a> = (String, Box<dyn FnOnce() + 'a>);

fn program<'a>(name: &str, run: impl FnOnce() + 'a) -> Program<'a> {
    (name.to_owned(), Box::new(run))
}

#[test]
fn programs_that_wait_for_ever_are_named() {
    let simulation = Simulation::new(1);
    let clock = simulation.clock();
    let text = told(|| {
        simulation.run([
            program("one", || clock.sleep(Duration::MAX)),
            program("two", || clock.sleep(SECOND)),
            program("three", || {
                clock.sleep(100 * SECOND);
                clock.sleep(Duration::MAX);
            }),
        ]);
    });
    assert!(text.contains("one") && text.contains("three") && !text.contains("two"), "{text}");
    assert!(simulation.elapsed() < YEAR);
}

#[test]
fn a_wait_for_ever_outside_of_programs_is_no_hang() {
    let simulation = Simulation::new(1);
    let (clock, event) = (simulation.clock(), ggas_clock::Event::default());
    let text = told(|| _ = event.wait(&clock, Duration::MAX, &mut || false, || ()));
    assert!(text.contains("without a time limit"), "{text}");
}

#[test]
fn time_ends_with_words_and_never_goes_back() {
    let simulation = Simulation::new(1);
    let clock = simulation.clock();
    let before = Cell::new(Duration::ZERO);
    let text = told(|| {
        simulation.run([program("sleeper", || {
            for _ in 0..100 {
                assert!(simulation.elapsed() >= before.get(), "time goes back");
                before.set(simulation.elapsed());
                clock.sleep(50 * YEAR);
            }
        })]);
    });
    assert!(text.contains("584 years"), "{text}");
}

#[test]
fn naps_of_nothing_and_deadlines_in_the_past_end_at_once() {
    let simulation = Simulation::new(1);
    let clock = simulation.clock();
    simulation.run([program("sleeper", || {
        clock.sleep(SECOND);
        let before = simulation.elapsed();
        for _ in 0..100 {
            clock.sleep(Duration::ZERO);
        }
        assert!(!ggas_clock::Event::default().wait(&clock, Duration::ZERO, &mut || false, || ()));
        assert!(simulation.elapsed() - before < Duration::from_millis(1));
    })]);
}

/// A program that asks another simulation's clock runs that one, and goes on in its own.
#[test]
fn simulations_in_one_process_keep_their_times_apart() {
    let (here, there) = (Simulation::new(1), Simulation::new(2));
    let (clock, other, order) = (here.clock(), there.clock(), RefCell::new(Vec::new()));
    here.run([
        program("both", || {
            other.sleep(3600 * SECOND);
            assert!(there.elapsed() >= 3600 * SECOND && here.elapsed() < SECOND);
            order.borrow_mut().push("there");
            clock.sleep(3 * SECOND);
            order.borrow_mut().push("here");
        }),
        program("one", || {
            clock.sleep(SECOND);
            order.borrow_mut().push("one");
        }),
    ]);
    assert_eq!(*order.borrow(), ["there", "one", "here"]);
    assert!(here.elapsed() < 4 * SECOND && there.elapsed() < 3601 * SECOND);
}

#[test]
fn a_program_may_run_a_simulation_of_its_own() {
    let here = Simulation::new(1);
    let (clock, order) = (here.clock(), RefCell::new(Vec::new()));
    here.run([
        program("both", || {
            let there = Simulation::new(2);
            let other = there.clock();
            there.run([program("inner", || other.sleep(3600 * SECOND))]);
            // Its own waits still let others run.
            clock.sleep(3 * SECOND);
            order.borrow_mut().push("both");
        }),
        program("one", || {
            clock.sleep(SECOND);
            order.borrow_mut().push("one");
        }),
    ]);
    assert_eq!(*order.borrow(), ["one", "both"]);
}

/// A card with a full queue looks at it now and then; who posts meanwhile does not wait for the end of its nap.
#[test]
fn a_card_that_naps_is_woken() {
    let simulation = Simulation::new(1);
    let clock = simulation.clock();
    let setup = Setup::inline();
    let node =
        Setup { driver: Some(simulation.clone()), clock: clock.clone(), inline: false, ..setup }.node(0);
    let (full, mut other) = (node.open(1, 1), node.open(2, 1));
    let note = Request::NotificationPut { class: 1, payload: 1 };
    let post =
        |port: &crate::common::Port<'_>| port.post(port.address(), Spec::COMPLETER, Modifier::NONE, &note);
    for _ in 0..full.entries + 2 {
        post(&full);
        clock.sleep(Duration::from_micros(10));
    }
    clock.sleep(SECOND); // its naps are as long as they get
    for _ in 0..20 {
        let before = simulation.elapsed();
        post(&other);
        while other.try_next().is_none() {
            clock.sleep(Duration::from_micros(1));
        }
        let took = simulation.elapsed() - before;
        assert!(took < Duration::from_micros(10), "{took:?}");
        clock.sleep(SECOND);
    }
}

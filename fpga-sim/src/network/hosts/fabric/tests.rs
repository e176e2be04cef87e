//! The thread that looks after the wire, in a network of which nobody else has come.

use std::sync::atomic::Ordering;

use ggas_wire::WireError;

use super::*;

/// Less than the longest nap, and all that a test may take.
const PATIENCE: Duration = Duration::from_secs(50);

/// Node 0 of two; `None`, with the reason on standard error: nothing carries packets here, or it does so without a descriptor to sleep on.
fn alone() -> Option<Arc<HostsFabric>> {
    match choose() {
        Err(error @ (WireError::Nothing { .. } | WireError::Missing { .. } | WireError::NotBuilt { .. })) => {
            eprintln!("skipped: {error}");
            return None;
        }
        Ok(choice) if !choice.offer.sleeps => {
            eprintln!("skipped: {} has nothing to sleep on", choice.offer.provider);
            return None;
        }
        _ => {}
    }
    let nodes = vec!["127.0.0.1:0".to_owned(), "127.0.0.1:1".to_owned()];
    let file = HostsFile { path: "a test".into(), nodes, secret: [7; 16], silence: SILENCE };
    Some(HostsFabric::join(&file, 0).unwrap())
}

fn wait(what: &str, mut over: impl FnMut() -> bool) {
    let mut wait = Backoff::new(Clock::REAL, PATIENCE);
    while !over() {
        wait.pause().unwrap_or_else(|_| panic!("{what}"));
    }
}

#[test]
fn who_goes_to_sleep_ends_the_nap() {
    let Some(fabric) = alone() else { return };
    let looks = || fabric.shared.alarm.looks();
    looks().2.store(u16::MAX, Ordering::Relaxed); // a minute
    for once_more in [false, true, false, true] {
        wait("a nap, while somebody polls", || {
            fabric.pending(0, &mut None);
            looks().0
        });
        if once_more {
            fabric.pending(0, &mut None);
        }
        fabric.rest(0);
        wait("the end of the nap, and sleep on the wire's descriptor", || looks().1);
    }
}

/// To move the wire on takes milliseconds while many bytes are on the way: who waited for that would stand in the way of who does it.
#[test]
fn the_core_is_left_to_who_has_it() {
    let Some(fabric) = alone() else { return };
    let (shared, looks) = (&*fabric.shared, || fabric.shared.alarm.looks());
    looks().2.store(u16::MAX, Ordering::Relaxed);
    for holds in [false, true] {
        wait("a nap, while somebody polls", || {
            fabric.pending(0, &mut None);
            looks().0
        });
        shared.with_core(|_| {
            if holds {
                shared.seen.asks.hold(); // something is held back, which the thread would let go
            }
            for _ in 0..5 {
                // Twice: after the second one nobody has polled since it looked, so it asks for the core, for which it gets time.
                for _ in 0..2 {
                    shared.alarm.end_nap();
                    Clock::REAL.sleep(Duration::from_millis(5));
                }
                wait("another nap, though the core is not free", || {
                    shared.polled();
                    looks().0
                });
            }
        });
        shared.seen.asks.let_go();
    }
}

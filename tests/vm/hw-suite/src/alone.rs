//! A port that talks to itself.

use std::time::{Duration, Instant};

use extoll_abi::{PageOption, Spec};
use ggas_rma::{Kind, Lock, LockOutcome, Match, Node, PostError, WaitError};
use nix::sys::resource::{UsageWho, getrusage};

use crate::calls::asleep;
use crate::{Outcome, SOON, check, holds, patient, pattern, region};

const SIZES: [usize; 9] = [1, 8, 63, 64, 496, 497, 4096, 5000, 100_003];

pub fn transfers(node: &Node) -> Outcome {
    let port = node.open_port(patient())?;
    let here = port.connect(port.address());
    let (from, to) = (region(&port, 1 << 17, 1)?, region(&port, 1 << 17, 2)?);
    for (i, len) in SIZES.into_iter().enumerate() {
        let (source, target) = (i * 3, 64 + i);
        here.put(&from, source, len, to.nla(target)?, Spec::REQUESTER | Spec::COMPLETER)?;
        for kind in [Kind::Requester, Kind::Completer] {
            let done = port.wait_match(&Match::any().kind(kind).puts(), SOON)?;
            check(done.error().is_empty() && done.remote() == port.address(), format!("{done:?}"))?;
        }
        holds(&to, target, &pattern(1 << 17, 1)[source..source + len])?;
        holds(&to, target + len, &pattern(1 << 17, 2)[target + len..][..9])?;
        to.write(0, &pattern(1 << 17, 2))?;

        here.get(&from, source, len, to.nla(target)?, Spec::COMPLETER)?;
        let came = port.wait_match(&Match::any().gets(), SOON)?;
        check(came.error().is_empty(), format!("{came:?}"))?;
        holds(&from, source, &pattern(1 << 17, 2)[target..target + len])?;
        from.write(0, &pattern(1 << 17, 1))?;
    }
    here.immediate_put(0x1122_3344_5566_7788, 8, to.nla(16)?, Spec::COMPLETER)?;
    port.wait(SOON)?;
    check(to.load_u64(16)? == 0x1122_3344_5566_7788, "an immediate put did not arrive")?;
    from.unregister()?;
    to.unregister()?;
    port.close()?;
    Ok(())
}

pub fn notifications(node: &Node) -> Outcome {
    let port = node.open_port(patient())?;
    let here = port.connect(port.address());
    // Several laps of the queue.
    for i in 0..40_000 {
        here.notification_put((i % 251) as u8, i, Spec::COMPLETER)?;
        let note = port.wait(SOON)?;
        check(note.word0 == i && u64::from(note.class()) == i % 251, format!("{i}: {note:?}"))?;
    }
    // Out of order.
    for class in 1..=3 {
        here.notification_put(class, class.into(), Spec::COMPLETER)?;
    }
    for class in [3, 1, 2] {
        let note = port.wait_match(&Match::any().class(class), SOON)?;
        check(note.word0 == u64::from(class), format!("{note:?}"))?;
    }
    check(port.poll().is_none(), "a notification too many")?;
    port.close()?;
    Ok(())
}

pub fn locks(node: &Node) -> Outcome {
    let port = node.open_port(patient())?;
    let here = port.connect(port.address());
    for (compare, add, value, success) in [(28, 7, 7, true), (28, 7, 14, true), (2, 7, 14, false)] {
        here.lock(Lock { number: 3, compare, add }, Spec::COMPLETER)?;
        let note = port.wait(SOON)?;
        let outcome = LockOutcome::of(&note).ok_or("no answer of a lock")?;
        let text = format!("{outcome:?}");
        check(outcome.value == value && outcome.taken == success, text)?;
    }
    port.close()?;
    Ok(())
}

/// A wait that sleeps ends with the notification of another thread, and a wait for nothing with its time.
pub fn waits(node: &Node) -> Outcome {
    let port = node.open_port(patient())?;
    let began = Instant::now();
    let nothing = port.wait(Duration::from_millis(150));
    check(matches!(nothing, Err(WaitError::Timeout { .. })), format!("{nothing:?}"))?;
    check(began.elapsed() >= Duration::from_millis(150), "a wait ended before its time")?;
    for option in [PageOption::TE, PageOption::new(PageOption::TE.bits() | PageOption::IRQ.bits())?] {
        let here = port.connect_with(port.address(), option);
        let waiter = nix::unistd::gettid();
        let later = std::thread::spawn(move || {
            asleep(waiter);
            here.notification_put(5, 77, Spec::COMPLETER)
        });
        let before = sleeps()?;
        let note = port.wait(SOON)?;
        check(note.word0 == 77, format!("{note:?}"))?;
        check(sleeps()? > before, "the wait did not sleep")?;
        later.join().map_err(|_| "the other thread failed")??;
    }
    // Something else in front does not keep a wait from what it is for.
    let here = port.connect(port.address());
    here.notification_put(1, 1, Spec::COMPLETER)?;
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(60));
        here.notification_put(2, 2, Spec::COMPLETER)
    });
    check(port.wait_match(&Match::any().class(2), SOON)?.word0 == 2, "a wrong match")?;
    check(port.wait(SOON)?.word0 == 1, "the first one is lost")?;
    later.join().map_err(|_| "the other thread failed")??;
    port.close()?;
    Ok(())
}

/// How often this thread has slept. On a busy host that says more than its processor time.
fn sleeps() -> Result<i64, nix::Error> {
    Ok(getrusage(UsageWho::RUSAGE_THREAD)?.voluntary_context_switches())
}

/// More posts at a time than the ring of descriptors has places.
pub fn flood(node: &Node) -> Outcome {
    const POSTS: u64 = 5000;
    let port = node.open_port(patient())?;
    let here = port.connect(port.address());
    let (mut posted, mut taken) = (0, 0);
    while taken < POSTS {
        while posted < POSTS {
            match here.try_notification_put(1, posted, Spec::COMPLETER) {
                Ok(()) => posted += 1,
                Err(PostError::WouldBlock) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let note = port.wait(SOON)?;
        check(note.word0 == taken, format!("{taken}: {note:?}"))?;
        taken += 1;
    }
    check(port.outstanding() == 0, "descriptors outstanding")?;
    port.close()?;
    Ok(())
}

/// A closed port gives back its VPID, and fails what is posted to it: more ports than there are VPIDs.
pub fn reopened(node: &Node) -> Outcome {
    for _ in 0..300 {
        let port = node.open_port(patient())?;
        let here = port.connect(port.address());
        let kept = region(&port, 8192, 1)?;
        port.close()?;
        let posted = here.notification_put(1, 1, Spec::COMPLETER);
        check(matches!(posted, Err(PostError::Closed)), format!("{posted:?}"))?;
        drop(kept);
    }
    Ok(())
}

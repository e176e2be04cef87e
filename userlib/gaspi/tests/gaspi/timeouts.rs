//! Calls that end before what they are for: each test starts itself as the ranks of a job.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::jobs::{BLOCK, ends_with, job, part, pattern};
use crate::signals::{say_pid, signals};
use ggas_gaspi::{Config, GROUP_ALL, Gaspi, GaspiError, Notice, Part, Timeout};

fn tell(gaspi: &Gaspi, rank: u16, id: u32) {
    gaspi.notify(&Notice { segment: 0, id, value: 1 }, rank, 0).unwrap();
}

fn told(gaspi: &Gaspi, id: u32) {
    assert_eq!(gaspi.notify_waitsome(0, id, 1, BLOCK), Ok(Some(id)));
    assert_eq!(gaspi.notify_reset(0, id), Ok(1));
}

/// Makes the same call until it does not run out of time; how often it did.
fn again(mut call: impl FnMut() -> Result<(), GaspiError>) -> u32 {
    for times in 0.. {
        match call() {
            Err(GaspiError::Timeout) => std::thread::yield_now(),
            done => {
                assert_eq!(done, Ok(()));
                return times;
            }
        }
    }
    unreachable!("the test is stopped before")
}

/// Members that look once at a time begin a segment before the last one calls, and its barrier is the last one's, too.
#[test]
fn a_segment_goes_on_where_it_timed_out() {
    job("timeouts::a_segment_goes_on_where_it_timed_out", 3, |gaspi| {
        gaspi.segment_create(0, 64, GROUP_ALL, BLOCK).unwrap();
        let mut memory = vec![0u8; 4096];
        let (me, start) = (gaspi.rank(), memory.as_mut_ptr());
        for round in 0..10u32 {
            let late = (round % 3) as u16;
            let create = |id| gaspi.segment_create(id, 4096, GROUP_ALL, Timeout::Test);
            // SAFETY: the vector outlives the segment.
            let bind = |id| unsafe { gaspi.segment_use(id, start, 4096, GROUP_ALL, Timeout::Test) };
            let both = [&create as &dyn Fn(u8) -> _, &bind];
            for (id, call) in (1..).zip(both) {
                if me == late {
                    (0..3).filter(|rank| *rank != me).for_each(|rank| told(gaspi, rank.into()));
                    again(|| call(id));
                } else {
                    assert_eq!(call(id), Err(GaspiError::Timeout));
                    // Of another size it is another call.
                    assert_eq!(gaspi.segment_create(id, 64, GROUP_ALL, BLOCK), Err(GaspiError::Segment));
                    tell(gaspi, late, me.into());
                    again(|| call(id));
                }
            }
            for id in [1, 2] {
                let own = Part { local: id, remote: id, ..part(0, 8 * u64::from(me), 8) };
                (0..3).for_each(|rank| gaspi.write(&own, rank, 1).unwrap());
                gaspi.wait(1, BLOCK).unwrap();
            }
            gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
            [1, 2].into_iter().for_each(|id| gaspi.segment_delete(id).unwrap());
        }
    });
}

/// Posts to a process that stands still run out of time, and those of another thread to another process do not wait for them.
#[test]
fn posts_that_find_no_room_hold_nobody_up() {
    const BYTES: u64 = 64 << 10;
    job("timeouts::posts_that_find_no_room_hold_nobody_up", 3, |gaspi| {
        gaspi.segment_create(0, 2 * BYTES, GROUP_ALL, BLOCK).unwrap();
        say_pid(gaspi);
        match gaspi.rank() {
            0 => {
                let signal = signals(gaspi);
                gaspi.store(0, 0, &pattern(0, 1, BYTES as usize)).unwrap();
                signal("-STOP");
                let (long, is_over) = (part(0, BYTES, BYTES), AtomicBool::new(false));
                std::thread::scope(|scope| {
                    let full = scope.spawn(|| {
                        let mut posts = 0;
                        while gaspi.within(Timeout::Test).write(&long, 1, 1) == Ok(()) {
                            posts += 1;
                        }
                        is_over.store(true, Ordering::Relaxed);
                        posts
                    });
                    let mut beside = 0u32;
                    while !is_over.load(Ordering::Relaxed) {
                        gaspi
                            .write_notify(&[part(0, 8, 8)], &Notice { segment: 0, id: 7, value: 1 }, 2, 2)
                            .unwrap();
                        gaspi.wait(2, BLOCK).unwrap();
                        beside += 1;
                    }
                    assert!(full.join().unwrap() > 0 && beside > 0);
                });
                assert_eq!(gaspi.within(Timeout::Test).write(&long, 1, 1), Err(GaspiError::Timeout));
                signal("-CONT");
                gaspi.write(&long, 1, 1).unwrap();
                gaspi.wait(1, BLOCK).unwrap();
                tell(gaspi, 1, 1);
            }
            1 => {
                told(gaspi, 1);
                let mut got = vec![0; BYTES as usize];
                gaspi.load(0, BYTES, &mut got).unwrap();
                assert!(got == pattern(0, 1, BYTES as usize));
            }
            _ => {}
        }
    });
}

/// A member dies behind its part in a barrier that another one does not join: whoever looks once at a time hears of it as
/// well, since the time counts from when the death was noticed, and not from the last call.
#[test]
fn a_death_ends_a_barrier_of_single_looks() {
    let name = "timeouts::a_death_ends_a_barrier_of_single_looks";
    let ends = ends_with(name, 3, |_| {
        let config = Config { failure_timeout: Duration::from_millis(50), ..Config::default() };
        let gaspi = &Gaspi::init(config, BLOCK).unwrap();
        gaspi.segment_create(0, 64, GROUP_ALL, BLOCK).unwrap();
        match gaspi.rank() {
            0 => {
                told(gaspi, 1);
                gaspi.kill(1, BLOCK).unwrap();
                let mut looks = 0u64;
                let end = loop {
                    looks += 1;
                    match gaspi.barrier(GROUP_ALL, Timeout::Test) {
                        Err(GaspiError::Timeout) => std::thread::yield_now(),
                        end => break end,
                    }
                };
                assert!(end == Err(GaspiError::Dead) && looks > 1, "{end:?} after {looks} looks");
                tell(gaspi, 2, 2);
            }
            1 => {
                assert_eq!(gaspi.barrier(GROUP_ALL, Timeout::Test), Err(GaspiError::Timeout));
                tell(gaspi, 0, 1);
                let _ = gaspi.barrier(GROUP_ALL, BLOCK);
                unreachable!("killed before");
            }
            // A wait that ends by itself when it hears of the death goes on.
            _ => loop {
                match gaspi.notify_waitsome(0, 2, 1, BLOCK) {
                    Err(GaspiError::Failed) => {}
                    end => break assert_eq!(end, Ok(Some(2))),
                }
            },
        }
    });
    if let [first, killed, last] = ends[..] {
        assert!(first.success() && last.success(), "{first}, {last}");
        assert_eq!(killed.code(), Some(255));
    }
}

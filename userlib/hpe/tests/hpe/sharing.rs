//! Many threads on one device. On two GPUs with `GGAS_TEST_GPUS=2`; 1 has them on one.

use std::sync::Barrier;

use crate::common::{devices, on_gpus, pair};
use ggas_hpe::{Locking, Runtime, Wait};

const THREADS: usize = 16;
const ROUNDS: usize = 15;
const BYTES: usize = 10_000;

/// Each thread sends a pattern of its own to each device and looks at what comes back.
fn all_to_all(wait: Wait, locking: Locking) -> Runtime {
    let runtime = devices(2).wait(wait).locking(locking).build().unwrap();
    let devices = pair(&runtime);
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (runtime, devices, start) = (&runtime, &devices, &start);
            scope.spawn(move || {
                let there: Vec<_> =
                    devices.iter().map(|&device| runtime.alloc(device, BYTES).unwrap()).collect();
                start.wait();
                for round in 0..ROUNDS {
                    let value = (thread * ROUNDS + round) as u8;
                    let (source, mut back) = (vec![value; BYTES], vec![0; BYTES]);
                    // SAFETY: memory of this thread.
                    unsafe {
                        runtime.copy(there[round % 2], source.as_ptr(), BYTES).unwrap();
                        runtime.copy(there[(round + 1) % 2], there[round % 2], BYTES).unwrap();
                        runtime.copy(back.as_mut_ptr(), there[(round + 1) % 2], BYTES).unwrap();
                    }
                    assert!(back == source, "thread {thread}, round {round}");
                }
                for start in there {
                    // SAFETY: as above.
                    unsafe { runtime.free(start).unwrap() };
                }
            });
        }
    });
    runtime
}

#[test]
fn sixteen_threads_share_devices_however_they_wait_and_lock() {
    for wait in [Wait::PAPER, Wait::SPIN_FIRST] {
        for locking in [Locking::Short, Locking::Coarse] {
            let counts = all_to_all(wait, locking).counts();
            let taken: u64 = counts.locks.iter().map(|lock| lock.taken).sum();
            let copies = (3 * THREADS * ROUNDS) as u64;
            assert_eq!(counts.ways.copies.iter().sum::<u64>(), copies);
            match locking {
                // To queue, and where the end is not seen without it.
                Locking::Short => assert!(taken >= copies, "{counts:?}"),
                // A GPU's copies of the host's memory are of several parts.
                Locking::Coarse => assert!(taken == copies || on_gpus() && taken > copies, "{counts:?}"),
            }
        }
    }
}

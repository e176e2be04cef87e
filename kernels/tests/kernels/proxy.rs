//! Accesses that the host makes for kernels of a GPU, asked for by kernels of the executor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use extoll_abi::Atomic;
use ggas_kernels::trap::{Trap, TrapError, TrapTarget};
use ggas_kernels::{KernelMem, LaunchError, Processor, ProxyServer, start};
use ggas_selftest::args::{SELFTEST_PROXY_ROOM, selftest_proxy};

const TIMEOUT: Duration = Duration::from_secs(60);
const ROOM: usize = SELFTEST_PROXY_ROOM as usize;

/// Memory, of which one byte is bad.
struct Far {
    bytes: Mutex<Vec<u8>>,
    bad: usize,
    settled: AtomicBool,
}

impl Far {
    fn new(len: usize, bad: usize) -> Arc<Far> {
        Arc::new(Far { bytes: Mutex::new(vec![0; len]), bad, settled: AtomicBool::new(false) })
    }

    fn check(&self, offset: u64, len: usize) -> Result<usize, TrapError> {
        let at = offset as usize;
        if (at..at + len).contains(&self.bad) { Err("a bad place".into()) } else { Ok(at) }
    }
}

impl TrapTarget for Far {
    fn load(&self, offset: u64, into: &mut [u8]) -> Result<(), TrapError> {
        let at = self.check(offset, into.len())?;
        into.copy_from_slice(&self.bytes.lock().unwrap()[at..at + into.len()]);
        Ok(())
    }

    fn store(&self, offset: u64, from: &[u8]) -> Result<(), TrapError> {
        let at = self.check(offset, from.len())?;
        self.bytes.lock().unwrap()[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn atomic(&self, offset: u64, atomic: Atomic) -> Result<u64, TrapError> {
        let len = atomic.width().bytes();
        let at = self.check(offset, len)?;
        let mut bytes = self.bytes.lock().unwrap();
        let mut word = [0; 8];
        word[..len].copy_from_slice(&bytes[at..at + len]);
        let old = u64::from_le_bytes(word);
        bytes[at..at + len].copy_from_slice(&atomic.apply(old).to_le_bytes()[..len]);
        Ok(old)
    }

    fn reduce(&self, offset: u64, atomic: Atomic) -> Result<(), TrapError> {
        self.atomic(offset, atomic).map(|_| ())
    }

    fn settle(&self) -> Result<(), TrapError> {
        self.settled.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn place(&self, offset: u64) -> String {
        format!("byte {offset} far away")
    }
}

/// Runs the kernel with somebody to serve it; gives what was wrong, and what failed.
fn run(
    cpu: &Processor,
    server: &ProxyServer,
    far: &Arc<Far>,
    (grid, block): (u32, u32),
    rounds: u64,
) -> (u64, Option<LaunchError>) {
    let threads = (grid * block) as usize;
    let trap = Trap::new((threads + 1) * ROOM, far.clone()).unwrap();
    let buffers: KernelMem = cpu.alloc(threads * ROOM).unwrap();
    let wrong: KernelMem = cpu.alloc(8).unwrap();
    let args = selftest_proxy {
        proxy: server.address(),
        there: trap.address(),
        buffers: buffers.address(),
        wrong: wrong.address(),
        rounds,
    };
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if server.serve() == 0 {
                    thread::yield_now();
                }
            }
        });
        // SAFETY: the structure of this kernel; all memory lives beyond the wait, and the ring is served meanwhile.
        let launch = unsafe { ggas_selftest::launch(cpu, "ggas_selftest_proxy", grid, block, &args) };
        let done = start(&[launch]).and_then(|running| running.wait(TIMEOUT));
        if done.is_ok() {
            server.catch_up().unwrap();
        }
        ended.store(true, Ordering::Relaxed);
        done.unwrap();
    });
    (wrong.load_u64(0).unwrap(), server.failure("ggas_selftest_proxy"))
}

#[test]
fn the_host_makes_every_access_that_threads_ask_for() {
    let cpu = Processor::cpu();
    let server = ProxyServer::new(&cpu).unwrap();
    for (shape, rounds) in [((1, 1), 40), ((3, 64), 2)] {
        let threads = (shape.0 * shape.1) as usize;
        let far = Far::new((threads + 1) * ROOM, usize::MAX);
        let (wrong, failed) = run(&cpu, &server, &far, shape, rounds);
        assert!(failed.is_none(), "{failed:?}");
        assert_eq!(wrong, 0);
        let sum = u64::from_le_bytes(far.bytes.lock().unwrap()[threads * ROOM..][..8].try_into().unwrap());
        assert_eq!(sum, threads as u64 * rounds, "posted, and all made");
        assert!(far.settled.load(Ordering::Relaxed));
    }
}

#[test]
fn an_access_that_fails_gives_ones_and_the_first_is_told() {
    let cpu = Processor::cpu();
    let server = ProxyServer::new(&cpu).unwrap();
    // In the first round, the store of 3 bytes.
    let far = Far::new(2 * ROOM, 3 * 17 + 1);
    let (wrong, failed) = run(&cpu, &server, &far, (1, 1), 1);
    assert!(wrong > 0);
    let Some(LaunchError::Access { block: 0, thread: 0, access, place, source, .. }) = &failed else {
        panic!("{failed:?}")
    };
    assert_eq!((&access[..], &place[..]), ("a store of 3 bytes", "byte 51 far away"));
    assert_eq!(source.to_string(), "a bad place");
    assert_eq!(far.bytes.lock().unwrap()[17], 1, "what was before it is made");
    assert!(far.bytes.lock().unwrap()[1024..].iter().all(|byte| *byte == 0), "nothing behind it is");
    // Once it was told, all goes on.
    let far = Far::new(2 * ROOM, usize::MAX);
    assert!(matches!(run(&cpu, &server, &far, (1, 1), 1), (0, None)));
}

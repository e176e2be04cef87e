//! Trapped addresses: what kernels of the executor do there are calls.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ggas_kernels::trap::{Trap, TrapError, TrapTarget};
use ggas_kernels::{KernelMem, LaunchError, Processor, start};
use ggas_selftest::args::gputest_poke;

const TIMEOUT: Duration = Duration::from_secs(60);
const BYTES: usize = 8 << 12;

/// What was stored, by offset; nothing is stored at `bad`.
struct Stores {
    name: &'static str,
    bad: u64,
    all: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl Stores {
    fn new(name: &'static str, bad: u64) -> Arc<Stores> {
        Arc::new(Stores { name, bad, all: Mutex::default() })
    }

    fn take(&self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.all.lock().unwrap())
    }
}

impl TrapTarget for Stores {
    fn load(&self, _offset: u64, _into: &mut [u8]) -> Result<(), TrapError> {
        Err("no loads".into())
    }

    fn store(&self, offset: u64, from: &[u8]) -> Result<(), TrapError> {
        if offset == self.bad {
            return Err("a bad place".into());
        }
        self.all.lock().unwrap().push((offset, from.to_vec()));
        Ok(())
    }

    fn place(&self, offset: u64) -> String {
        format!("{offset} of {}", self.name)
    }
}

/// Stores `value`, `value + 1` and so on at every page from `base` on.
fn poke(cpu: &Processor, base: u64, parts: u64, value: u64) -> Result<(), LaunchError> {
    let args = gputest_poke { base, stride: 1 << 12, parts, value };
    // SAFETY: the structure of this kernel; the addresses are trapped, or memory beyond the wait.
    let launch = unsafe { ggas_selftest::launch(cpu, "ggas_gputest_poke", 1, 1, &args) };
    start(&[launch])?.wait(TIMEOUT)
}

fn stored(values: std::ops::Range<u64>) -> Vec<(u64, Vec<u8>)> {
    values.clone().map(|value| ((value - values.start) << 12, value.to_le_bytes().to_vec())).collect()
}

#[test]
fn each_range_has_its_target_and_memory_has_none() {
    let cpu = Processor::cpu();
    let [one, two] = ["one", "two"].map(|name| Stores::new(name, u64::MAX));
    let first = Trap::new(BYTES, one.clone()).unwrap();
    let memory: KernelMem = cpu.alloc(BYTES).unwrap();
    let second = Trap::new(BYTES, two.clone()).unwrap();
    for (base, value) in [(first.address(), 10), (memory.address(), 20), (second.address(), 30)] {
        poke(&cpu, base, 8, value).unwrap();
    }
    assert_eq!((one.take(), two.take()), (stored(10..18), stored(30..38)));
    assert_eq!(memory.load_u64(7 << 12).unwrap(), 27);
    drop(first);
    poke(&cpu, memory.address(), 8, 40).unwrap();
    poke(&cpu, second.address(), 8, 50).unwrap();
    assert_eq!((one.take(), two.take()), (vec![], stored(50..58)));
    assert_eq!(memory.load_u64(0).unwrap(), 40);
}

#[test]
fn an_access_that_fails_ends_the_launch_and_says_where() {
    let cpu = Processor::cpu();
    let target = Stores::new("a window", 3 << 12);
    let trap = Trap::new(BYTES, target.clone()).unwrap();
    let error = poke(&cpu, trap.address(), 8, 10).unwrap_err();
    let LaunchError::Access { block: 0, thread: 0, access, place, source, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((&access[..], &place[..]), ("a store of 8 bytes", "12288 of a window"));
    assert_eq!(source.to_string(), "a bad place");
    assert_eq!(target.take(), stored(10..13), "nothing comes behind it");
}

/// Tells that a store has begun, and hears whether the range goes meanwhile.
struct Slow {
    began: Mutex<Sender<()>>,
    gone: Mutex<Receiver<()>>,
}

impl TrapTarget for Slow {
    fn load(&self, _offset: u64, _into: &mut [u8]) -> Result<(), TrapError> {
        Err("no loads".into())
    }

    fn store(&self, _offset: u64, _from: &[u8]) -> Result<(), TrapError> {
        self.began.lock().unwrap().send(()).unwrap();
        match self.gone.lock().unwrap().recv_timeout(Duration::from_millis(200)) {
            Ok(()) => Err("the range went during an access".into()),
            Err(_) => Ok(()),
        }
    }

    fn place(&self, offset: u64) -> String {
        offset.to_string()
    }
}

#[test]
fn a_range_waits_for_accesses_under_way() {
    let cpu = Processor::cpu();
    let ((began, begins), (goes, gone)) = (channel(), channel());
    let trap = Trap::new(BYTES, Arc::new(Slow { began: began.into(), gone: gone.into() })).unwrap();
    let base = trap.address();
    std::thread::scope(|threads| {
        let kernel = threads.spawn(|| poke(&cpu, base, 1, 1));
        begins.recv().unwrap();
        drop(trap);
        // The target may have gone with it.
        let _ = goes.send(());
        kernel.join().unwrap().unwrap();
    });
}

/// Performs stores when it is asked whether they are.
#[derive(Default)]
struct Posted {
    under_way: Mutex<u64>,
    performed: Mutex<u64>,
}

impl TrapTarget for Posted {
    fn load(&self, _offset: u64, _into: &mut [u8]) -> Result<(), TrapError> {
        Err("no loads".into())
    }

    fn store(&self, _offset: u64, _from: &[u8]) -> Result<(), TrapError> {
        *self.under_way.lock().unwrap() += 1;
        Ok(())
    }

    fn settle(&self) -> Result<(), TrapError> {
        *self.performed.lock().unwrap() += std::mem::take(&mut *self.under_way.lock().unwrap());
        Ok(())
    }

    fn place(&self, offset: u64) -> String {
        format!("{offset}")
    }
}

/// As on a GPU, whose stores to others are performed then; a target that fails takes nothing from the others.
#[test]
fn what_kernels_stored_is_performed_when_they_have_ended() {
    let (cpu, target) = (Processor::cpu(), Arc::new(Posted::default()));
    let trap = Trap::new(BYTES, target.clone()).unwrap();
    for round in 1..4 {
        poke(&cpu, trap.address(), 8, 10).unwrap();
        assert_eq!(*target.performed.lock().unwrap(), 8 * round);
    }
}

//! A card that others keep busy: who wants something else of it neither starves nor works for them without end.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use extoll_abi::*;
use extoll_sim::packet::{Class, Kind, Packet, Payload};
use extoll_sim::*;

/// A register of the PHY, of which the model knows nothing.
const WATCHED: u64 = 0x48_0000;

thread_local! {
    /// Packets that this thread took from the network.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Counts the packets that cards take, altogether and by thread, and at the last write to a register of its own.
struct Watched {
    inner: Arc<dyn Fabric>,
    taken: AtomicU64,
    at_write: AtomicU64,
}

impl Fabric for Watched {
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        self.inner.send(from, packet)
    }
    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        let packet = self.inner.poll(node, class)?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(packet)
    }
    fn carriage(&self, to: Address, runs: &runs::Runs) -> fabric::Carriage {
        self.inner.carriage(to, runs)
    }
    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), fabric::FabricError> {
        self.inner.attach(node, wake)
    }
    fn detach(&self, node: u16) {
        self.inner.detach(node);
    }
    fn reg_write(&self, _node: u16, offset: u64, _value: u64) -> bool {
        self.at_write.store(self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
        offset == WATCHED
    }
}

/// Whoever writes a register goes before those who would go on driving the card.
#[test]
fn a_register_access_does_not_wait_for_those_who_keep_the_card_busy() {
    const SIZE: u32 = 64 << 10;
    const ACCESSES: usize = 101;
    let inner = network::Network::new(torus::Torus::new(2, 1, 1).unwrap(), faults::Faults::none()).unwrap();
    let fabric = Arc::new(Watched { inner, taken: AtomicU64::new(0), at_write: AtomicU64::new(0) });
    let setup = Setup { driver: Some(NicThreads::new(1)), ..Setup::over(fabric.clone()) };
    let (a, b) = (setup.node(0), setup.node(1));
    let (p, q) = (a.open(1, 1), b.open(2, 1));
    let (from, to) = (Pages::new(&a.memory, SIZE as usize, 4096), Pages::new(&b.memory, SIZE as usize, 4096));
    let (src, dst) = (a.register(1, &from, Access::ALL), b.register(2, &to, Access::ALL));
    let stop = AtomicBool::new(false);
    let taken = || fabric.taken.load(Ordering::Relaxed);
    let mut waited = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let state = WcbState(a.nic.wcb_state(1).load(Ordering::Acquire));
                if state.retry() {
                    a.nic.reg_write(regs::wcb_state(1), state.acknowledged().0);
                } else {
                    p.put(q.address(), Spec::NONE, src, dst, SIZE);
                }
            }
        });
        let _stop = Stop(&stop);
        let deadline = Instant::now() + Duration::from_secs(60);
        while waited.len() < ACCESSES {
            // Each access begins while the card is busy.
            let before = taken();
            while taken() < before + 10 {
                assert!(Instant::now() < deadline, "nobody keeps the card busy: {before} puts");
                std::thread::yield_now();
            }
            let before = taken();
            b.nic.reg_write(WATCHED, 1);
            waited.push(fabric.at_write.load(Ordering::Relaxed) - before);
        }
    });
    // Who loses its CPU just before it asks for the card is late, and cannot be told from who has to wait; that is
    // rare. More than a thousand puts of 64 KiB are no one's share, however fast the computer.
    waited.sort_unstable();
    assert!(
        waited[ACCESSES * 19 / 20] <= 1000,
        "accesses waited for so many puts of the other thread: {waited:?}"
    );
}

/// A network that never runs out of packets, each of which takes its time.
struct Endless {
    stop: AtomicBool,
}

impl Fabric for Endless {
    fn send(&self, _from: u16, _packet: Packet) -> Result<(), Packet> {
        Ok(())
    }
    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        if class != Class::Request || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        TAKEN.set(TAKEN.get() + 1);
        std::thread::sleep(Duration::from_micros(100));
        Some(Packet {
            source: Address::new(1, 1),
            destination: Address::new(node, 2),
            kind: Kind::Notification,
            command: Default::default(),
            spec: Spec::NONE,
            modifier: Modifier::NONE,
            mode: Default::default(),
            error: Default::default(),
            tc: 0,
            protection: 0,
            fragment: 496,
            address: 0,
            aux: 0,
            len: 0,
            total: 0,
            offset: 0,
            tag: 0,
            process: extoll_sim::packet::ANYONE,
            payload: Payload::default(),
        })
    }
    fn carriage(&self, _to: Address, _runs: &runs::Runs) -> fabric::Carriage {
        fabric::Carriage::Bytes { most: 0 }
    }
    fn polled(&self) -> bool {
        true
    }
    fn pending(&self, _node: u16, _first: &mut dyn fabric::First) -> fabric::Pending {
        match self.stop.load(Ordering::Relaxed) {
            true => fabric::Pending::Nothing,
            false => fabric::Pending::Packets,
        }
    }
    fn attach(&self, _node: u16, _wake: Arc<dyn Wake>) -> Result<(), fabric::FabricError> {
        Ok(())
    }
    fn detach(&self, _node: u16) {}
}

/// Whoever wrote a register carries out a little of what waits for the card, and leaves the rest to the engine.
#[test]
fn a_register_access_ends_though_work_does_not() {
    let fabric = Arc::new(Endless { stop: AtomicBool::new(true) });
    let setup = Setup { driver: Some(NicThreads::new(1)), ..Setup::over(fabric.clone()) };
    let b = setup.node(0);
    let _q = b.open(2, 1);
    let _stop = Stop(&fabric.stop);
    fabric.stop.store(false, Ordering::Relaxed);
    for _ in 0..5 {
        let before = TAKEN.get();
        b.nic.reg_write(WATCHED, 1);
        // A few rounds of at most 64 packets, each of which takes longer than a call may drive cards.
        let own = TAKEN.get() - before;
        assert!(own <= 16 * 64, "one access carried out {own} packets");
    }
}

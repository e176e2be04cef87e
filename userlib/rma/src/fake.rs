//! A device for unit tests: resources without a card behind them.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use extoll_abi::{Access, Address, PageOption, WcbState};
use ggas_clock::{Clock, Manual};
use ggas_device::{
    Departures, DeviceError, LostPeer, PortDevice, QueueMap, RegisterMap, SlotMap, Span, UnitDevice,
};

/// Entries of the queue.
pub(crate) const ENTRIES: u32 = 8;

#[derive(Debug)]
pub(crate) struct Fake {
    queue: Box<[[AtomicU64; 2]]>,
    read_pointer: Box<AtomicU64>,
    pub(crate) wcb: Arc<AtomicU64>,
    /// How many of the next descriptors the card rejects at once.
    pub(crate) reject: AtomicU64,
    /// How many of the next descriptors their writer is interrupted in for so long that the card gives them up.
    pub(crate) lose: AtomicU64,
    /// Whether it commits what is complete.
    pub(crate) commits: AtomicBool,
    /// Words in the order of their stores: option, offset, value.
    pub(crate) stores: Mutex<Vec<(u8, u64, u64)>>,
    departures: Arc<AtomicU32>,
    lost: Mutex<Vec<LostPeer>>,
    /// Whose notification arrives when lost peers are drained.
    late: Mutex<Option<Address>>,
    asleep: AtomicBool,
    batch: u8,
    clock: Clock,
    pub(crate) time: Arc<Manual>,
    /// When it gives up the words that came too late.
    gives_up: Mutex<Option<Instant>>,
}

impl Fake {
    pub(crate) fn new() -> Fake {
        let (clock, time) = Manual::new();
        Fake {
            clock,
            time,
            gives_up: Mutex::default(),
            queue: (0..ENTRIES).map(|_| Default::default()).collect(),
            read_pointer: Box::default(),
            wcb: Arc::default(),
            reject: AtomicU64::new(0),
            lose: AtomicU64::new(0),
            commits: AtomicBool::new(false),
            stores: Mutex::default(),
            departures: Arc::default(),
            lost: Mutex::default(),
            late: Mutex::default(),
            asleep: AtomicBool::new(false),
            batch: 0,
        }
    }

    /// One whose WCB state is no memory.
    pub(crate) fn behind_a_bus() -> Fake {
        Fake { batch: 64, ..Fake::new() }
    }

    /// Writes a notification as the card does.
    pub(crate) fn notify(&self, index: u32, word0: u64, word1: u64) {
        let entry = &self.queue[(index % ENTRIES) as usize];
        assert_eq!(entry[1].load(Ordering::Relaxed), 0, "entry {index} is not free");
        entry[0].store(word0, Ordering::Relaxed);
        entry[1].store(word1, Ordering::Release);
    }

    pub(crate) fn read_pointer(&self) -> u64 {
        self.read_pointer.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> WcbState {
        WcbState(self.wcb.load(Ordering::Relaxed))
    }

    pub(crate) fn set_state(&self, state: WcbState) {
        self.wcb.store(state.0, Ordering::Relaxed);
    }

    pub(crate) fn lose(&self, peer: LostPeer) {
        self.lost.lock().unwrap().push(peer);
        self.departures.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn arrives_late(&self, from: Address) {
        *self.late.lock().unwrap() = Some(from);
    }

    /// Returns when someone sleeps.
    pub(crate) fn until_asleep(&self) {
        while !self.asleep.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// First words of the descriptors written since the last call.
    pub(crate) fn written(&self) -> Vec<u64> {
        let stores = std::mem::take(&mut *self.stores.lock().unwrap());
        assert!(stores.chunks(3).all(|words| words.iter().map(|w| w.1).eq([0, 8, 16])), "ascending order");
        stores.iter().step_by(3).map(|w| w.2).collect()
    }
}

impl UnitDevice for Fake {
    fn address(&self) -> Address {
        Address::new(0, 0)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn progress(&self) -> bool {
        let over = |at: &Instant| *at <= self.clock.now();
        if self.gives_up.lock().unwrap().take_if(|at| over(at)).is_some() {
            self.set_state(self.state().with_assembly(false));
        }
        false
    }

    fn set_read_pointer(&self, index: u32, _: bool) {
        self.read_pointer.store(index.into(), Ordering::Relaxed);
    }

    fn registers(&self) -> RegisterMap {
        RegisterMap { read_pointer: NonNull::from(&*self.read_pointer), wcb_state: NonNull::from(&*self.wcb) }
    }

    fn wcb_batch(&self) -> u8 {
        self.batch
    }

    fn sleep_until(&self, ready: &dyn Fn() -> bool, _: Duration) {
        self.asleep.store(true, Ordering::Release);
        while !ready() {
            std::thread::yield_now();
        }
    }

    fn departures(&self) -> Departures {
        Departures::new(self.departures.clone())
    }

    fn lost_peer(&self, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
        self.lost.lock().unwrap().iter().copied().find(|peer| peer.node == node && peer.vpid == vpid)
    }

    fn drain_lost(&self) {
        if let Some(from) = self.late.lock().unwrap().take() {
            let remote = u64::from(from.node) << 32 | u64::from(from.vpid) << 23;
            self.notify(0, 0, 5 << 51 | 4 << 48 | remote);
        }
    }

    fn close(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl PortDevice for Fake {
    fn queue(&self) -> QueueMap {
        QueueMap { base: NonNull::from(&*self.queue).cast(), entries: ENTRIES }
    }

    fn requester_store(&self, option: PageOption, offset: u64, value: u64) {
        self.stores.lock().unwrap().push((option.bits(), offset, value));
        if offset == 8 && self.lose.load(Ordering::Relaxed) > 0 {
            self.lose.fetch_sub(1, Ordering::Relaxed);
            self.time.advance(Duration::from_millis(300));
            self.set_state(self.state().with_assembly(true));
        } else if offset == 16 && self.state().assembly() {
            // The words that came too late wait a little longer, and are given up too.
            *self.gives_up.lock().unwrap() = Some(self.clock.now() + Duration::from_millis(30));
            return;
        }
        if offset == 16 && self.commits.load(Ordering::Relaxed) {
            self.set_state(self.state().with_committed(self.state().committed().wrapping_add(1)));
        }
        let reject = offset == 16 && self.reject.load(Ordering::Relaxed) > 0;
        if reject {
            self.reject.fetch_sub(1, Ordering::Relaxed);
            let state = self.state();
            self.set_state(state.with_retry(true).with_rejected(state.rejected() + 1));
        }
    }

    fn attach_slots(&self, _: u32, _: PageOption) -> Result<SlotMap, DeviceError> {
        Err(DeviceError::NoSlotPath)
    }

    unsafe fn register(&self, _: Span, _: Access) -> Result<u64, DeviceError> {
        Err(DeviceError::Closed)
    }

    fn unregister(&self, _: u64) -> Result<(), DeviceError> {
        Err(DeviceError::Closed)
    }
}

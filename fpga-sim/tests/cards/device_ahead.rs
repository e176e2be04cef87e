//! Payloads of other hosts for a device that is slow: how many of their bytes a card fetches before it is their turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::common::far::FarAway;
use crate::common::*;
use extoll_abi::{Access, Gate, PageSize, Spec};
use extoll_sim::memory::{FarSource, TicketState};
use extoll_sim::*;

const LEN: usize = 1 << 20;
/// As many as a peer may have under way.
const PUTS: usize = 64;
/// As `card/ahead.rs` has it.
const MOST: usize = 32 << 20;

/// A device that makes as many copies as it is let.
#[derive(Default)]
struct Device(Mutex<State>);

#[derive(Default)]
struct State {
    left: usize,
    last: u64,
    /// Destination, source and bytes.
    copies: HashMap<u64, (u64, u64, usize)>,
}

impl Device {
    fn make(&self, copies: usize) {
        self.0.lock().unwrap().left = copies;
    }
}

impl DeviceCopier for Device {
    fn copy(&self, destination: u64, source: u64, len: usize) -> u64 {
        let State { last, copies, .. } = &mut *self.0.lock().unwrap();
        *last += 1;
        copies.insert(*last, (destination, source, len));
        *last
    }

    fn write_inline(&self, _: u64, _: &[u8]) -> u64 {
        unreachable!("nothing here is so short")
    }

    fn poll(&self, id: u64) -> TicketState {
        let State { left, copies, .. } = &mut *self.0.lock().unwrap();
        if *left == 0 {
            return TicketState::Pending;
        }
        *left -= 1;
        let (destination, source, len) = copies.remove(&id).unwrap();
        // SAFETY: declared by this test, or kept by the card until this is over.
        unsafe { std::ptr::copy(source as *const u8, destination as *mut u8, len) };
        TicketState::Done
    }
}

/// What came from each node: payloads that are fetched, so far.
#[derive(Default)]
struct Fetched([AtomicUsize; 3]);

impl Fetched {
    fn of(&self, node: u16) -> usize {
        self.0[usize::from(node)].load(Ordering::Relaxed)
    }
}

/// A payload, which is one byte often.
struct Same {
    byte: u8,
    from: u16,
    fetched: Arc<Fetched>,
}

impl FarSource for Same {
    unsafe fn read(&self, _: usize, _: u64, _: usize, _: bool) -> u64 {
        unreachable!("all of it goes to a device")
    }

    fn state(&self, _: u64) -> TicketState {
        TicketState::Failed
    }

    fn fetch(&self, len: usize) -> u64 {
        self.fetched.0[usize::from(self.from)].fetch_add(1, Ordering::Relaxed);
        len as u64
    }

    fn fetched(&self, len: u64) -> Option<Result<Vec<u8>, ()>> {
        Some(Ok(vec![self.byte; len as usize]))
    }
}

#[test]
fn payloads_are_fetched_early_within_bounds() {
    let fetched = Arc::<Fetched>::default();
    let carried = fetched.clone();
    let far =
        move |byte, from| -> Arc<dyn FarSource> { Arc::new(Same { byte, from, fetched: carried.clone() }) };
    let setup = Setup::over(FarAway::new(0, far));
    let (target, first, second) = (setup.node(0), setup.node(1), setup.node(2));
    let (device, words) = (Arc::<Device>::default(), vec![0_u64; (PUTS * LEN + 4096) / 8]);
    let base = (words.as_ptr() as u64).next_multiple_of(4096);
    // SAFETY: undeclared before the words are freed.
    unsafe { setup.memory.add_range(RangeKind::Device(device.clone()), base, PUTS * LEN).unwrap() };
    const FIRST: u32 = 1 << 16;
    for page in 0..(PUTS * LEN / 4096) as u32 {
        let gate = Gate::new(1, Access::ALL, base + 4096 * u64::from(page), PageSize::K4).unwrap();
        target.set_gate(FIRST + page, gate);
    }
    let mut port = target.open(1, 1);
    let senders = [&first, &second].map(|node| {
        let pages = Pages::new(&node.memory, LEN + PUTS * 4096, 4096);
        (0..pages.len() / 4096).for_each(|page| pages.write(4096 * page, &[(page as u8).wrapping_add(1)]));
        let port = node.open(1, 1);
        let nla = node.register(1, &pages, Access::ALL);
        (port, nla, pages)
    });
    let to_port = port.address();
    let put = |by: usize, number: usize| {
        let ((from, nla, _), to) = (&senders[by], (u64::from(FIRST) << 12) + (number * LEN) as u64);
        from.put(to_port, Spec::COMPLETER, nla + 4096 * number as u64, to, LEN as u32);
    };
    // One payload is at the device, and others wait for it.
    (0..PUTS - 2).for_each(|number| put(0, number));
    let mut own = fetched.of(1);
    assert!((3..=MOST / 2 / LEN + 1).contains(&own), "{own} of {PUTS} MiB are in memory");
    // The room of one that is over is the next one's.
    device.make(1);
    let (deadline, mut came) = (Instant::now() + PATIENCE, [0, 0]);
    while port.try_next().is_none() {
        target.nic.progress();
        assert!(Instant::now() < deadline, "the first one");
    }
    (own, came[0]) = (own + 1, 1);
    assert_eq!(fetched.of(1), own);
    (PUTS - 2..PUTS).for_each(|number| put(1, number));
    assert_eq!((fetched.of(1), fetched.of(2)), (own, 0), "those of before come first at one port");
    // At another one there is room for who has nothing.
    let mut other = target.open(2, 1);
    for page in 0..(2 * LEN / 4096) as u32 {
        let address = base + ((PUTS - 2) * LEN) as u64 + 4096 * u64::from(page);
        target.set_gate((1 << 15) + page, Gate::new(2, Access::ALL, address, PageSize::K4).unwrap());
    }
    for number in 0..2 {
        let to = (1 << 15 << 12) + (number * LEN) as u64;
        let (from, nla, _) = &senders[1];
        from.put(other.address(), Spec::COMPLETER, nla + 4096 * (PUTS - 2 + number) as u64, to, LEN as u32);
    }
    assert_eq!((fetched.of(1), fetched.of(2)), (own, 2));

    device.make(usize::MAX);
    while came != [PUTS, 2] {
        target.nic.progress();
        came[0] += usize::from(port.try_next().is_some());
        came[1] += usize::from(other.try_next().is_some());
        assert!(Instant::now() < deadline, "{came:?}");
    }
    assert_eq!((fetched.of(1), fetched.of(2)), (PUTS - 2, 4), "each once");
    setup.memory.remove_range(base, PUTS * LEN).unwrap();
    for number in 0..PUTS {
        let at = (base - words.as_ptr() as u64) as usize / 8 + number * LEN / 8;
        let expected = u64::from_ne_bytes([number as u8 + 1; 8]);
        assert!(words[at..at + LEN / 8].iter().all(|word| *word == expected), "payload {number}");
    }
}

//! Short writes by a kernel on standby: to launch one for each takes longer than the write, and so does a copy engine. It ends
//! by itself soon after the last write ([`PATIENCE`]), as programs wait for their GPU. Only one that has begun is ordered
//! anything: where a program's kernels fill the GPU, the next one may not begin before they end, and they may wait for the write.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use ggas::kernels::args::{GASPI_ORDERS, gaspi_order, gaspi_ordered, gaspi_standby};
use ggas::{Launch, Processor};
use ggas_clock::{Backoff, Clock, Ladder};
use ggas_gpu::{Gpu, GpuError, Stream};

use super::Memory;
use crate::GaspiError;
use crate::error::because;

/// Bytes of all orders; then comes how far the kernel is.
const ORDERED: usize = GASPI_ORDERS as usize * size_of::<gaspi_order>();
const DONE: usize = ORDERED + std::mem::offset_of!(gaspi_ordered, done);
const HERE: usize = ORDERED + std::mem::offset_of!(gaspi_ordered, here);
const LEAVES: usize = ORDERED + std::mem::offset_of!(gaspi_ordered, leaves);
const GONE: usize = ORDERED + std::mem::offset_of!(gaspi_ordered, gone);

/// How long the kernel stays without a write.
pub(super) const PATIENCE: Duration = Duration::from_micros(100);

/// How long one that has said that it ends may take to.
const ENDING: Duration = Duration::from_secs(1);

/// A short write, and the word behind it by its address and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub to: u64,
    pub from: u64,
    pub bytes: u32,
    pub word: Option<(u64, u32)>,
}

/// Orders in memory that host and kernel share.
#[derive(Debug)]
pub(super) struct Orders {
    memory: Memory,
    posted: u64,
    /// Kernels that were launched.
    lives: u64,
}

impl Orders {
    pub(super) fn new(processor: &Processor) -> Result<Orders, GaspiError> {
        let memory = Memory::on_host(processor, ORDERED + size_of::<gaspi_ordered>())?;
        Ok(Orders { memory, posted: 0, lives: 0 })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let base = self.memory.address() as *mut u64;
        // SAFETY: an aligned word of the structure, host memory that both sides access by atomics.
        unsafe { AtomicU64::from_ptr(base.byte_add(at)) }
    }

    /// Address of the number of the last order that is done.
    pub(super) fn done_at(&self) -> u64 {
        self.memory.address() + DONE as u64
    }

    /// Whether all up to this one are done.
    pub(super) fn are_done(&self, number: u64) -> bool {
        self.word(DONE).load(Ordering::Acquire) >= number
    }

    fn has_room(&self) -> bool {
        let most = u64::from(GASPI_ORDERS);
        self.posted < most || self.are_done(self.posted + 1 - most)
    }

    fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Whether a kernel takes orders.
    fn is_served(&self) -> bool {
        self.load(HERE) == self.lives && self.load(LEAVES) != self.lives && self.has_room()
    }

    /// The next kernel, where the last one has ended.
    fn next(&self) -> Option<gaspi_standby> {
        (self.load(GONE) == self.lives).then(|| gaspi_standby {
            orders: self.memory.address(),
            ordered: self.memory.address() + ORDERED as u64,
            life: self.lives + 1,
            patience_ns: PATIENCE.as_nanos() as u64,
        })
    }

    /// Orders a write, its number; `None`, and nothing ordered, where no kernel takes it.
    fn post(&mut self, order: &Order) -> Option<u64> {
        if !self.is_served() {
            return None;
        }
        let number = self.posted + 1;
        let (word, value) = order.word.unwrap_or_default();
        let rest = u64::from(order.bytes) << 32 | u64::from(value);
        self.publish(number, [order.to, order.from, word, rest]);
        fence(Ordering::SeqCst);
        if self.load(LEAVES) == self.lives && !self.is_taken(number) {
            // It has ended, and the next one must not find this.
            self.publish(0, [0; 4]);
            return None;
        }
        self.posted = number;
        Some(number)
    }

    /// Behind the last order; with number 0 it is none.
    fn publish(&self, number: u64, parts: [u64; 4]) {
        let at = ((self.posted + 1) % u64::from(GASPI_ORDERS)) as usize * size_of::<gaspi_order>();
        for (lane, part) in parts.into_iter().enumerate() {
            self.word(at + 16 * lane).store(part, Ordering::Relaxed);
            self.word(at + 16 * lane + 8).store(number, Ordering::Release);
        }
    }

    /// Waits until a kernel that is about to end has taken this order, or ended: microseconds, since it runs. One that does
    /// neither is of a GPU that has failed.
    fn is_taken(&self, number: u64) -> bool {
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, ENDING);
        loop {
            // It says that it is gone behind what it has done.
            let is_gone = self.load(GONE) == self.lives;
            if self.are_done(number) || is_gone || backoff.pause().is_err() {
                return self.are_done(number);
            }
        }
    }
}

/// The kernel of a process.
pub(super) struct Standby {
    orders: Orders,
    stream: Stream,
    /// When this was last asked to take a write, whether or not it did.
    last: Option<Instant>,
}

impl fmt::Debug for Standby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Standby {{ orders: {:?} }}", self.orders)
    }
}

impl Standby {
    pub(super) fn new(processor: &Processor, gpu: &Gpu) -> Result<Standby, GaspiError> {
        let stream = gpu.stream().map_err(because(GaspiError::Failed))?;
        Ok(Standby { orders: Orders::new(processor)?, stream, last: None })
    }

    pub(super) fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Orders a write, its number; `None`: another way is to be taken. A kernel is there once writes come so often that it
    /// does not end in between.
    pub(super) fn post(&mut self, processor: &Processor, order: &Order) -> Result<Option<u64>, GaspiError> {
        let now = Clock::REAL.now();
        let is_busy = self.last.replace(now).is_some_and(|last| now - last < PATIENCE);
        let number = self.orders.post(order);
        if is_busy
            && number.is_none()
            && let Some(args) = self.orders.next()
        {
            self.launch(processor, &args)?;
            self.orders.lives = args.life;
        }
        Ok(number)
    }

    fn launch(&self, processor: &Processor, args: &gaspi_standby) -> Result<(), GaspiError> {
        // SAFETY: the structure of this kernel; the orders stay until it has ended, and segments until what was ordered of them
        // is done.
        let launch = unsafe { Launch::new(processor, "ggas_gaspi_standby", 1, 32, args) };
        // SAFETY: a stream of this GPU that lives as long; the kernel ends by itself.
        unsafe { launch.enqueue(self.stream.as_raw()) }.map_err(because(GaspiError::Failed))
    }

    /// Whether all up to this one are done; an error where the GPU has failed.
    pub(super) fn are_done(&self, number: u64) -> Result<bool, GpuError> {
        // Only what is late is worth asking for.
        Ok(self.orders.are_done(number) || (self.stream.is_done()? && self.orders.are_done(number)))
    }

    /// Waits for that.
    pub(super) fn wait(&self, number: u64, limit: Duration) -> Result<(), GpuError> {
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, limit);
        while !self.are_done(number)? {
            let over = |waited| GpuError::Timeout { what: "short writes between GPUs".to_owned(), waited };
            backoff.pause().map_err(over)?;
        }
        Ok(())
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        // The kernel looks at the orders until it ends.
        if let Err(error) = self.stream.wait("short writes between GPUs", super::direct::SETTLING) {
            tracing::warn!("a kernel does not end: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timeout;
    use ggas::kernels::{Running, start};

    const SOON: Duration = Duration::from_secs(60);

    /// The next kernel on the executor, if the last one has ended.
    fn launch(cpu: &Processor, orders: &mut Orders, patience_ns: u64) -> Option<Running> {
        let args = gaspi_standby { patience_ns, ..orders.next()? };
        // SAFETY: the structure of this kernel; the test waits for its end before the memory goes.
        let launch = unsafe { Launch::new(cpu, "ggas_gaspi_standby", 1, 32, &args) };
        orders.lives = args.life;
        Some(start(&[launch]).unwrap())
    }

    /// Kernels that leave soon, and ones that stay: each order is carried out once, or not taken.
    fn all_are_carried_out(patience_ns: u64) {
        let cpu = Processor::cpu();
        let (mut orders, mut kernels) = (Orders::new(&cpu).unwrap(), Vec::new());
        let from: Vec<u64> = (0..512).map(|i| 0x0101_0101_0101_0101 * (i % 251)).collect();
        let (mut to, word) = (vec![0u64; 512], AtomicU64::new(0));
        let mut random = fastrand::Rng::with_seed(7);
        for round in 1..=200u32 {
            let bytes = random.u32(0..4096);
            let order = Order {
                to: to.as_mut_ptr() as u64,
                from: from.as_ptr() as u64,
                bytes,
                word: (round % 3 != 0).then_some((word.as_ptr() as u64, round)),
            };
            // Without naps, which would miss kernels that leave soon.
            let eager = Ladder { yields: u32::MAX - 64, ..Ladder::SHORT };
            let number = Timeout::Within(SOON).wait_on(eager, Clock::REAL, || {
                kernels.extend(launch(&cpu, &mut orders, patience_ns));
                Ok(orders.post(&order))
            });
            // Some are waited for, others pile up.
            if round % 100 < 50 {
                let number = number.unwrap();
                Timeout::Within(SOON)
                    .wait(Clock::REAL, || Ok(orders.are_done(number).then_some(())))
                    .unwrap();
                let whole = bytes as usize / 8;
                assert_eq!(to[..whole], from[..whole], "round {round}");
                to.fill(0);
                if round % 3 != 0 {
                    assert_eq!(word.load(Ordering::Acquire), u64::from(round));
                }
            }
        }
        kernels.into_iter().for_each(|kernel| kernel.wait(SOON).unwrap());
        assert!(orders.are_done(200) && !orders.are_done(201));
        assert_eq!(word.load(Ordering::Acquire), 200);
        assert!(patience_ns > 1_000_000 || orders.lives > 1, "none left");
    }

    #[test]
    fn orders_are_taken_by_a_kernel_that_stays_or_the_next_one() {
        all_are_carried_out(30_000);
        all_are_carried_out(2_000_000);
    }

    const NOTHING: Order = Order { to: 0, from: 0, bytes: 0, word: None };

    /// Whose first kernel has begun.
    fn served() -> Orders {
        let mut orders = Orders::new(&Processor::cpu()).unwrap();
        assert_eq!(orders.post(&NOTHING), None, "there is none at first");
        orders.lives = orders.next().unwrap().life;
        assert!(orders.post(&NOTHING).is_none() && orders.next().is_none(), "it has not begun");
        orders.word(HERE).store(1, Ordering::Relaxed);
        orders
    }

    #[test]
    fn a_full_ring_takes_nothing() {
        let mut orders = served();
        for number in 1..=u64::from(GASPI_ORDERS) {
            assert_eq!(orders.post(&NOTHING), Some(number));
        }
        assert_eq!(orders.post(&NOTHING), None);
        orders.word(DONE).store(1, Ordering::Release);
        assert!(orders.are_done(1) && !orders.are_done(2));
        assert_eq!(orders.post(&NOTHING), Some(1 + u64::from(GASPI_ORDERS)));
    }

    #[test]
    fn what_a_kernel_does_not_take_that_ends_is_taken_back() {
        let mut orders = served();
        assert_eq!(orders.post(&NOTHING), Some(1));
        orders.word(LEAVES).store(1, Ordering::Relaxed);
        assert!(orders.post(&NOTHING).is_none() && orders.next().is_none(), "it has not ended");
        // As if it had said so behind the first look.
        orders.word(GONE).store(1, Ordering::Relaxed);
        orders.publish(2, [7; 4]);
        assert!(!orders.is_taken(2) && orders.is_taken(0));
        orders.publish(0, [0; 4]);
        assert_eq!(orders.load(2 * size_of::<gaspi_order>() + 8), 0);
        assert_eq!(orders.next().map(|next| next.life), Some(2));
    }
}

//! Networks of engines that share memory as those of several processes do, and what becomes of a node whose process ends
//! at a bad moment.

use std::mem::{offset_of, size_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::SOON;
use crate::common::engines::{CONFIG, errors, port};
use ggas_device::engine::{EngineConfig, EngineErrors, EngineMemory, EngineNetwork, engine_part_bytes};
use ggas_device::{DeviceError, HostBuffer, LostPeer, PeerEnd};
use ggas_kernels::Processor;
use ggas_kernels::args::{ENGINE_CLASSES, ENGINE_LINES, engine_line, engine_node};
use ggas_rma::{Address, Node, Port, PortConfig, Spec};

const NODES: usize = 2;

/// Parts of two nodes, and whether the process of node 0 is gone.
#[derive(Debug)]
struct Shared(HostBuffer, AtomicBool);

impl Shared {
    fn networks() -> (Arc<Shared>, [EngineNetwork; NODES]) {
        let memory =
            Arc::new(Shared(HostBuffer::zeroed(NODES * Shared::stride()).unwrap(), AtomicBool::new(false)));
        let cpu = Processor::cpu();
        // Nothing is dropped for want of time.
        let config = EngineConfig {
            queue_timeout: Duration::from_secs(600),
            timeout: SOON,
            ..EngineConfig::default()
        };
        let network = |node| EngineNetwork::across(memory.clone(), &cpu, node, NODES, config).unwrap();
        (memory.clone(), [network(0), network(1)])
    }

    fn stride() -> usize {
        engine_part_bytes(NODES).next_multiple_of(4096)
    }

    fn at(node: u16, offset: usize) -> usize {
        usize::from(node) * Shared::stride() + offset
    }

    /// Writes the first lines of the ring of requests that node 1 keeps for node 0, which lies first of all rings.
    fn forge(&self, words: &[u64]) {
        let rings = ENGINE_CLASSES as usize * NODES * ENGINE_LINES as usize * size_of::<engine_line>();
        let ring = Shared::at(1, engine_part_bytes(NODES) - rings);
        for (i, word) in words.iter().enumerate() {
            self.0.store_u64(ring + 16 * i, *word);
            self.0.store_u64(ring + 16 * i + 8, i as u64 + 1);
        }
    }

    /// Waits until the engine of node 1 says that there is nothing more to come from node 0, in that ring.
    fn wait_drained(&self) {
        let begun = Instant::now();
        while self.0.load_u64(Shared::at(1, offset_of!(engine_node, drained))) == 0 {
            assert!(begun.elapsed() < SOON, "the half of a put is still waited for");
            std::thread::yield_now();
        }
    }
}

// SAFETY: the buffer lives as long as the value, and all kernels are of the CPU executor.
unsafe impl EngineMemory for Shared {
    fn address(&self, node: u16) -> u64 {
        self.0.address() + Shared::at(node, 0) as u64
    }

    fn load(&self, node: u16, offset: usize, words: &mut [u64]) -> Result<(), DeviceError> {
        let first = Shared::at(node, offset);
        words.iter_mut().enumerate().for_each(|(i, word)| *word = self.0.load_u64(first + 8 * i));
        Ok(())
    }

    fn store(&self, node: u16, offset: usize, words: &[u64]) -> Result<(), DeviceError> {
        let first = Shared::at(node, offset);
        words.iter().enumerate().for_each(|(i, word)| self.0.store_u64(first + 8 * i, *word));
        Ok(())
    }

    fn store_u32(&self, node: u16, offset: usize, value: u32) -> Result<(), DeviceError> {
        let word = self.0.word(Shared::at(node, offset & !7)).as_ptr().cast::<u32>();
        // SAFETY: half of a word of the buffer.
        unsafe { AtomicU32::from_ptr(word.add(offset / 4 % 2)) }.store(value, Ordering::Release);
        Ok(())
    }

    fn lost(&self, node: u16) -> Option<LostPeer> {
        let lost = node == 0 && self.1.load(Ordering::Acquire);
        lost.then_some(LostPeer { rank: 0, node: 0, vpid: None, end: PeerEnd::Lost })
    }
}

/// Header of a put of 4,096 bytes by node 0 to VPID 0 of node 1, at NLA 0.
fn header() -> [u64; 4] {
    let word0 = 3 | 1 << 16 | 4095 << 40;
    [word0, 0, 0, 4096 << 24 | 1 << 40]
}

/// A change of a port of node 1, and a message to itself.
fn works(network: &EngineNetwork, one: &Port) {
    let begun = Instant::now();
    drop(Node::new(network.device(1).unwrap()).open_port(CONFIG).unwrap());
    one.connect(Address::new(1, 0)).notification_put(1, 7, Spec::COMPLETER).unwrap();
    assert_eq!(one.wait(SOON).unwrap().word0, 7);
    assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
}

#[test]
fn half_a_put_delays_no_change_and_is_forgotten_with_its_sender() {
    let (memory, [_, network]) = Shared::networks();
    let one = port(&network, 1);
    memory.forge(&header());
    let running = network.run().unwrap();
    works(&network, &one);
    network.losses().lost(0);
    works(&network, &one);
    memory.wait_drained();
    // It ends at once, and the next run finds the same.
    let begun = Instant::now();
    drop(running);
    assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
    let _running = network.run().unwrap();
    works(&network, &one);
    assert_eq!(errors(&network, 1), EngineErrors::default());
}

#[test]
fn what_was_sent_before_the_loss_is_taken_in_and_answers_are_refused() {
    let (_, [zero, one]) = Shared::networks();
    let ports = [port(&zero, 0), port(&one, 1)];
    let connection = ports[0].connect(ports[1].address());
    connection.notification_put(5, 11, Spec::COMPLETER).unwrap();
    let lock = ggas_rma::Lock { number: 1, compare: 5, add: 1 };
    connection.lock(lock, Spec::COMPLETER).unwrap();
    // All has left, and nobody was there.
    drop(zero.run().unwrap());
    one.losses().lost(0);
    let _running = one.run().unwrap();
    assert_eq!(ports[1].wait(SOON).unwrap().word0, 11);
    let begun = Instant::now();
    while errors(&one, 1).gone == 0 {
        assert!(begun.elapsed() < SOON, "the lock is not refused");
        std::thread::yield_now();
    }
    assert_eq!(errors(&one, 1), EngineErrors { gone: 1, ..EngineErrors::default() });
    // What it sends is refused at once, though the ring has room.
    ports[1].connect(ports[0].address()).notification_put(5, 1, Spec::REQUESTER).unwrap();
    assert!(!ports[1].wait(SOON).unwrap().error().is_empty());
    assert_eq!(errors(&one, 1).gone, 2);
}

#[test]
fn what_a_lost_process_had_sent_is_there_once_that_was_waited_for() {
    /// An engine may have no processor for long.
    const TRIES: u32 = 100;
    assert!((0..TRIES).any(|_| is_there_once_that_was_waited_for()), "never in time");
}

/// Whether the wait was over in time.
fn is_there_once_that_was_waited_for() -> bool {
    const POSTS: u64 = 20;
    /// The device gives up after twice as long.
    const IN_TIME: Duration = Duration::from_millis(50);
    let (memory, [zero, one]) = Shared::networks();
    let ports = [port(&zero, 0), port(&one, 1)];
    let connection = ports[0].connect(ports[1].address());
    let running = zero.run().unwrap();
    (0..POSTS).for_each(|i| connection.notification_put(5, i, Spec::COMPLETER).unwrap());
    drop(running);
    memory.1.store(true, Ordering::Release);
    let _running = one.run().unwrap();
    let begun = Instant::now();
    ports[1].device().drain_lost();
    if begun.elapsed() >= IN_TIME {
        return false;
    }
    let there = std::iter::from_fn(|| ports[1].poll()).map(|noti| noti.word0);
    assert!(there.eq(0..POSTS), "some were not waited for");
    true
}

/// Into a queue that is full most of the time.
#[test]
fn what_a_lost_process_had_sent_arrives_though_its_loss_is_said_again() {
    const POSTS: u64 = 1000;
    let (memory, [zero, one]) = Shared::networks();
    let small = PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..CONFIG };
    let origin = port(&zero, 0);
    let target = Node::new(one.device(1).unwrap()).open_port(small).unwrap();
    let connection = origin.connect(target.address());
    let running = zero.run().unwrap();
    (0..POSTS).for_each(|i| connection.notification_put(5, i, Spec::COMPLETER).unwrap());
    drop(running);
    let _running = one.run().unwrap();
    memory.1.store(true, Ordering::Release);
    let losses = one.losses();
    for i in 0..POSTS {
        if i % 100 == 0 {
            losses.lost(0);
        }
        assert_eq!(target.wait(SOON).unwrap().word0, i);
    }
    assert!(target.poll().is_none());
    memory.wait_drained();
    assert_eq!(errors(&one, 1), EngineErrors::default());
}

//! Puts from GPU memory to GPU memory between two hosts: whether they are right, half round trips, and what many in flight reach. Says
//! which way they take (`GGAS_FABRIC_GPU`): from 32 KiB on by the library where it is direct, else by way of host memory.
//!
//! With the same file of hosts on both, on the second one first; a third argument, `host`, has memory of the host at both ends:
//!
//! ```text
//! gpu_puts hosts 1
//! gpu_puts hosts 0     # prints the table
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::Body;
use ggas_clock::Clock;
use ggas_device::sim::{HostsFabric, HostsFile, SimNetwork};
use ggas_device::{Address, HostBuffer, Place, Span};
use ggas_gpu::{DeviceBuffer, Gpu};
use ggas_rma::{Connection, Node, Port, PortConfig, Region, Spec};

/// Bytes, half round trips, and how many of them at once.
const SIZES: [(usize, usize, usize); 12] = [
    (8, 2_000, 256),
    (64, 2_000, 256),
    (1 << 10, 2_000, 256),
    (4 << 10, 1_000, 256),
    (16 << 10, 1_000, 128),
    (32 << 10, 500, 128),
    (64 << 10, 500, 128),
    (256 << 10, 200, 64),
    (1 << 20, 100, 48),
    (4 << 20, 40, 24),
    (16 << 20, 20, 8),
    (64 << 20, 10, 4),
];
const MOST: usize = 64 << 20;
/// Behind each half, to see that nothing is written there.
const BEYOND: usize = 4096;
/// Bytes of one command.
const COMMAND: usize = 4 << 20;
/// Bytes that are on their way at once.
const WINDOW: usize = 64 << 20;
const LIMIT: Duration = Duration::from_secs(60);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, node, rest @ ..] = &args[..] else { return Err("gpu_puts FILE NODE [host]".into()) };
    let node: u16 = node.parse()?;
    let fabric = HostsFabric::join(&HostsFile::read(Path::new(file))?, node)?;
    let network = SimNetwork::builder().join_hosts(fabric)?;
    let own = Node::new(network.device(0)?);
    let port = own.open_port(PortConfig { queue_bytes: 64 << 10, ..PortConfig::default() })?;
    let memory = Memory::new(&port, rest.first().is_some_and(|place| place == "host"))?;
    let other = port.connect(Address::new(1 - node, port.address().vpid));
    let mut ends = Ends { node, port: &port, other: &other, memory: &memory, target: 0 };
    ends.target = ends.meet()?;
    if node == 0 {
        let choice = ggas_wire::choose()?;
        println!("{} memory at both ends, {choice}", memory.place());
        println!("GPU memory: {}", choice.gpu);
        println!("{:>10}  {:>12}  {:>12}  {:>8}", "bytes", "us, half", "us, least", "GB/s");
    }
    for (bytes, rounds, count) in SIZES {
        ends.check(bytes)?;
        let took = ends.trips(bytes, rounds)?;
        let rate = ends.stream(bytes, count)?;
        if node == 0 {
            let (median, least) = (took[took.len() / 2], took[0]);
            println!("{bytes:>10}  {median:>12.2}  {least:>12.2}  {rate:>8.3}");
        }
    }
    ends.barrier()?;
    if node == 0 {
        println!("all bytes were right");
    }
    Ok(())
}

/// The first half goes out, the second one takes what comes.
struct Memory {
    region: Region,
    buffer: Option<Arc<DeviceBuffer>>,
}

impl Memory {
    fn new(port: &Port, host: bool) -> Result<Memory> {
        let len = 2 * (MOST + BEYOND);
        if host {
            return Ok(Memory { region: port.register(HostBuffer::zeroed(len)?)?, buffer: None });
        }
        let gpu = Gpu::open(0)?;
        let buffer = Arc::new(gpu.alloc(len)?);
        let span = Span { address: buffer.address(), len, place: Place::Gpu(gpu) };
        // SAFETY: the region keeps the buffer, which is accessed by copies alone.
        let region = unsafe { port.register_kept(span, buffer.clone()) }?;
        Ok(Memory { region, buffer: Some(buffer) })
    }

    fn place(&self) -> String {
        self.buffer.as_ref().map_or("host".to_owned(), |buffer| format!("GPU {}", buffer.gpu().ordinal()))
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        match &self.buffer {
            Some(buffer) => Ok(buffer.write(offset as u64, bytes)?),
            None => Ok(self.region.write(offset, bytes)?),
        }
    }

    fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        match &self.buffer {
            Some(buffer) => buffer.read(offset as u64, &mut bytes)?,
            None => self.region.read(offset, &mut bytes)?,
        }
        Ok(bytes)
    }
}

const INCOMING: usize = MOST + BEYOND;

struct Ends<'a> {
    node: u16,
    port: &'a Port,
    other: &'a Connection,
    memory: &'a Memory,
    /// Where the other takes what comes.
    target: u64,
}

/// What goes from a node, so many bytes long.
fn pattern(node: u16, bytes: usize) -> Vec<u8> {
    let seed = u64::from(node) << 32 | bytes as u64;
    (0..bytes as u64).map(|at| ((at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

impl Ends<'_> {
    /// Each tells the other where it takes what comes.
    fn meet(&self) -> Result<u64> {
        let own = self.memory.region.nla(INCOMING)?;
        self.other.notification_put(1, own / 4096, Spec::COMPLETER)?;
        let said = self.port.wait(LIMIT)?;
        let Ok((_, Body::Class { payload, .. })) = said.decode() else {
            return Err(format!("{said:?}").into());
        };
        Ok(payload * 4096 + own % 4096)
    }

    fn barrier(&self) -> Result<()> {
        self.other.notification_put(1, 0, Spec::COMPLETER)?;
        self.wait(1)
    }

    /// Puts what stands at a place of the source to the same place of the target.
    fn put(&self, place: usize, bytes: usize) -> Result<()> {
        for at in (place..place + bytes).step_by(COMMAND) {
            let (len, to) = (COMMAND.min(place + bytes - at), self.target + at as u64);
            self.other.put(&self.memory.region, at, len, to, Spec::COMPLETER)?;
        }
        Ok(())
    }

    fn wait(&self, notifications: usize) -> Result<()> {
        for _ in 0..notifications {
            let said = self.port.wait(LIMIT)?;
            if !said.error().is_empty() {
                return Err(format!("{said:?}").into());
            }
        }
        Ok(())
    }

    /// A put of each, seen as it came.
    fn check(&self, bytes: usize) -> Result<()> {
        self.memory.write(0, &pattern(self.node, bytes))?;
        self.memory.write(INCOMING, &vec![0; bytes + BEYOND])?;
        self.barrier()?;
        if self.node == 0 {
            self.put(0, bytes)?;
        }
        self.wait(bytes.div_ceil(COMMAND))?;
        let came = self.memory.read(INCOMING, bytes + BEYOND)?;
        let wanted = pattern(1 - self.node, bytes);
        if let Some(at) = (0..bytes).find(|at| came[*at] != wanted[*at]) {
            return Err(format!("of {bytes} bytes byte {at} is {}, not {}", came[at], wanted[at]).into());
        }
        if came[bytes..].iter().any(|byte| *byte != 0) {
            return Err(format!("{bytes} bytes are followed by others").into());
        }
        if self.node == 1 {
            self.put(0, bytes)?;
        }
        Ok(())
    }

    /// Half round trips in microseconds, shortest first.
    fn trips(&self, bytes: usize, rounds: usize) -> Result<Vec<f64>> {
        let puts = bytes.div_ceil(COMMAND);
        let mut took = Vec::with_capacity(rounds);
        self.barrier()?;
        for _ in 0..rounds {
            let began = Clock::REAL.now();
            if self.node == 0 {
                self.put(0, bytes)?;
                self.wait(puts)?;
                took.push(Clock::REAL.since(began).as_secs_f64() * 1e6 / 2.0);
            } else {
                self.wait(puts)?;
                self.put(0, bytes)?;
            }
        }
        took.sort_by(f64::total_cmp);
        Ok(took)
    }

    /// GB/s of many puts, as their target takes them.
    fn stream(&self, bytes: usize, count: usize) -> Result<f64> {
        let (puts, at_once) = (bytes.div_ceil(COMMAND), (WINDOW / bytes).clamp(1, count));
        self.barrier()?;
        let began = Clock::REAL.now();
        for sent in 0..count {
            if self.node == 0 {
                if sent >= at_once {
                    self.wait(1)?;
                }
                self.put(sent % at_once * bytes, bytes)?;
            } else {
                self.wait(puts)?;
                self.other.notification_put(1, 0, Spec::COMPLETER)?;
            }
        }
        if self.node == 0 {
            self.wait(at_once)?;
        }
        Ok((bytes * count) as f64 / Clock::REAL.since(began).as_secs_f64() / 1e9)
    }
}

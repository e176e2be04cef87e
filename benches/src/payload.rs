//! Registered buffers, and the data that go through them.

use std::sync::Arc;

use ggas::{HostBuffer, PortBase, Region};
use ggas_kernels::{Mapped, Processor};

use crate::error::Doing;
use crate::setup::Setup;
use crate::{BenchError, Check, Memory, Pattern};

/// Largest payload of one command (spec 2.2).
pub(crate) const MAX_PUT: u64 = 8 << 20;

/// A registered buffer of a node.
pub(crate) struct Payload {
    // Gone before the memory.
    mapped: Option<Mapped>,
    pub region: Region,
    on_gpu: bool,
}

impl Payload {
    /// Registers `bytes` of zeroed memory on `port` of `node`, where the options want the payload.
    pub fn new(setup: &Setup, node: u32, port: &PortBase, bytes: usize) -> Result<Self, BenchError> {
        match setup.options.memory {
            Memory::Host => Self::host(port, bytes),
            Memory::Gpu => Self::of_kernels(setup, node, port, bytes),
        }
    }

    /// Registers `bytes` of zeroed kernel memory of `node` on `port`.
    pub fn of_kernels(setup: &Setup, node: u32, port: &PortBase, bytes: usize) -> Result<Self, BenchError> {
        let memory = setup.processor(node).alloc(bytes).doing("allocating kernel memory")?;
        let region = port.register_kernel_memory(Arc::new(memory));
        let region = region.doing(format!("registering {bytes} bytes of kernel memory"))?;
        Ok(Self { mapped: None, region, on_gpu: true })
    }

    /// Registers `bytes` of zeroed host memory on `port`.
    pub fn host(port: &PortBase, bytes: usize) -> Result<Self, BenchError> {
        let buffer = HostBuffer::zeroed(bytes).doing("allocating host memory")?;
        let region = port.register(buffer).doing(format!("registering {bytes} bytes"))?;
        Ok(Self { mapped: None, region, on_gpu: false })
    }

    /// Registers `bytes` of zeroed memory that other processes cannot map.
    pub fn private(port: &PortBase, bytes: usize) -> Result<Self, BenchError> {
        let buffer = HostBuffer::unshared(bytes).doing("allocating private memory")?;
        let region = port.register(buffer).doing(format!("registering {bytes} bytes of private memory"))?;
        Ok(Self { mapped: None, region, on_gpu: false })
    }

    /// Lets kernels of `processor` use it too, at [`address`](Self::address).
    pub fn for_kernels(mut self, processor: &Processor) -> Result<Self, BenchError> {
        if !self.on_gpu {
            let start = self.region.address() as *mut u8;
            // SAFETY: the region keeps the memory, which is only ever accessed atomically or by copies, and the
            // mapping is dropped first.
            let mapped = unsafe { processor.map_host(start, self.region.len()) };
            self.mapped = Some(mapped.doing("mapping host memory for kernels")?);
        }
        Ok(self)
    }

    /// Where kernels see it.
    pub fn address(&self) -> u64 {
        self.mapped.as_ref().map_or(self.region.address(), Mapped::address)
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), BenchError> {
        self.region.write(offset, bytes).doing("writing the payload")
    }

    /// Copies `len` bytes out.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, BenchError> {
        let mut bytes = vec![0; len];
        self.region.read(offset, &mut bytes).doing("reading the payload")?;
        Ok(bytes)
    }

    /// Network logical address of byte `offset`.
    pub fn nla(&self, offset: usize) -> Result<u64, BenchError> {
        self.region.nla(offset).doing("naming a registered address")
    }
}

/// How a node's registered buffer is divided: two sources, sent in turn so that every arrival changes the data,
/// and where data arrive.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub bytes: usize,
    stride: usize,
}

impl Layout {
    /// For payloads of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes: bytes as usize, stride: (bytes as usize).next_multiple_of(256) }
    }

    /// Offset of what is sent in round `round`.
    pub fn source(&self, round: u64) -> usize {
        (round % 2) as usize * self.stride
    }

    /// Offset of where data arrive.
    pub fn arrival(&self) -> usize {
        2 * self.stride
    }

    /// Bytes of the whole buffer.
    pub fn len(&self) -> usize {
        3 * self.stride
    }
}

/// The data of odd and even rounds: different in every byte, and both different from the poison.
pub(crate) struct RoundData {
    even: Vec<u8>,
    poison: Vec<u8>,
}

impl RoundData {
    /// For payloads of `bytes`.
    pub fn new(seed: u64, stream: u64, bytes: usize) -> Self {
        let pattern = Pattern::new(seed, stream);
        Self { even: pattern.bytes(bytes), poison: pattern.poison(bytes) }
    }

    /// What round `round` sends.
    pub fn of(&self, round: u64) -> Vec<u8> {
        if round.is_multiple_of(2) { self.even.clone() } else { self.even.iter().map(|byte| !byte).collect() }
    }

    /// What the place of arrival holds before.
    pub fn poison(&self) -> &[u8] {
        &self.poison
    }

    /// Writes sources and poison into a buffer.
    pub fn lay_out(&self, payload: &Payload, layout: Layout) -> Result<(), BenchError> {
        for round in 0..2 {
            payload.write(layout.source(round), &self.of(round))?;
        }
        payload.write(layout.arrival(), self.poison())
    }

    /// Compares what arrived at `node` with what the last of `rounds` sent.
    pub fn check(
        &self,
        node: u32,
        payload: &Payload,
        layout: Layout,
        rounds: u64,
    ) -> Result<Check, BenchError> {
        let seen = payload.read(layout.arrival(), layout.bytes)?;
        let mut check = Check::default();
        check.bytes(&format!("what arrived at node {node}"), &self.of(rounds - 1), &seen);
        Ok(check)
    }
}

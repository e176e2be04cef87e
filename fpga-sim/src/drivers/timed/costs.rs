//! The parameters of a system in picoseconds.

use super::system::{Bus, Card, Gpu, Host, Network, Switching, System, Topology};
use super::{Place, Ps};

/// Picoseconds for each byte or element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate(f64);

impl Rate {
    fn per_ns(many: f64) -> Rate {
        Rate(1e3 / many)
    }

    /// How long so many take.
    #[inline]
    pub fn time(self, many: u64) -> u64 {
        (many as f64 * self.0).round() as u64
    }
}

/// A unit of the card: through it, and until it takes another packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub latency: u64,
    pub busy: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub topology: Topology,
    pub store_and_forward: bool,
    pub link: Rate,
    pub link_latency: u64,
    pub switch: u64,
    pub header: u64,
    pub packet: u64,
    pub train: u64,
    pub credits: u64,
    pub bus_write: u64,
    pub bus_read: u64,
    write: [Rate; 2],
    read: [Rate; 2],
    pub requester: Unit,
    pub responder: Unit,
    pub completer: Unit,
    pub window: Unit,
    pub notify: u64,
    pub trigger: u64,
    pub queue: u64,
    pub host: HostCosts,
    pub gpu: GpuCosts,
}

#[derive(Clone, Debug)]
pub(super) struct HostCosts {
    pub cores: u64,
    pub slice: Ps,
    pub post: Ps,
    pub poll: Ps,
    pub look: Ps,
    elements: Rate,
    memory: Rate,
}

#[derive(Clone, Debug)]
pub(super) struct GpuCosts {
    pub places: usize,
    pub launch_call: Ps,
    pub launch: Ps,
    pub end: Ps,
    pub block_start: Ps,
    pub ring: Ps,
    pub store: Ps,
    pub fence: Ps,
    pub post: Ps,
    poll: [Ps; 2],
    elements: Rate,
    memory: Rate,
    block_store: Rate,
    copy_call: Ps,
    copy: Rate,
}

fn ps(ns: f64) -> u64 {
    Ps::ns(ns).0
}

impl Costs {
    pub fn of(system: &System) -> Costs {
        let System { network, bus, card, host, gpu, .. } = system;
        let Network { topology, switching, link_bytes_per_ns, link_ns, switch_ns, .. } = *network;
        let Bus { write_ns, read_ns, .. } = *bus;
        let unit = |latency: f64, busy: f64| Unit { latency: ps(latency), busy: ps(busy) };
        let Card { requester_ns, translate_ns, .. } = *card;
        Costs {
            topology,
            store_and_forward: switching == Switching::StoreAndForward,
            link: Rate::per_ns(link_bytes_per_ns),
            link_latency: ps(link_ns),
            switch: ps(switch_ns),
            header: network.header_bytes,
            packet: network.packet_bytes,
            train: network.train_bytes,
            credits: network.credits,
            bus_write: ps(write_ns),
            bus_read: ps(read_ns),
            write: [bus.write_bytes_per_ns, bus.gpu_write_bytes_per_ns].map(Rate::per_ns),
            read: [bus.read_bytes_per_ns, bus.gpu_read_bytes_per_ns].map(Rate::per_ns),
            requester: unit(requester_ns + translate_ns, card.requester_busy_ns),
            responder: unit(card.responder_ns + translate_ns, card.responder_busy_ns),
            completer: unit(card.completer_ns + translate_ns, card.completer_busy_ns),
            window: unit(card.window_ns, card.window_busy_ns),
            notify: ps(card.notify_ns),
            trigger: ps(card.trigger_ns),
            queue: card.queue,
            host: HostCosts::of(host),
            gpu: GpuCosts::of(gpu),
        }
    }

    /// Packets that a payload is cut into.
    #[inline]
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.packet).max(1)
    }

    /// Bytes of a payload on a link.
    #[inline]
    pub fn wire(&self, bytes: u64) -> u64 {
        bytes + self.packets(bytes) * self.header
    }

    /// Of a payload's first packet.
    #[inline]
    pub fn first(&self, bytes: u64) -> u64 {
        bytes.min(self.packet)
    }

    /// Rate of the card's reads.
    #[inline]
    pub fn read(&self, from: Place) -> Rate {
        self.read[from as usize]
    }

    /// Rate of the card's writes.
    #[inline]
    pub fn write(&self, into: Place) -> Rate {
        self.write[into as usize]
    }
}

impl HostCosts {
    fn of(host: &Host) -> HostCosts {
        HostCosts {
            cores: host.cores,
            slice: Ps::ns(host.slice_ns),
            post: Ps::ns(host.post_ns),
            poll: Ps::ns(host.poll_ns),
            look: Ps::ns(host.look_ns),
            elements: Rate::per_ns(host.elements_per_ns),
            memory: Rate::per_ns(host.memory_bytes_per_ns),
        }
    }

    /// Computing, or reading and writing memory, whichever takes longer.
    pub fn compute(&self, elements: u64, bytes: u64) -> Ps {
        Ps(self.elements.time(elements).max(self.memory.time(bytes)))
    }
}

impl GpuCosts {
    fn of(gpu: &Gpu) -> GpuCosts {
        GpuCosts {
            places: usize::try_from(gpu.sms.saturating_mul(gpu.blocks_per_sm)).unwrap_or(usize::MAX),
            launch_call: Ps::ns(gpu.launch_call_ns),
            launch: Ps::ns(gpu.launch_ns),
            end: Ps::ns(gpu.end_ns),
            block_start: Ps::ns(gpu.block_start_ns),
            ring: Ps::ns(gpu.ring_ns),
            store: Ps::ns(gpu.store_ns),
            fence: Ps::ns(gpu.fence_ns),
            post: Ps::ns(gpu.post_ns),
            poll: [gpu.poll_host_ns, gpu.poll_ns].map(Ps::ns),
            elements: Rate::per_ns(gpu.block_elements_per_ns),
            memory: Rate::per_ns(gpu.block_memory_bytes_per_ns),
            block_store: Rate::per_ns(gpu.block_store_bytes_per_ns),
            copy_call: Ps::ns(gpu.copy_call_ns),
            copy: Rate::per_ns(gpu.copy_bytes_per_ns),
        }
    }

    /// As [`HostCosts::compute`], by a block.
    pub fn compute(&self, elements: u64, bytes: u64) -> Ps {
        Ps(self.elements.time(elements).max(self.memory.time(bytes)))
    }

    /// A look of a kernel at a word.
    pub fn poll(&self, place: Place) -> Ps {
        self.poll[place as usize]
    }

    /// A block's stores to a window, behind the first.
    pub fn stores(&self, bytes: u64) -> Ps {
        Ps(self.block_store.time(bytes))
    }

    /// A copy between host and GPU.
    pub fn copy(&self, bytes: u64) -> Ps {
        self.copy_call + Ps(self.copy.time(bytes))
    }
}

//! A queue pair with its completion queue, and what kernels need of both.

use crate::device;
use crate::error::RdmaError;
use ggas_gpu::{Gpu, HostMapping};
use std::fmt;

#[cfg(rdma_core)]
use crate::raw;

/// How large a queue pair is, and where it is attached; `struct ggas_rdma_wish` of the shim.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    /// Requests that are posted and not completed, 1 to 32,768; the adapter may take more.
    pub sends: u32,
    /// Receives that are posted and not used, likewise.
    pub receives: u32,
    /// Completions that are not yet polled, 1 to 4,194,303.
    pub completions: u32,
    /// Port of the adapter, from 1.
    pub port: u32,
    /// Which of the port's addresses; for RoCEv2 that of an IPv4 address (`show_gids`).
    pub gid: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { sends: 128, receives: 128, completions: 512, port: 1, gid: 0 }
    }
}

/// What the other end has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The port's address.
    pub gid: [u8; 16],
    /// Its local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Code of the MTU: 1 is 256 bytes, 5 is 4096.
    pub mtu: u32,
}

/// Whom a queue pair talks to.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// What the other end told of itself; the smaller MTU of both ends counts.
    pub address: Address,
    /// First sequence number of our requests, 24 bits.
    pub send_psn: u32,
    /// First sequence number of theirs.
    pub receive_psn: u32,
    /// Reads and atomic operations at a time, 1 to 16, on both ends.
    pub reads: u32,
}

/// Where the rings lie (addresses of this process) and what shape they have: what structures for kernels are made of. `struct
/// ggas_rdma_queues` of the shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Queues {
    /// Requests: blocks of `send_stride` bytes.
    pub send: u64,
    /// Receives.
    pub receive: u64,
    /// Completions.
    pub completions: u64,
    /// Doorbell record of the queue pair: a word for receives, then one for sends.
    pub record: u64,
    /// Doorbell record of the completion queue.
    pub completion_record: u64,
    /// The adapter's register, which a request's first 8 bytes ring.
    pub doorbell: u64,
    /// Bytes from one such register to the next, which are rung in turn; 0: there is one.
    pub doorbell_size: u32,
    /// Blocks of the send ring.
    pub send_count: u32,
    /// Bytes of one.
    pub send_stride: u32,
    /// Entries of the receive ring.
    pub receive_count: u32,
    /// Bytes of one.
    pub receive_stride: u32,
    /// Entries of the completion ring.
    pub completion_count: u32,
    /// Bytes of one.
    pub completion_size: u32,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Number of the completion queue.
    pub cqn: u32,
}

/// Rings and registers, mapped for kernels at the same addresses.
pub struct Mapped<'end> {
    /// Where they lie.
    pub queues: Queues,
    _mappings: Vec<HostMapping>,
    _end: &'end Endpoint,
}

/// A queue pair of a reliable connection on an mlx5 adapter.
pub struct Endpoint {
    #[cfg_attr(not(rdma_core), allow(dead_code))]
    device: String,
    queues: Queues,
    #[cfg(rdma_core)]
    raw: std::ptr::NonNull<raw::RawEnd>,
}

/// Memory that requests and peers may name.
pub struct Region<'end> {
    /// The key of own requests.
    pub lkey: u32,
    /// The key of the peer's.
    pub rkey: u32,
    #[cfg(rdma_core)]
    raw: std::ptr::NonNull<raw::RawRegion>,
    _end: &'end Endpoint,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("device", &self.device).field("queues", &self.queues).finish()
    }
}

fn within(what: &'static str, value: u32, least: u32, most: u32) -> Result<(), RdmaError> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(RdmaError::Range { what, value: value.into(), least: least.into(), most: most.into() }),
    }
}

impl Endpoint {
    /// A queue pair on the adapter of this name, ready to be connected.
    ///
    /// # Errors
    /// [`RdmaError`]: no adapter, one whose rings are not shown, a number out of range, a call that failed.
    pub fn open(name: &str, options: &Options) -> Result<Endpoint, RdmaError> {
        within("sends", options.sends, 1, 32_768)?;
        within("receives", options.receives, 1, 32_768)?;
        within("completions", options.completions, 1, 4_194_303)?;
        within("port", options.port, 1, 255)?;
        within("gid", options.gid, 0, 255)?;
        made(device::named(name)?.name, options)
    }

    /// Where its rings lie.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Maps rings, records and registers for kernels of this GPU.
    ///
    /// # Errors
    /// [`RdmaError::Gpu`].
    pub fn map(&self, gpu: &Gpu) -> Result<Mapped<'_>, RdmaError> {
        let Queues { send, receive, completions, record, completion_record, doorbell, .. } = self.queues;
        let q = &self.queues;
        let rings = [
            (send, q.send_count as usize * q.send_stride as usize),
            (receive, q.receive_count as usize * q.receive_stride as usize),
            (completions, q.completion_count as usize * q.completion_size as usize),
            (record, 8),
            (completion_record, 8),
        ];
        let mut mappings = Vec::new();
        for (at, bytes) in rings {
            // SAFETY: rdma-core's memory, which stays until `self` is closed, and the mapping borrows `self`. A kernel that
            // is resident when the mapping goes is waited for by whoever runs it.
            mappings.push(unsafe { gpu.map_host(at as *const u8, bytes)? });
        }
        // SAFETY: as above, of the adapter's registers.
        mappings.push(unsafe { gpu.map_device(doorbell as *const u8, 2 * q.doorbell_size.max(8) as usize)? });
        Ok(Mapped { queues: self.queues, _mappings: mappings, _end: self })
    }
}

#[cfg(not(rdma_core))]
fn made(_: String, _: &Options) -> Result<Endpoint, RdmaError> {
    Err(RdmaError::NotBuilt)
}

#[cfg(rdma_core)]
fn made(device: String, options: &Options) -> Result<Endpoint, RdmaError> {
    let mut queues = Queues::default();
    let (mut raw, mut call) = (std::ptr::null_mut(), std::ptr::null());
    let name = std::ffi::CString::new(device.clone()).unwrap_or_default();
    // SAFETY: the libraries are loaded, since the device was listed; a name that ends with 0; places for what comes back.
    let error = unsafe { raw::ggas_rdma_open(name.as_ptr(), options, &mut raw, &mut queues, &mut call) };
    let raw =
        std::ptr::NonNull::new(raw).filter(|_| error == 0).ok_or_else(|| failed(&device, call, error))?;
    Ok(Endpoint { device, queues, raw })
}

/// The error of a call of the shim.
#[cfg(rdma_core)]
fn failed(device: &str, call: *const std::ffi::c_char, error: i32) -> RdmaError {
    let call = match call.is_null() {
        true => "rdma-core".into(),
        // SAFETY: a constant of the shim.
        false => unsafe { std::ffi::CStr::from_ptr(call) }.to_string_lossy().into_owned(),
    };
    RdmaError::Call { device: device.to_owned(), call, why: std::io::Error::from_raw_os_error(error) }
}

#[cfg(rdma_core)]
impl Endpoint {
    /// What the other end has to know.
    ///
    /// # Errors
    /// [`RdmaError::Call`].
    pub fn address(&self) -> Result<Address, RdmaError> {
        let (mut gid, mut lid, mut mtu, mut call) = ([0; 16], 0, 0, std::ptr::null());
        // SAFETY: the end lives; 16 bytes and two numbers come back.
        let error = unsafe {
            raw::ggas_rdma_address(self.raw.as_ptr(), gid.as_mut_ptr(), &mut lid, &mut mtu, &mut call)
        };
        match error {
            0 => Ok(Address { gid, lid: lid as u16, qpn: self.queues.qpn, mtu }),
            _ => Err(failed(&self.device, call, error)),
        }
    }

    /// Connects it: from now on requests of both ends go through.
    ///
    /// # Errors
    /// [`RdmaError::Range`], [`RdmaError::Call`].
    pub fn connect(&self, peer: &Peer) -> Result<(), RdmaError> {
        const LARGEST: u32 = 0xff_ffff;
        within("send_psn", peer.send_psn, 0, LARGEST)?;
        within("receive_psn", peer.receive_psn, 0, LARGEST)?;
        within("qpn", peer.address.qpn, 0, LARGEST)?;
        within("reads", peer.reads, 1, 16)?;
        within("mtu", peer.address.mtu, 1, 5)?;
        let mtu = peer.address.mtu.min(self.address()?.mtu);
        let Address { gid, lid, qpn, .. } = peer.address;
        let Peer { send_psn, receive_psn, reads, .. } = *peer;
        let raw = raw::RawPeer { gid, qpn, lid: lid.into(), send_psn, receive_psn, reads, mtu };
        let mut call = std::ptr::null();
        // SAFETY: the end lives, and so does the peer's description during the call.
        let error = unsafe { raw::ggas_rdma_connect(self.raw.as_ptr(), &raw, &mut call) };
        if error == 0 { Ok(()) } else { Err(failed(&self.device, call, error)) }
    }

    /// Registers host memory for requests of both ends.
    ///
    /// # Safety
    /// It stays allocated until the region is dropped, and tolerates access by the adapter at any time.
    ///
    /// # Errors
    /// [`RdmaError::Call`].
    pub unsafe fn register(&self, memory: *const u8, len: usize) -> Result<Region<'_>, RdmaError> {
        self.region(-1, 0, memory as u64, len as u64)
    }

    /// Registers GPU memory, which the GPU's driver exports as a dma-buf; requests call it by the GPU's addresses.
    ///
    /// # Safety
    /// As [`register`](Self::register).
    ///
    /// # Errors
    /// [`RdmaError::Gpu`], [`RdmaError::Call`].
    pub unsafe fn register_gpu(&self, gpu: &Gpu, address: u64, len: usize) -> Result<Region<'_>, RdmaError> {
        use std::os::fd::AsRawFd;
        let (buffer, offset) = gpu.dma_buf(address, len)?;
        self.region(buffer.as_raw_fd(), offset, address, len as u64)
    }

    fn region(&self, fd: i32, offset: u64, address: u64, len: u64) -> Result<Region<'_>, RdmaError> {
        let (mut raw, mut lkey, mut rkey, mut call) = (std::ptr::null_mut(), 0, 0, std::ptr::null());
        // SAFETY: the end lives; places for what comes back. That the memory stays is the caller's word.
        let error = unsafe {
            let end = self.raw.as_ptr();
            raw::ggas_rdma_register(end, fd, offset, address, len, &mut raw, &mut lkey, &mut rkey, &mut call)
        };
        let raw = std::ptr::NonNull::new(raw).filter(|_| error == 0);
        let raw = raw.ok_or_else(|| failed(&self.device, call, error))?;
        Ok(Region { lkey, rkey, raw, _end: self })
    }
}

#[cfg(rdma_core)]
impl Drop for Region<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the shim, and given back once. One that the adapter does not give back stays until the process ends.
        let _ = unsafe { raw::ggas_rdma_deregister(self.raw.as_ptr()) };
    }
}

#[cfg(rdma_core)]
impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: made by the shim, closed once; regions and mappings borrow `self`, so they are gone.
        unsafe { raw::ggas_rdma_close(self.raw.as_ptr()) };
    }
}

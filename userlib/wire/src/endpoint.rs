//! One end of a network between hosts.

use std::ffi::{CString, c_void};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::ptr;

use crate::choice::Choice;
use crate::error::WireError;
use crate::event::Event;
use crate::key::Key;
use crate::library::{Library, text};
use crate::offer::Offer;
use crate::slots::{Id, Slots};
use crate::table::{self, ADDRESS_MAX, AGAIN, EVENTS_MAX, KEY_MAX, RawEndpoint, RawEvent, RawSpan, Table};
use crate::taker::{Taker, take};

/// Bytes of a message that every library takes; an endpoint's may take [more](Endpoint::message_max).
pub const MESSAGE_MAX: usize = table::MESSAGE_MAX;
/// Most bytes of a message of any library.
pub const MESSAGE_MOST: usize = table::MESSAGE_MOST;
/// Most bytes that may be in front of a [write](Endpoint::write_behind).
pub const HEAD_MAX: usize = table::HEAD_MAX;

/// Another endpoint that this one knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(Id);

/// Memory of this process that peers may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region(Id);

/// A [`Region`] of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remote(Id);

/// Whose memory something is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host's.
    Host,
    /// A GPU's, at its address: only where the endpoint [reaches it](Endpoint::reaches_gpus).
    Gpu,
}

impl Place {
    fn bits(self) -> u32 {
        match self {
            Place::Host => 0,
            Place::Gpu => table::ACCESS_GPU,
        }
    }
}

/// Whether something was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what was not taken has to be tried again"]
pub enum Taken {
    /// It is on its way.
    Yes,
    /// There is no room now, or the connection is not there yet: [poll](Endpoint::poll), then try again.
    Later,
}

/// Both ends of a write or a read.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Region of this process.
    pub local: Region,
    /// First byte in it.
    pub local_offset: u64,
    /// Region of the peer.
    pub remote: Remote,
    /// First byte in it.
    pub remote_offset: u64,
    /// Bytes.
    pub len: u64,
}

/// One end of a network between hosts: sends messages to *peers*, and reads and writes memory that they registered.
///
/// No call waits for a peer. The first message to a peer sets up the connection, and [`poll`](Self::poll) moves
/// everything on. Messages from one endpoint to another arrive in the order in which they were [sent](Self::send), and not
/// ordered with writes; a message is neither lost nor seen twice as long as both processes and the network between
/// them live. That a peer is gone, the library may notice late or never: who has to know asks by messages of his own.
///
/// Messages do not say who sent them: any process that reaches the endpoint may.
///
/// It may be moved to another thread between calls.
pub struct Endpoint {
    library: Library,
    offer: Offer,
    gpu: bool,
    table: &'static Table,
    raw: ptr::NonNull<RawEndpoint>,
    peers: Slots<u64>,
    regions: Slots<Memory>,
    remotes: Slots<Far>,
    operations: Slots<Operation>,
    events: Box<[RawEvent; EVENTS_MAX]>,
}

// SAFETY: the library is told that one thread at a time uses a domain, and an endpoint has one of its own; it keeps no
// reference to what belongs to a thread.
unsafe impl Send for Endpoint {}

struct Memory {
    raw: u64,
    start: *mut u8,
    len: u64,
    key: Key,
    /// Transfers that are not over.
    busy: u32,
}

struct Far {
    raw: u64,
    peer: Peer,
    len: u64,
}

struct Operation {
    token: u64,
    region: Region,
    /// The region is for this operation alone.
    once: bool,
}

impl Endpoint {
    /// Opens an endpoint on a provider that [`choose`](crate::choose) found, with whatever address its library takes first.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn open(choice: &Choice) -> Result<Endpoint, WireError> {
        Endpoint::open_at(choice, None)
    }

    /// The same with an address of this host: the one that the others reach it by. Providers whose addresses are not the
    /// network's do not look at it.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn open_at(choice: &Choice, host: Option<IpAddr>) -> Result<Endpoint, WireError> {
        let (library, table) = (choice.library, choice.library.table()?);
        let provider = &choice.offer.provider;
        let unfit = || WireError::Unfit { library, provider: provider.clone() };
        let name = CString::new(provider.as_str()).map_err(|_| unfit())?;
        let host = host.and_then(|host| CString::new(host.to_string()).ok());
        let host = host.as_ref().map_or(ptr::null(), |host| host.as_ptr());
        let (gpu, mut error, mut call) = (choice.gpu.is_direct(), 0, ptr::null());
        // SAFETY: texts that end with 0, the second may be missing, and places for a number and a text.
        let raw = unsafe { (table.open)(name.as_ptr(), host, gpu.into(), &mut error, &mut call) };
        let Some(raw) = ptr::NonNull::new(raw) else {
            // SAFETY: the shim's constant text.
            let call = unsafe { text(call) };
            return Err(library.failed(format!("{call} of {provider}"), error));
        };
        let none = RawEvent {
            kind: 0,
            immediate: 0,
            token: 0,
            bytes: ptr::null(),
            len: 0,
            error: 0,
            reserved: 0,
            more: ptr::null(),
            more_len: 0,
        };
        Ok(Endpoint {
            library,
            offer: choice.offer.clone(),
            gpu,
            table,
            raw,
            peers: Slots::default(),
            regions: Slots::default(),
            remotes: Slots::default(),
            operations: Slots::default(),
            events: Box::new([none; EVENTS_MAX]),
        })
    }

    /// What its provider can do.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Most bytes of a message: [`MESSAGE_MAX`] or more.
    pub fn message_max(&self) -> usize {
        self.table.message_max.clamp(MESSAGE_MAX, MESSAGE_MOST)
    }

    /// Whether its library reads and writes GPU memory: the [choice](crate::GpuChoice) says so.
    pub fn reaches_gpus(&self) -> bool {
        self.gpu
    }

    /// Its address, for [`insert`](Self::insert) by processes that use the same provider: at most 4,096 bytes.
    pub fn address(&self) -> Result<Vec<u8>, WireError> {
        let (mut bytes, mut len) = (vec![0; ADDRESS_MAX], ADDRESS_MAX);
        // SAFETY: as many bytes as it is told.
        let error = unsafe { (self.table.address)(self.raw.as_ptr(), bytes.as_mut_ptr().cast(), &mut len) };
        self.check("asking for the address", error)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Makes the endpoint with this address known. Nothing is sent: what is wrong with the address, the first message tells.
    pub fn insert(&mut self, address: &[u8]) -> Result<Peer, WireError> {
        if address.is_empty() || address.len() > ADDRESS_MAX {
            return Err(WireError::Foreign { what: "address", len: address.len() });
        }
        let mut peer = 0;
        // SAFETY: as many bytes as it is told.
        let error = unsafe {
            (self.table.insert)(self.raw.as_ptr(), address.as_ptr().cast(), address.len(), &mut peer)
        };
        if error != 0 {
            return Err(WireError::Foreign { what: "address", len: address.len() });
        }
        Ok(Peer(self.peers.add(peer)))
    }

    /// Forgets a peer. Its regions have to be [forgotten](Self::forget) first.
    pub fn remove(&mut self, peer: Peer) -> Result<(), WireError> {
        let raw = self.peer(peer)?;
        let operations = self.remotes.iter().filter(|(_, far)| far.peer == peer).count() as u32;
        if operations > 0 {
            return Err(WireError::Busy { operations });
        }
        // SAFETY: a peer that it gave, and that was not removed.
        let error = unsafe { (self.table.remove)(self.raw.as_ptr(), raw) };
        self.check("removing a peer", error)?;
        self.peers.take(peer.0);
        Ok(())
    }

    /// Lets every process that has the region's [key](Self::key) read and write memory at any time, and lets this one use
    /// it as its end of a [write](Self::write) or [read](Self::read).
    ///
    /// # Safety
    /// The memory is there until the region is [given back](Self::unregister) or the endpoint is dropped. Nothing in this
    /// process holds a reference to it, but for atomics.
    pub unsafe fn register(&mut self, memory: *mut u8, len: usize) -> Result<Region, WireError> {
        // SAFETY: by this function's contract.
        unsafe { self.register_for(memory, len, table::ACCESS_ALL) }
    }

    /// Lets every process that has the region's [key](Self::key) read memory, and nothing else.
    ///
    /// # Errors
    /// [`WireError`]; also for a GPU's memory where GPUs are [not reached](Self::reaches_gpus).
    ///
    /// # Safety
    /// As for [`register`](Self::register), but that this process may hold references, and change the memory: peers read
    /// what is there then.
    pub unsafe fn grant(&mut self, memory: *const u8, len: usize, place: Place) -> Result<Region, WireError> {
        // SAFETY: by this function's contract; nobody writes there.
        unsafe { self.register_for(memory.cast_mut(), len, table::ACCESS_READ | place.bits()) }
    }

    /// # Safety
    /// As the access needs.
    unsafe fn register_for(&mut self, memory: *mut u8, len: usize, access: u32) -> Result<Region, WireError> {
        let (mut raw, mut key, mut key_len) = (0, [0u8; KEY_MAX], KEY_MAX);
        // SAFETY: by this function's contract; and as many bytes for the key as it is told.
        let error = unsafe {
            let key = key.as_mut_ptr().cast();
            (self.table.reg)(self.raw.as_ptr(), memory.cast(), len, access, &mut raw, key, &mut key_len)
        };
        self.check("registering memory", error)?;
        let none = access & table::ACCESS_LOCAL != 0;
        let key = if none { Key::none() } else { Key::new(len as u64, &key[..key_len]) };
        let memory = Memory { raw, start: memory, len: len as u64, key, busy: 0 };
        Ok(Region(self.regions.add(memory)))
    }

    /// What peers need to access a region. Who has it needs nothing else; keys are random, where the provider leaves them to
    /// us, so that nobody guesses one.
    pub fn key(&self, region: Region) -> Result<&Key, WireError> {
        Ok(&self.region(region)?.key)
    }

    /// Takes a region back; accesses by peers fail from now on.
    ///
    /// # Errors
    /// [`WireError::Busy`]: the library still reads there for a transfer of this process, or for a peer's that began before.
    /// [Poll](Self::poll), then try again.
    pub fn unregister(&mut self, region: Region) -> Result<(), WireError> {
        let memory = self.region(region)?;
        if memory.busy > 0 {
            return Err(WireError::Busy { operations: memory.busy });
        }
        // SAFETY: a region that it gave, and that was not given back.
        let error = unsafe { (self.table.unreg)(self.raw.as_ptr(), memory.raw) };
        if error == AGAIN {
            return Err(WireError::Busy { operations: 1 });
        }
        self.check("giving memory back", error)?;
        self.regions.take(region.0);
        Ok(())
    }

    /// Makes a region of a peer known.
    pub fn import(&mut self, peer: Peer, key: &Key) -> Result<Remote, WireError> {
        let (to, bytes, mut raw) = (self.peer(peer)?, key.of_library(), 0);
        // SAFETY: as many bytes as it is told.
        let error = unsafe {
            (self.table.import)(self.raw.as_ptr(), to, bytes.as_ptr().cast(), bytes.len(), &mut raw)
        };
        if error != 0 {
            return Err(WireError::Foreign { what: "key", len: bytes.len() });
        }
        Ok(Remote(self.remotes.add(Far { raw, peer, len: key.region_len() })))
    }

    /// Forgets a region of a peer.
    pub fn forget(&mut self, remote: Remote) -> Result<(), WireError> {
        let far = self.remotes.take(remote.0).ok_or(WireError::Stale { what: "peer's region" })?;
        // SAFETY: a region that it gave, and that was not forgotten.
        unsafe { (self.table.forget)(self.raw.as_ptr(), far.raw) };
        Ok(())
    }

    /// Sends a message of at most [so many](Self::message_max) bytes, which are copied.
    #[inline]
    pub fn send(&mut self, peer: Peer, bytes: &[u8]) -> Result<Taken, WireError> {
        let to = self.peer(peer)?;
        if bytes.len() > self.message_max() {
            return Err(WireError::TooLong { len: bytes.len(), most: self.message_max() });
        }
        // SAFETY: as many bytes as it is told, and a peer that it gave.
        let error = unsafe { (self.table.send)(self.raw.as_ptr(), to, bytes.as_ptr().cast(), bytes.len()) };
        self.taken("sending a message", error)
    }

    /// Where a message of at most [so many](Self::message_max) bytes may be written that is then [sent](Self::send_room) without a copy; what lies there
    /// means nothing. `None`: there is no such place now, or the library has none.
    #[inline]
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let room = self.room_at()?;
        // SAFETY: as many bytes of the shim, which were written at least once, and which nobody else uses until the next call.
        Some(unsafe { std::slice::from_raw_parts_mut(room.as_ptr(), self.message_max()) })
    }

    #[inline]
    fn room_at(&self) -> Option<ptr::NonNull<u8>> {
        // SAFETY: an endpoint.
        ptr::NonNull::new(unsafe { (self.table.room?)(self.raw.as_ptr()) }.cast())
    }

    /// [Sends](Self::send) the first bytes of the [room](Self::room), which has to be asked for right before; [`Taken::Later`] also where
    /// there is none.
    #[inline]
    pub fn send_room(&mut self, peer: Peer, len: usize) -> Result<Taken, WireError> {
        let to = self.peer(peer)?;
        if len > self.message_max() {
            return Err(WireError::TooLong { len, most: self.message_max() });
        }
        let Some(room) = self.room_at() else { return Ok(Taken::Later) };
        // SAFETY: no more than the bytes that are there, and a peer that it gave.
        let error = unsafe { (self.table.send)(self.raw.as_ptr(), to, room.as_ptr().cast(), len) };
        self.taken("sending a message", error)
    }

    /// Writes into memory of a peer. With `immediate` the peer gets [`Event::Written`] behind the data. [`Event::Done`] or
    /// [`Event::Failed`] with `token` says here that it is over.
    pub fn write(
        &mut self,
        transfer: &Transfer,
        immediate: Option<u32>,
        token: u64,
    ) -> Result<Taken, WireError> {
        self.transfer(transfer, token, false, |table, endpoint, peer, span, number| {
            let immediate = immediate.as_ref().map_or(ptr::null(), ptr::from_ref);
            // SAFETY: `transfer` checked both ends; immediate is NULL or a number.
            unsafe { (table.write)(endpoint, peer, span, immediate, number) }
        })
    }

    /// Reads memory of a peer. [`Event::Done`] or [`Event::Failed`] with `token` says that it is over.
    pub fn read(&mut self, transfer: &Transfer, token: u64) -> Result<Taken, WireError> {
        self.transfer(transfer, token, false, |table, endpoint, peer, span, number| {
            // SAFETY: `transfer` checked both ends.
            unsafe { (table.read)(endpoint, peer, span, number) }
        })
    }

    /// Reads `len` bytes of a region of a peer from `offset` on, which needs not be [known](Self::import), into memory that needs not
    /// be registered: as [`read`](Self::read) for who reads it once.
    ///
    /// # Errors
    /// [`WireError`]; also for a GPU's memory where GPUs are [not reached](Self::reaches_gpus).
    ///
    /// # Safety
    /// The memory is there until the end of the transfer is told, or the endpoint is dropped. Nothing in this process holds a
    /// reference to it, but for atomics.
    pub unsafe fn fetch(
        &mut self,
        peer: Peer,
        key: &Key,
        offset: u64,
        (to, len, place): (*mut u8, usize, Place),
        token: u64,
    ) -> Result<Taken, WireError> {
        let remote = self.import(peer, key)?;
        // SAFETY: by this function's contract.
        let taken =
            unsafe { self.register_for(to, len, table::ACCESS_LOCAL | place.bits()) }.and_then(|local| {
                let len = len as u64;
                let transfer = Transfer { local, local_offset: 0, remote, remote_offset: offset, len };
                let taken = self.transfer(&transfer, token, true, |table, endpoint, peer, span, number| {
                    // SAFETY: `transfer` checked both ends.
                    unsafe { (table.read)(endpoint, peer, span, number) }
                });
                if !matches!(taken, Ok(Taken::Yes)) {
                    self.unregister(local)?;
                }
                taken
            });
        // The library has what it needs of it.
        self.forget(remote)?;
        taken
    }

    /// Writes `head`, which is copied, and `len` bytes behind it, which need not be registered, into a region of a peer from `offset`
    /// on, which needs not be [known](Self::import). The peer gets [`Event::Written`] behind the data, and in order with messages; only
    /// where the offer [says so](Offer::keeps_order). [`Event::Done`] or [`Event::Failed`] with `token` says here that it is over.
    /// Behind one that fails nothing of this endpoint comes to the peer before a [poll](Self::poll) has told of it.
    ///
    /// # Errors
    /// [`WireError::TooLong`]: a head of more than [`HEAD_MAX`] bytes. [`WireError::Unfit`]: the provider keeps no order.
    ///
    /// # Safety
    /// The memory is there until the end of the transfer is told, or the endpoint is dropped. Others may change it meanwhile.
    pub unsafe fn write_behind(
        &mut self,
        peer: Peer,
        key: &Key,
        offset: u64,
        (head, from, len): (&[u8], *const u8, usize),
        immediate: u32,
        token: u64,
    ) -> Result<Taken, WireError> {
        let Some(call) = self.table.write_behind.filter(|_| self.offer.keeps_order) else {
            return Err(WireError::Unfit { library: self.library, provider: self.offer.provider.clone() });
        };
        if head.len() > HEAD_MAX {
            return Err(WireError::TooLong { len: head.len(), most: HEAD_MAX });
        }
        within("peer's", offset, (head.len() + len) as u64, key.region_len())?;
        let remote = self.import(peer, key)?;
        // SAFETY: by this function's contract; nobody writes there.
        let local = unsafe { self.register_for(from.cast_mut(), len, table::ACCESS_LOCAL) };
        let taken = local.and_then(|local| {
            let transfer =
                Transfer { local, local_offset: 0, remote, remote_offset: offset, len: len as u64 };
            let taken = self.transfer(&transfer, token, true, |_, endpoint, peer, span, number| {
                let (head, head_len) = (head.as_ptr().cast(), head.len());
                // SAFETY: `transfer` checked both ends, and `within` what is in front.
                unsafe { call(endpoint, peer, head, head_len, span, immediate, number) }
            });
            if !matches!(taken, Ok(Taken::Yes)) {
                self.unregister(local)?;
            }
            taken
        });
        // The library has what it needs of it.
        self.forget(remote)?;
        taken
    }

    /// Moves everything on, and tells what happened. How many events there were; 0: nothing is there now.
    #[inline]
    pub fn poll<F: FnMut(Event<'_>)>(&mut self, mut each: F) -> Result<usize, WireError> {
        let mut taker = Taker { each: &mut each, had: 0 };
        let whose = (&raw mut taker).cast();
        // SAFETY: as many places as the shim's poll may fill; and `take` has its own kind of taker until that returns.
        let count =
            unsafe { (self.table.poll)(self.raw.as_ptr(), self.events.as_mut_ptr(), take::<F>, whose) };
        let had = taker.had;
        if count < 0 {
            return Err(self.library.failed("polling", count));
        }
        for place in 0..count as usize {
            let event = self.events[place];
            match event.kind {
                table::MESSAGE => {
                    // SAFETY: the shim keeps the bytes of a message until the next poll, and lends them to this call.
                    let bytes = unsafe { std::slice::from_raw_parts(event.bytes, event.len as usize) };
                    each(Event::Message(bytes));
                }
                table::WRITTEN => each(Event::Written(event.immediate)),
                _ => self.tell_end(&event, &mut each),
            }
        }
        Ok(had + count as usize)
    }

    /// A descriptor that is readable when there is something to poll, for `poll(2)`; `None` where the provider has none.
    /// It is the endpoint's. Sleep on it only when [`arm`](Self::arm) says so.
    pub fn descriptor(&self) -> Option<RawFd> {
        // SAFETY: an endpoint.
        let descriptor = unsafe { (self.table.descriptor)(self.raw.as_ptr()) };
        (descriptor >= 0).then_some(descriptor)
    }

    /// Whether the caller may sleep on the descriptor now; where not, there is something to poll.
    pub fn arm(&mut self) -> Result<bool, WireError> {
        // SAFETY: an endpoint.
        match unsafe { (self.table.arm)(self.raw.as_ptr()) } {
            0 => Ok(true),
            AGAIN => Ok(false),
            error => Err(self.library.failed("asking whether to sleep", error)),
        }
    }

    #[cold]
    fn tell_end(&mut self, event: &RawEvent, each: &mut impl FnMut(Event<'_>)) {
        let library = self.library;
        let explained = || library.explain(event.error);
        if event.kind == table::UNSENT || event.kind == table::GONE {
            let peer = self.peers.iter().find(|(_, raw)| **raw == event.token).map(|(id, _)| Peer(id));
            return match (event.kind, peer) {
                (table::UNSENT, peer) => each(Event::Unsent { peer, why: explained() }),
                (_, Some(peer)) => each(Event::Gone { peer, why: explained() }),
                (_, None) => {}
            };
        }
        let Some(operation) = self.operations.take(Id::from_number(event.token)) else { return };
        if let Some(memory) = self.regions.get_mut(operation.region.0) {
            memory.busy -= 1;
        }
        if operation.once {
            // That it fails changes nothing: the library keeps what no peer can reach.
            let _ = self.unregister(operation.region);
        }
        let token = operation.token;
        match event.kind {
            table::DONE => each(Event::Done { token }),
            table::FAILED => each(Event::Failed { token, why: explained() }),
            _ => {}
        }
    }

    /// Checks both ends, and has `start` begin the transfer under a number of ours.
    fn transfer(
        &mut self,
        transfer: &Transfer,
        token: u64,
        once: bool,
        start: impl FnOnce(&Table, *mut RawEndpoint, u64, *const RawSpan, u64) -> i32,
    ) -> Result<Taken, WireError> {
        let Transfer { local, local_offset, remote, remote_offset, len } = *transfer;
        let memory = self.region(local)?;
        let far = self.remotes.get(remote.0).ok_or(WireError::Stale { what: "peer's region" })?;
        within("local", local_offset, len, memory.len)?;
        within("peer's", remote_offset, len, far.len)?;
        let peer = self.peer(far.peer)?;
        let span = RawSpan {
            local: memory.start.wrapping_add(local_offset as usize).cast::<c_void>(),
            region: memory.raw,
            remote: far.raw,
            offset: remote_offset,
            len,
        };
        let id = self.operations.add(Operation { token, region: local, once });
        let taken = self
            .taken("a transfer", start(self.table, self.raw.as_ptr(), peer, &raw const span, id.number()));
        match (&taken, self.regions.get_mut(local.0)) {
            (Ok(Taken::Yes), Some(memory)) => memory.busy += 1,
            _ => drop(self.operations.take(id)),
        }
        taken
    }

    #[inline]
    fn peer(&self, peer: Peer) -> Result<u64, WireError> {
        match self.peers.get(peer.0) {
            Some(raw) => Ok(*raw),
            None => Err(WireError::Stale { what: "peer" }), // made here: to drop one that is not needed is a call
        }
    }

    fn region(&self, region: Region) -> Result<&Memory, WireError> {
        self.regions.get(region.0).ok_or(WireError::Stale { what: "region" })
    }

    fn check(&self, call: &str, error: i32) -> Result<(), WireError> {
        if error == 0 { Ok(()) } else { Err(self.library.failed(call, error)) }
    }

    #[inline]
    fn taken(&self, call: &str, error: i32) -> Result<Taken, WireError> {
        match error {
            0 => Ok(Taken::Yes),
            AGAIN => Ok(Taken::Later),
            error => Err(self.library.failed(call, error)),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        for (_, far) in self.remotes.iter() {
            // SAFETY: a region that it gave, and that was not forgotten.
            unsafe { (self.table.forget)(self.raw.as_ptr(), far.raw) };
        }
        for (_, memory) in self.regions.iter() {
            // SAFETY: a region that it gave, and that was not given back. That it fails changes nothing: the endpoint goes.
            let _ = unsafe { (self.table.unreg)(self.raw.as_ptr(), memory.raw) };
        }
        // SAFETY: an endpoint that nobody uses any more.
        unsafe { (self.table.close)(self.raw.as_ptr()) };
    }
}

fn within(whose: &'static str, offset: u64, len: u64, size: u64) -> Result<(), WireError> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(WireError::Outside { whose, offset, len, size }),
    }
}

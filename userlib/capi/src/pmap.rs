//! Physical buffers (spec 9.3): what `/dev/extoll/pmap` gives.
//!
//! On the model a buffer is shared memory of its own. Its physical address is the one at which the modelled node reaches
//! the buffer; commands without address translation, from any node, use this address. On a card the driver allocates the
//! buffer, for privileged processes. The file that the program opened is the library's in both cases; on a card `mmap` of
//! this file maps the driver's memory.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::fmt::Debug;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas::PAGE;
use ggas::device::hw::PhysicalBuffer;
use ggas::device::{DeviceError, Kind, Place, Span};

use crate::bare;
use crate::node::{self, Home};

const PATH: &CStr = c"/dev/extoll/pmap";
const MAGIC: c_ulong = b'k' as c_ulong;
/// The type whose memory the driver allocates.
const ALLOCATE: usize = 0;
const EMPTY: usize = 2;
/// The request for the address.
const GET_PADDR: c_ulong = 6;
/// Largest buffer of the model.
const MOST: usize = 1 << 30;

/// A file that a program opened, by device and inode.
type File = (u64, u64);

#[derive(Debug)]
struct Buffer {
    device: Kind,
    kind: usize,
    size: usize,
    memory: Option<Memory>,
}

#[derive(Debug)]
enum Memory {
    Model(Exposed),
    Card(Arc<PhysicalBuffer>),
}

/// The buffer's memory as the modelled node reaches it.
#[derive(Debug)]
struct Exposed {
    /// Ends the node's access when dropped: before the mapping goes.
    exposed: Option<Box<dyn Debug + Send + Sync>>,
    address: usize,
    len: usize,
}

impl Drop for Exposed {
    fn drop(&mut self) {
        self.exposed = None;
        // SAFETY: our own mapping, which the node does not reach any more.
        unsafe { libc::munmap(self.address as *mut c_void, self.len) };
    }
}

static BUFFERS: Mutex<Option<HashMap<File, Buffer>>> = Mutex::new(None);
/// How many there are: mostly none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many of them were made for cards, ever.
static OF_CARDS: AtomicUsize = AtomicUsize::new(0);
/// The process that has them: a child of vfork closes its files in our memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn buffers() -> MutexGuard<'static, Option<HashMap<File, Buffer>>> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a buffer was made for. `None`: the file is no buffer.
fn device_of(id: File) -> Option<Kind> {
    buffers().as_ref()?.get(&id).map(|buffer| buffer.device)
}

fn file_of(file: c_int) -> Option<File> {
    let mut about = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for the answer; any number may be asked for.
    let done = unsafe { libc::fstat(file, about.as_mut_ptr()) };
    // SAFETY: filled in when the call succeeds.
    (done == 0).then(|| unsafe { about.assume_init() }).map(|about| (about.st_dev, about.st_ino))
}

/// `open`, if it is for the device of physical buffers. Where a card is asked for and there is none, neither is this.
pub(crate) fn open(path: *const c_char, flags: c_int) -> Option<c_int> {
    // SAFETY: a program that opens a file gives null or a string.
    if path.is_null() || unsafe { CStr::from_ptr(path) } != PATH {
        return None;
    }
    let device = ggas::device::choose(None, None).ok()?.kind;
    match device {
        Kind::Sim => {}
        Kind::Hw => _ = OF_CARDS.fetch_add(1, Ordering::Relaxed),
        Kind::Nvlink => return None,
    }
    let close_on_exec = if flags & libc::O_CLOEXEC != 0 { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: the name is a string.
    let file = unsafe { libc::memfd_create(c"pmap".as_ptr(), close_on_exec) };
    if let Some(id) = file_of(file) {
        buffers()
            .get_or_insert_default()
            .insert(id, Buffer { device, kind: ALLOCATE, size: 0, memory: None });
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    Some(file)
}

/// Gives a buffer up whose file is closed; what the program still maps stays its memory.
pub(crate) fn close(file: c_int) {
    if COUNT.load(Ordering::Relaxed) == 0 || PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let removed = file_of(file).and_then(|id| buffers().as_mut()?.remove(&id));
    if removed.is_some() {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// In a child of fork: the buffers are the parent's, and nothing of its node is to be asked here.
pub(crate) fn forget() {
    COUNT.store(0, Ordering::Relaxed);
    if let Ok(mut buffers) = BUFFERS.try_lock() {
        std::mem::forget(buffers.take());
    }
}

/// `ioctl`, if it is for a physical buffer.
pub(crate) fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> Option<c_int> {
    if COUNT.load(Ordering::Relaxed) == 0 || request >> 8 & 0xff != MAGIC {
        return None;
    }
    let id = file_of(file)?;
    let value = argument as usize;
    let request = request & 0xff;
    // Starting the node opens and closes files, and so do threads that it waits for: not under the lock.
    let home = match device_of(id)? {
        Kind::Sim if request == GET_PADDR => Some(node::home()),
        _ => None,
    };
    let mut buffers = buffers();
    let buffer = buffers.as_mut()?.get_mut(&id)?;
    let done = match request {
        0 => buffer.set_kind(value),
        1 => give(argument, buffer.kind as u64),
        4 => buffer.set_size(file, value),
        5 => give(argument, buffer.size as u64),
        GET_PADDR => match home {
            Some(Ok(home)) => buffer.physical(file, home).and_then(|address| give(argument, address)),
            Some(Err(_)) => Err(libc::ENODEV),
            None => {
                drop(buffers);
                of_card(id).and_then(|memory| give(argument, memory.bus_address()))
            }
        },
        // One buffer for each open file; its key is 0.
        7 => Ok(()),
        8 if value == 0 => {
            // A card's is a file, which is closed without the lock.
            let memory = buffer.memory.take();
            drop(buffers);
            drop(memory);
            Ok(())
        }
        9 if value == 0 => Ok(()),
        _ => Err(libc::EINVAL),
    };
    Some(match done {
        Ok(()) => 0,
        Err(number) => {
            set_errno(number);
            -1
        }
    })
}

/// `mmap`, if it is for the buffer of a card: `map` is given the file and the offset that it is mapped from.
pub(crate) fn mmap(
    file: c_int,
    offset: i64,
    map: impl FnOnce(c_int, i64) -> *mut c_void,
) -> Option<*mut c_void> {
    if file < 0 || COUNT.load(Ordering::Relaxed) == 0 || OF_CARDS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let id = file_of(file)?;
    if device_of(id)? != Kind::Hw {
        return None;
    }
    Some(match of_card(id) {
        Ok(memory) => {
            let (file, start) = memory.place();
            // The driver says what is wrong with an offset that is not 0.
            map(file.as_raw_fd(), offset.saturating_add(start as i64))
        }
        Err(number) => {
            set_errno(number);
            libc::MAP_FAILED
        }
    })
}

fn set_errno(number: c_int) {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() = number };
}

/// The memory of a card's buffer, allocated when first asked for. Files are opened and closed without the lock.
fn of_card(id: File) -> Result<Arc<PhysicalBuffer>, c_int> {
    let size = match buffers().as_ref().and_then(|all| all.get(&id)) {
        Some(Buffer { memory: Some(Memory::Card(memory)), .. }) => return Ok(memory.clone()),
        Some(Buffer { size, kind: ALLOCATE, .. }) if *size > 0 => *size,
        _ => return Err(libc::EINVAL),
    };
    let made = PhysicalBuffer::allocate(size).map_err(|error| match error {
        DeviceError::Privilege { .. } => libc::EPERM,
        DeviceError::Memory { .. } => libc::ENOMEM,
        DeviceError::CardLost { .. } => libc::EIO,
        _ => libc::ENODEV,
    });
    let made = Arc::new(made?);
    let mut all = buffers();
    let buffer = all.as_mut().and_then(|all| all.get_mut(&id)).ok_or(libc::EBADF)?;
    match &buffer.memory {
        Some(Memory::Card(other)) => Ok(other.clone()),
        _ => {
            buffer.memory = Some(Memory::Card(made.clone()));
            Ok(made)
        }
    }
}

/// A GET stores 8 bytes at its argument (spec 9.2).
fn give(argument: *mut c_void, value: u64) -> Result<(), c_int> {
    if argument.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the program names a place for the answer; it need not be aligned.
    unsafe { argument.cast::<u64>().write_unaligned(value) };
    Ok(())
}

impl Buffer {
    /// Addresses of the program's own choice are for cards only.
    fn set_kind(&mut self, kind: usize) -> Result<(), c_int> {
        if !matches!(kind, ALLOCATE | EMPTY) {
            return Err(libc::EPERM);
        }
        self.kind = kind;
        Ok(())
    }

    fn set_size(&mut self, file: c_int, size: usize) -> Result<(), c_int> {
        if self.memory.is_some() {
            return Err(libc::EBUSY);
        }
        let most = if self.device == Kind::Hw { PhysicalBuffer::MAX } else { MOST };
        let len = size.checked_next_multiple_of(PAGE).filter(|len| (PAGE..=most).contains(len));
        let len = len.ok_or(libc::EINVAL)?;
        // SAFETY: the file is the buffer's.
        if unsafe { libc::ftruncate(file, len as i64) } != 0 {
            return Err(libc::ENOMEM);
        }
        self.size = size;
        Ok(())
    }

    /// Where the modelled node reaches the buffer.
    fn physical(&mut self, file: c_int, home: &Home) -> Result<u64, c_int> {
        if let Some(Memory::Model(memory)) = &self.memory {
            return Ok(memory.address as u64);
        }
        if self.size == 0 || self.kind != ALLOCATE {
            return Err(libc::EINVAL);
        }
        let len = self.size.next_multiple_of(PAGE);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // Not by the name that is watched: the lock is held.
        // SAFETY: a new mapping of the buffer's file, which is that long.
        let address = unsafe { bare::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED, file, 0) };
        if address == libc::MAP_FAILED {
            return Err(libc::ENOMEM);
        }
        let mut memory = Exposed { exposed: None, address: address as usize, len };
        let span = Span { address: address as u64, len, place: Place::Host };
        // SAFETY: the mapping stays until access has ended (see `Memory`).
        let exposed = unsafe { home.node.device().expose(span) };
        memory.exposed = Some(exposed.map_err(|_| libc::ENOMEM)?);
        let address = memory.address as u64;
        self.memory = Some(Memory::Model(memory));
        Ok(address)
    }
}

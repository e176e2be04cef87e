//! Descriptors that are prepared once (`RMA2_Descriptor`): from a port's pool, or the program's own memory.

use std::collections::HashSet;
use std::sync::OnceLock;

use ggas::{Modifier, Request, Spec};

use crate::abi::{self, Connection, Endpoint};
use crate::connection;
use crate::error::{Code, INV_VALUE, NO_DESC_MEM, Result, WRONG_ARG, WRONG_CMD, because, code};
use crate::ffi::{In, Null, Out};
use crate::port::{Inner, enter, lock};
use crate::post;
use crate::slab::Slab;

/// Bytes of the range that pooled descriptors lie in.
const RANGE: usize = 1 << 30;
/// Descriptors of a pool, and how many it grows by (spec 10.2).
const POOL: usize = 32;
/// Sizes and counts stand in these bits of word 0 (spec 2.2).
const PARAMETER_SHIFT: u32 = 40;
const SIZE_MAX: u32 = 8 << 20;

static DESCRIPTORS: OnceLock<Slab<Pooled>> = OnceLock::new();

/// A pooled descriptor: the program's to write.
#[repr(C)]
struct Pooled(abi::Descriptor);

// SAFETY: only the program uses what is inside; it sees to its threads.
unsafe impl Send for Pooled {}
// SAFETY: as above.
unsafe impl Sync for Pooled {}

/// A port's descriptors in use, and how many it has room for.
pub(crate) struct Pool {
    used: HashSet<usize>,
    size: usize,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { used: HashSet::new(), size: POOL }
    }
}

/// Refuses freed descriptors; others that are not pooled are the program's own.
fn known(descriptor: *const abi::Descriptor) -> Result<()> {
    let pooled = DESCRIPTORS.get().filter(|all| all.owns(descriptor.cast()));
    match pooled {
        Some(all) if all.get(descriptor.cast()).is_none() => {
            Err(because(INV_VALUE, "a descriptor that was freed"))
        }
        _ => Ok(()),
    }
}

/// The descriptor's words.
pub(crate) fn read(descriptor: *const abi::Descriptor) -> Result<abi::Descriptor> {
    known(descriptor)?;
    let descriptor: In<abi::Descriptor> = descriptor.into();
    descriptor.get().ok_or_else(|| Null("descriptor").into())
}

/// Ends all descriptors of a port that closes.
pub(crate) fn close_port(port: &Inner) {
    for descriptor in lock(&port.descriptors).used.drain() {
        DESCRIPTORS.get().map(|all| all.remove(descriptor as *const Pooled));
    }
}

fn alloc(port: &Inner) -> Result<*mut abi::Descriptor> {
    let all = match DESCRIPTORS.get() {
        Some(all) => all,
        None => {
            let all = Slab::new(RANGE).map_err(|error| because(NO_DESC_MEM, error))?;
            DESCRIPTORS.get_or_init(|| all)
        }
    };
    let empty = abi::Descriptor {
        list: abi::ListHead::NONE,
        handle: std::ptr::null_mut(),
        reserved0: 0,
        value: [0; 3],
        reserved1: 0,
    };
    let descriptor = all.insert(Pooled(empty)).ok_or(NO_DESC_MEM)?;
    let mut pool = lock(&port.descriptors);
    pool.used.insert(descriptor as usize);
    if pool.used.len() > pool.size {
        pool.size += POOL;
    }
    Ok(descriptor.cast())
}

/// Writes what `request` makes for the connection into a descriptor.
fn set(
    descriptor: Out<abi::Descriptor>,
    handle: *mut Connection,
    (spec, modifier): (u32, u32),
    request: Result<Request>,
) -> Result<()> {
    let (spec, modifier) = post::bits(spec, modifier)?;
    let remote = connection::remote(handle)?;
    let words = extoll_abi::Descriptor::encode(remote, spec, modifier, &request?);
    store(descriptor, handle, words.map_err(|error| because(WRONG_ARG, error))?)
}

fn store(
    descriptor: Out<abi::Descriptor>,
    handle: *mut Connection,
    words: extoll_abi::Descriptor,
) -> Result<()> {
    known(descriptor.address())?;
    let value = abi::Descriptor { handle, value: words.word, ..descriptor.get("descriptor")? };
    descriptor.set(value)
}

/// A put or get; other commands are given the same shape, for the card to report them.
#[allow(clippy::too_many_arguments, reason = "those of the C function")]
fn set_put_get(
    descriptor: Out<abi::Descriptor>,
    handle: *mut Connection,
    command: u32,
    count: u32,
    spec: u32,
    modifier: u32,
    read: u64,
    write: u64,
) -> Result<()> {
    let (qw, size) = (command & 1 == 1, count);
    match command {
        0 | 1 => set(descriptor, handle, (spec, modifier), Ok(Request::Get { qw, read, write, size })),
        2 | 3 => set(descriptor, handle, (spec, modifier), Ok(Request::Put { qw, read, write, size })),
        4..=15 => {
            if count == 0 || count > SIZE_MAX {
                return Err(because(WRONG_ARG, "1 to 8388608 bytes"));
            }
            let (spec, modifier) = post::bits(spec, modifier)?;
            let remote = connection::remote(handle)?;
            let frame = Request::NotificationPut { class: 0, payload: 0 };
            let frame = extoll_abi::Descriptor::encode(remote, spec, modifier, &frame);
            let [word0, ..] = frame.map_err(|error| because(WRONG_ARG, error))?.word;
            let word0 =
                word0 & !(0xf << 2) | u64::from(command) << 2 | u64::from(count - 1) << PARAMETER_SHIFT;
            store(descriptor, handle, extoll_abi::Descriptor { word: [word0, read, write] })
        }
        _ => Err(because(WRONG_CMD, "command codes are 0 to 15")),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_alloc(port: *const Endpoint, descriptor: Out<*mut abi::Descriptor>) -> Code {
    code(enter(port).and_then(|port| {
        descriptor.check("place for the descriptor")?;
        descriptor.set(alloc(&port)?)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_free(port: *const Endpoint, descriptor: *const abi::Descriptor) -> Code {
    code(enter(port).and_then(|port| {
        if !lock(&port.descriptors).used.remove(&(descriptor as usize)) {
            return Err(because(INV_VALUE, "not a descriptor of the port's pool"));
        }
        DESCRIPTORS.get().map(|all| all.remove(descriptor.cast()));
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_query_free(port: *const Endpoint, count: Out<i32>) -> Code {
    code(enter(port).and_then(|port| {
        let pool = lock(&port.descriptors);
        count.set((pool.size - pool.used.len()) as i32)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_set_put_get(
    descriptor: Out<abi::Descriptor>,
    handle: *mut Connection,
    command: u32,
    count: u32,
    spec: u32,
    modifier: u32,
    read: u64,
    write: u64,
) -> Code {
    code(set_put_get(descriptor, handle, command, count, spec, modifier, read, write))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_set_immediate_put(
    descriptor: Out<abi::Descriptor>,
    handle: *mut Connection,
    spec: u32,
    modifier: u32,
    count: u32,
    write: u64,
    value: u64,
) -> Code {
    code(set(descriptor, handle, (spec, modifier), Ok(post::immediate(count, write, value))))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_set_noti_put(
    descriptor: Out<abi::Descriptor>,
    handle: *mut Connection,
    spec: u32,
    modifier: u32,
    class: u8,
    payload: u64,
) -> Code {
    code(set(descriptor, handle, (spec, modifier), Ok(Request::NotificationPut { class, payload })))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_set_lock(
    descriptor: Out<abi::Descriptor>,
    handle: *mut Connection,
    spec: u32,
    modifier: u32,
    target: u8,
    number: u32,
    compare: u32,
    add: u32,
) -> Code {
    let request = post::lock_request(target.into(), number, compare as i32, add as i32);
    code(set(descriptor, handle, (spec, modifier), request))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_desc_set_notification_value(
    descriptor: Out<abi::Descriptor>,
    class: u8,
    payload: u64,
) -> Code {
    code((|| {
        known(descriptor.address())?;
        let now = descriptor.get("descriptor")?;
        let words = extoll_abi::Descriptor { word: now.value };
        if !matches!(words.decode(), Ok((_, Request::NotificationPut { .. }))) {
            return Err(because(WRONG_CMD, "the descriptor holds no notification put"));
        }
        let header = words.header();
        let request = Request::NotificationPut { class, payload };
        let (spec, modifier): (Spec, Modifier) = (header.spec, header.modifier);
        let words = extoll_abi::Descriptor::encode(header.dst, spec, modifier, &request);
        store(descriptor, now.handle, words.map_err(|error| because(WRONG_ARG, error))?)
    })())
}

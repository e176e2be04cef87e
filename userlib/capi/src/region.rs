//! Registering memory, and queries of a region (`RMA2_Region`).

use std::ffi::{c_int, c_void};

use ggas::PAGE;
use ggas::device::Kind as DeviceKind;

use crate::abi::{self, Endpoint, ListHead};
use crate::error::{
    Code, ERROR, INV_VALUE, MAP, NO_MEM, Result, WRONG_ARG, because, code, is_full, of_region,
};
use crate::ffi::{Null, Out};
use crate::port::{Inner, enter};
use crate::registry::{self, Owner, View};
use crate::{cache, pages, slots};

/// Memory for a structure, as C would allocate it.
pub(crate) fn allocate() -> Result<*mut abi::Region> {
    // SAFETY: any size may be asked for.
    let region = unsafe { libc::malloc(size_of::<abi::Region>()) };
    if region.is_null() { Err(NO_MEM) } else { Ok(region.cast()) }
}

/// Frees a structure of the library's; who still has its address is not shown a region any more.
pub(crate) fn release(region: *mut abi::Region) {
    // SAFETY: made by `allocate`, and taken out of the registry by who calls.
    unsafe {
        region.write(EMPTY);
        libc::free(region.cast());
    }
}

const EMPTY: abi::Region = abi::Region {
    list: ListHead::NONE,
    start: std::ptr::null_mut(),
    nla: 0,
    count: 0,
    offset: 0,
    end: std::ptr::null_mut(),
    size: 0,
    refcount: 0,
    endpoint: std::ptr::null_mut(),
    parent: std::ptr::null_mut(),
};

/// Fills a structure in.
pub(crate) fn show(region: *mut abi::Region, view: &View, port: *const Endpoint, parent: *mut abi::Region) {
    let shown = abi::Region {
        start: view.start as *mut c_void,
        nla: view.nla,
        count: view.pages,
        offset: view.offset,
        end: (view.start + view.bytes()) as *mut c_void,
        size: view.bytes(),
        refcount: 1,
        endpoint: port.cast_mut().cast(),
        parent,
        ..EMPTY
    };
    // SAFETY: `allocate` made it, or the program gave it as the place for a region, at any address.
    unsafe { region.write_unaligned(shown) };
}

/// Registers `size` bytes at `address`; the structure is at `region`, which is written only when all went well. While
/// the limit on locked memory or the card's tables are in the way, `make_room` may end something else for it.
pub(crate) fn register(
    handle: *const Endpoint,
    port: &Inner,
    address: usize,
    size: usize,
    region: *mut abi::Region,
    owner: Owner,
    make_room: &mut dyn FnMut() -> bool,
) -> Result<View> {
    if address == 0 || size == 0 {
        return Err(because(INV_VALUE, "a region needs an address and at least one byte"));
    }
    let not_mapped = || because(ERROR, format!("{size} bytes at {address:#x} are not all mapped memory"));
    let (start, end) = pages::pages_of(address, size).ok_or_else(not_mapped)?;
    let pages = u32::try_from((end - start) / PAGE).map_err(|_| not_mapped())?;
    let access = pages::prepare(start, end - start).ok_or_else(not_mapped)?;
    let held = loop {
        // SAFETY: memory that is unmapped or freed is taken from the card before (registry::invalidate).
        match unsafe { port.port.register_raw_with(start as *mut u8, end - start, access) } {
            Err(error) if is_full(&error) && make_room() => {}
            done => break done.map_err(|error| of_region(&error))?,
        }
    };
    let nla = held.nla(0).map_err(|error| of_region(&error))?;
    let offset = (address - start) as u32;
    let view = View { key: registry::new_key(port.id), nla, start, pages, offset, owner, gone: false };
    show(region, &view, handle, std::ptr::null_mut());
    registry::add(region as usize, view, (address, address + size), held);
    Ok(view)
}

/// Registers with a structure of the library's.
pub(crate) fn register_new(
    handle: *const Endpoint,
    port: &Inner,
    address: usize,
    size: usize,
    make_room: &mut dyn FnMut() -> bool,
) -> Result<*mut abi::Region> {
    let region = allocate()?;
    match register(handle, port, address, size, region, Owner::Library, make_room) {
        Ok(_) => Ok(region),
        Err(code) => {
            // SAFETY: made above; nobody knows it.
            unsafe { libc::free(region.cast()) };
            Err(code)
        }
    }
}

/// The region that a structure shows: one that is known, or a copy of one.
pub(crate) fn known(region: *const abi::Region) -> Result<View> {
    if region.is_null() {
        return Err(Null("region").into());
    }
    let unknown = || because(INV_VALUE, "not a region, or unregistered");
    if let Some(view) = registry::view(region as usize) {
        return Ok(view);
    }
    let copy = pages::read_anywhere(region).ok_or_else(unknown)?;
    let port = enter(copy.endpoint.cast_const().cast()).map_err(|_| unknown())?;
    let original = registry::registered_at(port.id, copy.nla).ok_or_else(unknown)?;
    if copy.start as usize != original.start || copy.count != original.pages {
        return Err(unknown());
    }
    Ok(View { offset: copy.offset, owner: Owner::Program, ..original })
}

/// Where `size` bytes at `offset` of a region of the port are, for the card.
#[inline]
pub(crate) fn local(
    port: &Inner,
    region: *const abi::Region,
    offset: u32,
    size: u32,
    translated: bool,
) -> Result<u64> {
    let view = known(region)?;
    if view.key.0 != port.id {
        return Err(because(INV_VALUE, "a region of another port"));
    }
    if view.gone {
        return Err(MAP);
    }
    if !translated && port.home.node.device().info().kind == DeviceKind::Hw {
        let text = "a region has no bus address: a card reaches it through connections with RMA2_CONN_TE";
        return Err(because(WRONG_ARG, text));
    }
    let begin = u64::from(view.offset) + u64::from(offset);
    if begin + u64::from(size) > view.bytes() as u64 {
        return Err(because(WRONG_ARG, "the command leaves the pages of its region"));
    }
    Ok(begin + if translated { view.nla } else { view.start as u64 })
}

/// Ends a registration and its structure.
pub(crate) fn unregister(port: &Inner, region: *mut abi::Region) -> Result<()> {
    unregister_with(port, region, true)
}

/// The same, leaving the structure to the program unless `free`.
fn unregister_with(port: &Inner, region: *mut abi::Region, free: bool) -> Result<()> {
    let view = known(region)?;
    if view.key.0 != port.id {
        return Err(because(INV_VALUE, "a region of another port"));
    }
    let held = registry::take(view.key).ok_or(INV_VALUE)?;
    match view.owner {
        Owner::Library | Owner::Part if free => release(region),
        // SAFETY: the program gave the structure just now, and it is live.
        _ => unsafe { region.write_unaligned(EMPTY) },
    }
    held.map_or(Ok(()), |held| held.unregister().map_err(|error| of_region(&error)))
}

/// Whether the region's pages and those of `size` bytes at `start` are as `compare` says.
fn compare(
    region: *const abi::Region,
    start: *const c_void,
    size: usize,
    compare: impl Fn((usize, usize), (usize, usize)) -> bool,
) -> c_int {
    let (Ok(view), Some(range)) = (known(region), pages::pages_of(start as usize, size)) else { return 0 };
    compare((view.start, view.start + view.bytes()), range).into()
}

#[unsafe(no_mangle)]
extern "C" fn rma2_register(
    port: *const Endpoint,
    address: *const c_void,
    size: usize,
    region: Out<*mut abi::Region>,
) -> Code {
    slots::catch_up();
    code(enter(port).and_then(|inner| {
        region.check("place for the region")?;
        region.set(register_new(port, &inner, address as usize, size, &mut || cache::evict(&inner))?)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_register_cached(
    port: *const Endpoint,
    address: *const c_void,
    size: usize,
    region: Out<*mut abi::Region>,
) -> Code {
    rma2_register(port, address, size, region)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_register_nomalloc(
    port: *const Endpoint,
    address: *const c_void,
    size: usize,
    region: Out<abi::Region>,
) -> Code {
    slots::catch_up();
    code(enter(port).and_then(|inner| {
        region.check("place for the region")?;
        let place = region.address().cast_mut();
        let make_room = &mut || cache::evict(&inner);
        register(port, &inner, address as usize, size, place, Owner::Program, make_room).map(|_| ())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_register_adhoc(
    port: *const Endpoint,
    address: *const c_void,
    region: Out<*mut abi::Region>,
) -> Code {
    let page = pages::page_of(address as usize);
    rma2_register(port, page as *const c_void, PAGE, region)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_unregister(port: *const Endpoint, region: *mut abi::Region) -> Code {
    code(enter(port).and_then(|port| unregister(&port, region)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_unregister_nofree(port: *const Endpoint, region: *mut abi::Region) -> Code {
    code(enter(port).and_then(|port| unregister_with(&port, region, false)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_unregister_cached(port: *const Endpoint, region: *mut abi::Region) -> Code {
    rma2_unregister(port, region)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_unregister_adhoc(port: *const Endpoint, region: *mut abi::Region) -> Code {
    rma2_unregister(port, region)
}

/// `base + offset`, which may be one past the end.
fn within(view: &View, offset: usize) -> Result<usize> {
    let at = (view.offset as usize).checked_add(offset).filter(|at| *at <= view.bytes());
    at.ok_or_else(|| because(INV_VALUE, "an offset behind the region"))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_nla(region: *const abi::Region, offset: usize, nla: Out<u64>) -> Code {
    code(known(region).and_then(|view| nla.set(view.nla + within(&view, offset)? as u64)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_va(region: *const abi::Region, offset: usize, va: Out<*mut c_void>) -> Code {
    code(known(region).and_then(|view| va.set((view.start + within(&view, offset)?) as *mut c_void)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_size(region: *const abi::Region, size: Out<usize>) -> Code {
    code(known(region).and_then(|view| size.set(view.bytes())))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_page_count(region: *const abi::Region, count: Out<usize>) -> Code {
    code(known(region).and_then(|view| count.set(view.pages as usize)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_region_contained(
    region: *const abi::Region,
    start: *const c_void,
    size: usize,
) -> c_int {
    compare(region, start, size, |region, range| region.0 <= range.0 && range.1 <= region.1)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_region_overlap(
    region: *const abi::Region,
    start: *const c_void,
    size: usize,
) -> c_int {
    compare(region, start, size, |region, range| region.0 < range.1 && range.0 < region.1)
}

#[unsafe(no_mangle)]
extern "C" fn rma2_get_region_equal(region: *const abi::Region, start: *const c_void, size: usize) -> c_int {
    compare(region, start, size, |region, range| region == range)
}

//! The registration cache behind librma2rc (spec 10.5).
//!
//! A request is a hit if a cached region of the port contains the requested memory. Idle regions stay registered until
//! the cache needs their entry, their memory is unmapped or freed ([`registry::invalidate`]) or the port closes.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ggas::PAGE;

use crate::abi::{self, Endpoint};
use crate::error::{Code, INV_VALUE, Result, because, code};
use crate::ffi::Out;
use crate::port::{Inner, enter};
use crate::region;
use crate::registry::{self, Key, Owner, View};
use crate::{hooks, pages, slots};

/// Places of the cache, unless `EXTOLL2_RMA_RC` says otherwise.
const PLACES: usize = 256;

/// `rma2_rc_statistics`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Statistics {
    hits: u64,
    misses: u64,
    /// Idle regions that made room.
    evictions: u64,
    /// Regions whose memory went away.
    invalidations: u64,
    /// Requests that found no place.
    uncached: u64,
    /// Regions in the cache now, and those of them in use.
    regions: u64,
    used: u64,
}

struct Cached {
    key: Key,
    region: *mut abi::Region,
    users: u64,
    /// Running number of the last use.
    last: u64,
}

// SAFETY: the structure is the cache's own; it is only reached under the lock.
unsafe impl Send for Cached {}

#[derive(Default)]
struct Cache {
    places: Option<usize>,
    cached: Vec<Cached>,
    clock: u64,
    counts: Statistics,
}

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

fn cache() -> MutexGuard<'static, Option<Cache>> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    fn places(&mut self) -> usize {
        let asked = || std::env::var("EXTOLL2_RMA_RC").ok()?.parse().ok();
        *self.places.get_or_insert_with(|| asked().unwrap_or(PLACES))
    }

    /// A region of the port that contains the memory, counted as used once more. What lies beside a region's memory on
    /// its pages is another's, and stays when the region's goes away.
    fn hit(&mut self, port: &Inner, (start, end): (usize, usize)) -> Option<(View, *mut abi::Region)> {
        self.clock += 1;
        for cached in self.cached.iter_mut().filter(|cached| cached.key.0 == port.id) {
            let Some(view) = registry::registered(cached.key).filter(|view| !view.gone) else { continue };
            let named = registry::named(cached.key);
            if named.is_some_and(|named| named.0 <= start && end <= named.1) {
                cached.users += 1;
                cached.last = self.clock;
                self.counts.hits += 1;
                return Some((view, cached.region));
            }
        }
        self.counts.misses += 1;
        None
    }

    /// One user less, whom the region was not given to after all.
    fn leave(&mut self, key: Key) {
        if let Some(cached) = self.cached.iter_mut().find(|cached| cached.key == key) {
            cached.users -= 1;
        }
    }

    /// Drops idle regions whose memory is gone; then, if there is no place left, the idle one that was not used
    /// longest.
    fn make_room(&mut self, port: &Inner) -> bool {
        let gone = |cached: &Cached| registry::registered(cached.key).is_none_or(|view| view.gone);
        let dead: Vec<Cached> =
            self.cached.extract_if(.., |cached| cached.users == 0 && gone(cached)).collect();
        self.counts.invalidations += dead.len() as u64;
        for cached in dead {
            drop_region(port, cached.region);
        }
        self.cached.len() < self.places() || self.evict(port)
    }

    /// Drops the idle region that was not used longest. `false`: none is idle.
    fn evict(&mut self, port: &Inner) -> bool {
        let idle = self.cached.iter().enumerate().filter(|(_, cached)| cached.users == 0);
        let Some((oldest, _)) = idle.min_by_key(|(_, cached)| cached.last) else { return false };
        let cached = self.cached.swap_remove(oldest);
        self.counts.evictions += 1;
        drop_region(port, cached.region);
        true
    }
}

/// Ends a cached region, on whatever port it is.
fn drop_region(port: &Inner, region: *mut abi::Region) {
    if let Ok(view) = region::known(region) {
        if view.key.0 == port.id {
            // What the card does not confirm was reported; the region is out of the cache either way.
            let _ = region::unregister(port, region);
        } else {
            drop(registry::take(view.key));
            region::release(region);
        }
    }
}

/// A structure of its own for a part of a cached region that starts elsewhere.
fn part(
    handle: *const Endpoint,
    view: &View,
    whole: *mut abi::Region,
    address: usize,
    (start, end): (usize, usize),
) -> Result<*mut abi::Region> {
    let part = View {
        nla: view.nla + (start - view.start) as u64,
        start,
        pages: ((end - start) / PAGE) as u32,
        offset: (address - start) as u32,
        owner: Owner::Part,
        ..*view
    };
    let structure = region::allocate()?;
    region::show(structure, &part, handle, whole);
    if !registry::add_part(structure as usize, part) {
        region::release(structure);
        return Err(because(INV_VALUE, "the memory was unmapped meanwhile"));
    }
    Ok(structure)
}

fn register(handle: *const Endpoint, port: &Inner, address: usize, size: usize) -> Result<*mut abi::Region> {
    let wrong = || because(INV_VALUE, "a region needs an address and at least one byte");
    let range = pages::pages_of(address, size).filter(|_| address != 0 && size != 0).ok_or_else(wrong)?;
    let mut cache = cache();
    let cache = cache.get_or_insert_default();
    if slots::missed() {
        while cache.evict(port) {}
    }
    if let Some((view, whole)) = cache.hit(port, (address, address + size)) {
        let same = view.start + view.offset as usize == address && view.start + view.bytes() == range.1;
        let shown = if same { Ok(whole) } else { part(handle, &view, whole, address, range) };
        return shown.inspect_err(|_| cache.leave(view.key));
    }
    let room = cache.make_room(port);
    let region = region::register_new(handle, port, address, size, &mut || cache.evict(port))?;
    if room {
        let key = region::known(region)?.key;
        cache.cached.push(Cached { key, region, users: 1, last: cache.clock });
    } else {
        cache.counts.uncached += 1;
    }
    Ok(region)
}

fn unregister(port: &Inner, region: *mut abi::Region) -> Result<()> {
    let view = region::known(region)?;
    if view.key.0 != port.id {
        return Err(because(INV_VALUE, "a region of another port"));
    }
    let mut cache = cache();
    let cached = cache.as_mut().and_then(|cache| cache.cached.iter_mut().find(|c| c.key == view.key));
    if view.owner == Owner::Part {
        registry::remove_part(region as usize);
        region::release(region);
    }
    match cached {
        Some(cached) if cached.users > 0 => {
            cached.users -= 1;
            let idle = (cached.users == 0).then_some(cached.region);
            // What goes away unseen must not be found again.
            if let Some(region) = idle.filter(|_| !hooks::see()) {
                cache.iter_mut().for_each(|cache| cache.cached.retain(|cached| cached.key != view.key));
                drop_region(port, region);
            }
            Ok(())
        }
        Some(_) => Err(because(INV_VALUE, "the region is not in use")),
        None if view.owner == Owner::Part => Ok(()),
        None => region::unregister(port, region),
    }
}

/// Makes room for a region beside the cache: what nobody uses must not keep memory from who needs it.
pub(crate) fn evict(port: &Inner) -> bool {
    cache().as_mut().is_some_and(|cache| cache.evict(port))
}

/// Forgets the regions of a port that closes; the registry ends them.
pub(crate) fn forget_port(port: u64) {
    if let Some(cache) = cache().as_mut() {
        cache.cached.retain(|cached| cached.key.0 != port);
    }
}

#[unsafe(no_mangle)]
extern "C" fn rma2_rc_register(
    port: *const Endpoint,
    address: *const c_void,
    size: usize,
    region: Out<*mut abi::Region>,
) -> Code {
    slots::catch_up();
    code(enter(port).and_then(|inner| {
        region.check("place for the region")?;
        region.set(register(port, &inner, address as usize, size)?)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_rc_unregister(port: *const Endpoint, region: *mut abi::Region) -> Code {
    slots::catch_up();
    code(enter(port).and_then(|port| unregister(&port, region)))
}

#[unsafe(no_mangle)]
extern "C" fn rma2_rc_get_statistics(statistics: Out<Statistics>) -> Code {
    let counts = cache().as_ref().map_or(Statistics::default(), |cache| {
        let used = cache.cached.iter().filter(|cached| cached.users > 0).count() as u64;
        Statistics { regions: cache.cached.len() as u64, used, ..cache.counts }
    });
    code(statistics.set(counts))
}

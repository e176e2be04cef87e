//! The loaded objects of this process, and the slots (GOT entries) in which each object keeps the addresses of functions
//! of other objects.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info};

/// Tags of the dynamic section, and types of relocations that hold a function's address (System V ABI).
const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const STB_WEAK: u8 = 2;

#[cfg(target_arch = "x86_64")]
const KINDS: [(u32, Kind); 3] = [(7, Kind::Call), (6, Kind::Address), (1, Kind::Data)];
#[cfg(target_arch = "aarch64")]
const KINDS: [(u32, Kind); 3] = [(1026, Kind::Call), (1025, Kind::Address), (257, Kind::Data)];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const KINDS: [(u32, Kind); 0] = [];

/// What a place is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Calls. Until the first one it may lead to code of the object's own, which looks the function up.
    Call,
    /// Calls and pointers.
    Address,
    /// The program's data: a pointer that was set when it was loaded, and may have been changed since.
    Data,
}

#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    _addend: i64,
}

/// A program or library that is loaded.
pub(crate) struct Object<'a> {
    base: usize,
    headers: &'a [Elf64_Phdr],
    /// What was writable only until the loader had filled it in.
    sealed: Range<usize>,
    strings: usize,
    symbols: usize,
    /// By which symbols are found; 0: it has none.
    hashes: usize,
    /// Relocations: address and bytes.
    tables: [(usize, usize); 2],
}

/// A place that holds the address of a function, under the name of which it was looked up.
pub(crate) struct Slot<'a> {
    pub(crate) name: &'a CStr,
    pub(crate) kind: Kind,
    place: &'a AtomicUsize,
    /// The object's own function of that name.
    own: Option<usize>,
    optional: bool,
    object: &'a Object<'a>,
}

/// What an object has under a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A function of its own.
    Own(usize),
    /// What stands for another's function: it calls by the object's slot. Programs that are not relocatable have it.
    Stub(usize),
}

/// Calls `each` for every object, until it says no. No library is loaded or unloaded meanwhile, so `each` must not ask
/// the loader for anything.
pub(crate) fn objects(mut each: impl FnMut(&dl_phdr_info) -> bool) {
    unsafe extern "C" fn visit<F: FnMut(&dl_phdr_info) -> bool>(
        info: *mut dl_phdr_info,
        _size: usize,
        each: *mut c_void,
    ) -> c_int {
        // SAFETY: what the loader gives, and what `objects` handed it.
        let more = unsafe { (*each.cast::<F>())(&*info) };
        c_int::from(!more)
    }
    fn visitor<F: FnMut(&dl_phdr_info) -> bool>(
        _: &F,
    ) -> unsafe extern "C" fn(*mut dl_phdr_info, usize, *mut c_void) -> c_int {
        visit::<F>
    }
    // SAFETY: the closure lives as long as the call.
    unsafe { libc::dl_iterate_phdr(Some(visitor(&each)), (&raw mut each).cast()) };
}

/// How many objects were ever loaded.
pub(crate) fn loaded() -> u64 {
    let mut adds = 0;
    objects(|info| {
        adds = info.dlpi_adds;
        false
    });
    adds
}

impl<'a> Object<'a> {
    /// `None`: it has no dynamic section.
    ///
    /// # Safety
    ///
    /// From [`objects`], and used only while it visits.
    pub(crate) unsafe fn of(info: &'a dl_phdr_info) -> Option<Object<'a>> {
        // SAFETY: the loader's own array.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let base = info.dlpi_addr as usize;
        let find = |kind: u32| headers.iter().find(|header| header.p_type == kind);
        let sealed = find(libc::PT_GNU_RELRO).map_or(0..0, |header| {
            let start = base + header.p_vaddr as usize;
            down(start)..down(start + header.p_memsz as usize)
        });
        let dynamic = (base + find(libc::PT_DYNAMIC)?.p_vaddr as usize) as *const Dynamic;
        let (strings, symbols, hashes) = (0, 0, 0);
        let mut object = Object { base, headers, sealed, strings, symbols, hashes, tables: [(0, 0); 2] };
        for i in 0.. {
            // SAFETY: the section ends with an entry of its own.
            let &Dynamic { tag, value } = unsafe { &*dynamic.add(i) };
            // The loader has made most of these addresses, but not all (vdso).
            let address = if (value as usize) < base { base + value as usize } else { value as usize };
            match tag {
                DT_NULL => break,
                DT_STRTAB => object.strings = address,
                DT_SYMTAB => object.symbols = address,
                DT_GNU_HASH => object.hashes = address,
                DT_RELA => object.tables[0].0 = address,
                DT_RELASZ => object.tables[0].1 = value as usize,
                DT_JMPREL => object.tables[1].0 = address,
                DT_PLTRELSZ => object.tables[1].1 = value as usize,
                _ => {}
            }
        }
        Some(object)
    }

    /// It is the loader.
    pub(crate) fn is_loader(&self) -> bool {
        // SAFETY: asks for a number.
        self.base != 0 && self.base as u64 == unsafe { libc::getauxval(libc::AT_BASE) }
    }

    /// Its places that hold the address of a function that has a name.
    pub(crate) fn slots(&'a self) -> impl Iterator<Item = Slot<'a>> + 'a {
        self.tables.iter().filter(|(address, _)| *address != 0).flat_map(move |(address, bytes)| {
            // SAFETY: the object's own table, as its dynamic section says.
            let table = unsafe {
                std::slice::from_raw_parts(*address as *const Relocation, bytes / size_of::<Relocation>())
            };
            table.iter().filter_map(move |relocation| self.slot(relocation))
        })
    }

    fn slot(&'a self, relocation: &Relocation) -> Option<Slot<'a>> {
        let (symbol, kind) = ((relocation.info >> 32) as usize, relocation.info as u32);
        let (_, kind) = *KINDS.iter().find(|(number, _)| symbol != 0 && *number == kind)?;
        let place = self.base + relocation.offset as usize;
        if !place.is_multiple_of(align_of::<usize>()) || !self.is_in(place, libc::PF_W) {
            return None;
        }
        // SAFETY: the object's own symbol and its name, as its dynamic section says; the place is mapped, aligned, and
        // at most written to by other threads as a whole.
        unsafe {
            let symbol = self.symbol(symbol);
            Some(Slot {
                name: self.name(symbol),
                kind,
                place: AtomicUsize::from_ptr(place as *mut usize),
                own: self.address(symbol),
                optional: symbol.st_info >> 4 == STB_WEAK,
                object: self,
            })
        }
    }

    /// What others find in the object under this name.
    ///
    /// The table begins with the number of buckets, the first symbol that is in it, and the number of words of a filter
    /// behind which the buckets lie; each bucket has the first of its symbols, whose hashes stand in a row, the last
    /// one odd.
    pub(crate) fn find(&self, name: &CStr) -> Option<Found> {
        if self.hashes == 0 {
            return None;
        }
        let hash =
            name.to_bytes().iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33) + u32::from(*byte));
        // SAFETY: the object's own table, in which the numbers say where the next ones are.
        unsafe {
            let table = self.hashes as *const u32;
            let (buckets, first, filter) = (*table, *table.add(1), *table.add(2));
            let bucket = table.add(4 + 2 * filter as usize);
            let chain = bucket.add(buckets as usize);
            let mut index = *bucket.add((hash.checked_rem(buckets)?) as usize);
            while index >= first && index != 0 {
                let found = *chain.add((index - first) as usize);
                let symbol = self.symbol(index as usize);
                if found | 1 == hash | 1 && self.name(symbol) == name {
                    let stub = (symbol.st_value != 0).then(|| self.base + symbol.st_value as usize);
                    return self.address(symbol).map(Found::Own).or(stub.map(Found::Stub));
                }
                if found & 1 == 1 {
                    break;
                }
                index += 1;
            }
        }
        None
    }

    /// # Safety
    ///
    /// The object has a symbol of this number.
    unsafe fn symbol(&self, number: usize) -> &'a Elf64_Sym {
        // SAFETY: the caller's.
        unsafe { &*(self.symbols as *const Elf64_Sym).add(number) }
    }

    /// # Safety
    ///
    /// It is a symbol of the object's.
    unsafe fn name(&self, symbol: &Elf64_Sym) -> &'a CStr {
        // SAFETY: the caller's.
        unsafe { CStr::from_ptr((self.strings + symbol.st_name as usize) as *const _) }
    }

    /// `None`: it is another object's.
    fn address(&self, symbol: &Elf64_Sym) -> Option<usize> {
        (symbol.st_shndx != 0).then(|| self.base + symbol.st_value as usize)
    }

    /// Whether an address lies in a part of the object that was mapped with these rights.
    fn is_in(&self, address: usize, rights: u32) -> bool {
        let at = address.wrapping_sub(self.base) as u64;
        self.headers.iter().any(|header| {
            let part = header.p_vaddr..header.p_vaddr + header.p_memsz;
            header.p_type == libc::PT_LOAD && header.p_flags & rights == rights && part.contains(&at)
        })
    }
}

impl Slot<'_> {
    pub(crate) fn value(&self) -> usize {
        self.place.load(Ordering::Relaxed)
    }

    /// The first call will look the function up.
    pub(crate) fn is_unbound(&self) -> bool {
        let value = self.value();
        self.kind == Kind::Call && self.own != Some(value) && self.object.is_in(value, libc::PF_X)
    }

    /// The program can do without the function, and does.
    pub(crate) fn is_absent(&self) -> bool {
        self.optional && self.value() == 0
    }

    /// Sends it elsewhere. `false`: the system does not allow that.
    pub(crate) fn set(&self, address: usize) -> bool {
        let place = self.place.as_ptr() as usize;
        if !self.object.sealed.contains(&place) {
            self.place.store(address, Ordering::Release);
            return true;
        }
        let page = down(place);
        let protect = |rights| {
            // SAFETY: a page of the object, which others only read.
            unsafe { libc::mprotect(page as *mut c_void, page_size(), rights) == 0 }
        };
        if !protect(libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        self.place.store(address, Ordering::Release);
        // Writable for good is no harm to the program.
        protect(libc::PROT_READ);
        true
    }
}

fn page_size() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// First byte of the page.
fn down(address: usize) -> usize {
    address & !(page_size() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &CStr) -> usize {
        // SAFETY: a string.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
    }

    /// The first answer that any object gives.
    fn first<R>(mut ask: impl FnMut(&Object<'_>) -> Option<R>) -> Option<R> {
        let mut answer = None;
        objects(|info| {
            // SAFETY: used in here only.
            answer = unsafe { Object::of(info) }.and_then(|object| ask(&object));
            answer.is_none()
        });
        answer
    }

    #[test]
    fn functions_are_found_by_name() {
        for name in [c"munmap", c"free", c"getenv", c"dl_iterate_phdr"] {
            assert!(
                first(|object| (object.find(name) == Some(Found::Own(address(name)))).then_some(()))
                    .is_some()
            );
        }
        assert!(first(|object| object.find(c"rma2_no_such_function")).is_none());
    }

    #[test]
    fn a_program_has_a_slot_for_what_it_calls() {
        let slot = |name: &CStr| {
            first(|object| {
                object.slots().find(|slot| slot.name == name).map(|slot| (slot.value(), slot.is_unbound()))
            })
        };
        let (value, unbound) = slot(c"dl_iterate_phdr").unwrap();
        assert!(unbound || value == address(c"dl_iterate_phdr"));
        assert!(slot(c"rma2_no_such_function").is_none());
    }

    #[test]
    fn loading_is_counted() {
        assert!(loaded() > 1);
        assert_eq!(loaded(), loaded());
    }
}

//! Lists with a pool of items (spec 10.4b): what `extoll2_list.h` does not do in the program itself.
//!
//! The lists belong to the program: their pointers are dereferenced unchecked, as by the functions in the header.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;

use crate::abi::ListHead as Head;

/// `extoll2_list_t`.
#[repr(C)]
struct List {
    name: [u8; 32],
    item_size: u32,
    num_items: u32,
    free_increment: u32,
    num_free_items: u32,
    items_alloced: u32,
    pool_list: Head,
    free_list: Head,
    list: Head,
}

/// `extoll2_pool_item_t`.
#[repr(C)]
struct PoolItem {
    list: Head,
    address: *mut u8,
    size: u32,
    entries: u32,
}

const _: () = {
    assert!(size_of::<List>() == 104 && offset_of!(List, pool_list) == 56);
    assert!(size_of::<PoolItem>() == 32 && offset_of!(PoolItem, size) == 24);
};

impl Head {
    /// An empty list.
    ///
    /// # Safety
    ///
    /// Valid for writing.
    unsafe fn clear(this: *mut Head) {
        // SAFETY: the caller's.
        unsafe { this.write(Head { next: this, prev: this }) };
    }

    /// Puts `item` at the end of the list.
    ///
    /// # Safety
    ///
    /// `this` heads a list; `item` is valid for writing, and in no list.
    unsafe fn append(this: *mut Head, item: *mut Head) {
        // SAFETY: the caller's: links of a list lead to links of a list.
        unsafe {
            let last = (*this).prev;
            item.write(Head { next: this, prev: last });
            (*last).next = item;
            (*this).prev = item;
        }
    }

    /// Takes an item out of its list.
    ///
    /// # Safety
    ///
    /// It is in one.
    unsafe fn remove(this: *mut Head) {
        // SAFETY: as above.
        unsafe {
            (*(*this).prev).next = (*this).next;
            (*(*this).next).prev = (*this).prev;
            Head::clear(this);
        }
    }
}

/// Memory of zeroes from C's allocator; null where there is none.
fn zeroed<T>(count: usize, bytes: usize) -> *mut T {
    // SAFETY: any size may be asked for.
    unsafe { libc::calloc(count, bytes).cast() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn extoll2_construct_list(
    item_size: u32,
    initial_pool_size: u32,
    free_increment: u32,
    name: *const c_char,
) -> *mut List {
    if (item_size as usize) < size_of::<Head>() {
        return std::ptr::null_mut();
    }
    let list: *mut List = zeroed(1, size_of::<List>());
    if list.is_null() {
        return list;
    }
    // SAFETY: a structure of zeroes, which is a valid one, and nobody else's; the name is null or a string.
    unsafe {
        (*list).item_size = item_size;
        (*list).free_increment = free_increment;
        for head in [&raw mut (*list).pool_list, &raw mut (*list).free_list, &raw mut (*list).list] {
            Head::clear(head);
        }
        if !name.is_null() {
            let len = libc::strnlen(name, (*list).name.len() - 1);
            (&raw mut (*list).name).cast::<u8>().copy_from_nonoverlapping(name.cast(), len);
        }
        if initial_pool_size > 0 && extoll2_alloc_pool(list, initial_pool_size) != 0 {
            libc::free(list.cast());
            return std::ptr::null_mut();
        }
    }
    list
}

#[unsafe(no_mangle)]
unsafe extern "C" fn extoll2_destruct_list(list: *mut List) {
    if list.is_null() {
        return;
    }
    // SAFETY: the caller gives a list of ours; its blocks are made by `extoll2_alloc_pool`.
    unsafe {
        let head = &raw mut (*list).pool_list;
        let mut block = (*head).next;
        while block != head {
            let next = (*block).next;
            extoll2_free_pool(block.cast());
            block = next;
        }
        libc::free(list.cast());
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn extoll2_alloc_pool(list: *mut List, num_items: u32) -> c_int {
    // SAFETY: the caller gives null or a list of ours.
    let Some(about) = (unsafe { list.as_ref() }) else { return -1 };
    // Links in every item are aligned, whatever the items' size.
    let stride = (about.item_size as usize).next_multiple_of(align_of::<Head>());
    let bytes = (num_items as usize).checked_mul(stride).and_then(|bytes| u32::try_from(bytes).ok());
    let (Some(bytes @ 1..), Some(all)) = (bytes, about.items_alloced.checked_add(num_items)) else {
        return -1;
    };
    let block: *mut PoolItem = zeroed(1, size_of::<PoolItem>());
    let address: *mut u8 = zeroed(num_items as usize, stride);
    // SAFETY: both are ours alone; the items lie in the block one behind the other.
    unsafe {
        if block.is_null() || address.is_null() {
            libc::free(block.cast());
            libc::free(address.cast());
            return -1;
        }
        (*block).address = address;
        (*block).size = bytes;
        (*block).entries = num_items;
        Head::append(&raw mut (*list).pool_list, block.cast());
        for item in 0..num_items as usize {
            Head::append(&raw mut (*list).free_list, address.add(item * stride).cast());
        }
        (*list).num_free_items += num_items;
        (*list).items_alloced = all;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn extoll2_free_pool(pool_item: *mut PoolItem) -> c_int {
    if pool_item.is_null() {
        return -1;
    }
    // SAFETY: the caller gives a block that `extoll2_alloc_pool` made, and that is in its list.
    unsafe {
        Head::remove(pool_item.cast());
        libc::free((*pool_item).address.cast());
        libc::free(pool_item.cast());
    }
    0
}

//! Groups and collectives.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use ggas_gaspi::{Datatype, Gaspi, GaspiError, Operation, Timeout};

use crate::ffi::{check, export, put, refuse};
use crate::process::here;

/// `gaspi_reduce_operation_t`.
pub type Reduce = Option<
    extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void, c_uint, c_ulong, c_ulong) -> c_int,
>;

pub(crate) const OPERATIONS: [Operation; 3] = [Operation::Min, Operation::Max, Operation::Sum];
pub(crate) const DATATYPES: [Datatype; 10] = [
    Datatype::Int,
    Datatype::Uint,
    Datatype::Float,
    Datatype::Double,
    Datatype::Long,
    Datatype::Ulong,
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int16,
    Datatype::Uint16,
];

/// An argument of a call that is a number of a list.
pub(crate) fn of_list<T: Copy>(call: &str, all: &[T], name: &str, number: c_uint) -> Result<T, GaspiError> {
    let last = all.len() - 1;
    let refused = || refuse(GaspiError::Argument, format!("{call}: {name} {number}: use 0 to {last}"));
    all.get(number as usize).copied().ok_or_else(refused)
}

/// A vector at an address that suits any element.
fn aligned(from: &[u8]) -> Vec<u64> {
    let word = |piece: &[u8]| {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        u64::from_ne_bytes(word)
    };
    from.chunks(8).map(word).collect()
}

/// Bytes that a program gives, from wherever they are.
fn fetch(here: &Gaspi, from: *mut c_void, count: usize) -> Result<Vec<u8>, GaspiError> {
    let mut into = vec![0; count];
    // SAFETY: the interface's contract: so many bytes are there.
    unsafe { here.fetch_raw(from.cast(), &mut into) }?;
    Ok(into)
}

export! {
    /// A new group.
    fn pgaspi_group_create / gaspi_group_create(group: *mut u8) {
        let here = here()?;
        check(group)?;
        put(group, here.group_create()?)
    }

    /// Deletes it.
    fn pgaspi_group_delete / gaspi_group_delete(group: u8) {
        here()?.group_delete(group)
    }

    /// Adds a rank.
    fn pgaspi_group_add / gaspi_group_add(group: u8, rank: u16) {
        here()?.group_add(group, rank)
    }

    /// Meets the members.
    fn pgaspi_group_commit / gaspi_group_commit(group: u8, timeout: c_ulong) {
        here()?.group_commit(group, Timeout::from_millis(timeout))
    }

    /// Groups.
    fn pgaspi_group_num / gaspi_group_num(count: *mut c_uint) {
        let groups = here()?.group_num();
        put(count, groups)
    }

    /// Members.
    fn pgaspi_group_size / gaspi_group_size(group: u8, size: *mut c_uint) {
        let here = here()?;
        check(size)?;
        put(size, here.group_ranks(group)?.len() as c_uint)
    }

    /// Their ranks.
    fn pgaspi_group_ranks / gaspi_group_ranks(group: u8, ranks: *mut u16) {
        let here = here()?;
        check(ranks)?;
        for (at, rank) in here.group_ranks(group)?.into_iter().enumerate() {
            put(ranks.wrapping_add(at), rank)?;
        }
        Ok(())
    }

    /// Most groups.
    fn pgaspi_group_max / gaspi_group_max(count: *mut c_uint) {
        let most = here()?.config().group_max;
        put(count, most)
    }

    /// Waits for all members.
    fn pgaspi_barrier / gaspi_barrier(group: u8, timeout: c_ulong) {
        here()?.barrier(group, Timeout::from_millis(timeout))
    }

    /// Combines vectors of numbers.
    fn pgaspi_allreduce / gaspi_allreduce(
        send: *mut c_void, receive: *mut c_void, count: c_uint, operation: c_uint, datatype: c_uint, group: u8,
        timeout: c_ulong
    ) {
        let here = here()?;
        here.group_ranks(group)?;
        check(send)?;
        check(receive)?;
        if count > here.config().allreduce_elem_max {
            return Err(GaspiError::Number);
        }
        let operation = of_list("gaspi_allreduce", &OPERATIONS, "operation", operation)?;
        let datatype = of_list("gaspi_allreduce", &DATATYPES, "datatype", datatype)?;
        let own = fetch(&here, send, count as usize * datatype.size())?;
        let all = here.allreduce(group, &own, operation, datatype, Timeout::from_millis(timeout))?;
        // SAFETY: the interface's contract: there is room for as many.
        unsafe { here.give_raw(receive.cast(), &all) }
    }

    /// Combines vectors by a function of the program.
    fn pgaspi_allreduce_user / gaspi_allreduce_user(
        send: *mut c_void, receive: *mut c_void, count: c_uint, element_size: c_ulong, reduce: Reduce,
        state: *mut c_void, group: u8, timeout: c_ulong
    ) {
        let here = here()?;
        here.group_ranks(group)?;
        check(send)?;
        check(receive)?;
        let reduce = reduce.ok_or(GaspiError::Null)?;
        let size = u64::from(count).checked_mul(element_size).filter(|size| *size <= here.config().reduction_bytes());
        let own = fetch(&here, send, size.ok_or(GaspiError::Size)? as usize)?;
        let mut combine = |one: &mut [u8], two: &[u8]| {
            let (mut first, mut second) = (aligned(one), aligned(two));
            let mut result = vec![0u64; first.len()];
            let place = |words: &mut Vec<u64>| words.as_mut_ptr().cast::<c_void>();
            let told = reduce(
                place(&mut first), place(&mut second), place(&mut result), state, count, element_size, timeout,
            );
            let words = result.iter().flat_map(|word| word.to_ne_bytes());
            one.iter_mut().zip(words).for_each(|(byte, value)| *byte = value);
            if told == 0 { Ok(()) } else { Err(GaspiError::Failed) }
        };
        let all = here.allreduce_user(group, &own, count, &mut combine, Timeout::from_millis(timeout))?;
        // SAFETY: the interface's contract: there is room for as many.
        unsafe { here.give_raw(receive.cast(), &all) }
    }

    /// Most elements of a reduction.
    fn pgaspi_allreduce_elem_max / gaspi_allreduce_elem_max(count: *mut c_uint) {
        let most = here()?.config().allreduce_elem_max;
        put(count, most)
    }

    /// Most bytes of one.
    fn pgaspi_allreduce_buf_size / gaspi_allreduce_buf_size(size: *mut c_ulong) {
        let most = here()?.config().reduction_bytes();
        put(size, most)
    }
}

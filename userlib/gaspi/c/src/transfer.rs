//! Writes, reads, notifications, passive messages, atomics.

use std::ffi::{c_uint, c_ulong};

use ggas_gaspi::{Gaspi, GaspiError, Notice, Part, Timeout};

use crate::ffi::{check, element, export, put};
use crate::process::here;

/// Arrays of a list.
struct Arrays {
    local: *const u8,
    local_offset: *const c_ulong,
    remote: *const u8,
    remote_offset: *const c_ulong,
    bytes: *const c_ulong,
}

impl Arrays {
    /// The elements; none is read where there are too many.
    fn parts(&self, here: &Gaspi, count: c_uint) -> Result<Vec<Part>, GaspiError> {
        if count == 0 || count > here.config().rw_list_elem_max {
            return Err(GaspiError::Number);
        }
        let part = |at| {
            Ok(Part {
                local: element(self.local, at)?,
                local_offset: element(self.local_offset, at)?,
                remote: element(self.remote, at)?,
                remote_offset: element(self.remote_offset, at)?,
                bytes: element(self.bytes, at)?,
            })
        };
        (0..count as usize).map(part).collect()
    }
}

export! {
    /// Posts a write.
    fn pgaspi_write / gaspi_write(
        local: u8, local_offset: c_ulong, rank: u16, remote: u8, remote_offset: c_ulong, bytes: c_ulong,
        queue: u8, timeout: c_ulong
    ) {
        here()?.within(Timeout::from_millis(timeout)).write(&Part { local, local_offset, remote, remote_offset, bytes }, rank, queue)
    }

    /// Posts a read.
    fn pgaspi_read / gaspi_read(
        local: u8, local_offset: c_ulong, rank: u16, remote: u8, remote_offset: c_ulong, bytes: c_ulong,
        queue: u8, timeout: c_ulong
    ) {
        here()?.within(Timeout::from_millis(timeout)).read(&Part { local, local_offset, remote, remote_offset, bytes }, rank, queue)
    }

    /// Posts writes.
    fn pgaspi_write_list / gaspi_write_list(
        count: c_uint, local: *const u8, local_offset: *const c_ulong, rank: u16, remote: *const u8,
        remote_offset: *const c_ulong, bytes: *const c_ulong, queue: u8, timeout: c_ulong
    ) {
        let here = here()?;
        let parts = Arrays { local, local_offset, remote, remote_offset, bytes }.parts(&here, count)?;
        here.within(Timeout::from_millis(timeout)).write_list(&parts, rank, queue)
    }

    /// Posts reads.
    fn pgaspi_read_list / gaspi_read_list(
        count: c_uint, local: *const u8, local_offset: *const c_ulong, rank: u16, remote: *const u8,
        remote_offset: *const c_ulong, bytes: *const c_ulong, queue: u8, timeout: c_ulong
    ) {
        let here = here()?;
        let parts = Arrays { local, local_offset, remote, remote_offset, bytes }.parts(&here, count)?;
        here.within(Timeout::from_millis(timeout)).read_list(&parts, rank, queue)
    }

    /// Posts a notification.
    fn pgaspi_notify / gaspi_notify(
        segment: u8, rank: u16, id: c_uint, value: c_uint, queue: u8, timeout: c_ulong
    ) {
        here()?.within(Timeout::from_millis(timeout)).notify(&Notice { segment, id, value }, rank, queue)
    }

    /// Posts a write and a notification.
    fn pgaspi_write_notify / gaspi_write_notify(
        local: u8, local_offset: c_ulong, rank: u16, remote: u8, remote_offset: c_ulong, bytes: c_ulong,
        id: c_uint, value: c_uint, queue: u8, timeout: c_ulong
    ) {
        let part = Part { local, local_offset, remote, remote_offset, bytes };
        here()?.within(Timeout::from_millis(timeout)).write_notify(&[part], &Notice { segment: remote, id, value }, rank, queue)
    }

    /// Posts a read, and a notification of this process.
    fn pgaspi_read_notify / gaspi_read_notify(
        local: u8, local_offset: c_ulong, rank: u16, remote: u8, remote_offset: c_ulong, bytes: c_ulong,
        id: c_uint, queue: u8, timeout: c_ulong
    ) {
        let part = Part { local, local_offset, remote, remote_offset, bytes };
        here()?.within(Timeout::from_millis(timeout)).read_notify(&[part], (local, id), rank, queue)
    }

    /// Posts writes and a notification.
    fn pgaspi_write_list_notify / gaspi_write_list_notify(
        count: c_uint, local: *const u8, local_offset: *const c_ulong, rank: u16, remote: *const u8,
        remote_offset: *const c_ulong, bytes: *const c_ulong, segment: u8, id: c_uint, value: c_uint, queue: u8,
        timeout: c_ulong
    ) {
        let here = here()?;
        let parts = Arrays { local, local_offset, remote, remote_offset, bytes }.parts(&here, count)?;
        here.within(Timeout::from_millis(timeout)).write_notify(&parts, &Notice { segment, id, value }, rank, queue)
    }

    /// Posts reads, and a notification of this process.
    fn pgaspi_read_list_notify / gaspi_read_list_notify(
        count: c_uint, local: *const u8, local_offset: *const c_ulong, rank: u16, remote: *const u8,
        remote_offset: *const c_ulong, bytes: *const c_ulong, segment: u8, id: c_uint, queue: u8,
        timeout: c_ulong
    ) {
        let here = here()?;
        let parts = Arrays { local, local_offset, remote, remote_offset, bytes }.parts(&here, count)?;
        here.within(Timeout::from_millis(timeout)).read_notify(&parts, (segment, id), rank, queue)
    }

    /// Waits for one of some notifications.
    fn pgaspi_notify_waitsome / gaspi_notify_waitsome(
        segment: u8, begin: c_uint, count: c_uint, first: *mut c_uint, timeout: c_ulong
    ) {
        let here = here()?;
        check(first)?;
        match here.notify_waitsome(segment, begin, count, Timeout::from_millis(timeout))? {
            Some(id) => put(first, id),
            None => Ok(()),
        }
    }

    /// Takes a notification's value; the pointer may be null.
    fn pgaspi_notify_reset / gaspi_notify_reset(segment: u8, id: c_uint, old: *mut c_uint) {
        let value = here()?.notify_reset(segment, id)?;
        if old.is_null() { Ok(()) } else { put(old, value) }
    }

    /// Sends a passive message.
    fn pgaspi_passive_send / gaspi_passive_send(
        segment: u8, offset: c_ulong, rank: u16, bytes: c_ulong, timeout: c_ulong
    ) {
        here()?.passive_send(segment, offset, rank, bytes, Timeout::from_millis(timeout))
    }

    /// Receives one.
    fn pgaspi_passive_receive / gaspi_passive_receive(
        segment: u8, offset: c_ulong, sender: *mut u16, bytes: c_ulong, timeout: c_ulong
    ) {
        let here = here()?;
        check(sender)?;
        put(sender, here.passive_receive(segment, offset, bytes, Timeout::from_millis(timeout))?)
    }

    /// Adds to a word.
    fn pgaspi_atomic_fetch_add / gaspi_atomic_fetch_add(
        segment: u8, offset: c_ulong, rank: u16, add: c_ulong, old: *mut c_ulong, _timeout: c_ulong
    ) {
        let here = here()?;
        atomic(&here, (segment, offset, rank), old, |here| here.fetch_add(segment, offset, rank, add))
    }

    /// Replaces a word if it has a value.
    fn pgaspi_atomic_compare_swap / gaspi_atomic_compare_swap(
        segment: u8, offset: c_ulong, rank: u16, comparator: c_ulong, new: c_ulong, old: *mut c_ulong,
        _timeout: c_ulong
    ) {
        let here = here()?;
        atomic(&here, (segment, offset, rank), old, |here| {
            here.compare_swap(segment, offset, rank, comparator, new)
        })
    }

    /// The greatest value of a word.
    fn pgaspi_atomic_max / gaspi_atomic_max(most: *mut c_ulong) {
        here()?;
        put(most, c_ulong::MAX)
    }
}

/// The place for the old value is checked behind the word, and before its alignment.
fn atomic(
    here: &Gaspi,
    (segment, offset, rank): (u8, u64, u16),
    old: *mut c_ulong,
    work: impl FnOnce(&Gaspi) -> Result<u64, GaspiError>,
) -> Result<(), GaspiError> {
    match here.check_atomic(segment, offset, rank) {
        Err(GaspiError::Unaligned) | Ok(()) => check(old)?,
        Err(error) => return Err(error),
    }
    put(old, work(here)?)
}

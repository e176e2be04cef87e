//! Segments and queues.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use ggas_gaspi::{GaspiError, QUEUES_MAX, Timeout};

use crate::ffi::{check, export, put, refuse};
use crate::gpu;
use crate::process::here;

export! {
    /// Allocates a segment.
    fn pgaspi_segment_alloc / gaspi_segment_alloc(id: u8, size: c_ulong, policy: c_int) {
        let here = here()?;
        let policy = gpu::policy(&here, policy)?;
        here.segment_alloc_on(id, size, policy).map_err(gpu::told(policy))
    }

    /// Lets a rank at it.
    fn pgaspi_segment_register / gaspi_segment_register(id: u8, rank: u16, timeout: c_ulong) {
        here()?.segment_register(id, rank, Timeout::from_millis(timeout))
    }

    /// Both, with all members of a group.
    fn pgaspi_segment_create / gaspi_segment_create(
        id: u8, size: c_ulong, group: u8, timeout: c_ulong, policy: c_int
    ) {
        let here = here()?;
        let policy = gpu::policy(&here, policy)?;
        here.segment_create_on(id, size, group, Timeout::from_millis(timeout), policy).map_err(gpu::told(policy))
    }

    /// Makes a segment of the program's memory.
    fn pgaspi_segment_bind / gaspi_segment_bind(
        id: u8, pointer: *mut c_void, size: c_ulong, _memory_description: c_int
    ) {
        // SAFETY: the interface's contract: the memory stays until the segment is deleted.
        unsafe { here()?.segment_bind(id, pointer.cast(), size) }
    }

    /// The same, with all members of a group.
    fn pgaspi_segment_use / gaspi_segment_use(
        id: u8, pointer: *mut c_void, size: c_ulong, group: u8, timeout: c_ulong, _memory_description: c_int
    ) {
        // SAFETY: as above.
        unsafe { here()?.segment_use(id, pointer.cast(), size, group, Timeout::from_millis(timeout)) }
    }

    /// Deletes a segment of this process.
    fn pgaspi_segment_delete / gaspi_segment_delete(id: u8) {
        here()?.segment_delete(id)
    }

    /// Its first byte.
    fn pgaspi_segment_ptr / gaspi_segment_ptr(id: u8, pointer: *mut *mut c_void) {
        let here = here()?;
        check(pointer)?;
        put(pointer, here.segment_ptr(id)?.cast())
    }

    /// Bytes of the segment of a rank.
    fn pgaspi_segment_size / gaspi_segment_size(id: u8, rank: u16, size: *mut c_ulong) {
        let here = here()?;
        check(size)?;
        put(size, here.segment_size(id, rank)?)
    }

    /// Segments of this process.
    fn pgaspi_segment_num / gaspi_segment_num(count: *mut c_uint) {
        let segments = here()?.segment_list().len();
        put(count, segments as c_uint)
    }

    /// Their ids; the count must be the current one.
    fn pgaspi_segment_list / gaspi_segment_list(count: c_uint, ids: *mut u8) {
        let here = here()?;
        check(ids)?;
        let list = here.segment_list();
        if list.len() != count as usize {
            let there = list.len();
            let why = format!("gaspi_segment_list: num {count}: this process has {there} segments");
            return Err(refuse(GaspiError::Argument, why));
        }
        crate::ffi::put_bytes(ids, &list)
    }

    /// The lowest free id.
    fn pgaspi_segment_avail_local / gaspi_segment_avail_local(id: *mut u8) {
        let here = here()?;
        check(id)?;
        put(id, here.segment_available()?)
    }

    /// Most segments.
    fn pgaspi_segment_max / gaspi_segment_max(count: *mut c_uint) {
        let most = here()?.config().segment_max;
        put(count, most)
    }

    /// A new queue.
    fn pgaspi_queue_create / gaspi_queue_create(queue: *mut u8, _timeout: c_ulong) {
        let here = here()?;
        check(queue)?;
        let refused = |_| {
            let why = format!("gaspi_queue_create: there are {QUEUES_MAX} queues, the most: delete one first");
            refuse(GaspiError::Failed, why)
        };
        put(queue, here.queue_create().map_err(refused)?)
    }

    /// Ends a queue.
    fn pgaspi_queue_delete / gaspi_queue_delete(queue: u8) {
        here()?.queue_delete(queue)
    }

    /// Requests that were posted and not collected.
    fn pgaspi_queue_size / gaspi_queue_size(queue: u8, size: *mut c_uint) {
        let here = here()?;
        check(size)?;
        put(size, here.queue_size(queue)?)
    }

    /// Queues.
    fn pgaspi_queue_num / gaspi_queue_num(count: *mut c_uint) {
        let queues = here()?.queue_num();
        put(count, queues)
    }

    /// Requests that a queue holds.
    fn pgaspi_queue_size_max / gaspi_queue_size_max(size: *mut c_uint) {
        let most = here()?.config().queue_size_max;
        put(size, most)
    }

    /// Most queues.
    fn pgaspi_queue_max / gaspi_queue_max(count: *mut c_uint) {
        here()?;
        put(count, QUEUES_MAX)
    }

    /// Collects what was posted, whatever failed.
    fn pgaspi_queue_purge / gaspi_queue_purge(queue: u8, timeout: c_ulong) {
        here()?.queue_purge(queue, Timeout::from_millis(timeout))
    }

    /// Waits for what was posted.
    fn pgaspi_wait / gaspi_wait(queue: u8, timeout: c_ulong) {
        here()?.wait(queue, Timeout::from_millis(timeout))
    }
}

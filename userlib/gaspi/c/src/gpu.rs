//! GPUs: both spellings of the calls, writes from GPU memory, mapped memory, and what kernels get.

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_gaspi::{
    Gaspi, GaspiError, GpuConfig, GpuContext, GpuCopies, GpuWay, Notice, Part, Policy, Timeout,
};

use crate::collective::{DATATYPES, OPERATIONS, of_list};
use crate::ffi::{check, export, put, refuse};
use crate::process::{Here, here};

/// Bits of a policy. Segments are zero in any case.
const INITIALIZED: c_int = 1;
const GPU: c_int = 2;
const GPU_NOTIFIED: c_int = 4;

/// Where a segment goes.
pub(crate) fn policy(here: &Gaspi, policy: c_int) -> Result<Policy, GaspiError> {
    let wanted = match policy & !INITIALIZED {
        0 => return Ok(Policy::Host),
        GPU => Policy::Gpu,
        both if both == GPU | GPU_NOTIFIED => Policy::GpuNotified,
        _ => return Err(refuse(GaspiError::Failed, format!("there is no allocation policy {policy}"))),
    };
    begun(here, "GASPI_MEM_GPU").map(|()| wanted)
}

/// What uses GPUs needs them to have been found.
fn begun(here: &Gaspi, what: &str) -> Result<(), GaspiError> {
    let refused = |error| refuse(error, format!("{what}: call gaspi_gpu_init (or gaspi_init_GPUs) first"));
    here.gpu_ids().map(drop).map_err(refused)
}

/// The process in a call that needs them.
fn with_gpus(call: &str) -> Result<Here, GaspiError> {
    let here = here()?;
    begun(&here, call)?;
    Ok(here)
}

/// Has standard error say why a segment was not made in GPU memory, where that is known.
pub(crate) fn told(policy: Policy) -> impl Fn(GaspiError) -> GaspiError {
    move |error| if policy == Policy::Host { error } else { failed(error) }
}

/// Has standard error say what failed on GPUs, or between their processes.
fn failed(error: GaspiError) -> GaspiError {
    match error.cause().filter(|_| error == GaspiError::Failed) {
        Some(cause) => refuse(error, cause),
        None => error,
    }
}

/// `gaspi_gpu_config_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CConfig {
    way: c_uint,
    copies: c_uint,
    standby_max: c_ulong,
    engine_max: c_ulong,
    stores_max: c_ulong,
    piece: c_ulong,
    staged_min: c_ulong,
    staged_piece: c_ulong,
}

const WAYS: [GpuWay; 3] = [GpuWay::Auto, GpuWay::Card, GpuWay::Direct];
const COPIES: [GpuCopies; 4] = [GpuCopies::BySize, GpuCopies::Stores, GpuCopies::Engine, GpuCopies::Hybrid];

impl CConfig {
    fn of(config: &GpuConfig) -> CConfig {
        CConfig {
            way: WAYS.iter().position(|way| *way == config.way).unwrap_or_default() as c_uint,
            copies: COPIES.iter().position(|copies| *copies == config.copies).unwrap_or_default() as c_uint,
            standby_max: config.standby_max,
            stores_max: config.stores_max,
            engine_max: config.engine_max,
            piece: config.piece,
            staged_min: config.staged_min,
            staged_piece: config.staged_piece,
        }
    }

    fn config(&self) -> Result<GpuConfig, GaspiError> {
        Ok(GpuConfig {
            way: one_of(&WAYS, "way", self.way)?,
            copies: one_of(&COPIES, "copies", self.copies)?,
            standby_max: self.standby_max,
            stores_max: self.stores_max,
            engine_max: self.engine_max,
            piece: self.piece,
            staged_min: self.staged_min,
            staged_piece: self.staged_piece,
        })
    }
}

/// A field that is a number of a list.
fn one_of<T: Copy>(all: &[T], name: &str, number: c_uint) -> Result<T, GaspiError> {
    let last = all.len() - 1;
    let refused =
        || refuse(GaspiError::Config, format!("gaspi_gpu_config_t: {name} {number}: use 0 to {last}"));
    all.get(number as usize).copied().ok_or_else(refused)
}

/// What the next `gaspi_gpu_init` takes, and what kernels have of this process.
struct State {
    config: Option<GpuConfig>,
    context: Option<Arc<GpuContext>>,
}

static STATE: Mutex<State> = Mutex::new(State { config: None, context: None });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends what kernels have, before the process ends.
pub(crate) fn end() {
    let context = state().context.take();
    drop(context);
}

fn init() -> Result<(), GaspiError> {
    let here = here()?;
    let config = state().config.unwrap_or_else(|| GpuConfig::tuned(&here));
    match here.gpu_init(config) {
        // Programs may call it again, and once by each name.
        Err(GaspiError::Initialized) => Ok(()),
        Err(GaspiError::Config) => {
            let why =
                "gaspi_gpu_config_t: use 1 to 2^30 for piece and staged_piece, 2^20 at most for standby_max";
            Err(refuse(GaspiError::Config, why))
        }
        other => other,
    }
}

fn count(call: &str, place: *mut c_int) -> Result<(), GaspiError> {
    here()?;
    check(place)?;
    let here = with_gpus(call)?;
    put(place, here.gpu_ids()?.len() as c_int)
}

fn ids(call: &str, place: *mut c_int) -> Result<(), GaspiError> {
    here()?;
    check(place)?;
    let ids = with_gpus(call)?.gpu_ids()?;
    ids.into_iter().enumerate().try_for_each(|(at, id)| put(place.wrapping_add(at), id as c_int))
}

/// The process, if it has begun to use GPUs and has the group.
fn of_group(call: &str, group: u8) -> Result<Here, GaspiError> {
    let here = with_gpus(call)?;
    here.group_ranks(group)?;
    Ok(here)
}

export! {
    /// Finds this process's GPU.
    fn pgaspi_init_GPUs / gaspi_init_GPUs() {
        init()
    }

    /// The same.
    fn pgaspi_gpu_init / gaspi_gpu_init() {
        init()
    }

    /// GPUs for segments.
    fn pgaspi_number_of_GPUs / gaspi_number_of_GPUs(number: *mut c_int) {
        count("gaspi_number_of_GPUs", number)
    }

    /// The same.
    fn pgaspi_gpu_number / gaspi_gpu_number(number: *mut c_uint) {
        count("gaspi_gpu_number", number.cast())
    }

    /// Their numbers.
    fn pgaspi_GPU_ids / gaspi_GPU_ids(numbers: *mut c_int) {
        ids("gaspi_GPU_ids", numbers)
    }

    /// The same.
    fn pgaspi_gpu_ids / gaspi_gpu_ids(numbers: *mut c_int) {
        ids("gaspi_gpu_ids", numbers)
    }

    /// Posts a write, from GPU memory in pieces where that is quicker.
    fn pgaspi_gpu_write / gaspi_gpu_write(
        local: u8, local_offset: c_ulong, rank: u16, remote: u8, remote_offset: c_ulong, bytes: c_ulong,
        queue: u8, timeout: c_ulong
    ) {
        let part = Part { local, local_offset, remote, remote_offset, bytes };
        here()?.gpu_write(&part, rank, queue, Timeout::from_millis(timeout))
    }

    /// The same and a notification.
    fn pgaspi_gpu_write_notify / gaspi_gpu_write_notify(
        local: u8, local_offset: c_ulong, rank: u16, remote: u8, remote_offset: c_ulong, bytes: c_ulong,
        id: c_uint, value: c_uint, queue: u8, timeout: c_ulong
    ) {
        let part = Part { local, local_offset, remote, remote_offset, bytes };
        let notice = Notice { segment: remote, id, value };
        here()?.gpu_write_notify(&part, &notice, rank, queue, Timeout::from_millis(timeout))
    }

    /// Makes a segment of memory that the program has on its GPU.
    fn pgaspi_map_seg / gaspi_map_seg(id: u8, pointer: *mut c_void, size: c_ulong) {
        // SAFETY: the interface's contract: the memory stays until the segment is deleted.
        unsafe { with_gpus("gaspi_map_seg")?.map_seg(id, pointer.cast(), size) }
    }

    /// The same, with all members of a group.
    fn pgaspi_map_create / gaspi_map_create(
        id: u8, pointer: *mut c_void, size: c_ulong, group: u8, timeout: c_ulong
    ) {
        // SAFETY: as above.
        unsafe {
            with_gpus("gaspi_map_create")?.map_create(id, pointer.cast(), size, group, Timeout::from_millis(timeout))
        }
    }

    /// What the next start of GPUs takes.
    fn pgaspi_gpu_config_get / gaspi_gpu_config_get(config: *mut CConfig) {
        put(config, CConfig::of(&state().config.unwrap_or_default()))
    }

    /// Sets that.
    fn pgaspi_gpu_config_set / gaspi_gpu_config_set(config: CConfig) {
        let config = config.config()?;
        if here().is_ok_and(|here| here.gpu_ids().is_ok()) {
            return Err(GaspiError::Initialized);
        }
        state().config = Some(config);
        Ok(())
    }

    /// What kernels need; collective. It stays until the process ends.
    fn pgaspi_gpu_context / gaspi_gpu_context(queues: c_uint, context: *mut *mut c_void, timeout: c_ulong) {
        let here = here()?;
        check(context)?;
        begun(&here, "gaspi_gpu_context")?;
        let made = here.gpu_context(queues, Timeout::from_millis(timeout))?;
        put(context, made.address() as *mut c_void)?;
        state().context = Some(Arc::new(made));
        Ok(())
    }

    /// Whether all went well in kernels.
    fn pgaspi_gpu_context_check / gaspi_gpu_context_check() {
        here()?;
        let context = state().context.clone().ok_or(GaspiError::Null)?;
        context.check().map_err(|error| refuse(GaspiError::Failed, error))
    }

    /// Combines vectors in GPU memory.
    fn pgaspi_gpu_allreduce / gaspi_gpu_allreduce(
        send: *mut c_void, receive: *mut c_void, number: c_ulong, operation: c_uint, datatype: c_uint, group: u8,
        timeout: c_ulong
    ) {
        let call = "gaspi_gpu_allreduce";
        let here = of_group(call, group)?;
        check(send)?;
        check(receive)?;
        let operation = of_list(call, &OPERATIONS, "operation", operation)?;
        let datatype = of_list(call, &DATATYPES, "datatype", datatype)?;
        let (count, timeout) = (number as usize, Timeout::from_millis(timeout));
        // SAFETY: the interface's contract: so many elements are at both.
        unsafe { here.gpu_allreduce(group, send.cast(), receive.cast(), count, operation, datatype, timeout) }.map_err(failed)
    }

    /// The same, at one rank.
    fn pgaspi_gpu_reduce / gaspi_gpu_reduce(
        send: *mut c_void, receive: *mut c_void, number: c_ulong, operation: c_uint, datatype: c_uint, root: u16, group: u8,
        timeout: c_ulong
    ) {
        let call = "gaspi_gpu_reduce";
        let here = of_group(call, group)?;
        check(send)?;
        let operation = of_list(call, &OPERATIONS, "operation", operation)?;
        let datatype = of_list(call, &DATATYPES, "datatype", datatype)?;
        let (count, timeout) = (number as usize, Timeout::from_millis(timeout));
        // SAFETY: as above; at `receive` of the root.
        unsafe { here.gpu_reduce(group, root, send.cast(), receive.cast(), count, operation, datatype, timeout) }.map_err(failed)
    }

    /// One rank's vector at all.
    fn pgaspi_gpu_broadcast / gaspi_gpu_broadcast(
        buffer: *mut c_void, number: c_ulong, datatype: c_uint, root: u16, group: u8, timeout: c_ulong
    ) {
        let call = "gaspi_gpu_broadcast";
        let here = of_group(call, group)?;
        check(buffer)?;
        let datatype = of_list(call, &DATATYPES, "datatype", datatype)?;
        let (count, timeout) = (number as usize, Timeout::from_millis(timeout));
        // SAFETY: as above.
        unsafe { here.gpu_broadcast(group, root, buffer.cast(), count, datatype, timeout) }.map_err(failed)
    }

    /// All members' vectors at all.
    fn pgaspi_gpu_allgather / gaspi_gpu_allgather(
        send: *mut c_void, receive: *mut c_void, number: c_ulong, datatype: c_uint, group: u8, timeout: c_ulong
    ) {
        let call = "gaspi_gpu_allgather";
        let here = of_group(call, group)?;
        check(send)?;
        check(receive)?;
        let datatype = of_list(call, &DATATYPES, "datatype", datatype)?;
        let (count, timeout) = (number as usize, Timeout::from_millis(timeout));
        // SAFETY: as above, with so many for each member at `receive`.
        unsafe { here.gpu_allgather(group, send.cast(), receive.cast(), count, datatype, timeout) }.map_err(failed)
    }
}

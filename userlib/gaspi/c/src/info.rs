//! Limits, time, texts and statistics.

use std::ffi::{CStr, CString, c_char, c_float, c_int, c_uint, c_ulong};
use std::sync::OnceLock;
use std::time::Duration;

use ggas_clock::Clock;
use ggas_gaspi::{Counter, GaspiError};

use crate::ffi::{check, export, put, refuse};
use crate::print::ggas_gaspi_print;
use crate::process::{self, here};

/// How long the counter is watched to find out its frequency.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Bytes of a notification: a word.
const NOTIFICATION: c_ulong = 8;

/// Text of a code.
fn text(code: c_int) -> &'static CStr {
    match code {
        -1 => c"error: a transfer or the process at its other end failed (the state vector says whose), or a call or an argument is none that is possible here (standard error says which)",
        0 => c"success",
        1 => c"the time is over: call again to go on; calls of gaspi_gpu_* may begin anew, and GASPI_TEST may be too short for them",
        2 => c"too many files are open (standard error says how many there may be)",
        3 => c"the environment names no job: start the program with gaspi_run or ggas run",
        4 => c"the port for control cannot be used",
        5 => c"a field of a configuration is out of range, or is not the same in all processes (standard error says which)",
        6 => c"not initialized: call gaspi_proc_init",
        7 => c"initialized already",
        8 => c"a pointer is null, or there was never such a segment",
        9 => c"the segment has no size, or is not there any more",
        10 => c"the segment id is out of range or in use",
        11 => c"there is no such group, or it is not committed, or this rank is not in it",
        12 => c"there is no such rank, or it is in the group already, or is this process, which cannot kill itself",
        13 => c"there is no such queue",
        14 => c"the local offset is outside of the segment",
        15 => c"the remote offset is outside of the segment",
        16 => c"the size is more than the segment or a transfer has",
        17 => c"the value of a notification is 0",
        18 => c"the notification id is out of range",
        19 => c"the number of elements is out of range, or the members of the group gave unlike ones, or unlike operations or types",
        20 => c"the size is more than a reduction may have, or a vector does not begin at a multiple of its elements' size",
        21 => c"there are too many segments",
        22 => c"there are too many groups",
        23 => c"the queue is full: call gaspi_wait",
        24 => c"the offset is not aligned to 8 bytes",
        25 => c"another collective is unfinished on this group",
        // Before the beginning nothing else can have failed.
        26 if !process::has_begun() => c"the device failed (standard error says why)",
        26 => c"the device failed (standard error says why), or a member of the group is dead (the state vector says which)",
        27 => c"the other processes were not reached (standard error says which, and why)",
        28 => c"there is not enough memory",
        _ => c"unknown code",
    }
}

/// The processor's counter.
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return Clock::REAL.since(Clock::REAL.origin()).as_nanos() as u64;
}

/// A counter that a call names.
fn counter(call: &str, number: c_uint) -> Result<Counter, GaspiError> {
    let last = Counter::ALL.len() - 1;
    let refused = || refuse(GaspiError::Argument, format!("{call}: counter {number}: use 0 to {last}"));
    Counter::ALL.get(number as usize).copied().ok_or_else(refused)
}

export! {
    /// Least bytes of a transfer.
    fn pgaspi_transfer_size_min / gaspi_transfer_size_min(size: *mut c_ulong) {
        here()?;
        put(size, 0)
    }

    /// Most bytes of a transfer.
    fn pgaspi_transfer_size_max / gaspi_transfer_size_max(size: *mut c_ulong) {
        let most = here()?.config().transfer_size_max;
        put(size, most)
    }

    /// Notifications of a segment.
    fn pgaspi_notification_num / gaspi_notification_num(count: *mut c_uint) {
        let most = here()?.config().notification_num;
        put(count, most)
    }

    /// Most elements of a list.
    fn pgaspi_rw_list_elem_max / gaspi_rw_list_elem_max(count: *mut c_uint) {
        let most = here()?.config().rw_list_elem_max;
        put(count, most)
    }

    /// Least bytes of a passive message.
    fn pgaspi_passive_transfer_size_min / gaspi_passive_transfer_size_min(size: *mut c_ulong) {
        here()?;
        put(size, 1)
    }

    /// Most bytes of a passive message.
    fn pgaspi_passive_transfer_size_max / gaspi_passive_transfer_size_max(size: *mut c_ulong) {
        let most = here()?.config().passive_transfer_size_max;
        put(size, most)
    }

    /// Milliseconds since the first call; at any time.
    fn pgaspi_time_get / gaspi_time_get(time: *mut c_float) {
        put(time, (Clock::REAL.since(Clock::REAL.origin()).as_secs_f64() * 1e3) as c_float)
    }

    /// The processor's counter; at any time.
    fn pgaspi_time_ticks / gaspi_time_ticks(count: *mut c_ulong) {
        put(count, ticks())
    }

    /// How often that counts in a microsecond; at any time.
    fn pgaspi_cpu_frequency / gaspi_cpu_frequency(mhz: *mut c_float) {
        static MHZ: OnceLock<c_float> = OnceLock::new();
        check(mhz)?;
        let frequency = MHZ.get_or_init(|| {
            let (began, first) = (Clock::REAL.now(), ticks());
            Clock::REAL.sleep(CALIBRATION);
            let (last, time) = (ticks(), Clock::REAL.since(began));
            (last.wrapping_sub(first) as f64 / (time.as_secs_f64() * 1e6)) as c_float
        });
        put(mhz, *frequency)
    }

    /// A copy of a code's text, which the caller frees.
    fn pgaspi_print_error / gaspi_print_error(code: c_int, message: *mut *mut c_char) {
        check(message)?;
        // SAFETY: copies a string that ends with a zero.
        let copy = unsafe { libc::strdup(text(code).as_ptr()) };
        if copy.is_null() { Err(GaspiError::Memory) } else { put(message, copy) }
    }

    /// 0 stops counting.
    fn pgaspi_statistic_verbosity_level / gaspi_statistic_verbosity_level(level: c_uint) {
        here()?.statistics().set_verbosity(level);
        Ok(())
    }

    /// Counters.
    fn pgaspi_statistic_counter_max / gaspi_statistic_counter_max(count: *mut c_uint) {
        put(count, Counter::ALL.len() as c_uint)
    }

    /// What a counter is.
    fn pgaspi_statistic_counter_info / gaspi_statistic_counter_info(
        number: c_uint, argument: *mut c_uint, name: *mut *mut c_char, description: *mut *mut c_char,
        level: *mut c_uint
    ) {
        let (own_name, what) = counter("gaspi_statistic_counter_info", number)?.texts();
        put(argument, 0)?;
        put(name, own_name.as_ptr().cast_mut().cast())?;
        put(description, what.as_ptr().cast_mut().cast())?;
        put(level, 1)
    }

    /// Its value.
    fn pgaspi_statistic_counter_get / gaspi_statistic_counter_get(
        number: c_uint, _argument: c_uint, value: *mut c_ulong
    ) {
        let counter = counter("gaspi_statistic_counter_get", number)?;
        let count = here()?.statistics().get(counter);
        put(value, count)
    }

    /// The same as a number with a fraction.
    fn pgaspi_statistic_counter_get_f / gaspi_statistic_counter_get_f(
        number: c_uint, _argument: c_uint, value: *mut c_float
    ) {
        let counter = counter("gaspi_statistic_counter_get_f", number)?;
        let count = here()?.statistics().get(counter);
        put(value, count as c_float)
    }

    /// Prints them all, as `gaspi_printf` does.
    fn pgaspi_statistic_print_counters / gaspi_statistic_print_counters() {
        let here = here()?;
        for counter in Counter::ALL {
            let name = counter.texts().0.trim_end_matches('\0');
            let line = CString::new(format!("{name}: {}\n", here.statistics().get(*counter)));
            line.into_iter().for_each(|line| ggas_gaspi_print(0, line.as_ptr()));
        }
        Ok(())
    }

    /// Begins at 0 again.
    fn pgaspi_statistic_counter_reset / gaspi_statistic_counter_reset(number: c_uint) {
        let counter = counter("gaspi_statistic_counter_reset", number)?;
        here()?.statistics().reset(counter);
        Ok(())
    }
}

/// Bytes of the notifications of a segment, which lie beside it; none before the beginning.
#[unsafe(no_mangle)]
pub extern "C" fn pgaspi_notifications_space_size() -> c_ulong {
    here().map_or(0, |here| c_ulong::from(here.config().notification_num) * NOTIFICATION)
}

/// The same.
#[unsafe(no_mangle)]
pub extern "C" fn gaspi_notifications_space_size() -> c_ulong {
    pgaspi_notifications_space_size()
}

/// The text of a code, which stays.
#[unsafe(no_mangle)]
pub extern "C" fn pgaspi_error_str(code: c_int) -> *mut c_char {
    text(code).as_ptr().cast_mut()
}

/// The text of a code, which stays.
#[unsafe(no_mangle)]
pub extern "C" fn gaspi_error_str(code: c_int) -> *mut c_char {
    pgaspi_error_str(code)
}

/// A hint to the processor.
#[unsafe(no_mangle)]
pub extern "C" fn gaspi_delay() {
    Clock::REAL.spin();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_beginning_no_text_speaks_of_the_state_vector() {
        assert_eq!(text(26), c"the device failed (standard error says why)");
    }

    #[test]
    fn who_ran_out_of_time_is_told_which_calls_do_not_go_on() {
        let text = text(1).to_str().unwrap();
        assert!(text.contains("gaspi_gpu_* may begin anew"), "{text}");
    }
}

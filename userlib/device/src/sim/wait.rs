//! The driver's bounded waits for the card.

use std::time::{Duration, Instant};

use extoll_sim::Nic;

use crate::DeviceError;

/// Waits until `done`, helping the model meanwhile: spins, yields, then naps.
pub(super) fn wait_until(
    nic: &Nic,
    timeout: Duration,
    what: &'static str,
    done: impl Fn() -> bool,
) -> Result<(), DeviceError> {
    let started = Instant::now();
    for round in 0u32.. {
        if done() {
            return Ok(());
        }
        nic.progress();
        match round {
            0..64 => std::hint::spin_loop(),
            64..320 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
        let waited = started.elapsed();
        if waited > timeout && !done() {
            return Err(DeviceError::Timeout { what, node: nic.node(), waited });
        }
    }
    Ok(())
}

//! The driver's bounded waits for the card.

use std::time::Duration;

use extoll_sim::Nic;
use ggas_clock::{Backoff, Ladder};

use crate::DeviceError;

/// Waits until `done`, helping the model meanwhile.
pub(super) fn wait_until(
    nic: &Nic,
    timeout: Duration,
    what: &'static str,
    done: impl Fn() -> bool,
) -> Result<(), DeviceError> {
    let mut backoff = Backoff::on(Ladder::NEIGHBOUR, nic.clock(), timeout);
    while !done() {
        nic.progress();
        match backoff.pause() {
            Err(waited) if !done() => return Err(DeviceError::Timeout { what, node: nic.node(), waited }),
            _ => {}
        }
    }
    Ok(())
}

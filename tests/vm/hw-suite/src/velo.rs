//! Messages of a mailbox to itself.

use ggas_rma::Node;
use ggas_velo::VeloPort;

use crate::{Outcome, SOON, check, patient_velo, pattern};

pub fn alone(node: &Node) -> Outcome {
    let port = VeloPort::open(node.device(), patient_velo())?;
    let here = port.connect(port.address());
    for (i, len) in [0, 1, 8, 56, 57, 119, 120].into_iter().cycle().take(3000).enumerate() {
        let bytes = pattern(len, i as u8);
        here.send(&bytes, i as u8)?;
        let message = port.wait(SOON)?;
        let right =
            message.bytes() == bytes && message.tag() == i as u8 && message.source() == port.address();
        check(right && !message.is_damaged(), format!("{i}: {message:?}"))?;
    }
    port.close()?;
    Ok(())
}

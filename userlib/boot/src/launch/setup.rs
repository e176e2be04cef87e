//! The launcher as the host of the job's start.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::running::Shared;
use super::{LaunchError, Plan};
use crate::channel::Channel;
use crate::hub::{Guest, Hub};
use crate::quiet;

/// The exit of a process may be seen a little after the end of its connection.
const PATIENCE: Duration = Duration::from_millis(250);

/// Sets the job up in a thread, which ends with that, or when `stop` hangs up. A failure is noted in `shared`,
/// followed by a kick.
pub(super) fn host(
    plan: &Plan,
    channels: Vec<Channel>,
    shared: &Arc<Shared>,
    guardian: OwnedFd,
    stop: OwnedFd,
    kick: OwnedFd,
) -> Result<JoinHandle<()>, LaunchError> {
    let to_ask = shared.clone();
    let fate = move |rank| match to_ask.fate(rank, PATIENCE) {
        Some(exit) => format!("{exit} before all had joined"),
        None => {
            "closed its job socket before all had joined (does a program in between close inherited file \
                 descriptors?)"
                .into()
        }
    };
    let hub = Hub {
        shape: plan.shape,
        name: format!("run-{}", std::process::id()),
        timeout: plan.join_timeout,
        guardian: Some(guardian),
        fate: Box::new(fate),
    };
    let guests = (0..)
        .zip(channels)
        .map(|(rank, channel)| Guest { channel, started_as: Some(rank), until: None })
        .collect();
    let shared = shared.clone();
    quiet::spawn("ggas-host", move || {
        if let Err(refusal) = hub.run(None, guests, Some(stop.as_fd())) {
            shared.state().refusal = Some(refusal);
            // A full pipe kicks as well.
            let _ = nix::unistd::write(&kick, &[0]);
        }
    })
    .map_err(LaunchError::system("start a thread"))
}

//! Settings from environment variables. Read once, when the first port is opened.

use std::time::Duration;

/// How long a post waits for room, in seconds.
const POST_TIMEOUT: (&str, f64) = ("EXTOLL_POST_TIMEOUT", 5.0);
/// How long a blocking call waits for a notification, in seconds; 0: as long as it takes.
const WAIT_TIMEOUT: (&str, f64) = ("EXTOLL_WAIT_TIMEOUT", 300.0);
/// "system" (RLIMIT_MEMLOCK) or "unlimited": how much memory the regions on the model may lock.
const LOCKED_MEMORY: &str = "EXTOLL_LOCKED_MEMORY";
/// 64 or 128: bytes of a slot of VELO mailboxes.
const VELO_SLOTS: &str = "EXTOLL_VELO_SLOTS";

/// Longer than any program runs.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86400);

/// Bounds of waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) post: Duration,
    pub(crate) wait: Duration,
}

pub(crate) fn locked_memory() -> Result<ggas::LockedMemory, String> {
    match std::env::var(LOCKED_MEMORY).as_deref() {
        Err(_) | Ok("" | "system") => Ok(ggas::LockedMemory::System),
        Ok("unlimited") => Ok(ggas::LockedMemory::Unlimited),
        Ok(other) => Err(format!("{LOCKED_MEMORY}={other}: use system or unlimited")),
    }
}

pub(crate) fn mailbox_slots() -> Result<ggas::velo::MailboxSlots, String> {
    use ggas::velo::MailboxSlots::{B64, B128};
    match std::env::var(VELO_SLOTS).as_deref() {
        Err(_) | Ok("" | "128") => Ok(B128),
        Ok("64") => Ok(B64),
        Ok(other) => Err(format!("{VELO_SLOTS}={other}: use 64 or 128")),
    }
}

pub(crate) fn timeouts() -> Result<Timeouts, String> {
    let wait = seconds(WAIT_TIMEOUT)?;
    Ok(Timeouts { post: seconds(POST_TIMEOUT)?, wait: if wait.is_zero() { FOREVER } else { wait } })
}

fn seconds((name, default): (&str, f64)) -> Result<Duration, String> {
    let value = match std::env::var(name) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|_| format!("{name}={text}: give seconds"))?,
        _ => default,
    };
    Duration::try_from_secs_f64(value)
        .map(|time| time.min(FOREVER))
        .map_err(|error| format!("{name}={value}: {error}"))
}

//! Members of a standing network that put, get and notify while others join, leave, stop and die: every byte right or an
//! error, never a hang.
//!
//! The test is the driver (`driver.rs`): it starts this program again (`stage.rs`) for each member (`member.rs`), stops and
//! kills them at random moments, and knows who lives. What members must know of each other stands on a board that all map
//! (`board.rs`). A member sends bursts of puts and notifications (`sending.rs`) that follow from the seed and from who sends
//! to whom (`burst.rs`), so that who receives one checks every byte, every notification and their order
//! (`receiving.rs`). What moments seldom bring about is played for itself (`later.rs`).
//!
//! `GGAS_CHAOS=10000` has so many rounds instead of 400, `GGAS_CHAOS_SEED` the same choices again; the moments differ each
//! time. Links of every third seed lose packets.

mod board;
mod burst;
mod driver;
mod later;
mod member;
mod receiving;
mod sending;
mod stage;

use std::time::Duration;

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
const SOON: Duration = Duration::from_secs(60);
/// Rounds of a test run: about 8 s on two idle cores.
const ROUNDS: u64 = 400;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn members_come_go_stop_and_die_amid_traffic() {
    if stage::plays(|_, board, me| member::live(board, me)) {
        return;
    }
    let rounds = setting("GGAS_CHAOS").unwrap_or(ROUNDS);
    let seed = setting("GGAS_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    driver::run("members_come_go_stop_and_die_amid_traffic", rounds, seed);
}

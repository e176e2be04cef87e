//! A process that, beside its part in the suite, writes anything anywhere into the memory that it shares with others.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::trouble::Trouble;

/// Words behind the beginning of a memory that are likelier to be hit: what is in use lies there.
const USED: usize = 8192;

/// Starts it.
pub fn begin(seed: u64) -> Result<(), Trouble> {
    let shared = shared();
    if shared.is_empty() {
        return Err(Trouble::Wrong("no shared memory is found".into()));
    }
    std::thread::spawn(move || scribble(&shared, fastrand::Rng::with_seed(seed)));
    Ok(())
}

/// Where shared memory is mapped that this process may write, and its words.
fn shared() -> Vec<(usize, usize)> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let area = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let ours = rest.starts_with("rw-s") && rest.contains("/memfd:");
        let (from, to) = range.split_once('-').filter(|_| ours)?;
        let (from, to) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        // An arena is mostly holes, which stay holes.
        Some((from, (to - from).min(64 << 20) / 8))
    };
    maps.lines().filter_map(area).collect()
}

fn scribble(shared: &[(usize, usize)], mut random: fastrand::Rng) {
    loop {
        for _ in 0..random.usize(1..200) {
            let (start, words) = shared[random.usize(..shared.len())];
            let within = if random.bool() { words.min(USED) } else { words };
            let at = start + 8 * random.usize(..within);
            // SAFETY: a word of a mapping that lasts as long as the job; a vandal cares for nothing else.
            let word = unsafe { AtomicU64::from_ptr(at as *mut u64) };
            match random.u8(..4) {
                0 => word.store(random.u64(..), Ordering::SeqCst),
                1 => word
                    .store([0, 1, u64::MAX, 1 << 31, 1 << 32, 1 << 63][random.usize(..6)], Ordering::SeqCst),
                2 => _ = word.fetch_add(random.u64(..3), Ordering::SeqCst),
                _ => _ = word.fetch_xor(1 << random.u32(..64), Ordering::SeqCst),
            }
        }
        std::thread::sleep(Duration::from_micros(random.u64(..300)));
    }
}

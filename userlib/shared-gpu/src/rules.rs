//! The algorithm where no table says one: what was quickest on an H200, with MPS and without (`benches/results/one-gpu.md`), and
//! on the executor. Between two measured sizes the lines through them say where two ways cross.

use crate::{Algorithm, Collective, Copier};

/// How the work of several ranks gets onto their processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The CPU executor.
    Cores,
    /// A GPU runs the work of all ranks at once: with MPS, or with a rank on each GPU.
    AtOnce,
    /// Ranks take turns of a millisecond and more, for which kernels wait, and copies within the GPU.
    Turns,
}

/// On the executor, where a kernel is a call.
const HOST_MAX_CORES: usize = 1 << 20;
/// With MPS: allreduces of 4, 8 and 16 ranks cross GSB at 29, 23 and 12 KiB, reductions of 8 at 27 KiB, broadcasts at 4 KiB, but are
/// within a tenth of it up to here.
const HOST_MAX: usize = 16 << 10;
/// With MPS: allreduces of 24 ranks cross it below 4 KiB.
const HOST_MAX_MANY: usize = 4 << 10;
const RANKS_MANY: usize = 17;
/// In turns: allreduces of 8 ranks through the host lose to GSB with staged copies, which has one kernel, from 190 KiB on.
const STAGED_MIN: usize = 256 << 10;
/// In turns: where 0.5 µs a KiB of staged copies have grown to the turns of GSB. Between 1 and 16 MiB nothing was measured.
const TURNS_MIN: usize = 8 << 20;

/// On several GPUs of a host, with MPS: GPU by GPU a call has three steps, each with a kernel or two copies. Allreduces of 4 + 4 ranks take
/// 58 µs in one step through host memory where three take 135, and 188 at four times the size (`two-gpus/shared-gpu-allreduce-4-4.json`).
const FLAT_HOST_MAX: usize = 64 << 10;
/// By GSB of all of them they take 59, 81 and 697 µs at 256 KiB, 1 and 16 MiB, where three steps take 93, 100 and 435: the lines between the
/// last two cross here.
const FLAT_GSB_MAX: usize = 2 << 20;

/// How ranks on several GPUs of a host make a call beside each other, where that is quicker than GPU by GPU.
pub(crate) fn flat(
    sharing: Sharing,
    collective: Collective,
    (ranks, gpus): (usize, usize),
    bytes: usize,
) -> Option<Algorithm> {
    let most = match sharing {
        Sharing::Cores => HOST_MAX_CORES,
        // 24 of them take 283 µs at 64 KiB (`one-gpu/shared-gpu-allreduce-24.json`).
        Sharing::AtOnce if ranks >= RANKS_MANY => HOST_MAX,
        Sharing::AtOnce => FLAT_HOST_MAX,
        // No kernel waits for a turn.
        Sharing::Turns => STAGED_MIN - 1,
    };
    let is_few = sharing == Sharing::AtOnce && ranks < RANKS_MANY && gpus == 2;
    match bytes {
        _ if bytes <= most => Some(Algorithm::Host),
        _ if is_few && collective == Collective::Allreduce && bytes <= FLAT_GSB_MAX => Some(Algorithm::Gsb),
        _ => None,
    }
}

/// That of a call of so many ranks; `is_led`: its result, if at one rank, is at the leader.
pub(crate) fn built_in(
    sharing: Sharing,
    collective: Collective,
    ranks: usize,
    is_led: bool,
    bytes: usize,
) -> Algorithm {
    let host_until = |most| if bytes <= most { Algorithm::Host } else { Algorithm::Gsb };
    match (sharing, collective) {
        (Sharing::Cores, _) => host_until(HOST_MAX_CORES),
        (Sharing::AtOnce, Collective::Allreduce) if ranks >= RANKS_MANY => host_until(HOST_MAX_MANY),
        (Sharing::AtOnce, _) => host_until(HOST_MAX),
        (Sharing::Turns, Collective::Allreduce | Collective::Reduce)
            if is_led && (STAGED_MIN..TURNS_MIN).contains(&bytes) =>
        {
            Algorithm::Static { staged: ranks - 1, by: Copier::Engine }
        }
        (Sharing::Turns, _) => host_until(TURNS_MIN - 1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::Levels;
    use crate::levels::Choosing;

    /// The `which` ("min", "median") of rounds in µs by size and method, of a result of `benches/`.
    fn measured(name: &str, which: &str) -> BTreeMap<usize, BTreeMap<String, f64>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/results");
        let text = std::fs::read_to_string(folder.join(name)).expect("a result");
        let result: Value = serde_json::from_str(&text).expect("JSON");
        let mut all: BTreeMap<usize, BTreeMap<String, f64>> = BTreeMap::new();
        for row in result["rows"].as_array().expect("rows") {
            let method = row["method"].as_str().expect("a method").to_owned();
            let took = row["latency_us"][which].as_f64().expect("a time");
            all.entry(row["bytes"].as_u64().expect("bytes") as usize).or_default().insert(method, took);
        }
        all
    }

    fn method(algorithm: Algorithm, ranks: usize) -> &'static str {
        match algorithm {
            Algorithm::Gsb => "gsb",
            Algorithm::Btb => "btb",
            Algorithm::Dynamic => "dynamic",
            Algorithm::Host => "host",
            Algorithm::Direct => "direct",
            Algorithm::Static { staged: 0, by: Copier::Engine } => "static-direct",
            Algorithm::Static { staged: 0, by: Copier::Stores } => "static-stores",
            Algorithm::Static { staged: 0, by: Copier::Bulk } => "static-bulk",
            Algorithm::Static { staged, .. } if staged == ranks - 1 => "static-staged",
            Algorithm::Static { .. } => "static-half",
        }
    }

    const OURS: [&str; 7] =
        ["gsb", "btb", "dynamic", "host", "static-direct", "static-staged", "static-half"];

    /// The choice takes at most a tenth longer than the quickest of our ways, at each size that was measured.
    fn is_near_the_quickest(sharing: Sharing, collective: Collective, ranks: usize, name: &str) {
        let all = measured(&format!("one-gpu/{name}"), "median");
        assert!(!all.is_empty(), "{name}");
        for (bytes, methods) in all {
            let chosen = method(built_in(sharing, collective, ranks, true, bytes), ranks);
            let quickest = OURS.iter().filter_map(|ours| methods.get(*ours)).fold(f64::MAX, |a, b| a.min(*b));
            let took = methods[chosen];
            assert!(
                took <= 1.1 * quickest,
                "{collective} of {ranks}, {bytes} bytes by {chosen}: {took} and {quickest} µs"
            );
        }
    }

    #[test]
    fn with_mps_the_choice_is_near_the_quickest_that_was_measured() {
        for ranks in [4, 8, 16, 24] {
            let name = format!("shared-gpu-allreduce-{ranks}.json");
            is_near_the_quickest(Sharing::AtOnce, Collective::Allreduce, ranks, &name);
        }
        is_near_the_quickest(Sharing::AtOnce, Collective::Reduce, 8, "shared-gpu-reduce-8.json");
        is_near_the_quickest(Sharing::AtOnce, Collective::Broadcast, 8, "shared-gpu-broadcast-8.json");
    }

    #[test]
    fn without_mps_the_choice_is_near_the_quickest_that_was_measured() {
        is_near_the_quickest(Sharing::Turns, Collective::Allreduce, 8, "shared-gpu-allreduce-8-turns.json");
        is_near_the_quickest(Sharing::Turns, Collective::Broadcast, 8, "shared-gpu-broadcast-8-turns.json");
    }

    /// What 4 + 4 ranks take for an allreduce, with what each level takes by itself.
    fn of_two_gpus(bytes: usize) -> String {
        let choosing = Choosing {
            flat: None,
            steps: [None; 2],
            has_steps: false,
            measured: Vec::new(),
            sharing: Some(Sharing::AtOnce),
            ranks: 8,
            gpus: 2,
        };
        let levels = choosing.levels(Collective::Allreduce, bytes);
        let inside = |collective| built_in(Sharing::AtOnce, collective, 4, true, bytes);
        let between = || built_in(Sharing::AtOnce, Collective::Allreduce, 2, true, bytes);
        match levels {
            Levels::Flat(Some(algorithm)) => format!("flat-{}", method(algorithm, 8)),
            Levels::Flat(None) => panic!("{bytes} bytes: two GPUs are not shared by all"),
            Levels::Steps { inside: forced, between: theirs } => {
                assert_eq!(inside(Collective::Reduce), inside(Collective::Broadcast), "{bytes} bytes");
                let inside = forced.unwrap_or_else(|| inside(Collective::Reduce));
                let between = theirs.unwrap_or_else(between);
                format!("{}-{}", method(inside, 4), method(between, 2))
            }
        }
    }

    #[test]
    fn on_two_gpus_the_choice_is_near_the_quickest_that_was_measured() {
        // Three turns each: of 16 MiB by the way that was chosen they took 386 to 602 µs, by that of its two rows whose turns others held up.
        let all = measured("two-gpus/shared-gpu-allreduce-4-4.json", "min");
        assert!(!all.is_empty());
        for (bytes, mut methods) in all {
            methods.retain(|name, _| name != "chosen" && !name.starts_with("Open MPI"));
            let (chosen, quickest) = (of_two_gpus(bytes), methods.values().copied().fold(f64::MAX, f64::min));
            let took = methods[&chosen];
            assert!(took <= 1.1 * quickest, "{bytes} bytes by {chosen}: {took} and {quickest} µs");
        }
        assert_eq!(of_two_gpus(16 << 20), "gsb-gsb");
    }

    #[test]
    fn without_mps_no_call_takes_kernels_where_the_host_is_quicker() {
        let of = |collective, is_led, bytes| built_in(Sharing::Turns, collective, 8, is_led, bytes);
        let staged = Algorithm::Static { staged: 7, by: Copier::Engine };
        assert_eq!(of(Collective::Reduce, true, 1 << 20), staged);
        // Static algorithms reduce to the leader only, and broadcasts have no mechanisms to choose.
        assert_eq!(of(Collective::Reduce, false, 1 << 20), Algorithm::Host);
        assert_eq!(of(Collective::Broadcast, true, 1 << 20), Algorithm::Host);
        let all = [Collective::Allreduce, Collective::Reduce, Collective::Broadcast];
        assert!(
            all.iter().all(|one| of(*one, true, 64 << 20) == Algorithm::Gsb),
            "turns are short beside that"
        );
    }
}

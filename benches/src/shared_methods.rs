//! Methods of `shared-gpu-*`: what their names stand for, and which of them are not worth more rounds.

use std::time::Duration;

use ggas_shared_gpu::{Across, Algorithm, Copier, Copies, Through};

/// A method that takes so much longer than another one in so many rounds will hardly be the quickest.
const LOST: [(usize, f64); 2] = [(1, 2.0), (2, 1.5)];

/// The algorithm that a method's name stands for, with so many ranks; `Some(None)`: as the library chooses.
pub(crate) fn algorithm(method: &str, ranks: usize) -> Option<Option<Algorithm>> {
    let others = ranks.saturating_sub(1);
    Some(Some(match method {
        "chosen" => return Some(None),
        "host" => Algorithm::Host,
        "gsb" => Algorithm::Gsb,
        "btb" => Algorithm::Btb,
        "direct" => Algorithm::Direct,
        "dynamic" => Algorithm::Dynamic,
        _ => fixed(method.strip_prefix("static-")?, others)?,
    }))
}

/// `direct`, `half`, `staged`, or how many of the copies go through the host; `stores` or `bulk`, or these with `-half` or such a number: who
/// makes the others.
fn fixed(method: &str, others: usize) -> Option<Algorithm> {
    let (by, staged) = match method.split_once('-').unwrap_or((method, "0")) {
        ("stores", staged) => (Copier::Stores, staged),
        ("bulk", staged) => (Copier::Bulk, staged),
        _ => (Copier::Engine, method),
    };
    let staged = match staged {
        "direct" => 0,
        "half" => others / 2,
        "staged" => others,
        number => number.parse().ok()?,
    };
    Some(Algorithm::Static { staged, by })
}

/// Of processes on several GPUs: what is forced of all beside each other, inside GPUs and between them by a method's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forced {
    pub(crate) flat: Option<Algorithm>,
    pub(crate) inside: Option<Algorithm>,
    pub(crate) between: Option<Algorithm>,
}

/// Methods of processes on several GPUs of a host: beside each other, of which what has parts for ranks has no tree, and GPU by GPU.
pub(crate) const FLAT: [&str; 3] = ["flat-host", "flat-gsb", "flat-btb"];
pub(crate) const STEPS: [&str; 4] = ["gsb-gsb", "btb-gsb", "btb-btb", "gsb-btb"];

pub(crate) fn forced(method: &str) -> Option<Forced> {
    use Algorithm::{Btb, Gsb, Host};
    let flat = |flat| Some(Forced { flat: Some(flat), ..Forced::default() });
    let steps =
        |inside, between| Some(Forced { inside: Some(inside), between: Some(between), ..Forced::default() });
    match method {
        "chosen" => Some(Forced::default()),
        "flat-host" => flat(Host),
        "flat-gsb" => flat(Gsb),
        "flat-btb" => flat(Btb),
        "gsb-gsb" => steps(Gsb, Gsb),
        "btb-gsb" => steps(Btb, Gsb),
        "btb-btb" => steps(Btb, Btb),
        "gsb-btb" => steps(Gsb, Btb),
        _ => None,
    }
}

/// Methods of processes on several hosts: how their leaders make a call; those of collectives with parts for each rank are the first
/// two.
pub(crate) const ACROSS: [&str; 4] = ["host", "gpu", "host-whole", "gpu-whole"];

pub(crate) fn across(method: &str) -> Option<Across> {
    let (through, whole) = match method {
        "host" => (Through::Host, false),
        "gpu" => (Through::Gpu, false),
        "host-whole" => (Through::Host, true),
        "gpu-whole" => (Through::Gpu, true),
        _ => return None,
    };
    Some(Across { through, whole })
}

/// Through the host + by the engine, and those by kernels, if there are any.
pub(crate) fn text(copies: Copies) -> String {
    let kernels =
        [(copies.stores, "stores"), (copies.bulk, "bulk")].into_iter().filter(|(number, _)| *number > 0);
    let of_kernels: String = kernels.map(|(number, name)| format!("+{number} {name}")).collect();
    format!("{}+{}{of_kernels}", copies.staged, copies.engine)
}

/// Whether a method will hardly be the quickest, by its rounds so far and the quickest one of the methods before.
pub(crate) fn has_lost(best: Option<&f64>, times: &[f64]) -> bool {
    let is_far = |best: &f64, (rounds, far): (usize, f64)| {
        times.len() >= rounds && times.iter().all(|time| *time > far * best)
    };
    best.is_some_and(|best| LOST.into_iter().any(|lost| is_far(best, lost)))
}

/// How long cell `number` of a job may take where each has `each` on average: what those before it have left, too.
pub(crate) fn time_left(each: Duration, number: u32, since_first: Duration) -> Duration {
    (each * (number + 1)).saturating_sub(since_first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_static_ones_say_how_many_copies_are_staged_and_who_makes_the_others() {
        let of = |staged, by| Some(Some(Algorithm::Static { staged, by }));
        use Copier::*;
        for (name, found) in [
            ("static-direct", of(0, Engine)),
            ("static-half", of(3, Engine)),
            ("static-staged", of(7, Engine)),
            ("static-5", of(5, Engine)),
            ("static-stores", of(0, Stores)),
            ("static-stores-half", of(3, Stores)),
            ("static-bulk", of(0, Bulk)),
            ("static-bulk-2", of(2, Bulk)),
            ("chosen", Some(None)),
        ] {
            assert_eq!(algorithm(name, 8), found, "{name}");
        }
        for name in
            ["static-", "static", "static-multicast", "static-stores-", "static-half-stores", "stores"]
        {
            assert_eq!(algorithm(name, 8), None, "{name}");
        }
    }

    #[test]
    fn copies_by_kernels_are_said_where_there_are_any() {
        let copies = Copies { staged: 2, engine: 5, ..Copies::default() };
        assert_eq!(text(copies), "2+5");
        assert_eq!(text(Copies { stores: 1, bulk: 3, ..copies }), "2+5+1 stores+3 bulk");
    }

    #[test]
    fn cells_that_are_quick_leave_their_time_to_slow_ones() {
        let ms = Duration::from_millis;
        assert_eq!(time_left(ms(100), 0, ms(0)), ms(100));
        assert_eq!(time_left(ms(100), 3, ms(30)), ms(370), "three took ten each");
        assert_eq!(time_left(ms(100), 3, ms(500)), ms(0), "all are late by now");
    }

    #[test]
    fn a_method_has_lost_once_a_round_takes_twice_as_long_or_two_clearly_longer_than_another_one() {
        assert!(has_lost(Some(&10.0), &[20.1]));
        assert!(!has_lost(Some(&10.0), &[19.9]));
        assert!(has_lost(Some(&10.0), &[16.0, 15.1]));
        assert!(!has_lost(Some(&10.0), &[16.0]), "one may be late by chance");
        assert!(!has_lost(Some(&10.0), &[16.0, 14.9, 16.0]));
        assert!(!has_lost(None, &[16.0, 16.0]), "the first one");
    }
}

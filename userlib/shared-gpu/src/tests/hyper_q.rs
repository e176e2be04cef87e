//! The static and dynamic algorithms on scripted speeds: every branch of the choice.

use std::future::Future;

use super::*;
use crate::Copies;
use crate::hyper_q::Mix;
use crate::model::{Nanos, Span};
use crate::station::{Lane, Station};
use crate::status::{By, Status};
use crate::{Slots, Waiting, Word};

const MIB: usize = 1 << 20;
/// Longer than all else together.
const FOREVER: u64 = 100_000_000;

/// Times of copies to the host and of direct copies, and when ranks arrive.
#[derive(Clone, Default)]
struct Speeds {
    hs: u64,
    ipc: u64,
    /// Of kernels; 0: as of the engine.
    stores: u64,
    bulk: u64,
    /// Of single ranks, in place of the above.
    hs_of: Vec<(usize, u64)>,
    ipc_of: Vec<(usize, u64)>,
    late: Vec<(usize, u64)>,
}

impl Costs for Speeds {
    fn of(&self, rank: usize, work: &Work) -> Cost {
        let find =
            |list: &[(usize, u64)], time| list.iter().find(|one| one.0 == rank).map_or(time, |one| one.1);
        let time = match work {
            Work::Copy { to, from, .. } if Lane::of(*to, *from) == Lane::Staged => find(&self.hs_of, self.hs),
            Work::Copy { by: Copier::Stores, .. } if self.stores > 0 => self.stores,
            Work::Copy { by: Copier::Bulk, .. } if self.bulk > 0 => self.bulk,
            Work::Copy { .. } => find(&self.ipc_of, self.ipc),
            Work::Reduce { .. } => 50,
        };
        Cost { issue: 5, time, unit: None }
    }

    fn word(&self) -> u64 {
        1
    }

    fn notice(&self) -> u64 {
        1
    }

    fn arrival(&self, rank: usize) -> u64 {
        of(&self.late, rank)
    }
}

struct Ran {
    mix: Mix,
    ends: Vec<Nanos>,
    spans: Vec<Span>,
}

/// An allreduce of `bytes`, whose results must be right, in one chunk, by the text's mechanisms.
fn run(ranks: usize, algorithm: Algorithm, bytes: usize, speeds: Speeds) -> Ran {
    run_of(Collective::Allreduce, ranks, algorithm, bytes, (speeds, Copier::TEXT))
}

/// The same by all mechanisms.
fn run_today(ranks: usize, speeds: Speeds) -> Ran {
    run_of(Collective::Allreduce, ranks, Algorithm::Dynamic, 4096, (speeds, &Copier::ALL))
}

/// The same of another collective.
fn run_of(
    kind: Collective,
    ranks: usize,
    algorithm: Algorithm,
    bytes: usize,
    (speeds, copiers): (Speeds, &'static [Copier]),
) -> Ran {
    let call = Plan { copiers, ..plan(algorithm, kind, ranks, bytes, 0) };
    let inputs = vectors(ranks, longest(&call, ranks) / 8, 3);
    let expected = expected(&call, &inputs, 0).expect("all have one");
    let call = Plan { layout: Layout::new(ranks, ranks * bytes).expect("it fits"), ..call };
    let model = Model::new(ranks, speeds).data(inputs, ranks * bytes);
    let mix = std::cell::Cell::new(Mix::default());
    let ends = model.run(|rank| {
        let (call, mix) = (&call, &mix);
        async move {
            let mut cursor = Cursor::default();
            call.run(rank, &mut cursor).await;
            if rank.rank() == 0 {
                mix.set(cursor.mix);
            }
        }
    });
    let ends = ends.expect("it ends");
    for rank in 0..ranks {
        assert!(doubles(&model.output(rank)) == expected, "rank {rank} of {ranks}");
        assert_eq!(model.ranks()[0].load(crate::Word::Status(rank)), 0, "all are in the first state");
    }
    let mix = mix.get();
    assert_eq!((mix.gather.all(), mix.broadcast.all()), (ranks - 1, ranks - 1));
    Ran { mix, ends, spans: model.spans() }
}

#[test]
fn the_dynamic_algorithm_uses_the_quicker_mechanism_more() {
    let quick_ipc = run(16, Algorithm::Dynamic, 4096, Speeds { hs: 5000, ipc: 300, ..Speeds::default() }).mix;
    assert!(quick_ipc.gather.engine >= 13 && quick_ipc.broadcast.engine >= 12, "{quick_ipc:?}");
    let quick_hs = run(16, Algorithm::Dynamic, 4096, Speeds { hs: 300, ipc: 5000, ..Speeds::default() }).mix;
    assert!(quick_hs.gather.staged >= 13 && quick_hs.broadcast.staged >= 12, "{quick_hs:?}");
    let alike = run(16, Algorithm::Dynamic, 4096, Speeds { hs: 300, ipc: 320, ..Speeds::default() }).mix;
    assert!(alike.gather.staged >= 2 && alike.gather.engine >= 2, "{alike:?}");
    // The host-staged copy is the last one under way, and none has ever completed.
    assert_eq!((quick_ipc.resent, quick_hs.resent, alike.resent), (1, 1, 0));
}

#[test]
fn a_hopeless_host_staged_copy_is_sent_again_and_its_packets_are_discarded() {
    // Rank 1 is the first to arrive: its copy goes through the host, each of its four packets is slow.
    let speeds = Speeds { hs: 500_000, ipc: 300, late: vec![(2, 10), (3, 20)], ..Speeds::default() };
    let ran = run(4, Algorithm::Dynamic, MIB, speeds);
    assert_eq!((ran.mix.resent, ran.mix.broadcast), (1, text(0, 3)), "and the broadcast leaves it out");
    let packets =
        |span: &&Span| span.rank == 1 && matches!(span.work, Work::Copy { to: Place::Staging(_), .. });
    assert_eq!(ran.spans.iter().filter(packets).count(), 1, "three of four are discarded");
}

#[test]
fn a_hopeless_direct_copy_is_sent_again_and_ends_before_the_call_does() {
    let speeds = Speeds {
        hs: 300,
        ipc: 300,
        ipc_of: vec![(2, FOREVER)],
        late: vec![(2, 10), (3, 20)],
        ..Speeds::default()
    };
    let ran = run(3, Algorithm::Dynamic, 4096, speeds.clone());
    assert_eq!(ran.mix, Mix { gather: text(1, 1), broadcast: text(2, 0), resent: 1 });
    assert!(ran.ends[0] > FOREVER && ran.ends[2] > FOREVER, "{:?}", ran.ends);
    assert!(ran.ends[1] < FOREVER / 100, "the others have the result before: {:?}", ran.ends);
    // With a direct copy that completes, the slow one is waited for.
    let patient =
        run(4, Algorithm::Dynamic, 4096, Speeds { hs: 300, ipc: 300, ipc_of: vec![(3, 5000)], ..speeds });
    assert_eq!(patient.mix.resent, 0);
}

#[test]
fn one_rank_beside_the_leader_has_nothing_to_be_compared_with() {
    let ran = run(2, Algorithm::Dynamic, 4096, Speeds { hs: FOREVER, ipc: 300, ..Speeds::default() });
    assert_eq!(ran.mix, Mix { gather: text(1, 0), broadcast: text(1, 0), resent: 0 });
}

#[test]
fn the_static_algorithm_does_as_its_table_says() {
    for (staged, by) in (0..16).flat_map(|staged| Copier::ALL.map(|by| (staged, by))) {
        let speeds = Speeds { hs: 700, ipc: 300, stores: 200, bulk: 900, ..Speeds::default() };
        let ran = run(16, Algorithm::Static { staged, by }, 4096, speeds);
        let copies = Copies::new(15, staged, by);
        assert_eq!(ran.mix, Mix { gather: copies, broadcast: copies, resent: 0 });
        let made =
            |span: &&Span| span.rank > 0 && matches!(span.work, Work::Copy { by: made, .. } if made == by);
        let of_engine = if by == Copier::Engine { 2 * staged } else { 0 };
        assert_eq!(
            ran.spans.iter().filter(made).count(),
            2 * (15 - staged) + of_engine,
            "{staged} and {by:?}"
        );
    }
}

#[test]
fn the_dynamic_algorithm_has_one_copy_of_each_of_todays_mechanisms_and_uses_the_quickest_more() {
    let alike = Speeds { hs: 9000, ipc: 9000, stores: 9000, bulk: 9000, ..Speeds::default() };
    let quick_stores = run_today(16, Speeds { stores: 300, ..alike.clone() }).mix;
    assert!(quick_stores.gather.stores >= 11 && quick_stores.broadcast.stores >= 11, "{quick_stores:?}");
    let quick_bulk = run_today(16, Speeds { bulk: 300, ..alike.clone() }).mix;
    assert!(quick_bulk.gather.bulk >= 11 && quick_bulk.broadcast.bulk >= 11, "{quick_bulk:?}");
    let quick_engine = run_today(16, Speeds { ipc: 300, ..alike.clone() }).mix;
    assert!(quick_engine.gather.engine >= 11, "{quick_engine:?}");
    let mix = run_today(16, alike).mix;
    for copies in [mix.gather, mix.broadcast] {
        let Copies { staged, engine, stores, bulk } = copies;
        assert!([staged, engine, stores, bulk].into_iter().all(|number| number >= 1), "{mix:?}");
    }
    let few = run_today(3, Speeds { hs: 300, ipc: 300, ..Speeds::default() }).mix;
    assert_eq!(few.gather, text(1, 1), "in the text's order, as far as there are ranks");
}

#[test]
fn a_hopeless_copy_by_a_kernel_is_sent_again_and_ends_before_the_call_does() {
    // The third to arrive has the only copy by stores, the last one under way.
    let late = vec![(2, 10), (3, 20)];
    let speeds = Speeds { hs: 300, ipc: 300, stores: FOREVER, bulk: 300, late, ..Speeds::default() };
    let ran = run_today(4, speeds.clone());
    assert_eq!(ran.mix.gather, Copies { stores: 1, ..text(1, 1) });
    assert_eq!((ran.mix.resent, ran.mix.broadcast.stores), (1, 0), "and the broadcast leaves it out");
    assert!(ran.ends[0] > FOREVER && ran.ends[3] > FOREVER, "{:?}", ran.ends);
    assert!(ran.ends[1] < FOREVER / 100, "the others have the result before: {:?}", ran.ends);
    // A slow engine, in whose place a kernel copies: each has a word of its own for what it has done.
    let speeds = Speeds { hs: FOREVER / 4, ipc: FOREVER, stores: 300, ..speeds };
    let again = run_today(3, Speeds { hs: 300, ..speeds.clone() });
    assert_eq!((again.mix.resent, again.mix.broadcast), (1, text(2, 0)), "none but the host's has completed");
    let ran = run_today(5, Speeds { late: vec![(1, 10), (3, 10), (4, 10)], ..speeds });
    assert_eq!((ran.mix.resent, ran.mix.gather.engine), (1, 1), "{:?}", ran.mix);
}

fn text(staged: usize, engine: usize) -> Copies {
    Copies { staged, engine, ..Copies::default() }
}

#[test]
fn results_are_right_at_any_speed() {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..150 {
        let ranks = random.usize(2..=25);
        let mut times = |most: u64| (0..ranks).map(|rank| (rank, random.u64(1..=most))).collect::<Vec<_>>();
        let speeds =
            Speeds { hs_of: times(9000), ipc_of: times(9000), late: times(4000), ..Speeds::default() };
        let by = Copier::ALL[round / 3 % 3];
        let algorithm =
            if round % 3 == 0 { Algorithm::Static { staged: ranks / 2, by } } else { Algorithm::Dynamic };
        let speeds = Speeds { stores: random.u64(1..=9000), bulk: random.u64(1..=9000), ..speeds };
        run_of(Collective::Allreduce, ranks, algorithm, 512, (speeds, &Copier::ALL));
    }
}

#[test]
fn vectors_are_gathered_at_any_speed() {
    let mut random = fastrand::Rng::with_seed(12);
    for round in 0..150 {
        let ranks = random.usize(2..=25);
        let mut times = |most: u64| (0..ranks).map(|rank| (rank, random.u64(1..=most))).collect::<Vec<_>>();
        let speeds =
            Speeds { hs_of: times(9000), ipc_of: times(9000), late: times(4000), ..Speeds::default() };
        let by = Copier::ALL[round / 3 % 3];
        let algorithm =
            if round % 3 == 0 { Algorithm::Static { staged: ranks / 2, by } } else { Algorithm::Dynamic };
        let speeds = Speeds { stores: random.u64(1..=9000), bulk: random.u64(1..=9000), ..speeds };
        run_of(Collective::Allgather, ranks, algorithm, 512, (speeds, &Copier::ALL));
    }
    let slow = Speeds { hs: 500_000, ipc: 300, late: vec![(2, 10), (3, 20)], ..Speeds::default() };
    let ran = run_of(Collective::Allgather, 4, Algorithm::Dynamic, MIB, (slow, Copier::TEXT));
    assert_eq!((ran.mix.resent, ran.mix.broadcast), (1, text(0, 3)), "what was sent again is there, too");
}

#[test]
fn no_other_changes_of_state_are_legal() {
    let legal = |by| {
        let pairs = Status::all().flat_map(|from| Status::all().map(move |to| (from, to)));
        pairs.filter(|(from, to)| from.leads_to(*to, by)).count()
    };
    // Of the owner Init to Rts, three to IpcInitiated, two of the host's. Of the leader four assignments to Init and Rts each, three in place of
    // a host-staged copy, three of such in place of a direct one, four of an engine's and a kernel's for each other, three to IpcComplete, and four back.
    assert_eq!((legal(By::Owner), legal(By::Leader)), (6, 25));
    assert!(!Status::IpcAssigned(Copier::Stores).leads_to(Status::IpcInitiated(Copier::Bulk), By::Owner));
    assert!(!Status::IpcInitiated(Copier::Stores).leads_to(Status::IpcAssigned(Copier::Bulk), By::Leader));
    assert!(
        Status::all()
            .enumerate()
            .all(|(n, one)| Status::all().skip(n + 1).all(|other| one.value() != other.value()))
    );
    let model = Model::new(2, Speeds::default());
    let result = model.run(|rank| async move {
        if rank.rank() == 1 {
            Status::Init.must_change(rank, 1, Status::IpcComplete(Copier::Engine), By::Owner).await;
        }
    });
    assert_eq!(result, Err(Stuck::Fault { rank: 1 }), "a change that no state leads to");
    let model = Model::new(2, Speeds::default());
    let result = model.run(|rank| async move {
        if rank.rank() == 1 {
            rank.store(crate::Word::Status(1), Status::HsComplete.value()).await;
            Status::Init.must_change(rank, 1, Status::Rts, By::Owner).await;
        }
    });
    assert_eq!(result, Err(Stuck::Fault { rank: 1 }), "a state that somebody else has changed");
}

/// Words that a leader changes between two looks of a rank.
struct Changing {
    before: Vec<(Word, u64)>,
    after: Vec<(Word, u64)>,
    /// Looks until then.
    left: std::cell::Cell<u32>,
}

impl Station for Changing {
    fn rank(&self) -> usize {
        1
    }
    fn ranks(&self) -> usize {
        2
    }
    fn load(&self, word: Word) -> u64 {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        let words = if left == 0 { &self.after } else { &self.before };
        words.iter().find(|(of, _)| *of == word).map_or(0, |(_, value)| *value)
    }
    async fn until(&self, mut ready: impl FnMut(&Self) -> Result<(), Waiting>) {
        assert!((0..10).any(|_| ready(self).is_ok()), "it waits in vain");
    }
    async fn store(&self, _: Word, _: u64) {}
    async fn copy_by(&self, _: Copier, _: Place, _: Place, _: usize) {}
    async fn offer(&self) -> bool {
        false
    }
    async fn mark(&self, _: Word, _: u64) {}
    async fn reduce(&self, _: Place, _: Place, _: Slots, _: usize) {}
    async fn exchange(&self, _: Word, _: u64, _: u64) -> bool {
        true
    }
    async fn count(&self, _: Word) -> u64 {
        0
    }
    async fn reduce_on_host(&self, _: usize, _: Slots, _: usize) {}
    fn is_idle(&self, _: Lane) -> bool {
        true
    }
    async fn drain(&self) {}
}

#[test]
fn an_assignment_of_the_broadcast_is_not_taken_for_one_of_the_gather() {
    let call = plan(Algorithm::Static { staged: 0, by: Copier::Bulk }, Collective::Allreduce, 2, 64, 0);
    let step = call.first_step();
    for left in 0..4 {
        let station = Changing {
            before: vec![(Word::Status(1), Status::IpcInitiated(Copier::Bulk).value())],
            after: vec![
                (Word::Status(1), Status::IpcAssigned(Copier::Bulk).value()),
                (Word::Completion, step.stamp(0).value()),
            ],
            left: left.into(),
        };
        let mut future = std::pin::pin!(crate::hyper_q::assignment(&station, &step, true));
        let polled = future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert_eq!(polled, std::task::Poll::Ready(None), "changed after {left} looks");
    }
}

//! The protocols in virtual time: results, and that nothing of them can be left out.

mod hyper_q;
mod learned;

use crate::{Element, Op};

use crate::model::{Cost, Costs, Model, Stuck, Work};
use crate::plan::{Collective, Cursor, Defect, Plan};
use crate::{Algorithm, Copier, Layout, Place};

/// Copies into the shared buffer by these ranks take so long; all else takes a little.
#[derive(Clone, Default)]
struct Script {
    slow: Vec<(usize, u64)>,
    slow_reads: Vec<(usize, u64)>,
    slow_sums: u64,
    late: Vec<(usize, u64)>,
}

fn of(list: &[(usize, u64)], rank: usize) -> u64 {
    list.iter().find(|(of, _)| *of == rank).map_or(0, |(_, time)| *time)
}

impl Costs for Script {
    fn of(&self, rank: usize, work: &Work) -> Cost {
        let more = match work {
            Work::Copy { to: Place::Shared(_) | Place::Staging(_), .. } => of(&self.slow, rank),
            Work::Copy { from: Place::Shared(_) | Place::Staging(_) | Place::Root(_), .. } => {
                of(&self.slow_reads, rank)
            }
            Work::Copy { .. } => 0,
            Work::Reduce { .. } => self.slow_sums,
        };
        Cost { issue: 10, time: 100 + more, unit: None }
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

const BUFFER: usize = 256 * 50;

fn vectors(ranks: usize, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let value = |rank: usize, i: usize| (rank as f64 + 1.0) * 1.1 + i as f64 / 3.0 + seed as f64 * 0.7;
    (0..ranks).map(|rank| (0..count).flat_map(|i| value(rank, i).to_ne_bytes()).collect()).collect()
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|word| f64::from_ne_bytes(word.try_into().expect("eight"))).collect()
}

/// The sum of a tree's or a line's order.
fn sum(vectors: &[Vec<u8>], algorithm: Algorithm, root: usize) -> Vec<f64> {
    let ranks = vectors.len();
    // Only a tree adds in another order than that of ranks.
    let mut parts: Vec<Vec<f64>> = (0..ranks).map(|rank| doubles(&vectors[(rank + root) % ranks])).collect();
    let add = |parts: &mut Vec<Vec<f64>>, to: usize, from: usize| {
        let from = parts[from].clone();
        parts[to].iter_mut().zip(from).for_each(|(to, from)| *to += from);
    };
    if algorithm != Algorithm::Btb {
        parts = vectors.iter().map(|vector| doubles(vector)).collect();
        (1..ranks).for_each(|rank| add(&mut parts, 0, rank));
    } else {
        let mut distance = 1;
        while distance < ranks {
            (0..ranks - distance).step_by(2 * distance).for_each(|to| add(&mut parts, to, to + distance));
            distance *= 2;
        }
    }
    parts.swap_remove(0)
}

fn plan(algorithm: Algorithm, kind: Collective, ranks: usize, bytes: usize, root: usize) -> Plan {
    Plan {
        kind,
        algorithm,
        bytes,
        element: Element::Double,
        op: (kind != Collective::Broadcast && !kind.gathers()).then_some(Op::Sum),
        root,
        layout: Layout::new(ranks, BUFFER).expect("it fits"),
        copiers: &Copier::ALL,
        shared_min: if bytes == 256 { usize::MAX } else { 300 },
        defect: None,
    }
}

/// Bytes of the longer one of a call's two vectors.
fn longest(call: &Plan, ranks: usize) -> usize {
    if call.kind.gathers() { ranks * call.bytes } else { call.bytes }
}

/// Runs calls one behind the other in one set of ranks, each with vectors of its own, and gives the number of wrong results.
fn wrong(ranks: usize, script: Script, calls: &[Plan]) -> Result<usize, Stuck> {
    let all: Vec<_> = (0..).zip(calls).map(|(n, call)| vectors(ranks, longest(call, ranks) / 8, n)).collect();
    // A call's vectors lie behind those of the calls before, so that ranks may be in different calls at a time.
    let inputs = (0..ranks).map(|rank| all.iter().flat_map(|call| call[rank].clone()).collect()).collect();
    let begins: Vec<usize> =
        calls.iter().scan(0, |end, call| Some(std::mem::replace(end, *end + longest(call, ranks)))).collect();
    let model = Model::new(ranks, script).data(inputs, BUFFER);
    model.run(|rank| {
        let begins = &begins;
        async move {
            let mut cursor = Cursor::default();
            for (call, &offset) in calls.iter().zip(begins) {
                call.run(&Behind { rank, offset }, &mut cursor).await;
            }
        }
    })?;
    let mut wrong = 0;
    let outputs: Vec<_> = (0..ranks).map(|rank| model.output(rank)).collect();
    for ((call, all), begin) in calls.iter().zip(&all).zip(begins) {
        for (rank, output) in outputs.iter().enumerate() {
            let Some(expected) = expected(call, all, rank) else { continue };
            let got = doubles(&output[begin..begin + 8 * expected.len()]);
            wrong += usize::from(got != expected);
        }
    }
    Ok(wrong)
}

/// The result of a rank, if it has one.
fn expected(call: &Plan, vectors: &[Vec<u8>], rank: usize) -> Option<Vec<f64>> {
    let (ranks, bytes) = (vectors.len(), call.bytes);
    let part = |from: &Vec<u8>, at: usize| doubles(&from[at..at + bytes]);
    match call.kind {
        Collective::Allreduce => Some(sum(vectors, call.algorithm, call.root)),
        Collective::Reduce => (rank == call.root).then(|| sum(vectors, call.algorithm, call.root)),
        Collective::Broadcast => (rank != call.root).then(|| doubles(&vectors[call.root])),
        Collective::Allgather => Some(vectors.iter().flat_map(|from| part(from, 0)).collect()),
        Collective::Alltoall => Some(vectors.iter().flat_map(|from| part(from, rank * bytes)).collect()),
        Collective::ReduceScatter => {
            let parts = sum(vectors, Algorithm::Gsb, 0);
            Some(parts[rank * bytes / 8 / ranks..(rank + 1) * bytes / 8 / ranks].to_vec())
        }
        Collective::Barrier => None,
    }
}

/// A rank whose vectors lie at an offset.
struct Behind<'a, S> {
    rank: &'a S,
    offset: usize,
}

impl<S: crate::Station> Behind<'_, S> {
    fn at(&self, place: Place) -> Place {
        match place {
            Place::Input(at) => Place::Input(at + self.offset),
            Place::Output(at) => Place::Output(at + self.offset),
            Place::Root(at) => Place::Root(at + self.offset),
            other => other,
        }
    }
}

impl<S: crate::Station> crate::Station for Behind<'_, S> {
    fn rank(&self) -> usize {
        self.rank.rank()
    }
    fn ranks(&self) -> usize {
        self.rank.ranks()
    }
    fn load(&self, word: crate::Word) -> u64 {
        self.rank.load(word)
    }
    async fn store(&self, word: crate::Word, value: u64) {
        self.rank.store(word, value).await;
    }
    async fn copy_by(&self, by: Copier, to: Place, from: Place, bytes: usize) {
        self.rank.copy_by(by, self.at(to), self.at(from), bytes).await;
    }
    async fn offer(&self) -> bool {
        self.rank.offer().await
    }
    async fn mark(&self, word: crate::Word, value: u64) {
        self.rank.mark(word, value).await;
    }
    async fn reduce(&self, to: Place, first: Place, slots: crate::Slots, bytes: usize) {
        self.rank.reduce(self.at(to), self.at(first), slots, bytes).await;
    }
    async fn exchange(&self, word: crate::Word, from: u64, to: u64) -> bool {
        self.rank.exchange(word, from, to).await
    }
    async fn count(&self, word: crate::Word) -> u64 {
        self.rank.count(word).await
    }
    async fn reduce_on_host(&self, to: usize, slots: crate::Slots, bytes: usize) {
        self.rank.reduce_on_host(to, slots, bytes).await;
    }
    fn is_idle(&self, lane: crate::Lane) -> bool {
        self.rank.is_idle(lane)
    }
    async fn drain(&self) {
        self.rank.drain().await;
    }
    async fn until(&self, mut ready: impl FnMut(&Self) -> Result<(), crate::Waiting>) {
        self.rank.until(|_| ready(self)).await;
    }
}

const ALL: [Algorithm; 8] = [
    Algorithm::Gsb,
    Algorithm::Dynamic,
    Algorithm::Host,
    Algorithm::Btb,
    Algorithm::Direct,
    Algorithm::Static { staged: 2, by: Copier::Engine },
    Algorithm::Static { staged: 2, by: Copier::Stores },
    Algorithm::Static { staged: 0, by: Copier::Bulk },
];
const BOTH: [Algorithm; 2] = [Algorithm::Gsb, Algorithm::Btb];
const COLLECTIVES: [Collective; 3] = [Collective::Reduce, Collective::Broadcast, Collective::Allreduce];

/// Scripts with ranks that are slow, late, or both, in a fixed sequence of choices.
fn scripts(ranks: usize) -> Vec<Script> {
    let mut random = fastrand::Rng::with_seed(7 + ranks as u64);
    let mut times = |most: u64| (0..ranks).map(|rank| (rank, random.u64(0..=most))).collect::<Vec<_>>();
    [0, 1, 4]
        .map(|n| Script {
            slow: times(1000 * n),
            slow_reads: times(700 * n),
            slow_sums: 300 * n,
            late: times(2000 * n),
        })
        .into()
}

#[test]
fn all_calls_of_all_ranks_are_right_whoever_is_slow() {
    for ranks in [1, 2, 3, 4, 8, 16, 24, 25] {
        // Shorter and longer than a chunk, and not of whole chunks; algorithms, kinds and roots in turn.
        let mut calls = Vec::new();
        for (n, bytes) in [8, 6000, 256].into_iter().enumerate() {
            for (algorithm, kind) in ALL.into_iter().flat_map(|one| COLLECTIVES.map(|kind| (one, kind))) {
                calls.push(plan(algorithm, kind, ranks, bytes, n * 5 % ranks));
                calls.push(plan(algorithm, kind, ranks, bytes, (n + 1) % ranks));
            }
        }
        for script in scripts(ranks) {
            assert_eq!(wrong(ranks, script, &calls), Ok(0), "{ranks} ranks");
        }
    }
}

#[test]
fn vectors_of_all_ranks_come_to_all_whoever_is_slow() {
    for ranks in [1, 2, 3, 8, 25] {
        let mut calls = Vec::new();
        for algorithm in ALL {
            let chunk = Layout::new(ranks, BUFFER).expect("it fits").chunk(algorithm);
            // Some words, and three chunks, of which the last is not whole.
            let (of_each, of_pairs) = (2 * chunk + 8, 2 * (chunk / ranks / 8 * 8) + 8);
            let parts = (2 * chunk).next_multiple_of(8 * ranks) + 8 * ranks;
            for (kind, bytes) in [
                (Collective::Allgather, 24),
                (Collective::Allreduce, 6000),
                (Collective::Alltoall, of_pairs),
                (Collective::Allgather, of_each),
                (Collective::Alltoall, 8),
                (Collective::Barrier, 0),
                (Collective::ReduceScatter, 8 * ranks),
                (Collective::Allgather, of_each),
                (Collective::Broadcast, 256),
                (Collective::ReduceScatter, parts),
            ] {
                calls.push(plan(algorithm, kind, ranks, bytes, 0));
            }
        }
        for script in scripts(ranks) {
            assert_eq!(wrong(ranks, script, &calls), Ok(0), "{ranks} ranks");
        }
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for algorithm in [Algorithm::Host, Algorithm::Gsb] {
        let script = Script { late: vec![(2, 9000)], ..Script::default() };
        let model = Model::new(5, script);
        let call = plan(algorithm, Collective::Barrier, 5, 0, 0);
        let call = &call;
        let ends = model.run(|rank| async move { call.run(rank, &mut Cursor::default()).await });
        assert!(ends.expect("all come").into_iter().all(|end| end >= 9000));
    }
}

#[test]
fn vectors_from_each_to_each_need_a_word_each_in_the_buffer() {
    let of = |buffer| Plan {
        layout: Layout::new(256, buffer).expect("256 bytes each"),
        ..plan(Algorithm::Gsb, Collective::Alltoall, 4, 8, 0)
    };
    let error = of(Layout::least(256)).check().expect_err("one byte each").to_string();
    assert!(error.contains("at least 526336"), "{error}");
    assert!(of(526_336).check().is_ok());
    assert!(Plan { algorithm: Algorithm::Host, ..of(526_336) }.check().is_ok());
}

/// A broadcast's copies: of the root into the buffer, and of the others.
#[test]
fn a_direct_broadcast_has_no_copy_to_the_buffer() {
    let copies = |algorithm| {
        let model = Model::new(5, Script::default());
        let call = plan(algorithm, Collective::Broadcast, 5, 8000, 3);
        let call = &call;
        let ends = model.run(|rank| async move { call.run(rank, &mut Cursor::default()).await });
        ends.expect("it ends");
        let bytes = |is: fn(Place) -> bool| {
            let of = |span: crate::model::Span| match span.work {
                Work::Copy { to, bytes, .. } if is(to) => bytes,
                _ => 0,
            };
            model.spans().into_iter().map(of).sum::<usize>()
        };
        (bytes(|to| matches!(to, Place::Shared(_))), bytes(|to| matches!(to, Place::Output(_))))
    };
    assert_eq!(copies(Algorithm::Gsb), (8000, 4 * 8000));
    assert_eq!(copies(Algorithm::Direct), (0, 4 * 8000));
}

#[test]
fn a_root_returns_when_all_have_read_its_vector() {
    let script = Script { slow_reads: vec![(1, 7000)], ..Script::default() };
    let model = Model::new(3, script);
    let call = plan(Algorithm::Direct, Collective::Broadcast, 3, 512, 0);
    let call = &call;
    let ends = model.run(|rank| async move { call.run(rank, &mut Cursor::default()).await });
    assert!(ends.expect("it ends")[0] > 7000);
}

fn with(defect: Defect, mut plan: Plan) -> Plan {
    plan.defect = Some(defect);
    plan
}

/// Two calls with and without the defect.
fn shows(defect: Defect, algorithm: Algorithm, kind: Collective, ranks: usize, script: &Script) {
    let call = plan(algorithm, kind, ranks, 512, 0);
    assert_eq!(wrong(ranks, script.clone(), &[call, call]), Ok(0), "{defect:?} is not there yet");
    let bad = with(defect, call);
    assert!(wrong(ranks, script.clone(), &[bad, bad]).expect("it ends") > 0, "{defect:?} does no harm");
}

#[test]
fn without_the_event_a_copy_under_way_is_taken_for_complete() {
    let script = Script { slow: vec![(3, 5000)], ..Script::default() };
    for algorithm in BOTH {
        shows(Defect::Event, algorithm, Collective::Allreduce, 4, &script);
    }
    shows(Defect::Event, Algorithm::Gsb, Collective::Allgather, 4, &script);
}

#[test]
fn without_the_toggle_the_last_result_is_taken_for_this_one() {
    let script = Script { slow: vec![(2, 5000)], ..Script::default() };
    shows(Defect::Toggle, Algorithm::Gsb, Collective::Allreduce, 4, &script);
    shows(Defect::Toggle, Algorithm::Gsb, Collective::Allgather, 4, &script);
}

#[test]
fn without_matched_levels_a_copy_overwrites_one_that_is_not_reduced_yet() {
    let script = Script { slow_sums: 5000, ..Script::default() };
    shows(Defect::Level, Algorithm::Btb, Collective::Allreduce, 4, &script);
}

#[test]
fn without_acknowledgements_a_result_is_overwritten_while_it_is_read() {
    let script = Script { slow_reads: vec![(3, 50_000)], ..Script::default() };
    shows(Defect::Ack, Algorithm::Gsb, Collective::Broadcast, 4, &script);
    shows(Defect::Ack, Algorithm::Btb, Collective::Broadcast, 4, &script);
    shows(Defect::Ack, Algorithm::Host, Collective::Broadcast, 4, &script);
    // The leader of a static or dynamic call sees that all have read.
    shows(Defect::Ack, Algorithm::Gsb, Collective::Allgather, 4, &script);
    shows(Defect::Ack, Algorithm::Host, Collective::Allgather, 4, &script);
}

#[test]
fn a_rank_in_another_call_is_named_and_nobody_gets_a_result() {
    for (algorithm, kind) in [
        (Algorithm::Gsb, Collective::Allreduce),
        (Algorithm::Btb, Collective::Allreduce),
        (Algorithm::Gsb, Collective::Broadcast),
        (Algorithm::Host, Collective::Allreduce),
        (Algorithm::Host, Collective::Reduce),
        (Algorithm::Gsb, Collective::Allgather),
        (Algorithm::Host, Collective::Allgather),
    ] {
        let (ranks, odd) = (6, 5);
        let model = Model::new(ranks, Script::default()).data(vectors(ranks, 64, 0), BUFFER);
        let result = model.run(|rank| async move {
            let bytes = if crate::Station::rank(rank) == odd { 256 } else { 512 };
            plan(algorithm, kind, ranks, bytes, 0).run(rank, &mut Cursor::default()).await;
        });
        assert!(
            matches!(result, Err(Stuck::Fault { rank }) if rank == odd || rank == 0 || rank == 4),
            "{result:?}"
        );
        assert_eq!(model.output(odd), vec![0; 512]);
    }
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let model = Model::new(4, Script::default());
    let call = plan(Algorithm::Gsb, Collective::Allreduce, 4, 64, 0);
    let call = &call;
    let stuck = model.run(|rank| async move {
        if crate::Station::rank(rank) != 2 {
            call.run(rank, &mut Cursor::default()).await;
        }
    });
    let Err(Stuck::Waiting(waiting)) = stuck else { panic!("{stuck:?}") };
    assert!(
        waiting.iter().any(|(rank, why)| *rank == 0 && why.is_some_and(|why| why.rank == 2)),
        "{waiting:?}"
    );
}

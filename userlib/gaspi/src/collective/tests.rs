//! Members in one place: what any order of looks and deliveries does.

use super::steps::{Step, step, steps};
use super::*;
use crate::reduce::{self, Datatype, Operation};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

/// All members' parts in one place, and what was posted by one to another and is not done: the source is read then.
struct Parts {
    layout: Layout,
    has_hub: bool,
    bytes: RefCell<Vec<Vec<u8>>>,
    posted: RefCell<BTreeMap<(usize, usize), VecDeque<Posted>>>,
}

enum Posted {
    Word { at: usize, value: u64 },
    Bytes { from: usize, to: usize, count: usize },
}

impl Parts {
    fn new(members: usize, has_hub: bool) -> Parts {
        let layout = Layout::new(members, 24);
        let bytes = (0..members).map(|member| vec![0; layout.bytes(member)]).collect();
        Parts { layout, has_hub, bytes: RefCell::new(bytes), posted: RefCell::default() }
    }

    fn read(&self, member: usize, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.bytes.borrow()[member][at..at + into.len()]);
    }

    fn write(&self, member: usize, at: usize, from: &[u8]) {
        self.bytes.borrow_mut()[member][at..at + from.len()].copy_from_slice(from);
    }

    /// Carries out the oldest post of a pair.
    fn deliver(&self, random: &mut fastrand::Rng) {
        let mut posted = self.posted.borrow_mut();
        let Some(number) = (!posted.is_empty()).then(|| random.usize(..posted.len())) else { return };
        let Some(((origin, target), queue)) = posted.iter_mut().nth(number) else { return };
        match queue.pop_front() {
            Some(Posted::Word { at, value }) => Of(self, *target).write(at, &value.to_ne_bytes()),
            Some(Posted::Bytes { from, to, count }) => {
                let mut data = vec![0; count];
                Of(self, *origin).read(from, &mut data);
                Of(self, *target).write(to, &data);
            }
            None => {}
        }
        posted.retain(|_, queue| !queue.is_empty());
    }
}

struct Of<'a>(&'a Parts, usize);

impl Of<'_> {
    fn write(&self, at: usize, from: &[u8]) {
        self.0.write(self.1, at, from);
    }

    fn post(&self, member: usize, posted: Posted) -> Result<(), GaspiError> {
        self.0.posted.borrow_mut().entry((self.1, member)).or_default().push_back(posted);
        Ok(())
    }
}

impl Area for Of<'_> {
    fn flag(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        self.read(at, &mut word);
        u64::from_ne_bytes(word)
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.0.read(self.1, at, into);
    }

    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    fn has_hub(&self) -> bool {
        self.0.has_hub
    }

    /// It is not there at first.
    fn arrive(&self, arrival: &Arrival<'_>) -> Result<Option<u64>, GaspiError> {
        let Arrival { number, word, count, value } = *arrival;
        if self.0.posted.borrow().is_empty() && number % 4 == 1 && fastrand::bool() {
            return Ok(None);
        }
        if let Some((at, common, value)) = value {
            self.0.write(0, at, &common.to_ne_bytes());
            self.0.write(0, at + 8, value);
        }
        self.0.write(0, word, &number.to_ne_bytes());
        let came = Of(self.0, 0).flag(count) + 1;
        self.0.write(0, count, &came.to_ne_bytes());
        Ok(Some(came))
    }

    fn read_hub(&self, at: usize, into: &mut [u8]) {
        self.0.read(0, at, into);
    }

    fn members(&self) -> (usize, usize) {
        (self.1, self.0.bytes.borrow().len())
    }

    fn tell(&self, member: usize, at: usize, value: u64) -> Result<(), GaspiError> {
        self.post(member, Posted::Word { at, value })
    }

    fn give(
        &self,
        member: usize,
        slot: Slot,
        flag: u64,
        common: u64,
        value: &[u8],
    ) -> Result<(), GaspiError> {
        self.write(slot.stage, &common.to_ne_bytes());
        self.write(slot.stage + 8, value);
        let count = 8 + value.len();
        self.post(member, Posted::Bytes { from: slot.stage, to: slot.at + COMMON, count })?;
        self.tell(member, slot.at, flag)
    }
}

/// Each member looks once at a time, in a random order, as calls do that may not wait.
#[test]
fn any_order_of_single_looks_finishes_barriers_and_reductions() {
    let mut random = fastrand::Rng::with_seed(20);
    for (members, has_hub) in (1..18).flat_map(|members| [(members, false), (members, true)]) {
        let parts = Parts::new(members, has_hub);
        let mut progress: Vec<Progress> = (0..members).map(|_| Progress::default()).collect();
        let mut done = vec![0u64; members];
        const CALLS: u64 = 20;
        while done.iter().any(|done| *done < CALLS) {
            parts.deliver(&mut random);
            let me = random.usize(..members);
            let call = done[me];
            if call == CALLS {
                continue;
            }
            let area = Of(&parts, me);
            // Whoever is behind by more than one call holds all others.
            assert!(done.iter().all(|other| other.abs_diff(call) <= 1), "{members}: {done:?}");
            let is_done = if call % 3 == 0 {
                progress[me].enter(Kind::Barrier, 0).unwrap();
                progress[me].barrier(&area).unwrap()
            } else {
                let own = |member: usize| [member as u64 + call, 1, u64::MAX].map(u64::to_ne_bytes).concat();
                if progress[me].enter(Kind::Allreduce, 24).unwrap() {
                    progress[me].give(&own(me));
                }
                assert_eq!(progress[me].enter(Kind::Barrier, 0), Err(GaspiError::ActiveCollective));
                assert_eq!(progress[me].enter(Kind::Allreduce, 8), Err(GaspiError::ActiveCollective));
                let mut sum = |one: &mut [u8], two: &[u8]| {
                    reduce::combine(Operation::Sum, Datatype::Ulong, one, two);
                    Ok(())
                };
                let value = progress[me].allreduce(&area, &mut sum).unwrap();
                let count = members as u64;
                let first = count * call + count * (count - 1) / 2;
                let expected = [first, count, count.wrapping_neg()].map(u64::to_ne_bytes).concat();
                assert!(value.as_ref().is_none_or(|value| *value == expected), "{members} call {call}");
                value.is_some()
            };
            if is_done {
                progress[me].leave();
                done[me] += 1;
            }
        }
    }
}

/// Of a hub, whose words say who has come.
#[test]
fn a_hub_waits_for_those_that_have_not_come() {
    let parts = Parts::new(3, true);
    let mut progress: Vec<Progress> = (0..3).map(|_| Progress::default()).collect();
    for me in [2, 0] {
        assert!(progress[me].enter(Kind::Barrier, 0).unwrap());
        while !progress[me].told {
            assert!(!progress[me].barrier(&Of(&parts, me)).unwrap());
        }
    }
    let awaited = |me: usize| (0..3).filter(|member| progress[me].awaits(*member, &Of(&parts, me))).collect();
    let (first, last): (Vec<usize>, Vec<usize>) = (awaited(0), awaited(2));
    assert_eq!((first, last), (vec![1], vec![1]));
}

/// All members hear that one gave another shape, or that a function failed, or both, whoever comes last.
#[test]
fn all_are_told_what_went_wrong() {
    let mut random = fastrand::Rng::with_seed(1);
    for (members, has_hub) in [(3, true), (3, false), (4, true), (4, false), (7, false)] {
        (0..members).for_each(|last| go_wrong(members, has_hub, last, &mut random));
    }
}

fn go_wrong(members: usize, has_hub: bool, last: usize, random: &mut fastrand::Rng) {
    let parts = Parts::new(members, has_hub);
    let mut progress: Vec<Progress> = (0..members).map(|_| Progress::default()).collect();
    let mut reduce = |me: usize, shape: u64, fails: bool| {
        if progress[me].enter(Kind::AllreduceUser, shape).unwrap() {
            progress[me].give(&[1; 8]);
        }
        let mut combine = |_: &mut [u8], _: &[u8]| if fails { Err(GaspiError::Failed) } else { Ok(()) };
        let done = progress[me].allreduce(&Of(&parts, me), &mut combine);
        if !matches!(done, Ok(None)) {
            progress[me].leave();
        }
        done
    };
    let unlike = |from: usize| (0..members).map(|me| if me < from { 8 } else { 16 }).collect();
    let alike = vec![8; members];
    let cases: [(Vec<u64>, _, _); 4] = [
        (unlike(members - 1), false, GaspiError::Unlike),
        (alike, true, GaspiError::Failed),
        // A function may fail where values are alike, and elsewhere they are not.
        (unlike(members - 1), true, GaspiError::Unlike),
        (unlike(2), true, GaspiError::Unlike),
    ];
    for (shapes, fails, expected) in cases {
        let mut waiting: Vec<usize> = (0..members).filter(|me| *me != last).chain([last]).collect();
        let mut looks = 0;
        while !waiting.is_empty() {
            looks += 1;
            assert!(looks < 10_000, "{waiting:?} of {members}, hub {has_hub}, wait for ever: {shapes:?}");
            waiting.retain(|me| match reduce(*me, shapes[*me], fails) {
                Ok(None) => true,
                done => {
                    assert_eq!(done, Err(expected), "{me} of {members}, last {last}, hub {has_hub}");
                    false
                }
            });
            parts.deliver(random);
        }
    }
}

/// Members of any number give and get in pairs, and each value gets to each.
#[test]
fn steps_are_pairs_and_reach_all() {
    for members in 1..70 {
        // Which values each has, in order.
        let mut have: Vec<Vec<usize>> = (0..members).map(|me| vec![me]).collect();
        for number in 0..steps(members) {
            let before = have.clone();
            for me in 0..members {
                let Step { from, gets, .. } = step(me, members, number);
                let Some(from) = from else { continue };
                assert_eq!(step(from, members, number).to, Some(me), "{members}: {number}");
                have[me] = match gets {
                    Gets::Higher => [&before[me][..], &before[from]].concat(),
                    Gets::Lower => [&before[from][..], &before[me]].concat(),
                    Gets::Result => before[from].clone(),
                };
            }
            let gives = |me: &usize| step(*me, members, number).to.is_some();
            let gets = |me: &usize| step(*me, members, number).from.is_some();
            assert_eq!((0..members).filter(gives).count(), (0..members).filter(gets).count());
        }
        assert!(have.iter().all(|have| have.iter().copied().eq(0..members)), "{members}: {have:?}");
    }
}

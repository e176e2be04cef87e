//! A thread of the host in the place of the unit: it watches a ring of tags, counts, and posts through a port.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use extoll_abi::regs::*;
use extoll_abi::{Body, Descriptor, ErrorUnits, Kind, Notification, PageOption, Request, Spec};
use extoll_sim::units::trigger::{Fields, Refusal, Registration, Started, Triggers};
use ggas_clock::{Backoff, Clock, Ladder};
use ggas_device::{
    DeviceError, HostBuffer, SlotMap, TriggerCounts, TriggerDevice, TriggerError, TriggerRegistration,
    TriggerSetup,
};
use ggas_rma::{Port, PostError};

use crate::ring::TagRing;

/// Entries of the ring that are taken in one go.
const BURST: usize = 256;

/// What is registered: where its completion word is, too.
#[derive(Clone, Copy)]
struct Operation {
    option: PageOption,
    descriptor: Descriptor,
    done: Option<usize>,
}

/// The notification that tells of a completion: its kind, and the local bytes that it names some of.
#[derive(Clone, Copy)]
struct Told {
    kind: Kind,
    start: u64,
    len: u64,
}

/// Posted, and not complete.
struct Posted {
    told: Told,
    done: usize,
    times: u32,
}

struct State {
    table: Triggers<Operation>,
    started: VecDeque<Started<Operation>>,
    posted: VecDeque<Posted>,
    /// Entries of the ring that were taken.
    taken: u64,
    fields: Fields,
    over: bool,
}

struct Unit {
    port: Arc<Port>,
    /// Completion and status words, and the NLA that they would have.
    words: Arc<HostBuffer>,
    base: u64,
    ring: Mutex<Option<Arc<TagRing>>>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The table, and the thread that watches over it.
pub(crate) struct HostUnit {
    unit: Arc<Unit>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostUnit {
    /// `words` is what `setup.status` is the NLA of.
    pub(crate) fn open(
        port: &Arc<Port>,
        words: &Arc<HostBuffer>,
        setup: &TriggerSetup,
    ) -> Result<HostUnit, DeviceError> {
        let TriggerSetup { lookup, tags, status } = *setup;
        let table =
            Triggers::new(lookup, tags).ok_or(DeviceError::TriggerTags { tags, max: lookup.most() })?;
        let state = State {
            table,
            started: VecDeque::new(),
            posted: VecDeque::new(),
            taken: 0,
            fields: Fields { at: 0, what: 0 },
            over: false,
        };
        let unit = Arc::new(Unit {
            port: port.clone(),
            words: words.clone(),
            base: status,
            ring: Mutex::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        // In virtual time only those run who are part of it: whoever waits, then.
        let thread = match port.device().clock().is_real() {
            true => Some(start(&unit)?),
            false => None,
        };
        Ok(HostUnit { unit, thread })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.unit.state);
        self.unit.take_ring(&mut state);
        let result = work(&mut state);
        self.unit.post(&mut state);
        drop(state);
        self.unit.changed.notify_one();
        result
    }
}

fn start(unit: &Arc<Unit>) -> Result<JoinHandle<()>, DeviceError> {
    let unit = unit.clone();
    let thread = std::thread::Builder::new().name("tn-unit".to_owned()).spawn(move || unit.watch());
    thread.map_err(|source| DeviceError::Memory { what: "a thread that counts triggers", bytes: 0, source })
}

impl Unit {
    /// The thread. Without a ring and without anything on its way it sleeps.
    fn watch(&self) {
        let new = || Backoff::endless(Ladder::DEVICE, Clock::REAL);
        let mut backoff = new();
        loop {
            if self.look() {
                backoff = new();
                continue;
            }
            let state = lock(&self.state);
            if state.over {
                return;
            }
            if lock(&self.ring).is_none() && state.started.is_empty() && state.posted.is_empty() {
                drop(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner));
                backoff = new();
                continue;
            }
            drop(state);
            // Endless: it has no end to report.
            let _ = backoff.pause();
        }
    }

    /// One round; whether there was anything to do. Whoever finds another at it leaves it to him.
    fn look(&self) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let mut moved = self.take_ring(&mut state);
        moved |= self.post(&mut state);
        moved | self.take_notifications(&mut state)
    }

    fn take_ring(&self, state: &mut State) -> bool {
        let Some(ring) = lock(&self.ring).clone() else { return false };
        let before = state.taken;
        for _ in 0..BURST {
            let Some([tag, at, what]) = ring.entry(state.taken) else { break };
            state.taken += 1;
            let fields = TRIGGER_HAS_FIELDS.is_set(what).then_some(Fields { at, what });
            if TRIGGER_IS_REARM.is_set(what) {
                self.rearm(state, tag);
            } else {
                self.fire(state, tag, fields);
            }
        }
        if state.taken != before {
            ring.free(state.taken);
        }
        state.taken != before
    }

    fn fire(&self, state: &mut State, tag: u64, fields: Option<Fields>) {
        let before = state.table.counts();
        if let Ok(started) = state.table.trigger(tag, fields) {
            state.started.extend(started);
        }
        self.note(state, before, tag);
    }

    fn rearm(&self, state: &mut State, tag: u64) {
        let before = state.table.counts();
        if let Ok(started) = state.table.rearm(tag) {
            state.started.extend(started);
        }
        self.note(state, before, tag);
    }

    /// Writes the status words that have changed; each count behind its tag.
    fn note(&self, state: &State, before: TriggerCounts, tag: u64) {
        let now = state.table.counts();
        for (word, was, is) in [
            (EXTOLL_TRIGGER_STATUS_REFUSED, before.refused, now.refused),
            (EXTOLL_TRIGGER_STATUS_LATE, before.late, now.late),
            (EXTOLL_TRIGGER_STATUS_FAILED, before.failed, now.failed),
        ] {
            if is > was {
                self.add(word, is - was, tag);
            }
        }
    }

    fn add(&self, word: u64, more: u64, tag: u64) {
        let at = 8 * word as usize;
        self.words.store_u64(at + 8, tag);
        self.words.store_u64(at, self.words.load_u64(at) + more);
    }

    fn complete(&self, done: usize, times: u32, error: ErrorUnits) {
        let word = TRIGGER_WORD_TIMES.put(times.into()) | TRIGGER_WORD_ERROR.put(error.bits().into());
        self.words.store_u64(done, word);
    }

    /// Posts what was started, in order, until the port has no room.
    fn post(&self, state: &mut State) -> bool {
        let mut moved = false;
        while let Some(started) = state.started.front() {
            let Started { tag, operation, fields, times } = *started;
            let Operation { option, descriptor, done } = operation;
            let posted = with_fields(&descriptor, fields)
                .map(|(descriptor, posted)| (self.port.try_post_raw(option, descriptor.word), posted));
            if matches!(posted, Some((Err(PostError::WouldBlock), _))) {
                break;
            }
            state.started.pop_front();
            moved = true;
            match (posted, done) {
                (Some((Ok(()), told)), Some(done)) => state.posted.push_back(Posted { told, done, times }),
                (Some((Ok(()), _)), None) => {}
                (_, done) => {
                    self.add(EXTOLL_TRIGGER_STATUS_FAILED, 1, tag);
                    if let Some(done) = done {
                        self.complete(done, times, ErrorUnits::REQUESTER);
                    }
                }
            }
        }
        moved
    }

    fn take_notifications(&self, state: &mut State) -> bool {
        let mut moved = false;
        while let Some(notification) = self.port.poll() {
            moved = true;
            let Some(address) = local_address(&notification) else { continue };
            let kind = notification.kind();
            let of = |Posted { told, .. }: &Posted| {
                kind == Some(told.kind) && address.wrapping_sub(told.start) < told.len
            };
            let Some(at) = state.posted.iter().position(of) else { continue };
            if let Some(Posted { done, times, .. }) = state.posted.remove(at) {
                self.complete(done, times, notification.error());
            }
        }
        moved
    }
}

/// What a notification names here.
fn local_address(notification: &Notification) -> Option<u64> {
    match notification.decode() {
        Ok((_, Body::Transfer { address, .. })) => Some(address),
        _ => None,
    }
}

/// A put or get with what a trigger brought, and with the notification that tells of its completion; which that is.
fn with_fields(descriptor: &Descriptor, fields: Option<Fields>) -> Option<(Descriptor, Told)> {
    let (header, request) = fields.unwrap_or(Fields { at: 0, what: 0 }).applied(descriptor)?;
    let (kind, spec, start, bytes) = match request {
        Request::Put { read, size, .. } => (Kind::Requester, Spec::REQUESTER, read, size),
        Request::Get { write, size, .. } => (Kind::Completer, Spec::COMPLETER, write, size),
        _ => return None,
    };
    let descriptor = Descriptor::encode(header.dst, header.spec | spec, header.modifier, &request).ok()?;
    Some((descriptor, Told { kind, start, len: bytes.into() }))
}

fn refused(refusal: Refusal, tag: u64, tags: u32) -> TriggerError {
    match refusal {
        Refusal::Full(_) => TriggerError::Full { tags },
        Refusal::Taken => TriggerError::Taken { tag },
        Refusal::Waits => TriggerError::Waits { tag },
        Refusal::Threshold => TriggerError::Threshold { tag },
        _ => TriggerError::Unknown { tag },
    }
}

impl TriggerDevice for HostUnit {
    fn register(&self, registration: &TriggerRegistration) -> Result<(), TriggerError> {
        let TriggerRegistration { tag, threshold, takes_fields, option, descriptor, done } = *registration;
        let done = done.map(|nla| (nla - self.unit.base) as usize);
        let operation = Operation { option, descriptor, done };
        self.with(|state| {
            let new = Registration { tag, threshold, takes_fields, operation };
            let started = state.table.register(&new);
            let tags = state.table.most();
            state.started.extend(started.map_err(|refusal| refused(refusal, tag, tags))?);
            Ok(())
        })
    }

    fn cancel(&self, tag: u64) -> Result<u32, TriggerError> {
        self.with(|state| state.table.cancel(tag)).map_err(|refusal| refused(refusal, tag, 0))
    }

    fn rearm(&self, tag: u64) -> Result<(), TriggerError> {
        self.with(|state| {
            let started = state.table.rearm(tag).map_err(|refusal| refused(refusal, tag, 0))?;
            state.started.extend(started);
            Ok(())
        })
    }

    fn counted(&self, tag: u64) -> Option<u32> {
        self.with(|state| state.table.count(tag))
    }

    fn counts(&self) -> TriggerCounts {
        self.with(|state| state.table.counts())
    }

    fn store(&self, offset: u64, value: u64) {
        let unit = &self.unit;
        self.with(|state| match offset {
            EXTOLL_TRIGGER_FIRE => unit.fire(state, value, None),
            EXTOLL_TRIGGER_REARM => unit.rearm(state, value),
            EXTOLL_TRIGGER_WHERE => state.fields.at = value,
            EXTOLL_TRIGGER_WHAT => state.fields.what = value,
            EXTOLL_TRIGGER_FIRE_FIELDS => unit.fire(state, value, Some(state.fields)),
            _ => {}
        });
    }

    fn progress(&self) -> bool {
        self.unit.look()
    }

    fn attach_slots(&self, slots: u32) -> Result<SlotMap, DeviceError> {
        let mut ring = lock(&self.unit.ring);
        if ring.is_some() {
            return Err(DeviceError::SlotsAttached);
        }
        let new = Arc::new(TagRing::new(slots)?);
        let map = new.map();
        *ring = Some(new);
        drop(ring);
        self.unit.changed.notify_one();
        Ok(map)
    }
}

impl Drop for HostUnit {
    fn drop(&mut self) {
        lock(&self.unit.state).over = true;
        self.unit.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for HostUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostUnit").field("port", &self.unit.port.address()).finish_non_exhaustive()
    }
}

//! Triggered operations of a port: puts and gets that a card carries out.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use extoll_abi::regs::EXTOLL_TRIGGER_FIRE;
use extoll_abi::{Address, Descriptor, EncodeError, MAX_TRANSFER, Modifier, PageOption, Request, Spec};
use ggas_clock::Backoff;
use ggas_device::{Kind, TriggerDevice, TriggerRegistration, TriggerSetup};
use ggas_kernels::Processor;
use ggas_rma::{KernelReport, Node, Port, PortBase, Region, RegionError};

use crate::host::HostUnit;
use crate::kernel::{Armed, Ground, KernelSide};
use crate::words::{Given, Words};
use crate::{
    Completed, Completion, Config, Status, TnError, TriggerCounts, TriggerError, TriggersLost, Way, When,
};

/// A port whose puts and gets are registered in advance, and started by triggers: of kernels on one processor
/// ([`address`](Self::address)), and of the host.
///
/// Any thread may register and wait. The port's notification queue belongs to the library: other nodes address another
/// port. When this is dropped, what was not started never is.
pub struct Triggers {
    // In this order: kernels' side, the unit, what it writes to, the port.
    kernel: KernelSide,
    unit: Arc<dyn TriggerDevice>,
    words_region: Region,
    words: Words,
    port: Arc<Port>,
    given: Mutex<Given>,
    processor: Processor,
    way: Way,
    kind: Kind,
    tags: u32,
}

impl Triggers {
    /// Opens a port on `node` with an empty table, for kernels on `processor`.
    ///
    /// # Errors
    /// [`TnError::NoUnit`] where [`Config::way`] asks for a unit that is not there, [`TnError::Poster`] where it asks for
    /// what only windows have; those of ports, memory, and
    /// [`DeviceError::TriggerTags`](ggas_device::DeviceError::TriggerTags).
    pub fn open(node: &Node, processor: &Processor, config: Config) -> Result<Triggers, TnError> {
        if config.way == Some(Way::Poster) {
            return Err(TnError::Poster);
        }
        let port = Arc::new(node.open_port(config.port)?);
        let words = Words::new(config.tags)?;
        let words_region = port.register_shared(words.memory().clone())?;
        let setup = TriggerSetup { lookup: config.lookup, tags: config.tags, status: words_region.nla(0)? };
        let unit = match config.way {
            None | Some(Way::Unit) => port.device().open_triggers(&setup)?,
            _ => None,
        };
        let (unit, way): (Arc<dyn TriggerDevice>, Way) = match unit {
            Some(unit) => (Arc::from(unit), Way::Unit),
            None if config.way == Some(Way::Unit) => return Err(TnError::NoUnit),
            None => (Arc::new(HostUnit::open(&port, words.memory(), &setup)?), Way::Host),
        };
        let trapped = matches!(processor, Processor::Cpu(_)) && !config.kernel_slots && way == Way::Unit;
        let kernel = KernelSide::new(&Ground {
            processor,
            unit: &unit,
            words: &words,
            tags: config.tags,
            node: port.address().node,
            timeout_ns: config.port.kernel_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            slots: (!trapped).then_some(config.port.slots),
        })?;
        let kind = node.info().kind;
        Ok(Triggers {
            kernel,
            unit,
            words_region,
            words,
            port,
            given: Mutex::default(),
            processor: processor.clone(),
            way,
            kind,
            tags: config.tags,
        })
    }

    /// Address of the `struct ggas_tn`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.kernel.address()
    }

    /// The port: memory that is sent, or fetched into, is registered with it.
    pub fn port(&self) -> &PortBase {
        &self.port
    }

    /// Who counts triggers and carries out what they start.
    pub fn way(&self) -> Way {
        self.way
    }

    /// The same in a sentence, with the reason.
    pub fn explain(&self) -> String {
        match (self.way, self.kind) {
            (Way::Unit, _) => "the model's trigger unit counts; cards have none".to_owned(),
            (_, Kind::Sim) => "a thread of the host counts, as asked; the model has a unit".to_owned(),
            (_, kind) => format!("a thread of the host counts: the {kind} device has no unit for triggers"),
        }
    }

    /// Registers a put of the bytes `local` of a region to NLA `remote` at a port. `spec` may ask for a notification
    /// there ([`Spec::COMPLETER`]). It is started once the tag has been triggered often enough, at once if it has been
    /// already. A tag whose operation was started may be registered again; region and bytes are used until it is complete.
    ///
    /// # Errors
    /// [`TriggerError`]; [`RegionError`] for bytes outside the region or a region of another port;
    /// [`TnError::Encode`] for a size that no card takes; [`TnError::PeerLost`].
    pub fn put(
        &self,
        when: When,
        from: &Region,
        local: Range<usize>,
        target: Address,
        remote: u64,
        spec: Spec,
    ) -> Result<Completion, TnError> {
        let (read, size) = self.local(from, local)?;
        self.register(
            when,
            target,
            spec & Spec::COMPLETER,
            &Request::Put { qw: false, read, write: remote, size },
        )
    }

    /// Registers a get from NLA `remote` at a port to the bytes `local` of a region; as [`put`](Self::put).
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn get(
        &self,
        when: When,
        into: &Region,
        local: Range<usize>,
        target: Address,
        remote: u64,
    ) -> Result<Completion, TnError> {
        let (write, size) = self.local(into, local)?;
        self.register(when, target, Spec::empty(), &Request::Get { qw: false, read: remote, write, size })
    }

    fn local(&self, region: &Region, bytes: Range<usize>) -> Result<(u64, u32), TnError> {
        let (owner, port) = (region.port(), self.port.address());
        if owner != port {
            return Err(RegionError::OtherPort { owner, port }.into());
        }
        let (offset, len) = (bytes.start, bytes.end.saturating_sub(bytes.start));
        if bytes.end > region.len() {
            return Err(RegionError::Range { offset, len, region: region.len() }.into());
        }
        let size = u32::try_from(len).unwrap_or(u32::MAX);
        if size > MAX_TRANSFER {
            return Err(EncodeError::SizeTooLarge(size).into());
        }
        Ok((region.nla(offset)?, size))
    }

    fn register(
        &self,
        when: When,
        target: Address,
        spec: Spec,
        request: &Request,
    ) -> Result<Completion, TnError> {
        let descriptor = Descriptor::encode(target, spec, Modifier::NONE, request)?;
        let device = self.port.device();
        if device.departures().count() > 0
            && let Some(peer) = device.lost_peer(target.node, Some(target.vpid))
        {
            return Err(TnError::PeerLost(peer));
        }
        let When { tag, threshold, fields } = when;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let (word, new) = given.give(tag, self.tags).ok_or(TriggerError::Full { tags: self.tags })?;
        if new {
            self.words.clear(word);
        }
        let registration = TriggerRegistration {
            tag,
            threshold,
            takes_fields: fields,
            option: PageOption::default(),
            descriptor,
            done: Some(self.words_region.nla(Words::at(word))?),
        };
        match self.unit.register(&registration) {
            Ok(()) => Ok(Completion { tag, word }),
            Err(error) => {
                if new {
                    given.take_back(tag);
                }
                Err(error.into())
            }
        }
    }

    /// Takes the threshold off what the tag of a started operation has counted, and waits for it again; triggers that
    /// came in between count. Of a get, only once it is complete.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`], [`TriggerError::Waits`], [`TriggerError::Busy`].
    pub fn rearm(&self, tag: u64) -> Result<(), TnError> {
        Ok(self.unit.rearm(tag)?)
    }

    /// Forgets a tag; returns what it had counted. Not between its start and its completion.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`].
    pub fn cancel(&self, tag: u64) -> Result<u32, TnError> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = self.unit.cancel(tag)?;
        given.take_back(tag);
        Ok(counted)
    }

    /// Triggers a tag, as a kernel does. What the host wrote to regions before is what is sent. Whether it was counted,
    /// [`status`](Self::status) tells.
    pub fn trigger(&self, tag: u64) {
        self.unit.store(EXTOLL_TRIGGER_FIRE, tag);
    }

    /// What a tag has counted since it was last re-armed; `None` if nothing is known of it.
    pub fn counted(&self, tag: u64) -> Option<u32> {
        self.unit.counted(tag)
    }

    /// What the table has seen: thresholds that were never reached wait in it.
    pub fn counts(&self) -> TriggerCounts {
        self.unit.counts()
    }

    /// Triggers that did not count as they should, as kernels see it.
    pub fn status(&self) -> Status {
        self.words.status()
    }

    /// How often an operation is complete, and how the last time went. Acquire.
    pub fn completed(&self, of: Completion) -> Completed {
        self.words.read(of.word)
    }

    /// Waits until an operation is complete for the `times`th time: the source of a put may be written again, the bytes of
    /// a get are there.
    ///
    /// # Errors
    /// [`TnError::Timeout`], [`TnError::Failed`].
    pub fn wait(&self, of: Completion, times: u32, timeout: Duration) -> Result<(), TnError> {
        let mut backoff = Backoff::new(self.port.device().clock(), timeout);
        loop {
            let completed = self.completed(of);
            if completed.reached(times) {
                return match completed.error {
                    units if units.is_empty() => Ok(()),
                    units => Err(TnError::Failed { tag: of.tag, units }),
                };
            }
            if self.unit.progress() | self.port.progress() {
                continue;
            }
            if let Err(waited) = backoff.pause() {
                let counted = match self.counted(of.tag) {
                    Some(count) => format!("its tag has counted {count} triggers"),
                    None => "its tag is not in the table".to_owned(),
                };
                let lost = Box::new(TriggersLost(self.status()));
                return Err(TnError::Timeout { tag: of.tag, times, waited, counted, lost });
            }
        }
    }

    /// To be held while kernels run: threads of the executor that only wait do what a model in their process needs.
    pub fn arm(&self) -> Armed<'_> {
        let (unit, port) = (self.unit.clone(), self.port.clone());
        let clock = port.device().clock().clone();
        let idle = self.processor.on_idle(&clock, move || unit.progress() | port.progress());
        Armed { _idle: idle, _of: std::marker::PhantomData }
    }

    /// What a kernel's call reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.kernel.report.get()
    }

    /// Forgets a report, and lets waits of kernels and `ggas_tn_check` fail no longer for triggers that were not counted so
    /// far; [`status`](Self::status) keeps them. Not while kernels run.
    ///
    /// # Errors
    /// [`TnError::Memory`] where a GPU fails.
    pub fn clear_errors(&self) -> Result<(), TnError> {
        self.kernel.clear_errors(self.status())
    }
}

impl fmt::Debug for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Triggers")
            .field("port", &self.port.address())
            .field("way", &self.way)
            .finish_non_exhaustive()
    }
}

//! Triggered operations over a mapped window: whoever reaches a threshold carries the operation out itself.

use std::collections::HashMap;
use std::fmt;
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use extoll_abi::layout::{
    self, GGAS_TN_ADD, GGAS_TN_COUNTED_MAX, GGAS_TN_FIELDS, GGAS_TN_GET, GGAS_TN_PUT, GGAS_TN_SIGNAL,
    GGAS_TN_TRACED, ggas_tn, ggas_tn_entry,
};
use ggas_clock::{Backoff, Clock};
use ggas_kernels::args::{
    TN_CANCEL, TN_DONE, TN_INCOMPLETE, TN_LOOK, TN_REARM, TN_REGISTER, TN_TAKEN, TN_TAKEN_BACK, TN_WAITS,
    tn_command, tn_commands,
};
use ggas_kernels::{KernelMem, Launch, LaunchError, MemoryError, Processor};
use ggas_rma::{KernelReport, ReportCell};
use ggas_window::Window;

use crate::kernel::bytes_of;
use crate::words::Words;
use crate::{Completed, Completion, Status, TnError, TriggerError, When};

/// Shape of [`WindowTriggers`].
#[derive(Clone, Copy, Debug)]
pub struct WindowConfig {
    /// Tags are numbers below this; an entry of 64 bytes each, in memory of the processor. 1,024 if not set.
    pub tags: u32,
    /// Bound of waits of kernels, and of registering. 10 s if not set.
    pub timeout: Duration,
}

impl Default for WindowConfig {
    fn default() -> WindowConfig {
        WindowConfig { tags: 1024, timeout: Duration::from_secs(10) }
    }
}

/// How long a kernel that has begun may take to carry out an operation that was triggered before.
const LAST_COPY: Duration = Duration::from_secs(10);

/// The word at the target that a put signals once its bytes are there (`ggas_put_signal_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Sets the word at this offset of the target's part.
    Set(usize, u64),
    /// Adds to it.
    Add(usize, u64),
}

/// Triggered operations of one member of a window, for kernels on its processor.
///
/// Count and threshold lie in memory of that processor and are changed by its atomics only, so that registering joins
/// what running kernels have counted: it is itself done by a kernel, of one thread, which needs room beside those that
/// run ([`TnError::NoRoom`]).
pub struct WindowTriggers {
    memory: KernelMem,
    entries: KernelMem,
    words: KernelMem,
    commands: Mutex<Commands>,
    report: ReportCell,
    window: Arc<Window>,
    rank: usize,
    processor: Processor,
    config: WindowConfig,
    /// Somebody asks what operations move.
    traced: bool,
}

struct Commands {
    /// For one [`tn_command`].
    memory: KernelMem,
    /// What entries refer to, by tag.
    held: HashMap<u64, Arc<KernelMem>>,
    /// Commands that were taken back, whose kernels have not begun, and those that may still be carried out.
    left: Vec<KernelMem>,
    /// What those may have registered.
    kept: Vec<Arc<KernelMem>>,
}

impl WindowTriggers {
    /// An empty table for member `rank` of the window, which is of this process.
    ///
    /// # Errors
    /// [`TnError::NotMapped`]; [`TnError::Tag`] for a table without tags; those of memory.
    pub fn open(window: &Arc<Window>, rank: usize, config: WindowConfig) -> Result<WindowTriggers, TnError> {
        let member = window.member(rank)?;
        let processor = member.processor().clone();
        let base = member.global_pointer(0).map_err(|_| TnError::NotMapped)?;
        let tags = config.tags;
        if tags == 0 {
            return Err(TnError::Tag { tag: 0, tags });
        }
        let timeout_ns = config.timeout.as_nanos().try_into().unwrap_or(u64::MAX);
        let traced = member.trace_words();
        let report = ReportCell::with_words(&processor, traced.as_ref().map_or(&[], |words| words))?;
        let entries = processor.alloc(tags as usize * size_of::<ggas_tn_entry>())?;
        let words = processor.alloc(Words::at(tags))?;
        let tn = ggas_tn {
            entries: entries.address(),
            words: words.address() + Words::at(0) as u64,
            status: words.address(),
            report: report.address(),
            timeout_ns,
            window: layout::ggas_window {
                base,
                local: member.pointer_of(rank)?,
                stride: window.info().stride as u64,
                // What is traced is looked at where others are refused.
                size: if traced.is_some() { 0 } else { window.info().bytes as u64 },
                node: rank as u32,
                nodes: window.len() as u32,
                report: report.address(),
                timeout_ns,
            },
            node: rank as u32,
            operations: tags,
            tags,
            ..ggas_tn::default()
        };
        let memory = processor.alloc(size_of::<ggas_tn>())?;
        memory.write(0, bytes_of(&tn))?;
        let command = processor.alloc(size_of::<tn_command>())?;
        let commands = Mutex::new(Commands {
            memory: command,
            held: HashMap::new(),
            left: Vec::new(),
            kept: Vec::new(),
        });
        let window = window.clone();
        let traced = traced.is_some();
        Ok(WindowTriggers {
            memory,
            entries,
            words,
            commands,
            report,
            window,
            rank,
            processor,
            config,
            traced,
        })
    }

    /// Address of the `struct ggas_tn`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Registers a put of the bytes `local` of kernel memory to `offset` of member `node`'s part, and a signal behind
    /// it. It is started once the tag has been triggered often enough: at once, by the kernel that registers, if it has
    /// been already. A tag whose operation is complete may be registered again. The memory is kept until then, or until
    /// the tag is cancelled.
    ///
    /// # Errors
    /// [`TnError::Tag`]; [`TnError::NoSuchNode`], [`TnError::NoSuchPlace`], [`TnError::Unaligned`];
    /// [`TriggerError::Taken`], [`TriggerError::Incomplete`], [`TriggerError::Threshold`], [`TnError::HighThreshold`];
    /// [`TnError::Memory`] for bytes outside the memory; [`TnError::NoRoom`]; [`TnError::CutOff`], and others of launches,
    /// after which the operation may be registered or not.
    pub fn put(
        &self,
        when: When,
        from: &Arc<KernelMem>,
        local: Range<usize>,
        (node, offset): (usize, usize),
        signal: Option<Signal>,
    ) -> Result<Completion, TnError> {
        let (what, at, value) = match signal {
            None => (GGAS_TN_PUT, 0, 0),
            Some(Signal::Set(at, value)) => (GGAS_TN_PUT | GGAS_TN_SIGNAL, at, value),
            Some(Signal::Add(at, value)) => (GGAS_TN_PUT | GGAS_TN_SIGNAL | GGAS_TN_ADD, at, value),
        };
        if signal.is_some() {
            self.check_place(node, at, 8)?;
            if !at.is_multiple_of(8) {
                return Err(TnError::Unaligned { node, offset: at });
            }
        }
        // Kernels ask of gets only whether they are traced.
        let traced = if self.traced { GGAS_TN_TRACED | GGAS_TN_GET } else { 0 };
        let what = what | fields_of(when) | traced;
        let command =
            tn_command { what, signal: at as u64, value, ..self.command(when, from, local, node, offset)? };
        self.register(command, from)
    }

    /// Registers a get of `offset` of member `node`'s part to the bytes `local` of kernel memory; as [`put`](Self::put).
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn get(
        &self,
        when: When,
        into: &Arc<KernelMem>,
        local: Range<usize>,
        (node, offset): (usize, usize),
    ) -> Result<Completion, TnError> {
        let traced = if self.traced { GGAS_TN_TRACED } else { 0 };
        let what = GGAS_TN_GET | fields_of(when) | traced;
        let command = tn_command { what, ..self.command(when, into, local, node, offset)? };
        self.register(command, into)
    }

    fn command(
        &self,
        When { tag, threshold, .. }: When,
        memory: &KernelMem,
        local: Range<usize>,
        node: usize,
        offset: usize,
    ) -> Result<tn_command, TnError> {
        if threshold == 0 {
            return Err(TriggerError::Threshold { tag }.into());
        }
        if threshold > GGAS_TN_COUNTED_MAX {
            return Err(TnError::HighThreshold { tag, threshold, most: GGAS_TN_COUNTED_MAX });
        }
        let bytes = local.end.saturating_sub(local.start);
        if local.end > memory.len() {
            return Err(
                MemoryError::OutOfRange { offset: local.start, len: bytes, size: memory.len() }.into()
            );
        }
        self.check_place(node, offset, bytes)?;
        let size = self.window.info().bytes;
        let length = u32::try_from(bytes).map_err(|_| TnError::NoSuchPlace { node, offset, bytes, size })?;
        let word = self.check_tag(tag)?;
        Ok(tn_command {
            tag,
            local: memory.address() + local.start as u64,
            offset: offset as u64,
            bytes: length,
            node: node as u32,
            word,
            threshold,
            command: TN_REGISTER,
            ..tn_command::default()
        })
    }

    fn check_tag(&self, tag: u64) -> Result<u32, TnError> {
        let tags = self.config.tags;
        u32::try_from(tag).ok().filter(|word| *word < tags).ok_or(TnError::Tag { tag, tags })
    }

    fn check_place(&self, node: usize, offset: usize, bytes: usize) -> Result<(), TnError> {
        let (nodes, size) = (self.window.len(), self.window.info().bytes);
        if node >= nodes {
            return Err(TnError::NoSuchNode { node, nodes });
        }
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
        inside.then_some(()).ok_or(TnError::NoSuchPlace { node, offset, bytes, size })
    }

    fn register(&self, mut command: tn_command, memory: &Arc<KernelMem>) -> Result<Completion, TnError> {
        let (tag, word) = (command.tag, command.word);
        let mut commands = self.lock();
        match self.run(&mut commands, &mut command) {
            // In place of what the operation before referred to, which is complete.
            Ok(()) => drop(commands.held.insert(tag, memory.clone())),
            Err(refused @ (TnError::Trigger(_) | TnError::NoRoom { .. })) => return Err(refused),
            Err(unknown) => {
                commands.kept.push(memory.clone());
                return Err(unknown);
            }
        }
        Ok(Completion { tag, word })
    }

    /// Has the kernel carry out a command, or takes it back. Other errors than [`TriggerError`] and [`TnError::NoRoom`]
    /// leave open whether it was carried out.
    fn run(&self, at: &mut Commands, command: &mut tn_command) -> Result<(), TnError> {
        at.memory.write(0, bytes_of(command))?;
        let args = tn_commands { tn: self.memory.address(), command: at.memory.address() };
        // SAFETY: the structure is this kernel's; this holds table, entries and words, the caller what the command names,
        // and `left` a command whose kernel has not ended.
        let launch = unsafe { Launch::new(&self.processor, "ggas_tn_table", 1, 1, &args) };
        let tag = command.tag;
        match ggas_kernels::start(&[launch]) {
            Err(error) if error.lacks_room() => return Err(TnError::NoRoom { tag, waited: Duration::ZERO }),
            running => match running?.wait(self.config.timeout) {
                Err(LaunchError::Timeout { .. }) => self.take_back(at, tag)?,
                ended => ended?,
            },
        }
        command.counted = at.memory.load_u64(offset_of!(tn_command, counted))?;
        match at.memory.load_u64(offset_of!(tn_command, result))? as u32 {
            TN_DONE => Ok(()),
            TN_TAKEN => Err(TriggerError::Taken { tag }.into()),
            TN_INCOMPLETE => Err(TriggerError::Incomplete { tag }.into()),
            TN_WAITS => Err(TriggerError::Waits { tag }.into()),
            TN_TAKEN_BACK => Err(TnError::NoRoom { tag, waited: self.config.timeout }),
            _ => Err(TriggerError::Unknown { tag }.into()),
        }
    }

    /// Of a command whose kernel did not end in time: succeeds where it has begun, and then has ended.
    fn take_back(&self, at: &mut Commands, tag: u64) -> Result<(), TnError> {
        let waited = self.config.timeout;
        let next = self.processor.alloc(size_of::<tn_command>())?;
        let command = std::mem::replace(&mut at.memory, next);
        let begun = command.store_u64(offset_of!(tn_command, taken_back), 1).and_then(|()| {
            // The kernel writes `begun`, then reads `taken_back`: one of both sees what the other wrote.
            fence(Ordering::SeqCst);
            Ok(command.load_u64(offset_of!(tn_command, begun))? != 0)
        });
        let mut backoff = Backoff::new(Clock::REAL, waited.max(LAST_COPY));
        let ended = begun.and_then(|begun| {
            // It may have to carry the operation out. On the CPU it has been stopped.
            while begun && command.load_u64(offset_of!(tn_command, result))? == 0 {
                if matches!(self.processor, Processor::Cpu(_)) || backoff.pause().is_err() {
                    return Ok(None);
                }
            }
            Ok(Some(begun))
        });
        if let Ok(Some(true)) = ended {
            at.memory = command;
            return Ok(());
        }
        at.left.push(command);
        Err(match ended {
            Ok(Some(_)) => TnError::NoRoom { tag, waited },
            Ok(None) => TnError::CutOff { tag, waited },
            Err(error) => error.into(),
        })
    }

    fn ask(&self, tag: u64, command: u32) -> Result<u32, TnError> {
        let word = self.check_tag(tag)?;
        let mut commands = self.lock();
        let mut asked = tn_command { tag, word, command, ..tn_command::default() };
        self.run(&mut commands, &mut asked)?;
        if command == TN_CANCEL {
            commands.held.remove(&tag);
        }
        Ok(asked.counted as u32)
    }

    /// Takes the threshold off what the tag of a started operation has counted, and waits for it again.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`], [`TriggerError::Waits`], [`TnError::Tag`]; [`TnError::NoRoom`], and others of launches.
    pub fn rearm(&self, tag: u64) -> Result<(), TnError> {
        self.ask(tag, TN_REARM).map(drop)
    }

    /// Forgets a tag; returns what it had counted.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`]; [`TriggerError::Incomplete`] between start and completion; [`TnError::Tag`];
    /// [`TnError::NoRoom`], and others of launches.
    pub fn cancel(&self, tag: u64) -> Result<u32, TnError> {
        self.ask(tag, TN_CANCEL)
    }

    /// What a tag has counted since it was last re-armed.
    ///
    /// # Errors
    /// As for [`cancel`](Self::cancel), but for `Incomplete`.
    pub fn counted(&self, tag: u64) -> Result<u32, TnError> {
        self.ask(tag, TN_LOOK)
    }

    /// How often an operation is complete. The error is that of the last trigger that brought a place outside the window,
    /// since the operation was registered.
    ///
    /// # Errors
    /// [`TnError::Memory`] where a GPU fails.
    pub fn completed(&self, of: Completion) -> Result<Completed, TnError> {
        Ok(Completed::by_kernels(self.words.load_u64(Words::at(of.word))?))
    }

    /// Triggers that did not count as they should.
    ///
    /// # Errors
    /// [`TnError::Memory`] where a GPU fails.
    pub fn status(&self) -> Result<Status, TnError> {
        let words = self.words.read_u64s(0, 6)?;
        Ok(Status::of(|i| words.get(i).copied().unwrap_or(0)))
    }

    /// What a kernel's call reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.report.get()
    }

    /// Forgets a report, and lets waits of kernels and `ggas_tn_check` fail no longer for triggers that were not counted so
    /// far; [`status`](Self::status) keeps them. Not while kernels run.
    ///
    /// # Errors
    /// [`TnError::Memory`] where a GPU fails.
    pub fn clear_errors(&self) -> Result<(), TnError> {
        let status = self.status()?;
        self.report.clear();
        status.clear_in(&self.memory)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fields_of(when: When) -> u32 {
    if when.fields { GGAS_TN_FIELDS } else { 0 }
}

impl fmt::Debug for WindowTriggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowTriggers")
            .field("member", &self.rank)
            .field("entries", &self.entries.address())
            .finish_non_exhaustive()
    }
}

const _: () = assert!(size_of::<ggas_tn_entry>() == 64);

//! Triggered operations over a mapped window: whoever reaches a threshold carries the operation out itself.

use std::collections::HashMap;
use std::fmt;
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use extoll_abi::layout::{
    self, GGAS_TN_ADD, GGAS_TN_COUNTED_MAX, GGAS_TN_FIELDS, GGAS_TN_GET, GGAS_TN_PUT, GGAS_TN_SIGNAL,
    ggas_tn, ggas_tn_entry,
};
use ggas_kernels::args::{
    TN_CANCEL, TN_DONE, TN_LOOK, TN_REARM, TN_REGISTER, TN_TAKEN, TN_WAITS, tn_command, tn_commands,
};
use ggas_kernels::{KernelMem, Launch, MemoryError, Processor};
use ggas_rma::{KernelReport, ReportCell};
use ggas_window::Window;

use crate::kernel::bytes_of;
use crate::words::Words;
use crate::{Completed, Completion, Status, TnError, TriggerError, When};

/// Commands that one launch of the table's kernel carries out.
const BATCH: usize = 256;

/// Shape of [`WindowTriggers`].
#[derive(Clone, Copy, Debug)]
pub struct WindowConfig {
    /// Tags are numbers below this; an entry of 64 bytes each, in memory of the processor.
    pub tags: u32,
    /// Bound of waits of kernels, and of registering.
    pub timeout: Duration,
}

impl Default for WindowConfig {
    fn default() -> WindowConfig {
        WindowConfig { tags: 1024, timeout: Duration::from_secs(10) }
    }
}

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
/// what running kernels have counted: it is itself done by a kernel, of one block of one warp, which needs room
/// beside those that run.
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
}

struct Commands {
    memory: KernelMem,
    /// What entries refer to, by tag.
    held: HashMap<u64, Arc<KernelMem>>,
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
        let report = ReportCell::new(&processor)?;
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
                size: window.info().bytes as u64,
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
        let commands = processor.alloc(BATCH * size_of::<tn_command>())?;
        let commands = Mutex::new(Commands { memory: commands, held: HashMap::new() });
        let window = window.clone();
        Ok(WindowTriggers { memory, entries, words, commands, report, window, rank, processor, config })
    }

    /// Address of the `struct ggas_tn`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Registers a put of the bytes `local` of kernel memory to `offset` of member `node`'s part, and a signal behind
    /// it. It is started once the tag has been triggered often enough: at once, by the kernel that registers, if it has
    /// been already.
    ///
    /// # Errors
    /// [`TnError::Tag`]; [`TnError::NoSuchPlace`]; [`TriggerError::Taken`], [`TriggerError::Threshold`],
    /// [`TnError::HighThreshold`]; [`TnError::Memory`] for bytes outside the memory; those of launches.
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
                return Err(TnError::NoSuchPlace { node, offset: at, bytes: 8 });
            }
        }
        let what = what | fields_of(when);
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
        let what = GGAS_TN_GET | fields_of(when);
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
        let length = u32::try_from(bytes).map_err(|_| TnError::NoSuchPlace { node, offset, bytes })?;
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
        let size = self.window.info().bytes;
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
        if node < self.window.len() && inside {
            Ok(())
        } else {
            Err(TnError::NoSuchPlace { node, offset, bytes })
        }
    }

    fn register(&self, mut command: tn_command, memory: &Arc<KernelMem>) -> Result<Completion, TnError> {
        let (tag, word) = (command.tag, command.word);
        let mut commands = self.lock();
        // Held from before the table refers to it; what was held before may be in use until it is complete.
        let before = commands.held.insert(tag, memory.clone());
        let result = self.run(&commands, std::slice::from_mut(&mut command));
        match result.map(|()| command.result) {
            Ok(TN_DONE) => Ok(Completion { tag, word }),
            other => {
                match before {
                    Some(before) => commands.held.insert(tag, before),
                    None => commands.held.remove(&tag),
                };
                other?;
                Err(TriggerError::Taken { tag }.into())
            }
        }
    }

    /// Has the kernel carry out commands of different tags.
    fn run(&self, at: &Commands, commands: &mut [tn_command]) -> Result<(), TnError> {
        const SIZE: usize = size_of::<tn_command>();
        for batch in commands.chunks_mut(BATCH) {
            for (i, command) in batch.iter().enumerate() {
                at.memory.write(i * SIZE, bytes_of(command))?;
            }
            let args = tn_commands {
                tn: self.memory.address(),
                commands: at.memory.address(),
                count: batch.len() as u64,
            };
            // SAFETY: the structure is this kernel's; table, entries, words and what entries name are held by this.
            let launch = unsafe { Launch::new(&self.processor, "ggas_tn_table", 1, 32, &args) };
            ggas_kernels::start(&[launch])?.wait(self.config.timeout)?;
            for (i, command) in batch.iter_mut().enumerate() {
                let word = |offset: usize| -> Result<u32, TnError> {
                    let mut bytes = [0; 4];
                    at.memory.read(i * SIZE + offset, &mut bytes)?;
                    Ok(u32::from_le_bytes(bytes))
                };
                command.result = word(offset_of!(tn_command, result))?;
                command.counted = word(offset_of!(tn_command, counted))?.into();
            }
        }
        Ok(())
    }

    fn ask(&self, tag: u64, command: u32) -> Result<u32, TnError> {
        self.check_tag(tag)?;
        let mut commands = self.lock();
        let mut asked = tn_command { tag, command, ..tn_command::default() };
        self.run(&commands, std::slice::from_mut(&mut asked))?;
        match asked.result {
            TN_DONE => {
                if command == TN_CANCEL {
                    commands.held.remove(&tag);
                }
                Ok(asked.counted as u32)
            }
            TN_TAKEN => Err(TriggerError::Taken { tag }.into()),
            TN_WAITS => Err(TriggerError::Waits { tag }.into()),
            _ => Err(TriggerError::Unknown { tag }.into()),
        }
    }

    /// Takes the threshold off what the tag of a started operation has counted, and waits for it again.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`], [`TriggerError::Waits`], [`TnError::Tag`], those of launches.
    pub fn rearm(&self, tag: u64) -> Result<(), TnError> {
        self.ask(tag, TN_REARM).map(drop)
    }

    /// Forgets a tag; returns what it had counted. Not between its start and its completion.
    ///
    /// # Errors
    /// [`TriggerError::Unknown`], [`TnError::Tag`], those of launches.
    pub fn cancel(&self, tag: u64) -> Result<u32, TnError> {
        self.ask(tag, TN_CANCEL)
    }

    /// What a tag has counted since it was last re-armed.
    ///
    /// # Errors
    /// As for [`cancel`](Self::cancel).
    pub fn counted(&self, tag: u64) -> Result<u32, TnError> {
        self.ask(tag, TN_LOOK)
    }

    /// How often an operation is complete; a failed copy adds what it returned to the error.
    ///
    /// # Errors
    /// [`TnError::Memory`] where a GPU fails.
    pub fn completed(&self, of: Completion) -> Result<Completed, TnError> {
        Ok(Completed::of(self.words.load_u64(Words::at(of.word))?))
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

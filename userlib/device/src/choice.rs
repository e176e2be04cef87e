//! Which device a program uses: the library, librma2, benchmarks and tools all ask here.
//!
//! What the caller asks for counts; else the variable `GGAS_DEVICE`; else `EXTOLL_DEVICE`, as old programs' users spell it;
//! else what is there: the card where there is one, and the model where there is none. Engines on GPUs are used only when
//! they are asked for.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use ggas_gpu::{GpuError, GpuInfo, NoGpu};
use ggas_kernels::Processor;

use crate::{DeviceError, Kind, hw};

/// "sim", "hw" or "nvlink".
const DEVICE: &str = "GGAS_DEVICE";
/// "sim" or "hw".
const OLD_DEVICE: &str = "EXTOLL_DEVICE";
/// "cpu" or "gpu".
const PROCESSOR: &str = "GGAS_PROCESSOR";

/// Kinds of processors that kernels, and the engines of [`Kind::Nvlink`], run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorKind {
    /// The CPU executor.
    Cpu,
    /// A GPU.
    Gpu,
}

impl ProcessorKind {
    /// The kind of a processor.
    pub fn of(processor: &Processor) -> ProcessorKind {
        match processor {
            Processor::Cpu(_) => ProcessorKind::Cpu,
            _ => ProcessorKind::Gpu,
        }
    }
}

/// A device, chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its kind.
    pub kind: Kind,
    /// Why it.
    pub reason: Reason,
    /// Where its kernels run, where somebody said that.
    pub processor: Option<ProcessorKind>,
}

/// What made a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The caller asked for it.
    Asked,
    /// This variable of the environment says so.
    Variable(&'static str),
    /// Nothing is said, and the caller had this one in mind.
    Preferred,
    /// Nothing is said, and there is a card at this device node.
    Card(String),
    /// Nothing is said, and there is no card.
    NoCard,
}

/// Why there is no device to use.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// A word that names nothing.
    #[error("{}{word}: use {words}", variable.map(|name| format!("{name}=")).unwrap_or_default())]
    Word {
        /// The variable that has it, if one does.
        variable: Option<&'static str>,
        /// The word.
        word: String,
        /// Those that there are.
        words: &'static str,
    },
    /// Two variables say different things.
    #[error("GGAS_DEVICE={new} and EXTOLL_DEVICE={old} differ: set one of them, or both to the same word")]
    Differ {
        /// What `GGAS_DEVICE` says.
        new: Kind,
        /// What `EXTOLL_DEVICE` says.
        old: Kind,
    },
    /// The device cannot be used here.
    #[error("{}{source}{}", .reason.before(.kind), .reason.advice())]
    NotThere {
        /// The device.
        kind: Kind,
        /// Why it was chosen.
        reason: Reason,
        /// What is missing, and what to do.
        source: Box<DeviceError>,
    },
    /// The device does not serve kernels there.
    #[error(
        "{PROCESSOR}=gpu: kernels on a GPU do not reach a card yet; use {PROCESSOR}=cpu, or GGAS_DEVICE=sim"
    )]
    NoKernels,
    /// A GPU that is wanted for kernels cannot be used.
    #[error("the GPU of this host's rank {rank} cannot be used: {source}")]
    Gpu {
        /// Its number among those of its host.
        rank: u32,
        /// Why.
        source: GpuError,
    },
}

ggas_errors::debug_as_display!(ChoiceError);

impl Reason {
    /// What an error of this choice begins with.
    fn before(&self, kind: &Kind) -> String {
        match self {
            Reason::Variable(name) => format!("{name}={kind}: "),
            _ => String::new(),
        }
    }

    /// What else would do; callers that were asked for a device know that themselves.
    fn advice(&self) -> &'static str {
        match self {
            Reason::Asked | Reason::Preferred => "",
            _ => "; GGAS_DEVICE=sim takes the model",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind;
        match &self.reason {
            Reason::Asked => write!(f, "{kind}: it is asked for"),
            Reason::Variable(name) => write!(f, "{kind}: {name} says so"),
            Reason::Preferred => write!(f, "{kind}: nothing else is asked for"),
            Reason::Card(path) => write!(f, "{kind}: there is a card, {path}, and GGAS_DEVICE is not set"),
            Reason::NoCard => write!(f, "{kind}: there is no card, and GGAS_DEVICE is not set"),
        }
    }
}

impl FromStr for Kind {
    type Err = ChoiceError;

    fn from_str(word: &str) -> Result<Kind, ChoiceError> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == word);
        found.ok_or_else(|| unknown(None, word.into(), "sim, hw or nvlink"))
    }
}

fn unknown(variable: Option<&'static str>, word: OsString, words: &'static str) -> ChoiceError {
    ChoiceError::Word { variable, word: word.to_string_lossy().into_owned(), words }
}

/// Chooses the device: `asked` if the caller asks for one, else what the environment says, else what is there.
/// `processor`: where its kernels run, if the caller says that; else `GGAS_PROCESSOR`.
///
/// ```
/// use ggas_device::{Kind, choose};
///
/// let choice = choose(Some(Kind::Sim), None)?;
/// assert_eq!(choice.kind, Kind::Sim);
/// # Ok::<(), ggas_device::ChoiceError>(())
/// ```
///
/// # Errors
/// [`ChoiceError`]: a variable says what nobody knows, two differ, or the device is not there.
pub fn choose(asked: Option<Kind>, processor: Option<ProcessorKind>) -> Result<Choice, ChoiceError> {
    choose_in(&Here, asked, processor, None)
}

/// As [`choose`], for callers who have something else in mind where nobody says anything than what is there.
///
/// # Errors
/// As there.
pub fn choose_or(
    asked: Option<Kind>,
    processor: Option<ProcessorKind>,
    preferred: Kind,
) -> Result<Choice, ChoiceError> {
    choose_in(&Here, asked, processor, Some(preferred))
}

/// Whether a kind of device can be used here, with kernels on such a processor.
///
/// # Errors
/// [`DeviceError::NotAvailable`] says what is missing, and what to do.
pub fn available(kind: Kind, processor: Option<ProcessorKind>) -> Result<(), DeviceError> {
    match (kind, processor) {
        (Kind::Sim, _) | (Kind::Nvlink, Some(ProcessorKind::Cpu)) => Ok(()),
        (Kind::Hw, _) => hw::probe(),
        (Kind::Nvlink, _) => {
            let reason = joined(&ggas_gpu::probe());
            reason.map_err(|reason| DeviceError::NotAvailable { kind, reason })
        }
    }
}

/// Where kernels shall run: what the variable `GGAS_PROCESSOR` says, if it is set.
///
/// # Errors
/// [`ChoiceError::Word`].
pub fn processor_kind() -> Result<Option<ProcessorKind>, ChoiceError> {
    said_processor(&Here)
}

impl Choice {
    /// Where kernels run that use the device, of the rank that has this number on its host; for the CPU executor, why it is not a GPU, if
    /// nobody asked for it. The ranks of a host take the GPUs that they see in turn. On a card that is the CPU executor; the engines of [`Kind::Nvlink`] run
    /// there, too, and want a GPU unless the CPU executor is asked for.
    ///
    /// # Errors
    /// [`ChoiceError::NoKernels`], [`ChoiceError::Gpu`].
    pub fn processor(&self, rank: u32) -> Result<(Processor, Option<String>), ChoiceError> {
        match (self.kind, self.processor) {
            (_, Some(ProcessorKind::Cpu)) => Ok((Processor::cpu(), None)),
            (Kind::Hw, Some(ProcessorKind::Gpu)) => Err(ChoiceError::NoKernels),
            (Kind::Hw, None) => {
                let why = "kernels on a GPU do not reach a card yet, using the CPU executor";
                Ok((Processor::cpu(), Some(why.to_owned())))
            }
            (Kind::Sim, None) => Ok(match gpu(rank) {
                Ok(gpu) => (gpu, None),
                Err(why) => (Processor::cpu(), Some(format!("{why}, using the CPU executor"))),
            }),
            (Kind::Sim | Kind::Nvlink, _) => match gpu(rank) {
                Ok(gpu) => Ok((gpu, None)),
                Err(source) => Err(ChoiceError::Gpu { rank, source }),
            },
        }
    }
}

/// The GPU of a rank.
fn gpu(rank: u32) -> Result<Processor, GpuError> {
    let gpus = ggas_gpu::probe()?;
    Processor::gpu(rank as usize % gpus.len().max(1))
}

/// Where a choice is made; tests have places of their own.
trait Place {
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The device node of a card.
    fn card(&self) -> Option<String>;
    fn available(&self, kind: Kind, processor: Option<ProcessorKind>) -> Result<(), DeviceError>;
}

/// This process.
struct Here;

impl Place for Here {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn card(&self) -> Option<String> {
        hw::expected()
    }

    fn available(&self, kind: Kind, processor: Option<ProcessorKind>) -> Result<(), DeviceError> {
        available(kind, processor)
    }
}

fn choose_in(
    place: &dyn Place,
    asked: Option<Kind>,
    processor: Option<ProcessorKind>,
    preferred: Option<Kind>,
) -> Result<Choice, ChoiceError> {
    let (kind, reason) = match (asked, preferred) {
        (Some(kind), _) => (kind, Reason::Asked),
        (None, preferred) => match (said(place)?, preferred) {
            (Some((kind, name)), _) => (kind, Reason::Variable(name)),
            (None, Some(kind)) => (kind, Reason::Preferred),
            (None, None) => match place.card() {
                Some(path) => (Kind::Hw, Reason::Card(path)),
                None => (Kind::Sim, Reason::NoCard),
            },
        },
    };
    let processor = match processor {
        None => said_processor(place)?,
        given => given,
    };
    match place.available(kind, processor) {
        Ok(()) => Ok(Choice { kind, reason, processor }),
        Err(source) => Err(ChoiceError::NotThere { kind, reason, source: Box::new(source) }),
    }
}

/// What the environment says, and which variable.
fn said(place: &dyn Place) -> Result<Option<(Kind, &'static str)>, ChoiceError> {
    let new = word(place, DEVICE, "sim, hw or nvlink", Kind::ALL.map(|kind| (kind.name(), kind)))?;
    let old = word(place, OLD_DEVICE, "sim or hw", [Kind::Sim, Kind::Hw].map(|kind| (kind.name(), kind)))?;
    match (new, old) {
        (Some(new), Some(old)) if new != old => Err(ChoiceError::Differ { new, old }),
        (Some(kind), _) => Ok(Some((kind, DEVICE))),
        (None, old) => Ok(old.map(|kind| (kind, OLD_DEVICE))),
    }
}

fn said_processor(place: &dyn Place) -> Result<Option<ProcessorKind>, ChoiceError> {
    word(place, PROCESSOR, "cpu or gpu", [("cpu", ProcessorKind::Cpu), ("gpu", ProcessorKind::Gpu)])
}

/// What a variable says, one of a few words; empty is as good as not set.
fn word<T: Copy, const N: usize>(
    place: &dyn Place,
    name: &'static str,
    words: &'static str,
    known: [(&str, T); N],
) -> Result<Option<T>, ChoiceError> {
    let Some(value) = place.variable(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    match known.iter().find(|(word, _)| value == *word) {
        Some((_, meant)) => Ok(Some(*meant)),
        None => Err(unknown(Some(name), value, words)),
    }
}

/// Whether engines can be joined on these GPUs; if not, what to do. Where a process sees one alone, those of other processes
/// may be others: that shows when they meet.
fn joined(gpus: &Result<Vec<GpuInfo>, NoGpu>) -> Result<(), String> {
    let why = match gpus {
        Err(error) => error.to_string(),
        Ok(gpus) if gpus.is_empty() => "there is no GPU".to_owned(),
        Ok(gpus) if gpus.len() > 1 && !any_peers(gpus) => {
            "no GPU here can access the memory of another (`ggas info` shows it)".to_owned()
        }
        Ok(_) => return Ok(()),
    };
    Err(format!("{why}; {PROCESSOR}=cpu has the CPU executor do the engines' work"))
}

fn any_peers(gpus: &[GpuInfo]) -> bool {
    let reaches =
        |gpu: &GpuInfo| gpu.peers.iter().enumerate().any(|(i, peer)| i != gpu.ordinal && peer.access);
    gpus.iter().any(reaches)
}

#[cfg(test)]
mod tests;

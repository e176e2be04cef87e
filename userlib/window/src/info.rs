//! What a window can do (design section 4).

use std::fmt;

/// What a window can do. Devices differ, so programs ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowInfo {
    /// Whether kernels reach all parts by plain loads and stores, and why not.
    pub mapped: Result<Mapping, String>,
    /// Whether kernels may use atomics on all parts. Mapped memory has them, and the model's SMFU, on parts in GPU memory where
    /// the copier of each such GPU started with the window; a card's SMFU has none.
    pub atomics: bool,
    /// Whether the `store` and `load` calls reach the parts through the SMFU, and why not.
    pub trapped: Result<(), String>,
    /// Bytes of each part that the user may use.
    pub bytes: usize,
    /// Bytes from part to part.
    pub stride: usize,
}

/// How kernels reach the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Memory of this process: the CPU executor.
    Process,
    /// Memory that several processes share: the CPU executor of each.
    Processes,
    /// Memory of GPUs, mapped for their peers.
    Peers,
    /// Memory of nodes that their cards join: loads and stores are the SMFU's.
    Card,
    /// The same of the model's cards, for kernels of the CPU executor: by the functions of the kernels' headers only.
    Trapped,
}

impl WindowInfo {
    /// Whether loads and stores of kernels are the cards', through their SMFUs.
    pub fn passes_the_cards(&self) -> bool {
        matches!(self.mapped, Ok(Mapping::Card | Mapping::Trapped))
    }
}

impl fmt::Display for WindowInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mapped {
            Ok(Mapping::Process) => f.write_str("mapped in this process")?,
            Ok(Mapping::Processes) => f.write_str("mapped in all processes")?,
            Ok(Mapping::Peers) => f.write_str("mapped on the GPUs")?,
            Ok(Mapping::Card) => f.write_str("mapped through the card's SMFU")?,
            Ok(Mapping::Trapped) => f.write_str("trapped by the model's SMFU")?,
            Err(reason) => write!(f, "not mapped ({reason})")?,
        }
        write!(f, "; remote atomics: {}", if self.atomics { "yes" } else { "no" })?;
        match &self.trapped {
            Ok(()) => f.write_str("; trapped access through the SMFU"),
            Err(reason) => write!(f, "; no access through the SMFU ({reason})"),
        }
    }
}

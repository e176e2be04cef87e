//! How writes between GPUs go; limits that differ from machine to machine.

use ggas_coll::{GaspiLimits, Tuning, device_of};

use crate::{Gaspi, GaspiError};

/// By what hosts write between segments in GPU memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuWay {
    /// By the GPUs where the processes drive GPUs that reach each other, else by the network device.
    #[default]
    Auto,
    /// By the network device, as all other requests; collectives of vectors in GPU memory go through the host then.
    Card,
    /// Without the network device: by what [`GpuCopies`] says.
    Direct,
}

/// How the GPU of the source writes over NVLink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuCopies {
    /// By size: a kernel on standby, one copy engine, stores, then the hybrid.
    #[default]
    BySize,
    /// A kernel that stores.
    Stores,
    /// A copy engine.
    Engine,
    /// Pieces in turns by two streams, behind which they meet.
    Hybrid,
}

/// How GPUs are used (thesis 4.4.3). The numbers are of the machine: `ggas tune` measures them for [`tuned`](Self::tuned).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuConfig {
    /// By what hosts write between segments in GPU memory.
    pub way: GpuWay,
    /// How, without the network device.
    pub copies: GpuCopies,
    /// Longest write by a kernel on standby, bytes; at most 2^20. It stays on the GPU for 100 µs after the last one: so much
    /// longer may whoever waits for the whole GPU wait.
    pub standby_max: u64,
    /// Longest write by one copy engine, bytes; a kernel stores longer ones, by many multiprocessors.
    pub engine_max: u64,
    /// Longest write by stores, bytes; above it the hybrid writes.
    pub stores_max: u64,
    /// Bytes of a piece of the hybrid; at least 1.
    pub piece: u64,
    /// Longest [`gpu_write`](crate::Gaspi::gpu_write) that the network device fetches from GPU memory itself, bytes; above it
    /// the data go through host memory.
    pub staged_min: u64,
    /// Bytes of a piece that goes through host memory, at least 1; two are under way.
    pub staged_piece: u64,
}

impl Default for GpuConfig {
    fn default() -> GpuConfig {
        GpuConfig {
            way: GpuWay::Auto,
            copies: GpuCopies::BySize,
            // On two H100: a launch costs more than a copy, and stores outdo a copy engine from here on.
            standby_max: 4 << 10,
            engine_max: 128 << 10,
            stores_max: 1 << 30,
            piece: 2 << 20,
            staged_min: 32 << 10,
            staged_piece: 128 << 10,
        }
    }
}

impl GpuConfig {
    /// With the limits that `ggas tune` has measured for this process's GPU, or else the default ones. A table of which any is out
    /// of range is logged and not used.
    pub fn tuned(gaspi: &Gaspi) -> GpuConfig {
        let usual = GpuConfig::default();
        let Ok((processor, _)) = gaspi.job().processor() else { return usual };
        let table = Tuning::of_host();
        let Some(limits) = table.gaspi(&device_of(&processor)) else { return usual };
        let config = GpuConfig::of(limits);
        match config.check() {
            Ok(()) => config,
            Err(_) => {
                tracing::warn!(
                    "the table of `ggas tune` has limits for GASPI that are out of range: {limits:?}"
                );
                usual
            }
        }
    }

    fn of(limits: &GaspiLimits) -> GpuConfig {
        let GaspiLimits { standby_max, engine_max, stores_max, piece, staged_min, staged_piece, .. } =
            *limits;
        let usual = GpuConfig::default();
        GpuConfig { standby_max, engine_max, stores_max, piece, staged_min, staged_piece, ..usual }
    }

    /// # Errors
    /// [`GaspiError::Config`]: a piece of no bytes, or of more than 2^30; more than 2^20 bytes by the kernel on standby.
    pub(crate) fn check(&self) -> Result<(), GaspiError> {
        let piece = 1..=1 << 30;
        let is_short = self.standby_max <= 1 << 20;
        if is_short && piece.contains(&self.piece) && piece.contains(&self.staged_piece) {
            Ok(())
        } else {
            Err(GaspiError::Config)
        }
    }

    /// By what a copy of so many bytes goes, unless a kernel on standby takes it.
    pub(super) fn how(&self, bytes: u64) -> GpuCopies {
        match self.copies {
            GpuCopies::BySize if bytes <= self.engine_max => GpuCopies::Engine,
            GpuCopies::BySize if bytes <= self.stores_max => GpuCopies::Stores,
            GpuCopies::BySize => GpuCopies::Hybrid,
            chosen => chosen,
        }
    }

    /// Whether a kernel on standby may take such a copy.
    pub(super) fn is_short(&self, bytes: u64) -> bool {
        self.copies == GpuCopies::BySize && self.standby_max > 0 && bytes <= self.standby_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_choose_and_a_chosen_way_holds_for_all() {
        let config = GpuConfig { standby_max: 10, engine_max: 100, stores_max: 1000, ..GpuConfig::default() };
        let chosen = [1, 100, 101, 1000, 1001].map(|bytes| config.how(bytes));
        use GpuCopies::{Engine, Hybrid, Stores};
        assert_eq!(chosen, [Engine, Engine, Stores, Stores, Hybrid]);
        assert_eq!([0, 10, 11].map(|bytes| config.is_short(bytes)), [true, true, false]);
        assert!(!GpuConfig { standby_max: 0, ..config }.is_short(0));
        let config = GpuConfig { copies: Engine, ..config };
        assert_eq!([1, 1 << 30].map(|bytes| config.how(bytes)), [Engine, Engine]);
        assert!(!config.is_short(1));
    }

    #[test]
    fn a_table_has_all_limits() {
        let device = "GPU".to_owned();
        let (standby_max, engine_max, stores_max, piece, staged_min, staged_piece) = (1, 2, 3, 4, 5, 6);
        let limits =
            GaspiLimits { device, standby_max, engine_max, stores_max, piece, staged_min, staged_piece };
        let config = GpuConfig::of(&limits);
        assert_eq!((config.standby_max, config.engine_max, config.stores_max), (1, 2, 3));
        assert_eq!((config.piece, config.staged_min, config.staged_piece), (4, 5, 6));
    }
}

//! The levels of the stencil.

use ggas_hpe::Tracking;

/// The paper's listings, and what it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Listing 1: a thread uses its device only, so boundaries pass memory of the host.
    Proxy,
    /// Listing 2: a thread copies from its neighbours' devices.
    Sharing,
    /// Listing 3: kernels read their neighbours' boundaries.
    Remote,
    /// Listing 4: the cube is in shared objects, whose pointers are the host's, too.
    Shared,
    /// Listing 2 with boundaries computed first, and exchanged beside the rest of the computation.
    Overlap,
    /// Listing 4 in CUDA's managed memory, today's rival of shared objects: on GPUs only.
    Managed,
    /// Listing 4 with shared objects by `userfaultfd` in place of `mprotect`.
    Userfault,
}

impl Level {
    pub const ALL: [Level; 7] = [
        Level::Proxy,
        Level::Sharing,
        Level::Remote,
        Level::Shared,
        Level::Overlap,
        Level::Managed,
        Level::Userfault,
    ];
    pub const NAMES: [&'static str; 7] =
        ["proxy", "sharing", "remote", "shared", "overlap", "managed", "userfault"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether kernels do, which then have to reach their devices.
    pub fn reads_neighbours(self) -> bool {
        matches!(self, Level::Remote | Level::Shared | Level::Managed | Level::Userfault)
    }

    /// Whether a step is one call for all devices: listing 4.
    pub fn is_of_all_devices(self) -> bool {
        self.has_objects() || self == Level::Managed
    }

    /// Whether the cube is in shared objects.
    pub fn has_objects(self) -> bool {
        matches!(self, Level::Shared | Level::Userfault)
    }

    pub fn tracking(self) -> Tracking {
        if self == Level::Userfault { Tracking::Userfault } else { Tracking::Protect }
    }
}

//! What the host chooses.

use std::time::Duration;

use ggas_clock::{Clock, Ladder};

use crate::GmpiError;

/// Where the rings of a port lie, and how an entry shows that it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In host memory that kernels reach; a counter tells of entries. A kernel stores an attribute across the bus in one go, and looks
    /// across it for the answer; the daemon looks at its own memory.
    Mapped,
    /// The same memory, but each 16 bytes carry their entry's number (the 16-byte commands of today's proxies): no counter and
    /// no fence between an attribute and it, and one look brings an answer: two crossings less.
    #[default]
    Tagged,
    /// In GPU memory, which the daemon reads and writes by copies (the paper's way, without gdrcopy): kernels look at their own memory, and the
    /// daemon's look is a copy.
    Copied,
    /// The same memory, which the daemon reaches across the bus by gdrcopy, the paper's way: kernels look at their own memory, and each look
    /// of the daemon crosses the bus. Takes gdrcopy's library and its kernel module.
    Gdrcopy,
}

/// Those that every machine has.
pub const PLACEMENTS: [Placement; 3] = [Placement::Mapped, Placement::Tagged, Placement::Copied];

/// What the daemon does while nobody calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// Looks again at once: the shortest calls, and a core of the host all the time.
    Spin,
    /// Looks, and lets other threads have the core in between: as short where nobody wants the core.
    Yield,
    /// Spins, then yields, then naps, ever longer up to `nap`: after a quiet time a call takes up to a nap longer.
    #[default]
    Sleep,
}

impl Polling {
    /// Longest nap of [`Sleep`](Polling::Sleep).
    pub const NAP: Duration = Duration::from_micros(100);

    pub(crate) fn ladder(self) -> Ladder {
        let naps = (Duration::from_micros(20), Self::NAP);
        match self {
            Polling::Spin => Ladder { spins: u32::MAX, yields: 0, naps, part: 0 },
            Polling::Yield => Ladder { spins: 16, yields: u32::MAX - 16, naps, part: 0 },
            Polling::Sleep => Ladder { spins: 64, yields: 2000, naps, part: 0 },
        }
    }
}

/// What kernels get, and how the daemon serves them.
#[derive(Clone, Debug)]
pub struct Config {
    /// Blocks that may call, each by a port of its own: 1 to 1,024; 1 by default.
    pub ports: u32,
    /// One context for the whole grid, as in the paper: block 0 calls, calls of other blocks return at once.
    pub single: bool,
    /// Attributes that a port has room for, a power of two from 2 to 4,096; 64 by default.
    pub entries: u32,
    /// Where rings lie.
    pub placement: Placement,
    /// What the daemon does while nobody calls.
    pub polling: Polling,
    /// How long a call that waits may take; then it gets `GMPI_ERR_TIMEOUT`. 30 s by default.
    pub timeout: Duration,
    /// How much longer kernels wait for the daemon, before they take it for dead (`GMPI_ERR_DAEMON`). 5 s by default.
    pub grace: Duration,
    /// The daemon's clock.
    pub clock: Clock,
    /// The clock of calls of the host that wait for the daemon.
    pub host_clock: Clock,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ports: 1,
            single: false,
            entries: 64,
            placement: Placement::default(),
            polling: Polling::default(),
            timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            clock: Clock::real(),
            host_clock: Clock::real(),
        }
    }
}

impl Config {
    /// Most ports.
    pub const PORTS: u32 = 1024;

    pub(crate) fn check(&self) -> Result<(), GmpiError> {
        let refuse =
            |what, value: u32, allowed| Err(GmpiError::Config { what, value: value.into(), allowed });
        if !(1..=Self::PORTS).contains(&self.ports) {
            return refuse("the number of ports", self.ports, "1 to 1024");
        }
        if self.single && self.ports != 1 {
            return refuse("the number of ports of a single context", self.ports, "1");
        }
        if !(2..=4096).contains(&self.entries) || !self.entries.is_power_of_two() {
            return refuse("the number of entries of a ring", self.entries, "a power of two from 2 to 4096");
        }
        // The host waits as long for the daemon, which would have answered nothing by then.
        if self.timeout.is_zero() && self.grace.is_zero() {
            return refuse("the time of a call and of its daemon", 0, "more");
        }
        Ok(())
    }
}

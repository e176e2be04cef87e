//! Why a process of the suite ended before its time.

use std::fmt;
use std::process::ExitCode;

use ggas::{
    ExchangeError, GroupError, JobError, JoinError, LaunchError, LockError, PortError, PostError,
    RegionError, WaitError, WindowError,
};

/// See the module's description.
#[derive(Debug)]
pub enum Trouble {
    /// A peer is gone.
    Lost(String),
    /// A peer did not answer in time.
    Late(String),
    /// Wrong data, or an error that nothing explains.
    Wrong(String),
}

impl Trouble {
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Trouble::Wrong(_) => 1,
            Trouble::Lost(_) => 3,
            Trouble::Late(_) => 4,
        })
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Lost(text) => write!(f, "peer lost: {text}"),
            Trouble::Late(text) => write!(f, "too late: {text}"),
            Trouble::Wrong(text) => write!(f, "WRONG: {text}"),
        }
    }
}

impl From<JobError> for Trouble {
    fn from(error: JobError) -> Trouble {
        match error {
            JobError::PeerLost { .. } | JobError::Gone { .. } | JobError::Missing { .. } => {
                Trouble::Lost(error.to_string())
            }
            JobError::Timeout { .. } => Trouble::Late(error.to_string()),
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<JoinError> for Trouble {
    fn from(error: JoinError) -> Trouble {
        match error {
            JoinError::Job(error) => error.into(),
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<ExchangeError> for Trouble {
    fn from(error: ExchangeError) -> Trouble {
        match error {
            ExchangeError::Job(error) => error.into(),
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<WindowError> for Trouble {
    fn from(error: WindowError) -> Trouble {
        match error {
            WindowError::Job(error) => error.into(),
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<GroupError> for Trouble {
    fn from(error: GroupError) -> Trouble {
        match error {
            GroupError::PeerLost { .. } => Trouble::Lost(error.to_string()),
            GroupError::Window(error) => error.into(),
            GroupError::Failed { .. } | GroupError::Poisoned { .. } => Trouble::Late(error.to_string()),
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<PostError> for Trouble {
    fn from(error: PostError) -> Trouble {
        match error {
            PostError::PeerLost(_) => Trouble::Lost(error.to_string()),
            PostError::Timeout { .. } => Trouble::Late(error.to_string()),
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<WaitError> for Trouble {
    fn from(error: WaitError) -> Trouble {
        match error {
            WaitError::PeerLost { .. } => Trouble::Lost(error.to_string()),
            WaitError::Timeout { .. } => Trouble::Late(error.to_string()),
            _ => Trouble::Wrong(error.to_string()),
        }
    }
}

impl From<LockError> for Trouble {
    fn from(error: LockError) -> Trouble {
        match error {
            LockError::Post(error) => error.into(),
            LockError::Wait(error) => error.into(),
            // Who gives up closes its port, and then refuses what still comes.
            _ => Trouble::Lost(error.to_string()),
        }
    }
}

macro_rules! always_wrong {
    ($($error:ty),*) => {
        $(impl From<$error> for Trouble {
            fn from(error: $error) -> Trouble {
                Trouble::Wrong(error.to_string())
            }
        })*
    };
}

always_wrong!(PortError, RegionError, LaunchError, ggas::device::DeviceError, ggas::kernels::MemoryError);

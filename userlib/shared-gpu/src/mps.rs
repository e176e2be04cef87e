//! MPS, by which a GPU runs the work of several processes at once; without it they take turns (5.1).

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::SharedGpuError;

/// Where the daemon's files are unless `CUDA_MPS_PIPE_DIRECTORY` says otherwise.
const FOLDER: &str = "/tmp/nvidia-mps";

/// Whether processes that start now reach the daemon of MPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mps {
    /// A daemon runs, with its files here.
    On(PathBuf),
    /// None has its files here.
    Off(PathBuf),
}

impl Mps {
    /// Looks where the driver would.
    pub fn find() -> Mps {
        let folder = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").filter(|folder| !folder.is_empty());
        Mps::at(folder.map_or_else(|| FOLDER.into(), PathBuf::from))
    }

    fn at(folder: PathBuf) -> Mps {
        if is_served(&folder) { Mps::On(folder) } else { Mps::Off(folder) }
    }

    /// Whether there is one.
    pub fn is_on(&self) -> bool {
        matches!(self, Mps::On(_))
    }

    /// A failure of a call of ranks that were set up with MPS as it was then: where the daemon has ended since, that is why work
    /// on the GPU failed, or does not end.
    pub(crate) fn explain(&self, error: SharedGpuError) -> SharedGpuError {
        let may_follow = matches!(error, SharedGpuError::Gpu(_) | SharedGpuError::Timeout { .. });
        match self {
            Mps::On(folder) if may_follow && !is_served(folder) => {
                SharedGpuError::MpsEnded { folder: folder.clone(), what: error.to_string() }
            }
            _ => error,
        }
    }
}

impl fmt::Display for Mps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mps::On(folder) => write!(f, "MPS is on ({})", folder.display()),
            Mps::Off(folder) => write!(
                f,
                "MPS is off: processes take turns on the GPU; `nvidia-cuda-mps-control -d` starts it (no daemon in {})",
                folder.display()
            ),
        }
    }
}

/// The daemon's pipe is there, and the daemon that left its number beside it runs.
fn is_served(folder: &Path) -> bool {
    let number = fs::read_to_string(folder.join("nvidia-cuda-mps-control.pid"));
    let runs = |number: String| Path::new("/proc").join(number.trim()).exists();
    folder.join("control").exists() && number.map_or(true, runs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_daemon_is_found_by_its_pipe_while_it_runs() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let find = || Mps::at(folder.clone());
        assert!(!find().is_on(), "nothing is there");
        fs::write(folder.join("control"), "").expect("a file");
        assert!(find().is_on(), "a pipe alone");
        let number = folder.join("nvidia-cuda-mps-control.pid");
        fs::write(&number, format!("{}\n", std::process::id())).expect("a file");
        assert_eq!(find(), Mps::On(folder.clone()));
        fs::write(&number, "4294967295\n").expect("a file");
        assert!(!find().is_on(), "its daemon ended");
        assert!(find().to_string().contains("nvidia-cuda-mps-control -d"));
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_daemon_that_ended_since_the_set_up_explains_what_failed() {
        let folder = std::env::temp_dir().join(format!("ggas-mps-ended-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("control"), "").expect("a file");
        let mps = Mps::at(folder.clone());
        let gpu = || ggas_gpu::GpuError::Invalid("the GPU answers nothing".to_owned()).into();
        let late = || SharedGpuError::Timeout { rank: 1, what: "the GPU", waited: Duration::from_secs(1) };
        assert!(matches!(mps.explain(gpu()), SharedGpuError::Gpu(_)), "the daemon runs");
        fs::remove_dir_all(&folder).expect("ours");
        for error in [gpu(), late()] {
            let text = mps.explain(error).to_string();
            let names = [folder.to_str().expect("text"), "nvidia-cuda-mps-control -d", "new job"];
            assert!(names.iter().all(|name| text.contains(name)), "{text}");
        }
        assert!(mps.explain(gpu()).to_string().contains("the GPU answers nothing"), "the first reason, too");
        assert!(matches!(mps.explain(SharedGpuError::PeerLost { rank: 1 }), SharedGpuError::PeerLost { .. }));
        assert!(matches!(Mps::at(folder).explain(gpu()), SharedGpuError::Gpu(_)), "there was none");
    }
}

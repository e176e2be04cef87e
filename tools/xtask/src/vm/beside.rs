//! A program of this host beside guests, in one network with their cards.

use super::logs;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The network's name.
pub const NETWORK: &str = "guests";
/// From the end of the cards' server to its own.
const END: Duration = Duration::from_secs(120);

/// What such a program needs.
pub struct Beside {
    /// Folder of networks that nobody else uses.
    pub network: PathBuf,
    /// The first guest's log, by which it knows what the guest is at.
    guest: PathBuf,
    log: PathBuf,
    program: Option<Child>,
}

impl Beside {
    /// For the program of this name, and the guests of this stem in the folder of runs.
    pub fn new(name: &str, dir: &Path, stem: &str) -> Beside {
        // Short, as paths of sockets have to be.
        let network = std::env::temp_dir().join(format!("extoll-{name}-{}", std::process::id()));
        let (guest, log) = (dir.join(format!("{stem}-0.log")), dir.join(format!("{stem}-host.log")));
        Beside { network, guest, log, program: None }
    }

    /// Starts it, on the node behind those of the guests.
    pub fn start(mut self, program: &Path, node: u32) -> Result<Beside> {
        let mut command = Command::new(program);
        command.arg(&self.guest).env("GGAS_RUNTIME_DIR", &self.network).env("GGAS_NETWORK", NETWORK);
        command.env("GGAS_NODE", node.to_string()).env("GGAS_DEVICE", "sim").env_remove("EXTOLL_DEVICE");
        let log = File::create(&self.log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        self.program = Some(child);
        Ok(self)
    }

    /// Waits for its end, where `well` says that the guests ended well; else it is ended. It has to end with 0, and
    /// leave nothing of the network.
    pub fn finish(mut self, well: bool) -> Result<()> {
        let end = Instant::now() + if well { END } else { Duration::ZERO };
        let Some(program) = &mut self.program else { return Ok(()) };
        let status = loop {
            if let Some(status) = program.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                bail!("the host's program still runs:\n{}", logs::text(&self.log));
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        if !status.success() {
            bail!("the host's program: {status}\n{}", logs::text(&self.log));
        }
        // Seen here, not asked of the library: that clears away what the dead have left.
        if self.network.join(NETWORK).exists() {
            bail!("network {NETWORK} is left in {}", self.network.display());
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(program) = &mut self.program {
            // One that has ended is not there to be killed.
            let _ = program.kill();
            let _ = program.wait();
        }
        let _ = fs::remove_dir_all(&self.network);
    }
}

//! `ucx_perftest`, which we compare with: Debian's package ucx-utils.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::BenchError;

/// What to do where the program is missing.
pub(crate) const INSTALL: &str = "ucx_perftest is missing: apt install ucx-utils";

/// A run longer than this is ended.
const LIMIT: Duration = Duration::from_secs(20);

/// Half a round trip, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latency {
    pub median: f64,
    pub average: f64,
}

/// Version of the UCX that is installed; `None` if there is none.
pub(crate) fn version() -> Option<String> {
    let told = Command::new("ucx_info").arg("-v").stdin(Stdio::null()).output().ok()?;
    Command::new("ucx_perftest").arg("-h").stdin(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8_lossy(&told.stdout)).map(str::to_owned)
}

/// "1.13.1" of "# UCT version=1.13.1 revision 09f27c0" or "# Library version: 1.14.0".
fn version_in(text: &str) -> Option<&str> {
    let rest = text.split_once("ersion")?.1.trim_start_matches([':', '=', ' ']);
    rest.split_whitespace().next()
}

/// Tag latency of `bytes` between two processes pinned to `cores`, over posix shared memory.
///
/// # Errors
/// [`BenchError::Unsupported`]: the program failed or said nothing within [`LIMIT`].
pub(crate) fn tag_latency(bytes: u64, iterations: u64, cores: [usize; 2]) -> Result<Latency, BenchError> {
    let port = free_port()?.to_string();
    let mut server = Run::start(&["-p", &port, "-c", &cores[1].to_string()])?;
    let begun = Instant::now();
    let [size, count, warm_up] = [bytes, iterations, iterations / 10].map(|number| number.to_string());
    let core = cores[0].to_string();
    let client = ["127.0.0.1", "-p", &port, "-t", "tag_lat", "-s", &size, "-n", &count, "-w", &warm_up];
    let options = ["-c", &core, "-f", "-v"];
    // The server says nothing when it listens, so the client tries until it does.
    loop {
        let mut run = Run::start(&[&client[..], &options[..]].concat())?;
        let output = run.finish(LIMIT)?;
        match (latency_in(&output), server.ended()) {
            (Some(latency), _) => {
                server.finish(LIMIT)?;
                return Ok(latency);
            }
            (None, false) if begun.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(50)),
            (None, _) => return Err(failed(&output)),
        }
    }
}

/// The figures in the program's comma-separated output.
fn latency_in(output: &str) -> Option<Latency> {
    let mut lines = output.lines().skip_while(|line| !line.starts_with("iterations,"));
    let (titles, values) = (lines.next()?, lines.next()?);
    let column = |wanted: &str| {
        let index = titles.split(',').position(|title| title == wanted)?;
        values.split(',').nth(index)?.parse().ok()
    };
    Some(Latency { median: column("50.0_percentile_lat")?, average: column("overall_lat")? })
}

/// A port that nobody uses now.
fn free_port() -> Result<u16, BenchError> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| failed(&error.to_string()))
}

fn failed(why: &str) -> BenchError {
    BenchError::Unsupported(format!("ucx_perftest gave no result: {}", why.trim()))
}

/// One process of the program; ended when dropped.
struct Run(Child);

impl Run {
    fn start(arguments: &[&str]) -> Result<Self, BenchError> {
        Command::new("ucx_perftest")
            .args(arguments)
            .env("UCX_TLS", "posix,self")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(|error| failed(&error.to_string()))
    }

    fn ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Waits for its end and gives its output, which is short.
    fn finish(&mut self, limit: Duration) -> Result<String, BenchError> {
        let begun = Instant::now();
        while !self.ended() {
            if begun.elapsed() > limit {
                return Err(failed(&format!("it ran longer than {} s", limit.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut output = String::new();
        if let Some(stdout) = &mut self.0.stdout {
            let _ = stdout.read_to_string(&mut output);
        }
        Ok(output)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_figures() {
        let text = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n\
                    200000,0.161,2.855,0.301,2.67,0.51,350308,66561\n";
        assert_eq!(latency_in(text), Some(Latency { median: 0.161, average: 0.301 }));
        assert_eq!(latency_in("[error] connection refused"), None);
        assert_eq!(latency_in("iterations,avg_lat\n"), None);
    }

    #[test]
    fn reads_the_version() {
        assert_eq!(version_in("# UCT version=1.13.1 revision 09f27c0\n"), Some("1.13.1"));
        assert_eq!(version_in("# Library version: 1.14.0\n"), Some("1.14.0"));
        assert_eq!(version_in("not found"), None);
    }
}

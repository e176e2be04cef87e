//! The first version of PMI, by which `mpiexec` of MPICH (hydra) and of its kin tell processes who they are: lines of text on a socket that
//! the process inherits. There is no library for it.
//!
//! A program that uses MPI as well says the same on the same socket, by itself. The launcher closes it at the first word of an end, so
//! this one is said when the process exits: whatever MPI had to say is said by then.

use std::env;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{FromRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::PmixError;

/// Variables that such launchers set.
pub const LAUNCHED: [&str; 3] = ["PMI_FD", "PMI_RANK", "PMI_SIZE"];
/// Longest line that a launcher may answer with.
const LINE_MAX: usize = 1 << 16;
/// How long a launcher may take to answer what needs no other rank.
const ANSWER: Duration = Duration::from_secs(60);
/// Bytes of a value that go under one key: hydra takes 1,023 characters.
const PART: usize = 256;

/// The socket, and the process that is to say that it ends.
static SOCKET: OnceLock<(RawFd, u32)> = OnceLock::new();
/// Values that went round, alike in all ranks: keys are never used twice.
static ROUNDS: AtomicU32 = AtomicU32::new(0);

/// What a process is told when it begins.
#[derive(Debug)]
pub struct Told {
    pub rank: u32,
    pub size: u32,
    /// Of the launcher's table of values, which names the job.
    pub name: String,
}

/// A conversation with a launcher.
struct Talk<S>(S);

fn failed(what: &'static str, why: impl ToString) -> PmixError {
    PmixError::Pmi { what, why: why.to_string() }
}

/// The value of `name=value` in an answer.
fn word<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

impl<S: Read + Write> Talk<S> {
    /// Says a line; the answer, which has to be this one.
    fn ask(&mut self, what: &'static str, line: &str, answer: &str) -> Result<String, PmixError> {
        self.0.write_all(format!("{line}\n").as_bytes()).map_err(|error| failed(what, error))?;
        let said = self.line().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                failed(what, "no answer in time: a rank has ended, or takes long to come this far")
            }
            _ => failed(what, error),
        })?;
        let good = word(&said, "cmd") == Some(answer) && word(&said, "rc").is_none_or(|rc| rc == "0");
        if good { Ok(said) } else { Err(failed(what, format!("the launcher says `{said}`"))) }
    }

    /// Byte for byte: what comes behind it may be for MPI.
    fn line(&mut self) -> io::Result<String> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            self.0.read_exact(&mut byte)?;
            match byte[0] {
                b'\n' => return String::from_utf8(line).map_err(io::Error::other),
                _ if line.len() == LINE_MAX => return Err(io::Error::other("its answer does not end")),
                byte => line.push(byte),
            }
        }
    }

    fn begin(&mut self, rank: u32, size: u32) -> Result<Told, PmixError> {
        self.ask("init", "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let said = self.ask("get_my_kvsname", "cmd=get_my_kvsname", "my_kvsname")?;
        let name = word(&said, "kvsname").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| failed("get_my_kvsname", format!("the launcher says `{said}`")))?;
        Ok(Told { rank, size, name: name.to_owned() })
    }

    /// Everyone gets what rank 0 gives.
    fn of_rank_0(&mut self, told: &Told, key: &str, own: &[u8]) -> Result<Vec<u8>, PmixError> {
        let table = &told.name;
        if told.rank == 0 {
            let mut parts: Vec<String> = own.chunks(PART).map(hex).collect();
            parts.push("end".to_owned());
            for (number, part) in parts.iter().enumerate() {
                let line = format!("cmd=put kvsname={table} key={key}.{number} value={part}");
                self.ask("put", &line, "put_result")?;
            }
        }
        self.ask("barrier", "cmd=barrier_in", "barrier_out")?;
        let mut whole = Vec::new();
        for number in 0.. {
            let said =
                self.ask("get", &format!("cmd=get kvsname={table} key={key}.{number}"), "get_result")?;
            match word(&said, "value") {
                Some("end") => break,
                part => whole.extend(
                    part.and_then(bytes)
                        .ok_or_else(|| failed("get", format!("the launcher says `{said}`")))?,
                ),
            }
        }
        Ok(whole)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| (*digit as char).to_digit(16);
    hex.as_bytes().chunks(2).map(|two| Some((digit(&two[0])? << 4 | digit(two.get(1)?)?) as u8)).collect()
}

/// With the launcher, on this socket, as long as no answer takes longer than this: a `TcpStream` of any kind of socket, as its calls are `send` and `recv`, which raise no SIGPIPE.
fn with<T>(
    socket: RawFd,
    limit: Duration,
    talk: impl FnOnce(&mut Talk<&TcpStream>) -> Result<T, PmixError>,
) -> Result<T, PmixError> {
    // SAFETY: it stays open, as `ManuallyDrop` closes nothing; what is no socket fails at the first call.
    let stream = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(socket) });
    let set = |limit| stream.set_read_timeout(limit).map_err(|error| failed("PMI_FD", error));
    set(Some(limit.max(Duration::from_millis(1))))?;
    let result = talk(&mut Talk(&stream));
    set(None)?; // MPI may wait as long as it likes
    result
}

/// Whether such a launcher has started this process.
pub fn is_launched() -> bool {
    LAUNCHED.iter().all(|name| env::var_os(name).is_some())
}

fn number<T: std::str::FromStr>(name: &'static str) -> Result<T, PmixError> {
    let value = env::var(name).unwrap_or_default();
    value.parse().map_err(|_| failed(name, format!("`{value}` is no number")))
}

/// Begins.
pub fn begin() -> Result<Told, PmixError> {
    let socket: RawFd = number("PMI_FD")?;
    let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
    if socket < 0 || rank >= size {
        return Err(failed("PMI_RANK", format!("rank {rank} of {size}, socket {socket}")));
    }
    let told = with(socket, ANSWER, |talk| talk.begin(rank, size))?;
    if SOCKET.set((socket, std::process::id())).is_ok() {
        // SAFETY: a function that may be called at any time; where it is not registered the launcher takes this end for a bad one.
        unsafe { atexit(say_the_end) };
    }
    Ok(told)
}

/// Everyone gets what rank 0 gives, if all call it within this time.
pub fn of_rank_0(told: &Told, key: &str, own: &[u8], within: Duration) -> Result<Vec<u8>, PmixError> {
    let key = format!("{key}.{}", ROUNDS.fetch_add(1, Ordering::Relaxed));
    with(number("PMI_FD")?, within, |talk| talk.of_rank_0(told, &key, own))
}

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

extern "C" fn say_the_end() {
    if let Some((socket, _)) = SOCKET.get().filter(|(_, process)| *process == std::process::id()) {
        // MPI may have said it.
        let _ = with(*socket, ANSWER, |talk| talk.ask("finalize", "cmd=finalize", "finalize_ack"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::thread;

    /// A launcher that answers so, one line after the other; what it was asked.
    fn launcher(answers: Vec<String>) -> (Talk<UnixStream>, thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            let answer = |answer: &String| {
                let asked = lines.next()?.ok()?;
                (&theirs).write_all(format!("{answer}\n").as_bytes()).ok()?;
                Some(asked)
            };
            answers.iter().map_while(answer).collect()
        });
        (Talk(ours), served)
    }

    const BEGUN: [&str; 2] =
        ["cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0", "cmd=my_kvsname kvsname=kvs_7"];

    #[test]
    fn rank_0_puts_in_parts_and_gets_them_back() {
        let own: Vec<u8> = (0..=255).chain(0..44).collect();
        let parts = [hex(&own[..PART]), hex(&own[PART..]), "end".to_owned()];
        let mut answers = BEGUN.map(str::to_owned).to_vec();
        answers.extend(["cmd=put_result rc=0 msg=success"; 3].map(str::to_owned));
        answers.push("cmd=barrier_out".to_owned());
        answers.extend(parts.map(|part| format!("cmd=get_result rc=0 msg=success value={part}")));
        let (mut talk, served) = launcher(answers);
        let told = talk.begin(0, 2).unwrap();
        assert_eq!(told.name, "kvs_7");
        assert_eq!(talk.of_rank_0(&told, "meet.0", &own).unwrap(), own);
        drop(talk);
        let asked = served.join().unwrap();
        assert_eq!(asked[3], format!("cmd=put kvsname=kvs_7 key=meet.0.1 value={}", hex(&own[PART..])));
        assert!(asked.iter().all(|line| line.len() < 1024), "hydra takes no longer values");
    }

    #[test]
    fn what_launchers_refuse_or_garble_is_an_error_that_says_so() {
        for (answers, part) in [
            (&["cmd=response_to_init rc=-1"][..], "rc=-1"),
            (&[BEGUN[0], "cmd=my_kvsname"][..], "cmd=my_kvsname"),
            (&["garbage"][..], "garbage"),
            (&[][..], "init"),
        ] {
            let (mut talk, _served) = launcher(answers.iter().map(|said| said.to_string()).collect());
            let error = talk.begin(1, 2).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!([bytes("0aff"), bytes("0af"), bytes("zz")], [Some(vec![10, 255]), None, None]);
    }
}

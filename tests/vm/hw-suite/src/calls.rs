//! System calls, interrupts, and accesses to registers that the library causes.

use std::error::Error;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use extoll_abi::{PageOption, Spec};
use ggas_rma::{Connection, Lock, Node, Notification, Port, Region};
use ggas_velo::{VeloConnection, VeloPort};
use nix::errno::Errno;

use crate::{Outcome, SOON, check, patient, patient_velo, region};

/// The argument by which the suite starts itself to be watched.
pub const WATCHED: &str = "--watched";
/// The call that parts what the watched program does: nothing else makes it.
const MARK: i64 = libc::SYS_getppid;
/// A call that the watched program makes so often to show that calls are seen.
const SHOWN: (i64, usize) = (libc::SYS_getuid, 5);
/// Trigger of the system notification queue: an RMA notification for a sleeper (spec 8.4).
const RMA_NOTIFICATION: u32 = 25;

/// Words of configuration space in which the cards' server counts.
const REQUESTER_STORES: u64 = 0xe0;
const OTHER_ACCESSES: u64 = 0xe4;
/// How often everything is done while it is watched.
const ROUNDS: u64 = 500;

fn mark() {
    // SAFETY: takes nothing and changes nothing.
    unsafe { libc::syscall(MARK) };
}

/// A port that talks to itself, by commands of every kind and by messages.
struct Talk {
    port: Port,
    velo: VeloPort,
    here: Connection,
    mailbox: VeloConnection,
    memory: Region,
    /// Polls that found nothing.
    empty: u64,
}

impl Talk {
    fn new(node: &Node) -> Result<Talk, Box<dyn Error>> {
        let port = node.open_port(patient())?;
        let velo = VeloPort::open(node.device(), patient_velo())?;
        let (here, mailbox) = (port.connect(port.address()), velo.connect(velo.address()));
        let memory = region(&port, 8192, 1)?;
        Ok(Talk { port, velo, here, mailbox, memory, empty: 0 })
    }

    /// Posts four commands and a message, and polls for and frees what each brings.
    fn round(&mut self, i: u64) -> Outcome {
        self.here.put(&self.memory, 0, 64, self.memory.nla(4096)?, Spec::COMPLETER)?;
        self.polled();
        self.here.get(&self.memory, 1024, 64, self.memory.nla(4096)?, Spec::COMPLETER)?;
        self.polled();
        self.here.notification_put(1, i, Spec::COMPLETER)?;
        check(self.polled().word0 == i, "another notification")?;
        self.here.lock(Lock { number: 1, compare: i32::MAX, add: 1 }, Spec::COMPLETER)?;
        self.polled();
        self.mailbox.send(&i.to_le_bytes(), 3)?;
        while self.velo.poll().is_none() {
            self.empty += 1;
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn polled(&mut self) -> Notification {
        loop {
            if let Some(notification) = self.port.poll() {
                return notification;
            }
            self.empty += 1;
            std::hint::spin_loop();
        }
    }
}

/// Posts, polls and frees between two marks.
pub fn watched(node: &Node) -> Outcome {
    let mut talk = Talk::new(node)?;
    // What is done once only is done now.
    (0..3).try_for_each(|i| talk.round(i))?;
    mark();
    (0..ROUNDS).try_for_each(|i| talk.round(i))?;
    mark();
    for _ in 0..SHOWN.1 {
        // SAFETY: takes nothing and changes nothing.
        unsafe { libc::syscall(SHOWN.0) };
    }
    mark();
    Ok(())
}

/// Posts, polls and frees while the cards' server counts what reaches it: each store to a requester page, and nothing
/// else while the other pages are mapped. Where they trap too, the read pointers are written once for each free and the
/// WCB states read once in 64 posts; once more for 256 polls that find nothing, and for each time that the program
/// was away for long. The driver reads one register each second.
pub fn traps(node: &Node, mapped: bool) -> Outcome {
    let mut talk = Talk::new(node)?;
    (0..3).try_for_each(|i| talk.round(i))?;
    talk.empty = 0;
    let began = Instant::now();
    let before = reached()?;
    (0..ROUNDS).try_for_each(|i| talk.round(i))?;
    let after = reached()?;
    let took = began.elapsed();
    let (stores, others) = (after.0 - before.0, after.1 - before.1);
    println!(
        "{stores} requester stores, {others} other accesses; {} polls found nothing; {took:?}",
        talk.empty
    );
    // Four descriptors of three words; a header and a word.
    check(stores == ROUNDS * (4 * 3 + 2), format!("{stores} requester stores"))?;
    // What was counted before the first round: one at most for each register.
    let (posts, frees, partly) = (ROUNDS * 5, ROUNDS * 5, 4);
    let away = took.as_millis() as u64 / 50;
    let driver = took.as_secs() + 1;
    let most = if mapped { driver } else { driver + frees + posts / 64 + talk.empty / 256 + away + partly };
    check(others <= most, format!("{others} other accesses; at most {most} may trap"))?;
    check(mapped || others >= frees, format!("{others} other accesses: they are not counted"))
}

/// Accesses to the card's first BAR that reached the server: stores to requester areas, and all others.
fn reached() -> Result<(u64, u64), Box<dyn Error>> {
    let config = std::fs::File::open("/sys/class/extoll/extoll0/device/config")?;
    let word = |at| {
        let mut bytes = [0; 4];
        config.read_exact_at(&mut bytes, at).map(|()| u64::from(u32::from_le_bytes(bytes)))
    };
    Ok((word(REQUESTER_STORES)?, word(OTHER_ACCESSES)?))
}

/// How often the program is watched at most. One that was away for long, on a busy host, looks what became of its last
/// post, and may give the processor away meanwhile; it is not away each time.
const WATCHES: u32 = 10;

/// Runs this program once more, watched call by call: between the first two marks there must be none.
pub fn none_to_post_and_poll(_: &Node) -> Outcome {
    let mut outcome = watch();
    for _ in 1..WATCHES {
        if outcome.is_ok() {
            break;
        }
        outcome = watch();
    }
    outcome
}

fn watch() -> Outcome {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(WATCHED);
    // SAFETY: asks to be watched, which is all that happens between fork and exec.
    unsafe { command.pre_exec(|| trace(libc::PTRACE_TRACEME, 0, 0).map_err(Into::into)) };
    let mut child = command.spawn()?;
    let pid = child.id() as libc::pid_t;
    let calls = calls_of(pid);
    if calls.is_err() {
        // It may be stopped: it must not stay.
        let _ = child.kill();
    }
    let calls = calls?;
    let parts: Vec<&[i64]> = calls.split(|call| *call == MARK).collect();
    let [_, quiet, shown, _] = parts[..] else {
        return Err(format!("{} marks: the watched program failed", parts.len() - 1).into());
    };
    check(shown == vec![SHOWN.0; SHOWN.1], format!("calls are not seen: {shown:?}"))?;
    check(quiet.is_empty(), format!("{} system calls, the first one number {:?}", quiet.len(), quiet.first()))
}

/// Numbers of all system calls of a program that has just been started to be watched, until it ends.
fn calls_of(pid: libc::pid_t) -> Result<Vec<i64>, Box<dyn Error>> {
    let (mut calls, mut inside, mut deliver) = (Vec::new(), false, 0);
    let mut status = 0;
    waited(pid, &mut status)?;
    trace(libc::PTRACE_SETOPTIONS, pid, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL)?;
    loop {
        trace(libc::PTRACE_SYSCALL, pid, deliver)?;
        waited(pid, &mut status)?;
        if !libc::WIFSTOPPED(status) {
            return if status == 0 { Ok(calls) } else { Err(format!("it ended with {status:#x}").into()) };
        }
        deliver = match libc::WSTOPSIG(status) {
            stop if stop == libc::SIGTRAP | 0x80 => {
                inside = !inside;
                if inside {
                    calls.push(number(pid)?);
                }
                0
            }
            signal => signal,
        };
    }
}

fn waited(pid: libc::pid_t, status: &mut i32) -> Result<(), Errno> {
    // SAFETY: the status is ours.
    Errno::result(unsafe { libc::waitpid(pid, status, 0) }).map(drop)
}

fn trace(request: libc::c_uint, pid: libc::pid_t, data: i32) -> Result<(), Errno> {
    // SAFETY: requests that take no address.
    Errno::result(unsafe { libc::ptrace(request, pid, 0usize, data as usize) }).map(drop)
}

/// The system call that a stopped program is in.
fn number(pid: libc::pid_t) -> Result<i64, Errno> {
    // SAFETY: registers are plain numbers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such structure.
    Errno::result(unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0usize, &raw mut registers) })?;
    Ok(registers.orig_rax as i64)
}

/// Each wait that sleeps arms the interrupt, which the driver counts; notifications that ask for none cause none.
pub fn sleepers_are_interrupted(node: &Node) -> Outcome {
    let port = node.open_port(patient())?;
    let interrupting = PageOption::new(PageOption::TE.bits() | PageOption::IRQ.bits())?;
    for (option, each) in [(interrupting, 1), (PageOption::TE, 0)] {
        let before = interrupts()?;
        for round in 1..=8 {
            let here = port.connect_with(port.address(), option);
            let waiter = nix::unistd::gettid();
            let later = std::thread::spawn(move || {
                asleep(waiter);
                here.notification_put(1, round, Spec::COMPLETER)
            });
            check(port.wait(SOON)?.word0 == round, "another notification")?;
            later.join().map_err(|_| "the other thread failed")??;
            // The wait may have looked by itself before the interrupt came.
            let (wanted, end) = (before + each * round, Instant::now() + SOON);
            while interrupts()? < wanted && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            let count = interrupts()?;
            check(
                count == wanted,
                format!("option {option:?}: {} interrupts after {round} waits", count - before),
            )?;
        }
    }
    port.close()?;
    Ok(())
}

/// Waits until a thread sleeps in a call of the driver; after a while it goes on, and the count of interrupts tells.
pub fn asleep(thread: nix::unistd::Pid) {
    let (path, end) = (format!("/proc/self/task/{thread}/syscall"), Instant::now() + SOON / 2);
    let call = format!("{} ", libc::SYS_ioctl);
    while !std::fs::read_to_string(&path).is_ok_and(|now| now.starts_with(&call)) && Instant::now() < end {
        std::thread::yield_now();
    }
}

/// Interrupts for sleepers that the driver has handled.
fn interrupts() -> Result<u64, Box<dyn Error>> {
    let lines = std::fs::read_to_string("/sys/class/extoll/extoll0/notifications")?;
    let of = |line: &str| {
        let (trigger, count) = line.split_once(' ')?;
        (trigger.parse() == Ok(RMA_NOTIFICATION)).then(|| count.parse().ok())?
    };
    Ok(lines.lines().find_map(of).unwrap_or(0))
}

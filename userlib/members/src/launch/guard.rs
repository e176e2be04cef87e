//! The guard of a rank: a process between the launcher and the program, which kills all processes that the program
//! leaves behind.
//!
//! ```text
//! launcher ── guard ── program ── whatever the program starts
//! ```
//!
//! Linux signals the guard when the launcher's thread is gone, for whatever reason, and reparents to the guard every
//! descendant that loses its parent (PR_SET_CHILD_SUBREAPER), also in a session of its own. So the guard has to kill
//! exactly its own children, and no descendant can escape. When the program ends, or is to end, or the launcher is
//! gone, the guard kills and reaps until it has no child left, and exits with the program's status: to the launcher the
//! guard looks like the program. Each rank has a guard, since only a parent can wait for a process and be sure that its
//! id was not reused.
//!
//! The launcher may have many threads. So after the fork the guard makes system calls only: it does not allocate, lock
//! or print, and no signal handler of the launcher's program runs. The guard closes the launcher's files, and does not
//! write to its copy of the launcher's memory.

use std::ffi::{CStr, c_int, c_long};
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::time::Duration;

use ggas_clock::Clock;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

/// To a guard: end the rank. The kernel sends it when the launcher is gone.
const END: c_int = 64;
/// To a guard: stop the rank. SIGSTOP would stop the guard; of SIGTTOU and SIGCONT, too, only the last is kept.
const STOP: c_int = libc::SIGTTOU;
/// What has not ended this long after SIGKILL hangs in the kernel, and is left to it.
const PATIENCE: Duration = Duration::from_secs(10);
/// From one look at what is left to the next, if no end of a process comes between.
const LOOK: Duration = Duration::from_millis(20);
/// What `ps` shows. Whoever kills by the launcher's name or arguments is not to kill the guards.
const NAME: &CStr = c"rank-guard";

/// What a guard needs to know; made by the launcher.
#[derive(Clone, Copy)]
pub(super) struct Birth {
    launcher: Pid,
    /// Where this process keeps its arguments: from, to.
    arguments: Option<(usize, usize)>,
}

impl Birth {
    pub(super) fn new() -> Birth {
        Birth { launcher: nix::unistd::getpid(), arguments: arguments() }
    }

    /// To be called between fork and exec. The calling process becomes the guard and stays here; this returns in a child
    /// of the guard, which is to be the program, in a process group of its own.
    pub(super) fn split(self, tell: RawFd) -> io::Result<()> {
        SigSet::all().thread_set_mask()?;
        die_with_parent(self.launcher.as_raw(), END)?;
        // SAFETY: numbers only; and no handler of this process is set.
        let on_child = unsafe {
            result(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
            // Where ends of children are ignored, they could not be waited for.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL)
        };
        // SAFETY: a number.
        let guard = unsafe { libc::getpid() };
        match fork()? {
            0 => {}
            program => keep(program, self.arguments),
        }
        die_with_parent(guard, libc::SIGKILL)?;
        // SAFETY: what was set before; numbers.
        unsafe {
            libc::signal(libc::SIGCHLD, on_child);
            result(libc::setpgid(0, 0))?;
        }
        // SAFETY: a number.
        let id = unsafe { libc::getpid() }.to_ne_bytes();
        // SAFETY: bytes of ours. Four of them pass through a pipe whole.
        result(unsafe { libc::write(tell, id.as_ptr().cast(), id.len()) } as c_int)?;
        Ok(())
    }
}

/// Sends a signal to a program and all in its process group, through its guard; SIGKILL to all that there is of it. The
/// guard must not have been waited for.
pub(super) fn signal(guard: u32, signal: Signal) -> io::Result<()> {
    let numbers = match signal {
        // A guard that somebody has stopped goes on by SIGCONT.
        Signal::SIGKILL => [END, libc::SIGCONT],
        Signal::SIGSTOP => [STOP, 0],
        other => [other as c_int, 0],
    };
    for number in numbers {
        // SAFETY: numbers; 0 is no signal.
        result(unsafe { libc::kill(guard as libc::pid_t, number) })?;
    }
    Ok(())
}

/// Has the kernel send `signal` when the parent's thread ends.
fn die_with_parent(parent: libc::pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: numbers only. Ends this process, if the parent ended before the call, without running anything of it.
    unsafe {
        result(libc::prctl(libc::PR_SET_PDEATHSIG, signal))?;
        if libc::getppid() != parent {
            libc::_exit(128 + libc::SIGKILL);
        }
    }
    Ok(())
}

fn result(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// As fork(2), without the handlers of `pthread_atfork`, which may take locks of threads that are not here.
fn fork() -> io::Result<libc::pid_t> {
    const NONE: c_long = 0;
    // SAFETY: a copy of this process, which has one thread and calls nothing but the system.
    let id = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD as c_long, NONE, NONE, NONE, NONE) };
    result(id as c_int)
}

/// The guard's life.
fn keep(program: libc::pid_t, arguments: Option<(usize, usize)>) -> ! {
    close_all();
    rename(arguments);
    loop {
        match next_signal(None) {
            None => {}
            Some(END) => end(program),
            Some(libc::SIGCHLD) => {
                while let Some(ended) = one_that_ended() {
                    if ended == program {
                        end(program);
                    }
                    // SAFETY: a number, and no status asked for.
                    unsafe { libc::waitpid(ended, std::ptr::null_mut(), libc::WNOHANG) };
                }
            }
            Some(STOP) => kill(-program, libc::SIGSTOP),
            Some(other) => kill(-program, other),
        }
    }
}

/// Kills all there is of the program, and ends as it has.
fn end(program: libc::pid_t) -> ! {
    // Before it is waited for: its group's id is its own. Nothing in the group can fork out of this.
    kill(-program, libc::SIGKILL);
    let (mut how, deadline) = (None, Clock::REAL.now() + PATIENCE);
    loop {
        let mut status = 0;
        // SAFETY: `status` is written only.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            id if id == program => how = Some(status),
            1.. => {}
            0 if Clock::REAL.now() < deadline => {
                next_signal(Some(LOOK));
                kill_children();
            }
            // No child is left.
            _ => die(how),
        }
    }
}

/// Ends as a process with this status has.
fn die(status: Option<c_int>) -> ! {
    let signal = match status {
        // SAFETY: ends this process without running anything of the launcher's.
        Some(status) if libc::WIFEXITED(status) => unsafe { libc::_exit(libc::WEXITSTATUS(status)) },
        Some(status) => libc::WTERMSIG(status),
        None => libc::SIGKILL,
    };
    // SAFETY: numbers, and a set of our own; no handler is set. The program has left its core, if any.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        kill(libc::getpid(), signal);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::_exit(128 + signal)
    }
}

/// Waits for a signal; all are blocked.
fn next_signal(patience: Option<Duration>) -> Option<c_int> {
    let set = SigSet::all();
    let time = patience.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as c_long,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a set and a time of ours, or no time, and no more than the number asked for.
    let signal = unsafe { libc::sigtimedwait(set.as_ref(), std::ptr::null_mut(), time) };
    (signal > 0).then_some(signal)
}

/// A child that has ended and was not waited for; it still is not.
fn one_that_ended() -> Option<libc::pid_t> {
    // SAFETY: plain data, written by the call, whose id is 0 if there is none.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let called = libc::waitid(libc::P_ALL, 0, &mut info, flags);
        (called == 0 && info.si_pid() > 0).then(|| info.si_pid())
    }
}

fn kill(id: libc::pid_t, signal: c_int) {
    // SAFETY: numbers. A group that has gone needs no signal.
    unsafe { libc::kill(id, signal) };
}

/// Those that a process of the rank left to us, and which are in none of its groups.
fn kill_children() {
    // SAFETY: a number.
    let me = unsafe { libc::getpid() };
    numbers_in(c"/proc", |id, _| {
        // Our own child, not waited for: its id is its own.
        if parent(id) == Some(me) {
            kill(id, libc::SIGKILL);
        }
    });
}

fn parent(id: c_int) -> Option<libc::pid_t> {
    let (mut path, mut text) = ([0; 32], [0; 512]);
    write!(&mut path[..], "/proc/{id}/stat\0").ok()?;
    let file = open(CStr::from_bytes_until_nul(&path).ok()?)?;
    // SAFETY: bytes of ours; a descriptor of ours.
    let read = unsafe {
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let text = text.get(..usize::try_from(read).ok()?)?;
    // The name, in brackets, may hold anything.
    let after = text.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(text.get(after + 1..)?).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn open(path: &CStr) -> Option<RawFd> {
    // SAFETY: a string that ends.
    result(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }).ok()
}

/// Calls a function with each number that a directory has as a name, and the directory's descriptor.
fn numbers_in(dir: &CStr, mut each: impl FnMut(c_int, RawFd)) {
    let Some(dir) = open(dir) else { return };
    let mut bytes = [0_u8; 4096];
    loop {
        // SAFETY: bytes of ours.
        let read = unsafe {
            libc::syscall(libc::SYS_getdents64, c_long::from(dir), bytes.as_mut_ptr(), bytes.len())
        };
        let Some(mut rest) = usize::try_from(read).ok().filter(|n| *n > 0).and_then(|n| bytes.get(..n))
        else {
            break;
        };
        // Two words, the length of the entry in two bytes, the type in one, the name.
        while let Some(&[low, high]) = rest.get(16..18) {
            let len = usize::from(u16::from_ne_bytes([low, high]));
            let (Some(entry), Some(next)) = (rest.get(19..len), rest.get(len..)) else { break };
            let name = entry.split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
            if let Some(number) = name.and_then(|name| name.parse().ok()) {
                each(number, dir);
            }
            rest = next;
        }
    }
    // SAFETY: a descriptor of ours.
    unsafe { libc::close(dir) };
}

/// Closes all files: what the guard held open would look as if the program did.
fn close_all() {
    const LAST: c_long = u32::MAX as c_long;
    // SAFETY: nothing here uses any.
    if unsafe { libc::syscall(libc::SYS_close_range, 0 as c_long, LAST, 0 as c_long) } == 0 {
        return;
    }
    // Before Linux 5.9.
    numbers_in(c"/proc/self/fd", |fd, dir| {
        if fd != dir {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    });
}

/// Where the arguments of this process lie: proc_pid_stat(5), fields 48 and 49.
fn arguments() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace().skip(45);
    let (from, to) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (0 < from && from < to).then_some((from, to))
}

/// Puts a name in the place of the launcher's and its arguments. Without it, all else works as well.
fn rename(arguments: Option<(usize, usize)>) {
    // SAFETY: a string that ends.
    unsafe { libc::prctl(libc::PR_SET_NAME, NAME.as_ptr()) };
    let Some((mut from, to)) = arguments else { return };
    let mut bytes = [0_u8; 1024];
    let name = NAME.to_bytes();
    let shown = name.len().min(to - from - 1);
    for (byte, of) in bytes.iter_mut().zip(name).take(shown) {
        *byte = *of;
    }
    while from < to {
        let len = bytes.len().min(to - from);
        let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let theirs = libc::iovec { iov_base: std::ptr::without_provenance_mut(from), iov_len: len };
        // SAFETY: the system checks both places; nothing here reads the second.
        if unsafe { libc::process_vm_writev(libc::getpid(), &ours, 1, &theirs, 1, 0) } != len as isize {
            return;
        }
        bytes.fill(0);
        from += len;
    }
}

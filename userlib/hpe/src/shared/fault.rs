//! The handler of SIGSEGV: serves accesses to shared objects, and passes all other faults on to whose handler was there before.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ggas_clock::Clock;
use libc::{c_int, c_void, siginfo_t};

use super::object::{Object, Served};
use super::table;
use crate::address::{Owner, owner};
use crate::error::HpeError;
use crate::fork;

/// Bound of a wait for a kernel that has the object, or for another thread's copy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an answer of the server is looked for before this thread sleeps.
const SOON: Duration = Duration::from_micros(50);

/// Bits of an x86 page fault's code.
const WRITE: i64 = 2;
const CODE: i64 = 16;

/// Keeps the handler in place.
pub(crate) struct Handler(());

#[derive(Default)]
struct Installed {
    users: usize,
    /// Another's handler stood before ours when we wanted to go: it calls ours, so ours stays.
    left: bool,
}

static INSTALLED: Mutex<Installed> = Mutex::new(Installed { users: 0, left: false });

/// What was there before.
struct Previous(UnsafeCell<Option<libc::sigaction>>);

// SAFETY: written before the handler is put in place and while it is not, read by the handler only.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(None));
/// Whether that was for one signal only (`SA_RESETHAND`), which has come: then the default is left.
static SPENT: AtomicBool = AtomicBool::new(false);

/// What was there before, or is left of it.
fn before() -> libc::sigaction {
    // SAFETY: see `Previous`; plain data, of which zeroes are the default.
    unsafe {
        match *PREVIOUS.0.get() {
            Some(before) if !SPENT.load(Ordering::SeqCst) => before,
            _ => std::mem::zeroed(),
        }
    }
}

/// What is in place now.
fn now() -> Result<libc::sigaction, HpeError> {
    // SAFETY: plain data that the call fills in.
    unsafe {
        let mut now = std::mem::zeroed();
        match libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut now) {
            0 => Ok(now),
            _ => Err(HpeError::system("reading the handler of SIGSEGV")),
        }
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_fault as *const () as usize
}

/// Whether no function handles the signal so.
fn is_nobodys(action: &libc::sigaction) -> bool {
    [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction)
}

impl Handler {
    pub fn install() -> Result<Handler, HpeError> {
        // No child finds it half done, or locked.
        let _changes = fork::changes();
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if installed.users == 0 {
            let found = now()?;
            // Another's on top of one of ours that stayed may call that; who handles nothing calls nobody.
            if !is_ours(&found) && (!installed.left || is_nobodys(&found)) {
                put_in_place(found)?;
            }
        }
        installed.users += 1;
        Ok(Handler(()))
    }
}

/// Puts ours in place of what was found there.
fn put_in_place(found: libc::sigaction) -> Result<(), HpeError> {
    // SAFETY: the structures are plain data; the handler is safe in a signal.
    unsafe {
        *PREVIOUS.0.get() = Some(found);
        SPENT.store(false, Ordering::SeqCst);
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_fault as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // A handler that comes while a block is busy would wait for the thread that it interrupted.
        libc::sigfillset(&mut ours.sa_mask);
        match libc::sigaction(libc::SIGSEGV, &ours, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(HpeError::system("handling SIGSEGV")),
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let _changes = fork::changes();
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        installed.users -= 1;
        if installed.users > 0 {
            return;
        }
        installed.left = !now().is_ok_and(|now| is_ours(&now));
        if !installed.left {
            // SAFETY: what is put back was there before.
            unsafe { libc::sigaction(libc::SIGSEGV, &before(), std::ptr::null_mut()) };
        }
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both; errno is this thread's.
    unsafe {
        let errno = *libc::__errno_location();
        if !serves(info, context) {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// # Safety
/// What the kernel passed to the handler.
unsafe fn serves(info: *mut siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the caller's contract.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    // Sent by a process: there is no address.
    if code <= 0 {
        return false;
    }
    // SAFETY: the same.
    let (writes, runs) = unsafe { kind(context) };
    match table::find(address) {
        Some(object) if !runs => wait_until_open(&object, (address - object.start) as usize, writes),
        _ => {
            if let Owner::Device(..) = owner(address)
                && is_nobodys(&before())
            {
                say(b"ggas-hpe: the host touched memory of a device, or freed memory: copy it, or make a shared object\n");
            }
            false
        }
    }
}

/// Whether the access writes, and whether it runs code.
#[cfg(target_arch = "x86_64")]
unsafe fn kind(context: *mut c_void) -> (bool, bool) {
    // SAFETY: the kernel passes a ucontext.
    let code = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] };
    (code & WRITE != 0, code & CODE != 0)
}

/// Without a code every access may be a write.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn kind(_: *mut c_void) -> (bool, bool) {
    (true, false)
}

/// Has the access allowed, by this thread or by the server's, and waits for kernels and for others.
fn wait_until_open(object: &Object, offset: usize, writes: bool) -> bool {
    if !object.is_ours() {
        say(b"ggas-hpe: a child touched a shared object of its parent: exec, or make a runtime of its own\n");
        return false;
    }
    let mut began: Option<Instant> = None;
    loop {
        if object.is_launched_here() {
            say(b"ggas-hpe: the thread that launches a kernel touched an object of it: touch it behind the launch\n");
            return false;
        }
        let served = match object.keeping.server_for(&*object.device) {
            None => object.serve(offset, writes, false),
            Some(_) if object.is_open(offset, writes) => Ok(Served::Yes),
            Some(server) => {
                server.ask(object.start + offset as u64, writes);
                Ok(opens_soon(object, offset, writes))
            }
        };
        match served {
            Ok(Served::Yes) => return true,
            Err(_) => {
                say(b"ggas-hpe: a shared object cannot be fetched: its device is lost, or the process has too many mappings\n");
                return false;
            }
            Ok(Served::Later) => object.wait(offset),
        }
        let began = *began.get_or_insert_with(|| Clock::REAL.now());
        if Clock::REAL.since(began) > PATIENCE {
            say(b"ggas-hpe: an access to a shared object waited a minute for a kernel or for its device\n");
            return false;
        }
    }
}

/// Looks for an answer for a while: a server that is awake gives it sooner than a thread is woken.
fn opens_soon(object: &Object, offset: usize, writes: bool) -> Served {
    let began = Clock::REAL.now();
    while Clock::REAL.since(began) < SOON {
        if object.is_open(offset, writes) {
            return Served::Yes;
        }
        Clock::REAL.spin();
    }
    Served::Later
}

/// Calls the handler that was there before, with the signals blocked that it wanted; without one the process ends as it would have.
///
/// # Safety
/// What the kernel passed to the handler.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: see `Previous`; the handler before is called as the kernel would have called it.
    unsafe {
        let before = before();
        let is_sent = (*info).si_code <= 0;
        if before.sa_sigaction == libc::SIG_IGN && is_sent {
            return;
        }
        let is_one_times = before.sa_flags & libc::SA_RESETHAND != 0;
        if is_nobodys(&before) || is_one_times && SPENT.swap(true, Ordering::SeqCst) {
            // The access comes again, or, where the signal was sent, it is sent again.
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, std::ptr::null_mut());
            if is_sent {
                libc::raise(signal);
            }
            return;
        }
        // The mask of the interrupted code, and what the other handler asked for.
        let mut mask = (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        for number in 1..=64 {
            if libc::sigismember(&before.sa_mask, number) == 1 {
                libc::sigaddset(&mut mask, number);
            }
        }
        if before.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(before.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(before.sa_sigaction);
            handler(signal);
        }
    }
}

/// Writes a line to standard error, as handlers may.
fn say(line: &[u8]) {
    // SAFETY: bytes of this program.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}

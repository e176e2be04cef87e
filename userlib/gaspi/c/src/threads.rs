//! GASPI_Threads.h: helpers for programs of several threads.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ggas_gaspi::{GaspiError, Timeout};

use crate::ffi::{check, code, put, refuse};
use crate::process::here;

/// Most threads.
const MOST: u32 = 1024;

/// Threads that have been declared, and where they meet.
struct Team {
    /// 0: none have.
    declared: u32,
    registered: u32,
    /// Grows with each time that threads are declared, so that ids of before are none.
    life: u64,
    waiting: u32,
    meetings: u64,
    /// What thread 0 brought to the last meeting.
    result: c_int,
}

static TEAM: Mutex<Team> =
    Mutex::new(Team { declared: 0, registered: 0, life: 0, waiting: 0, meetings: 0, result: 0 });
static MET: Condvar = Condvar::new();

thread_local! {
    /// This thread's id, and the life in which it got it.
    static OWN: Cell<Option<(u64, u32)>> = const { Cell::new(None) };
}

fn lock() -> MutexGuard<'static, Team> {
    TEAM.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Why a thread is refused.
type Why = String;

/// The error of a call that refuses a thread.
fn refused(why: Why) -> GaspiError {
    refuse(GaspiError::Argument, why)
}

impl Team {
    fn declare(&mut self, threads: u32) -> Result<(), Why> {
        if self.declared > 0 {
            return Err("threads are declared already: call gaspi_threads_term before".into());
        }
        if !(1..=MOST).contains(&threads) {
            return Err(format!("{threads} threads: declare 1 to {MOST}"));
        }
        (self.declared, self.registered, self.life) = (threads, 0, self.life + 1);
        Ok(())
    }

    fn is_declared(&self) -> Result<(), Why> {
        let undeclared =
            || "no threads are declared: call gaspi_threads_init or gaspi_threads_init_user".into();
        (self.declared > 0).then_some(()).ok_or_else(undeclared)
    }

    fn own(&self) -> Result<u32, Why> {
        self.is_declared()?;
        let own = OWN.get().filter(|(life, _)| *life == self.life);
        own.map(|(_, id)| id).ok_or_else(|| "this thread has no id: call gaspi_threads_register".into())
    }

    fn register(&mut self) -> Result<u32, Why> {
        self.is_declared()?;
        if let Ok(own) = self.own() {
            return Err(format!("this thread is registered already, as thread {own}"));
        }
        if self.registered == self.declared {
            return Err(format!("all {} threads that were declared are registered", self.declared));
        }
        OWN.set(Some((self.life, self.registered)));
        self.registered += 1;
        Ok(self.registered - 1)
    }
}

/// Waits until all declared threads have come; what thread 0 brought.
fn meet(brought: c_int) -> Result<c_int, Why> {
    let mut team = lock();
    if team.own()? == 0 {
        team.result = brought;
    }
    team.waiting += 1;
    if team.waiting == team.declared {
        team.waiting = 0;
        team.meetings += 1;
        MET.notify_all();
        return Ok(team.result);
    }
    let meeting = team.meetings;
    while team.meetings == meeting {
        team = MET.wait(team).unwrap_or_else(PoisonError::into_inner);
    }
    Ok(team.result)
}

/// What a thread does.
pub type Work = Option<extern "C" fn(*mut c_void) -> *mut c_void>;

struct Start(extern "C" fn(*mut c_void) -> *mut c_void, *mut c_void);
// SAFETY: the interface's contract: the argument is for the thread.
unsafe impl Send for Start {}

impl Start {
    fn run(self) {
        // What it returns is nobody's.
        let _ = (self.0)(self.1);
    }
}

/// Exports a function that returns a code; these have one name.
macro_rules! export_one {
    ($($(#[$doc:meta])* fn $name:ident ($($argument:ident: $type:ty),*) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> c_int {
            let work = || -> Result<(), GaspiError> { $body };
            code(work())
        }
    )*};
}

export_one! {
    /// Declares a thread for each core.
    fn gaspi_threads_init(count: *mut c_int) {
        check(count)?;
        lock().declare(cores().min(MOST)).map_err(refused)?;
        put(count, cores() as c_int)
    }

    /// Declares so many threads.
    fn gaspi_threads_init_user(threads: c_uint) {
        lock().declare(threads).map_err(refused)
    }

    /// Forgets them.
    fn gaspi_threads_term() {
        let mut team = lock();
        team.is_declared().map_err(refused)?;
        team.declared = 0;
        Ok(())
    }

    /// The calling thread is one of them; its id, from 0.
    fn gaspi_threads_register(id: *mut c_int) {
        check(id)?;
        let own = lock().register().map_err(refused)?;
        put(id, own as c_int)
    }

    /// Starts a thread that nobody waits for.
    fn gaspi_threads_run(work: Work, argument: *mut c_void) {
        let start = Start(work.ok_or(GaspiError::Null)?, argument);
        lock().is_declared().map_err(refused)?;
        std::thread::Builder::new().spawn(move || start.run()).map_or(Err(GaspiError::Memory), |_| Ok(()))
    }

    /// The calling thread's id.
    fn gaspi_threads_get_tid(id: *mut c_int) {
        check(id)?;
        let own = lock().own().map_err(refused)?;
        put(id, own as c_int)
    }

    /// Declared threads.
    fn gaspi_threads_get_total(count: *mut c_int) {
        check(count)?;
        let team = lock();
        team.is_declared().map_err(refused)?;
        put(count, team.declared as c_int)
    }

    /// Cores.
    fn gaspi_threads_get_num_cores(count: *mut c_int) {
        check(count)?;
        lock().is_declared().map_err(refused)?;
        put(count, cores() as c_int)
    }

    /// All threads of all members of a group meet; all threads get what the barrier gave.
    fn gaspi_threads_sync_all(group: u8, timeout: c_ulong) {
        let own = lock().own().map_err(refused)?;
        meet(0).map_err(refused)?;
        let barrier = || here()?.barrier(group, Timeout::from_millis(timeout));
        let brought = if own == 0 { barrier() } else { Ok(()) };
        let shared = brought.err().map_or(0, GaspiError::code);
        match (meet(shared).map_err(refused)?, brought) {
            (0, _) => Ok(()),
            (_, Err(error)) => Err(error),
            (1, _) => Err(GaspiError::Timeout),
            _ => Err(GaspiError::Failed),
        }
    }
}

/// Waits until all declared threads have come; does nothing in a thread that is none of them.
#[unsafe(no_mangle)]
pub extern "C" fn gaspi_threads_sync() {
    let _ = meet(0);
}

//! Threads of a runtime, which are the C library's.
//!
//! The standard library of a Rust program keeps a table of its threads behind a lock that each takes where it begins and
//! ends. A child that is made meanwhile has it locked for ever, and no thread of that kind could begin there.

use std::ffi::{CString, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::fork;
use crate::masked::Masked;

/// What a thread is called, and what it does.
struct Work(CString, Box<dyn FnOnce() + Send>);

/// As threads of the standard library have it.
const STACK: usize = 2 << 20;
/// Bytes of a thread's name that Linux keeps.
const NAME: usize = 15;

/// A thread without the program's signals. Dropped, it is waited for; what tells it to end comes first.
pub(crate) struct Worker {
    thread: libc::pthread_t,
    generation: u32,
}

extern "C" fn begin(work: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` gave it to this thread.
    let Work(name, work) = *unsafe { Box::from_raw(work.cast::<Work>()) };
    // SAFETY: this thread.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
    // What it panics with has been printed.
    let _ = catch_unwind(AssertUnwindSafe(work));
    std::ptr::null_mut()
}

/// `pthread_create`.
fn create(work: *mut Work) -> Result<libc::pthread_t, i32> {
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the calls fill in what they get; `begin` takes what `spawn` gives.
    unsafe {
        match libc::pthread_attr_init(attributes.as_mut_ptr()) {
            0 => {}
            error => return Err(error),
        }
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        let error =
            libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), begin, work.cast::<c_void>());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if error == 0 { Ok(thread.assume_init()) } else { Err(error) }
    }
}

impl Worker {
    pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Worker> {
        let generation = fork::watch();
        let _masked = Masked::new();
        let name = CString::new(&name[..name.len().min(NAME)]).unwrap_or_default();
        let work = Box::into_raw(Box::new(Work(name, Box::new(work))));
        let thread = create(work).map_err(|error| {
            // SAFETY: no thread has it.
            drop(unsafe { Box::from_raw(work) });
            io::Error::from_raw_os_error(error)
        })?;
        Ok(Worker { thread, generation })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // In a child there is no such thread: its stack may be another one's by now.
        if fork::check(self.generation).is_err() {
            return;
        }
        // SAFETY: it is neither joined nor detached yet.
        unsafe {
            match libc::pthread_equal(self.thread, libc::pthread_self()) {
                0 => libc::pthread_join(self.thread, std::ptr::null_mut()),
                _ => libc::pthread_detach(self.thread),
            };
        }
    }
}

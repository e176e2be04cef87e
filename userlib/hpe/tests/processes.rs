//! Handlers of others, and signals: each in a process of its own.

mod common;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use common::cases::{dies, handle, passes};
use common::objects::wait_until;
use ggas_hpe::{Runtime, Use};

#[test]
#[ignore = "runs as the child of the other tests"]
fn case() {
    match std::env::var("HPE_CASE").as_deref() {
        Ok("chain") => chain(),
        Ok("restore") => restore(),
        Ok("once") => handler_that_goes(),
        Ok("ignored") => ignored(),
        Ok("again") => another_handler_goes(),
        Ok("signal") => signal_in_a_fetch(),
        Ok("launcher") => {
            let runtime = runtime();
            let start = shared(&runtime);
            // SAFETY: as above.
            runtime.launch(&[(start, Use::Write)], || unsafe { start.write_volatile(1) }).unwrap();
        }
        _ => {}
    }
}

fn runtime() -> Runtime {
    Runtime::builder().executors(1).build().unwrap()
}

fn shared(runtime: &Runtime) -> *mut u8 {
    runtime.alloc_shared(runtime.devices()[0], 4096).unwrap()
}

fn handler_now() -> usize {
    // SAFETY: plain data that the call fills in.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut now);
        now.sa_sigaction
    }
}

static CAUGHT: AtomicU32 = AtomicU32::new(0);
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The handler of another library: it makes its page writable.
extern "C" fn theirs(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CAUGHT.fetch_add(1, Ordering::SeqCst);
    // SAFETY: what the kernel passed; a page of this test.
    unsafe {
        let page = PAGE.load(Ordering::SeqCst);
        if (*info).si_addr() as usize & !4095 != page {
            libc::_exit(3);
        }
        libc::mprotect(page as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE);
    }
}

fn their_page() -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new page.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0) };
    PAGE.store(page as usize, Ordering::SeqCst);
    page.cast()
}

fn chain() {
    handle(libc::SIGSEGV, theirs as *const () as usize, 0);
    let page = their_page();
    let runtime = runtime();
    let start = shared(&runtime);
    // SAFETY: their page and our object.
    unsafe {
        page.write_volatile(1);
        start.write_volatile(2);
        assert_eq!((page.read_volatile(), start.read_volatile()), (1, 2));
    }
    assert_eq!(CAUGHT.load(Ordering::SeqCst), 1);
    assert_eq!(runtime.counts().shared.faults, 1);
}

fn restore() {
    handle(libc::SIGSEGV, theirs as *const () as usize, 0);
    let before = handler_now();
    let (one, two) = (runtime(), runtime());
    assert_ne!(handler_now(), before);
    drop(one);
    assert_ne!(handler_now(), before);
    drop(two);
    assert_eq!(handler_now(), before);
    // Another handler on top of ours stays, and ours behind it serves.
    let three = runtime();
    let ours = handler_now();
    handle(libc::SIGSEGV, theirs as *const () as usize, 0);
    drop(three);
    assert_eq!(handler_now(), theirs as *const () as usize);
    handle(libc::SIGSEGV, ours, 0);
    let four = runtime();
    let start = shared(&four);
    // SAFETY: an object of this test.
    unsafe { start.write_volatile(1) };
    assert_eq!(four.counts().shared.faults, 1);
}

/// A handler that says what is wrong and leaves: the next fault is the default's.
extern "C" fn says(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if CAUGHT.fetch_add(1, Ordering::SeqCst) > 0 {
        // SAFETY: ends this process, which would go on for ever.
        unsafe { libc::_exit(3) };
    }
}

fn handler_that_goes() {
    handle(libc::SIGSEGV, says as *const () as usize, libc::SA_RESETHAND);
    let page = their_page();
    let runtime = runtime();
    let start = shared(&runtime);
    // SAFETY: our object, and a page that nobody opens.
    unsafe {
        start.write_volatile(2);
        page.write_volatile(1);
    }
}

fn ignored() {
    // SAFETY: no pointers.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
    let _runtime = runtime();
    // SAFETY: no pointers. It has come when this returns.
    unsafe { assert_eq!(libc::raise(libc::SIGSEGV), 0) };
}

/// A handler that stood before ours goes, and ours with it: the next runtime has one again.
fn another_handler_goes() {
    let one = runtime();
    handle(libc::SIGSEGV, theirs as *const () as usize, 0);
    drop(one);
    // SAFETY: no pointers.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    let two = runtime();
    let start = shared(&two);
    // SAFETY: an object of this test.
    unsafe { start.write_volatile(1) };
    assert_eq!(two.counts().shared.faults, 1);
    drop(two);
    assert_eq!(handler_now(), libc::SIG_DFL);
}

static OBJECT: AtomicUsize = AtomicUsize::new(0);

/// A handler that touches a block that may be arriving.
extern "C" fn touches(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: a byte of the object of this test.
    unsafe { (OBJECT.load(Ordering::SeqCst) as *mut u8).write_volatile(8) };
    CAUGHT.fetch_add(1, Ordering::SeqCst);
}

/// A signal comes while this thread fetches a block, in a fault and in a launch; its handler touches the same block.
fn signal_in_a_fetch() {
    handle(libc::SIGUSR1, touches as *const () as usize, 0);
    // SAFETY: no pointers. It comes to this thread when nothing keeps it back any more.
    let between = || unsafe {
        libc::raise(libc::SIGUSR1);
    };
    let runtime = Runtime::builder().executors(1).between(between).build().unwrap();
    let start = shared(&runtime);
    OBJECT.store(start as usize, Ordering::SeqCst);
    // SAFETY: an object of this test.
    unsafe {
        assert_eq!(start.add(1).read_volatile(), 0);
        assert!(CAUGHT.load(Ordering::SeqCst) > 0);
        assert_eq!(start.read_volatile(), 8);
    }
    let before = CAUGHT.load(Ordering::SeqCst);
    // The handler would touch an object that this thread launches: at a byte of its own that is the program's fault, so elsewhere.
    let mut other = 0u8;
    OBJECT.store(&raw mut other as usize, Ordering::SeqCst);
    runtime.launch(&[(start, Use::Write)], || ()).unwrap();
    assert!(CAUGHT.load(Ordering::SeqCst) > before);
}

/// A handler that one ran would wait for itself where it touched an object; and signals that a program waits for, or has blocked, are not
/// theirs.
#[test]
fn threads_of_a_runtime_take_no_signals() {
    let _runtime = runtime();
    for name in ["hpe-faults", "hpe-copies-1"] {
        // It has no name before it runs.
        wait_until(|| threads_that_block_signals(name) > 0);
    }
}

/// Looks at the signals of all threads of that name.
fn threads_that_block_signals(name: &str) -> usize {
    let mut found = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        // Threads of other tests may end meanwhile.
        let Ok(status) = std::fs::read_to_string(task.join("status")) else { continue };
        if !status.starts_with(&format!("Name:\t{name}\n")) {
            continue;
        }
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        let is_blocked = |signal: i32| blocked >> (signal - 1) & 1 == 1;
        for signal in [libc::SIGUSR1, libc::SIGALRM, libc::SIGINT, libc::SIGCHLD, libc::SIGPROF] {
            assert!(is_blocked(signal), "{name}, {signal}: {blocked:#x}");
        }
        assert!(!is_blocked(libc::SIGSEGV) && !is_blocked(libc::SIGBUS), "its own faults end the process");
        found += 1;
    }
    found
}

#[test]
fn handlers_of_others_get_their_faults() {
    passes("chain");
}

#[test]
fn the_handler_before_is_restored() {
    passes("restore");
}

#[test]
fn a_handler_before_that_is_for_one_fault_is() {
    dies("once", "");
}

#[test]
fn a_signal_that_was_ignored_still_is() {
    passes("ignored");
}

#[test]
fn a_handler_on_top_that_goes_takes_ours_along_once() {
    passes("again");
}

#[test]
fn signals_may_come_in_a_fetch_whose_block_they_touch() {
    passes("signal");
}

#[test]
fn the_host_is_told_what_it_may_not_touch() {
    dies("launcher", "the thread that launches a kernel touched an object of it");
}

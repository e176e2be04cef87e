//! Handlers of others, children of a fork, and signals: each in a process of its own.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use ggas_hpe::{HpeError, Runtime, Use};

/// Runs a case of [`case`] in a child.
fn run(name: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["--exact", "case", "--ignored", "--nocapture", "--test-threads=1"])
        .env("HPE_CASE", name)
        .output()
        .unwrap()
}

fn passes(name: &str) {
    let output = run(name);
    assert!(
        output.status.success(),
        "{name}: {:?}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The case ends by SIGSEGV, with this text on standard error.
fn dies(name: &str, text: &str) {
    let output = run(name);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.signal(), Some(libc::SIGSEGV | libc::SIGABRT)),
        "{name}: {:?} {said}",
        output.status
    );
    assert!(said.contains(text), "{said}");
}

#[test]
#[ignore = "runs as the child of the other tests"]
fn case() {
    match std::env::var("HPE_CASE").as_deref() {
        Ok("chain") => chain(),
        Ok("restore") => restore(),
        Ok("child-touches") => child_touches(),
        Ok("child-calls") => child_calls(),
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

fn handle(signal: i32, handler: usize) {
    // SAFETY: a handler of this test.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
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
    handle(libc::SIGSEGV, theirs as *const () as usize);
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
    handle(libc::SIGSEGV, theirs as *const () as usize);
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
    handle(libc::SIGSEGV, theirs as *const () as usize);
    drop(three);
    assert_eq!(handler_now(), theirs as *const () as usize);
    handle(libc::SIGSEGV, ours);
    let four = runtime();
    let start = shared(&four);
    // SAFETY: an object of this test.
    unsafe { start.write_volatile(1) };
    assert_eq!(four.counts().shared.faults, 1);
}

/// What a child of a fork ends with.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `work` and ends; no other thread of this process holds a lock that it needs.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(work()),
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                status
            }
        }
    }
}

fn child_touches() {
    let runtime = runtime();
    let start = shared(&runtime);
    // SAFETY: an object of this test; the child faults.
    unsafe {
        start.write_volatile(5);
        let status = in_child(|| {
            libc::signal(libc::SIGABRT, libc::SIG_DFL);
            start.write_volatile(6);
            0
        });
        assert!(libc::WIFSIGNALED(status), "{status:#x}");
        assert_eq!(start.read_volatile(), 5, "the child changed the parent's object");
    }
    // The parent dies in the same way, so that its parent sees the text.
    // SAFETY: no arguments.
    unsafe { libc::abort() }
}

fn child_calls() {
    let old = runtime();
    let start = shared(&old);
    // SAFETY: refused in the child.
    let status = in_child(|| unsafe {
        let refused = [
            old.alloc(old.devices()[0], 8).map(drop),
            old.copy(start, [1].as_ptr(), 1),
            old.free(start),
            old.launch(&[(start.cast_const(), Use::Read)], || ()),
        ];
        if !refused.iter().all(|result| matches!(result, Err(HpeError::Forked))) {
            return 1;
        }
        // One of its own works, and both go.
        let new = runtime();
        let own = shared(&new);
        own.write_volatile(9);
        let fine = own.read_volatile() == 9;
        drop(old.clone());
        drop(new);
        i32::from(!fine)
    });
    assert_eq!(status, 0);
    // SAFETY: the parent's goes on.
    unsafe {
        start.write_volatile(3);
        assert_eq!(start.read_volatile(), 3);
    }
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
    handle(libc::SIGUSR1, touches as *const () as usize);
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

/// A handler that it ran would wait for itself where it touched an object.
#[test]
fn the_thread_that_serves_faults_takes_no_signals() {
    let _runtime = runtime();
    let began = std::time::Instant::now();
    // It has no name before it runs.
    while serving_threads() == 0 {
        assert!(began.elapsed().as_secs() < 60, "no thread serves faults");
        std::thread::yield_now();
    }
}

/// Looks at the signals of all threads that serve faults.
fn serving_threads() -> usize {
    let mut found = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        // Threads of other tests may end meanwhile.
        let Ok(status) = std::fs::read_to_string(task.join("status")) else { continue };
        if !status.starts_with("Name:\thpe-faults\n") {
            continue;
        }
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        let is_blocked = |signal: i32| blocked >> (signal - 1) & 1 == 1;
        for signal in [libc::SIGUSR1, libc::SIGALRM, libc::SIGINT, libc::SIGCHLD, libc::SIGPROF] {
            assert!(is_blocked(signal), "{signal}: {blocked:#x}");
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
fn signals_may_come_in_a_fetch_whose_block_they_touch() {
    passes("signal");
}

#[test]
fn a_child_cannot_touch_objects_of_its_parent() {
    dies("child-touches", "a child touched a shared object of its parent");
}

#[test]
fn a_child_is_refused_and_may_have_a_runtime_of_its_own() {
    passes("child-calls");
}

#[test]
fn the_host_is_told_what_it_may_not_touch() {
    dies("launcher", "the thread that launches a kernel touched an object of it");
}

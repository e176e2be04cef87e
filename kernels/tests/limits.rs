//! Limits of the process that a launch runs into. A program of its own: they hold for all threads.

use std::sync::mpsc;
use std::time::Duration;

use ggas_kernels::{LaunchError, Processor, start};
use ggas_selftest::args::selftest_vocab;

/// Sets the soft limit of address space, and returns what it was.
fn limit_address_space(bytes: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both take a structure that lives through the call.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, bytes.min(limit.rlim_max));
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
        before
    }
}

/// Bytes of address space that this process has mapped.
fn mapped() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    pages.split(' ').next().and_then(|size| size.parse::<u64>().ok()).expect("a number") * 4096
}

#[test]
fn a_launch_without_room_for_stacks_ends_with_an_error() {
    let (ended, ends) = mpsc::channel();
    std::thread::spawn(move || {
        let cpu = Processor::cpu();
        let (scratch, failed) = (cpu.alloc(4096).expect("memory"), cpu.alloc(8).expect("memory"));
        let args = selftest_vocab { scratch: scratch.address(), failed: failed.address() };
        // SAFETY: the kernel's own structure; its memory outlives the wait.
        let launch = || unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_vocab", 1, 1024, &args) };
        // Room for some of its stacks, which come to 64 MiB and more, and for what else a launch wants.
        let before = limit_address_space(mapped() + (32 << 20));
        let refused = start(&[launch()]).map(|_| ()).expect_err("no room for the stacks");
        limit_address_space(before);
        // What it had taken serves the next one.
        start(&[launch()]).and_then(|run| run.wait(Duration::from_secs(60))).expect("there is room again");
        ended.send(refused).expect("the test waits");
    });
    let refused = ends.recv_timeout(Duration::from_secs(120)).expect("the launch ends");
    assert!(matches!(refused, LaunchError::Resources(_)), "{refused}");
    assert!(refused.to_string().contains("ulimit -v"), "{refused}");
}

//! Limits of a process and filters of its system calls: what is refused says what to change, and nothing of it stays. Each in a process of
//! its own.

mod common;

use std::os::fd::AsRawFd;

use common::cases::passes;
use ggas_hpe::{HpeError, Runtime, Tracking, Use};

#[test]
#[ignore = "runs as the child of the other tests"]
fn case() {
    match std::env::var("HPE_CASE").as_deref() {
        Ok("files") => files(),
        Ok("addresses") => addresses(),
        Ok("size") => size(),
        Ok("filter") => filter(),
        _ => {}
    }
}

fn runtime() -> Runtime {
    Runtime::builder().executors(1).build().unwrap()
}

/// Has a limit of this process be that, for as long as `work` takes.
fn limited<T>(what: libc::__rlimit_resource_t, most: u64, work: impl FnOnce() -> T) -> T {
    // SAFETY: plain data that the calls read and fill in.
    unsafe {
        let mut before: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(what, &mut before), 0);
        let now = libc::rlimit { rlim_cur: most, ..before };
        assert_eq!(libc::setrlimit(what, &now), 0);
        let result = work();
        assert_eq!(libc::setrlimit(what, &before), 0);
        result
    }
}

/// What an object is refused with: a limit's error and what to raise.
fn refused(made: Result<*mut u8, HpeError>, errno: i32, way_out: &str) {
    let error = made.unwrap_err();
    assert_eq!(error.errno(), errno, "{error}");
    assert!(error.to_string().contains(way_out), "{error}");
}

/// A shared object can be made, and both sides see what it holds.
fn works(runtime: &Runtime) {
    let start = runtime.alloc_shared(runtime.devices()[0], 100_000).unwrap();
    // SAFETY: an object of this test.
    unsafe {
        start.add(70_000).write_volatile(5);
        runtime.launch(&[(start, Use::Write)], || ()).unwrap();
        assert_eq!(start.add(70_000).read_volatile(), 5);
        runtime.free(start).unwrap();
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn files() {
    let runtime = runtime();
    works(&runtime);
    let (device, before) = (runtime.devices()[0], descriptors());
    // The lowest number that is free: the next descriptor would have it.
    let lowest = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    let made = limited(libc::RLIMIT_NOFILE, lowest as u64, || runtime.alloc_shared(device, 4096));
    refused(made, libc::EMFILE, "ulimit -n");
    assert_eq!(descriptors(), before);
    works(&runtime);
}

fn addresses() {
    let runtime = runtime();
    works(&runtime);
    let (device, before) = (runtime.devices()[0], descriptors());
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    // Room for what else is allocated, and not for an object.
    let most = pages * 4096 + (4 << 20);
    let made = limited(libc::RLIMIT_AS, most, || runtime.alloc_shared(device, 16 << 20));
    refused(made, libc::ENOMEM, "ulimit -v");
    assert_eq!(descriptors(), before);
    let built = limited(libc::RLIMIT_AS, most, || Runtime::builder().executors(1).build());
    assert!(built.is_err_and(|error| error.to_string().contains("ulimit -v")));
    works(&runtime);
}

fn size() {
    let runtime = runtime();
    let device = runtime.devices()[0];
    // Who passes that limit gets a signal that ends the process, too, unless somebody takes it.
    let made = limited(libc::RLIMIT_FSIZE, 4096, || runtime.alloc_shared(device, 1 << 20));
    refused(made, libc::EFBIG, "ulimit -f");
    works(&runtime);
}

/// Forbids `userfaultfd` and the request of its device, as filters of containers do.
fn forbid(errno: u32) {
    let load = |at: u32| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: at };
    let is = |value: u32, jt: u8, jf: u8| libc::sock_filter { code: 0x15, jt, jf, k: value };
    let end = |value: u32| libc::sock_filter { code: 6, jt: 0, jf: 0, k: value };
    // The number of the call, then of `ioctl` the low word of its second argument.
    let mut steps = [
        load(0),
        is(libc::SYS_userfaultfd as u32, 3, 0),
        is(libc::SYS_ioctl as u32, 0, 3),
        load(24),
        is(0xaa00, 0, 1),
        end(libc::SECCOMP_RET_ERRNO | errno),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program lives until the calls return; it concerns this process alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

fn filter() {
    let before = descriptors();
    // A second filter is asked before the first, and the kernel takes what is said first: one of both.
    for errno in [libc::ENOSYS, libc::EPERM] {
        forbid(errno as u32);
        let built = Runtime::builder().executors(1).tracking(Tracking::Userfault).build();
        let error = built.err().unwrap();
        assert!([libc::EPERM, libc::ENOSYS].contains(&error.errno()), "{error}");
        let said = error.to_string();
        assert!(said.contains("vm.unprivileged_userfaultfd") && said.contains("Tracking::Protect"), "{said}");
        assert_eq!(descriptors(), before);
    }
    works(&runtime());
}

#[test]
fn descriptors_that_are_used_up_are_told() {
    passes("files");
}

#[test]
fn addresses_that_are_used_up_are_told() {
    passes("addresses");
}

#[test]
fn a_limit_of_file_sizes_is_told_and_ends_nothing() {
    passes("size");
}

#[test]
fn userfaultfd_that_is_forbidden_is_told() {
    passes("filter");
}

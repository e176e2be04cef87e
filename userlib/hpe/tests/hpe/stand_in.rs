//! GPUs of a libcuda whose memory is the host's (`fake_libcuda.c`): what the driver still has when memory goes, staged copies, and copies between
//! ranks by handles of CUDA.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::ranks::{die, in_job, in_job_with_death, victim};
use ggas_device::sim::SimNetwork;
use ggas_gpu::{Gpu, Launch, start};
use ggas_hpe::{Builder, HpeError, Refusal, Runtime, Staging, Told, Way};
use ggas_members::Job;
use ggas_rma::Node;

/// Only what is broken takes longer.
const SOON: Duration = Duration::from_secs(100);
const BUFFER: usize = 16 << 10;
/// Some blocks, and some bytes.
const LEN: usize = 5 * BUFFER + 4099;

/// Runs this test again on the stand-in, with a variable set, and there `checks`.
fn on_stand_in(test: &str, variable: Option<&str>, checks: impl FnOnce()) {
    if std::env::var_os("GGAS_TEST_FAKE").is_some() {
        return checks();
    }
    // In a list of folders a colon would end its name.
    let name = format!("{}-{}", test.replace("::", "-"), std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/tests/fake_libcuda.c");
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libcuda.so.1")).arg(source);
    assert!(built.status().expect("a C compiler").success());
    // Libcuda is loaded once in a process, and found as the process begins.
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("GGAS_TEST_FAKE", "1")
        .env("FAKE_IPC", "1")
        .envs(variable.map(|name| (name, "1")))
        .env("LD_LIBRARY_PATH", &folder)
        .output()
        .expect("a process");
    let _ = std::fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A function of the stand-in.
fn stand_in(name: &std::ffi::CStr) -> *mut libc::c_void {
    // SAFETY: looks a function of the loaded library up.
    let function = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!function.is_null());
    function
}

fn number(name: &std::ffi::CStr) -> i32 {
    // SAFETY: the function has this type.
    unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(stand_in(name))() }
}

/// Ranges of host memory that the driver has; a thousand more for each that is no memory any more.
fn registered() -> i32 {
    number(c"fake_registered")
}

/// Allocations of other processes that this one has open.
fn opened() -> i32 {
    number(c"fake_opened")
}

/// Allocations of GPUs, those of others that are open here among them.
fn memories() -> i32 {
    number(c"fake_memories")
}

/// Whether kernels and copies that are started last from now on.
fn work_lasts(lasts: bool) {
    let code = if lasts { 600 } else { 0 };
    // SAFETY: the function has this type.
    unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(i32)>(stand_in(c"fake_fail"))(code) }
}

#[test]
fn the_driver_has_forgotten_memory_before_it_goes() {
    on_stand_in("stand_in::the_driver_has_forgotten_memory_before_it_goes", None, || {
        let gpu = Gpu::open(0).expect("a GPU");
        let module = gpu.load(b"an image").expect("loaded");
        let runtime = Runtime::builder().gpus(vec![gpu]).build().expect("a runtime");
        let device = runtime.devices()[0];
        let object = runtime.alloc_shared(device, 3 << 20).expect("an object");
        let other = runtime.alloc(device, 8 << 20).expect("memory");
        // SAFETY: objects of this test; through pinned buffers.
        unsafe { runtime.copy(other, object, 3 << 20) }.expect("copied");
        let before = registered();
        // The words of copies' ends, the object's shadow, a pair of buffers.
        assert!((3..1000).contains(&before), "{before}");
        work_lasts(true);
        // SAFETY: the kernel has no arguments.
        let launch = unsafe { Launch::new(&module, "fake_kernel", 1, 1, &()) };
        let mut running = start(&[launch]).expect("started");
        // SAFETY: nobody uses it.
        unsafe { runtime.free(object) }.expect("freed");
        assert_eq!(registered(), before, "a kernel runs: the driver still has the shadow");
        drop(runtime);
        assert_eq!(registered(), before, "and all else");
        work_lasts(false);
        running.wait(SOON).expect("ended");
        assert_eq!((registered(), ggas_gpu::deferred_calls()), (0, 0));
    });
}

#[test]
fn staged_copies_are_right_however_engines_are_told() {
    on_stand_in("stand_in::staged_copies_are_right_however_engines_are_told", None, || {
        let gpus = Gpu::all().expect("two GPUs");
        for (told, blocks) in [Told::ByThread, Told::InLine, Told::ByEvents].into_iter().zip([4, 3, 2]) {
            let staging = Staging { blocks, bytes: usize::MAX, told };
            let builder = Runtime::builder().gpus(gpus.clone()).peers(false).staging(staging);
            let runtime = builder.pinned(BUFFER, 8 << 20).build().expect("a runtime");
            let [one, two] = [0, 1].map(|i: usize| runtime.alloc(runtime.devices()[i], LEN).expect("memory"));
            // SAFETY: memory of this test.
            unsafe {
                runtime.copy(one, pattern(1).as_ptr(), LEN).expect("up");
                let before = runtime.counts().ways.of(Way::Staged);
                // One in a block, some, and with short ones at both ends.
                for len in [BUFFER, 3 * BUFFER + 5, LEN] {
                    runtime.copy(two, one, len).expect("across");
                }
                assert_eq!(runtime.counts().ways.of(Way::Staged), before + 3);
                let mut bytes = vec![0; LEN];
                runtime.copy(bytes.as_mut_ptr(), two, LEN).expect("down");
                assert!(bytes == pattern(1), "{told:?}");
            }
            assert_eq!(runtime.counts().pinned.in_use, 0);
        }
    });
}

struct Rank<'a> {
    // Goes before the network.
    runtime: Runtime,
    _network: SimNetwork,
    job: &'a Job,
    me: u32,
}

fn pattern(seed: u32) -> Vec<u8> {
    (0..LEN as u32).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed.wrapping_mul(0x9e37)) as u8).collect()
}

impl<'a> Rank<'a> {
    fn new(job: &'a Job, settings: impl FnOnce(Builder) -> Builder) -> Rank<'a> {
        let gpu = Gpu::open(job.rank() as usize % 2).expect("a GPU");
        let builder = Runtime::builder().gpus(vec![gpu]).pinned(BUFFER, 8 << 20).timeout(SOON);
        let runtime = settings(builder).build().expect("a runtime");
        let network = SimNetwork::builder().join_as(job.member().clone()).expect("a network");
        runtime.join(job, &Node::new(network.device(0).expect("one"))).expect("all join");
        Rank { runtime, _network: network, job, me: job.rank() }
    }

    fn alloc(&self) -> *mut u8 {
        self.runtime.alloc(self.runtime.devices()[0], LEN).expect("memory")
    }

    fn copy(&self, dst: *mut u8, src: *const u8, len: usize) -> Result<(), HpeError> {
        // SAFETY: ranks order their copies by barriers.
        unsafe { self.runtime.copy(dst, src, len) }
    }

    fn fill(&self, at: *mut u8, seed: u32) {
        self.copy(at, pattern(seed).as_ptr(), LEN).expect("filled");
    }

    fn holds(&self, at: *const u8, seed: u32) -> bool {
        let mut bytes = vec![0; LEN];
        self.copy(bytes.as_mut_ptr(), at, LEN).expect("read");
        bytes == pattern(seed)
    }

    /// What all call so, of the next rank.
    fn next(&self, own: *mut u8) -> (u32, *mut u8) {
        let pointer = self.runtime.remote(self.me, own).expect("a pointer") as u64;
        let all = self.job.exchange(&pointer.to_ne_bytes(), SOON).expect("told");
        let next = (self.me + 1) % all.len() as u32;
        (next, u64::from_ne_bytes(all[next as usize][..].try_into().expect("eight")) as *mut u8)
    }

    fn barrier(&self) {
        self.job.barrier(SOON).expect("all are there");
    }

    fn by_network(&self) -> u64 {
        self.runtime.counts().ways.of(Way::Network)
    }
}

fn by_handles(job: &Job) {
    let rank = Rank::new(job, |builder| builder);
    let (mine, here) = (rank.alloc(), rank.alloc());
    rank.fill(mine, rank.me);
    let (next, there) = rank.next(mine);
    // Device, host and shared object, either way, from the middle.
    rank.copy(here, there, LEN).expect("from the next");
    assert!(rank.holds(here, next) && rank.holds(there, next));
    let shared = rank.runtime.alloc_shared(rank.runtime.devices()[0], LEN).expect("an object");
    rank.copy(shared, there, LEN).expect("from the next");
    assert!(rank.holds(shared, next));
    let mut tail = vec![0; 100];
    rank.copy(tail.as_mut_ptr(), there.wrapping_add(LEN - 100), 100).expect("its end");
    assert!(tail == pattern(next)[LEN - 100..]);
    rank.barrier();
    rank.fill(here, 10 + rank.me);
    rank.copy(there, here, LEN).expect("to the next");
    rank.barrier();
    assert!(rank.holds(mine, 10 + (1 - rank.me)), "what the other one put");
    assert_eq!((rank.by_network(), opened()), (0, 1), "one allocation is opened once, and all goes by it");
    what_is_wrong(&rank, next, there);
    // Freed by its owner: refused, and closed here, whereupon it is memory no more; what takes its place is opened anew.
    let before = memories();
    // SAFETY: nobody uses it.
    unsafe { rank.runtime.free(mine) }.expect("freed");
    assert_eq!(memories(), before, "the other one has it open");
    rank.barrier();
    let error = rank.copy(here, there, 8).expect_err("freed");
    assert!(matches!(error, HpeError::Refused { why: Refusal::Unknown, .. }), "{error}");
    assert_eq!(opened(), 0);
    rank.barrier();
    let again = rank.alloc();
    rank.fill(again, 20 + rank.me);
    let (next, there) = rank.next(again);
    rank.copy(here, there, LEN).expect("from the next");
    assert!(rank.holds(here, 20 + next));
    rank.barrier();
    assert_eq!((rank.by_network(), opened(), memories()), (0, 1, before));
    without_names(&rank, here);
    rank.barrier();
}

fn what_is_wrong(rank: &Rank<'_>, next: u32, there: *mut u8) {
    let mut bytes = vec![0; LEN + 1];
    for (at, len) in [(0, LEN + 1), (LEN - 1, 2)] {
        match rank.copy(bytes.as_mut_ptr(), there.wrapping_add(at), len) {
            Err(HpeError::Refused { rank, why: Refusal::AcrossObjects, .. }) => assert_eq!(rank, next),
            other => panic!("{other:?}"),
        }
    }
    // Where nothing is.
    let nothing = rank.runtime.remote(next, 4096 as *const u8).expect("a pointer");
    let error = rank.copy(bytes.as_mut_ptr(), nothing, 1).expect_err("nothing is there");
    assert!(matches!(error, HpeError::Refused { why: Refusal::Unknown, .. }), "{error}");
    rank.barrier();
}

/// Shared objects and memory of the host go by the network.
fn without_names(rank: &Rank<'_>, here: *mut u8) {
    let before = rank.by_network();
    let shared = rank.runtime.alloc_shared(rank.runtime.devices()[0], LEN).expect("an object");
    rank.fill(shared, 30 + rank.me);
    let mut host = pattern(40 + rank.me);
    // SAFETY: it outlives what is exported.
    unsafe { rank.runtime.export(host.as_mut_ptr(), LEN) }.expect("exported");
    for (own, seed) in [(shared, 30), (host.as_mut_ptr(), 40)] {
        let (next, there) = rank.next(own);
        for _ in 0..2 {
            rank.copy(here, there, LEN).expect("from the next");
            assert!(rank.holds(here, seed + next));
        }
    }
    assert_eq!((rank.by_network(), opened()), (before + 4, 1));
    rank.barrier();
    rank.runtime.unexport(host.as_mut_ptr()).expect("taken back");
}

#[test]
fn ranks_of_a_host_copy_by_handles() {
    let test = "stand_in::ranks_of_a_host_copy_by_handles";
    on_stand_in(test, None, || in_job(test, (2, 1), by_handles));
}

fn by_network(job: &Job) {
    let peers = std::env::var_os("FAKE_WITHOUT_PEERS").is_none();
    let rank = Rank::new(job, |builder| builder.peers(peers));
    let (mine, here) = (rank.alloc(), rank.alloc());
    rank.fill(mine, rank.me);
    let (next, there) = rank.next(mine);
    for _ in 0..2 {
        rank.copy(here, there, LEN).expect("from the next");
        assert!(rank.holds(here, next));
    }
    assert_eq!((rank.by_network(), opened()), (2, 0));
    rank.barrier();
}

#[test]
fn what_no_handle_opens_goes_by_the_network() {
    let test = "stand_in::what_no_handle_opens_goes_by_the_network";
    on_stand_in(test, Some("FAKE_NONE_OPENS"), || in_job(test, (2, 1), by_network));
}

#[test]
fn without_peers_copies_go_by_the_network() {
    let test = "stand_in::without_peers_copies_go_by_the_network";
    on_stand_in(test, Some("FAKE_WITHOUT_PEERS"), || in_job(test, (2, 1), by_network));
}

fn death(job: &Job) {
    let rank = Rank::new(job, |builder| builder);
    let (mine, here) = (rank.alloc(), rank.alloc());
    let (next, there) = rank.next(mine);
    rank.copy(here, there, LEN).expect("from the next");
    rank.barrier();
    let dead = victim().expect("one dies");
    if rank.me == dead {
        die();
    }
    if next == dead {
        // Its memory is still open here.
        let error = loop {
            if let Err(error) = rank.copy(here, there, LEN) {
                break error;
            }
            std::thread::yield_now();
        };
        assert!(matches!(error, HpeError::PeerLost { rank } if rank == dead), "{error}");
    }
}

#[test]
fn the_death_of_a_rank_is_told_though_its_memory_is_open() {
    let test = "stand_in::the_death_of_a_rank_is_told_though_its_memory_is_open";
    on_stand_in(test, None, || in_job_with_death(test, 3, 1, death));
}

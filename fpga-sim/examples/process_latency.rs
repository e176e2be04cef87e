//! Latency and bandwidth between two processes: puts to consumed notification, half a round trip.
//!
//! `cargo run --release -p extoll-sim --example process_latency`

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use common::{Node, Pages, Port, Setup};
use extoll_abi::{Access, Address, Spec};
use extoll_sim::process::{
    Arena, Inbox, JobSegment, Membership, Peer, PeerState, ProcessFabric, Shape, SharedNode,
};
use extoll_sim::*;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

const BYTES: usize = 8 << 20;
const WARMUP: usize = 2_000;

struct Side<'a> {
    port: Port<'a>,
    peer: Address,
    /// NLAs: mine in the arena, mine in private memory; the peer's are the same.
    shared: u64,
    private: u64,
}

fn main() {
    let shape = Shape::new(2, 1).expect("two processes");
    let (job, job_fd) = JobSegment::create(shape).expect("a job");
    let (near, far) = UnixStream::pair().expect("sockets");
    // SAFETY: no other thread exists yet, so the child may do whatever it likes.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let job = JobSegment::map(job_fd).expect("the job");
        run(join(1, job, &far));
        return;
    }
    run(join(0, job, &near));
    // SAFETY: waits for our own child.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

/// Exchanges file descriptors with the other process.
fn join(rank: u32, job: Arc<JobSegment>, socket: &UnixStream) -> Membership {
    let inbox = Inbox::create(job.shape()).expect("an inbox");
    let arena = Arena::create(1 << 30).expect("an arena");
    let fds = [inbox.fd().as_raw_fd(), arena.fd().as_raw_fd()];
    let sent = sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(&[0])],
        &[ControlMessage::ScmRights(&fds)],
        MsgFlags::empty(),
        None,
    );
    sent.expect("descriptors sent");
    let (mut byte, mut space) = ([0], nix::cmsg_space!([i32; 2]));
    let mut parts = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty())
        .expect("a message");
    let mut fds = message.cmsgs().expect("descriptors").flat_map(|message| match message {
        ControlMessageOwned::ScmRights(fds) => fds,
        _ => vec![],
    });
    let mut next = || {
        let fd = fds.next().expect("two descriptors");
        // SAFETY: just received, and nobody else's.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    let peer = Peer { inbox: next(), arena: next() };
    let peers = if rank == 0 { vec![None, Some(peer)] } else { vec![Some(peer), None] };
    job.set_state(rank, PeerState::Joined);
    Membership { rank, job, inbox, arena, peers }
}

fn pin(core: usize) {
    // SAFETY: a zeroed set of ours; a refusal only makes the numbers worse.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn run(member: Membership) {
    let rank = member.rank;
    pin(rank as usize);
    let fabric = ProcessFabric::new(member).expect("the fabric");
    let memory = HostMemory::new();
    let shared = Some(SharedNode { job: fabric.job().clone(), rank });
    let setup = Setup { memory: memory.clone(), fabric: fabric.clone(), engine: None, inline: true, shared };
    let node = setup.node(rank as u16);
    let vpid = fabric.job().take_vpid(rank, 256).expect("a VPID");
    let shared = Pages::in_arena(&memory, fabric.arena(), BYTES);
    let private = Pages::new(&memory, BYTES, 4096);
    for pages in [&shared, &private] {
        pages.fill_pattern(1);
    }
    let mut side = open(&node, vpid, &shared, &private, rank);
    meet(&fabric, 1);
    for size in [8, 64, 512, 2048, 4096, 16384, 65536, 1 << 20] {
        for (name, source, target) in [
            ("shared to shared", side.shared, side.shared),
            ("shared to private", side.shared, side.private),
            ("private to private", side.private, side.private),
        ] {
            let rounds = (20_000_000 / size).clamp(100, 20_000);
            ping_pong(&mut side, rank, size, rounds, source, target + (BYTES / 2) as u64, name);
        }
    }
    if rank == 0 {
        copies(&shared, &private);
        println!("{:?}", fabric.counters());
    }
    meet(&fabric, 2);
}

fn open<'a>(node: &'a Node, vpid: u8, shared: &Pages, private: &Pages, rank: u32) -> Side<'a> {
    let port = node.open(vpid, 1);
    let peer = Address::new(1 - rank as u16, vpid);
    let shared = node.register(vpid, shared, Access::ALL);
    let private = node.register(vpid, private, Access::ALL);
    Side { port, peer, shared, private }
}

fn meet(fabric: &Arc<ProcessFabric>, round: u64) {
    use std::sync::atomic::Ordering;
    let word = |rank| fabric.job().barrier_word(rank, 0).expect("a rank of the job");
    word(fabric.rank()).store(round, Ordering::Release);
    while word(1 - fabric.rank()).load(Ordering::Acquire) < round {
        std::thread::yield_now();
    }
}

fn ping_pong(side: &mut Side<'_>, rank: u32, size: usize, rounds: usize, read: u64, write: u64, name: &str) {
    let mut times = Vec::with_capacity(rounds);
    let rounds = WARMUP.min(rounds) + rounds;
    for _ in 0..rounds {
        let start = Instant::now();
        if rank == 0 {
            side.port.put(side.peer, Spec::COMPLETER, read, write, size as u32);
        }
        spin(&mut side.port);
        if rank == 1 {
            side.port.put(side.peer, Spec::COMPLETER, read, write, size as u32);
        }
        times.push(start.elapsed());
    }
    if rank == 0 {
        times.drain(..WARMUP.min(rounds / 2));
        times.sort();
        let half = |at: usize| times[at].as_nanos() as f64 / 2000.0;
        let (least, median) = (half(0), half(times.len() / 2));
        let rate = size as f64 / median / 1000.0;
        println!("{size:>8} B  {name:<19} min {least:>8.3} us  median {median:>8.3} us  {rate:>6.2} GB/s");
    }
}

/// Waits without pauses: latency is what is measured.
fn spin(port: &mut Port<'_>) {
    let mut rounds = 0u64;
    while port.try_next().is_none() {
        port.node.nic.progress();
        rounds += 1;
        assert!(rounds < 4_000_000_000, "no notification");
    }
}

fn copies(shared: &Pages, private: &Pages) {
    for size in [65536usize, 1 << 20] {
        let mut least = f64::MAX;
        for _ in 0..300 {
            let start = Instant::now();
            // SAFETY: both blocks are longer, and nothing else uses them now.
            unsafe {
                libc::memcpy(
                    private.address() as *mut libc::c_void,
                    shared.address() as *const libc::c_void,
                    size,
                )
            };
            least = least.min(start.elapsed().as_secs_f64());
        }
        println!("{size:>8} B  memcpy              {:>6.2} GB/s", size as f64 / least / 1e9);
    }
}

//! Ends of connections, and kernels on them; data by which each byte is known.
#![allow(dead_code, reason = "not every test binary needs all")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_kernels::{KernelMem, Processor, start};
use ggas_selftest::args::*;
use ggas_verbs::layout::*;
use ggas_verbs::*;

pub const SOON: Duration = Duration::from_secs(60);
/// Requests of a kernel.
pub const COUNT: u32 = 70;
/// Bytes of a region.
pub const REGION: usize = 1 << 16;
/// Where in a region its peer writes and reads.
pub const INTO: u64 = 1 << 15;

/// A queue pair with what it needs.
pub struct End {
    pub context: Arc<Context>,
    pub send: Cq,
    pub receive: Cq,
    pub qp: Qp,
    pub mr: Mr,
    pub pd: Pd,
}

impl End {
    /// Completion queues of `entries`; a region that has `bytes`.
    pub fn open(
        processor: &Processor,
        context: Arc<Context>,
        entries: u32,
        placement: Placement,
        bytes: &[u8],
    ) -> End {
        let pd = context.pd();
        let attributes = CqAttributes { entries, placement };
        let (send, receive) = (context.cq(attributes).unwrap(), context.cq(attributes).unwrap());
        let attributes = QpAttributes { receives: 128, placement, ..QpAttributes::default() };
        let qp = pd.qp(attributes, &send, &receive).unwrap();
        let buffer = Arc::new(processor.alloc(bytes.len()).unwrap());
        buffer.write(0, bytes).unwrap();
        let mr = pd.register(buffer, Access::ALL).unwrap();
        End { context, send, receive, qp, mr, pd }
    }
}

/// A region's bytes at first.
pub fn pattern(of: u8) -> Vec<u8> {
    (0..REGION as u32).map(|at| (at * 7 + at / 251) as u8 ^ of).collect()
}

pub fn bytes(buffer: &KernelMem, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    buffer.read(at, &mut bytes).unwrap();
    bytes
}

pub fn poll(cq: &Cq) -> Completion {
    let end = Instant::now() + SOON;
    loop {
        if let Some(done) = cq.poll().unwrap() {
            return done;
        }
        assert!(Instant::now() < end, "no completion");
        std::thread::yield_now();
    }
}

/// A kernel: args but for the addresses. It posts by the context's format, or by another one.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub operation: u32,
    pub bytes: u32,
    pub count: u32,
    pub receives: u32,
    pub step: u32,
    pub scope: u32,
    pub calls: u32,
    pub format: Option<u32>,
}

impl Kernel {
    pub fn of(operation: u32, bytes: u32, step: u32, scope: u32) -> Kernel {
        let calls = SELFTEST_VERBS_POSTS | SELFTEST_VERBS_POLLS;
        Kernel { operation, bytes, count: COUNT, receives: 0, step, scope, calls, format: None }
    }
}

/// Runs it on `mine`, whose peer's region is `remote`, while the host does `meanwhile`: its status, and what ended.
pub fn run_kernel(
    processor: &Processor,
    mine: &End,
    remote: &RemoteRegion,
    kernel: &Kernel,
    meanwhile: impl FnOnce(),
) -> (u64, Vec<ggas_ibv_wc>) {
    let room = processor.alloc(64 * 3 + COUNT as usize * size_of::<ggas_ibv_wc>()).unwrap();
    let key = |key: u32| if kernel.step >= 2 { key.to_be() } else { key };
    let args = selftest_verbs {
        qp: mine.qp.export().unwrap(),
        send_cq: mine.send.export(&room, 0).unwrap(),
        receive_cq: mine.receive.export(&room, 64).unwrap(),
        local: mine.mr.address(),
        remote: remote.address + INTO,
        into: mine.mr.address() + INTO,
        status: room.address() + 128,
        ended: room.address() + 192,
        lkey: key(mine.mr.lkey()),
        rkey: key(remote.rkey),
        operation: kernel.operation,
        bytes: kernel.bytes,
        count: kernel.count,
        receives: kernel.receives,
        step: kernel.step,
        scope: kernel.scope,
        format: kernel.format.unwrap_or(match mine.context.format() {
            Format::Mlx4 => GGAS_IBV_MLX4,
            Format::Mlx5 => GGAS_IBV_MLX5,
        }),
        calls: kernel.calls,
    };
    // SAFETY: the structure is this kernel's; what it names lives until the wait is over.
    let launch = unsafe { ggas_selftest::launch(processor, "ggas_selftest_verbs", 1, 64, &args) };
    let running = start(&[launch]).unwrap();
    meanwhile();
    running.wait(SOON).unwrap();
    let size = size_of::<ggas_ibv_wc>();
    let ended = (0..COUNT as usize)
        .map(|i| {
            let bytes = bytes(&room, 192 + i * size, size);
            // SAFETY: the structure is numbers.
            unsafe { bytes.as_ptr().cast::<ggas_ibv_wc>().read_unaligned() }
        })
        .collect();
    (room.load_u64(128).unwrap(), ended)
}

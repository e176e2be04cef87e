//! Triggered operations of kernels on the CPU executor: no card has the unit, so a thread of the host counts and posts.

use std::sync::Arc;

use extoll_abi::Spec;
use ggas_kernels::{Processor, start};
use ggas_rma::{HostBuffer, Node};
use ggas_selftest::args::{SELFTEST_TN_BY_GROUPS, selftest_tn};
use ggas_tn::{Config, Triggers, Way, When};

use crate::{Outcome, SOON, check, patient};

const BLOCKS: u32 = 2;
const THREADS: u32 = 32;
const BYTES: usize = 8 * (BLOCKS * THREADS) as usize;
const TAG: u64 = 7;

/// Two blocks trigger a put twice, re-armed by the host between; the bytes are those of the kernel's memory.
pub fn alone(node: &Node) -> Outcome {
    let cpu = Processor::cpu();
    let triggers = Triggers::open(node, &cpu, Config { port: patient(), ..Config::default() })?;
    check(triggers.way() == Way::Host, triggers.explain())?;
    let target = node.open_port(patient())?;
    let (data, status) = (Arc::new(cpu.alloc(BYTES)?), cpu.alloc(16)?);
    let source = triggers.port().register_kernel_memory(data.clone())?;
    let destination = target.register(HostBuffer::zeroed(BYTES)?)?;
    let when = When::tag(TAG).after(BLOCKS);
    let put =
        triggers.put(when, &source, 0..BYTES, target.address(), destination.nla(0)?, Spec::COMPLETER)?;
    for round in 1..=2 {
        let args = selftest_tn {
            tn: triggers.address(),
            status: status.address(),
            wrong: status.address() + 8,
            data: data.address(),
            tag: TAG,
            word: put.word(),
            times: round,
            form: SELFTEST_TN_BY_GROUPS,
            round,
            rearm: 0,
            ahead: 0,
        };
        // SAFETY: the arguments are this kernel's; their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_tn", BLOCKS, THREADS, &args) };
        let armed = triggers.arm();
        start(&[launch])?.wait(SOON)?;
        drop(armed);
        check(status.load_u64(0)? == 0, format!("{:?} {:?}", triggers.report(), triggers.status()))?;
        target.wait(SOON)?;
        // The kernel inverts its words once the put is complete.
        for at in (0..BYTES).step_by(8) {
            let (sent, kept) = (destination.load_u64(at)?, data.load_u64(at)?);
            check(
                sent == !kept,
                format!("word {} of round {round}: {sent:#x} sent, {kept:#x} kept", at / 8),
            )?;
        }
        triggers.rearm(TAG)?;
    }
    check(target.poll().is_none(), "more was sent than triggered")
}

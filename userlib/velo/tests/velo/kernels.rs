//! Ports of kernels on the CPU executor.

use extoll_abi::layout::GGAS_ERR_TIMEOUT;
use ggas_kernels::{CpuConfig, KernelMem, Processor, start};
use ggas_selftest::args::{SELFTEST_ECHO, SELFTEST_STREAM, selftest_velo};
use ggas_velo::KernelVelo;

use super::*;

/// Slots of the model's ring.
const RING: u64 = 256;

struct Side {
    port: KernelVelo,
    /// Status and number of wrong messages.
    result: KernelMem,
}

impl Side {
    fn new(network: &SimNetwork, node: u16, config: VeloConfig, cpu: &Processor) -> Side {
        Side {
            port: KernelVelo::open(&card(network, node), config, cpu).unwrap(),
            result: cpu.alloc(16).unwrap(),
        }
    }

    fn args(&self, peer: &Side, rounds: u32, mode: u32, first: bool) -> selftest_velo {
        let address = peer.port.port_address();
        selftest_velo {
            port: self.port.address(),
            status: self.result.address(),
            wrong: self.result.address() + 8,
            peer_node: address.node.into(),
            peer_vpid: address.vpid.into(),
            rounds,
            mode,
            first: first.into(),
            reserved: 0,
        }
    }
}

#[test]
fn kernels_exchange_messages() {
    exchange(false);
}

/// The way of kernels on a GPU, by kernels that run here.
#[test]
fn kernels_send_through_a_ring_of_slots() {
    exchange(true);
}

fn exchange(kernel_slots: bool) {
    let cpu = Processor::cpu();
    for network in networks(2) {
        for slots in SLOTS {
            let config = VeloConfig { kernel_slots, ..small(slots) };
            let (a, b) = (Side::new(&network, 0, config, &cpu), Side::new(&network, 1, config, &cpu));
            // Many more than a mailbox holds, and than the replay ring: both wrap, and the sender is held back.
            for (mode, rounds) in [(SELFTEST_ECHO, 300), (SELFTEST_STREAM, 700)] {
                let args = [a.args(&b, rounds, mode, true), b.args(&a, rounds, mode, false)];
                let _armed = (a.port.arm(), b.port.arm());
                // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
                let launches = args
                    .each_ref()
                    .map(|args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_velo", 1, 64, args) });
                start(&launches).unwrap().wait(SOON).unwrap();
                for side in [&a, &b] {
                    assert_eq!(side.result.read_u64s(0, 2).unwrap(), [0, 0], "{:?}", side.port.report());
                }
            }
        }
    }
}

/// What the network does not take waits in the ring; a kernel that finds it full says so in time, and nothing is lost.
#[test]
fn a_full_mailbox_holds_back_the_ring() {
    let (network, simulation) = simulated();
    let (clock, begun) = (simulation.clock(), simulation.elapsed());
    let cpu = Processor::cpu_with(CpuConfig::on_clock(clock));
    let bound = Duration::from_secs(20);
    let config = VeloConfig { kernel_slots: true, kernel_timeout: bound, ..small(MailboxSlots::B128) };
    let (sender, receiver) = (Side::new(&network, 0, config, &cpu), open(&network, 1, config));
    let to = receiver.address();
    let args = selftest_velo {
        port: sender.port.address(),
        status: sender.result.address(),
        wrong: sender.result.address() + 8,
        peer_node: to.node.into(),
        peer_vpid: to.vpid.into(),
        rounds: 2000,
        mode: SELFTEST_STREAM,
        first: 1,
        reserved: 0,
    };
    let armed = sender.port.arm();
    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
    let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_velo", 1, 64, &args) };
    start(&[launch]).unwrap().wait(2 * bound).unwrap();
    drop(armed);
    let waited = simulation.elapsed() - begun;
    assert!((bound..bound + Duration::from_secs(1)).contains(&waited), "{waited:?}");
    let report = sender.port.report().expect("the kernel waited for a slot");
    assert_eq!(sender.result.read_u64s(0, 1).unwrap(), [u64::from(GGAS_ERR_TIMEOUT)], "{report:?}");
    // It waited until the first of a full ring is taken.
    let sent = report.expected + RING - 1;
    for came in 0..sent {
        assert_eq!(receiver.wait(SOON).expect("it was sent").tag(), came as u8);
    }
    assert!(receiver.poll().is_none(), "more came than the kernel sent");
}

//! Ports handed to kernels on the CPU executor and taken back.

use ggas_kernels::args::{SELFTEST_ECHO, SELFTEST_STREAM, selftest_velo};
use ggas_kernels::{KernelMem, Launch, Processor, start};
use ggas_velo::{KernelVelo, SendError, VeloPort};

use super::*;

struct Side {
    port: KernelVelo,
    /// Status and number of wrong messages.
    result: KernelMem,
}

impl Side {
    fn new(port: VeloPort, cpu: &Processor) -> Side {
        Side { port: port.for_kernels(cpu).unwrap(), result: cpu.alloc(16).unwrap() }
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
fn kernels_exchange_messages_and_give_the_port_back() {
    let cpu = Processor::cpu();
    for network in networks(2) {
        for slots in SLOTS {
            let (a, b) = (open(&network, 0, small(slots)), open(&network, 1, small(slots)));
            let (a, b) = (Side::new(a, &cpu), Side::new(b, &cpu));
            assert!(matches!(
                a.port.handle().connect(b.port.port_address()).send(b"x", 0),
                Err(SendError::KernelOwned)
            ));
            // Many more than a mailbox holds, and than the replay ring: both wrap, and the sender is held back.
            for (mode, rounds) in [(SELFTEST_ECHO, 300), (SELFTEST_STREAM, 700)] {
                let args = [a.args(&b, rounds, mode, true), b.args(&a, rounds, mode, false)];
                let _armed = (a.port.arm(), b.port.arm());
                // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
                let launches = args
                    .each_ref()
                    .map(|args| unsafe { Launch::new(&cpu, "ggas_selftest_velo", 1, 64, args) });
                start(&launches).unwrap().wait(SOON).unwrap();
                for side in [&a, &b] {
                    assert_eq!(side.result.read_u64s(0, 2).unwrap(), [0, 0], "{:?}", side.port.report());
                }
            }
            let (a, b) = (a.port.into_port().unwrap(), b.port.into_port().unwrap());
            a.connect(b.address()).send(b"the host goes on", 9).unwrap();
            assert_eq!(b.wait(SOON).unwrap().bytes(), b"the host goes on");
            b.connect(a.address()).send(b"both ways", 9).unwrap();
            assert_eq!(a.wait(SOON).unwrap().bytes(), b"both ways");
        }
    }
}

//! Packets for VPIDs and SMFUs that no process of a job serves: the process that sent them acts for their target.
//!
//! The same units decide as at a target that is there, over the target node's registers, with the VPID closed. So
//! register access works, everything else is refused, and the target node's counters show it.

use extoll_abi::{Kind as Unit, regs};

use super::Nic;
use super::access::{read_registers, write_registers};
use super::core::Core;
use super::send::count_sent;
use crate::completer::{Completer, Delivery};
use crate::counters::{Counters, VELO_DISABLED};
use crate::fragment;
use crate::lock::Locks;
use crate::packet::{ANYONE, Kind, NOBODY, Packet};
use crate::process::NodeState;
use crate::requester::Context;
use crate::responder::{self, Answer};
use crate::vpid::VpidEntry;

impl Core {
    /// Does what the target's card would, see the module's description.
    #[cold]
    pub(super) fn act_for_target(&mut self, nic: &Nic, mut packet: Packet) {
        if packet.process == NOBODY {
            packet.process = ANYONE; // this process is at the other end
        }
        // A network delivers nothing for a node that does not exist.
        let Some(target) = nic.state.act_for(packet.destination.node) else { return };
        let mut counters = target.counters();
        match packet.kind {
            Kind::Get | Kind::Lock => self.answer_for(nic, &target, &mut counters, &packet),
            Kind::Put | Kind::Notification | Kind::GetResponse | Kind::LockResponse => {
                self.complete_for(nic, &target, &mut counters, packet);
            }
            Kind::Velo => counters.add(VELO_DISABLED, 1),
            Kind::SmfuStore | Kind::SmfuLoad | Kind::SmfuReply => target.refuse_smfu(),
        }
        target.settle();
    }

    fn answer_for(&mut self, nic: &Nic, target: &NodeState, counters: &mut Counters, packet: &Packet) {
        let response =
            match responder::receive(&mut self.closed(nic, target, counters), &Locks::default(), packet) {
                Answer::Dropped => return,
                Answer::Send(job) => job.packet,
                Answer::Registers(mut job, offset) => {
                    job.packet.payload = read_registers(offset, job.packet.total, |at| {
                        target.read(at).or_else(|| nic.fabric.reg_read(target.node(), at)).unwrap_or(0)
                    });
                    job.packet
                }
            };
        count_sent(counters, Unit::Responder, &response);
        self.respond_with(nic, response);
    }

    fn complete_for(&mut self, nic: &Nic, target: &NodeState, counters: &mut Counters, mut packet: Packet) {
        let cx = &mut self.closed(nic, target, counters);
        // Nobody is there to be notified: only registers are left to do.
        if let Delivery::Registers = Completer::default().receive(cx, &mut packet) {
            let written = write_registers(&*nic.memory, &mut packet, |at, word| {
                // Unknown and read-only registers ignore it.
                let _ = target.write(at, word) || nic.fabric.reg_write(target.node(), at, word);
            });
            if written.is_err() {
                cx.counters.error(regs::COMPL_TRANS);
            }
        }
    }

    /// What units at a target work with whose VPID is closed.
    fn closed<'a>(&'a mut self, nic: &'a Nic, target: &NodeState, counters: &'a mut Counters) -> Context<'a> {
        Context {
            node: target.node(),
            memory: &*nic.memory,
            atu: &mut self.atu,
            counters,
            entry: VpidEntry::default(),
            fragment: fragment::payload_of_mtu(target.config() as u16),
            force_errors: regs::CONFIG_FORCE_ERRORS.is_set(target.config()),
        }
    }
}

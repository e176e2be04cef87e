//! Packets for VPIDs and SMFUs that no process of a job serves: the process that sent them acts for their target.
//!
//! The same units decide as at a target that is there, over the target node's registers, with the VPID closed. So
//! register access works, everything else is refused, and the target node's counters show it.

use extoll_abi::{Kind as Unit, regs};

use super::access::{read_registers, write_registers};
use super::board::Board;
use super::sender::Sender;
use super::sending::count_sent;
use super::translation::Translation;
use crate::node::NodeState;
use crate::packet::{ANYONE, Kind, NOBODY, Packet};
use crate::units::completer::{Completer, Delivery};
use crate::units::counters::{Counters, VELO_DISABLED};
use crate::units::lock::Locks;
use crate::units::responder::{self, Answer};

/// Does what the target's card would, see the module's description.
#[cold]
pub(super) fn act_for_target(
    board: &Board,
    translation: &mut Translation,
    sender: &mut Sender,
    mut packet: Packet,
) {
    if packet.process == NOBODY {
        packet.process = ANYONE; // this process is at the other end
    }
    // A network delivers nothing for a node that does not exist.
    let Some(target) = board.state.act_for(packet.destination.node) else { return };
    let counters = target.counters();
    match packet.kind {
        Kind::Get | Kind::Lock => {
            if let Some(response) = answer_for(board, translation, &target, &counters, &packet) {
                sender.respond_with(response);
            }
        }
        Kind::Put | Kind::Notification | Kind::GetResponse | Kind::LockResponse => {
            complete_for(board, translation, &target, &counters, packet);
        }
        Kind::Velo => counters.add(VELO_DISABLED, 1),
        Kind::SmfuStore | Kind::SmfuLoad | Kind::SmfuAtomic | Kind::SmfuReduce | Kind::SmfuReply => {
            target.refuse_smfu();
        }
    }
    target.settle();
}

fn answer_for(
    board: &Board,
    translation: &mut Translation,
    target: &NodeState,
    counters: &Counters,
    packet: &Packet,
) -> Option<Packet> {
    let mut cx = translation.context_of_closed(target, counters);
    let response = match responder::receive(&mut cx, &Locks::default(), packet) {
        Answer::Dropped => return None,
        Answer::Send(job) => job.packet,
        Answer::Registers(mut job, offset) => {
            job.packet.payload = read_registers(offset, job.packet.total, |at| {
                target.read(at).or_else(|| board.fabric.reg_read(target.node(), at)).unwrap_or(0)
            });
            job.packet
        }
    };
    count_sent(counters, Unit::Responder, &response);
    Some(response)
}

fn complete_for(
    board: &Board,
    translation: &mut Translation,
    target: &NodeState,
    counters: &Counters,
    mut packet: Packet,
) {
    let mut cx = translation.context_of_closed(target, counters);
    // Nobody is there to be notified: only registers are left to do.
    if let Delivery::Registers = Completer::default().receive(&mut cx, &mut packet) {
        let written = write_registers(&*board.memory, &mut packet, |at, word| {
            // Unknown and read-only registers ignore it.
            let _ = target.write(at, word) || board.fabric.reg_write(target.node(), at, word);
        });
        if written.is_err() {
            counters.error(regs::COMPL_TRANS);
        }
    }
}

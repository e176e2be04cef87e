//! Kernels on the CPU executor that post by the card's requester pages and consume its notifications.

use std::error::Error;
use std::sync::Arc;

use extoll_abi::bindings::{
    EXTOLL_RF_RMA_WCB_TIMEOUT, EXTOLL_WCB_TIMEOUT_ACTIVE_SHIFT, EXTOLL_WCB_TIMEOUT_VALUE_SHIFT,
};
use extoll_abi::{Address, Spec};
use ggas_kernels::{KernelMem, Processor, start};
use ggas_rma::{Connection, KernelPort, Match, Node, Port, PortConfig, Region};
use ggas_selftest::args::{selftest_posts, selftest_rma};

use crate::{Outcome, SOON, check, patient};

/// Bytes of a put.
const BYTES: u32 = 1000;
/// Threads that post at the same time, and how often each does.
const THREADS: u32 = 32;
const POSTS: u32 = 20;
/// Class by which the machines tell each other where their kernels are.
const PLACE: u8 = 60;

/// How long a card waits for the rest of a descriptor here, in units of 50 ms: a minute.
const REST: u64 = 1200;

/// A GPU is not taken away from a kernel between the words of a descriptor, so kernels do not look for halves that the
/// card gave up. The executor's threads may be: the card waits longer for the rest than this machine stands still.
fn wait_for_the_rest(node: &Node) -> Outcome {
    let value = REST << EXTOLL_WCB_TIMEOUT_VALUE_SHIFT | 1 << EXTOLL_WCB_TIMEOUT_ACTIVE_SHIFT;
    Ok(node.device().write_register(EXTOLL_RF_RMA_WCB_TIMEOUT, value)?)
}

/// A port for kernels, a half of its memory to send and one to receive.
pub struct Side {
    port: KernelPort,
    memory: Arc<KernelMem>,
    region: Region,
    /// Status, and number of wrong bytes.
    result: KernelMem,
}

/// Where the kernels of the other side are, and where their data arrive.
#[derive(Clone, Copy)]
pub struct There {
    address: Address,
    nla: u64,
}

impl Side {
    fn new(node: &Node, cpu: &Processor, config: PortConfig) -> Result<Side, Box<dyn Error>> {
        let port = node.open_kernel_port(config, cpu)?;
        let memory = Arc::new(cpu.alloc(2 * 1024)?);
        let region = port.register_kernel_memory(memory.clone())?;
        Ok(Side { port, memory, region, result: cpu.alloc(16)? })
    }

    fn there(&self) -> Result<There, Box<dyn Error>> {
        Ok(There { address: self.port.port_address(), nla: self.region.nla(1024)? })
    }

    /// Its port does not wait longer than `config` says. Tells the other machine where it is, and where that one is.
    pub fn meet(
        node: &Node,
        port: &Port,
        there: &Connection,
        cpu: &Processor,
        config: PortConfig,
    ) -> Result<(Side, There), Box<dyn Error>> {
        wait_for_the_rest(node)?;
        let side = Side::new(node, cpu, config)?;
        let There { address, nla } = side.there()?;
        there.notification_put(PLACE, nla << 8 | u64::from(address.vpid), Spec::COMPLETER)?;
        let told = port.wait_match(&Match::any().class(PLACE).from(there.remote()), SOON)?.word0;
        let to = There { address: Address::new(there.remote().node, told as u8), nla: told >> 8 };
        Ok((side, to))
    }

    /// Arguments of the kernel that plays `rounds` with the one there.
    pub fn args(&self, to: There, rounds: u32, first: bool) -> Result<selftest_rma, Box<dyn Error>> {
        Ok(selftest_rma {
            port: self.port.address(),
            send: self.memory.address(),
            send_nla: self.region.nla(0)?,
            receive: self.memory.address() + 1024,
            target_nla: to.nla,
            status: self.result.address(),
            wrong: self.result.address() + 8,
            peer_node: to.address.node.into(),
            peer_vpid: to.address.vpid.into(),
            rounds,
            bytes: BYTES,
            first: first.into(),
            quiet: 0,
        })
    }

    /// Whether something has arrived.
    pub fn received(&self) -> Result<bool, Box<dyn Error>> {
        Ok(self.memory.load_u64(1024)? != 0)
    }

    /// Status of its kernel, and what the port reports.
    pub fn status(&self) -> Result<(u64, String), Box<dyn Error>> {
        Ok((self.result.load_u64(0)?, format!("{:?}", self.port.report())))
    }

    fn ended_well(&self) -> Outcome {
        let [status, wrong] = self.result.read_u64s(0, 2)?[..] else { return Err("no result".into()) };
        check((status, wrong) == (0, 0), format!("status {status}, {wrong} wrong: {:?}", self.port.report()))
    }
}

/// Two kernels play ping-pong with puts.
pub fn ping_pong(node: &Node) -> Outcome {
    wait_for_the_rest(node)?;
    let cpu = Processor::cpu();
    let (a, b) = (Side::new(node, &cpu, patient())?, Side::new(node, &cpu, patient())?);
    let args = [a.args(b.there()?, 40, true)?, b.args(a.there()?, 40, false)?];
    // SAFETY: the arguments are this kernel's; their memory lives beyond the wait.
    let launches =
        args.each_ref().map(|args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, args) });
    start(&launches)?.wait(SOON)?;
    a.ended_well()?;
    b.ended_well()
}

/// Two blocks of threads post on one port at the same time, and a warp takes everything.
pub fn many_threads(node: &Node) -> Outcome {
    wait_for_the_rest(node)?;
    let cpu = Processor::cpu();
    let (a, b) = (node.open_kernel_port(patient(), &cpu)?, node.open_kernel_port(patient(), &cpu)?);
    let (from, to) = (a.port_address(), b.port_address());
    let (seen, status) = (cpu.alloc(THREADS as usize * 8)?, cpu.alloc(8)?);
    let args = |port: &KernelPort, peer: Address, expect| selftest_posts {
        port: port.address(),
        seen: seen.address(),
        status: status.address(),
        peer_node: peer.node.into(),
        peer_vpid: peer.vpid.into(),
        posts: POSTS,
        batch: 0,
        expect,
        reserved: 0,
    };
    let (sends, takes) = (args(&a, to, 0), args(&b, from, THREADS * POSTS));
    // SAFETY: the arguments are this kernel's; their memory lives beyond the wait.
    let launches = unsafe {
        [
            ggas_selftest::launch(&cpu, "ggas_selftest_posts", 2, THREADS / 2, &sends),
            ggas_selftest::launch(&cpu, "ggas_selftest_posts", 1, 32, &takes),
        ]
    };
    start(&launches)?.wait(SOON)?;
    check(status.load_u64(0)? == 0, format!("{:?} {:?}", a.report(), b.report()))?;
    let sum = u64::from(POSTS * (POSTS + 1) / 2);
    let seen = seen.read_u64s(0, THREADS as usize)?;
    check(seen.iter().all(|seen| *seen == sum), format!("payloads do not add up to {sum}: {seen:?}"))
}

/// A kernel on each machine.
pub fn across(node: &Node, port: &Port, there: &Connection, first: bool) -> Outcome {
    let cpu = Processor::cpu();
    let (side, to) = Side::meet(node, port, there, &cpu, patient())?;
    let args = side.args(to, 40, first)?;
    // SAFETY: as above.
    let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &args) };
    start(&[launch])?.wait(SOON)?;
    side.ended_well()
}

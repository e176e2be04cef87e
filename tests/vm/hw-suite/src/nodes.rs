//! Kernels of all nodes in one window of their cards: loads and stores, puts, collectives and RandomAccess, each of which
//! passes the SMFU of both ends.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use extoll_abi::layout;
use extoll_abi::regs::{EXTOLL_RF_SMFU_SENT_NP, EXTOLL_RF_SMFU_SENT_P};
use ggas_benches::SharedTable;
use ggas_coll::{Group, GroupConfig};
use ggas_kernels::{Processor, start};
use ggas_rma::{Connection, Node, Port};
use ggas_selftest::args::*;
use ggas_window::{Mapping, Window};

use crate::meet::{meet, sync_all};
use crate::{Outcome, SOON, check, part, patient};

/// Bytes of each part before the group's.
const USER: usize = 128 << 10;
/// Entries of the whole table of RandomAccess.
const ENTRIES: u64 = 1 << 10;
/// Where each node shows its part of the table in the end.
const TABLE: usize = USER / 4 * 3;

/// What this node has.
struct Side {
    node: Node,
    port: Port,
    others: Vec<Connection>,
    cpu: Processor,
    group: Group,
    rank: usize,
    step: u8,
}

pub fn all(node: &Node, count: u16) -> Outcome {
    let mut side = Side::new(node, count)?;
    side.part("loads and stores of kernels", Side::loads_and_stores)?;
    side.part("calls of the host", Side::host_calls)?;
    if count == 2 {
        side.part(SINGLE, Side::single_calls)?;
        for (name, form) in PUTS {
            // The threads of a grid fill units of 16 bytes.
            let grid = form == SELFTEST_PUT_GRID;
            for (bytes, skew) in [(16, 0), if grid { (208, 0) } else { (203, 5) }] {
                side.part(name, |side| side.put(form, bytes, skew))?;
            }
        }
    }
    for (name, method) in ggas_selftest::COLLECTIVES {
        let collective = Collective { method };
        side.part(name, |side| side.collective(&collective))?;
    }
    side.part("RandomAccess", Side::random_access)?;
    let Side { port, group, others, .. } = side;
    drop((group, others));
    port.close()?;
    Ok(())
}

impl Side {
    fn new(node: &Node, count: u16) -> Result<Side, Box<dyn Error>> {
        let port = node.open_port(patient())?;
        let mut others = Vec::new();
        part("meeting", || {
            for other in (0..count).filter(|other| *other != node.id()) {
                others.push(meet(&port, other, 0)?.0);
            }
            Ok(())
        })?;
        let cpu = Processor::cpu();
        part("more nodes than intervals", || many(node, count, &cpu, &port, &others))?;
        let config = GroupConfig { timeout: SOON, ..small() };
        let nodes: Vec<u16> = (0..count).collect();
        let window = Window::on_nodes(node, &nodes, &cpu, config.end(nodes.len())?, SOON)?;
        check(window.info().mapped == Ok(Mapping::Card), window.info())?;
        check(!window.info().atomics, "an SMFU has no atomics")?;
        let group = Group::on_nodes(Arc::new(window), &config)?;
        let rank = usize::from(node.id());
        Ok(Side { node: node.clone(), port, others, cpu, group, rank, step: 1 })
    }

    fn window(&self) -> &Window {
        self.group.window()
    }

    /// Runs a part between two meetings; the users' bytes of the window are zero when it begins.
    fn part(&mut self, name: &str, work: impl FnOnce(&Side) -> Outcome) -> Outcome {
        self.window().zero(self.rank, 0, USER)?;
        self.window().member(self.rank)?.clear_report();
        self.meet()?;
        let stores = || self.node.read_register(EXTOLL_RF_SMFU_SENT_P);
        let before = stores()?;
        part(name, || work(self))?;
        // All parts store to other nodes, but for the single calls, which node 0 makes.
        let idle = name == SINGLE && self.rank > 0;
        check(idle || stores()? > before, format!("{name}: no store passed the SMFU"))?;
        self.meet()
    }

    fn meet(&mut self) -> Outcome {
        // Classes of this suite's own, below that of greetings.
        self.step = self.step % 200 + 1;
        sync_all(&self.port, &self.others, self.step)
    }

    /// Runs a kernel of one block on this node; the status and the number of wrong values that it gives must be 0.
    fn run<T: Copy>(&self, name: &str, args: impl FnOnce(u64, u64) -> Result<T, Box<dyn Error>>) -> Outcome {
        let result = self.cpu.alloc(16)?;
        let args = args(result.address(), result.address() + 8)?;
        // SAFETY: the arguments are this kernel's; their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, name, 1, 32, &args) };
        start(&[launch])?.wait(SOON)?;
        let member = self.window().member(self.rank)?;
        let [status, wrong] = result.read_u64s(0, 2)?[..] else { return Err("no result".into()) };
        check((status, wrong) == (0, 0), format!("status {status}, {wrong} wrong: {:?}", member.report()))
    }

    fn address(&self) -> Result<u64, Box<dyn Error>> {
        Ok(self.window().member(self.rank)?.address())
    }

    /// Every node writes to all others and reads what is there.
    fn loads_and_stores(&self) -> Outcome {
        let window = self.address()?;
        let loads = || self.node.read_register(EXTOLL_RF_SMFU_SENT_NP);
        let (before, bytes, rounds) = (loads()?, 512, 3);
        self.run("ggas_selftest_window", |status, wrong| {
            Ok(selftest_window { window, status, wrong, bytes, rounds, atomics: 0 })
        })?;
        let words = u64::from(rounds) * bytes / 8 * self.others.len() as u64;
        check(loads()? - before >= words, format!("fewer than {words} loads passed the SMFU"))
    }

    /// The host reads and writes any part, each word by the unit or in its own memory.
    fn host_calls(&self) -> Outcome {
        let window = self.window();
        let next = (self.rank + 1) % window.len();
        let text = format!("node {} was here, and left more than one word", self.rank);
        window.write(next, 4099, text.as_bytes())?;
        window.store_u64(next, 8, 7 + self.rank as u64)?;
        let mut back = vec![0; text.len()];
        window.read(next, 4099, &mut back)?;
        check(back == text.as_bytes(), "the other part holds something else")?;
        check(window.load_u64(next, 8)? == 7 + self.rank as u64, "the word is another")?;
        let own = window.member(self.rank)?;
        check(own.pointer_of(self.rank)? != own.global_pointer(self.rank)?, "one way to the own part")
    }

    /// Refusals, comparisons and puts that no signal follows, from node 0 to node 1.
    fn single_calls(&self) -> Outcome {
        if self.rank != 0 {
            return Ok(());
        }
        // Some of its waits are in vain: the same window with a short time limit.
        let (failed, impatient) = (self.cpu.alloc(8)?, self.cpu.alloc(size_of::<layout::ggas_window>())?);
        // SAFETY: the executor's structures are memory of this process, and plain numbers.
        let mut window = unsafe { (self.address()? as *const layout::ggas_window).read() };
        window.timeout_ns = 1_000_000;
        // SAFETY: as above; the memory is large enough, and aligned to more.
        unsafe { (impatient.address() as *mut layout::ggas_window).write(window) };
        let args = selftest_calls { window: impatient.address(), failed: failed.address() };
        // SAFETY: the arguments are this kernel's; their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, "ggas_selftest_calls", 1, 32, &args) };
        start(&[launch])?.wait(SOON)?;
        let failed = failed.load_u64(0)?;
        check(failed == 0, format!("checks {failed:#x} of selftest_calls.cu"))
    }

    /// Puts with signals and gets, both ways.
    fn put(&self, form: u32, bytes: u64, skew: u32) -> Outcome {
        let window = self.address()?;
        self.run("ggas_selftest_put", |status, wrong| {
            let (each, rounds) = (1024, 2);
            Ok(selftest_put { window, status, wrong, bytes, each, skew, form, rounds, ..Default::default() })
        })
    }

    /// A collective on whole numbers, in place of nobody's.
    fn collective(&self, collective: &Collective) -> Outcome {
        let (nodes, count) = (self.group.len(), COUNT);
        let inputs: Vec<Vec<u64>> = (0..nodes).map(|node| input(node, nodes * count)).collect();
        let given = collective.input(nodes, count);
        let wanted = collective.wanted(&inputs, self.rank, count);
        let window = self.window();
        let by_window = collective.method == SELFTEST_ALLREDUCE_WINDOW;
        let (memory, out) = (self.cpu.alloc(nodes * count * 8)?, self.cpu.alloc(nodes * count * 8)?);
        memory.write_u64s(0, &inputs[self.rank][..given])?;
        if collective.method == SELFTEST_BROADCAST && self.rank == ROOT {
            out.write_u64s(0, &inputs[self.rank][..given])?;
        }
        if by_window {
            let bytes: Vec<u8> = inputs[self.rank][..given].iter().flat_map(|v| v.to_ne_bytes()).collect();
            window.write(self.rank, 0, &bytes)?;
        }
        let base = window.member(self.rank)?.global_pointer(0)?;
        let group = self.group.member(self.rank)?.address();
        let method = collective.method;
        let counters = method <= SELFTEST_BARRIER_MASTER;
        let kernel = if counters { "ggas_selftest_coll" } else { "ggas_selftest_coll_types" };
        let address = self.address()?;
        self.run(kernel, |status, wrong| {
            let (input, input_stride, out) = match (counters, by_window) {
                (true, _) => (base, window.info().stride as u64, 0),
                (_, true) => (0, 0, TABLE as u64),
                _ => (memory.address(), 0, out.address()),
            };
            let rounds = if counters { 10 } else { 1 };
            let (element, op, form) = (SELFTEST_INT64, SELFTEST_SUM, SELFTEST_BLOCK);
            let (root, count, skip, reserved) = (ROOT as u32, count as u64, 0, 0);
            let window = address;
            Ok(selftest_coll {
                group,
                window,
                input,
                input_stride,
                out,
                status,
                wrong,
                count,
                element,
                op,
                form,
                method,
                rounds,
                root,
                skip,
                reserved,
            })
        })
        .map_err(|error| format!("{error}; {:?}", self.group.check().err()))?;
        let Some(wanted) = wanted else { return Ok(()) };
        let mut found = out.read_u64s(0, wanted.len())?;
        if by_window {
            for (i, word) in found.iter_mut().enumerate() {
                *word = window.load_u64(self.rank, TABLE + 8 * i)?;
            }
        }
        check(found == wanted, format!("{found:x?}, not {wanted:x?}"))
    }

    /// HPCC RandomAccess over all nodes; node 0 looks at the whole table.
    fn random_access(&self) -> Outcome {
        let (window, nodes) = (self.window(), self.group.len());
        let table = SharedTable::new(ENTRIES, nodes as u32)?;
        check(table.window_bytes() <= TABLE, "mailboxes reach into the table")?;
        let own = table.run(window, &self.cpu, SOON)?;
        for (i, word) in own.iter().enumerate() {
            window.store_u64(self.rank, TABLE + 8 * i, *word)?;
        }
        sync_all(&self.port, &self.others, 220)?;
        if self.rank != 0 {
            return Ok(());
        }
        let mut entries = Vec::new();
        for rank in 0..nodes {
            for i in 0..table.entries_of(rank as u32) as usize {
                entries.push(window.load_u64(rank, TABLE + 8 * i)?);
            }
        }
        let wrong = table.count_wrong(entries);
        check(wrong == 0, format!("{wrong} of {ENTRIES} entries are wrong"))
    }
}

/// A window of a hundred nodes, of which most are not there: address bits name them.
fn many(node: &Node, count: u16, cpu: &Processor, port: &Port, others: &[Connection]) -> Outcome {
    let nodes: Vec<u16> = (0..100).collect();
    let window = Window::on_nodes(node, &nodes, cpu, 5000, SOON)?;
    check(window.info().stride == 8192, "parts of a power of two of bytes")?;
    sync_all(port, others, 221)?;
    for rank in 0..usize::from(count) {
        window.store_u64(rank, 8 * usize::from(node.id()), 100 + rank as u64)?;
        check(window.load_u64(rank, 8 * usize::from(node.id()))? == 100 + rank as u64, "another word")?;
    }
    sync_all(port, others, 222)?;
    for from in 0..usize::from(count) {
        let word = window.load_u64(usize::from(node.id()), 8 * from)?;
        check(word == 100 + u64::from(node.id()), format!("{word} from node {from}"))?;
    }
    sync_all(port, others, 223)
}

const SINGLE: &str = "single calls of kernels";
/// Who puts together.
const PUTS: [(&str, u32); 4] = [
    ("puts of threads", SELFTEST_PUT_THREAD),
    ("puts of warps", SELFTEST_PUT_WARP),
    ("puts of blocks", SELFTEST_PUT_BLOCK),
    ("puts of grids", SELFTEST_PUT_GRID),
];
/// Elements of each node's part of a collective.
const COUNT: usize = 40;
/// Of collectives with a root.
const ROOT: usize = 1;

/// Little of everything, so that it fits the card's memory for one node and takes several exchanges.
fn small() -> GroupConfig {
    GroupConfig {
        offset: USER,
        slot_bytes: 256,
        packed_bytes: 512,
        packed_channels: 2,
        ..GroupConfig::default()
    }
}

/// What node `node` brings.
fn input(node: usize, count: usize) -> Vec<u64> {
    (0..count as u64).map(|i| (node as u64 + 1) * 1_000_003 + i * 7).collect()
}

struct Collective {
    method: u32,
}

impl Collective {
    /// Elements that each node gives.
    fn input(&self, nodes: usize, count: usize) -> usize {
        match self.method {
            SELFTEST_REDUCE_SCATTER | SELFTEST_ALL_TO_ALL => nodes * count,
            _ => count,
        }
    }

    /// What node `rank` has in the end; None: whatever.
    fn wanted(&self, inputs: &[Vec<u64>], rank: usize, count: usize) -> Option<Vec<u64>> {
        let sums = |places: Range<usize>| -> Vec<u64> {
            places.map(|at| inputs.iter().fold(0, |sum: u64, node| sum.wrapping_add(node[at]))).collect()
        };
        let of_all = |places: Range<usize>| -> Vec<u64> {
            inputs.iter().flat_map(|node| node[places.clone()].to_vec()).collect()
        };
        match self.method {
            SELFTEST_SYNC | SELFTEST_BARRIER | SELFTEST_BARRIER_MASTER => None,
            SELFTEST_REDUCE_SCATTER => Some(sums(rank * count..(rank + 1) * count)),
            SELFTEST_BROADCAST => Some(inputs[ROOT][..count].to_vec()),
            SELFTEST_ALL_GATHER => Some(of_all(0..count)),
            SELFTEST_ALL_TO_ALL => Some(of_all(rank * count..(rank + 1) * count)),
            SELFTEST_REDUCE..=SELFTEST_REDUCE_ALL_TO_ALL if rank != ROOT => None,
            _ => Some(sums(0..count)),
        }
    }
}

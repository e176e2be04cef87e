//! RandomAccess by nodes that have nothing in common but a window.

use std::time::Duration;

use ggas_kernels::{Processor, start};
use ggas_window::Window;

use super::randomaccess::{Node, Shape};
use crate::BenchError;
use crate::args::{BENCH_RANDOM_NODES, bench_random};
use crate::error::Doing;
use crate::hpcc::Table;
use crate::image::KERNELS;
use crate::kernel;
use crate::space::window_of;

/// RandomAccess by GGAS mailboxes of one block of 32 threads on each of the nodes that a window
/// [on nodes](Window::on_nodes) joins: a table, and this process's part in it.
#[derive(Clone, Copy, Debug)]
pub struct SharedTable {
    table: Table,
    shape: Shape,
}

impl SharedTable {
    /// A table of `entries` entries, a power of two, over so many nodes.
    ///
    /// # Errors
    /// [`BenchError::Option`] for another number.
    pub fn new(entries: u64, nodes: u32) -> Result<SharedTable, BenchError> {
        if !entries.is_power_of_two() || !(2..=BENCH_RANDOM_NODES).contains(&nodes) {
            let advice = format!("a power of two, over 2 to {BENCH_RANDOM_NODES} nodes");
            return Err(BenchError::option("entries", entries, advice));
        }
        Ok(SharedTable { table: Table { entries, nodes }, shape: Shape::new(1, 32)? })
    }

    /// Bytes at the start of the window's parts that it takes, zero when it begins.
    pub fn window_bytes(&self) -> usize {
        self.shape.flag_bytes(self.table.nodes) + self.shape.mailbox_bytes(self.table.nodes)
    }

    /// Entries of a node's part.
    pub fn entries_of(&self, node: u32) -> u64 {
        self.table.part(node).1
    }

    /// Makes this node's updates, beside all others: its entries in the end.
    ///
    /// # Errors
    /// Those of the window, of memory, and of kernels that fail or do not end within `timeout`.
    pub fn run(
        &self,
        window: &Window,
        processor: &Processor,
        timeout: Duration,
    ) -> Result<Vec<u64>, BenchError> {
        const KERNEL: &str = "bench_random_ggas";
        ggas_kernels::add(&KERNELS).doing("adding the kernels of the benchmarks")?;
        let own = Node::new(processor, &self.table, self.shape, window.local().start as u32)?;
        let args = bench_random { window: window_of(window, own.id)?, ..own.args(&self.table, self.shape) };
        let launch = kernel::launch(processor, KERNEL, self.shape.blocks, self.shape.threads, &args);
        start(&[launch]).doing("starting kernels")?.wait(timeout).doing("waiting for kernels")?;
        let member = window.member(own.id as usize).doing("choosing a member")?;
        own.probe.finished(KERNEL, member.report())?;
        own.entries(&self.table)
    }

    /// Entries of the whole table that are wrong after all updates.
    pub fn count_wrong(&self, entries: Vec<u64>) -> u64 {
        self.table.count_wrong(entries)
    }
}

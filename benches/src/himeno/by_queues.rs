//! Forms whose boundaries go by queues that blocks share.

use std::sync::Arc;

use ggas::{Memory, Queues, QueuesConfig, Shared, Way};
use ggas_window::Window;

use super::forms::{ALL_PLANES, Form};
use super::run::{Node, Run};
use super::shape::Shape;
use super::sides::FLAGS;
use crate::args::*;
use crate::error::Doing;
use crate::setup::Setup;
use crate::{BenchError, Samples};

const QUEUES: &str = "bench_himeno_queues";

impl<'a> Run<'a> {
    /// As [`stream`](Self::stream), by queues: whatever reaches the neighbours' memory.
    pub(super) fn by_queues(&'a self, form: Form, way: Way, iterations: u64) -> Result<Samples, BenchError> {
        let ends = Ends::new(self.setup, &self.window, way)?;
        let armed = ends.queues.arm();
        let exchange = |what| {
            let launch = |node: &Node| {
                let args = bench_himeno {
                    sides: node.sides.len() as u32,
                    queues: ends.queues.address(node.id as usize).doing("choosing a member")?,
                    memory: ends.shared.address(node.id as usize).doing("choosing a member")?,
                    ..self.args(node, what)?
                };
                let blocks = args.sides * BENCH_HIMENO_PIECES;
                let shape = Shape { blocks: blocks.max(1), ..self.step };
                Ok(self.launch(node, QUEUES, shape, &args).cached().resident(2))
            };
            self.nodes.iter().map(launch).collect::<Result<Vec<_>, BenchError>>()
        };
        let samples = self.queued(iterations, |i, _| {
            let (send, wait) = (exchange(BENCH_HIMENO_SEND)?, exchange(BENCH_HIMENO_WAIT)?);
            Ok(match self.is_split() {
                true => vec![self.step(ALL_PLANES | BENCH_HIMENO_EVEN, i)?, send, wait],
                false => vec![
                    self.step(BENCH_HIMENO_BOUNDARY | BENCH_HIMENO_EVEN, i)?,
                    send,
                    self.step(BENCH_HIMENO_INTERIOR | BENCH_HIMENO_EVEN, i)?,
                    wait,
                ],
            })
        });
        drop(armed);
        self.finished(form.name(), iterations, |node| ends.failure(node))?;
        // Nobody closes queues whose flags others may still set.
        self.setup.share::<()>(Vec::new())?;
        samples
    }
}

/// What queues of all nodes need; those of this process.
struct Ends {
    queues: Queues,
    shared: Shared,
}

impl Ends {
    /// Their memory is the window.
    fn new(setup: &Setup<'_>, window: &Arc<Window>, way: Way) -> Result<Self, BenchError> {
        let (port, timeout) = (setup.port_config(), setup.options.timeout);
        let config = QueuesConfig { way, port, timeout, flags: FLAGS, ..QueuesConfig::default() };
        let memory = Memory::from(window.clone());
        let (queues, shared) = match setup.job() {
            None => {
                let member = |node| Ok((setup.node(node)?, setup.processor(node)));
                let members = setup.local().map(member).collect::<Result<Vec<_>, BenchError>>()?;
                let queues = Queues::new(&members, &config).doing("opening queues")?;
                let shared = queues.share(memory).doing("opening queues")?;
                (queues, shared)
            }
            Some(job) => {
                let own = setup.local().start;
                let (node, processor) = (setup.node(own)?, setup.processor(own));
                let queues = Queues::across(job, node, processor, &config).doing("opening queues")?;
                let shared = queues.share_across(job, memory).doing("opening queues")?;
                (queues, shared)
            }
        };
        Ok(Self { queues, shared })
    }

    /// What kernels of a node left, or which process is gone.
    fn failure(&self, node: u32) -> Option<String> {
        let report = self.queues.report(node as usize).ok().flatten().map(|report| report.to_string());
        report.or_else(|| self.queues.check().err().map(|error| error.to_string()))
    }
}

//! Messages that nodes send each other again and again: their memory, and the ways in which they go (GPU-TN, section 5.1).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use extoll_abi::layout;
use ggas::tn::{self, Signal, Triggers, When, WindowConfig, WindowTriggers};
use ggas::{Port, PortConfig, Region, Spec};
use ggas_kernels::KernelMem;
use ggas_window::Window;

use crate::args::bench_tn_program;
use crate::error::Doing;
use crate::setup::Setup;
use crate::space::{window, window_of};
use crate::team::Task;
use crate::{BenchError, Check, Device, Via};

/// Who computes, and who starts messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The host does both, with its own memory.
    Cpu,
    /// Kernels compute; between them the host sends and receives, two-sided.
    Hdn,
    /// Messages are posted ahead in a stream, behind the kernels whose ends start them.
    Gds,
    /// Puts are registered ahead, and kernels trigger them; the threads that reach the threshold carry them out.
    Tn,
    /// The same, carried out by the unit of the model's card.
    Unit,
}

impl How {
    pub const NAMES: &'static [&'static str] = &["cpu", "hdn", "gds", "gpu-tn", "gpu-tn-unit"];
    const ALL: [How; 5] = [How::Cpu, How::Hdn, How::Gds, How::Tn, How::Unit];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether kernels trigger.
    pub fn triggers(self) -> bool {
        matches!(self, How::Tn | How::Unit)
    }

    /// Those that the options ask for. The unit is the model's, and sees stores of the CPU executor's kernels.
    ///
    /// # Errors
    /// The unit was asked for where there is none.
    pub fn wanted(task: &Task) -> Result<Vec<How>, BenchError> {
        let options = task.options;
        let has_unit = options.device == Device::Cpu && options.via == Via::Sim;
        if !has_unit && options.method.as_deref() == Some(How::Unit.name()) {
            let advice = "only the model has the unit; use --device cpu --via sim, or gpu-tn";
            return Err(BenchError::option("method", How::Unit.name(), advice));
        }
        let wanted = |how: &How| options.wants(how.name()) && (has_unit || *how != How::Unit);
        Ok(Self::ALL.into_iter().filter(wanted).collect())
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A put of bytes of a node's memory to another's part, and a counter there that says how many came.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub tag: u64,
    pub to: u32,
    /// Bytes of the sender's memory.
    pub local: Range<usize>,
    /// Offsets in the receiver's part.
    pub at: usize,
    pub counter: usize,
    /// Blocks that trigger it.
    pub threshold: u32,
    /// Offset in the sender's memory of the counter's new value, which a unit puts behind the data.
    pub value: usize,
}

/// Memory of all nodes: what each sends from, and its part, where messages arrive.
pub(crate) struct Parts<'a> {
    setup: &'a Setup<'a>,
    memory: Vec<Arc<KernelMem>>,
    status: Vec<KernelMem>,
    place: Place,
}

enum Place {
    Window(Arc<Window>),
    Ports(Vec<Part>),
}

/// A node's part where a card writes to it.
struct Part {
    region: Region,
    port: Port,
    memory: Arc<KernelMem>,
    /// `struct ggas_window`, for the waits of its kernels.
    window: KernelMem,
}

impl<'a> Parts<'a> {
    /// `own` bytes to send from and a part of `bytes`, at each node.
    pub fn new(setup: &'a Setup<'a>, how: How, own: usize, bytes: usize) -> Result<Parts<'a>, BenchError> {
        let alloc = |node: u32, bytes| setup.processor(node).alloc(bytes).doing("allocating kernel memory");
        let place = match how {
            How::Unit => {
                let parts = setup.local().map(|node| Part::new(setup, node, bytes));
                Place::Ports(parts.collect::<Result<_, _>>()?)
            }
            _ => Place::Window(window(setup, bytes)?),
        };
        let memory = setup.local().map(|node| alloc(node, own).map(Arc::new));
        let status = setup.local().map(|node| alloc(node, 8));
        Ok(Parts {
            setup,
            memory: memory.collect::<Result<_, _>>()?,
            status: status.collect::<Result<_, _>>()?,
            place,
        })
    }

    /// What a node sends from.
    pub fn memory(&self, node: u32) -> &KernelMem {
        &self.memory[node as usize]
    }

    /// Where kernels of `viewer` reach byte `offset` of a node's part; of windows only.
    pub fn address(&self, viewer: u32, node: u32, offset: usize) -> Result<u64, BenchError> {
        match &self.place {
            Place::Window(window) => {
                let member = window.member(viewer as usize).doing("choosing a member")?;
                Ok(member.pointer_of(node as usize).doing("mapping a window")? + offset as u64)
            }
            Place::Ports(_) => Err(BenchError::Unsupported("a card's unit takes no addresses".to_owned())),
        }
    }

    pub fn write(&self, node: u32, offset: usize, bytes: &[u8]) -> Result<(), BenchError> {
        match &self.place {
            Place::Window(window) => window.write(node as usize, offset, bytes).doing("writing the window"),
            Place::Ports(parts) => parts[node as usize].memory.write(offset, bytes).doing("writing a part"),
        }
    }

    pub fn read(&self, node: u32, offset: usize, bytes: usize) -> Result<Vec<u8>, BenchError> {
        let mut seen = vec![0; bytes];
        match &self.place {
            Place::Window(window) => {
                window.read(node as usize, offset, &mut seen).doing("reading the window")?;
            }
            Place::Ports(parts) => {
                parts[node as usize].memory.read(offset, &mut seen).doing("reading a part")?;
            }
        }
        Ok(seen)
    }

    /// What kernels of a node get.
    pub fn program(&self, node: u32, table: Option<&Table>) -> Result<bench_tn_program, BenchError> {
        Ok(bench_tn_program {
            window: match &self.place {
                Place::Window(window) => window_of(window, node)?,
                Place::Ports(parts) => parts[node as usize].window.address(),
            },
            tn: table.map_or(0, Table::address),
            words: table.map_or(0, |table| table.words),
            status: self.status[node as usize].address(),
        })
    }

    /// Fails if a kernel did.
    pub fn finished(&self, launch: &str, tables: &[Table]) -> Result<(), BenchError> {
        for (node, status) in self.status.iter().enumerate() {
            let code = status.load_u64(0).doing("reading kernel memory")?;
            if code == 0 {
                continue;
            }
            let of_window = match &self.place {
                Place::Window(window) => window.member(node).doing("choosing a member")?.report(),
                Place::Ports(_) => None,
            };
            let report = tables.get(node).and_then(Table::report).or(of_window);
            let reason = report.map_or(format!("status {code}"), |report| report.to_string());
            return Err(BenchError::Kernel { kernel: launch.to_owned(), reason });
        }
        Ok(())
    }

    /// A table with a node's messages, whose tags are below `tags`.
    pub fn table(&self, node: u32, tags: usize, messages: &[Message]) -> Result<Table, BenchError> {
        const MAKING: &str = "making a table of triggers";
        const REGISTERING: &str = "registering a put";
        let timeout = self.setup.options.timeout;
        let memory = &self.memory[node as usize];
        match &self.place {
            Place::Window(window) => {
                let config = WindowConfig { tags: tags as u32, timeout };
                let triggers = WindowTriggers::open(window, node as usize, config).doing(MAKING)?;
                for message in messages {
                    let Message { tag, to, local, at, counter, threshold, .. } = message.clone();
                    let (when, to) = (When::tag(tag).after(threshold), (to as usize, at));
                    let put = triggers.put(when, memory, local, to, Some(Signal::Add(counter, 1)));
                    put.doing(REGISTERING)?;
                }
                Ok(Table { by: By::Poster(Box::new(triggers)), words: 0 })
            }
            Place::Ports(parts) => {
                let port =
                    PortConfig { kernel_timeout: timeout, post_timeout: timeout, ..PortConfig::default() };
                let config = tn::Config {
                    tags: 2 * tags as u32,
                    way: Some(tn::Way::Unit),
                    port,
                    ..tn::Config::default()
                };
                let (at_node, processor) = (self.setup.node(node)?, self.setup.processor(node));
                let triggers = Triggers::open(at_node, processor, config).doing(MAKING)?;
                let region =
                    triggers.port().register_kernel_memory(memory.clone()).doing("registering memory")?;
                for Message { tag, to, local, at, counter, threshold, value } in messages.iter().cloned() {
                    let part = &parts[to as usize];
                    let nla = |offset| part.region.nla(offset).doing("naming a registered address");
                    let behind = tag + tags as u64;
                    for (tag, local, remote) in
                        [(tag, local, nla(at)?), (behind, value..value + 8, nla(counter)?)]
                    {
                        let when = When::tag(tag).after(threshold);
                        let put =
                            triggers.put(when, &region, local, part.port.address(), remote, Spec::empty());
                        put.doing(REGISTERING)?;
                    }
                }
                Ok(Table { by: By::Unit(Box::new(triggers), region), words: tags as u64 })
            }
        }
    }
}

impl Part {
    fn new(setup: &Setup, node: u32, bytes: usize) -> Result<Part, BenchError> {
        let alloc = |bytes| setup.processor(node).alloc(bytes).doing("allocating kernel memory");
        let (memory, window) = (Arc::new(alloc(bytes)?), alloc(size_of::<layout::ggas_window>())?);
        let port = setup.open_port(node)?;
        let region = port.register_kernel_memory(memory.clone()).doing("registering memory")?;
        let timeout = setup.options.timeout.as_nanos().try_into().unwrap_or(u64::MAX);
        // In the order of the structure: waits need where the part is, and how long they may take.
        let numbers = u64::from(node) | u64::from(setup.options.nodes) << 32;
        let words = [0, memory.address(), bytes as u64, bytes as u64, numbers, 0, timeout];
        window.write_u64s(0, &words).doing("writing kernel memory")?;
        Ok(Part { region, port, memory, window })
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(layout::ggas_window, local) == 8 && offset_of!(layout::ggas_window, node) == 32);
    assert!(offset_of!(layout::ggas_window, timeout_ns) == 48 && size_of::<layout::ggas_window>() == 56);
};

/// A node's messages, registered.
pub(crate) struct Table {
    by: By,
    /// Tags from a message to its counter's new value; 0: puts signal.
    words: u64,
}

enum By {
    Poster(Box<WindowTriggers>),
    Unit(Box<Triggers>, #[allow(dead_code, reason = "what puts are from")] Region),
}

impl Table {
    fn address(&self) -> u64 {
        match &self.by {
            By::Poster(triggers) => triggers.address(),
            By::Unit(triggers, _) => triggers.address(),
        }
    }

    /// To be held while kernels run.
    pub fn arm(&self) -> Option<tn::Armed<'_>> {
        match &self.by {
            By::Poster(_) => None,
            By::Unit(triggers, _) => Some(triggers.arm()),
        }
    }

    fn report(&self) -> Option<ggas::KernelReport> {
        match &self.by {
            By::Poster(triggers) => triggers.report(),
            By::Unit(triggers, _) => triggers.report(),
        }
    }

    /// Triggers that did not count as they should.
    pub fn check(&self, node: u32, check: &mut Check) -> Result<(), BenchError> {
        let status = match &self.by {
            By::Poster(triggers) => triggers.status().doing("reading the status of triggers")?,
            By::Unit(triggers, _) => triggers.status(),
        };
        counted(node, status, check);
        Ok(())
    }
}

/// Triggers of a node that did not count as they should.
pub(crate) fn counted(node: u32, status: tn::Status, check: &mut Check) {
    let lost = status.refused + status.failed + status.late;
    if lost > 0 {
        check.wrong(lost, || format!("triggers of node {node} did not count: {status:?}"));
    }
}

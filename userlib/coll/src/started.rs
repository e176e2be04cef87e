//! Collectives that the host starts.

use ggas_kernels::args::*;
use ggas_kernels::{Launch, Processor};

use crate::{Group, GroupError, SumShape};

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `int32_t`.
    Int32,
    /// `int64_t`.
    Int64,
    /// IEEE binary16, reduced in float and rounded once.
    Half,
    /// The upper half of a float, reduced in float and rounded once.
    Bfloat16,
}

impl Element {
    /// Bytes of one.
    pub fn size(self) -> usize {
        match self {
            Self::Half | Self::Bfloat16 => 2,
            Self::Float | Self::Int32 => 4,
            Self::Double | Self::Int64 => 8,
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Float => COLL_FLOAT,
            Self::Double => COLL_DOUBLE,
            Self::Int32 => COLL_INT32,
            Self::Int64 => COLL_INT64,
            Self::Half => COLL_HALF,
            Self::Bfloat16 => COLL_BFLOAT16,
        }
    }
}

/// What reduces two elements to one, in the order of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// Bitwise and, of whole numbers only, as the next two.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl Op {
    fn code(self) -> u32 {
        match self {
            Self::Sum => COLL_SUM,
            Self::Prod => COLL_PROD,
            Self::Min => COLL_MIN,
            Self::Max => COLL_MAX,
            Self::And => COLL_AND,
            Self::Or => COLL_OR,
            Self::Xor => COLL_XOR,
        }
    }

    fn is_bitwise(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Xor)
    }
}

/// What the nodes of a group do together with [`Vectors`]. `n` nodes, `count` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Nodes meet: what a node's stream did before is visible to all after. Vectors are not touched.
    Barrier,
    /// The `count` elements at `output` of all nodes become those of `root`.
    Broadcast {
        /// A rank.
        root: usize,
    },
    /// `n * count` elements at `output`: those of all nodes in the order of ranks. `input` may be a node's own part of
    /// it.
    AllGather,
    /// `n * count` elements at `output`: from each node the part of its `n * count` at `input` that is for this one.
    AllToAll,
    /// `count` elements at `output` of `root`: all nodes' `input`, reduced. `output` may be `input`.
    Reduce {
        /// A rank.
        root: usize,
        /// How.
        op: Op,
    },
    /// `count` elements at `output`: this node's part of all nodes' `n * count` at `input`, reduced. Quickest where a
    /// part is a multiple of 16 bytes.
    ReduceScatter {
        /// How.
        op: Op,
    },
    /// `count` elements at `output`: all nodes' `input`, reduced. `output` may be `input`.
    Allreduce {
        /// How.
        op: Op,
    },
}

impl Collective {
    fn code(self) -> u32 {
        match self {
            Self::Barrier => COLL_BARRIER,
            Self::Broadcast { .. } => COLL_BROADCAST,
            Self::AllGather => COLL_ALL_GATHER,
            Self::AllToAll => COLL_ALL_TO_ALL,
            Self::Reduce { .. } => COLL_REDUCE,
            Self::ReduceScatter { .. } => COLL_REDUCE_SCATTER,
            Self::Allreduce { .. } => COLL_ALLREDUCE,
        }
    }

    fn root(self) -> Option<usize> {
        match self {
            Self::Broadcast { root } | Self::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    fn op(self) -> Option<Op> {
        match self {
            Self::Reduce { op, .. } | Self::ReduceScatter { op } | Self::Allreduce { op } => Some(op),
            _ => None,
        }
    }

    /// Parts of `count` elements at input and output that it touches; 0: none.
    fn parts(self, nodes: usize) -> (usize, usize) {
        match self {
            Self::Barrier => (0, 0),
            Self::Broadcast { .. } => (0, 1),
            Self::AllGather => (1, nodes),
            Self::AllToAll => (nodes, nodes),
            Self::ReduceScatter { .. } => (nodes, 1),
            Self::Reduce { .. } | Self::Allreduce { .. } => (1, 1),
        }
    }
}

/// Vectors in the window, and the grid that works on them. But for the input of an [`AllGather`](Collective::AllGather)
/// in place, the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors {
    /// First byte of the input in each part of the window, a multiple of 16.
    pub input: usize,
    /// First byte of the result, a multiple of 16; no overlap with the input but where the [`Collective`] says so.
    pub output: usize,
    /// Elements, as the [`Collective`] counts them.
    pub count: usize,
    /// Their type.
    pub element: Element,
    /// The grid, and how sums at all nodes are made; `None`: as the group chooses.
    pub shape: Option<SumShape>,
}

impl Group {
    /// The kernel of one member in a collective. Start those of all members so that they run at once, with
    /// [`start`](ggas_kernels::start) or [`run_repeated`](ggas_kernels::run_repeated), or put each into a stream of your
    /// own with [`Launch::enqueue`]; all members start the same collectives with the same vectors in the same order.
    /// After them, [`check`](Self::check) tells of failures: waits are bounded by the group's time-out. `processor` is
    /// the member's.
    ///
    /// # Errors
    /// [`GroupError::Vectors`]: vectors that overlap or do not lie in the window's part in front of or behind the
    /// group's area, a grid that is too large, a root that is no member, bits of elements that are no whole numbers;
    /// [`GroupError::NoSuchMember`].
    pub fn collective<'a>(
        &self,
        rank: usize,
        processor: &'a Processor,
        what: Collective,
        vectors: &Vectors,
    ) -> Result<Launch<'a>, GroupError> {
        let group = self.member(rank)?.address();
        let window = self.window().member(rank)?.address();
        let bytes = vectors.count.saturating_mul(vectors.element.size());
        let shape = vectors.shape.unwrap_or_else(|| self.choices().sum(bytes));
        shape.check().and_then(|()| self.check_vectors(what, vectors, rank)).map_err(GroupError::Vectors)?;
        let args = coll_started {
            group,
            window,
            in_: vectors.input as u64,
            out: vectors.output as u64,
            count: vectors.count as u64,
            kind: what.code(),
            element: vectors.element.code(),
            op: what.op().map_or(0, Op::code),
            root: what.root().unwrap_or(0) as u32,
            chunks: shape.chunks,
            reserved: 0,
        };
        // SAFETY: the structure is this kernel's; group and window, which the launch outlives no wait of, hold the
        // vectors, as was checked, and the kernel is bounded by the group's time-out.
        Ok(unsafe { Launch::new(processor, "ggas_collective", shape.blocks, shape.threads, &args) })
    }

    pub(crate) fn check_vectors(
        &self,
        what: Collective,
        vectors: &Vectors,
        rank: usize,
    ) -> Result<(), String> {
        let Vectors { input, output, count, element, .. } = *vectors;
        if let Some(root) = what.root().filter(|root| *root >= self.len()) {
            return Err(format!("root {root} in a group of {}; use 0 to {}", self.len(), self.len() - 1));
        }
        if what.op().is_some_and(Op::is_bitwise) && !matches!(element, Element::Int32 | Element::Int64) {
            return Err(format!("bits of {element:?}; use whole numbers"));
        }
        let part = count.saturating_mul(element.size());
        let (ins, outs) = what.parts(self.len());
        let [ins, outs] = [(input, ins), (output, outs)].map(|(begin, parts)| {
            let range = begin..begin.saturating_add(part.saturating_mul(parts));
            (parts > 0).then_some(range)
        });
        for range in [&ins, &outs].into_iter().flatten() {
            self.check_place(range)?;
        }
        let (Some(ins), Some(outs)) = (ins, outs) else { return Ok(()) };
        let in_place = match what {
            Collective::AllGather => output.checked_add(rank * part) == Some(input),
            Collective::Reduce { .. } | Collective::Allreduce { .. } => input == output,
            _ => false,
        };
        if !in_place && ins.start < outs.end && outs.start < ins.end {
            return Err(format!("input at bytes {ins:?} and result at {outs:?} overlap"));
        }
        Ok(())
    }

    fn check_place(&self, range: &std::ops::Range<usize>) -> Result<(), String> {
        if !range.start.is_multiple_of(16) {
            return Err(format!("a vector at byte {} of the window; use a multiple of 16", range.start));
        }
        if range.end > self.window().bytes()
            || (range.start < self.area().end && range.end > self.area().start)
        {
            return Err(format!(
                "bytes {range:?} are not free in a window of {} whose bytes {:?} are the group's",
                self.window().bytes(),
                self.area()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use extoll_abi::layout::ggas_group;
    use ggas_device::sim::SimNetwork;
    use ggas_kernels::start;
    use ggas_rma::Node;
    use ggas_window::Window;

    use super::*;
    use crate::{Choices, GroupConfig, SumChoice, TunedBy, Tuning};

    const SUM: Collective = Collective::Allreduce { op: Op::Sum };
    const COUNT: usize = 1000;
    const USER: usize = 16 << 10;

    /// Sums on two nodes; gives how often the first blocks of the nodes met: twice by reads, by writes once more for
    /// each chunk and once for the last results.
    fn meetings(tuned_by: TunedBy, shape: Option<SumShape>) -> u64 {
        let network = SimNetwork::builder().nodes(2).build().expect("a network");
        let nodes = [0, 1].map(|n| Node::new(network.device(n).expect("a device")));
        let cpu = Processor::cpu();
        let config = GroupConfig { offset: USER, tuned_by, ..GroupConfig::default() };
        let pairs: Vec<_> = nodes.iter().map(|node| (node, &cpu)).collect();
        let window = Arc::new(Window::new(&pairs, config.end(2).expect("it fits")).expect("a window"));
        let group = Group::new(window.clone(), &config).expect("a group");
        for (rank, value) in [(0, 1.5_f32), (1, 2.0)] {
            window.write(rank, 0, &value.to_ne_bytes().repeat(COUNT)).expect("written");
        }
        let sum = Vectors { input: 0, output: USER / 2, count: COUNT, element: Element::Float, shape };
        let launches = [0, 1].map(|rank| group.collective(rank, &cpu, SUM, &sum).expect("a launch"));
        start(&launches).expect("started").wait(Duration::from_secs(60)).expect("ended");
        group.check().expect("no failure");
        let mut sums = vec![0; COUNT * 4];
        window.read(1, USER / 2, &mut sums).expect("read");
        assert_eq!(sums, 3.5_f32.to_ne_bytes().repeat(COUNT));
        let mut epoch = [0; 8];
        group.members.of(0).read(std::mem::offset_of!(ggas_group, channel), &mut epoch).expect("read");
        u64::from_ne_bytes(epoch)
    }

    fn table(chunks: u32) -> Tuning {
        let mut table = Tuning::default();
        let shape = SumShape { blocks: 1, threads: 32, chunks };
        let sums = vec![SumChoice { from_bytes: 0, shape }];
        table.insert(Choices { device: "cpu".into(), nodes: 2, one_shot_bytes: 1, sums }).expect("good");
        table
    }

    #[test]
    fn the_cpu_has_no_streams() {
        let network = SimNetwork::builder().nodes(1).build().expect("a network");
        let (node, cpu) = (Node::new(network.device(0).expect("a device")), Processor::cpu());
        let config = GroupConfig { offset: USER, ..GroupConfig::default() };
        let window =
            Arc::new(Window::new(&[(&node, &cpu)], config.end(1).expect("it fits")).expect("a window"));
        let group = Group::new(window, &config).expect("a group");
        let sum = Vectors { input: 0, output: 0, count: 1, element: Element::Float, shape: None };
        let launch = group.collective(0, &cpu, SUM, &sum).expect("a launch");
        // SAFETY: refused before the stream is looked at.
        let refused = unsafe { launch.enqueue(std::ptr::null_mut()) }.expect_err("no GPU");
        assert!(refused.to_string().contains("no streams"), "{refused}");
    }

    /// The kernel checks what a caller of the headers may get wrong, as [`Group::collective`] does before.
    #[test]
    fn vectors_that_leave_the_window_are_refused_by_the_kernel() {
        let network = SimNetwork::builder().nodes(2).build().expect("a network");
        let nodes = [0, 1].map(|n| Node::new(network.device(n).expect("a device")));
        let cpu = Processor::cpu();
        let config = GroupConfig { offset: USER, ..GroupConfig::default() };
        let pairs: Vec<_> = nodes.iter().map(|node| (node, &cpu)).collect();
        let bytes = config.end(2).expect("it fits") + 4096;
        let window = Arc::new(Window::new(&pairs, bytes).expect("a window"));
        let group = Group::new(window.clone(), &config).expect("a group");
        let end = window.bytes();
        let run = |kind, in_: usize, out: usize, count| {
            for rank in 0..2 {
                window.write(rank, 0, &[1; 64]).expect("written");
                window.write(rank, end - 32, &[0; 32]).expect("written");
            }
            let launches: Vec<_> = (0..2)
                .map(|rank| {
                    let args = coll_started {
                        group: group.member(rank).expect("a member").address(),
                        window: window.member(rank).expect("a member").address(),
                        in_: in_ as u64,
                        out: out as u64,
                        count,
                        kind,
                        element: Element::Int32.code(),
                        op: Op::Sum.code(),
                        ..coll_started::default()
                    };
                    // SAFETY: the structure is this kernel's, and its memory outlives the wait.
                    unsafe { Launch::new(&cpu, "ggas_collective", 1, 32, &args) }
                })
                .collect();
            start(&launches).expect("started").wait(Duration::from_secs(60)).expect("ended");
            group.check().expect("no failure");
            let mut seen = [[0; 32]; 2];
            seen.iter_mut()
                .enumerate()
                .for_each(|(rank, seen)| window.read(rank, end - 32, seen).expect("read"));
            seen
        };
        let root_has = |kind| kind == COLL_BROADCAST;
        for kind in [
            COLL_ALL_GATHER,
            COLL_ALL_TO_ALL,
            COLL_REDUCE,
            COLL_REDUCE_SCATTER,
            COLL_ALLREDUCE,
            COLL_BROADCAST,
        ] {
            // A broadcast's data lie at its result.
            let from = if root_has(kind) { end - 16 } else { 0 };
            assert_eq!(run(kind, from, end - 16, 5), [[0; 32]; 2], "kind {kind}: too long by one");
            assert_eq!(run(kind, 0, end - 24, 1), [[0; 32]; 2], "kind {kind}: no multiple of 16");
            assert_eq!(run(kind, 0, end - 32, u64::MAX), [[0; 32]; 2], "kind {kind}: no such vector");
        }
        assert_ne!(run(COLL_ALL_GATHER, 0, end - 32, 4), [[0; 32]; 2], "to the end");
    }

    #[test]
    fn a_table_chooses_and_a_call_forces() {
        assert_eq!(meetings(TunedBy::Table(Tuning::default()), None), 2);
        assert_eq!(meetings(TunedBy::Table(table(3)), None), 2 + 3 + 1);
        let forced = SumShape { blocks: 2, threads: 32, chunks: 1 };
        assert_eq!(meetings(TunedBy::Table(table(3)), Some(forced)), 2 + 1 + 1);
    }

    #[test]
    fn a_table_in_a_file_is_obeyed_and_a_malformed_one_named() {
        let path = std::env::temp_dir().join(format!("ggas-started-{}.json", std::process::id()));
        table(2).write(&path).expect("written");
        assert_eq!(meetings(TunedBy::File(path.clone()), None), 2 + 2 + 1);
        std::fs::write(&path, "{}").expect("written");
        let network = SimNetwork::builder().nodes(2).build().expect("a network");
        let nodes = [0, 1].map(|n| Node::new(network.device(n).expect("a device")));
        let cpu = Processor::cpu();
        let config = GroupConfig { tuned_by: TunedBy::File(path.clone()), ..GroupConfig::default() };
        let pairs: Vec<_> = nodes.iter().map(|node| (node, &cpu)).collect();
        let window = Arc::new(Window::new(&pairs, config.end(2).expect("it fits")).expect("a window"));
        let error = Group::new(window, &config).expect_err("malformed").to_string();
        std::fs::remove_file(&path).expect("removed");
        assert!(
            error.contains("ggas-started") && error.contains("schema") && error.contains("ggas tune"),
            "{error}"
        );
    }
}

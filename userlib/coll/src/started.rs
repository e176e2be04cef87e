//! Collectives that the host starts.

use ggas_kernels::args::{
    COLL_BFLOAT16, COLL_DOUBLE, COLL_FLOAT, COLL_HALF, COLL_INT32, COLL_INT64, coll_allreduce,
};
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
    /// IEEE binary16, summed in float and rounded once.
    Half,
    /// The upper half of a float, summed in float and rounded once.
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

/// Vectors in the window that are summed; the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// First byte of the input in each part of the window, a multiple of 16.
    pub input: usize,
    /// First byte of the result, a multiple of 16; `input`, or no overlap with it.
    pub output: usize,
    /// Elements.
    pub count: usize,
    /// Their type.
    pub element: Element,
    /// How; `None`: as the group chooses. The same on all nodes.
    pub shape: Option<SumShape>,
}

impl Group {
    /// The kernel of one member in an allreduce: every node's result is the sum of all inputs. Start those of all
    /// members so that they run at once, with [`start`](ggas_kernels::start) or
    /// [`run_repeated`](ggas_kernels::run_repeated), or put each into a stream of your own with
    /// [`Launch::enqueue`]; after them, [`check`](Self::check) tells of failures. `processor` is the member's.
    ///
    /// # Errors
    /// [`GroupError::Sum`]: an impossible shape, or vectors that do not lie in the window's part in front of or behind the group's area;
    /// [`GroupError::NoSuchMember`].
    pub fn allreduce<'a>(
        &self,
        rank: usize,
        processor: &'a Processor,
        sum: &Sum,
    ) -> Result<Launch<'a>, GroupError> {
        let group = self.member(rank)?.address();
        let window = self.window().member(rank)?.address();
        let bytes = sum.count.saturating_mul(sum.element.size());
        let shape = sum.shape.unwrap_or_else(|| self.choices().sum(bytes));
        shape.check().and_then(|()| self.check_sum(sum, bytes)).map_err(GroupError::Sum)?;
        let args = coll_allreduce {
            group,
            window,
            in_: sum.input as u64,
            out: sum.output as u64,
            count: sum.count as u64,
            element: sum.element.code(),
            chunks: shape.chunks,
        };
        // SAFETY: the structure is this kernel's; group and window, which the launch outlives no wait of, hold the
        // vectors, as was checked, and the kernel is bounded by the group's time-out.
        Ok(unsafe { Launch::new(processor, "ggas_allreduce_sum", shape.blocks, shape.threads, &args) })
    }

    fn check_sum(&self, sum: &Sum, bytes: usize) -> Result<(), String> {
        let Sum { input, output, .. } = *sum;
        for begin in [input, output] {
            let end = begin.saturating_add(bytes);
            if !begin.is_multiple_of(16) {
                return Err(format!("a vector at byte {begin} of the window; use a multiple of 16"));
            }
            if end > self.window().bytes() || (begin < self.area().end && end > self.area().start) {
                return Err(format!(
                    "bytes {begin} to {end} are not free in a window of {} whose bytes {:?} are the group's",
                    self.window().bytes(),
                    self.area()
                ));
            }
        }
        if input != output && input.abs_diff(output) < bytes {
            return Err(format!("input at {input} and result at {output} overlap in {bytes} bytes"));
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
        let sum = Sum { input: 0, output: USER / 2, count: COUNT, element: Element::Float, shape };
        let launches = [0, 1].map(|rank| group.allreduce(rank, &cpu, &sum).expect("a launch"));
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
        let sum = Sum { input: 0, output: 0, count: 1, element: Element::Float, shape: None };
        let launch = group.allreduce(0, &cpu, &sum).expect("a launch");
        // SAFETY: refused before the stream is looked at.
        let refused = unsafe { launch.enqueue(std::ptr::null_mut()) }.expect_err("no GPU");
        assert!(refused.to_string().contains("no streams"), "{refused}");
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

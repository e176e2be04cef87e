//! Collectives that the host starts.

use ggas_kernels::args::{
    COLL_BFLOAT16, COLL_DOUBLE, COLL_FLOAT, COLL_HALF, COLL_INT32, COLL_INT64, coll_allreduce,
};
use ggas_kernels::{Launch, Processor};

use crate::{Group, GroupError};

/// Blocks of a grid that can sum.
const MOST_BLOCKS: u32 = extoll_abi::layout::GGAS_CHANNELS;
/// Threads of a block that can sum.
const MOST_THREADS: u32 = 512;

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

/// Vectors in the window that are summed, and the grid that does it; the same on all nodes.
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
    /// Blocks, at most 256. 132 blocks of 512 threads suit an H200.
    pub blocks: u32,
    /// Threads of each, at most 512.
    pub threads: u32,
}

impl Group {
    /// The kernel of one member in an allreduce: every node's result is the sum of all inputs. Start those of all
    /// members so that they run at once, with [`start`](ggas_kernels::start) or
    /// [`run_repeated`](ggas_kernels::run_repeated); after them, [`check`](Self::check) tells of failures.
    /// `processor` is the member's.
    ///
    /// # Errors
    /// [`GroupError::Sum`]: vectors that do not lie in the window's part in front of or behind the group's area, or
    /// a grid that is too large; [`GroupError::NoSuchMember`].
    pub fn allreduce<'a>(
        &self,
        rank: usize,
        processor: &'a Processor,
        sum: &Sum,
    ) -> Result<Launch<'a>, GroupError> {
        let group = self.member(rank)?.address();
        let window = self.window().member(rank)?.address();
        self.check_sum(sum).map_err(GroupError::Sum)?;
        let args = coll_allreduce {
            group,
            window,
            in_: sum.input as u64,
            out: sum.output as u64,
            count: sum.count as u64,
            element: sum.element.code(),
            reserved: 0,
        };
        // SAFETY: the structure is this kernel's; group and window, which the launch outlives no wait of, hold the
        // vectors, as was checked, and the kernel is bounded by the group's time-out.
        Ok(unsafe { Launch::new(processor, "ggas_allreduce_sum", sum.blocks, sum.threads, &args) })
    }

    fn check_sum(&self, sum: &Sum) -> Result<(), String> {
        let Sum { input, output, count, element, blocks, threads } = *sum;
        if !(1..=MOST_BLOCKS).contains(&blocks) || !(1..=MOST_THREADS).contains(&threads) {
            return Err(format!(
                "{blocks} blocks of {threads} threads; use at most {MOST_BLOCKS} of {MOST_THREADS}"
            ));
        }
        let bytes = count.saturating_mul(element.size());
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

//! What the parts of a ring cost, by where it lies.

use extoll_sim::timed::{Place, Ps, System};

use crate::parameters::{Numbers, of_text};
use crate::report::Parameter;

const TEXT: &str = include_str!("rings.toml");
/// Bytes of an element (III B).
const ELEMENT: u64 = 8;
/// Bytes of a line of the host's caches.
const LINE: u64 = 64;

/// Where the rings lie, and how the host reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// In GPU memory, read and written by the CPU: gdrcopy, the paper's way (III D).
    Gdr,
    /// In host memory that kernels reach: tried before, and rejected (III D).
    Mapped,
    /// In GPU memory, with `cudaMemcpy`.
    Copied,
}

impl Placement {
    pub const ALL: [Placement; 3] = [Placement::Gdr, Placement::Mapped, Placement::Copied];

    pub fn name(self) -> &'static str {
        match self {
            Placement::Gdr => "gdrcopy",
            Placement::Mapped => "mapped",
            Placement::Copied => "cudaMemcpy",
        }
    }

    /// Where a kernel looks for answers.
    pub fn answers(self) -> Place {
        if self == Placement::Mapped { Place::Host } else { Place::Gpu }
    }
}

/// Costs of a ring's steps.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub placement: Placement,
    /// The kernel stores an attribute by a warp, orders it, and stores the tail.
    pub post: Ps,
    /// Until the host could see that.
    pub crossing: Ps,
    /// A look of the daemon at the tail.
    pub look: Ps,
    /// The daemon stores an answer.
    pub answer: Ps,
    /// Until the GPU could see that.
    pub back: Ps,
    /// A look of the kernel at the answers' counter.
    pub kernel_look: Ps,
    load: Ps,
    group: Ps,
    copy: Ps,
    line: Ps,
}

pub(super) fn parameters() -> Vec<Parameter> {
    of_text(TEXT)
}

/// Numbers of the rings' file.
pub(super) fn numbers() -> Numbers {
    Numbers::of(TEXT)
}

impl Costs {
    pub fn of(placement: Placement, system: &System) -> Costs {
        let (numbers, gpu, host) = (numbers(), &system.gpu, &system.host);
        let (store, copy) = (Ps::ns(gpu.store_ns), Ps::ns(gpu.copy_call_ns));
        let write = Ps::ns(system.bus.write_ns);
        let load = numbers.ns("load_ns");
        let line = Ps::ns(host.poll_ns + host.look_ns);
        let (fence, crossing, look) = match placement {
            Placement::Gdr => (numbers.ns("gpu_fence_ns"), Ps::ZERO, load),
            Placement::Mapped => (Ps::ns(gpu.fence_ns), write, line),
            Placement::Copied => (numbers.ns("gpu_fence_ns"), Ps::ZERO, copy),
        };
        let (answer, back) = match placement {
            Placement::Gdr => (numbers.ns("store_ns"), write),
            Placement::Mapped => (Ps::ns(host.post_ns), Ps::ZERO),
            Placement::Copied => (copy, Ps::ZERO),
        };
        let kernel_look = match placement.answers() {
            Place::Gpu => Ps::ns(gpu.poll_ns),
            Place::Host => Ps::ns(gpu.poll_host_ns),
        };
        let group = numbers.ns("group_ns");
        let post = store + fence + store;
        Costs { placement, post, crossing, look, answer, back, kernel_look, load, group, copy, line }
    }

    /// The daemon reads element 0, which names the function, then its arguments (III D).
    pub fn read(&self, arguments: u64) -> Ps {
        let bytes = arguments * ELEMENT;
        match self.placement {
            Placement::Gdr => self.load + self.gdrcopy(ELEMENT, bytes),
            Placement::Copied => self.copy * 2,
            Placement::Mapped => self.line * (ELEMENT + bytes).div_ceil(LINE),
        }
    }

    /// As gdrcopy's loops read: to the next 16 bytes, 128 together, 16 each, and the rest.
    fn gdrcopy(&self, from: u64, bytes: u64) -> Ps {
        let head = (from.next_multiple_of(16) - from).min(bytes);
        let (groups, left) = ((bytes - head) / 128, (bytes - head) % 128);
        self.load * (u64::from(head > 0) + left.div_ceil(16)) + self.group * groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_those_of_the_librarys_loops() {
        let system = System::named("ha-pacs").unwrap();
        let gdr = Costs::of(Placement::Gdr, &system);
        let us = |arguments: u64| (gdr.read(arguments) - gdr.load).as_us();
        // 8 bytes to the next 16; then 3 of 16; with 17 arguments 128 bytes at once; with 31 these, six of 16 and a half.
        for (arguments, loads, groups) in [(0, 0, 0), (1, 1, 0), (7, 4, 0), (17, 1, 1), (31, 8, 1)] {
            let expected = f64::from(loads) * 0.88 + f64::from(groups) * 3.46;
            assert!((us(arguments) - expected).abs() < 1e-9, "{arguments}: {}", us(arguments));
        }
        let mapped = Costs::of(Placement::Mapped, &system);
        assert_eq!(mapped.read(7), mapped.line, "one line has element 0 and seven arguments");
        assert_eq!(mapped.read(8), mapped.line * 2);
    }

    #[test]
    fn every_number_of_the_file_is_there_and_named_right() {
        for name in ["load_ns", "group_ns", "store_ns", "gpu_fence_ns", "device_sync_ns", "row_ns"] {
            assert!(numbers().get(name) > 0.0, "{name}");
        }
        assert!(numbers().get("controllers") >= 1.0);
        assert!(numbers().get("no such name").is_nan());
    }
}

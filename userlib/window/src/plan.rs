//! The kind of window that the processes of a job can have together. Each process publishes its request and its GPU;
//! all processes compute the same plan from the published values.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use ggas_device::PAGE;
use ggas_gpu::{Gpu, GpuError};
use ggas_kernels::Processor;
use serde::{Deserialize, Serialize};

use crate::WindowError;
use crate::cards::stride_of_devices;
use crate::memory::gpu_of;

/// What one process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// Tells this window's descriptors from those of others; rank 0's counts.
    pub(crate) tag: u64,
    /// Tells the window from others of its nodes; rank 0's counts.
    pub(crate) number: u64,
    pub(crate) node: u16,
    pub(crate) bytes: u64,
    /// `None`: its kernels run on the CPU executor.
    pub(crate) gpu: Option<GpuWish>,
    /// Whether others have atomics on its part by its device.
    pub(crate) atomics: bool,
}

/// The GPU of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GpuWish {
    pub(crate) uuid: String,
    /// What parts are a multiple of, or why its memory cannot be shared.
    pub(crate) granularity: Result<u64, String>,
    /// The GPUs that this process sees: their ids, and how its own reaches them.
    pub(crate) sees: Vec<(String, Reach)>,
}

/// How a GPU reaches another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reach {
    No,
    Plain,
    Atomics,
}

impl Wish {
    pub(crate) fn new(tag: u64, node: u16, processor: &Processor, bytes: usize) -> Wish {
        let gpu = gpu_of(processor).map(|gpu| GpuWish::new(&gpu));
        Wish { tag, number: new_number(), node, bytes: bytes as u64, atomics: gpu.is_none(), gpu }
    }

    /// The same; and whether a copier runs on its GPU, which does atomics there.
    pub(crate) fn with_copier(self, runs: bool) -> Wish {
        Wish { atomics: self.atomics || runs, ..self }
    }
}

/// A number that no other window has, of this process or another.
pub(crate) fn new_number() -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(MADE.fetch_add(1, Ordering::Relaxed))
}

impl GpuWish {
    fn new(gpu: &Gpu) -> GpuWish {
        let ids = ggas_gpu::probe().unwrap_or_default();
        let reach = |ordinal: usize| match gpu.info().peers.get(ordinal) {
            Some(peer) if peer.access && peer.atomics => Reach::Atomics,
            Some(peer) if peer.access => Reach::Plain,
            _ => Reach::No,
        };
        GpuWish {
            uuid: gpu.info().uuid.clone(),
            granularity: gpu.part_granularity().map(|bytes| bytes as u64).map_err(text),
            sees: ids.into_iter().map(|info| (info.uuid, reach(info.ordinal))).collect(),
        }
    }
}

fn text(error: GpuError) -> String {
    error.to_string()
}

/// What all of them can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) tag: u64,
    pub(crate) number: u64,
    /// Node ids in the order of ranks.
    pub(crate) nodes: Vec<u16>,
    pub(crate) stride: usize,
    pub(crate) place: PlanPlace,
}

/// Where the parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlanPlace {
    /// In memory that all processes map.
    Host,
    /// In GPU memory that all map; and whether all have atomics on it.
    Gpus { atomics: bool },
    /// Behind the network devices of their nodes: the processes are on several hosts. And whether others have atomics on all parts, if the
    /// devices have any.
    Devices { atomics: bool },
    /// Each part in its own process only, and why.
    Apart { reason: String },
}

impl Plan {
    /// The same on every rank, errors included.
    ///
    /// `hosts`: the processes are on several hosts.
    pub(crate) fn new(wishes: &[Wish], hosts: bool) -> Result<Plan, WindowError> {
        let first = wishes.first().ok_or(WindowError::NoMembers)?;
        if let Some(rank) = wishes.iter().position(|wish| wish.bytes != first.bytes) {
            return Err(WindowError::Unequal { rank, bytes: wishes[rank].bytes, first: first.bytes });
        }
        let bytes = usize::try_from(first.bytes).unwrap_or(usize::MAX);
        if bytes == 0 {
            return Err(WindowError::Empty);
        }
        let gpus: Vec<&GpuWish> = wishes.iter().filter_map(|wish| wish.gpu.as_ref()).collect();
        let apart = |reason: String| (PAGE, PlanPlace::Apart { reason });
        let (granularity, place) = if gpus.is_empty() && !hosts {
            (PAGE, PlanPlace::Host)
        } else if gpus.len() < wishes.len() && !hosts {
            apart("some processes have their kernels on the CPU and some on a GPU".to_owned())
        } else if let Err(WindowError::SharedGpu { ranks: (one, other), uuid }) = refuse_sharing(wishes) {
            apart(format!(
                "ranks {one} and {other} are both on {uuid}, where kernels of two processes do not run at the same time, and \
                 those of a window wait for each other"
            ))
        } else if hosts {
            (PAGE, PlanPlace::Devices { atomics: wishes.iter().all(|wish| wish.atomics) })
        } else {
            match between_gpus(&gpus) {
                Ok((granularity, atomics)) => (granularity, PlanPlace::Gpus { atomics }),
                Err(reason) => apart(reason),
            }
        };
        let stride = match place {
            PlanPlace::Devices { .. } => stride_of_devices(wishes.len(), bytes),
            _ => bytes.checked_next_multiple_of(granularity),
        };
        let fits = stride.and_then(|stride| stride.checked_mul(wishes.len()));
        let stride = stride.filter(|_| fits.is_some());
        let stride = stride.ok_or(WindowError::TooLarge { members: wishes.len(), bytes })?;
        let nodes = wishes.iter().map(|wish| wish.node).collect();
        Ok(Plan { tag: first.tag, number: first.number, nodes, stride, place })
    }
}

/// Kernels of two processes do not run on a GPU at the same time, and those of a window, and engines, wait for each other.
pub(crate) fn refuse_sharing(wishes: &[Wish]) -> Result<(), WindowError> {
    let gpu = |rank: usize| wishes[rank].gpu.as_ref().map(|gpu| &gpu.uuid);
    for rank in 0..wishes.len() {
        if let Some(uuid) = gpu(rank)
            && let Some(other) = (rank + 1..wishes.len()).find(|other| gpu(*other) == Some(uuid))
        {
            return Err(WindowError::SharedGpu { ranks: (rank, other), uuid: uuid.clone() });
        }
    }
    Ok(())
}

/// What parts are a multiple of, and whether all GPUs have atomics on all parts; or why not all reach all.
fn between_gpus(gpus: &[&GpuWish]) -> Result<(usize, bool), String> {
    let (mut granularity, mut atomics) = (PAGE as u64, true);
    for (rank, gpu) in gpus.iter().enumerate() {
        granularity = granularity.max(gpu.granularity.clone().map_err(|why| format!("rank {rank}: {why}"))?);
        for (peer, other) in gpus.iter().enumerate() {
            match gpu.sees.iter().find(|(uuid, _)| *uuid == other.uuid) {
                Some((_, Reach::Atomics)) => {}
                Some((_, Reach::Plain)) => atomics = false,
                Some((_, Reach::No)) => {
                    return Err(format!(
                        "the GPU of rank {rank} does not reach the memory of rank {peer}'s (no NVLink or PCIe peer \
                         path)"
                    ));
                }
                None => {
                    return Err(format!(
                        "the process of rank {rank} does not see the GPU of rank {peer}: let CUDA_VISIBLE_DEVICES \
                         name all GPUs in every process"
                    ));
                }
            }
        }
    }
    let granularity = usize::try_from(granularity).unwrap_or(usize::MAX);
    Ok((granularity, atomics))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(rank: u16, bytes: u64) -> Wish {
        Wish { tag: 7, number: 70 + u64::from(rank), node: rank, bytes, gpu: None, atomics: true }
    }

    /// A process on GPU `own` of a host whose GPUs `visible` reach each other.
    fn gpu(rank: u16, own: u32, visible: &[u32], reach: Reach) -> Wish {
        let id = |gpu: u32| format!("GPU-{gpu}");
        let way = |gpu: u32| if gpu == own { Reach::Atomics } else { reach };
        let sees = visible.iter().map(|gpu| (id(*gpu), way(*gpu))).collect();
        let gpu = GpuWish { uuid: id(own), granularity: Ok(2 << 20), sees };
        Wish { gpu: Some(gpu), atomics: false, ..cpu(rank, 5000) }
    }

    fn reason(wishes: &[Wish]) -> String {
        match Plan::new(wishes, false).unwrap().place {
            PlanPlace::Apart { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn processes_on_the_cpu_share_pages() {
        let plan = Plan::new(&[cpu(0, 5000), cpu(1, 5000), cpu(1, 5000)], false).unwrap();
        assert_eq!((plan.tag, plan.number), (7, 70), "rank 0's");
        assert_eq!((plan.stride, &plan.place), (8192, &PlanPlace::Host));
        assert_eq!(plan.nodes, [0, 1, 1]);
    }

    #[test]
    fn between_hosts_the_devices_have_the_window() {
        let plan = Plan::new(&[cpu(0, 5000), cpu(1, 5000)], true).unwrap();
        let devices = |atomics| PlanPlace::Devices { atomics };
        assert_eq!((plan.stride, plan.place), (8192, devices(true)));
        let crowded = Plan::new(&[cpu(0, 5000), cpu(1, 5000), cpu(1, 5000)], true).unwrap();
        assert_eq!((crowded.nodes, crowded.place), (vec![0, 1, 1], devices(true)));
        // In GPU memory there are atomics where a copier runs, on all GPUs.
        let mixed = |copiers: [bool; 2]| {
            let on = |rank: u16| gpu(rank, rank.into(), &[rank.into()], Reach::Atomics);
            let [first, second] = copiers;
            let wishes = [cpu(0, 5000), on(1).with_copier(first), on(2).with_copier(second)];
            Plan::new(&wishes, true).unwrap().place
        };
        assert_eq!(
            [[true, true], [true, false], [false, true]].map(mixed),
            [true, false, false].map(devices)
        );
    }

    #[test]
    fn sizes_must_agree() {
        let wrong = Plan::new(&[cpu(0, 4096), cpu(1, 4096), cpu(2, 8192)], false);
        assert!(
            matches!(wrong, Err(WindowError::Unequal { rank: 2, bytes: 8192, first: 4096 })),
            "{wrong:?}"
        );
        assert!(matches!(Plan::new(&[cpu(0, 0), cpu(1, 0)], false), Err(WindowError::Empty)));
        assert!(matches!(
            Plan::new(&[cpu(0, u64::MAX), cpu(1, u64::MAX)], false),
            Err(WindowError::TooLarge { .. })
        ));
        let half = 1 << 63;
        assert!(matches!(Plan::new(&[cpu(0, half), cpu(1, half)], false), Err(WindowError::TooLarge { .. })));
    }

    #[test]
    fn processes_with_a_gpu_each_map_all_parts_and_those_that_share_one_none() {
        let all = [0, 1, 2];
        let fine = [0, 1, 2].map(|i| gpu(i as u16, i, &all, Reach::Atomics));
        let plan = Plan::new(&fine, false).unwrap();
        assert_eq!((plan.stride, plan.place), (2 << 20, PlanPlace::Gpus { atomics: true }));
        let shared =
            [gpu(0, 0, &all, Reach::Atomics), gpu(1, 1, &all, Reach::Atomics), gpu(2, 0, &all, Reach::No)];
        assert!(reason(&shared).contains("ranks 0 and 2 are both on GPU-0"), "{}", reason(&shared));
        // So they do over hosts, where processes make what kernels cannot.
        assert_eq!(Plan::new(&shared, true).unwrap(), Plan::new(&shared, false).unwrap());
        let error = refuse_sharing(&shared).unwrap_err();
        assert!(matches!(error, WindowError::SharedGpu { ranks: (0, 2), .. }), "{error}");
        assert!(error.to_string().contains("a GPU of its own"), "{error}");
    }

    #[test]
    fn what_keeps_gpus_apart_is_said() {
        let both = [0, 1];
        let plain = [gpu(0, 0, &both, Reach::Atomics), gpu(1, 1, &both, Reach::Plain)];
        assert_eq!(Plan::new(&plain, false).unwrap().place, PlanPlace::Gpus { atomics: false });
        let far = [gpu(0, 0, &both, Reach::Atomics), gpu(1, 1, &both, Reach::No)];
        assert!(reason(&far).contains("the GPU of rank 1 does not reach"), "{}", reason(&far));
        let hidden = [gpu(0, 0, &[0], Reach::Atomics), gpu(1, 1, &both, Reach::Atomics)];
        assert!(reason(&hidden).contains("CUDA_VISIBLE_DEVICES"), "{}", reason(&hidden));
        let mixed = [cpu(0, 5000), gpu(1, 1, &both, Reach::Atomics)];
        assert!(reason(&mixed).contains("on the CPU and some on a GPU"), "{}", reason(&mixed));
        let mut old = plain;
        if let Some(gpu) = &mut old[0].gpu {
            gpu.granularity = Err("GPU 0 does not support X".to_owned());
        }
        assert!(reason(&old).contains("rank 0: GPU 0 does not support X"));
    }
}

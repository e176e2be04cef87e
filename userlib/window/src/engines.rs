//! RMA engines across the processes of a job: each process has one node, in memory that all map.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ggas_device::engine::{EngineConfig, EngineMemory, EngineNetwork, engine_part_bytes};
use ggas_device::{Departures, DeviceError, LostPeer, PeerEnd};
use ggas_gpu::GpuError;
use ggas_kernels::Processor;
use ggas_members::{Job, LossGuard, Member, Members, PeerState};

use crate::memory::{At, Parts};
use crate::plan::{Plan, PlanPlace, Wish, refuse_sharing};
use crate::{Setup, WindowError};

/// A network of RMA engines over all processes of a job: process `i` has node `i`, whose engine runs on its
/// `processor`. Collective: all processes call it, in the same order as other collective calls of the job. The call
/// returns within `timeout`, after a time-out within twice that.
///
/// If all processors are the CPU executor, the engines use memory that all processes map. Otherwise each process needs a
/// GPU of its own, and every GPU has to be able to access every other one. [`ggas_device::engine`] says how engines run,
/// wait and end. Set-up and end of the network do not need running engines. Drop the network before the job.
///
/// ```
/// use std::time::Duration;
/// use ggas_kernels::Processor;
///
/// let job = ggas_members::Job::join()?; // started plainly: a job of one
/// let network = ggas_window::engines_across(&job, &Processor::cpu(), Duration::from_secs(10))?;
/// let device = network.device(job.rank() as usize)?;
/// assert_eq!(device.info().node, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// On all ranks alike: [`WindowError::Engine`] for more processes than engines join, [`WindowError::SharedGpu`],
/// [`WindowError::NoEngines`] where not all processors reach all of the memory. Where one process fails, the others get
/// [`WindowError::Peer`]. [`WindowError::Job`] names a process that died or did not make the call in time.
pub fn engines_across(
    job: &Job,
    processor: &Processor,
    timeout: Duration,
) -> Result<EngineNetwork, WindowError> {
    let config = EngineConfig::default();
    let nodes = job.size() as usize;
    config.check(nodes)?;
    let setup = Setup::new(job, timeout);
    let bytes = engine_part_bytes(nodes);
    let wish = Wish::new(setup.next_tag(), job.rank() as u16, processor, bytes);
    let wishes: Vec<Wish> = setup.exchange(&wish)?;
    refuse_sharing(&wishes)?;
    let plan = Plan::new(&wishes, job.spans_hosts())?;
    if let PlanPlace::Apart { reason } = plan.place {
        return Err(WindowError::NoEngines { reason });
    }
    let parts = setup.parts(&plan, processor, bytes)?;
    let member = job.member().clone();
    let memory = Arc::new(JobMemory { parts, stride: plan.stride, member, watch: OnceLock::new() });
    let network = EngineNetwork::across(memory.clone(), processor, setup.rank(), nodes, config);
    let network = setup.agree(network.map_err(WindowError::from))?;
    let losses = network.losses();
    // Only this call sets it.
    let _ = memory.watch.set(job.on_loss(Box::new(move |rank| losses.lost(rank as u16))));
    Ok(network)
}

/// Parts of all processes.
struct JobMemory {
    parts: Parts,
    stride: usize,
    member: Arc<Member>,
    /// Tells the engine of processes that die.
    watch: OnceLock<LossGuard>,
}

impl JobMemory {
    fn at(&self, offset: usize) -> At {
        At { offset, stride: self.stride }
    }
}

// SAFETY: the parts are mapped in every process, for the kernels of its processor (other plans were refused), and stay
// mapped here while the value lives.
unsafe impl EngineMemory for JobMemory {
    fn address(&self, node: u16) -> u64 {
        self.parts.local(node.into(), self.stride)
    }

    fn load(&self, node: u16, offset: usize, words: &mut [u64]) -> Result<(), DeviceError> {
        match &self.parts {
            Parts::Host(memory, _) => {
                let first = self.at(offset).in_window(node.into());
                words.iter_mut().enumerate().for_each(|(i, word)| *word = memory.load_u64(first + 8 * i));
            }
            parts => {
                let mut bytes = vec![0; size_of_val(words)];
                parts.read(node.into(), self.at(offset), &mut bytes).map_err(refused)?;
                let (whole, _) = bytes.as_chunks();
                words.iter_mut().zip(whole).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
            }
        }
        Ok(())
    }

    fn store(&self, node: u16, offset: usize, words: &[u64]) -> Result<(), DeviceError> {
        match &self.parts {
            Parts::Host(memory, _) => {
                let first = self.at(offset).in_window(node.into());
                words.iter().enumerate().for_each(|(i, word)| memory.store_u64(first + 8 * i, *word));
                Ok(())
            }
            parts => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                parts.write(node.into(), self.at(offset), &bytes).map_err(refused)
            }
        }
    }

    fn store_u32(&self, node: u16, offset: usize, value: u32) -> Result<(), DeviceError> {
        match &self.parts {
            Parts::Host(memory, _) => {
                let word = memory.word(self.at(offset & !7).in_window(node.into())).as_ptr().cast::<u32>();
                // SAFETY: half of an aligned word of the buffer, which is accessed atomically only.
                let half = unsafe { AtomicU32::from_ptr(word.add(offset / 4 % 2)) };
                half.store(value, Ordering::Release);
                Ok(())
            }
            parts => parts.write(node.into(), self.at(offset), &value.to_le_bytes()).map_err(refused),
        }
    }

    fn departures(&self) -> Departures {
        Departures::new(self.member.departures().clone())
    }

    fn lost(&self, node: u16) -> Option<LostPeer> {
        let rank = u32::from(node);
        let end = match self.member.at(rank)?.state {
            PeerState::Left => PeerEnd::Left,
            PeerState::Lost => PeerEnd::Lost,
            PeerState::Absent | PeerState::Joined => return None,
        };
        Some(LostPeer { rank, node, vpid: None, end })
    }
}

/// An error of GPU memory: host memory of the engines gives none.
fn refused(error: WindowError) -> DeviceError {
    match error {
        WindowError::Gpu(error) => error.into(),
        WindowError::Device(error) => error,
        other => DeviceError::Gpu(GpuError::Invalid(other.to_string())),
    }
}

impl fmt::Debug for JobMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobMemory").field(&self.parts).finish()
    }
}

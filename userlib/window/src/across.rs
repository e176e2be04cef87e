//! Windows across the processes of a job: each process is one member and has one part.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ggas_device::{HostBuffer, SharedMemory};
use ggas_gpu::GpuPart;
use ggas_kernels::Processor;
use ggas_members::{Job, Trace};
use ggas_rma::Node;

use crate::cards::Shape;
use crate::copier::arm;
use crate::memory::{Parts, fits, gpu_of};
use crate::plan::{Plan, PlanPlace, Wish};
use crate::window::{Asked, Part};
use crate::{Mapping, Setup, Window, WindowError, WindowInfo};

impl Window {
    /// A window over all processes of a job: the member of rank `i` is process `i`, which gives `bytes` of memory
    /// for kernels of its `processor`. Collective: all processes call it, in the same order as other collective
    /// calls of the job and with the same `bytes`. The bytes are zero at first. The call returns within `timeout`, after a
    /// time-out within twice that. `timeout` also bounds the waits of kernels on the window. The job is that of
    /// `ggas_members`: a program that has a `ggas::Job` passes its `membership()`.
    ///
    /// * If all processors are the CPU executor: memory that all processes map.
    /// * If each process has a GPU of its own, and every GPU can access every other one: GPU memory that all processes map.
    /// * If the processes are on several hosts, and none share a GPU: what [`on_nodes`](Self::on_nodes) gives, so a trapped range on the
    ///   model. There a job has several at once, of 63 parts together, and the ranks of a node have a part each; more than 63 parts need a node each, and
    ///   are one window. A card has one window. Since all processes make it together, it is told from others whatever they are like.
    /// * Otherwise, as where processes share a GPU, each process has its own part only, and [`info`](Self::info) says why. Kernels
    ///   then have no pointers to other parts; [`Member::store`](crate::Member::store) and [`load`](crate::Member::load) reach them through the SMFU.
    ///
    /// Parts exist until the last process that maps them has dropped the window or ended: neither the death of a
    /// process nor an early drop takes memory away from kernels that run in others.
    ///
    /// # Errors
    /// On all ranks alike: [`WindowError::Empty`], [`WindowError::TooLarge`], [`WindowError::Unequal`]; over hosts
    /// [`WindowError::Device`] where the SMFU does not take the window, or other windows have what it needs. Where one process fails, as rank 0 does by [`WindowError::MoreThanMachine`], the others
    /// get [`WindowError::Peer`]. [`WindowError::Job`] names a process that died or did not make the call in time.
    pub fn across(
        job: &Job,
        node: &Node,
        processor: &Processor,
        bytes: usize,
        timeout: Duration,
    ) -> Result<Window, WindowError> {
        let setup = Setup::new(job, timeout);
        let copier = job.spans_hosts().then(|| arm(node, processor)).flatten();
        let wish = Wish::new(setup.next_tag(), node.id(), processor, bytes).with_copier(copier.is_some());
        let plan = Plan::new(&setup.exchange(&wish)?, job.spans_hosts())?;
        let parts = match plan.place {
            PlanPlace::Devices { atomics } => {
                let number = Some(plan.number);
                let (rank, shape) = (setup.rank(), Shape { stride: plan.stride, bytes, atomics, number });
                setup.agree(Parts::behind_a_card(node, &plan.nodes, rank, processor, shape, timeout))?
            }
            _ => setup.parts(&plan, processor, bytes)?,
        };
        let parts = Arc::new(parts);
        let mut info = WindowInfo {
            mapped: parts.mapping(),
            atomics: parts.atomics(),
            trapped: Ok(()),
            bytes,
            stride: plan.stride,
        };
        let (rank, size) = (setup.rank(), plan.nodes.len());
        let asked = (rank, Trace::asked(None, rank, Some(size)).map(Asked::Ranks));
        let nodes = (&plan.nodes[..], Some(plan.number));
        let part = Part::new(node, processor, asked, nodes, &parts, &info, timeout);
        let part = setup.agree(part)?;
        // Once all have answered, every SMFU is set up.
        let trapped: Vec<Option<String>> = setup.exchange(&part.smfu.as_ref().err())?;
        info.trapped = match trapped.into_iter().enumerate().find_map(|(rank, why)| Some((rank, why?))) {
            Some((rank, why)) => Err(format!("rank {rank}: {why}")),
            None => Ok(()),
        };
        // Where processes share a GPU, it would take turns from their kernels.
        let _copier = copier.filter(|_| matches!(plan.place, PlanPlace::Devices { .. }));
        let (first, len) = (setup.rank(), plan.nodes.len());
        Ok(Window { members: vec![part], first, len, parts, info, timeout, _copier })
    }
}

impl Setup<'_> {
    /// The memory of the window as this process reaches it.
    pub(crate) fn parts(
        &self,
        plan: &Plan,
        processor: &Processor,
        bytes: usize,
    ) -> Result<Parts, WindowError> {
        match &plan.place {
            // A window of kernels is not mapped then; only engines ask.
            PlanPlace::Devices { .. } => {
                Err(WindowError::NoEngines { reason: "the processes are on several hosts".to_owned() })
            }
            PlanPlace::Host => self.host(plan),
            PlanPlace::Gpus { atomics } => self.gpus(plan, processor, bytes, *atomics),
            PlanPlace::Apart { reason } => {
                let part = self.agree(processor.alloc(bytes).map_err(WindowError::from))?;
                Ok(Parts::Apart { first: self.rank(), parts: vec![part], reason: reason.clone() })
            }
        }
    }

    /// One memory, made by rank 0: a descriptor and a mapping in each process, however many there are.
    fn host(&self, plan: &Plan) -> Result<Parts, WindowError> {
        let total = plan.stride * plan.nodes.len();
        let make = || {
            fits(plan.nodes.len(), plan.stride, total)?;
            Ok(SharedMemory::new(total)?)
        };
        let made: Result<_, WindowError> = (self.rank() == 0).then(make).transpose();
        let made = self.agree(made)?;
        let mapped = self.host_mapping(plan, made, total);
        Ok(Parts::Host(self.agree(mapped)?, Mapping::Processes))
    }

    fn host_mapping(
        &self,
        plan: &Plan,
        made: Option<SharedMemory>,
        total: usize,
    ) -> Result<HostBuffer, WindowError> {
        let memory = match made {
            Some(memory) => {
                self.spread(plan, &[memory.as_fd()])?;
                memory
            }
            None => {
                let [fd] = self.receive(plan, 0, 1)?.try_into().map_err(|_| self.incomplete(0))?;
                SharedMemory::received(fd, total)?
            }
        };
        Ok(memory.map()?)
    }

    /// A part on each GPU: descriptors go to rank 0, and all of them from there to everyone.
    fn gpus(
        &self,
        plan: &Plan,
        processor: &Processor,
        bytes: usize,
        atomics: bool,
    ) -> Result<Parts, WindowError> {
        let made = gpu_of(processor).ok_or(WindowError::NoMembers).and_then(|gpu| {
            let part = GpuPart::new(&gpu, plan.stride)?;
            let fd = part.export()?;
            Ok((part, fd))
        });
        let (part, fd) = self.agree(made)?;
        let window = self.collect(plan, fd).and_then(|fds| {
            let place = |(rank, fd)| (rank != self.rank()).then_some(fd);
            let others: Vec<Option<BorrowedFd<'_>>> =
                fds.iter().map(AsFd::as_fd).enumerate().map(place).collect();
            Ok(part.window(self.rank(), &others, bytes)?)
        });
        Ok(Parts::Gpus(self.agree(window)?, atomics))
    }

    /// Everyone's descriptor, by rank. Through rank 0: nobody sends while others may be waiting for it to receive.
    fn collect(&self, plan: &Plan, own: OwnedFd) -> Result<Vec<OwnedFd>, WindowError> {
        let size = plan.nodes.len();
        if self.rank() != 0 {
            self.job().send_fds(0, plan.tag, &[own.as_fd()], self.left())?;
            return self.receive(plan, 0, size);
        }
        let mut fds = vec![own];
        for rank in 1..size {
            fds.extend(self.receive(plan, rank, 1)?);
        }
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        self.spread(plan, &borrowed)?;
        Ok(fds)
    }

    /// Sends descriptors to all others.
    fn spread(&self, plan: &Plan, fds: &[BorrowedFd<'_>]) -> Result<(), WindowError> {
        let others = (0..self.job().size()).filter(|rank| *rank != self.job().rank());
        Ok(others.into_iter().try_for_each(|rank| self.job().send_fds(rank, plan.tag, fds, self.left()))?)
    }

    fn receive(&self, plan: &Plan, from: usize, count: usize) -> Result<Vec<OwnedFd>, WindowError> {
        let fds = self.job().recv_fds(from as u32, plan.tag, self.left())?;
        if fds.len() == count { Ok(fds) } else { Err(self.incomplete(from)) }
    }

    fn incomplete(&self, rank: usize) -> WindowError {
        let what = "it sent another number of descriptors than there are parts: build all processes alike";
        WindowError::Peer { rank, what: what.to_owned() }
    }
}

//! A window as one of its members sees it.

use std::time::Duration;

use extoll_abi::Atomic;
use ggas_device::{SmfuWindow, Span};
use ggas_kernels::Processor;
use ggas_rma::{KernelReport, Node};

use crate::window::Part;
use crate::{TraceWords, Window, WindowError};

/// A window as one of its members sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub(crate) window: &'a Window,
    pub(crate) part: &'a Part,
    pub(crate) rank: usize,
}

impl<'a> Member<'a> {
    /// Its place in the window.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Its node.
    pub fn node(&self) -> &'a Node {
        &self.part.node
    }

    /// Where its kernels run.
    pub fn processor(&self) -> &'a Processor {
        &self.part.processor
    }

    /// Address of its `struct ggas_window`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.part.memory.address()
    }

    /// Its own part as a network device sees it, to be registered with a port while the window lives.
    pub fn span(&self) -> Span {
        self.window.parts.span(self.rank, self.window.info.stride, self.window.info.bytes)
    }

    /// Pointer for this member's kernels to the part of `member`: the local one for its own, which exists in every
    /// window (thesis 6.5.2).
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`], [`WindowError::NotMapped`].
    pub fn pointer_of(&self, member: usize) -> Result<u64, WindowError> {
        if member == self.rank {
            return Ok(self.window.parts.local(member, self.window.info.stride));
        }
        self.global_pointer(member)
    }

    /// Pointer into the global range to the part of `member`, its own included (thesis 6.5.2).
    ///
    /// # Errors
    /// [`WindowError::NoSuchMember`], [`WindowError::NotMapped`].
    pub fn global_pointer(&self, member: usize) -> Result<u64, WindowError> {
        self.window.check_member(member)?;
        match &self.window.info.mapped {
            Ok(_) => Ok(self.window.parts.global(member, self.window.info.stride)),
            Err(reason) => Err(WindowError::NotMapped { reason: reason.clone() }),
        }
    }

    /// Stores bytes to the part of `member` through the SMFU of this member's node. Posted: returns before the
    /// bytes arrive; stores to one member arrive in order.
    ///
    /// # Errors
    /// [`WindowError::NotTrapped`], [`WindowError::Range`], [`WindowError::NoSuchMember`], [`WindowError::Device`].
    pub fn store(&self, member: usize, offset: usize, from: &[u8]) -> Result<(), WindowError> {
        self.window.check_range(member, offset, from.len())?;
        self.smfu()?.store(self.window_offset(member, offset), from)?;
        self.part.moved(member, from.len(), false);
        Ok(())
    }

    /// Loads bytes of the part of `member` through the SMFU, after this member's stores to it.
    ///
    /// # Errors
    /// As for [`store`](Self::store); [`WindowError::Device`] also when no answer comes within `timeout`.
    pub fn load(
        &self,
        member: usize,
        offset: usize,
        into: &mut [u8],
        timeout: Duration,
    ) -> Result<(), WindowError> {
        self.window.check_range(member, offset, into.len())?;
        self.smfu()?.load(self.window_offset(member, offset), into, timeout)?;
        self.part.moved(member, into.len(), true);
        Ok(())
    }

    /// An atomic operation on the aligned word at `offset` of the part of `member`, through the SMFU, behind this member's stores to it;
    /// gives what was there. Atomic with what kernels and other members do to the word by atomics. Of the model; on
    /// a part in GPU memory that GPU's copier does it while it runs: in windows over hosts and [on nodes](Window::on_nodes) as long as they live,
    /// else while somebody has it run (`ggas_gpu::Copier::arm`).
    ///
    /// # Errors
    /// As for [`load`](Self::load); [`WindowError::Device`] also where the word is not aligned, where no copier runs on the part's GPU, and on cards.
    /// One that fails for want of an answer may have been done.
    pub fn atomic(
        &self,
        member: usize,
        offset: usize,
        atomic: Atomic,
        timeout: Duration,
    ) -> Result<u64, WindowError> {
        self.window.check_range(member, offset, atomic.width().bytes())?;
        let before = self.smfu()?.atomic(self.window_offset(member, offset), atomic, timeout)?;
        self.part.moved(member, atomic.width().bytes(), false);
        self.part.moved(member, atomic.width().bytes(), true);
        Ok(before)
    }

    /// The same without a result: posted, in order with this member's stores to `member`.
    ///
    /// # Errors
    /// As for [`store`](Self::store), and where [`atomic`](Self::atomic) refuses before it sends.
    pub fn reduce(&self, member: usize, offset: usize, atomic: Atomic) -> Result<(), WindowError> {
        self.window.check_range(member, offset, atomic.width().bytes())?;
        self.smfu()?.reduce(self.window_offset(member, offset), atomic)?;
        self.part.moved(member, atomic.width().bytes(), false);
        Ok(())
    }

    fn window_offset(&self, member: usize, offset: usize) -> u64 {
        (member * self.window.info.stride + offset) as u64
    }

    fn smfu(&self) -> Result<&'a dyn SmfuWindow, WindowError> {
        match &self.part.smfu {
            Ok(smfu) => Ok(&**smfu),
            Err(reason) => Err(WindowError::NotTrapped { reason: reason.clone() }),
        }
    }

    /// Where somebody asks what the member's kernels move ([`Moves`](crate::Moves)): what has to be behind another report of theirs that counts for this
    /// window. While the window lives.
    pub fn trace_words(&self) -> Option<TraceWords> {
        self.part.traced.as_ref()?.with(|traced| traced.words())
    }

    /// What a kernel's wait on this member's window reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.part.report.get()
    }

    /// Forgets a report. Not while kernels run.
    pub fn clear_report(&self) {
        self.part.report.clear();
    }
}

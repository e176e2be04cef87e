//! Segments whose vectors go to other hosts from where they are: what a group's [`Hierarchy`] has of them.

use std::sync::{Arc, Mutex};

use ggas::Processor;
use ggas::kernels::KernelMem;
use ggas_shared_gpu::Hierarchy;

use super::sums::locked;
use crate::segment::{self, Segment};

/// Segments that were attached.
#[derive(Debug, Default)]
pub(super) struct Segments(Vec<Attached>);

#[derive(Debug)]
struct Attached {
    // It borrows from the segment, and so goes first; behind it in the hierarchy.
    memory: Arc<KernelMem>,
    segment: Arc<Segment>,
}

impl Segments {
    /// Attaches the segments that vectors begin in, where this process leads a host. Those of a program's memory are not: that may be
    /// gone as soon as they are deleted.
    pub(super) fn add(
        &mut self,
        all: &mut Hierarchy,
        known: &segment::Segments,
        processor: &Processor,
        vectors: [u64; 2],
    ) {
        for at in vectors {
            let Some(segment) = known.allocated_at(at) else { continue };
            if self.0.iter().any(|one| Arc::ptr_eq(&one.segment, &segment)) {
                continue;
            }
            let Some(place) = segment.allocated() else { continue };
            let bytes = (place.end - place.start) as usize;
            // SAFETY: the segment's own memory, which is kept behind what is borrowed; accessed as vectors are.
            let Ok(memory) = (unsafe { processor.borrow(place.start as *mut u8, bytes) }) else { continue };
            let memory = Arc::new(memory);
            if all.attach(&memory) {
                self.0.push(Attached { memory, segment });
            }
        }
    }

    /// Lets go of some. Without a hierarchy nothing is attached.
    pub(super) fn let_go(&mut self, gone: Vec<Arc<Segment>>, mut all: Option<&mut Hierarchy>) {
        self.0.retain(|one| {
            let stays = !gone.iter().any(|gone| Arc::ptr_eq(gone, &one.segment));
            if !stays && let Some(all) = &mut all {
                all.detach(&one.memory);
            }
            stays
        });
    }
}

/// Segments that were deleted and that a group has not let go of yet. Who deletes one does not wait for the group's calls.
#[derive(Debug, Default)]
pub(super) struct Gone(Mutex<Vec<Arc<Segment>>>);

impl Gone {
    pub(super) fn add(&self, segment: &Arc<Segment>) {
        locked(&self.0).push(segment.clone());
    }

    pub(super) fn has_some(&self) -> bool {
        !locked(&self.0).is_empty()
    }

    pub(super) fn take(&self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut *locked(&self.0))
    }
}

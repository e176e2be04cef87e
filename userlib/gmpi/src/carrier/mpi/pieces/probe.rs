//! Probes: a head is shorter than its message, so it is taken out of the library's queue and read. What its sender sent before it comes out with
//! it: receives look first at what was taken, and would overtake what was not.

use std::ptr::null;

use super::super::shim::{self, Call, Told};
use super::super::{Mpi, class, status_of};
use super::heads::{HEAD, Head};
use crate::carrier::{Comm, Token};
use crate::{Class, Status, layout};

/// A head that was taken, and received.
pub struct KeptHead {
    pub bytes: Box<[u8; HEAD]>,
    /// Its receive, until that is over.
    pub request: Option<Token>,
    pub told: Told,
}

/// A message of the library that was taken, and that no receive has got.
pub struct Kept {
    comm: Comm,
    told: Told,
    /// Its number in the shim.
    pub number: u64,
    pub head: Option<KeptHead>,
}

impl Kept {
    fn matches(&self, comm: Comm, from: Option<u32>, tag: Option<i32>) -> bool {
        self.comm == comm
            && from.is_none_or(|from| self.told.source == from as i32)
            && tag.is_none_or(|tag| self.told.tag == tag)
    }
}

impl Mpi {
    /// The first one that a receive gets.
    pub(super) fn take_kept(&mut self, comm: Comm, from: Option<u32>, tag: Option<i32>) -> Option<Kept> {
        let found = self.pieces.kept.iter().position(|kept| kept.matches(comm, from, tag))?;
        Some(self.pieces.kept.remove(found))
    }

    /// What a receive would get, where messages go in pieces; `found`: what the library says that it would.
    pub(in super::super) fn probe_kept(
        &mut self,
        comm: Comm,
        from: Option<u32>,
        tag: Option<i32>,
        probe: impl Fn(&Mpi) -> Result<Option<Status>, Class>,
    ) -> Result<Option<Status>, Class> {
        if let Some(found) = self.pieces.kept.iter().position(|kept| kept.matches(comm, from, tag)) {
            return self.read_kept(found);
        }
        let found = match probe(self)? {
            Some(found) if found.bytes == HEAD as u64 => found,
            other => return Ok(other),
        };
        let first = self.pieces.kept.len();
        while !self.pieces.kept[first..].iter().any(|kept| kept.told.tag == found.tag) {
            if !self.keep_next(comm, found.source)? {
                return Ok(None);
            }
        }
        self.read_kept(self.pieces.kept.len() - 1)
    }

    /// Takes the next message of a member; whether there was one.
    fn keep_next(&mut self, comm: Comm, source: i32) -> Result<bool, Class> {
        let (mut found, mut number, mut told) = (0, 0, Told::default());
        let any = layout::GMPI_ANY_TAG;
        // SAFETY: the communicator is one.
        class(unsafe { (self.shim.take)(comm as i32, source, any, &mut found, &mut number, &mut told) })?;
        if found == 0 {
            return Ok(false);
        }
        let head = if told.bytes == HEAD as i64 {
            let mut bytes = Box::new([0; HEAD]);
            let call = Call {
                from: null(),
                to: bytes.as_mut_ptr().cast(),
                displacement: number,
                kind: shim::RECV_TAKEN,
                comm: comm as i32,
                count: HEAD as i32,
                of: layout::GMPI_BYTE as i32,
                rank: source,
                tag: told.tag,
                op: 0,
                reserved: 0,
            };
            let request = Some(self.begin_part(&call)?);
            Some(KeptHead { bytes, request, told })
        } else {
            None
        };
        self.pieces.kept.push(Kept { comm, told, number, head });
        Ok(true)
    }

    /// The status of one; `None`: not yet.
    fn read_kept(&mut self, at: usize) -> Result<Option<Status>, Class> {
        let kept = &self.pieces.kept[at];
        let status = status_of(kept.told);
        let Some(head) = &kept.head else { return Ok(Some(status)) };
        if let Some(request) = head.request {
            let Some((ended, _)) = self.test_part(request) else { return Ok(None) };
            ended?;
        }
        let head = self.pieces.kept[at].head.as_mut().ok_or(Class::INTERN)?;
        head.request = None;
        let bytes = Head::of(&head.bytes).ok_or(Class::INTERN)?.total as u64;
        Ok(Some(Status { bytes, ..status }))
    }
}

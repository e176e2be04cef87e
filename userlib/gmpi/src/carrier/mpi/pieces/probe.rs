//! Probes: a head is shorter than its message, so it is taken out of the library's queue and read. What its sender sent before it comes out with
//! it: receives look first at what was taken, and would overtake what was not.

use ggas_clock::Backoff;

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
            let request = Some(self.receive_taken(comm, number, &mut bytes[..])?);
            Some(KeptHead { bytes, request, told })
        } else {
            None
        };
        self.pieces.kept.push(Kept { comm, told, number, head });
        Ok(true)
    }

    /// Begins to receive what was taken. The caller keeps the bytes until that is over.
    fn receive_taken(&self, comm: Comm, number: u64, bytes: &mut [u8]) -> Result<Token, Class> {
        self.begin_part(&Call {
            to: bytes.as_mut_ptr().cast(),
            displacement: number,
            comm: comm as i32,
            count: bytes.len() as i32,
            ..Call::of(shim::RECV_TAKEN)
        })
    }

    /// What was taken and never received comes before the end, which a library may wait for, to no place. Waits as long as the host's calls do.
    pub(in super::super) fn drop_kept(&mut self) {
        let mut left: Vec<(Token, Box<[u8]>)> = Vec::new();
        for Kept { comm, told, number, head } in std::mem::take(&mut self.pieces.kept) {
            let (request, bytes) = match head {
                Some(head) => (head.request, head.bytes as Box<[u8]>),
                None => {
                    let mut bytes = vec![0; told.bytes.max(0) as usize].into_boxed_slice();
                    (self.receive_taken(comm, number, &mut bytes).ok(), bytes)
                }
            };
            left.extend(request.map(|request| (request, bytes)));
        }
        let clock = self.clock.clone();
        let mut wait = Backoff::new(&clock, self.timeout);
        loop {
            left.retain(|(request, _)| self.test_part(*request).is_none());
            if left.is_empty() || wait.pause().is_err() {
                break;
            }
        }
        // The library may go on writing them.
        std::mem::forget(left);
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

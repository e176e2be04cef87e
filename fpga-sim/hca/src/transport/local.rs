//! Local memory of requests and receives, by its keys.

use super::Reach;
use crate::regions::{self, Access};
use crate::work::{Sge, Sges, Status};

impl Reach<'_> {
    /// Reads bytes from `offset` of `sges` on.
    pub fn gather(&self, sges: &Sges, offset: u64, out: &mut [u8]) -> Result<(), Status> {
        let mut out = out;
        for (sge, address, len) in parts(sges, offset, out.len()) {
            let at = self.local(sge, address, len, Access::NONE)?;
            let (now, rest) = out.split_at_mut(len);
            regions::read(self.memory, at, now).map_err(|_| Status::LocalProtection)?;
            out = rest;
        }
        if out.is_empty() { Ok(()) } else { Err(Status::LocalLength) }
    }

    /// Writes bytes from `offset` of `sges` on: all, or none where a key or a length forbids it.
    pub fn scatter(&self, sges: &Sges, offset: u64, bytes: &[u8]) -> Result<(), Status> {
        let mut room = 0;
        for (sge, address, len) in parts(sges, offset, bytes.len()) {
            self.local(sge, address, len, Access::LOCAL_WRITE)?;
            room += len;
        }
        if room < bytes.len() {
            return Err(Status::LocalLength);
        }
        let mut bytes = bytes;
        for (sge, address, len) in parts(sges, offset, bytes.len()) {
            let at = self.local(sge, address, len, Access::LOCAL_WRITE)?;
            let (now, rest) = bytes.split_at(len);
            regions::write(self.memory, at, now).map_err(|_| Status::LocalProtection)?;
            bytes = rest;
        }
        Ok(())
    }

    fn local(&self, sge: &Sge, address: u64, len: usize, wanted: Access) -> Result<u64, Status> {
        self.regions
            .check(self.domain, sge.lkey, address, len as u64, wanted)
            .map_err(|_| Status::LocalProtection)
    }
}

/// The parts of `sges` that hold `len` bytes from `offset` on: piece, address, bytes.
fn parts(sges: &Sges, offset: u64, len: usize) -> impl Iterator<Item = (&Sge, u64, usize)> {
    let (mut skip, mut left) = (offset, len);
    sges.iter().filter_map(move |sge| {
        let size = u64::from(sge.len);
        let skipped = skip.min(size);
        skip -= skipped;
        let take = left.min((size - skipped) as usize);
        left -= take;
        // An address that wraps around is in no region.
        (take > 0).then(|| (sge, sge.address.wrapping_add(skipped), take))
    })
}

//! Vectors of other processes, where they are: on a GPU opened by their IPC names, on the executor read by a call of the system.

use std::cell::RefCell;

use ggas_gpu::{Gpu, IpcMemory, IpcName};
use ggas_kernels::{KernelMem, Processor};

use crate::SharedGpuError;
use crate::circle::Circle;

/// Allocations that are kept open: those that a program broadcasts from in turns.
const OPENED_MAX: usize = 8;

/// Says to other processes where a vector is.
pub(crate) type Name = [u64; IpcName::WORDS];

/// How this process reaches them.
pub(crate) enum Peers {
    /// Memory of processes.
    Processes,
    Gpu {
        gpu: Gpu,
        /// The last one used comes last.
        opened: RefCell<Vec<IpcMemory>>,
    },
}

impl Peers {
    pub(crate) fn of(processor: &Processor) -> Peers {
        match processor {
            Processor::Gpu(gpu) => Peers::Gpu { gpu: gpu.device().clone(), opened: RefCell::default() },
            _ => Peers::Processes,
        }
    }

    /// The name of an address of this process.
    pub(crate) fn name(&self, address: u64) -> Result<Name, SharedGpuError> {
        let Peers::Gpu { gpu, .. } = self else {
            let mut name = Name::default();
            (name[0], name[1]) = (std::process::id().into(), address);
            return Ok(name);
        };
        Ok(*gpu.ipc_name(address)?.words())
    }

    /// Where that is for this process's GPU.
    pub(crate) fn open(
        gpu: &Gpu,
        opened: &RefCell<Vec<IpcMemory>>,
        name: &Name,
    ) -> Result<u64, SharedGpuError> {
        let (name, mut opened) = (IpcName::from_words(*name), opened.borrow_mut());
        if let Some(at) = opened.iter().position(|memory| memory.address_of(&name).is_some()) {
            let memory = opened.remove(at);
            opened.push(memory);
        } else {
            if opened.len() == OPENED_MAX {
                opened.remove(0);
            }
            let memory = match gpu.open_ipc(&name) {
                // What its owner has freed and given away anew cannot be opened as long as it is open here.
                Err(_) if !opened.is_empty() => {
                    opened.clear();
                    gpu.open_ipc(&name)?
                }
                memory => memory?,
            };
            opened.push(memory);
        }
        Ok(opened.last().and_then(|memory| memory.address_of(&name)).unwrap_or_default())
    }

    /// Reads a word of another process.
    fn word(&self, name: &Name) -> Result<u64, SharedGpuError> {
        let mut word = [0; 8];
        match self {
            // SAFETY: a word of ours.
            Peers::Processes => unsafe { read(name, 0, word.as_mut_ptr(), word.len()) }?,
            Peers::Gpu { gpu, opened } => {
                let address = Peers::open(gpu, opened, name)?;
                // SAFETY: at least a word is there, and its owner waits for us.
                unsafe { gpu.read_at(address, &mut word) }?;
            }
        }
        Ok(u64::from_ne_bytes(word))
    }
}

/// Copies from a process's memory, from a byte behind its name on.
///
/// # Safety
/// There is room for so many bytes at `to`, which nobody else uses.
pub(crate) unsafe fn read(name: &Name, at: usize, to: *mut u8, bytes: usize) -> Result<(), SharedGpuError> {
    let mut done = 0;
    while done < bytes {
        let here = libc::iovec { iov_base: to.wrapping_add(done).cast(), iov_len: bytes - done };
        let there = libc::iovec { iov_base: (name[1] as usize + at + done) as *mut _, iov_len: bytes - done };
        // SAFETY: the caller's promise; the system checks the other process's addresses.
        let got = unsafe { libc::process_vm_readv(name[0] as libc::pid_t, &here, 1, &there, 1, 0) };
        match usize::try_from(got) {
            Ok(0) => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            Ok(got) => done += got,
            Err(_) => return Err(std::io::Error::last_os_error().into()),
        }
    }
    Ok(())
}

/// Whether all ranks reach all others' memory, of which each gives some: any may be a root. Collective over the circle's world.
pub(crate) fn reach(circle: &Circle<'_>, mine: Option<(&Peers, &KernelMem)>) -> Result<bool, SharedGpuError> {
    // A number that no other memory has by chance.
    let number = |rank: usize| 0x6767_6173_0000_0000 | rank as u64;
    let name = circle.rank().zip(mine).and_then(|(rank, (peers, memory))| {
        memory.store_u64(0, number(rank)).ok()?;
        peers.name(memory.address()).ok()
    });
    let said: Vec<u8> = name.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
    let all = circle.exchange(&said)?;
    let seen = circle.rank().zip(mine).is_some_and(|(rank, (peers, _))| {
        circle.ranks() > 1
            && sees_all(rank, &all, |other, name| peers.word(&name).is_ok_and(|word| word == number(other)))
    });
    let all = circle.exchange(&[u8::from(seen)])?;
    Ok(!all.is_empty() && all.iter().all(|seen| *seen == [1]))
}

/// Whether a rank sees what all others have named; the own memory is reached otherwise.
fn sees_all(rank: usize, said: &[Vec<u8>], sees: impl Fn(usize, Name) -> bool) -> bool {
    said.iter().enumerate().filter(|(other, _)| *other != rank).all(|(other, said)| {
        let words: Vec<u64> = said.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        Name::try_from(words).is_ok_and(|name| sees(other, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_others_are_looked_at() {
        let name = |rank: u64| [rank; IpcName::WORDS].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut said: Vec<Vec<u8>> = (0..4).map(name).collect();
        for hidden in [0, 2, 3] {
            assert!(!sees_all(1, &said, |other, _| other != hidden), "{hidden} cannot be seen");
        }
        let sees = |other: usize, name: Name| other != 1 && name == [other as u64; IpcName::WORDS];
        assert!(sees_all(1, &said, sees));
        said[3].clear();
        assert!(!sees_all(1, &said, sees), "one has no name");
    }
}

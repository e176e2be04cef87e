//! Messages from kernel to kernel, without the daemon: what kernels need for them (`kernels/include/ggas/impl/gmpi_direct.h`).

use std::mem::{offset_of, take};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ggas::kernels::{KernelMem, Processor};
use ggas::{Mapping, Window, WindowError};

use crate::layout::{self, gmpi_buf, gmpi_channel, gmpi_direct, gmpi_direct_end};
use crate::{Comm, Gmpi, GmpiError};

/// Bytes that mailboxes begin at a multiple of.
const ALIGNED: usize = 64;

/// The mailboxes of a communicator whose kernels reach each other: one for each port and member, in each member's part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Slots of a mailbox, a power of two from 2 to 4,096: so many parts of messages are on their way before they are received.
    pub slots: u32,
    /// Bytes of a slot, a multiple of 64 from 1,024 to 16 MiB: longer messages are several parts.
    pub slot_bytes: u32,
    /// Where the mailboxes begin in each part of the window, a multiple of 64.
    pub offset: usize,
}

impl Default for Direct {
    fn default() -> Direct {
        Direct { slots: 16, slot_bytes: 16 << 10, offset: 0 }
    }
}

impl Direct {
    /// First byte of a part of the window behind the mailboxes and the boards of collectives; `None`: beyond all addresses.
    pub fn end(&self, ports: u32, members: usize) -> Option<usize> {
        let boards = 2 * layout::GMPI_DIRECT_BOARD as usize;
        let boards = boards.checked_mul(ports as usize)?.checked_mul(members)?;
        self.boards(ports, members)?.checked_add(boards)
    }

    /// First byte behind the mailboxes.
    fn boards(&self, ports: u32, members: usize) -> Option<usize> {
        let head = layout::GMPI_DIRECT_HEAD as usize;
        let short = 2 * layout::GMPI_DIRECT_SHORT.min(self.slot_bytes / 2) as usize;
        let slots = (self.slot_bytes as usize + short + head).checked_mul(self.slots as usize)?;
        let places = (layout::GMPI_DIRECT_OPS * layout::GMPI_DIRECT_PLACE) as usize;
        slots
            .checked_add(head + places)?
            .checked_mul(ports as usize)?
            .checked_mul(members)?
            .checked_add(self.offset)
    }

    pub(crate) fn check(&self) -> Result<(), GmpiError> {
        let refuse = |what, value, allowed| Err(GmpiError::Config { what, value, allowed });
        if !(2..=4096).contains(&self.slots) || !self.slots.is_power_of_two() {
            let allowed = "a power of two from 2 to 4096";
            return refuse("the number of slots of a mailbox", self.slots.into(), allowed);
        }
        let bytes = layout::GMPI_DIRECT_SLOT_LEAST..=16 << 20;
        if !bytes.contains(&self.slot_bytes) || !(self.slot_bytes as usize).is_multiple_of(ALIGNED) {
            let allowed = "a multiple of 64 from 1024 to 16777216";
            return refuse("the number of bytes of a slot", self.slot_bytes.into(), allowed);
        }
        if !self.offset.is_multiple_of(ALIGNED) {
            return refuse("the offset of mailboxes", self.offset as u64, "a multiple of 64");
        }
        Ok(())
    }
}

/// Words of a `struct gmpi_direct`.
const WORDS: usize = 13;
const RANK_AND_SIZE: usize = offset_of!(gmpi_direct, rank) / 8;
const _: () = assert!(size_of::<gmpi_direct>() == WORDS * 8 && offset_of!(gmpi_direct, comm) == 0);

/// What kernels of this process use of a direct communicator, as long as it lives.
pub(crate) struct Placed {
    pub comm: Comm,
    /// The `struct gmpi_direct`.
    words: [u64; WORDS],
    channels: KernelMem,
    /// Members that are dead, by rank: the daemon marks them.
    pub gone: Arc<KernelMem>,
    _collectives: KernelMem,
    /// Members.
    size: usize,
    /// What kernels send is asked for.
    traced: bool,
    _window: Arc<Window>,
}

impl Placed {
    /// For member `rank`, whose window has been checked.
    pub fn new(
        processor: &Processor,
        window: Arc<Window>,
        direct: &Direct,
        (comm, rank, ports): (Comm, u32, u32),
        timeout: Duration,
    ) -> Result<Placed, GmpiError> {
        let size = window.len();
        let channels = processor.alloc(size_of::<gmpi_channel>() * size * ports as usize)?;
        let gone = Arc::new(processor.alloc(4 * size)?);
        let collectives = processor.alloc(8 * ports as usize)?;
        let boards = direct.boards(ports, size).unwrap_or_default();
        let refuse = |error: WindowError| GmpiError::Window(error.to_string());
        let member = window.member(rank as usize).map_err(refuse)?;
        let base = member.global_pointer(0).map_err(refuse)?;
        let local = member.pointer_of(rank as usize).map_err(refuse)?;
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let words = [
            comm.0,
            channels.address(),
            collectives.address(),
            boards as u64,
            base,
            local,
            window.info().stride as u64,
            u64::from(rank) | (size as u64) << 32,
            u64::from(direct.slots) | u64::from(direct.slot_bytes) << 32,
            direct.offset as u64,
            window.bytes() as u64,
            timeout,
            gone.address(),
        ];
        Ok(Placed {
            comm,
            words,
            channels,
            gone,
            _collectives: collectives,
            size,
            traced: false,
            _window: window,
        })
    }

    /// After kernels have ended: whether all that they began is over.
    pub fn check(&self) -> Result<(), GmpiError> {
        const ENDS: [(&str, usize); 2] =
            [("send", offset_of!(gmpi_channel, sends)), ("receive", offset_of!(gmpi_channel, receives))];
        let (mut count, mut first) = (0, None);
        let mut gone = vec![0; 4 * self.size];
        self.gone.read(0, &mut gone)?;
        let is_gone = |peer: usize| gone[4 * peer..4 * peer + 4] != [0; 4];
        for channel in 0..self.channels.len() / size_of::<gmpi_channel>() {
            // Kernels were told.
            if is_gone(channel % self.size) {
                continue;
            }
            for (what, at) in ENDS {
                let at = channel * size_of::<gmpi_channel>() + at;
                let posted = self.channels.load_u64(at + offset_of!(gmpi_direct_end, posted))?;
                let done = self.channels.load_u64(at + offset_of!(gmpi_direct_end, done))?;
                count += posted - done.min(posted);
                if posted > done {
                    first = first.or(Some((what, channel / self.size, channel % self.size)));
                }
            }
        }
        match first {
            Some((what, port, peer)) => Err(GmpiError::OpenMessages { count, what, port, peer }),
            None => Ok(()),
        }
    }

    /// What kernels have sent to each member, by rank: bytes and messages. To itself it does not matter.
    fn sent(&self) -> Result<Vec<[u64; 2]>, GmpiError> {
        let own = (self.words[RANK_AND_SIZE] & u64::from(u32::MAX)) as usize;
        let mut sent = vec![[0, 0]; self.size];
        for channel in 0..self.channels.len() / size_of::<gmpi_channel>() {
            let load = |at| self.channels.load_u64(channel * size_of::<gmpi_channel>() + at);
            let [bytes, messages] = &mut sent[channel % self.size];
            *bytes += load(offset_of!(gmpi_channel, bytes))?;
            *messages += load(offset_of!(gmpi_channel, sends) + offset_of!(gmpi_direct_end, posted))?;
            if channel % self.size == own {
                let to_each = load(offset_of!(gmpi_channel, to_each))?;
                sent.iter_mut().for_each(|[bytes, _]| *bytes += to_each);
            }
        }
        Ok(sent)
    }

    /// Shows kernels how, in their `struct gmpi_buf`.
    fn show(&self, buf: &KernelMem) -> Result<(), GmpiError> {
        let at = offset_of!(gmpi_buf, direct);
        buf.write_u64s(at + 8, &self.words[1..])?;
        // With its handle it is there.
        buf.store_u64(at + offset_of!(gmpi_direct, comm), self.words[0])?;
        Ok(())
    }
}

/// Whether kernels of member `rank` can use a window so.
pub(crate) fn check(
    window: &Window,
    direct: &Direct,
    (rank, size, ports): (u32, u32, u32),
) -> Result<(), GmpiError> {
    direct.check()?;
    let refuse = |why: String| Err(GmpiError::Window(why));
    if window.len() != size as usize || !window.local().contains(&(rank as usize)) {
        let members = window.len();
        return refuse(format!(
            "the window has {members} members and the communicator {size}, and member {rank} has to be this process: make the \
             window over the communicator's members, by rank"
        ));
    }
    match &window.info().mapped {
        Ok(Mapping::Process | Mapping::Processes | Mapping::Peers) => {}
        Ok(_) => {
            return refuse(
                "the kernels of its members are on different hosts: use the communicator as it is".to_owned(),
            );
        }
        Err(why) => {
            return refuse(format!(
                "kernels do not reach all its parts ({why}): use the communicator as it is"
            ));
        }
    }
    match direct.end(ports, window.len()) {
        Some(end) if end <= window.bytes() => Ok(()),
        end => {
            let bytes = end.map_or_else(|| "more than all".to_owned(), |end| end.to_string());
            refuse(format!(
                "its parts have {} bytes and the mailboxes want {bytes}: Direct::end says how many",
                window.bytes()
            ))
        }
    }
}

impl Gmpi {
    /// A communicator like `of` whose messages go from kernel to kernel, with no call of the host (`gmpi.cuh` says what holds there), by
    /// mailboxes in a window whose member i is rank i of `of`. One at a time; all else on it is carried as on `of`. Collective, and before
    /// kernels use it. The window lives as long as the communicator.
    ///
    /// Members on GPUs with peer access, or on the executors of one host, reach each other so: [`Window::across`] for the processes of a
    /// job, [`Window::new`] within one, with as many bytes as [`Direct::end`] says.
    ///
    /// # Errors
    /// [`GmpiError::Window`] where kernels do not reach all parts, or the window is another one's; [`GmpiError::Config`]: of the mailboxes,
    /// or there is one already; as of [`split`](Self::split).
    pub fn direct(&self, of: Comm, window: &Arc<Window>, direct: &Direct) -> Result<Comm, GmpiError> {
        let mut placed = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        if placed.is_some() {
            let (what, allowed) = ("the number of direct communicators", "1: free the other one before");
            return Err(GmpiError::Config { what, value: 2, allowed });
        }
        let place = self.place(of)?;
        check(window, direct, (place.rank, place.size, self.ports))?;
        // Of another communicator that had them: numbers begin anew. Before the split all are empty.
        let end = direct.end(self.ports, window.len()).unwrap_or(direct.offset);
        window
            .zero(place.rank as usize, direct.offset, end - direct.offset)
            .map_err(|error| GmpiError::Window(error.to_string()))?;
        let key = i32::try_from(place.rank).unwrap_or(i32::MAX);
        let gone = GmpiError::Failed { what: "a direct communicator", class: crate::Class::COMM };
        let comm = self.split(of, Some(0), key)?.ok_or(gone)?;
        let whose = (comm, place.rank, self.ports);
        let mut made = Placed::new(&self.processor, window.clone(), direct, whose, self.timeout)?;
        let marks = Some((comm.0, made.gone.clone()));
        made.traced = self.ask("a look at who is gone", move |daemon| {
            daemon.mark_losses(marks)?;
            Ok(daemon.carrier.traces())
        })?;
        made.show(&self.buf)?;
        *placed = Some(made);
        Ok(comm)
    }

    /// Kernels that name it from now on ask the daemon.
    pub(crate) fn undirect(&self, comm: Comm) -> Result<(), GmpiError> {
        let mut placed = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        if placed.as_ref().is_some_and(|placed| placed.comm == comm) {
            self.buf.store_u64(offset_of!(gmpi_buf, direct), 0)?;
            self.ask("the end of a direct communicator", |daemon| daemon.mark_losses(None))?;
            placed.iter_mut().for_each(|placed| self.tell_sent(placed));
            *placed = None;
        }
        Ok(())
    }

    /// Before the daemon ends.
    pub(crate) fn tell_all_sent(&self) {
        let mut placed = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        placed.iter_mut().for_each(|placed| self.tell_sent(placed));
    }

    /// Has what kernels sent counted, once, where somebody asked for it. They have ended.
    fn tell_sent(&self, placed: &mut Placed) {
        if !take(&mut placed.traced) {
            return;
        }
        let comm = placed.comm.0;
        let told = placed.sent().and_then(|sent| {
            self.ask("a count of what kernels sent", move |daemon| {
                let comm = daemon.comms.get(comm);
                comm.into_iter().for_each(|comm| daemon.carrier.add_sent(comm, &sent));
                Ok(())
            })
        });
        if let Err(error) = told {
            tracing::warn!("what kernels sent without the daemon is not in the trace: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailboxes_that_cannot_be_are_refused() {
        let good = Direct::default();
        good.check().expect("the default is one");
        let wrong = [
            Direct { slots: 3, ..good },
            Direct { slots: 1, ..good },
            Direct { slots: 8192, ..good },
            Direct { slot_bytes: 512, ..good },
            Direct { slot_bytes: 1056, ..good },
            Direct { slot_bytes: 32 << 20, ..good },
            Direct { offset: 8, ..good },
        ];
        for direct in wrong {
            assert!(matches!(direct.check(), Err(GmpiError::Config { .. })), "{direct:?}");
        }
        // A mailbox: its head, places. A slot: its first line, the lines of a short message, the bytes of a long one.
        let slot = 64 + 2 * 512 + 1024;
        assert_eq!(
            Direct { slots: 2, slot_bytes: 1024, offset: 64 }.end(3, 2),
            Some(64 + 6 * (64 + 32 * 32 + 2 * slot) + 6 * 2 * 512)
        );
        assert_eq!(Direct { slots: 4096, slot_bytes: 16 << 20, offset: 0 }.end(u32::MAX, usize::MAX), None);
    }
}

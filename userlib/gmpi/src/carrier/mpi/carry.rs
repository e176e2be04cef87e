//! The carrier's calls ([`Carrier`]).

use std::sync::Arc;

use ggas::kernels::KernelMem;

use super::shim::{Shim, Told};
use super::{MOST, Mpi, NO_WINDOW, Started, Window, class, count, say_why, status_of};
use crate::carrier::{Carrier, Comm, Operation, Place, Token, Type, Win};
use crate::memory::{Landed, Span};
use crate::{Class, GmpiError, Status, layout};

impl Carrier for Mpi {
    fn name(&self) -> String {
        // SAFETY: the text is written within its room.
        let name = Shim::text(|text, room| unsafe { (self.shim.name)(text, room) });
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.takes_gpu { name } else { format!("{name}, GPU memory through host memory") }
    }

    fn place(&self, comm: Comm) -> Option<Place> {
        self.comms.get(comm).copied().flatten()
    }

    fn window(&self, win: Win, rank: u32) -> Option<u64> {
        self.windows.get(win)?.as_ref()?.parts.get(rank as usize).copied()
    }

    fn window_comm(&self, win: Win) -> Option<Comm> {
        Some(self.windows.get(win)?.as_ref()?.comm)
    }

    fn attach(&mut self, index: usize, memory: Arc<KernelMem>) -> Result<(), GmpiError> {
        let shut = memory.device_buffer().is_some_and(|buffer| !buffer.has_ipc_handle());
        if self.unshareable.len() <= index {
            self.unshareable.resize(index + 1, false);
        }
        self.unshareable[index] = shut;
        self.stage.attach(&memory, self.staging);
        Ok(())
    }

    fn has_room(&self, _: &Operation) -> bool {
        self.started.len() < MOST
    }

    fn start(&mut self, operation: &Operation) -> Result<Token, Class> {
        match operation {
            Operation::Flush { rank, win } => self.flush(*rank, *win),
            _ => self.begin(operation, None),
        }
    }

    fn start_short(&mut self, operation: &Operation, bytes: &[u8]) -> Result<Token, Class> {
        self.begin(operation, Some(bytes))
    }

    fn landed(&mut self, token: Token) -> Option<Landed> {
        self.landed.remove(&token)
    }

    fn test(&mut self, token: Token) -> Option<Result<Status, Class>> {
        if let Some(ended) = self.flushed.remove(&token) {
            return Some(ended.map(|()| Status::EMPTY));
        }
        let (mut over, mut told) = (0, Told::default());
        self.started.get(&token)?;
        // SAFETY: the request is one that was started and not told to be over.
        let ended = class(unsafe { (self.shim.test)(token, &mut over, &mut told) });
        if over == 0 {
            return None;
        }
        let started = self.started.remove(&token)?;
        if let Err(class) = ended
            && self.one_sided.iter().any(|(.., one_sided)| *one_sided == token)
        {
            say_why(class);
        }
        // Its number may be another request's from now on.
        self.one_sided.retain(|(.., one_sided)| *one_sided != token);
        let status = if started.receives { status_of(told) } else { started.status };
        // MPICH 5.0.2 ends some receives of longer messages, from anybody, without an error.
        let longer = started.receives && status.bytes > started.room;
        let ended = if longer { ended.and(Err(Class::TRUNCATE)) } else { ended };
        let stored = self.arrive(token, started, ended, status.bytes as usize);
        Some(ended.and(stored).map(|()| status))
    }

    fn forget(&mut self, token: Token) {
        self.landed.remove(&token);
        if self.one_sided.iter().any(|(.., one_sided)| *one_sided == token) {
            return;
        }
        let goes_on = |started: &Started| started.to.is_none() && !started.from_copy.is_empty();
        if self.started.get(&token).is_some_and(goes_on) {
            return self.forgotten.push_back(token);
        }
        if let Some(started) = self.started.remove(&token) {
            // SAFETY: as above.
            unsafe { (self.shim.forget)(token, started.receives.into()) };
            // The library may go on reading and writing them; pieces of the pool are nobody's any more.
            std::mem::forget((started.from_copy, started.to_copy));
        }
    }

    fn send_plain(&mut self, bytes: &[u8], to: u32) -> Result<(), Class> {
        let (count, to) = (count(bytes.len(), Type(layout::GMPI_BYTE))?, self.rank(to)?);
        // SAFETY: the buffer is as long as the count says, and the call returns when it is free.
        class(unsafe { (self.shim.send)(bytes.as_ptr().cast(), count, to) })
    }

    fn receive_plain(&mut self, bytes: &mut [u8], from: u32) -> Result<(), Class> {
        let (count, from) = (count(bytes.len(), Type(layout::GMPI_BYTE))?, self.rank(from)?);
        // SAFETY: as above; nothing is written behind the count.
        class(unsafe { (self.shim.receive)(bytes.as_mut_ptr().cast(), count, from) })
    }

    fn probe(&mut self, comm: Comm, from: Option<u32>, tag: Option<i32>) -> Result<Option<Status>, Class> {
        self.place_of(comm)?;
        let from = from.map_or(layout::GMPI_ANY_SOURCE, |rank| rank as i32);
        let tag = tag.unwrap_or(layout::GMPI_ANY_TAG);
        let (mut found, mut told) = (0, Told::default());
        // SAFETY: the communicator is one.
        class(unsafe { (self.shim.probe)(comm as i32, from, tag, &mut found, &mut told) })?;
        Ok((found != 0).then(|| status_of(told)))
    }

    fn progress(&mut self) -> bool {
        // The library works when it is asked.
        false
    }

    fn split(&mut self, of: Comm, color: Option<u32>, key: i32) -> Result<Option<Comm>, GmpiError> {
        let what = "a split of a communicator";
        self.place_of(of).map_err(|class| self.failed(what, class))?;
        self.meet(what, of)?;
        let colors = color.map(|color| i32::try_from(color).map_err(|_| self.failed(what, Class::ARG)));
        let color = colors.transpose()?;
        let mut made = -1;
        let has = color.is_some().into();
        // SAFETY: the communicator is one.
        let ended = unsafe { (self.shim.split)(of as i32, has, color.unwrap_or(0), key, &mut made) };
        class(ended).map_err(|class| self.failed(what, class))?;
        let Ok(made) = usize::try_from(made) else { return Ok(None) };
        self.note_comm(made).map_err(|class| self.failed(what, class))?;
        Ok(Some(made))
    }

    fn free(&mut self, comm: Comm) {
        if let Some(place @ Some(_)) = self.comms.get_mut(comm).filter(|_| comm > 1) {
            *place = None;
            // SAFETY: the communicator is one.
            unsafe { (self.shim.free)(comm as i32) };
        }
    }

    fn make_window(&mut self, comm: Comm, span: Span) -> Result<Win, GmpiError> {
        let what = "making a window";
        let place = self.place_of(comm).map_err(|class| self.failed(what, class))?;
        if span.memory.device_buffer().is_some() && !self.takes_gpu {
            return Err(GmpiError::Mpi(
                "this MPI library does not take GPU memory, so it has no windows there: use our own messages, or a library \
                 with CUDA support"
                    .to_owned(),
            ));
        }
        // Its own communicator: the other one may be freed before it, and their calls do not meet.
        let made = self.split(comm, Some(0), 0)?;
        let comm = made.ok_or_else(|| self.failed(what, Class::COMM))?;
        let mut parts = vec![0; place.size as usize];
        let mut win = 0;
        // SAFETY: the memory is attached, so it lives as long as the daemon; there are as many parts as members.
        let ended = unsafe {
            class((self.shim.gather)(comm as i32, span.len as u64, parts.as_mut_ptr())).and_then(|()| {
                class((self.shim.window)(comm as i32, span.address() as *mut _, span.len as u64, &mut win))
            })
        };
        ended.map_err(|class| match class {
            Class::WIN => GmpiError::Mpi(NO_WINDOW.to_owned()),
            class => self.failed(what, class),
        })?;
        let win = win as usize;
        self.windows.resize_with(self.windows.len().max(win + 1), || None);
        self.windows[win] = Some(Window { comm, parts });
        Ok(win)
    }

    fn free_window(&mut self, win: Win) {
        // MPI_Win_free is collective; the library's window goes at the end.
        if let Some(window) = self.windows.get_mut(win).and_then(Option::take) {
            self.free(window.comm);
        }
    }

    fn finish(&mut self) -> Result<(), GmpiError> {
        self.meet("the end of GMPI", 0)?;
        self.let_go();
        // SAFETY: nothing is called behind it: nothing is known any more.
        class(unsafe { (self.shim.close)() }).map_err(|class| self.failed("MPI_Finalize", class))
    }
}

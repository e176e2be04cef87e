//! An MPI library carries calls: Open MPI, MPICH and what is like them. It is opened at run time, by a shim that the library's
//! own mpicc compiles when it is first used, since MPI libraries share no binary interface. The daemon's thread makes all calls.

mod compile;
mod meet;
mod shim;

use std::collections::{HashMap, VecDeque};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

use ggas::kernels::KernelMem;
use ggas_clock::Clock;

use self::shim::{Call, Shim, Told};
use super::{Carrier, Comm, Operation, Place, Token, Type, Win};
use crate::memory::{Landed, Span};
use crate::{Class, GmpiError, Status, layout};

/// When data goes through host memory on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Staging {
    /// Memory of a GPU, where the library does not take it.
    #[default]
    Needed,
    /// All, for tests.
    Always,
}

/// An operation, and copies that the library uses in place of kernels' memory.
struct Started {
    receives: bool,
    /// Bytes that it has room for.
    room: u64,
    /// Where what arrives goes in the end.
    to: Option<Span>,
    from_copy: Vec<u8>,
    to_copy: Vec<u8>,
    /// What arrives is kept, not stored.
    keeps: bool,
    status: Status,
}

/// A window: its part is host memory where the library does not reach the kernels'.
struct Window {
    comm: Comm,
    parts: Vec<u64>,
}

/// Calls by an MPI library.
pub struct Mpi {
    shim: Shim,
    staging: Staging,
    takes_gpu: bool,
    /// Of attached memory, by its number: whether it is a GPU's that the library may not have, as one that opens IPC handles fails, or
    /// worse, where there is none.
    unshareable: Vec<bool>,
    comms: Vec<Option<Place>>,
    windows: Vec<Option<Window>>,
    started: HashMap<Token, Started>,
    /// Sends that nobody will ask for, and from copies that live as long as they are under way.
    forgotten: VecDeque<Token>,
    landed: HashMap<Token, Landed>,
    /// Puts and gets that no flush has waited for.
    one_sided: Vec<(Win, u32, Token)>,
    flushed: HashMap<Token, Result<(), Class>>,
    next_flush: Token,
    /// Meetings of communicators that not all members came to in time.
    meetings: HashMap<Comm, Token>,
    timeout: Duration,
    clock: Clock,
}

/// Most requests of the library.
const MOST: usize = 16_384;

/// Flushes are no requests of the library.
const FLUSH: Token = 1 << 63;

fn class(code: i32) -> Result<(), Class> {
    match u32::try_from(code) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Class(code)),
        Err(_) => Err(Class::OTHER),
    }
}

fn status_of(told: Told) -> Status {
    Status { source: told.source, tag: told.tag, bytes: told.bytes.max(0) as u64, error: None }
}

/// Elements of a span.
fn count(bytes: usize, of: Type) -> Result<i32, Class> {
    i32::try_from(bytes / of.size().max(1)).map_err(|_| Class::COUNT)
}

/// Variables that launchers of MPI libraries set.
const LAUNCHERS: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_FD", "PMIX_RANK"];

impl Mpi {
    /// Whether a launcher of MPI programs started this process, and not `ggas run`.
    pub fn is_launched() -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        !is_set("GGAS_RANK") && LAUNCHERS.into_iter().any(is_set)
    }

    /// Begins, in the thread that makes all calls: initializes MPI if the program has not.
    ///
    /// # Errors
    /// [`GmpiError::Mpi`] says what is missing: a library, `MPI_THREAD_MULTIPLE` where the program has initialized MPI itself.
    pub fn open(staging: Staging) -> Result<Mpi, GmpiError> {
        let shim = Shim::load(&compile::shim()?)?;
        let mut code = 0;
        // SAFETY: the text is written within its room.
        let why = Shim::text(|text, room| code = unsafe { (shim.open)(text, room) });
        if let Err(class) = class(code) {
            return Err(GmpiError::Mpi(if why.is_empty() {
                format!("MPI cannot be used: {class}")
            } else {
                why
            }));
        }
        // SAFETY: takes nothing.
        let takes_gpu = unsafe { (shim.takes_gpu)() } != 0;
        let mut mpi = Mpi {
            shim,
            staging,
            takes_gpu,
            unshareable: Vec::new(),
            comms: Vec::new(),
            windows: Vec::new(),
            started: HashMap::new(),
            forgotten: VecDeque::new(),
            landed: HashMap::new(),
            one_sided: Vec::new(),
            flushed: HashMap::new(),
            next_flush: FLUSH,
            meetings: HashMap::new(),
            timeout: Duration::from_secs(30),
            clock: Clock::real(),
        };
        mpi.note_comm(0)
            .and_then(|()| mpi.note_comm(1))
            .map_err(|class| mpi.failed("MPI_Comm_dup", class))?;
        Ok(mpi)
    }

    fn failed(&self, what: &'static str, class: Class) -> GmpiError {
        GmpiError::Failed { what, class }
    }

    /// Whether the library may not have the address of this memory. Reductions that do not wait are added up by the host's instructions,
    /// also in libraries that take GPU memory elsewhere: Open MPI 4.1.4 ended by SIGSEGV.
    fn stages(&self, span: &Span, operation: &Operation) -> bool {
        let gpu = span.memory.device_buffer().is_some();
        let adds = matches!(operation, Operation::Reduce { .. } | Operation::Allreduce { .. });
        let shut = adds || self.unshareable.get(span.index).is_some_and(|shut| *shut);
        self.staging == Staging::Always || (gpu && (shut || !self.takes_gpu))
    }

    fn place_of(&self, comm: Comm) -> Result<Place, Class> {
        self.comms.get(comm).copied().flatten().ok_or(Class::COMM)
    }

    /// A member of the world.
    fn rank(&self, rank: u32) -> Result<i32, Class> {
        let size = self.place_of(0)?.size;
        if rank < size { Ok(rank as i32) } else { Err(Class::RANK) }
    }

    /// The call of an operation, without its buffers; what is sent, and what is received into.
    fn call<'a>(
        &self,
        operation: &'a Operation,
    ) -> Result<(Call, Option<&'a Span>, Option<&'a Span>), Class> {
        let mut call = Call {
            from: null(),
            to: null_mut(),
            displacement: 0,
            kind: 0,
            comm: 0,
            count: 0,
            of: layout::GMPI_BYTE as i32,
            rank: 0,
            tag: 0,
            op: 0,
            reserved: 0,
        };
        let typed = |call: &mut Call, kind, comm: Comm, bytes, of: Type| -> Result<(), Class> {
            self.place_of(comm)?;
            (call.kind, call.comm, call.count, call.of) = (kind, comm as i32, count(bytes, of)?, of.0 as i32);
            Ok(())
        };
        let rank = |rank: &u32| *rank as i32;
        Ok(match operation {
            Operation::Send { at, of, to, tag, comm } => {
                typed(&mut call, shim::SEND, *comm, at.len, *of)?;
                (call.rank, call.tag) = (rank(to), *tag);
                (call, Some(at), None)
            }
            Operation::Recv { at, of, from, tag, comm } => {
                typed(&mut call, shim::RECV, *comm, at.len, *of)?;
                call.rank = from.as_ref().map_or(layout::GMPI_ANY_SOURCE, rank);
                call.tag = tag.unwrap_or(layout::GMPI_ANY_TAG);
                (call, None, Some(at))
            }
            Operation::Barrier { comm } => {
                typed(&mut call, shim::BARRIER, *comm, 0, Type(layout::GMPI_BYTE))?;
                (call, None, None)
            }
            Operation::Bcast { at, of, root, comm } => {
                typed(&mut call, shim::BCAST, *comm, at.len, *of)?;
                call.rank = rank(root);
                (call, None, Some(at))
            }
            Operation::Reduce { from, to, of, op, root, comm } => {
                typed(&mut call, shim::REDUCE, *comm, from.len, *of)?;
                (call.rank, call.op) = (rank(root), *op as i32);
                let receives = self.place_of(*comm)?.rank == *root;
                (call, Some(from), receives.then_some(to))
            }
            Operation::Allreduce { from, to, of, op, comm } => {
                typed(&mut call, shim::ALLREDUCE, *comm, from.len, *of)?;
                call.op = *op as i32;
                (call, Some(from), Some(to))
            }
            Operation::Allgather { from, to, of, comm } => {
                typed(&mut call, shim::ALLGATHER, *comm, from.len, *of)?;
                (call, Some(from), Some(to))
            }
            Operation::Alltoall { from, to, of, comm } => {
                let size = self.place_of(*comm)?.size as usize;
                typed(&mut call, shim::ALLTOALL, *comm, from.len / size, *of)?;
                (call, Some(from), Some(to))
            }
            Operation::Put { at, rank, displacement, win }
            | Operation::Get { at, rank, displacement, win } => {
                let puts = matches!(operation, Operation::Put { .. });
                self.windows.get(*win).and_then(Option::as_ref).ok_or(Class::WIN)?;
                (call.kind, call.comm) = (if puts { shim::PUT } else { shim::GET }, *win as i32);
                call.count = count(at.len, Type(layout::GMPI_BYTE))?;
                (call.rank, call.displacement) = (*rank as i32, *displacement);
                if puts { (call, Some(at), None) } else { (call, None, Some(at)) }
            }
            Operation::Flush { .. } => return Err(Class::CALL),
        })
    }

    /// Begins; with `short`, a message that keeps clear of its span's memory.
    fn begin(&mut self, operation: &Operation, short: Option<&[u8]>) -> Result<Token, Class> {
        self.reap();
        let (mut call, from, to) = self.call(operation)?;
        let read = |span: &Span| span.read().map_err(|_| Class::INTERN);
        let status = Status { source: call.rank, tag: call.tag, ..Status::EMPTY };
        let receives = call.kind == shim::RECV;
        let keeps = short.is_some() && to.is_some_and(|to| to.len <= layout::GMPI_ANSWER_MESSAGE as usize);
        let (from_copy, to_copy) = (Vec::new(), Vec::new());
        let mut started = Started {
            receives,
            room: to.map_or(0, |to| to.len as u64),
            to: None,
            from_copy,
            to_copy,
            keeps,
            status,
        };
        // What is sent from where it arrives is sent in place; what lies across that is copied, as MPI forbids it.
        let place = |from: &Span, to: &Span| to.address() + self.offset_in_place(operation, from);
        let in_place = from.zip(to).is_some_and(|(from, to)| from.address() == place(from, to));
        let across = from.zip(to).is_some_and(|(from, to)| {
            from.address() < to.address() + to.len as u64 && to.address() < from.address() + from.len as u64
        });
        if let Some(to) = to {
            call.to = to.address() as *mut _;
            if keeps || self.stages(to, operation) {
                started.to_copy = if keeps { vec![0; to.len] } else { read(to)? };
                call.to = started.to_copy.as_mut_ptr().cast();
                started.to = Some(to.clone());
            }
        }
        if let Some(from) = from.filter(|_| !in_place || keeps) {
            call.from = from.address() as *const _;
            let short = short.filter(|bytes| bytes.len() == from.len);
            if short.is_some() || across || self.stages(from, operation) {
                started.from_copy = short.map_or_else(|| read(from), |bytes| Ok(bytes.to_vec()))?;
                call.from = started.from_copy.as_ptr().cast();
            }
        }
        let mut token = 0;
        // SAFETY: communicator and window are ones; the buffers are as long as the counts say, and live until the operation is
        // over: attached memory as long as the daemon, copies as long as the entry below.
        class(unsafe { (self.shim.start)(&call, &mut token) })?;
        self.started.insert(token, started);
        if let Operation::Put { rank, win, .. } | Operation::Get { rank, win, .. } = operation {
            self.one_sided.push((*win, *rank, token));
        }
        Ok(token)
    }

    /// Where the own part is in what arrives.
    fn offset_in_place(&self, operation: &Operation, from: &Span) -> u64 {
        match operation {
            Operation::Allgather { comm, .. } => {
                self.place(*comm).map_or(0, |place| u64::from(place.rank) * from.len as u64)
            }
            _ => 0,
        }
    }

    /// Looks at one of the sends that were forgotten: as many are looked at as can be added.
    fn reap(&mut self) {
        if let Some(token) = self.forgotten.pop_front()
            && self.test(token).is_none()
        {
            self.forgotten.push_back(token);
        }
    }
}

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
        let Started { receives, room, to, to_copy, keeps, status, .. } = self.started.remove(&token)?;
        let status = if receives { status_of(told) } else { status };
        // MPICH 5.0.2 ends some receives of longer messages, from anybody, without an error.
        let ended = if receives && status.bytes > room { ended.and(Err(Class::TRUNCATE)) } else { ended };
        let written = match to {
            Some(at) if keeps => {
                let mut bytes = to_copy;
                match ended {
                    Ok(()) if receives => bytes.truncate(status.bytes as usize),
                    Ok(()) => {}
                    Err(Class::TRUNCATE) => {}
                    Err(_) => bytes.clear(),
                }
                if !bytes.is_empty() {
                    self.landed.insert(token, Landed { at, bytes });
                }
                Ok(())
            }
            Some(to) => to.write(0, &to_copy).map_err(|_| Class::INTERN),
            None => Ok(()),
        };
        Some(ended.and(written).map(|()| status))
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
            // The library may go on reading and writing them.
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
        self.meet(what, comm)?;
        let mut parts = vec![0; place.size as usize];
        let mut win = 0;
        // SAFETY: the memory is attached, so it lives as long as the daemon; there are as many parts as members.
        let ended = unsafe {
            class((self.shim.gather)(comm as i32, span.len as u64, parts.as_mut_ptr())).and_then(|()| {
                class((self.shim.window)(comm as i32, span.address() as *mut _, span.len as u64, &mut win))
            })
        };
        ended.map_err(|class| self.failed(what, class))?;
        let win = win as usize;
        self.windows.resize_with(self.windows.len().max(win + 1), || None);
        self.windows[win] = Some(Window { comm, parts });
        Ok(win)
    }

    fn free_window(&mut self, win: Win) {
        // MPI_Win_free is collective; the library's window goes at the end.
        if let Some(window) = self.windows.get_mut(win) {
            *window = None;
        }
    }

    fn finish(&mut self) -> Result<(), GmpiError> {
        self.meet("the end of GMPI", 0)?;
        // SAFETY: nothing is called behind it: the daemon ends.
        class(unsafe { (self.shim.close)() }).map_err(|class| self.failed("MPI_Finalize", class))
    }
}

//! Networks of this host: created by their first member, removed by the last.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ggas_clock::Clock;

use nix::errno::Errno;

use crate::directory::{Base, Directory, Locked, TABLE, WHOLE};
use crate::memory::{File, FileError};
use crate::node_memory::NodeMemory;
use crate::place::{self, Place};
use crate::process::Life;
use crate::socket::{is_open, open_socket, socket_name};
use crate::table::{MemberId, PeerState, Table, TableError};
use crate::{JobError, NetworkShape};

/// How long a member that leaves waits for the lock. Whoever holds it sees that it has left, and clears the network in
/// its place, unless it is stopped.
const LEAVING: Duration = Duration::from_secs(5);

/// A network, as a process that holds its directory and table sees it.
pub(crate) struct Network {
    pub(crate) directory: Directory,
    pub(crate) table: Table,
}

/// A network, as `ggas net list` prints it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NetworkInfo {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its shape; `None`: another version of the library made it.
    pub shape: Option<NetworkShape>,
    /// Whether it stays without members.
    pub standing: bool,
    /// Who is in it.
    pub members: Vec<MemberInfo>,
}

/// A member, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Who.
    pub id: MemberId,
    /// Its node.
    pub node: u16,
    /// Its process, in its own namespace.
    pub pid: u32,
    /// What is known of it.
    pub state: PeerState,
}

impl Network {
    /// Enters the network `name`: with the lock held, `work` sees a table in which nobody dead is taken for alive; of a
    /// job's, `rank` alone, since all of its ranks come at once.
    /// `make`: where the network is not there, or only dead members are in it, it gets this shape. `None`: it is not
    /// there. Says whether it was made.
    pub(crate) fn enter<T>(
        base: &Arc<Base>,
        name: &str,
        make: Option<&NetworkShape>,
        rank: Option<u32>,
        work: impl FnOnce(&Directory, &Table, bool) -> Result<T, JobError>,
    ) -> Result<Option<(Network, T)>, JobError> {
        let deadline = Clock::REAL.now() + place::patience();
        loop {
            let Some(directory) = Directory::open(base, name, make.is_some())? else { return Ok(None) };
            let Some(lock) = directory.lock(deadline)? else {
                if Clock::REAL.now() < deadline {
                    continue;
                }
                return Err(JobError::Busy { path: directory.path() });
            };
            let refuse = |error: TableError| refused(name, &directory, TABLE, error);
            let (table, made) = match Table::open(directory.as_fd()) {
                Ok(table) => (table, false),
                // Whoever made the directory was ended before it made the table, or is about to lock it.
                Err(TableError::File(FileError::System(Errno::ENOENT))) => {
                    let Some(shape) = make else { return Ok(None) };
                    lock.empty().map_err(|errno| refuse(FileError::System(errno).into()))?;
                    match Table::make(directory.as_fd(), shape) {
                        Ok(table) => (table, true),
                        Err(error) => {
                            let refusal = refuse(error);
                            return Err(lock.clear().err().unwrap_or(refusal));
                        }
                    }
                }
                Err(error) => return Err(refuse(error)),
            };
            // What killed members have left is nobody's network.
            if !made && is_over(&directory, &table) {
                lock.clear()?;
                continue;
            }
            bury(&directory, &table, rank);
            match work(&directory, &table, made) {
                Ok(done) => {
                    drop(lock);
                    return Ok(Some((Network { directory, table }, done)));
                }
                Err(error) => {
                    clear_if_over(lock, &table);
                    return Err(error);
                }
            }
        }
    }

    /// Leaves: what `member` has in the directory is removed, and the network cleared away if nobody is in it. The
    /// table says already that the caller is not.
    pub(crate) fn leave(&self, member: Option<MemberId>) {
        match self.directory.lock(Clock::REAL.now() + LEAVING) {
            Ok(Some(lock)) => {
                // Another may have taken the slot since.
                if let Some(id) =
                    member.filter(|id| self.table.last(id.slot).is_some_and(|(last, _)| last == *id))
                {
                    self.directory.remove(&socket_name(id.slot));
                }
                clear_if_over(lock, &self.table);
            }
            Ok(None) => {}
            // Held by someone who is stopped: the next who comes clears what is left.
            Err(error) => tracing::debug!("{error}"),
        }
    }
}

/// Whether nobody alive is in a network that does not stay by itself.
fn is_over(directory: &Directory, table: &Table) -> bool {
    !is_kept(directory, table) && !table.joined().any(|id| lives(directory, table, id))
}

fn lives(directory: &Directory, table: &Table, id: MemberId) -> bool {
    match table.life(id) {
        Life::Here => true,
        Life::Over => false,
        Life::Elsewhere => is_open(directory, &socket_name(id.slot)),
    }
}

/// Whether a network stays without members.
fn is_kept(directory: &Directory, table: &Table) -> bool {
    match table.standing() {
        None | Some(Some(Life::Over)) => false,
        Some(None | Some(Life::Here)) => true,
        Some(Some(Life::Elsewhere)) => is_open(directory, KEEPER),
    }
}

fn clear_if_over(lock: Locked<'_>, table: &Table) {
    if is_over(lock.directory(), table)
        && let Err(error) = lock.clear()
    {
        tracing::warn!("{error}");
    }
}

/// Notes which members, or which one, have ended without a word.
fn bury(directory: &Directory, table: &Table, rank: Option<u32>) {
    let asked = |id: &MemberId| rank.is_none_or(|rank| rank == id.slot);
    for id in table.joined().filter(asked).collect::<Vec<_>>() {
        if !lives(directory, table, id) {
            table.end(id, PeerState::Lost);
            directory.remove(&socket_name(id.slot));
        }
    }
}

/// What an error says of a file of the network.
fn refused(name: &str, directory: &Directory, file: &str, error: TableError) -> JobError {
    let path = directory.path();
    match error {
        TableError::Version { theirs } => JobError::Version { name: name.into(), path, theirs },
        TableError::File(FileError::Full { bytes }) => JobError::Full { path, bytes },
        TableError::File(FileError::Size) => JobError::Version { name: name.into(), path, theirs: 0 },
        TableError::File(FileError::Limit(source)) => {
            JobError::System { what: "make the table of the network's members", source }
        }
        TableError::File(FileError::System(errno @ (Errno::EMFILE | Errno::ENOMEM))) => {
            JobError::system("open the table of the network's members")(errno.into())
        }
        TableError::File(FileError::System(errno)) => JobError::Directory {
            path: path.join(file),
            why: format!("it is no file of a network that can be opened ({})", errno.desc()),
            advice: "end the network's programs and remove its directory, or choose another GGAS_NETWORK",
        },
    }
}

/// Clears away what processes have left that were killed: networks with dead members only.
pub(crate) fn sweep(base: &Arc<Base>) {
    // Who cannot look clears nothing.
    for name in base.names().unwrap_or_default() {
        let Ok(Some(directory)) = Directory::open(base, &name, false) else { continue };
        // Whoever holds the lock is about to see to it.
        let Ok(Some(lock)) = directory.lock(Clock::REAL.now()) else { continue };
        match Table::open(directory.as_fd()) {
            Ok(table) => {
                bury(&directory, &table, None);
                clear_if_over(lock, &table);
            }
            // Its maker was killed in between. What somebody else keeps there is none of our business.
            Err(TableError::File(FileError::System(Errno::ENOENT))) => drop(lock.unlink()),
            Err(_) => {}
        }
    }
}

/// Networks of this user on this host, by name. Networks whose members are all dead are removed first.
///
/// # Errors
/// [`JobError::Directory`], [`JobError::Files`], [`JobError::Memory`].
pub fn networks() -> Result<Vec<NetworkInfo>, JobError> {
    let base = Arc::new(Base::open(&place::runtime_dir())?);
    sweep(&base);
    let infos = base.names()?.into_iter().map(|name| info(&base, name));
    infos.filter_map(Result::transpose).collect()
}

/// `None`: there is no network of this name.
fn info(base: &Arc<Base>, name: String) -> Result<Option<NetworkInfo>, JobError> {
    let directory = match Directory::open(base, &name, false) {
        Ok(Some(directory)) => directory,
        Err(error @ JobError::Files { .. }) => return Err(error),
        // Somebody else keeps something there.
        Ok(None) | Err(_) => return Ok(None),
    };
    let path = directory.path();
    match Table::open(directory.as_fd()) {
        Ok(table) => {
            let members = table.joined().filter_map(|id| member_info(&table, id)).collect();
            let standing = is_kept(&directory, &table);
            Ok(Some(NetworkInfo { name, path, standing, members, shape: Some(table.shape) }))
        }
        // Being made, or cleared away, or somebody's who keeps other things there.
        Err(TableError::File(FileError::System(Errno::ENOENT))) => Ok(None),
        Err(TableError::Version { .. }) => {
            Ok(Some(NetworkInfo { name, path, shape: None, standing: true, members: Vec::new() }))
        }
        Err(error @ TableError::File(_)) => match refused(&name, &directory, TABLE, error) {
            error @ (JobError::Files { .. } | JobError::Memory { .. }) => Err(error),
            // No table that can be opened.
            _ => Ok(Some(NetworkInfo { name, path, shape: None, standing: true, members: Vec::new() })),
        },
    }
}

pub(crate) fn member_info(table: &Table, id: MemberId) -> Option<MemberInfo> {
    let pid = table.slot(id.slot)?.who.pid.load(std::sync::atomic::Ordering::Relaxed);
    Some(MemberInfo { id, node: table.node(id.slot)?, pid, state: table.state(id) })
}

/// Creates a network that stays until [`take_down`], with members or without. A network of this name and shape that
/// exists already stays from now on, too.
///
/// # Errors
/// [`JobError::OtherShape`], and the errors of joining a network.
pub fn put_up(name: &str, shape: &NetworkShape) -> Result<NetworkInfo, JobError> {
    let name = place::checked_network(name)?;
    let base = Arc::new(Base::open(&place::runtime_dir())?);
    sweep(&base);
    let work = |_: &Directory, table: &Table, _| {
        check_shape(name, table, shape)?;
        table.keep(true, false);
        Ok(())
    };
    Network::enter(&base, name, Some(shape), None, work)?;
    let found = networks()?.into_iter().find(|network| network.name == name);
    found.ok_or(JobError::NoNetwork { name: name.into(), path: base.path().into() })
}

/// That a network has the shape that is asked for.
pub(crate) fn check_shape(name: &str, table: &Table, asked: &NetworkShape) -> Result<(), JobError> {
    if table.shape == *asked {
        return Ok(());
    }
    let (has, asked) = (table.shape.to_string(), asked.to_string());
    Err(JobError::OtherShape { name: name.into(), has, asked })
}

/// Lets a network be removed with its last member, at once if it has no member. Returns its members.
///
/// # Errors
/// [`JobError::NoNetwork`]; [`JobError::Directory`] where its directory stays, for what others keep there.
pub fn take_down(name: &str) -> Result<Vec<MemberInfo>, JobError> {
    let name = place::checked_network(name)?;
    let base = Arc::new(Base::open(&place::runtime_dir())?);
    let work = |_: &Directory, table: &Table, _| {
        table.keep(false, false);
        Ok(table.joined().filter_map(|id| member_info(table, id)).collect::<Vec<_>>())
    };
    let entered = Network::enter(&base, name, None, None, work)?;
    let Some((network, members)) = entered else {
        return Err(JobError::NoNetwork { name: name.into(), path: base.path().into() });
    };
    network.leave(None);
    if members.is_empty()
        && let Ok(Some(left)) = Directory::open(&base, name, false)
        && let Err(TableError::File(FileError::System(Errno::ENOENT))) = Table::open(left.as_fd())
    {
        return Err(JobError::Directory {
            path: left.path(),
            why: "the network is gone, but something that is not the network's lies there".into(),
            advice: "remove it",
        });
    }
    Ok(members)
}

/// The transport's memory of the whole network `name` ([`Member::network_memory`]) and the network's shape, for processes
/// that are no members. `None`: there is no such network, another version of the library created it, or no member has
/// used that memory yet.
///
/// # Errors
/// [`JobError::Directory`].
///
/// [`Member::network_memory`]: crate::Member::network_memory
pub fn look_at_network(name: &str, bytes: usize) -> Result<Option<(NetworkShape, NodeMemory)>, JobError> {
    let base = Arc::new(Base::open(&place::runtime_dir())?);
    let Some(directory) = Directory::open(&base, place::checked_network(name)?, false)? else {
        return Ok(None);
    };
    let memory = File::open(directory.as_fd(), WHOLE, |size| size == bytes as u64);
    Ok(Table::open(directory.as_fd())
        .ok()
        .zip(memory.ok())
        .map(|(table, file)| (table.shape, NodeMemory(file))))
}

/// As [`memory_of_network`], for processes that write to the memory: creates it where it does not exist.
///
/// # Errors
/// [`JobError::NoNetwork`]; no memory, with what to do.
pub fn memory_of_network(name: &str, bytes: usize) -> Result<(NetworkShape, NodeMemory), JobError> {
    let name = place::checked_network(name)?;
    let base = Arc::new(Base::open(&place::runtime_dir())?);
    let work = |directory: &Directory, table: &Table, _| {
        let memory = NodeMemory::of_network(directory, bytes);
        Ok((table.shape.clone(), memory.map_err(|error| refused(name, directory, WHOLE, error.into()))?))
    };
    let entered = Network::enter(&base, name, None, None, work)?;
    let found = entered.map(|(_, found)| found);
    found.ok_or_else(|| JobError::NoNetwork { name: name.into(), path: base.path().into() })
}

/// Socket by which processes of other namespaces see that the one that keeps a network for its job lives.
const KEEPER: &str = "socket.keeper";

/// A network that a launcher keeps for a job: it goes with this value, or with this process.
pub(crate) struct Kept {
    network: Network,
    _listener: OwnedFd,
}

impl Kept {
    pub(crate) fn make(name: &str, shape: &NetworkShape) -> Result<Kept, JobError> {
        let base = Arc::new(Base::open(&place::runtime_dir())?);
        sweep(&base);
        let work = |directory: &Directory, table: &Table, _| {
            let listener = open_socket(directory, KEEPER)?;
            table.keep(true, true);
            Ok(listener)
        };
        match Network::enter(&base, name, Some(shape), None, work)? {
            Some((network, _listener)) => Ok(Kept { network, _listener }),
            None => Err(JobError::NoNetwork { name: name.into(), path: base.path().into() }),
        }
    }

    /// The process that was started for a slot has ended: nobody comes there any more.
    pub(crate) fn ended(&self, slot: u32, code: i32) {
        if let Some(slot) = self.network.table.slot(slot) {
            let code = (code as u32).wrapping_add(1).max(1);
            slot.who.ended.store(code, std::sync::atomic::Ordering::Release);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.network.table.keep(false, false);
        self.network.leave(None);
    }
}

/// Which network and node a process with this environment joins: for `ggas info`.
///
/// # Errors
/// [`JobError`] says what is wrong with the environment.
pub fn which() -> Result<(String, u16, Option<NetworkInfo>), JobError> {
    let place = Place::from(&|name| std::env::var_os(name))?;
    let found = networks()?.into_iter().find(|network| network.name == place.network);
    // A network that does not exist is created with the default shape; the shape of another version's is unknown.
    let shape = found.as_ref().map_or_else(|| Some(place.shape()), |network| network.shape.clone());
    if let Some(nodes) = shape.map(|shape| shape.nodes()).filter(|nodes| u32::from(place.node) >= *nodes) {
        return Err(JobError::NoSuchNode { network: place.network, node: place.node, nodes });
    }
    Ok((place.network, place.node, found))
}

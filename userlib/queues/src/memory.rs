//! Memory that members share.

use std::sync::Arc;

use extoll_abi::layout::{GGAS_WAY_DEVICE, GGAS_WAY_STORES, ggas_memory};
use ggas_device::Span;
use ggas_kernels::KernelMem;
use ggas_rma::{KernelPort, Region};
use ggas_window::Window;
use serde::{Deserialize, Serialize};

use crate::endpoint::filled;
use crate::exchange::Peers;
use crate::queues::{Members, place};
use crate::{QueuesError, Way};

/// Memory of which each member has a part: a window, mapped or not, or memory of kernels that only the network device
/// reaches from elsewhere.
#[derive(Clone, Debug)]
pub struct Memory {
    held: Held,
    way: Option<Way>,
}

/// Kept as long as it is shared.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    Window(Arc<Window>),
    /// Of the members of this process, in order.
    Own(Vec<Arc<KernelMem>>),
}

impl From<Arc<Window>> for Memory {
    /// The parts of a window with the same members, in the same order.
    fn from(window: Arc<Window>) -> Memory {
        Memory { held: Held::Window(window), way: None }
    }
}

impl From<Arc<KernelMem>> for Memory {
    /// Memory of the only member of this process.
    fn from(own: Arc<KernelMem>) -> Memory {
        Memory::from(vec![own])
    }
}

impl From<Vec<Arc<KernelMem>>> for Memory {
    /// Memory of each member of this process, in their order. The sizes may differ.
    fn from(own: Vec<Arc<KernelMem>>) -> Memory {
        Memory { held: Held::Own(own), way: None }
    }
}

impl Memory {
    /// It is reached this way, whatever [`QueuesConfig::way`](crate::QueuesConfig::way) says.
    pub fn by(self, way: Way) -> Memory {
        Memory { way: Some(way), ..self }
    }
}

impl Held {
    /// Members of this process that it has parts of; none where its members are not those of the queues.
    fn parts(&self, members: &Members) -> usize {
        match self {
            Held::Window(window) if window.len() == members.len && window.local() == members.local() => {
                members.endpoints.len()
            }
            Held::Window(_) => 0,
            Held::Own(own) => own.len(),
        }
    }

    /// Address, for kernels of member `from`, of the part of `to`; why there is none.
    fn address(&self, members: &Members, from: usize, to: usize) -> Result<u64, String> {
        match self {
            // They would be on their way yet when a flag that does not pass there has come.
            Held::Window(window) if from != to && window.info().passes_the_cards() => {
                Err("stores to it pass the card's SMFU, and flags do not".to_owned())
            }
            Held::Window(window) => {
                let pointer = window.member(from).and_then(|member| member.pointer_of(to));
                pointer.map_err(|error| error.to_string())
            }
            Held::Own(own) if from == to => Ok(own[from - members.first].address()),
            Held::Own(_) => Err("it is memory of one member, which others do not map".to_owned()),
        }
    }

    fn bytes(&self, members: &Members, member: usize) -> usize {
        match self {
            Held::Window(window) => window.bytes(),
            Held::Own(own) => own[member - members.first].len(),
        }
    }

    /// Lets a port's peers at the part of a member of this process.
    fn register(&self, members: &Members, member: usize, port: &KernelPort) -> Result<Region, QueuesError> {
        match self {
            Held::Window(window) => {
                let span: Span = window.member(member)?.span();
                // SAFETY: the window owns the memory, and the region keeps the window.
                Ok(unsafe { port.register_kept(span, window.clone()) }?)
            }
            Held::Own(own) => Ok(port.register_kernel_memory(own[member - members.first].clone())?),
        }
    }
}

/// What a member says of its part.
#[derive(Serialize, Deserialize)]
struct Said {
    bytes: u64,
    /// NLA of its first byte, by port.
    nlas: Vec<u64>,
}

/// Memory that members [share](crate::Queues::share), for their kernels. It is registered until this is dropped: keep it while
/// kernels of any member run.
#[derive(Debug)]
pub struct Shared {
    first: usize,
    len: usize,
    views: Vec<View>,
    // Registered with ports that outlive it by themselves.
    _regions: Vec<Region>,
    held: Held,
}

/// As kernels of one member see it.
#[derive(Debug)]
struct View {
    /// `struct ggas_memory` by member.
    parts: KernelMem,
    _nlas: KernelMem,
    ways: Vec<Way>,
}

impl Shared {
    /// `reached`: whether kernels of one member reach flags of another by stores; flags and data go the same way.
    pub(crate) fn new(
        members: &Members,
        peers: Peers<'_>,
        memory: Memory,
        reached: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Shared, QueuesError> {
        let Memory { held, way } = memory;
        let way = way.unwrap_or(members.config.way);
        let own = register(members, &held, way);
        let (regions, said) = match own {
            Ok((regions, said)) => (regions, Ok(said)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let all = peers.gather(said)?;
        let view = |member| View::new(members, &held, way, member, &all, reached);
        let views: Result<Vec<View>, QueuesError> = members.local().map(view).collect();
        // Either all have found a way, or all fail.
        let told = match &views {
            Ok(views) => Ok(vec![(); views.len()]),
            Err(error) => Err(QueuesError::Exchange(error.to_string())),
        };
        let agreed = peers.gather(told);
        let views = views?;
        agreed?;
        Ok(Shared { first: members.first, len: members.len, views, _regions: regions, held })
    }

    /// Makes the first `bytes` of the parts of this process 0.
    pub(crate) fn clear(&self, bytes: usize) -> Result<(), QueuesError> {
        let zeros = vec![0; bytes];
        for (place, _) in self.views.iter().enumerate() {
            match &self.held {
                Held::Window(window) => window.write(self.first + place, 0, &zeros)?,
                Held::Own(own) => own[place].write(0, &zeros)?,
            }
        }
        Ok(())
    }

    fn view(&self, member: usize) -> Result<&View, QueuesError> {
        let own = self.first..self.first + self.views.len();
        Ok(&self.views[place(member, own, self.len)?])
    }

    /// Address of the array of `struct ggas_memory`, by member, for arguments of kernels of a member of this process.
    ///
    /// # Errors
    /// [`QueuesError::NoSuchMember`], [`QueuesError::Elsewhere`].
    pub fn address(&self, member: usize) -> Result<u64, QueuesError> {
        Ok(self.view(member)?.parts.address())
    }

    /// How kernels of member `from`, which is of this process, reach the part of `to`: [`Way::Stores`] or [`Way::Device`].
    ///
    /// # Errors
    /// [`QueuesError::NoSuchMember`], [`QueuesError::Elsewhere`].
    pub fn way(&self, from: usize, to: usize) -> Result<Way, QueuesError> {
        let ways = &self.view(from)?.ways;
        ways.get(to).copied().ok_or(QueuesError::NoSuchMember { member: to, last: self.len - 1 })
    }
}

/// Registers the parts of this process with all ports.
fn register(members: &Members, held: &Held, way: Way) -> Result<(Vec<Region>, Vec<Said>), QueuesError> {
    let (got, members_here) = (held.parts(members), members.endpoints.len());
    if got != members_here {
        return Err(QueuesError::Parts { got, members: members_here });
    }
    let (mut regions, mut said) = (Vec::new(), Vec::new());
    for (member, endpoint) in members.local().zip(&members.endpoints) {
        let mut nlas = Vec::new();
        for port in endpoint.ports.iter().filter(|_| way != Way::Stores) {
            let region = held.register(members, member, port)?;
            nlas.push(region.nla(0)?);
            regions.push(region);
        }
        said.push(Said { bytes: held.bytes(members, member) as u64, nlas });
    }
    Ok((regions, said))
}

impl View {
    fn new(
        members: &Members,
        held: &Held,
        way: Way,
        member: usize,
        all: &[Said],
        reached: &dyn Fn(usize, usize) -> bool,
    ) -> Result<View, QueuesError> {
        let endpoint = &members.endpoints[member - members.first];
        let ports = endpoint.ports.len();
        // Of each member by our ports: commands of port i go to the peer's port of that number, or one that it shares.
        let nla = |theirs: &Said, port: usize| theirs.nlas.get(port % theirs.nlas.len().max(1)).copied();
        let rows: Vec<u64> =
            all.iter().flat_map(|said| (0..ports).map(|port| nla(said, port).unwrap_or(0))).collect();
        let nlas = filled(&endpoint.processor, &rows)?;
        let (mut parts, mut ways) = (Vec::new(), Vec::new());
        for (to, said) in all.iter().enumerate() {
            let device = ports > 0 && !said.nlas.is_empty();
            let near = held.address(members, member, to);
            let chosen = choose(way, near.as_ref().map(|_| ()), reached(member, to), device)
                .map_err(|reason| QueuesError::Unreachable { from: member, to, way, reason })?;
            parts.push(ggas_memory {
                address: near.unwrap_or(0),
                bytes: endpoint.length(said.bytes, to != member),
                nlas: if device { nlas.address() + (to * ports * 8) as u64 } else { 0 },
                member: to as u32,
                way: if chosen == Way::Stores { GGAS_WAY_STORES } else { GGAS_WAY_DEVICE },
            });
            ways.push(chosen);
        }
        Ok(View { parts: filled(&endpoint.processor, &parts)?, _nlas: nlas, ways })
    }
}

/// The way that is asked for, if it is there; else why not.
fn choose(wanted: Way, near: Result<(), &String>, flags: bool, device: bool) -> Result<Way, String> {
    let stores = match near {
        Err(reason) => Err(reason.clone()),
        Ok(()) if !flags => Err("its flags are not mapped, and go the same way".to_owned()),
        Ok(()) => Ok(Way::Stores),
    };
    match (wanted, device) {
        (Way::Stores, _) | (Way::Auto, false) => stores,
        (Way::Auto, true) => Ok(stores.unwrap_or(Way::Device)),
        (Way::Device, true) => Ok(Way::Device),
        (Way::Device, false) => Err("a member has no ports".to_owned()),
    }
}

//! The wire to adapters of other processes: datagrams through sockets that have no name, and which process an address is in.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixDatagram;

use crate::wire::{Flow, Packet, decode};

/// Bits of an address that number an adapter of its process, from 1; those before them number the process.
const ADAPTER_BITS: u32 = 14;
/// Adapters that a process has addresses for.
pub(crate) const ADAPTERS: usize = (1 << ADAPTER_BITS) - 1;
/// Processes that there are addresses for.
const PROCESSES: usize = 1 << (24 - ADAPTER_BITS);

/// Datagrams that are looked at before adapters get a turn.
const BATCH: usize = 64;
/// Datagrams to a process that wait while its socket is full; those beyond are lost, and the transport repeats them.
const BACKLOG: usize = 256;
/// Room for the longest datagram, and more: what is longer still is cut, and thrown away then.
const ROOM: usize = 8192;

/// Where an adapter is: its process, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub process: u32,
    pub number: usize,
}

impl Seat {
    /// Its address, in 10.0.0.0/8.
    pub fn address(self) -> IpAddr {
        let low = self.process << ADAPTER_BITS | (self.number as u32 + 1);
        IpAddr::V4(Ipv4Addr::from(10 << 24 | (low & 0xff_ffff)))
    }

    /// Whose address it is; `None`: no adapter's.
    pub fn of(address: IpAddr) -> Option<Seat> {
        let IpAddr::V4(address) = address else { return None };
        let bits = u32::from(address);
        let number = (bits & ADAPTERS as u32).checked_sub(1)? as usize;
        (bits >> 24 == 10).then_some(Seat { process: (bits & 0xff_ffff) >> ADAPTER_BITS, number })
    }
}

/// Ways to adapters of other processes of the host.
///
/// Datagrams of all other processes come to one socket, whose other end the process gives to those whom it wants to hear (as a
/// file descriptor): **who was given it can send, nobody else**, as the sockets have no name that could be opened. Who can send is
/// believed as much as whoever sends packets to an adapter: keys, sequence numbers and states decide what a packet may do. Its sender's
/// address is not proved.
pub struct Links {
    process: u32,
    inbox: UnixDatagram,
    peers: Vec<Option<Link>>,
    bytes: Vec<u8>,
}

struct Link {
    socket: UnixDatagram,
    waiting: VecDeque<Vec<u8>>,
}

impl Links {
    /// A socket to hear other processes by, and the end that they get.
    ///
    /// # Errors
    /// The system's, where it gives no socket.
    pub fn sockets() -> io::Result<(UnixDatagram, UnixDatagram)> {
        UnixDatagram::pair()
    }

    /// Links of process number `process`, which hears by `inbox`, to others: `peers` has by number what each gave; its own place,
    /// and those of processes that it does not talk to, are `None`.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for numbers of 1,024 or more, which no address has; the system's, where a socket
    /// cannot be made not to wait.
    pub fn new(process: u32, inbox: UnixDatagram, peers: Vec<Option<UnixDatagram>>) -> io::Result<Links> {
        if process as usize >= PROCESSES || peers.len() > PROCESSES {
            let why = format!("adapters have addresses in {PROCESSES} processes: start fewer");
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        inbox.set_nonblocking(true)?;
        let link = |socket: Option<UnixDatagram>| {
            let Some(socket) = socket else { return Ok(None) };
            socket.set_nonblocking(true)?;
            Ok(Some(Link { socket, waiting: VecDeque::new() }))
        };
        let peers = peers.into_iter().map(link).collect::<io::Result<_>>()?;
        Ok(Links { process, inbox, peers, bytes: vec![0; ROOM] })
    }

    /// Number of this process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Sends a datagram to a process. May lose it, as wires do.
    pub(crate) fn send(&mut self, process: u32, datagram: &[u8]) {
        if let Some(Some(link)) = self.peers.get_mut(process as usize) {
            link.send(datagram);
        }
    }

    /// Sends what waited, and takes what has come for this process's adapters into `arrived`: a batch at most, without waiting.
    /// Whether anything moved.
    pub(crate) fn exchange(&mut self, arrived: &mut Vec<(Seat, Flow, Packet)>) -> bool {
        let mut moved = false;
        for link in self.peers.iter_mut().flatten() {
            moved |= link.flush();
        }
        for _ in 0..BATCH {
            // `WouldBlock`: nothing is there. Of others' ends a datagram socket hears nothing.
            let Ok(len) = self.inbox.recv(&mut self.bytes) else { break };
            moved = true;
            arrived.extend(self.bytes.get(..len).and_then(|bytes| self.accept(bytes)));
        }
        moved
    }

    /// The packet of a datagram, if it is one for an adapter of this process by one of another.
    fn accept(&self, datagram: &[u8]) -> Option<(Seat, Flow, Packet)> {
        let (flow, packet) = decode(datagram).ok()?;
        let to = Seat::of(flow.destination).filter(|seat| seat.process == self.process)?;
        Seat::of(flow.source).filter(|seat| seat.process != self.process)?;
        Some((to, flow, packet))
    }
}

impl Link {
    fn send(&mut self, datagram: &[u8]) {
        // None overtakes another.
        let full = !self.waiting.is_empty() || self.is_full_for(datagram);
        if full && self.waiting.len() < BACKLOG {
            self.waiting.push_back(datagram.to_vec());
        }
    }

    /// Tries to send. Whether there was no room: every other error means that the process is gone, so it is lost.
    fn is_full_for(&self, datagram: &[u8]) -> bool {
        self.socket.send(datagram).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    fn flush(&mut self) -> bool {
        let mut moved = false;
        while let Some(datagram) = self.waiting.front()
            && !self.is_full_for(datagram)
        {
            self.waiting.pop_front();
            moved = true;
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Opcode, encode};

    #[test]
    fn addresses_tell_process_and_adapter() {
        for seat in [(0, 0), (0, ADAPTERS - 1), (1, 0), (5, 77), (1023, ADAPTERS - 1)] {
            let seat = Seat { process: seat.0, number: seat.1 };
            assert_eq!(Seat::of(seat.address()), Some(seat));
        }
        assert_eq!(Seat { process: 0, number: 0 }.address().to_string(), "10.0.0.1");
        assert_eq!(Seat { process: 4, number: 1 }.address().to_string(), "10.1.0.2");
        for nobody in ["10.0.0.0", "10.1.0.0", "11.0.0.1", "::ffff:10.0.0.1"] {
            assert_eq!(Seat::of(nobody.parse().unwrap()), None, "{nobody}");
        }
    }

    #[test]
    fn what_a_full_socket_does_not_take_waits_in_order_up_to_a_bound() {
        let (inbox, theirs) = Links::sockets().unwrap();
        let mut sender = Links::new(0, UnixDatagram::unbound().unwrap(), vec![None, Some(theirs)]).unwrap();
        inbox.set_nonblocking(true).unwrap();
        let mut sent = 0u32;
        while sender.peers[1].as_ref().unwrap().waiting.len() < BACKLOG {
            sender.send(1, &sent.to_le_bytes());
            sent += 1;
        }
        sender.send(1, b"lost");
        sender.send(2, b"nobody");
        let mut bytes = [0; 8];
        let mut came = Vec::new();
        // There is room again: for what waits, not for what comes now.
        for _ in 0..8 {
            let len = inbox.recv(&mut bytes).unwrap();
            came.push(bytes[..len].to_vec());
        }
        sender.send(1, b"lost");
        let mut arrived = Vec::new();
        loop {
            match inbox.recv(&mut bytes) {
                Ok(len) => came.push(bytes[..len].to_vec()),
                Err(_) if sender.exchange(&mut arrived) => {}
                Err(_) => break,
            }
        }
        assert!(came.iter().map(Vec::as_slice).eq((0..sent).map(u32::to_le_bytes).collect::<Vec<_>>()));
        // The process ends: what is sent to it is lost and waits for nobody.
        drop(inbox);
        (0..2).for_each(|_| sender.send(1, b"gone"));
        assert!(sender.peers[1].as_ref().unwrap().waiting.is_empty() && arrived.is_empty());
    }

    #[test]
    fn only_packets_of_others_for_this_process_arrive() {
        let (inbox, theirs) = Links::sockets().unwrap();
        let mut links = Links::new(1, inbox, Vec::new()).unwrap();
        let mut arrived = Vec::new();
        let mut comes = |source: (u32, usize), destination: (u32, usize)| {
            let seat = |(process, number)| Seat { process, number };
            let flow = Flow::new(seat(source).address(), seat(destination).address(), 0xc000);
            let mut bytes = Vec::new();
            encode(&flow, &Packet::new(Opcode::SendOnly, 7, 9), &mut bytes).unwrap();
            theirs.send(&bytes).unwrap();
            assert!(links.exchange(&mut arrived));
            arrived.drain(..).map(|(to, ..)| to).next()
        };
        assert_eq!(comes((0, 3), (1, 2)), Some(Seat { process: 1, number: 2 }));
        assert_eq!(comes((0, 3), (2, 2)), None, "for another process");
        assert_eq!(comes((1, 3), (1, 2)), None, "as if of this one");
    }
}

//! A host at the other end of a guest's Ethernet device: ARP and TCP by smoltcp, RoCEv2 for the adapter.

use crate::record::Record;
use crate::roce;
use crate::trouble::Trouble;
use crate::wire::{Event, Wire};
use anyhow::{Context, Result, bail};
use ggas_clock::Clock;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// This host's addresses; the guest's is 10.0.0.2.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MAC: EthernetAddress = EthernetAddress([0x52, 0x54, 0x00, 0x00, 0x00, 0x80]);
const MTU: usize = 1500;
const ETHERNET: usize = 14;
/// Bytes of a TCP connection under way.
const BUFFER: usize = 8192;
/// Numbers in records and traces.
const GUEST: usize = 0;
const US: usize = 1;

/// Frames between the wire and smoltcp.
#[derive(Default)]
struct Frames {
    come: VecDeque<Vec<u8>>,
    go: Vec<Vec<u8>>,
}

struct Come(Vec<u8>);

impl RxToken for Come {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Go<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Go<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Frames {
    type RxToken<'a> = Come;
    type TxToken<'a> = Go<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Come, Go<'_>)> {
        Some((Come(self.come.pop_front()?), Go(&mut self.go)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Go<'_>> {
        Some(Go(&mut self.go))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        (all.medium, all.max_transmission_unit) = (Medium::Ethernet, MTU + ETHERNET);
        all.checksum = ChecksumCapabilities::default();
        all
    }
}

/// The host.
pub struct Host {
    wire: Wire,
    events: Receiver<Event>,
    frames: Frames,
    interface: Interface,
    sockets: SocketSet<'static>,
    began: std::time::Instant,
    /// Who sent the last frame.
    guest: Option<EthernetAddress>,
    /// Packets of RoCEv2 that have come.
    packets: VecDeque<Vec<u8>>,
    trouble: Trouble,
    record: Option<Record>,
    gone: bool,
    next_port: u16,
}

impl Host {
    pub fn new(wire: Wire, events: Receiver<Event>, trouble: Trouble, record: Option<Record>) -> Host {
        let mut frames = Frames::default();
        let mut interface = Interface::new(Config::new(MAC.into()), &mut frames, Instant::ZERO);
        interface.update_ip_addrs(|all| {
            // There is room for one: it is the first.
            let _ = all.push(IpCidr::new(IpAddress::Ipv4(ADDRESS), 24));
        });
        Host {
            wire,
            events,
            frames,
            interface,
            sockets: SocketSet::new(Vec::new()),
            began: Clock::REAL.now(),
            guest: None,
            packets: VecDeque::new(),
            trouble,
            record,
            gone: false,
            next_port: 40_000,
        }
    }

    /// Nanoseconds of this host's life.
    pub fn now(&self) -> u64 {
        Clock::REAL.since(self.began).as_nanos() as u64
    }

    fn instant(&self) -> Instant {
        Instant::from_micros((self.now() / 1000) as i64)
    }

    /// Whether the guest has gone.
    pub fn gone(&self) -> bool {
        self.gone
    }

    /// Packets of RoCEv2 both ways, and those of them that were lost.
    pub fn traffic(&self) -> (u64, u64) {
        (self.trouble.seen, self.trouble.lost)
    }

    /// The next packet of RoCEv2 that has come, from its IP header on.
    pub fn packet(&mut self) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }

    /// Sends a packet of RoCEv2 to the guest.
    pub fn send(&mut self, packet: &[u8]) -> Result<()> {
        let Some(guest) = self.guest else {
            bail!("the guest has sent nothing yet: nobody knows where it is")
        };
        let mut frame = vec![0; ETHERNET + packet.len()];
        let header = EthernetRepr { src_addr: MAC, dst_addr: guest, ethertype: EthernetProtocol::Ipv4 };
        header.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
        frame[ETHERNET..].copy_from_slice(packet);
        if let Some(record) = &mut self.record {
            record.note(US, &frame)?;
        }
        if !self.trouble.takes(US, &frame) {
            self.wire.send(&frame)?;
        }
        Ok(())
    }

    /// Takes what has come; waits for it until `deadline` (of [`now`](Host::now)) at the latest.
    pub fn poll(&mut self, deadline: u64) -> Result<()> {
        self.tcp()?;
        let tcp = self.interface.poll_delay(self.instant(), &self.sockets);
        let tcp = tcp.map_or(u64::MAX, |delay| delay.total_micros() * 1000);
        let wait = deadline.saturating_sub(self.now()).min(tcp);
        match self.events.recv_timeout(Duration::from_nanos(wait)) {
            Ok(event) => self.take(event)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.gone = true,
        }
        while let Ok(event) = self.events.try_recv() {
            self.take(event)?;
        }
        self.tcp()
    }

    fn take(&mut self, event: Event) -> Result<()> {
        let frame = match event {
            Event::Frame(_, frame) => frame,
            Event::Gone(_, None) => {
                self.gone = true;
                return Ok(());
            }
            Event::Gone(_, Some(error)) => return Err(error),
        };
        if let Ok(ethernet) = EthernetFrame::new_checked(&frame[..]) {
            self.guest = Some(ethernet.src_addr());
        }
        let Some(packet) = roce::packet(&frame) else {
            self.frames.come.push_back(frame);
            return Ok(());
        };
        if let Some(record) = &mut self.record {
            record.note(GUEST, &frame)?;
        }
        if !self.trouble.takes(GUEST, &frame) {
            self.packets.push_back(packet.to_vec());
        }
        Ok(())
    }

    fn tcp(&mut self) -> Result<()> {
        let now = self.instant();
        self.interface.poll(now, &mut self.frames, &mut self.sockets);
        for frame in self.frames.go.drain(..) {
            // A guest that has gone is told by its stream's end.
            self.wire.send(&frame)?;
        }
        Ok(())
    }

    fn socket(&mut self) -> tcp::Socket<'static> {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        // Lines that ends wait for.
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        socket
    }

    /// A place where a connection may come.
    pub fn listen(&mut self, port: u16) -> Result<SocketHandle> {
        let mut socket = self.socket();
        socket.listen(port).map_err(|error| anyhow::anyhow!("port {port}: {error}"))?;
        Ok(self.sockets.add(socket))
    }

    /// Begins a connection to the guest.
    pub fn connect(&mut self, to: Ipv4Addr, port: u16) -> Result<SocketHandle> {
        let mut socket = self.socket();
        self.next_port += 1;
        let connect = socket.connect(self.interface.context(), (IpAddress::Ipv4(to), port), self.next_port);
        connect.map_err(|error| anyhow::anyhow!("{to}:{port}: {error}"))?;
        Ok(self.sockets.add(socket))
    }

    /// Whether a connection is there; `None`: not any more, or refused.
    pub fn connected(&mut self, line: SocketHandle) -> Option<bool> {
        let socket = self.sockets.get::<tcp::Socket>(line);
        match socket.state() {
            tcp::State::Closed => None,
            state => {
                Some(![tcp::State::Listen, tcp::State::SynSent, tcp::State::SynReceived].contains(&state))
            }
        }
    }

    /// Says something; the other end takes it when it can.
    pub fn say(&mut self, line: SocketHandle, bytes: &[u8]) -> Result<()> {
        let sent = self.sockets.get_mut::<tcp::Socket>(line).send_slice(bytes);
        let sent = sent.map_err(|error| anyhow::anyhow!("the guest does not listen: {error}"))?;
        if sent < bytes.len() {
            bail!("the guest takes nothing of what it is told");
        }
        self.tcp()
    }

    /// A byte that the other end has said; `None`: nothing now.
    pub fn hear(&mut self, line: SocketHandle) -> Result<Option<u8>> {
        let socket = self.sockets.get_mut::<tcp::Socket>(line);
        if !socket.can_recv() {
            if !socket.may_recv() {
                bail!("the guest has closed the connection");
            }
            return Ok(None);
        }
        let mut byte = [0];
        let n = socket.recv_slice(&mut byte).ok().context("the guest has closed the connection")?;
        Ok((n == 1).then_some(byte[0]))
    }

    /// Ends a connection; what was said still goes out.
    pub fn close(&mut self, line: SocketHandle) -> Result<()> {
        self.sockets.get_mut::<tcp::Socket>(line).close();
        self.tcp()
    }

    /// Whether both sides have closed it.
    pub fn over(&mut self, line: SocketHandle) -> bool {
        self.sockets.get::<tcp::Socket>(line).state() == tcp::State::TimeWait
    }

    /// Forgets a connection or place.
    pub fn forget(&mut self, line: SocketHandle) {
        self.sockets.remove(line);
    }
}

//! What a port's handles and connections share: sending, with its waits, and the end of the port.
//!
//! RMA ports have a core of their own (`userlib/rma/src/core.rs`). What is the same is in `ggas-device`: the port
//! ([`UnitDevice`](ggas_device::UnitDevice)), its writer ([`WcbWriter`](ggas_device::WcbWriter)), its reader's account
//! ([`ReadSide`](ggas_device::ReadSide)), and in `ggas-clock` the waits. What is left differs: descriptors go by two
//! paths and several options, and regions keep an RMA port's VPID open when its handles are gone.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use extoll_abi::{Address, VeloHeader};
use ggas_clock::Backoff;
use ggas_device::{Departures, Device, LostPeer, Sent, VeloDevice};

use crate::mailbox::Mailbox;
use crate::sender::{Line, Sender, sender};
use crate::{MessageMatch, SendError, VeloConfig, VeloPortError};

/// What a port's handles and connections share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) device: Arc<dyn VeloDevice>,
    pub(crate) card: Arc<dyn Device>,
    pub(crate) address: Address,
    pub(crate) sender: Mutex<Sender>,
    pub(crate) mailbox: Mutex<Mailbox>,
    pub(crate) config: VeloConfig,
    pub(crate) departures: Departures,
    /// `OPEN`, `TRACED` or `CLOSED`.
    state: AtomicU8,
    /// Where somebody asks what is sent.
    sent: Option<Arc<Sent>>,
}

const OPEN: u8 = 0;
/// Open, and what is sent is counted.
const TRACED: u8 = 1;
const CLOSED: u8 = 2;

/// State under these locks is consistent between any two statements that can panic, so poisoning says nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub(crate) fn new(device: Arc<dyn VeloDevice>, card: Arc<dyn Device>, config: VeloConfig) -> Core {
        let sent = Sent::asked(&card);
        Core {
            address: device.address(),
            sender: Mutex::new(sender(&*device)),
            mailbox: Mutex::new(Mailbox::new(device.mailbox())),
            departures: device.departures(),
            device,
            card,
            config,
            state: AtomicU8::new(if sent.is_some() { TRACED } else { OPEN }),
            sent,
        }
    }

    #[inline]
    pub(crate) fn try_send(&self, header: u64, bytes: &[u8]) -> Result<(), SendError> {
        if self.state.load(Ordering::Relaxed) != OPEN {
            return self.try_send_traced(header, bytes);
        }
        self.hand_over(header, bytes)
    }

    /// Sends and counts what somebody traces; else the port is closed.
    #[cold]
    fn try_send_traced(&self, header: u64, bytes: &[u8]) -> Result<(), SendError> {
        let sent = self.sent.as_ref().filter(|_| !self.is_closed()).ok_or(SendError::Closed)?;
        self.hand_over(header, bytes)?;
        sent.message(header);
        Ok(())
    }

    #[inline]
    fn hand_over(&self, header: u64, bytes: &[u8]) -> Result<(), SendError> {
        if self.departures.count() > 0 {
            self.check_target(header)?;
        }
        let fill = |line: &mut Line| {
            line.word[0] = header;
            line.words = VeloHeader::line_words(header) as u8;
            line.class = self.config.class;
            let (quads, rest) = bytes.as_chunks::<8>();
            line.word[1..].iter_mut().zip(quads).for_each(|(word, quad)| *word = u64::from_le_bytes(*quad));
            if let Some(word) = line.word.get_mut(1 + quads.len()).filter(|_| !rest.is_empty()) {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                *word = u64::from_le_bytes(last);
            }
        };
        lock(&self.sender).try_post(&*self.device, fill).map_err(|_| SendError::WouldBlock)
    }

    #[inline]
    pub(crate) fn send(&self, header: u64, bytes: &[u8]) -> Result<(), SendError> {
        match self.try_send(header, bytes) {
            Err(SendError::WouldBlock) => self.send_waiting(header, bytes),
            done => done,
        }
    }

    #[cold]
    fn send_waiting(&self, header: u64, bytes: &[u8]) -> Result<(), SendError> {
        let mut backoff = Backoff::new(self.device.clock(), self.config.send_timeout);
        loop {
            self.device.progress();
            match self.try_send(header, bytes) {
                Err(SendError::WouldBlock) => {}
                done => return done,
            }
            if let Err(waited) = backoff.pause() {
                let outstanding = u32::from(lock(&self.sender).outstanding());
                return Err(SendError::Timeout { port: self.address, outstanding, waited });
            }
        }
    }

    /// Refuses messages to a port whose process is gone. A group has many.
    #[inline(never)]
    fn check_target(&self, header: u64) -> Result<(), SendError> {
        let Ok(VeloHeader { destination: Address { node, vpid }, multicast: false, .. }) =
            VeloHeader::decode(header)
        else {
            return Ok(());
        };
        self.device.lost_peer(node, Some(vpid)).map_or(Ok(()), |peer| Err(SendError::PeerLost(peer)))
    }

    /// The process that alone could send what is `wanted`, if it is gone.
    pub(crate) fn lost_peer(&self, wanted: &MessageMatch) -> Option<LostPeer> {
        let Address { node, vpid } = wanted.source().filter(|_| self.departures.count() > 0)?;
        self.device.lost_peer(node, Some(vpid))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == CLOSED
    }

    /// Repeats what the card rejected, unless somebody sends now, who does it himself. `now`: before a sleep, or an end.
    #[inline]
    pub(crate) fn service(&self, now: bool) {
        if let Ok(mut sender) = self.sender.try_lock() {
            sender.service(&*self.device, now);
        }
    }

    /// Lets the card take what was sent, then closes. What it does not take in time is reported, not kept.
    pub(crate) fn close(&self) -> Result<(), VeloPortError> {
        if self.state.swap(CLOSED, Ordering::Relaxed) == CLOSED {
            return Ok(self.device.close()?);
        }
        if let Some(sent) = &self.sent {
            sent.end();
        }
        let drained = self.drain();
        self.device.close()?;
        drained
    }

    fn drain(&self) -> Result<(), VeloPortError> {
        let mut backoff = Backoff::new(self.device.clock(), self.config.send_timeout);
        loop {
            let outstanding = u32::from(lock(&self.sender).outstanding());
            if outstanding == 0 {
                return Ok(());
            }
            self.service(true);
            self.device.progress();
            if let Err(waited) = backoff.pause() {
                return Err(VeloPortError::Undrained { port: self.address, outstanding, waited });
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(port = %self.address, "closing: {error}");
        }
    }
}

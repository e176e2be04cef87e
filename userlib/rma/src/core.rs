//! What ports share with their regions, and what ports of the host share with their connections: posting, and closing.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use extoll_abi::{Address, Descriptor, PageOption};
use ggas_device::{Departures, LostPeer, PortDevice, Sent};

use crate::post::Poster;
use crate::posted::Asked;
use crate::queue::Queue;
use crate::{DeviceError, Match, PortConfig, PortError, PostError};
use ggas_clock::Backoff;

/// An open VPID, whoever posts and consumes there: the host, or kernels.
#[derive(Debug)]
pub(crate) struct Vpid {
    pub(crate) device: Arc<dyn PortDevice>,
    pub(crate) address: Address,
    pub(crate) config: PortConfig,
    closed: AtomicBool,
}

impl Vpid {
    pub(crate) fn new(device: Arc<dyn PortDevice>, config: PortConfig) -> Arc<Vpid> {
        let address = device.address();
        Arc::new(Vpid { device, address, config, closed: AtomicBool::new(false) })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) -> Result<(), DeviceError> {
        self.closed.store(true, Ordering::Relaxed);
        self.device.close()
    }
}

impl Drop for Vpid {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(port = %self.address, "closing: {error}");
        }
    }
}

/// What the handles and connections of a port of the host share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) vpid: Arc<Vpid>,
    pub(crate) poster: Poster,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) departures: Departures,
    pub(crate) asked: Asked,
    /// Option pages that may be posted to and are not traced, by bits.
    options: u32,
    /// Where somebody asks what is posted.
    sent: Option<Arc<Sent>>,
}

impl Deref for Core {
    type Target = Vpid;

    fn deref(&self) -> &Vpid {
        &self.vpid
    }
}

impl Core {
    pub(crate) fn new(vpid: Arc<Vpid>, poster: Poster, sent: Option<Arc<Sent>>) -> Core {
        let device = &vpid.device;
        Core {
            queue: Mutex::new(Queue::new(device.queue())),
            departures: device.departures(),
            asked: Asked::default(),
            options: if sent.is_some() { 0 } else { device.options() },
            sent,
            poster,
            vpid,
        }
    }

    /// Posts without waiting.
    #[inline]
    pub(crate) fn try_post(&self, option: PageOption, words: &[u64; 3]) -> Result<(), PostError> {
        self.check_open()?;
        if self.options >> option.bits() & 1 == 0 {
            return self.try_post_traced(option, words);
        }
        self.hand_over(option, words)
    }

    /// Posts and counts what somebody traces; else the option is denied.
    #[cold]
    fn try_post_traced(&self, option: PageOption, words: &[u64; 3]) -> Result<(), PostError> {
        let is_open = self.device.options() >> option.bits() & 1 != 0;
        let sent = self.sent.as_ref().filter(|_| is_open).ok_or(PostError::OptionDenied { option })?;
        self.hand_over(option, words)?;
        sent.posted(words);
        Ok(())
    }

    #[inline]
    fn hand_over(&self, option: PageOption, words: &[u64; 3]) -> Result<(), PostError> {
        if self.departures.count() > 0 {
            self.check_target(words)?;
        }
        self.poster.try_post(&*self.device, option, words)?;
        self.asked.note(words[0]);
        Ok(())
    }

    /// Posts, waiting for room up to the port's post timeout.
    #[inline]
    pub(crate) fn post(&self, option: PageOption, words: &[u64; 3]) -> Result<(), PostError> {
        match self.try_post(option, words) {
            Err(PostError::WouldBlock) => self.post_waiting(option, words),
            done => done,
        }
    }

    #[cold]
    fn post_waiting(&self, option: PageOption, words: &[u64; 3]) -> Result<(), PostError> {
        let mut backoff = Backoff::new(self.device.clock(), self.config.post_timeout);
        loop {
            self.device.progress();
            match self.try_post(option, words) {
                Err(PostError::WouldBlock) => {}
                done => return done,
            }
            if let Err(waited) = backoff.pause() {
                let outstanding = self.poster.outstanding();
                let path = self.poster.path();
                return Err(PostError::Timeout { port: self.address, path, outstanding, waited });
            }
        }
    }

    #[inline]
    fn check_open(&self) -> Result<(), PostError> {
        if self.is_closed() { Err(PostError::Closed) } else { Ok(()) }
    }

    /// Refuses descriptors to a port whose process is gone.
    #[inline(never)]
    fn check_target(&self, words: &[u64; 3]) -> Result<(), PostError> {
        let Address { node, vpid } = Descriptor { word: *words }.header().dst;
        self.device.lost_peer(node, Some(vpid)).map_or(Ok(()), |peer| Err(PostError::PeerLost(peer)))
    }

    /// The process that alone could send what is `wanted`, if it is gone.
    pub(crate) fn lost_peer(&self, wanted: &Match) -> Option<LostPeer> {
        let (node, vpid) = wanted.remote().filter(|_| self.departures.count() > 0)?;
        self.device.lost_peer(node, vpid)
    }

    /// Lets the card take what was posted, then closes. What it does not take in time is reported, not kept.
    pub(crate) fn close(&self) -> Result<(), PortError> {
        if self.vpid.closed.swap(true, Ordering::Relaxed) {
            return Ok(self.device.close()?);
        }
        if let Some(sent) = &self.sent {
            sent.end();
        }
        let drained = self.drain(self.config.post_timeout);
        self.device.close()?;
        drained
    }

    pub(crate) fn drain(&self, timeout: Duration) -> Result<(), PortError> {
        let device = &*self.device;
        let mut backoff = Backoff::new(device.clock(), timeout);
        loop {
            let outstanding = self.poster.outstanding();
            if outstanding == 0 {
                return Ok(());
            }
            self.poster.service(device, true);
            device.kick();
            if let Err(waited) = backoff.pause() {
                return Err(PortError::Undrained { port: self.address, outstanding, waited });
            }
        }
    }
}

impl Drop for Core {
    /// Regions may keep the VPID open. Nobody sees to it any more that the card takes what was posted.
    fn drop(&mut self) {
        if self.is_closed() {
            return;
        }
        if let Err(error) = self.drain(self.config.post_timeout) {
            tracing::error!(port = %self.address, "the last handle is gone: {error}");
        }
    }
}

//! Objects of an adapter: made, brought through their states, taken back.

use std::sync::Arc;

use extoll_sim::memory::Memory;

use super::{CqId, FIRST_QP, Hca, HcaError, Place, Slot};
use crate::cq::CompletionQueue;
use crate::regions::{Access, Domain, RegionError};
use crate::transport::{Attributes, Connection, QueuePair, Reliability};
use crate::wire::psn;

impl Hca {
    /// The memory it reaches.
    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// A new protection domain.
    pub fn domain(&mut self) -> Domain {
        self.domains += 1;
        Domain(self.domains)
    }

    /// Registers `len` bytes at bus address `address`, which requests call `virtual_address`. Returns the key, local and
    /// remote.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn register(
        &mut self,
        domain: Domain,
        virtual_address: u64,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<u32, RegionError> {
        self.regions.register(&*self.memory, domain, virtual_address, address, len, access)
    }

    /// Takes a region back: its key allows nothing any more.
    ///
    /// # Errors
    /// [`RegionError::Unknown`].
    pub fn deregister(&mut self, key: u32) -> Result<(), RegionError> {
        self.regions.deregister(key)
    }

    /// A completion queue.
    pub fn create_cq(&mut self, queue: Box<dyn CompletionQueue>) -> CqId {
        let id = CqId(self.next_cq);
        self.next_cq += 1;
        self.queues.insert(id.0, Place { queue, broken: false });
        id
    }

    /// Takes a completion queue back.
    ///
    /// # Errors
    /// [`HcaError::InUse`], [`HcaError::CompletionQueue`].
    pub fn destroy_cq(&mut self, id: CqId) -> Result<(), HcaError> {
        if self.slots.values().any(|slot| slot.send_cq == id || slot.receive_cq == id) {
            return Err(HcaError::InUse(id.0));
        }
        self.queues.remove(&id.0).map(|_| ()).ok_or(HcaError::CompletionQueue(id.0))
    }

    /// A queue pair in [`State::Reset`](crate::State::Reset); returns its number.
    ///
    /// # Errors
    /// [`HcaError`].
    pub fn create_qp(
        &mut self,
        attributes: Attributes,
        send_cq: CqId,
        receive_cq: CqId,
    ) -> Result<u32, HcaError> {
        for id in [send_cq, receive_cq] {
            self.queues.get(&id.0).ok_or(HcaError::CompletionQueue(id.0))?;
        }
        if self.slots.len() as u32 >= psn::MASK - FIRST_QP {
            return Err(HcaError::Full);
        }
        // A number is used again once all others were: packets to its last owner are gone by then.
        while self.slots.contains_key(&self.next_qp) {
            self.advance();
        }
        let number = self.next_qp;
        self.advance();
        let qp = QueuePair::new(number, attributes);
        let slot = Slot { qp, send_cq, receive_cq, listed: false, timer: None, failed: false };
        self.slots.insert(number, slot);
        Ok(number)
    }

    fn advance(&mut self) {
        self.next_qp = if self.next_qp >= psn::MASK - 1 { FIRST_QP } else { self.next_qp + 1 };
    }

    /// Takes a queue pair back, with all that is posted.
    ///
    /// # Errors
    /// [`HcaError::QueuePair`].
    pub fn destroy_qp(&mut self, number: u32) -> Result<(), HcaError> {
        self.failed.retain(|failed| *failed != number);
        self.slots.remove(&number).map(|_| ()).ok_or(HcaError::QueuePair(number))
    }

    /// A queue pair, to look at.
    ///
    /// # Errors
    /// [`HcaError::QueuePair`].
    pub fn qp(&self, number: u32) -> Result<&QueuePair, HcaError> {
        self.slots.get(&number).map(|slot| &slot.qp).ok_or(HcaError::QueuePair(number))
    }

    /// To [`State::Reset`](crate::State::Reset).
    ///
    /// # Errors
    /// [`HcaError::QueuePair`].
    pub fn reset(&mut self, number: u32) -> Result<(), HcaError> {
        self.with(number, |qp, _| qp.reset())?;
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.failed = false;
            self.failed.retain(|failed| *failed != number);
        }
        Ok(())
    }

    /// To [`State::Init`](crate::State::Init).
    ///
    /// # Errors
    /// [`HcaError`].
    pub fn init(&mut self, number: u32) -> Result<(), HcaError> {
        Ok(self.with(number, |qp, _| qp.init())??)
    }

    /// To [`State::ReadyToReceive`](crate::State::ReadyToReceive).
    ///
    /// # Errors
    /// [`HcaError`].
    pub fn ready_to_receive(&mut self, number: u32, connection: Connection) -> Result<(), HcaError> {
        Ok(self.with(number, |qp, _| qp.ready_to_receive(connection))??)
    }

    /// To [`State::ReadyToSend`](crate::State::ReadyToSend).
    ///
    /// # Errors
    /// [`HcaError`].
    pub fn ready_to_send(&mut self, number: u32, reliability: Reliability) -> Result<(), HcaError> {
        Ok(self.with(number, |qp, _| qp.ready_to_send(reliability))??)
    }

    /// To [`State::Error`](crate::State::Error): what is posted completes as flushed.
    ///
    /// # Errors
    /// [`HcaError::QueuePair`].
    pub fn stop(&mut self, number: u32) -> Result<(), HcaError> {
        self.with(number, |qp, reach| qp.stop(reach))
    }
}

//! Connections: a remote port, and what can be posted to it.

use std::sync::Arc;

use extoll_abi::{Address, Descriptor, EncodeError, MAX_TRANSFER, Modifier, PageOption, Request, Spec};

use crate::core::Core;
use crate::{PostError, Region, RegionError};

/// A local object that stands for a remote port (thesis 5.6.1). Cheap to clone; any thread may post through it.
///
/// Every post hands one descriptor to the card and returns; it does not wait for the transfer. [`Spec`] says who is
/// notified: the requester when the source may be used again, the completer when the data has arrived, the
/// responder when a get was served (spec 3.1). Posts of one port to one destination and traffic class arrive in
/// order, so a notification also says that the posts before it are done.
///
/// Posting without `try_` waits for room up to the port's post timeout. Remote addresses are network logical
/// addresses of the peer's regions ([`Region::nla`]), or what the connection's option says (spec 2.1).
#[derive(Clone, Debug)]
pub struct Connection {
    core: Arc<Core>,
    remote: Address,
    option: PageOption,
}

/// A lock operation (spec 5): if lock `number` <= `compare` (signed), then add `add`; atomic at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Which of the target VPID's locks, 0 to 15 as configured.
    pub number: u32,
    /// Compare operand.
    pub compare: i32,
    /// Addend.
    pub add: i32,
}

impl Connection {
    pub(crate) fn new(core: Arc<Core>, remote: Address, option: PageOption) -> Connection {
        Connection { core, remote, option }
    }

    /// The remote port.
    pub fn remote(&self) -> Address {
        self.remote
    }

    /// The option it posts with.
    pub fn option(&self) -> PageOption {
        self.option
    }

    /// Puts `len` bytes from `offset` of `region` to `remote`. `len` is 1 to 8 MiB.
    ///
    /// # Errors
    /// [`PostError::Region`] when the range leaves the region or the region belongs to another port,
    /// [`PostError::Encode`], [`PostError::PeerLost`], [`PostError::Timeout`], [`PostError::SlotOption`],
    /// [`PostError::Closed`].
    #[inline]
    pub fn put(
        &self,
        region: &Region,
        offset: usize,
        len: usize,
        remote: u64,
        spec: Spec,
    ) -> Result<(), PostError> {
        self.core.post(self.option, &self.encode_put(region, offset, len, remote, spec)?.word)
    }

    /// As [`put`](Self::put), without waiting.
    ///
    /// # Errors
    /// [`PostError::WouldBlock`] when there is no room, else as for `put`.
    #[inline]
    pub fn try_put(
        &self,
        region: &Region,
        offset: usize,
        len: usize,
        remote: u64,
        spec: Spec,
    ) -> Result<(), PostError> {
        self.core.try_post(self.option, &self.encode_put(region, offset, len, remote, spec)?.word)
    }

    /// Gets `len` bytes from `remote` into `region` at `offset`. `len` is 1 to 8 MiB.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn get(
        &self,
        region: &Region,
        offset: usize,
        len: usize,
        remote: u64,
        spec: Spec,
    ) -> Result<(), PostError> {
        self.core.post(self.option, &self.encode_get(region, offset, len, remote, spec)?.word)
    }

    /// As [`get`](Self::get), without waiting.
    ///
    /// # Errors
    /// As for [`try_put`](Self::try_put).
    #[inline]
    pub fn try_get(
        &self,
        region: &Region,
        offset: usize,
        len: usize,
        remote: u64,
        spec: Spec,
    ) -> Result<(), PostError> {
        self.core.try_post(self.option, &self.encode_get(region, offset, len, remote, spec)?.word)
    }

    /// Writes the low `count` (1 to 8) bytes of `value` to `remote`; the value travels in the descriptor.
    ///
    /// # Errors
    /// As for [`put`](Self::put), without regions.
    #[inline]
    pub fn immediate_put(&self, value: u64, count: u8, remote: u64, spec: Spec) -> Result<(), PostError> {
        self.post(&Request::ImmediatePut { count, write: remote, value }, spec, Modifier::NONE)
    }

    /// As [`immediate_put`](Self::immediate_put), without waiting.
    ///
    /// # Errors
    /// As for [`try_put`](Self::try_put).
    #[inline]
    pub fn try_immediate_put(&self, value: u64, count: u8, remote: u64, spec: Spec) -> Result<(), PostError> {
        self.try_post(&Request::ImmediatePut { count, write: remote, value }, spec, Modifier::NONE)
    }

    /// Sends `class` and `payload` as a notification; `spec` needs [`Spec::COMPLETER`] for it to arrive.
    ///
    /// # Errors
    /// As for [`immediate_put`](Self::immediate_put).
    #[inline]
    pub fn notification_put(&self, class: u8, payload: u64, spec: Spec) -> Result<(), PostError> {
        self.post(&Request::NotificationPut { class, payload }, spec, Modifier::NONE)
    }

    /// As [`notification_put`](Self::notification_put), without waiting.
    ///
    /// # Errors
    /// As for [`try_put`](Self::try_put).
    #[inline]
    pub fn try_notification_put(&self, class: u8, payload: u64, spec: Spec) -> Result<(), PostError> {
        self.try_post(&Request::NotificationPut { class, payload }, spec, Modifier::NONE)
    }

    /// Posts a lock operation; the answer is a notification ([`LockOutcome::of`](crate::LockOutcome::of)).
    /// [`Port::lock`](crate::Port::lock) posts and waits.
    ///
    /// # Errors
    /// As for [`immediate_put`](Self::immediate_put).
    pub fn lock(&self, lock: Lock, spec: Spec) -> Result<(), PostError> {
        self.post(&lock.request(), spec, Modifier::NONE)
    }

    /// As [`lock`](Self::lock), without waiting.
    ///
    /// # Errors
    /// As for [`try_put`](Self::try_put).
    pub fn try_lock(&self, lock: Lock, spec: Spec) -> Result<(), PostError> {
        self.try_post(&lock.request(), spec, Modifier::NONE)
    }

    /// Posts any request with any modifier (spec 2.2); addresses are taken as they are.
    ///
    /// # Errors
    /// As for [`immediate_put`](Self::immediate_put).
    #[inline]
    pub fn post(&self, request: &Request, spec: Spec, modifier: Modifier) -> Result<(), PostError> {
        self.core.post(self.option, &Descriptor::encode(self.remote, spec, modifier, request)?.word)
    }

    /// As [`post`](Self::post), without waiting.
    ///
    /// # Errors
    /// As for [`try_put`](Self::try_put).
    #[inline]
    pub fn try_post(&self, request: &Request, spec: Spec, modifier: Modifier) -> Result<(), PostError> {
        self.core.try_post(self.option, &Descriptor::encode(self.remote, spec, modifier, request)?.word)
    }

    #[inline]
    fn encode_put(
        &self,
        region: &Region,
        offset: usize,
        len: usize,
        remote: u64,
        spec: Spec,
    ) -> Result<Descriptor, PostError> {
        let (read, size) = self.local(region, offset, len)?;
        let request = Request::Put { qw: false, read, write: remote, size };
        Ok(Descriptor::encode(self.remote, spec, Modifier::NONE, &request)?)
    }

    #[inline]
    fn encode_get(
        &self,
        region: &Region,
        offset: usize,
        len: usize,
        remote: u64,
        spec: Spec,
    ) -> Result<Descriptor, PostError> {
        let (write, size) = self.local(region, offset, len)?;
        let request = Request::Get { qw: false, read: remote, write, size };
        Ok(Descriptor::encode(self.remote, spec, Modifier::NONE, &request)?)
    }

    /// The local side as the card takes it: an NLA, or with an untranslated option the address itself.
    #[inline]
    fn local(&self, region: &Region, offset: usize, len: usize) -> Result<(u64, u32), PostError> {
        if !region.is_of(&self.core.vpid) {
            let (owner, port) = (region.port(), self.core.address);
            return Err(PostError::Region(RegionError::OtherPort { owner, port }));
        }
        region.check(offset, len)?;
        if len > MAX_TRANSFER as usize {
            return Err(PostError::Encode(EncodeError::SizeTooLarge(len.try_into().unwrap_or(u32::MAX))));
        }
        let start = if self.option.contains(PageOption::TE) { region.first_nla() } else { region.address() };
        Ok((start + offset as u64, len as u32))
    }
}

impl Lock {
    fn request(self) -> Request {
        let Lock { number, compare, add } = self;
        Request::Lock { to_responder: false, number, compare, add }
    }
}

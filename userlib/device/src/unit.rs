//! What ports of the card's two units have in common, whichever device they are of.

use std::fmt::Debug;
use std::time::Duration;

use extoll_abi::Address;
use ggas_clock::Clock;

use crate::{Departures, DeviceError, LostPeer, RegisterMap};

/// An open VPID of a unit: an RMA port ([`PortDevice`](crate::PortDevice)) or a VELO port
/// ([`VeloDevice`](crate::VeloDevice)). Both write lines to requester pages behind a write-combining buffer, and read a
/// ring that the card fills; what stands in the lines and in the ring is what they differ in. Everything is callable from
/// any thread.
pub trait UnitDevice: Debug + Send + Sync {
    /// Node and VPID.
    fn address(&self) -> Address;

    /// The clock by which waits for the port end; the system's, but for models in virtual time.
    fn clock(&self) -> &Clock {
        Clock::REAL
    }

    /// Writes the read-pointer register: `index` is the next unread entry of the queue, or slot of the mailbox; `rearm`
    /// allows the next interrupt (spec 3.2).
    fn set_read_pointer(&self, index: u32, rearm: bool);

    /// Whether pages, registers and queue are a card's, mapped by its driver, and not memory of this process.
    fn is_hardware(&self) -> bool {
        false
    }

    /// The registers that kernels use directly.
    fn registers(&self) -> RegisterMap;

    /// Posts between two looks at the WCB state register ([`WcbWriter`](crate::WcbWriter)); 0: the register is memory.
    fn wcb_batch(&self) -> u8 {
        0
    }

    /// Makes the stores before it leave the CPU's write-combining buffers (SFENCE on a card).
    fn fence(&self) {}

    /// Lets the device do what it can on the caller's thread; says whether there was something (see
    /// [`Device::progress`](crate::Device::progress)).
    fn progress(&self) -> bool {
        false
    }

    /// Whether callers do the device's work in [`progress`](Self::progress), and no threads of its own.
    fn is_driven_by_callers(&self) -> bool {
        false
    }

    /// Sleeps until the queue or mailbox may hold something new, `ready` says so, or `timeout` is over. May return early.
    fn sleep_until(&self, ready: &dyn Fn() -> bool, timeout: Duration);

    /// Counts the processes of the job that are gone; look at [`lost_peer`](Self::lost_peer) once it is not 0.
    fn departures(&self) -> Departures {
        Departures::default()
    }

    /// The process that served `vpid` of `node` (`None`: any process of the node), if it is gone.
    fn lost_peer(&self, _node: u16, _vpid: Option<u8>) -> Option<LostPeer> {
        None
    }

    /// Takes in all that lost peers sent before they went, as far as there is room in the queue or mailbox.
    fn drain_lost(&self) {}

    /// Whether the card still carries out commands of this VPID that it has taken: memory that they read, and regions that
    /// they name, have to stay. `false` where a device cannot tell.
    fn is_sending(&self) -> bool {
        false
    }

    /// Drains what is on its way, gives the queue or mailbox back, removes the VPID's regions and frees it (spec 7, 9.2).
    /// The second call does nothing.
    ///
    /// # Errors
    /// [`DeviceError::Timeout`] when traffic does not drain, or the card does not let go of the memory; the VPID is then
    /// kept out of use.
    fn close(&self) -> Result<(), DeviceError>;
}

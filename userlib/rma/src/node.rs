//! Nodes, as a process that uses them sees them.

use std::sync::Arc;

use ggas_device::{Device, DeviceError, DeviceInfo};
use ggas_kernels::Processor;

use crate::{KernelPort, KernelPortError, Port, PortConfig, PortError};

/// A node of the network that this process has a device of. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Node {
    device: Arc<dyn Device>,
}

impl Node {
    /// The node that `device` is.
    pub fn new(device: Arc<dyn Device>) -> Node {
        Node { device }
    }

    /// Node id.
    pub fn id(&self) -> u16 {
        self.device.info().node
    }

    /// What its device is and can do.
    pub fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Opens a port on the lowest free VPID.
    ///
    /// ```
    /// # use ggas_device::sim::SimNetwork;
    /// use ggas_rma::{HostBuffer, Node, PortConfig, Spec};
    /// use std::time::Duration;
    /// # let network = SimNetwork::builder().nodes(2).build()?;
    /// # let (here, there) = (Node::new(network.device(0)?), Node::new(network.device(1)?));
    /// let origin = here.open_port(PortConfig::default())?;
    /// let target = there.open_port(PortConfig::default())?;
    /// let source = origin.register(HostBuffer::zeroed(4096)?)?;
    /// let destination = target.register(HostBuffer::zeroed(4096)?)?;
    ///
    /// source.write(0, b"hello")?;
    /// let connection = origin.connect(target.address());
    /// connection.put(&source, 0, 5, destination.nla(100)?, Spec::COMPLETER)?;
    ///
    /// let arrived = target.wait(Duration::from_secs(10))?;
    /// assert_eq!((arrived.remote(), arrived.size()), (origin.address(), 5));
    /// let mut text = [0; 5];
    /// destination.read(100, &mut text)?;
    /// assert_eq!(&text, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A port may get the VPID of one that was closed before. What was under way to that one, data and notifications,
    /// then comes to this port, as on the card: packets name a VPID, not its owner. So ports that others still send to
    /// close last. On the model a VPID rests for 250 ms before another port gets it, unless no other is free.
    ///
    /// # Errors
    /// [`PortError::NoPath`]; [`PortError::Device`] when no VPID is free, the network is not configured, or the
    /// queue or slot ring cannot have the shape asked for.
    pub fn open_port(&self, config: PortConfig) -> Result<Port, PortError> {
        Port::open(&self.device, config)
    }

    /// Opens a port whose notification queue and requester belong to kernels on `processor`. How they post,
    /// [`PortConfig::path`] says. The [address](KernelPort::address) of the port's structure goes into their arguments.
    ///
    /// # Errors
    /// [`KernelPortError`]; kernels on a GPU need [`Path::Slots`](crate::Path::Slots) on the model, and do not reach a
    /// card.
    pub fn open_kernel_port(
        &self,
        config: PortConfig,
        processor: &Processor,
    ) -> Result<KernelPort, KernelPortError> {
        KernelPort::open(&self.device, config, processor)
    }

    /// Reads the register at a byte offset of BAR 0 (spec 8).
    ///
    /// # Errors
    /// [`DeviceError::RegisterOffset`].
    pub fn read_register(&self, offset: u64) -> Result<u64, DeviceError> {
        self.device.read_register(offset)
    }

    /// Writes the register at a byte offset of BAR 0 (spec 8).
    ///
    /// # Errors
    /// [`DeviceError::RegisterOffset`].
    pub fn write_register(&self, offset: u64, value: u64) -> Result<(), DeviceError> {
        self.device.write_register(offset, value)
    }

    /// Lets the model work on the caller's thread; says whether there was something to do.
    pub fn progress(&self) -> bool {
        self.device.progress()
    }
}

//! The server's side of the vfio-user protocol.
//!
//! The server of the crate `vfio_user` (0.1.7) trusts clients: it allocates as many bytes as a client asks for, panics at a
//! VERSION without its zero byte, and misreads the stream after a command that it refuses. This server trusts no client.
//! It uses the types of that crate, and its tests use that crate's client.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use nix::errno::Errno;
use serde::Deserialize;
use vfio_bindings::bindings::vfio::*;
use vfio_user::{Command, DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend};

use crate::message::{ACCESS, Connection, Ended, HEADER, Header, MAX_DATA, u32_at, u64_at};

/// A command that is answered with an error.
struct Refused {
    errno: Errno,
    why: String,
}

fn refused(why: impl Into<String>) -> Refused {
    Refused { errno: Errno::EINVAL, why: why.into() }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        let errno = error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw);
        Refused { errno, why: error.to_string() }
    }
}

/// A device's socket, and what it tells of the device.
pub struct Server {
    pub(crate) listener: UnixListener,
    pub(crate) irqs: Vec<IrqInfo>,
    pub(crate) regions: Vec<RegionInfo>,
}

/// What clients are told of a region.
pub(crate) struct RegionInfo {
    /// `VFIO_REGION_INFO_FLAG_*`.
    pub(crate) flags: u32,
    /// Bytes; 0: there is none.
    pub(crate) bytes: u64,
    /// Offset and bytes of what they map.
    pub(crate) mapped: Vec<(u64, u64)>,
    /// Where that lies.
    pub(crate) file: Option<OwnedFd>,
}

impl Server {
    /// Serves one client to its end. The first thing that was refused is an error in the log, others are not.
    pub(crate) fn run(&self, backend: &mut dyn ServerBackend) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        let mut client = Client::new(self, stream);
        while client.next(backend).is_continue() {}
        Ok(())
    }

    fn name(&self) -> String {
        let address = self.listener.local_addr().ok();
        address.and_then(|at| Some(at.as_pathname()?.display().to_string())).unwrap_or_default()
    }
}

/// One client.
struct Client<'a> {
    server: &'a Server,
    connection: Connection,
    /// Bytes that an access may move.
    most: u32,
    body: Vec<u8>,
    reply: Vec<u8>,
    /// Whether something was refused, and said.
    said: bool,
}

/// What the client can do, as far as it matters here.
#[derive(Default, Deserialize)]
struct Version {
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    max_data_xfer_size: Option<u32>,
}

impl<'a> Client<'a> {
    fn new(server: &'a Server, stream: UnixStream) -> Client<'a> {
        let (body, reply) = (Vec::new(), Vec::new());
        Client { server, connection: Connection::new(stream), most: MAX_DATA, body, reply, said: false }
    }

    /// One command, and its reply.
    fn next(&mut self, backend: &mut dyn ServerBackend) -> ControlFlow<()> {
        match self.command(backend) {
            Ok(()) => ControlFlow::Continue(()),
            Err(Ended::Malformed(what)) => {
                self.say(&format!("{what}; the connection is closed"));
                ControlFlow::Break(())
            }
            Err(ended) => {
                tracing::info!("{}: {ended}", self.server.name());
                ControlFlow::Break(())
            }
        }
    }

    fn command(&mut self, backend: &mut dyn ServerBackend) -> Result<(), Ended> {
        let (header, files) = self.connection.receive(&mut self.body)?;
        self.reply.clear();
        self.reply.resize(HEADER, 0);
        let file = match self.answer(&header, files, backend) {
            Ok(file) => file,
            Err(Refused { errno, why }) => {
                self.say(&format!("command {}: {why}", header.command));
                if !header.no_reply() {
                    self.connection.refuse(&header, errno as i32)?;
                }
                return Ok(());
            }
        };
        if header.no_reply() {
            return Ok(());
        }
        Ok(self.connection.reply(&header, &mut self.reply, file)?)
    }

    /// Tells of something refused, once for each client: a hostile one must not fill the log.
    fn say(&mut self, what: &str) {
        match std::mem::replace(&mut self.said, true) {
            false => tracing::error!("{}: the client's {what}", self.server.name()),
            true => tracing::debug!("{}: the client's {what}", self.server.name()),
        }
    }

    /// Carries a command out. Puts the reply's body behind its header, and returns the file that goes with it.
    fn answer(
        &mut self,
        header: &Header,
        files: Vec<File>,
        backend: &mut dyn ServerBackend,
    ) -> Result<Option<BorrowedFd<'a>>, Refused> {
        match Command::n(header.command) {
            Some(Command::Version) => self.version()?,
            Some(Command::DmaMap) => self.dma_map(files, backend)?,
            Some(Command::DmaUnmap) => self.dma_unmap(backend)?,
            Some(Command::DeviceGetInfo) => self.device_info()?,
            Some(Command::DeviceGetRegionInfo) => return self.region_info(),
            Some(Command::GetIrqInfo) => self.irq_info()?,
            Some(Command::SetIrqs) => self.set_irqs(files, backend)?,
            Some(Command::RegionRead) => self.read(backend)?,
            Some(Command::RegionWrite) => self.write(backend)?,
            Some(Command::DeviceReset) => backend.reset()?,
            _ => {
                let why = "it is not offered".to_owned();
                return Err(Refused { errno: Errno::EOPNOTSUPP, why });
            }
        }
        Ok(None)
    }

    /// A number of the command's body.
    fn u32(&self, at: usize) -> Result<u32, Refused> {
        u32_at(&self.body, at).ok_or_else(|| self.short())
    }

    fn u64(&self, at: usize) -> Result<u64, Refused> {
        u64_at(&self.body, at).ok_or_else(|| self.short())
    }

    fn short(&self) -> Refused {
        refused(format!("its body of {} bytes is too short", self.body.len()))
    }

    fn push(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.reply.extend(word.to_le_bytes()));
    }

    fn version(&mut self) -> Result<(), Refused> {
        let major = self.u32(0)? & 0xffff;
        if major != 0 {
            return Err(refused(format!("its version is {major}, this server has 0")));
        }
        let version = match &self.body[4..] {
            [] => Version::default(),
            [text @ .., 0] => serde_json::from_slice(text)
                .map_err(|error| refused(format!("its capabilities cannot be read: {error}")))?,
            _ => return Err(refused("its capabilities do not end with a zero byte")),
        };
        self.most = version.capabilities.max_data_xfer_size.map_or(MAX_DATA, |asked| asked.min(MAX_DATA));
        self.push(&[0]);
        let pages = 4096;
        let offered = format!(
            r#"{{"capabilities":{{"max_msg_fds":1,"max_data_xfer_size":{MAX_DATA},"migration":{{"pgsize":{pages}}}}}}}"#
        );
        self.reply.extend(offered.as_bytes());
        self.reply.push(0);
        Ok(())
    }

    fn dma_map(&mut self, mut files: Vec<File>, backend: &mut dyn ServerBackend) -> Result<(), Refused> {
        let (flags, offset) = (DmaMapFlags::from_bits_retain(self.u32(4)?), self.u64(8)?);
        let (address, size) = (self.u64(16)?, self.u64(24)?);
        let file = files.pop();
        if !files.is_empty() {
            return Err(refused(format!("it came with {} files, one at most is allowed", files.len() + 1)));
        }
        Ok(backend.dma_map(flags, offset, address, size, file)?)
    }

    fn dma_unmap(&mut self, backend: &mut dyn ServerBackend) -> Result<(), Refused> {
        const BODY: usize = 24;
        let flags = DmaUnmapFlags::from_bits_retain(self.u32(4)?);
        backend.dma_unmap(flags, self.u64(8)?, self.u64(16)?)?;
        self.reply.extend(&self.body[..BODY]);
        Ok(())
    }

    fn device_info(&mut self) -> Result<(), Refused> {
        self.u32(12)?;
        let (regions, irqs) = (self.server.regions.len() as u32, self.server.irqs.len() as u32);
        self.push(&[16, VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET, regions, irqs]);
        Ok(())
    }

    /// The areas to be mapped and the file come if the client has room for them.
    fn region_info(&mut self) -> Result<Option<BorrowedFd<'a>>, Refused> {
        const BODY: u32 = size_of::<vfio_region_info>() as u32;
        self.u32(BODY as usize - 4)?;
        let (room, index) = (self.u32(0)?, self.u32(8)?);
        let server = self.server;
        let RegionInfo { flags, bytes, mapped, file } = find(&server.regions, index, "region")?;
        if mapped.is_empty() {
            self.push_region([BODY, *flags, index, 0], *bytes);
            return Ok(None);
        }
        let all = BODY + 16 + 16 * mapped.len() as u32;
        self.push_region([all, flags | VFIO_REGION_INFO_FLAG_CAPS, index, BODY], *bytes);
        if room < all {
            return Ok(None);
        }
        // One capability, of version 1; none is next.
        self.push(&[VFIO_REGION_INFO_CAP_SPARSE_MMAP | 1 << 16, 0, mapped.len() as u32, 0]);
        for (offset, bytes) in mapped {
            self.reply.extend(offset.to_le_bytes());
            self.reply.extend(bytes.to_le_bytes());
        }
        Ok(file.as_ref().map(AsFd::as_fd))
    }

    fn push_region(&mut self, words: [u32; 4], size: u64) {
        self.push(&words);
        self.reply.extend(size.to_le_bytes());
        self.reply.extend(0u64.to_le_bytes());
    }

    fn irq_info(&mut self) -> Result<(), Refused> {
        self.u32(12)?;
        let IrqInfo { index, flags, count } = *find(&self.server.irqs, self.u32(8)?, "kind of interrupt")?;
        self.push(&[16, flags, index, count]);
        Ok(())
    }

    fn set_irqs(&mut self, files: Vec<File>, backend: &mut dyn ServerBackend) -> Result<(), Refused> {
        let (flags, index, start, count) = (self.u32(4)?, self.u32(8)?, self.u32(12)?, self.u32(16)?);
        find(&self.server.irqs, index, "kind of interrupt")?;
        if flags & VFIO_IRQ_SET_DATA_BOOL != 0 {
            let why = "interrupts by an array of booleans are not offered".to_owned();
            return Err(Refused { errno: Errno::EOPNOTSUPP, why });
        }
        Ok(backend.set_irqs(index, flags, start, count, files)?)
    }

    /// Region, offset and bytes of an access that may be.
    fn access(&self) -> Result<(u32, u64, u32), Refused> {
        let (offset, index, count) = (self.u64(0)?, self.u32(8)?, self.u32(12)?);
        if count > self.most {
            return Err(refused(format!("access of {count} bytes is longer than agreed ({})", self.most)));
        }
        let size = find(&self.server.regions, index, "region")?.bytes;
        if offset.checked_add(count.into()).is_none_or(|end| end > size) {
            return Err(refused(format!(
                "access of {count} bytes at {offset:#x} leaves region {index} of {size:#x} bytes"
            )));
        }
        Ok((index, offset, count))
    }

    fn read(&mut self, backend: &mut dyn ServerBackend) -> Result<(), Refused> {
        let (region, offset, count) = self.access()?;
        let data = HEADER + ACCESS;
        self.reply.extend(&self.body[..ACCESS]);
        self.reply.resize(data + count as usize, 0);
        Ok(backend.region_read(region, offset, &mut self.reply[data..])?)
    }

    fn write(&mut self, backend: &mut dyn ServerBackend) -> Result<(), Refused> {
        let (region, offset, count) = self.access()?;
        let data = &self.body[ACCESS..];
        if data.len() != count as usize {
            return Err(refused(format!("write of {count} bytes brought {}", data.len())));
        }
        backend.region_write(region, offset, data)?;
        self.reply.extend(&self.body[..ACCESS]);
        Ok(())
    }
}

fn find<'a, T>(list: &'a [T], index: u32, what: &str) -> Result<&'a T, Refused> {
    list.get(index as usize).ok_or_else(|| refused(format!("{what} {index} is none of {}", list.len())))
}

//! A card as a [`Device`].

use std::path::Path as FilePath;
use std::sync::{Arc, OnceLock};

use extoll_abi::bindings::{EXTOLL_RF_WRITE, extoll_rf_access};
use extoll_abi::{Address, regs};
use nix::errno::Errno;

use super::file::{CardFile, failed};
use super::port::HwPort;
use super::velo::HwVelo;
use super::window;
use crate::{
    Device, DeviceError, DeviceInfo, Kind, Path, PortDevice, PortSetup, SmfuMap, SmfuWindow, VeloDevice,
    VeloSetup,
};

/// A card behind a device node of the kernel module.
#[derive(Debug)]
pub struct HwDevice {
    file: CardFile,
    info: DeviceInfo,
    /// The job that it was told to be of.
    job: OnceLock<Ranks>,
}

/// The ranks of a job, by nodes.
#[derive(Debug)]
struct Ranks {
    own: u32,
    nodes: Box<[u16]>,
}

impl Ranks {
    /// The rank of a node that no other rank is on: of several, a card does not say which of them has a port.
    fn alone_on(&self, node: u16) -> Option<u32> {
        let mut on = (0..).zip(&self.nodes).filter(|(_, of)| **of == node).map(|(rank, _)| rank);
        on.next().filter(|_| on.next().is_none())
    }
}

impl HwDevice {
    pub(super) fn open(path: &FilePath) -> Result<HwDevice, DeviceError> {
        let file = CardFile::open(path)?;
        let card = file.info()?;
        let info = DeviceInfo {
            kind: Kind::Hw,
            node: card.node as u16,
            ports: card.ports,
            paths: &[Path::Card],
            fragment_bytes: card.fragment_bytes,
            command_bytes: card.command_bytes,
            smfu_bytes: card.window_bytes,
            smfu_intervals: card.window_intervals,
        };
        Ok(HwDevice { file, info, job: OnceLock::new() })
    }

    fn access(&self, argument: &mut extoll_rf_access) -> Result<(), DeviceError> {
        self.file.rf_access(argument).map_err(|errno| match errno {
            Errno::EINVAL => {
                let limit = regs::EXTOLL_BAR0_PART_BYTES;
                DeviceError::RegisterOffset { offset: argument.offset, limit }
            }
            errno => failed("access to the card's registers", errno),
        })
    }
}

impl Device for HwDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open_port(&self, setup: &PortSetup) -> Result<Arc<dyn PortDevice>, DeviceError> {
        Ok(Arc::new(HwPort::open(self.file.again()?, setup)?))
    }

    fn open_velo(&self, setup: &VeloSetup) -> Result<Arc<dyn VeloDevice>, DeviceError> {
        Ok(Arc::new(HwVelo::open(self.file.again()?, setup)?))
    }

    fn process(&self) -> u32 {
        self.job.get().map_or(self.info.node.into(), |job| job.own)
    }

    fn ranks(&self) -> Option<u32> {
        Some(self.job.get()?.nodes.len() as u32)
    }

    fn process_of(&self, port: Address) -> Option<u32> {
        self.process_of_part(port.node)
    }

    fn process_of_part(&self, node: u16) -> Option<u32> {
        self.job.get().map_or(Some(node.into()), |job| job.alone_on(node))
    }

    fn join_job(&self, rank: u32, nodes: &[u16]) {
        let _ = self.job.set(Ranks { own: rank, nodes: nodes.into() });
    }

    fn read_register(&self, offset: u64) -> Result<u64, DeviceError> {
        let mut argument = extoll_rf_access { offset, ..Default::default() };
        self.access(&mut argument)?;
        Ok(argument.value)
    }

    fn write_register(&self, offset: u64, value: u64) -> Result<(), DeviceError> {
        let flags = EXTOLL_RF_WRITE as u32;
        self.access(&mut extoll_rf_access { offset, value, flags, ..Default::default() })
    }

    unsafe fn map_smfu(&self, map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError> {
        window::open(self.file.again()?, self.info.node, map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_several_ranks_says_of_none() {
        let ranks = Ranks { own: 1, nodes: [7, 3, 9, 3].into() };
        assert_eq!([7, 9, 3, 0].map(|node| ranks.alone_on(node)), [Some(0), Some(2), None, None]);
    }
}

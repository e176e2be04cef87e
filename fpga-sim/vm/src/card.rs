//! The card as a device: its BARs, its memory, its resets.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use extoll_abi::regs;
use extoll_sim::memory::MemoryError;
use extoll_sim::shared::Nodes;
use extoll_sim::{Fabric, MAPPED_REGISTERS, Nic, NicConfig, NicError, NicThreads};
use thiserror::Error;

use crate::bar::SharedFile;
use crate::config::{BAR0_BYTES, MSI_VECTORS, MSIX_VECTORS};
use crate::patience::Patience;
use crate::server::{Device, MSI, MSIX, Region};
use crate::{Change, ConfigSpace, GuestMemory, Interrupts, Joined, PeerBar, Trouble};

const PART: u64 = regs::EXTOLL_BAR0_PART_BYTES;
/// What a card is made with.
#[derive(Clone)]
pub struct CardSetup {
    /// Node id.
    pub node: u16,
    /// The network.
    pub network: Arc<dyn Fabric>,
    /// Its nodes, where it is one between processes: the card has taken its node as a whole ([`Nodes::take_node`]).
    pub nodes: Option<Arc<Nodes>>,
    /// BARs of other devices of its guest.
    pub peers: Vec<Arc<PeerBar>>,
    /// Offer MSI-X too.
    pub msix: bool,
    /// Fail when told to, in configuration space: for tests of drivers.
    pub trouble: bool,
    /// Map no page of BAR 0: accesses to all registers are counted, for tests of libraries.
    pub trap: bool,
    /// Network state after a reset (spec 8.2): the part of management, which guests have none of.
    pub network_state: u64,
}

/// Why a card could not be made, or reset.
#[derive(Error)]
pub enum CardError {
    /// See [`NicError`].
    #[error(transparent)]
    Nic(#[from] NicError),
    /// See [`MemoryError`].
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No memory for the BAR.
    #[error("no memory for the card's BAR: {0}")]
    Bar(#[from] io::Error),
}

ggas_errors::debug_as_display!(CardError);

/// One card, as a device of a guest.
pub struct Card {
    setup: CardSetup,
    config: ConfigSpace,
    /// Pages of BAR 0 that the guest maps.
    bar: SharedFile,
    memory: Arc<GuestMemory>,
    nic: Arc<Nic>,
    joined: Arc<Joined>,
    interrupts: Arc<Interrupts>,
    removed: bool,
    /// What registers that read as anything read as next.
    noise: u64,
    /// With loads from the window.
    patience: Patience,
}

impl Card {
    /// A card at its place in the network.
    ///
    /// # Errors
    /// [`CardError`].
    pub fn new(setup: CardSetup) -> Result<Card, CardError> {
        let bar = SharedFile::new("extoll bar0", BAR0_BYTES)?;
        let memory = GuestMemory::new(setup.peers.clone())?;
        let interrupts = Arc::new(Interrupts::new(MSI_VECTORS.max(MSIX_VECTORS)));
        let (nic, joined) = switch_on(&setup, &bar, &memory, &interrupts)?;
        let config = ConfigSpace::card(setup.msix, setup.trouble);
        Ok(Card {
            setup,
            config,
            bar,
            memory,
            nic,
            joined,
            interrupts,
            removed: false,
            noise: 0,
            patience: Patience::new(),
        })
    }

    /// The modelled card.
    pub fn nic(&self) -> &Arc<Nic> {
        &self.nic
    }

    /// The guest's memory.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    /// Its interrupt lines.
    pub fn interrupts(&self) -> &Arc<Interrupts> {
        &self.interrupts
    }

    /// Resets the function: another card takes its place, with nothing under way and every register at its reset
    /// value. When it returns, the old one touches no memory any more.
    ///
    /// # Errors
    /// [`CardError`]; the card does nothing from then on.
    pub fn reset(&mut self) -> Result<(), CardError> {
        self.config.reset();
        self.nic.detach();
        self.memory = self.memory.succeed()?;
        self.bar.zero()?;
        (self.nic, self.joined) = switch_on(&self.setup, &self.bar, &self.memory, &self.interrupts)?;
        Ok(())
    }

    fn try_reset(&mut self) {
        if let Err(error) = self.reset() {
            tracing::error!("node {}: reset failed: {error}", self.setup.node);
            self.removed = true;
        }
    }

    /// Whether it answers.
    fn there(&self) -> bool {
        !self.removed && self.config.trouble() != Trouble::Gone
    }

    /// Never the same, and often near what would be right: small, or all ones in a part.
    fn nonsense(&mut self) -> u64 {
        self.noise = self.noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let word = self.noise ^ self.noise >> 29;
        match word >> 60 {
            0..4 => word & 3,
            4..6 => word | 0xffff_ffff_0000_0000,
            6 => u64::MAX,
            _ => word,
        }
    }

    fn register_write(&self, offset: u64, bytes: &[u8]) {
        let Some(words) = words(offset, bytes) else { return };
        for (at, word) in words {
            match at / PART {
                0 if at == regs::EXTOLL_RF_ATU_COMMAND && self.config.trouble() == Trouble::Mute => {}
                0 => self.nic.reg_write(at, word),
                1 => self.nic.velo_store(at - regs::EXTOLL_BAR0_VELO, &[word]),
                2 => self.nic.requester_store(at - regs::EXTOLL_BAR0_RMA, word),
                _ => {}
            }
        }
    }

    fn register_read(&mut self, offset: u64, out: &mut [u8]) {
        if !offset.is_multiple_of(8) || !out.len().is_multiple_of(8) {
            return out.fill(0); // 64-bit accesses only (spec 1.2)
        }
        for (i, word) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let at = offset.saturating_add(8 * i as u64);
            let value = match self.config.trouble() {
                Trouble::Nonsense => self.nonsense(),
                _ if at < PART => self.nic.reg_read(at),
                _ => u64::MAX,
            };
            *word = value.to_le_bytes();
        }
    }
}

/// Aligned words and their offsets; `None` for any other access: the card's BAR 0 takes none (spec 1.2).
fn words(offset: u64, bytes: &[u8]) -> Option<impl Iterator<Item = (u64, u64)>> {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = offset.is_multiple_of(8) && rest.is_empty();
    let place = move |i| offset.saturating_add(8 * i as u64);
    whole.then(|| words.iter().enumerate().map(move |(i, word)| (place(i), u64::from_le_bytes(*word))))
}

/// A card as after power on, and what management writes.
fn switch_on(
    setup: &CardSetup,
    bar: &SharedFile,
    memory: &Arc<GuestMemory>,
    interrupts: &Arc<Interrupts>,
) -> Result<(Arc<Nic>, Arc<Joined>), CardError> {
    let fabric = Joined::new(setup.network.clone(), setup.node);
    let config = NicConfig::new(setup.node, memory.clone(), fabric.clone());
    let config = NicConfig { driver: Some(NicThreads::global()), shared: setup.nodes.clone(), ..config };
    let nic = Nic::over_bar(config, bar.fd())?;
    let lines = interrupts.clone();
    nic.on_interrupt(move || {
        // Nobody listens before the driver asks for interrupts.
        lines.raise(0);
    });
    nic.reg_write(regs::EXTOLL_RF_INFO_NETWORK_STATE, setup.network_state);
    Ok((nic, fabric))
}

impl Device for Card {
    fn regions(&self) -> Vec<Region<'_>> {
        let mapped = if self.setup.trap { Vec::new() } else { MAPPED_REGISTERS.to_vec() };
        let registers = Region { index: 0, bytes: BAR0_BYTES, mapped, file: Some(self.bar.fd()) };
        let window =
            Region { index: 2, bytes: regs::EXTOLL_SMFU_WINDOW_BYTES, mapped: Vec::new(), file: None };
        vec![registers, window]
    }

    fn irqs(&self) -> Vec<(u32, u32)> {
        let msix = if self.setup.msix { MSIX_VECTORS } else { 0 };
        vec![(MSI, MSI_VECTORS), (MSIX, msix)]
    }

    fn config(&mut self) -> &mut ConfigSpace {
        &mut self.config
    }

    fn changed(&mut self, change: Change) {
        if change.reset {
            self.try_reset();
        }
        if self.config.trouble() == Trouble::Dead {
            tracing::error!("node {}: told to end", self.setup.node);
            std::process::exit(4);
        }
        self.memory.set_master(self.config.bus_master() && self.there());
        self.joined.keep_answers(self.config.trouble() == Trouble::Late);
    }

    fn bar_read(&mut self, bar: u32, offset: u64, out: &mut [u8]) {
        if bar == 0 {
            self.config.count(false);
        }
        match bar {
            0 if self.there() => self.register_read(offset, out),
            2 if self.there() => {
                let loaded = self.nic.smfu_load(offset, out, self.patience.of_load(Instant::now()));
                self.patience.ended(loaded.is_ok(), Instant::now());
                if let Err(error) = loaded {
                    tracing::debug!("node {}: {error}", self.setup.node);
                    out.fill(0xff); // as an access that nobody answers
                }
            }
            _ => out.fill(0xff),
        }
    }

    fn bar_write(&mut self, bar: u32, offset: u64, bytes: &[u8]) {
        if bar == 0 {
            self.config.count((PART..3 * PART).contains(&offset));
        }
        match bar {
            0 if self.there() => self.register_write(offset, bytes),
            2 if self.there() => {
                if let Err(error) = self.nic.smfu_store(offset, bytes) {
                    tracing::debug!("node {}: {error}", self.setup.node);
                }
            }
            _ => {}
        }
    }

    fn guest_memory(&self) -> Option<&Arc<GuestMemory>> {
        Some(&self.memory)
    }

    fn lines(&self) -> Option<&Arc<Interrupts>> {
        Some(&self.interrupts)
    }

    fn reset_device(&mut self) {
        self.try_reset();
    }
}

//! Address translation: network logical addresses, translation tables, commands (spec 4.1).

use crate::bindings as facts;
use crate::bits::{Field, OutOfRange, words_of_bits};
use std::fmt;

const NLA_OFFSET: Field = Field::new(facts::EXTOLL_NLA_OFFSET_SHIFT, facts::EXTOLL_NLA_OFFSET_BITS);
const NLA_ENTRY: Field = Field::new(facts::EXTOLL_NLA_ENTRY_SHIFT, facts::EXTOLL_NLA_ENTRY_BITS);
const NLA_TABLE: Field = Field::new(facts::EXTOLL_NLA_TABLE_SHIFT, facts::EXTOLL_NLA_TABLE_BITS);
const NLA: Field = Field::new(0, facts::EXTOLL_NLA_BITS);
const GAT_TABLE: Field = Field::new(facts::EXTOLL_GAT_PAGE_SHIFT, facts::EXTOLL_GAT_PAGE_BITS);
const GAT_VALID: Field = Field::new(facts::EXTOLL_GAT_VALID_SHIFT, facts::EXTOLL_GAT_VALID_BITS);
const GAT_SHIFT: u32 = 21;
const GATE_ACCESS: Field = Field::new(facts::EXTOLL_GATE_ACCESS_SHIFT, facts::EXTOLL_GATE_ACCESS_BITS);
const GATE_VPID: Field = Field::new(facts::EXTOLL_GATE_VPID_SHIFT, facts::EXTOLL_GATE_VPID_BITS);
const GATE_PAGE: Field = Field::new(facts::EXTOLL_GATE_PAGE_SHIFT, facts::EXTOLL_GATE_PAGE_BITS);
const GATE_SIZE: Field = Field::new(facts::EXTOLL_GATE_SIZE_SHIFT, facts::EXTOLL_GATE_SIZE_BITS);
const COMMAND_OP: Field = Field::new(facts::EXTOLL_ATU_OP_SHIFT, facts::EXTOLL_ATU_OP_BITS);
const FLUSH_COUNT: Field =
    Field::new(facts::EXTOLL_ATU_FLUSH_COUNT_SHIFT, facts::EXTOLL_ATU_FLUSH_COUNT_BITS);
const FLUSH_PAGE: Field = Field::new(facts::EXTOLL_ATU_FLUSH_PAGE_SHIFT, facts::EXTOLL_ATU_FLUSH_PAGE_BITS);
const FLUSH_VPID: Field = Field::new(facts::EXTOLL_ATU_FLUSH_VPID_SHIFT, facts::EXTOLL_ATU_FLUSH_VPID_BITS);
const NOTIFY_ADDRESS: Field = Field::new(facts::EXTOLL_ATU_NOTIFY_SHIFT, facts::EXTOLL_ATU_NOTIFY_BITS);
const PAGE_SHIFT: u32 = 12;

/// Network logical address: byte `offset` of page `entry` of table `table`. 40 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Nla(u64);

impl Nla {
    /// Entries of one table: it covers 1 GiB.
    pub const ENTRIES: u32 = facts::EXTOLL_GAT_ENTRIES as u32;
    /// Tables of the card.
    pub const TABLES: u32 = facts::EXTOLL_GAT_TABLES as u32;
    /// A range that was given back rests until so many pages together were given back after it.
    pub const REST_PAGES: u64 = facts::EXTOLL_NLA_REST_PAGES;
    /// The same, ranges.
    pub const REST_RANGES: u64 = facts::EXTOLL_NLA_REST_RANGES;

    /// The address of a byte.
    pub const fn new(table: u32, entry: u32, offset: u32) -> Result<Nla, OutOfRange> {
        let table = match NLA_TABLE.check("NLA table", table as u64) {
            Ok(table) => table,
            Err(error) => return Err(error),
        };
        let entry = match NLA_ENTRY.check("NLA entry", entry as u64) {
            Ok(entry) => entry,
            Err(error) => return Err(error),
        };
        match NLA_OFFSET.check("NLA offset", offset as u64) {
            Ok(offset) => Ok(Nla(NLA_TABLE.put(table) | NLA_ENTRY.put(entry) | NLA_OFFSET.put(offset))),
            Err(error) => Err(error),
        }
    }

    /// The address with these bits, or `None` beyond 40 bits.
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<Nla> {
        if raw <= NLA.max() { Some(Nla(raw)) } else { None }
    }

    /// The 40 bits.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Table, 0 to 1023.
    #[inline]
    pub const fn table(self) -> u32 {
        NLA_TABLE.get(self.0) as u32
    }

    /// Entry in the table, 0 to 262143.
    #[inline]
    pub const fn entry(self) -> u32 {
        NLA_ENTRY.get(self.0) as u32
    }

    /// Byte in the page, 0 to 4095.
    #[inline]
    pub const fn offset(self) -> u32 {
        NLA_OFFSET.get(self.0) as u32
    }

    /// Page number over all tables: 28 bits.
    #[inline]
    pub const fn page(self) -> u32 {
        (self.0 >> PAGE_SHIFT) as u32
    }

    /// The address `bytes` further on, or `None` beyond the last table.
    #[inline]
    pub const fn checked_add(self, bytes: u64) -> Option<Nla> {
        match self.0.checked_add(bytes) {
            Some(raw) => Nla::from_raw(raw),
            None => None,
        }
    }
}

impl From<Nla> for u64 {
    fn from(nla: Nla) -> u64 {
        nla.0
    }
}

impl fmt::Display for Nla {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NLA {:#x}", self.0)
    }
}

impl fmt::Debug for Nla {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nla({:#x})", self.0)
    }
}

bitflags::bitflags! {
    /// What a translation allows; nothing: the entry is invalid.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Access: u8 {
        /// The card may read.
        const READ = facts::EXTOLL_GATE_READ as u8;
        /// The card may write.
        const WRITE = facts::EXTOLL_GATE_WRITE as u8;
    }
}
words_of_bits!(Access, none "invalid", str::to_lowercase);

/// Page size of a translation: 4 KiB shifted by the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum PageSize {
    /// 4 KiB: all that the driver of the card ever used.
    #[default]
    K4 = 0,
    /// 64 KiB: a page of some GPUs.
    K64 = 4,
    /// 2 MiB.
    M2 = 9,
    /// 1 GiB.
    G1 = 18,
}

impl PageSize {
    /// Bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        4096 << self as u32
    }

    /// The size of a code, or `None` where the specification has none.
    #[inline]
    pub const fn from_code(code: u8) -> Option<PageSize> {
        Some(match code {
            0 => PageSize::K4,
            4 => PageSize::K64,
            9 => PageSize::M2,
            18 => PageSize::G1,
            _ => return None,
        })
    }
}

/// Why a translation value cannot be made, or is not one.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AtuError {
    /// Not aligned, or too far up.
    #[error("address {address:#x} must be a multiple of {align} below 2^52: align the memory")]
    Address {
        /// The address given.
        address: u64,
        /// Alignment needed.
        align: u64,
    },
    /// A valid translation that allows nothing.
    #[error("a translation must allow reads or writes: use Gate::INVALID to remove one")]
    NoAccess,
    /// A page-size code without a meaning.
    #[error("page size code {0} has no meaning: use 0, 4, 9 or 18")]
    PageSize(u8),
    /// A field is too large.
    #[error(transparent)]
    Field(#[from] OutOfRange),
    /// Flush of no pages or more than 1024.
    #[error("a flush covers 1 to 1024 pages, not {0}: issue several")]
    FlushCount(u32),
    /// An ATU command code without a meaning.
    #[error("ATU command {0} has no meaning: use 1 to 4")]
    Command(u8),
}

ggas_errors::debug_as_display!(AtuError);

/// Entry of a translation table (GATe): where a page lies, whose it is, what it allows. 0 is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Gate(pub u64);

impl Gate {
    /// No translation.
    pub const INVALID: Gate = Gate(0);

    /// The translation of one page. `address` is a bus address, aligned to the page size.
    pub const fn new(vpid: u8, access: Access, address: u64, size: PageSize) -> Result<Gate, AtuError> {
        if access.is_empty() {
            return Err(AtuError::NoAccess);
        }
        let align = size.bytes();
        if address & (align - 1) != 0 || address >> PAGE_SHIFT > GATE_PAGE.max() {
            return Err(AtuError::Address { address, align });
        }
        Ok(Gate(
            GATE_ACCESS.put(access.bits() as u64)
                | GATE_VPID.put(vpid as u64)
                | GATE_PAGE.put(address >> PAGE_SHIFT)
                | GATE_SIZE.put(size as u64),
        ))
    }

    /// Whether the entry translates anything.
    #[inline]
    pub const fn is_valid(self) -> bool {
        GATE_ACCESS.get(self.0) != 0
    }

    /// What it allows.
    #[inline]
    pub const fn access(self) -> Access {
        Access::from_bits_truncate(GATE_ACCESS.get(self.0) as u8)
    }

    /// Owner: 10 bits, of which VPIDs use 8.
    #[inline]
    pub const fn vpid(self) -> u16 {
        GATE_VPID.get(self.0) as u16
    }

    /// Bus address of the page.
    #[inline]
    pub const fn address(self) -> u64 {
        GATE_PAGE.get(self.0) << PAGE_SHIFT
    }

    /// Page size, or the code that has no meaning.
    #[inline]
    pub const fn page_size(self) -> Result<PageSize, AtuError> {
        let code = GATE_SIZE.get(self.0) as u8;
        match PageSize::from_code(code) {
            Some(size) => Ok(size),
            None => Err(AtuError::PageSize(code)),
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("access", &self.access())
            .field("vpid", &self.vpid())
            .field("address", &format_args!("{:#x}", self.address()))
            .field("page_size", &self.page_size())
            .finish()
    }
}

/// Register that points to a translation table of 2 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct GatRegister(pub u64);

impl GatRegister {
    /// No table.
    pub const INVALID: GatRegister = GatRegister(0);

    /// The table at this bus address, a multiple of 2 MiB.
    pub const fn new(address: u64) -> Result<GatRegister, AtuError> {
        if address & ((1 << GAT_SHIFT) - 1) != 0 || address >> GAT_SHIFT > GAT_TABLE.max() {
            return Err(AtuError::Address { address, align: 1 << GAT_SHIFT });
        }
        Ok(GatRegister(GAT_VALID.put(1) | GAT_TABLE.put(address >> GAT_SHIFT)))
    }

    /// Bus address of the table, if there is one.
    #[inline]
    pub const fn table(self) -> Option<u64> {
        if GAT_VALID.is_set(self.0) { Some(GAT_TABLE.get(self.0) << GAT_SHIFT) } else { None }
    }
}

/// What software writes to the ATU's command register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtuCommand {
    /// Forget the translations of `count` pages from `page` on (an NLA's page number).
    FlushPages {
        /// First page, 28 bits.
        page: u32,
        /// Pages, 1 to 1024.
        count: u32,
    },
    /// Forget the translations of a VPID (10 bits).
    FlushVpid(u16),
    /// Later commands wait for earlier ones.
    Fence,
    /// Write a value that is not 0 to this bus address (48 bits) once earlier flushes are complete.
    Notify(u64),
}

impl AtuCommand {
    /// The register's value.
    pub fn encode(self) -> Result<u64, AtuError> {
        let (op, parameter) = match self {
            AtuCommand::FlushPages { page, count } => {
                if count == 0 || count as u64 - 1 > FLUSH_COUNT.max() {
                    return Err(AtuError::FlushCount(count));
                }
                let page = FLUSH_PAGE.check("NLA page", page as u64)?;
                (facts::EXTOLL_ATU_OP_FLUSH_PAGES, FLUSH_COUNT.put(count as u64 - 1) | FLUSH_PAGE.put(page))
            }
            AtuCommand::FlushVpid(vpid) => {
                (facts::EXTOLL_ATU_OP_FLUSH_VPID, FLUSH_VPID.check("VPID", vpid as u64)?)
            }
            AtuCommand::Fence => (facts::EXTOLL_ATU_OP_FENCE, 0),
            AtuCommand::Notify(address) => {
                (facts::EXTOLL_ATU_OP_NOTIFY, NOTIFY_ADDRESS.check("notify address", address)?)
            }
        };
        Ok(COMMAND_OP.put(op) | parameter)
    }

    /// The command of a value written to the register.
    pub fn decode(value: u64) -> Result<AtuCommand, AtuError> {
        Ok(match COMMAND_OP.get(value) {
            facts::EXTOLL_ATU_OP_FLUSH_PAGES => AtuCommand::FlushPages {
                page: FLUSH_PAGE.get(value) as u32,
                count: FLUSH_COUNT.get(value) as u32 + 1,
            },
            facts::EXTOLL_ATU_OP_FLUSH_VPID => AtuCommand::FlushVpid(FLUSH_VPID.get(value) as u16),
            facts::EXTOLL_ATU_OP_FENCE => AtuCommand::Fence,
            facts::EXTOLL_ATU_OP_NOTIFY => AtuCommand::Notify(NOTIFY_ADDRESS.get(value)),
            op => return Err(AtuError::Command(op as u8)),
        })
    }
}

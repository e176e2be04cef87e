//! Packets as text, as tests of the codec read them: one a line, `guest packet`, the packet in hexadecimal from its IPv4
//! header on.

use crate::roce;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Packets of one kind that are recorded: more of them say nothing new.
const OF_A_KIND: u32 = 4;
/// Where the opcode of the base transport header is, behind IPv4's header without options and UDP's; and in an acknowledge
/// its syndrome.
const OPCODE: usize = 28;
const SYNDROME: usize = OPCODE + 12;
const ACKNOWLEDGE: u8 = 0x11;

/// Writes the first packets of each kind to a file.
pub struct Record {
    file: BufWriter<File>,
    seen: BTreeMap<(usize, u8, u8, usize), u32>,
}

impl Record {
    pub fn create(path: &Path) -> Result<Record> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Record { file: BufWriter::new(file), seen: BTreeMap::new() })
    }

    /// Notes a frame if it is a packet of a kind that was not seen often: who sends it, its opcode, what an acknowledge
    /// says, and how long it is, in multiples of 256 bytes.
    pub fn note(&mut self, guest: usize, frame: &[u8]) -> Result<()> {
        let Some(packet) = roce::packet(frame) else { return Ok(()) };
        let Some(opcode) = packet.get(OPCODE) else { return Ok(()) };
        let syndrome = packet.get(SYNDROME).filter(|_| *opcode == ACKNOWLEDGE).copied().unwrap_or_default();
        let seen = self.seen.entry((guest, *opcode, syndrome, packet.len() / 256)).or_default();
        *seen += 1;
        if *seen <= OF_A_KIND {
            let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(self.file, "{guest} {hex}")?;
            self.file.flush()?;
        }
        Ok(())
    }
}

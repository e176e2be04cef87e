//! The register file as a tree of text files, as old clients look for it (spec 9.5).
//!
//! Such a client reads `extoll_rf_<path>` in the folder that the environment variable [`VARIABLE`] names, or in
//! `/sys/bus/pci/devices/<bdf>/extoll_rf`, which the old driver made. [`render`] makes the files of any device, and
//! [`write()`] puts them into a folder. They show the registers as they were then, and take no writes.
//!
//! | file | content |
//! |---|---|
//! | a register | a line `field [hi:lo] : hex;` for each field |
//! | an array | a line `index [63:0] : hex;` for each element \[inferred\] |
//! | an array of more than 128 | the same, 128 elements a file: `_p0`, `_p1` ... |
//! | each of them with `_raw` behind its name | bare hex; of an array a line for each element \[inferred\] |
//!
//! Numbers have neither `0x` nor leading zeros \[inferred\]. That an element of an array takes one line follows from its
//! pages: 128 elements have 32 bytes each in what sysfs gives out at once. See [`REGISTERS`] for what is inferred
//! of the names.
//!
//! ```
//! use ggas_device::{sim::SimNetwork, tree};
//!
//! let network = SimNetwork::builder().nodes(2).build()?;
//! let files = tree::render(&*network.device(0)?)?;
//! let link = files.iter().find(|file| file.name == "extoll_rf_nw_lp_top_rf_lp0_status");
//! assert!(link.is_some_and(|link| link.text.contains("ready [1:1] : 1;\n")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod folder;
mod table;

pub use folder::{TreeError, write};
pub use table::REGISTERS;

use std::fmt::Write;

use crate::{Device, DeviceError};

/// The environment variable that tells old clients where the tree is.
pub const VARIABLE: &str = "EXTOLL_R2_SYSFS";
/// What the names of all files begin with.
const PREFIX: &str = "extoll_rf_";
/// Behind the names of files of bare numbers.
const RAW: &str = "_raw";
/// Elements of an array in a file.
const PAGE_ELEMENTS: usize = 128;

/// A register, or several alike.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Its path without `extoll_rf_`; where each of several has a name of its own, its number goes where `{}` is.
    name: &'static str,
    /// Of the first: byte offset in BAR 0.
    offset: u64,
    place: Place,
    fields: &'static [Bits],
}

/// How many there are, and where.
#[derive(Clone, Copy, Debug)]
enum Place {
    Alone,
    /// Under one name.
    Array {
        stride: u64,
        count: usize,
    },
    /// Each under a name of its own.
    Numbered {
        stride: u64,
        count: usize,
    },
}

/// A field of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Its name.
    pub name: &'static str,
    /// Its highest bit.
    pub high: u32,
    /// Its lowest bit.
    pub low: u32,
}

impl Bits {
    /// Value of the field in a register's value.
    pub fn get(&self, value: u64) -> u64 {
        value >> self.low & u64::MAX >> (63 - (self.high - self.low))
    }
}

impl Register {
    /// Its fields, from the lowest bit on.
    pub fn fields(&self) -> &'static [Bits] {
        self.fields
    }

    /// Reads it: each name with the values there, more than one where it is an array.
    ///
    /// # Errors
    /// Those of [`Device::read_register`].
    pub fn read(&self, device: &dyn Device) -> Result<Vec<Reading>, DeviceError> {
        let value = |stride: u64, i: usize| device.read_register(self.offset + stride * i as u64);
        match self.place {
            Place::Alone => Ok(vec![self.reading(self.name.to_owned(), vec![value(0, 0)?], false)]),
            Place::Array { stride, count } => {
                let values = (0..count).map(|i| value(stride, i)).collect::<Result<_, _>>()?;
                Ok(vec![self.reading(self.name.to_owned(), values, true)])
            }
            Place::Numbered { stride, count } => {
                let one = |i: usize| {
                    let name = self.name.replace("{}", &i.to_string());
                    Ok(self.reading(name, vec![value(stride, i)?], false))
                };
                (0..count).map(one).collect()
            }
        }
    }

    fn reading(&self, name: String, values: Vec<u64>, is_array: bool) -> Reading {
        Reading { name, values, is_array, fields: self.fields }
    }
}

/// What a register, or an array, held.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Its path without `extoll_rf_`.
    pub name: String,
    /// Value of the register, or of each element.
    pub values: Vec<u64>,
    /// Whether it is an array, also of one element.
    pub is_array: bool,
    /// Its fields, from the lowest bit on.
    pub fields: &'static [Bits],
}

/// A file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name in the tree's folder.
    pub name: String,
    /// Its content.
    pub text: String,
}

impl Reading {
    /// The files that show it: fields and bare numbers, for each page.
    pub fn files(&self) -> Vec<File> {
        let paged = self.values.len() > PAGE_ELEMENTS;
        let mut files = Vec::new();
        for (page, values) in self.values.chunks(PAGE_ELEMENTS).enumerate() {
            let name = match paged {
                true => format!("{PREFIX}{}_p{page}", self.name),
                false => format!("{PREFIX}{}", self.name),
            };
            let raw = values.iter().fold(String::new(), |text, value| text + &format!("{value:x}\n"));
            let text = match self.is_array {
                true => elements(page * PAGE_ELEMENTS, values),
                false => values.iter().map(|value| field_lines(self.fields, *value)).collect(),
            };
            files.push(File { name: format!("{name}{RAW}"), text: raw });
            files.push(File { name, text });
        }
        files
    }
}

fn field_lines(fields: &[Bits], value: u64) -> String {
    let mut text = String::new();
    for bits in fields {
        let _ = writeln!(text, "{} [{}:{}] : {:x};", bits.name, bits.high, bits.low, bits.get(value));
    }
    text
}

fn elements(first: usize, values: &[u64]) -> String {
    let mut text = String::new();
    for (i, value) in values.iter().enumerate() {
        let _ = writeln!(text, "{} [63:0] : {value:x};", first + i);
    }
    text
}

/// All files of the tree, from what the device's registers hold now.
///
/// # Errors
/// Those of [`Device::read_register`].
pub fn render(device: &dyn Device) -> Result<Vec<File>, DeviceError> {
    let mut files = Vec::new();
    for register in REGISTERS {
        let readings = register.read(device)?;
        files.extend(readings.iter().flat_map(Reading::files));
    }
    Ok(files)
}

#[cfg(test)]
mod tests;

//! `ggas registers`: the register file, for people or as the tree that old clients look for.

use crate::failure::{Failure, chain};
use crate::{info, out};
use ggas_benches::Via;
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_device::tree::{self, REGISTERS, Reading};
use ggas_device::{Device, hw};
use ggas_members::{JobError, Member};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args)]
pub struct RegistersArgs {
    /// Registers whose names contain one of these, such as lp0_status or vpid_table; none: all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Make the tree of files that old clients look for in this folder, instead of printing
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Whose registers: sim (a node of the network of the software EXTOLL that a program started here would join) or hw (a
    /// card); else GGAS_DEVICE says it, else it is the card where there is one
    #[arg(long, value_name = "KIND")]
    via: Option<Via>,
    /// Which node of the network; else GGAS_NODE says it
    #[arg(long, value_name = "I")]
    node: Option<u16>,
}

pub fn run(args: &RegistersArgs) -> Result<(), Failure> {
    let device = device(args.via, args.node)?;
    let readings = read(&*device, &args.names)?;
    match &args.write {
        Some(folder) => write(&readings, folder),
        None => out::print(&readings.iter().map(show).collect::<String>()),
    }
}

/// The device whose registers are meant.
pub fn device(via: Option<Via>, node: Option<u16>) -> Result<Arc<dyn Device>, Failure> {
    match info::via(via, None, None)? {
        Via::Sim => {
            let failed = |error: &dyn std::error::Error| Failure::Failed(chain(error));
            let member = Member::join_beside(node).map_err(|error| match error {
                JobError::NoSuchNode { .. } | JobError::Setting { .. } => Failure::Usage(chain(&error)),
                error => failed(&error),
            })?;
            let fabric = ProcessFabric::join(member).map_err(|error| failed(&error))?;
            let network = SimNetwork::join(fabric).map_err(|error| failed(&error))?;
            network.device(0).map_err(|error| failed(&error))
        }
        Via::Hw => hw::open().map_err(|error| Failure::Failed(chain(&error))),
        Via::Nvlink => Err(Failure::Usage("nvlink: GPUs have no register file; use --via sim or hw".into())),
    }
}

fn read(device: &dyn Device, names: &[String]) -> Result<Vec<Reading>, Failure> {
    let mut readings = Vec::new();
    for register in REGISTERS {
        readings.extend(register.read(device).map_err(|error| Failure::Failed(chain(&error)))?);
    }
    if let Some(name) = names.iter().find(|name| !readings.iter().any(|reading| is_meant(reading, name))) {
        let why = format!("no register has `{name}` in its name: `ggas registers` without a name prints all");
        return Err(Failure::Usage(why));
    }
    readings.retain(|reading| names.is_empty() || names.iter().any(|name| is_meant(reading, name)));
    Ok(readings)
}

/// Names may be given as those of the files, too.
fn is_meant(reading: &Reading, name: &str) -> bool {
    let name = name.strip_prefix("extoll_rf_").unwrap_or(name);
    reading.name.contains(name)
}

fn write(readings: &[Reading], folder: &Path) -> Result<(), Failure> {
    let files: Vec<_> = readings.iter().flat_map(Reading::files).collect();
    tree::write(&files, folder).map_err(|error| Failure::Failed(error.to_string()))?;
    // Clients may run elsewhere.
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    out::note(&format!("{} files; for old clients:\n", files.len()));
    out::print(&format!("export {}={}\n", tree::VARIABLE, quoted(&path.to_string_lossy())))
}

/// As a shell reads it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    match text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The register's name, and a line for each field; of an array the elements that are not 0.
fn show(reading: &Reading) -> String {
    if !reading.is_array {
        let value = reading.values.first().copied().unwrap_or(0);
        return format!("{}\n{}", reading.name, fields(reading, value));
    }
    let mut text = String::new();
    let zeros = reading.values.iter().filter(|value| **value == 0).count();
    if zeros > 0 {
        let _ = writeln!(text, "{}\n  {zeros} of {} are 0", reading.name, reading.values.len());
    }
    for (i, value) in reading.values.iter().enumerate().filter(|(_, value)| **value != 0) {
        let _ = write!(text, "{}[{i}]\n{}", reading.name, fields(reading, *value));
    }
    text
}

fn fields(reading: &Reading, value: u64) -> String {
    let width = reading.fields.iter().map(|bits| bits.name.len()).fold(14, usize::max);
    let mut text = String::new();
    for bits in reading.fields {
        let _ = writeln!(text, "  {:<width$} {:#x}", bits.name, bits.get(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_export_is_what_a_shell_understands() {
        assert_eq!(quoted("/tmp/tree-1"), "/tmp/tree-1");
        assert_eq!(quoted("/tmp/a b; rm $x"), "'/tmp/a b; rm $x'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}

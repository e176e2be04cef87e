//! Kernels as guests boot them: unpacked, at the entry for PVH (Debian's have it). Where the processor is emulated a
//! guest takes one to six seconds to unpack its kernel, which this machine does once in a moment.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How packed data begins, and the program that unpacks it.
const PACKERS: [(&[u8], &str); 2] = [(b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")];
/// These programs, and their packages.
pub const TOOLS: [(&str, &str); 2] = [("xz", "xz-utils"), ("zstd", "zstd")];
const SECTOR: usize = 512;

/// What is in a `vmlinuz`: an ELF file in the same folder, made once. One that is packed otherwise boots as it is.
pub fn unpacked(packed: &Path) -> Result<PathBuf> {
    let elf = packed.with_file_name("vmlinux");
    if elf.exists() {
        return Ok(elf);
    }
    let image = fs::read(packed).with_context(|| format!("no {}", packed.display()))?;
    let payload = payload(&image).with_context(|| format!("{} is no bzImage", packed.display()))?;
    let Some((_, program)) = PACKERS.iter().find(|(magic, _)| payload.starts_with(magic)) else {
        return Ok(packed.to_path_buf());
    };
    let (from, to) = (elf.with_extension("packed"), elf.with_extension("part"));
    fs::write(&from, payload)?;
    let mut unpack = Command::new(program);
    unpack.arg("-dc").stdin(File::open(&from)?).stdout(File::create(&to)?).stderr(Stdio::inherit());
    let status = unpack.status().with_context(|| format!("{program} does not run"))?;
    if !status.success() || !fs::read(&to)?.starts_with(b"\x7fELF") {
        bail!("{program} finds no kernel in {}: {status}", packed.display());
    }
    fs::remove_file(&from)?;
    fs::rename(&to, &elf)?;
    Ok(elf)
}

/// The packed kernel in a bzImage (the kernel's Documentation/arch/x86/boot.rst: setup_sects, version, payload_offset and
/// payload_length), less the four bytes behind it, which tell its size and are none of the packer's.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    let version = u16::from_le_bytes(image.get(0x206..0x208)?.try_into().ok()?);
    if image.get(0x202..0x206)? != b"HdrS" || version < 0x208 {
        return None;
    }
    let sectors = if image[0x1f1] == 0 { 4 } else { image[0x1f1].into() };
    let start = (sectors + 1) * SECTOR + word(0x248)?;
    image.get(start..start + word(0x24c)?.checked_sub(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bzImage of protocol 2.15 with one sector of setup, and this behind ten bytes of other code.
    fn bz_image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR + 10];
        image[0x1f1] = 1;
        image[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
        image[0x248..0x24c].copy_from_slice(&10_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(b"what follows");
        image
    }

    #[test]
    fn the_packed_kernel_is_where_the_header_says() {
        assert_eq!(payload(&bz_image(b"packed\0\0\0\0")), Some(&b"packed"[..]));
        assert_eq!(payload(&bz_image(b"")), None, "no room for the size");
        assert_eq!(payload(&bz_image(b"packed\0\0\0\0")[..2 * SECTOR + 12]), None, "cut short");
        assert_eq!(payload(b"\x7fELF"), None);
        let mut old = bz_image(b"packed\0\0\0\0");
        old[0x206] = 7;
        assert_eq!(payload(&old), None, "a protocol without these fields");
    }

    #[test]
    fn a_kernel_that_is_packed_otherwise_boots_as_it_is() {
        let dir = std::env::temp_dir().join(format!("extoll-image-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let packed = dir.join("vmlinuz-1");
        fs::write(&packed, bz_image(b"\x1f\x8b gzip\0\0\0\0")).unwrap();
        assert_eq!(unpacked(&packed).unwrap(), packed);
        fs::write(&packed, b"no kernel").unwrap();
        assert!(unpacked(&packed).unwrap_err().to_string().ends_with("is no bzImage"));
        fs::remove_dir_all(&dir).unwrap();
    }
}

//! A guest's root file system: a cpio archive in memory, as the kernel unpacks it at boot.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive in the `newc` format.
#[derive(Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    files: u32,
    folders: BTreeSet<String>,
}

impl Initramfs {
    /// Adds a folder, and those above it.
    pub fn folder(&mut self, path: &str) {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            if self.folders.insert(path[..end].to_owned()) {
                self.entry(&path[..end], DIRECTORY, &[]);
            }
        }
    }

    /// Adds a file that may be executed, in a folder that is made where it is not there.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        self.entry(path, PROGRAM, content);
    }

    /// Adds a file of this machine.
    pub fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        let content = fs::read(from).with_context(|| format!("no {}", from.display()))?;
        self.file(path, &content);
        Ok(())
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.files += 1;
        let (inode, size, name) = (self.files, content.len() as u32, path.len() as u32 + 1);
        let links = if mode == DIRECTORY { 2 } else { 1 };
        self.bytes.extend_from_slice(b"070701");
        for field in [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0] {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_headers_names_and_contents_at_words() {
        let mut files = Initramfs::default();
        files.file("a/b/x", b"hello");
        files.folder("a");
        let bytes = files.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 4, "a, a/b, the file, the end");
        let at = text.find("a/b/x\0").unwrap();
        assert_eq!((at - 110) % 4, 0);
        assert_eq!(&text[at + 6..][..5], "hello");
        assert!(text.contains("TRAILER!!!"));
    }
}

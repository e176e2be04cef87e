//! "GPU memory" of a UCX that has it (`ucx_with_gpus.c`), and processes with that.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;

use ggas_wire::{Library, Place, choose_of};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous};

/// Where the bytes of an address of "GPU memory" are, as the stand-in knows.
pub const APART: usize = 64 << 20;

/// Memory of which one half is the host's, and of the other the addresses are a GPU's: whoever touches it by them crashes.
pub struct Memory {
    host: *mut u8,
    gpu: *mut u8,
}

impl Memory {
    pub fn new() -> Memory {
        let (none, all) = (ProtFlags::PROT_NONE, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
        let size = |size| NonZero::new(size).unwrap();
        let file = memfd_create(c"gpu", MFdFlags::empty()).unwrap();
        nix::unistd::ftruncate(&file, 2 * APART as i64).unwrap();
        // SAFETY: new addresses, and then those of their second half.
        let gpu = unsafe { mmap_anonymous(None, size(3 * APART), none, MapFlags::MAP_PRIVATE) }.unwrap();
        let behind = NonZero::new(gpu.as_ptr() as usize + APART);
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        // SAFETY: as above.
        unsafe { mmap(behind, size(2 * APART), all, flags, &file, 0) }.unwrap();
        let gpu = gpu.as_ptr().cast::<u8>();
        Memory { gpu, host: gpu.wrapping_add(2 * APART) }
    }

    pub fn at(&self, place: Place) -> *mut u8 {
        match place {
            Place::Gpu => self.gpu,
            Place::Host => self.host,
        }
    }

    /// The bytes behind an address.
    #[allow(clippy::mut_from_ref, reason = "the memory is shared with the library, which is not at it then")]
    pub fn bytes(&self, place: Place, at: usize, len: usize) -> &mut [u8] {
        let from = match place {
            Place::Gpu => self.gpu.wrapping_add(APART),
            Place::Host => self.host,
        };
        // SAFETY: mapped for ever; nothing is under way when this is called.
        unsafe { std::slice::from_raw_parts_mut(from.add(at), len) }
    }
}

/// Runs a test, which is ignored otherwise, in a process whose UCX has GPUs. Skipped where there is no UCX.
pub fn in_a_child(test: &str, folder: &str) {
    if let Err(error) = choose_of(Library::Ucx) {
        eprintln!("skipped: {error}");
        return;
    }
    let folder = PathBuf::from(folder).join(test.replace("::", "-"));
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libucp-with-gpus.so");
    let source = folder.join("ucx_with_gpus.c");
    std::fs::write(&source, include_str!("ucx_with_gpus.c")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    cc.args(["-Wl,--no-as-needed", "-l:libucp.so.0"]);
    assert!(cc.status().unwrap().success());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .envs([("GGAS_FABRIC", "ucx"), ("GGAS_FABRIC_GPU", "direct")])
        .env("GGAS_UCX", &library)
        .env_remove("UCX_TLS")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}{}", said[0], said[1]);
}

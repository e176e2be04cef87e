//! A GPU's copier as the model knows copiers. The GPU's crate knows no model, and the model no GPUs; both are known
//! here.

use std::sync::Arc;

use extoll_sim::memory::{self, DeviceCopier, RangeKind, TicketState};
use ggas_gpu::{Copier, CopyState, Gpu, GpuError, copier};

const _: () =
    assert!(copier::WRITE_MAX >= memory::WRITE_MAX, "the model may write more than the copier takes");

/// A copier under the trait of the model. It is the same object and the same allocation, so the model sees that two
/// regions have one copier (it compares addresses), and a copy costs no more than one of the copier's own.
#[repr(transparent)]
struct ForModel(Copier);

/// Hands a copier to the model.
fn for_model(copier: Arc<Copier>) -> Arc<dyn DeviceCopier> {
    // SAFETY: `Arc::from_raw` takes a pointer of `Arc::into_raw` to a type of the same size and alignment, and
    // `repr(transparent)` makes the two types one in memory.
    unsafe { Arc::<ForModel>::from_raw(Arc::into_raw(copier).cast()) }
}

/// How memory of a GPU is declared to the model: its copies are the GPU's copier's.
///
/// # Errors
/// Those of [`Copier::of`].
pub fn device_range(gpu: &Gpu) -> Result<RangeKind, GpuError> {
    Ok(RangeKind::Device(for_model(Copier::of(gpu)?)))
}

impl DeviceCopier for ForModel {
    fn copy(&self, destination: u64, source: u64, len: usize) -> u64 {
        // SAFETY: addresses are of declared ranges, which stay allocated until their copies have ended
        // (`HostMemory::add_range`).
        unsafe { self.0.copy(destination, source, len) }
    }

    fn copy_then_entry(&self, dst: u64, src: u64, len: usize, entry: u64, word: [u64; 2]) -> Option<u64> {
        // SAFETY: as above, for the entry too.
        unsafe { self.0.copy_then_entry(dst, src, len, entry, word) }
    }

    fn write_inline(&self, destination: u64, bytes: &[u8]) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.write(destination, bytes) }
    }

    fn poll(&self, id: u64) -> TicketState {
        state(self.0.poll(id))
    }

    fn is_cuda(&self) -> bool {
        true
    }
}

fn state(state: CopyState) -> TicketState {
    match state {
        CopyState::Pending => TicketState::Pending,
        CopyState::Done => TicketState::Done,
        CopyState::Failed => TicketState::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn regions_of_a_gpu_share_its_copier_and_copies_go_through_it() {
        let folder = std::env::temp_dir().join(format!("ggas-libcuda-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/tests/fake_libcuda.c");
        let mut compiler = Command::new("cc");
        let built =
            compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libcuda.so")).arg(source).status();
        assert!(built.unwrap().success());
        // Libcuda is loaded once in a process, so the checks run in a child that finds this one.
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sim::copier::tests::child", "--ignored", "--nocapture"])
            .env("LD_LIBRARY_PATH", &folder)
            .output()
            .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    #[ignore = "runs as the child of the other test, with GPUs whose memory is host memory"]
    fn child() {
        let gpu = Gpu::open(0).unwrap();
        let memory = gpu.alloc(64).unwrap();
        let copier = || for_model(Copier::of(&gpu).unwrap());
        let (one, other) = (copier(), copier());
        assert!(Arc::ptr_eq(&one, &other), "the model would keep two copiers");
        let held = Arc::strong_count(&one);
        drop(other);
        assert_eq!(Arc::strong_count(&one), held - 1, "each is a reference of the copier's own");

        let written = one.write_inline(memory.address(), &[7; 24]);
        let copied = one.copy(memory.address() + 32, memory.address(), 24);
        assert_eq!((one.poll(written), one.poll(copied)), (TicketState::Done, TicketState::Done));
        let mut bytes = [0; 64];
        memory.read(0, &mut bytes).unwrap();
        assert_eq!((&bytes[..24], &bytes[32..56]), (&[7; 24][..], &[7; 24][..]));
        // Without its kernel the copier stores no entries, and the card's model writes them.
        assert_eq!(one.copy_then_entry(memory.address(), memory.address() + 32, 8, 0, [1, 2]), None);
        assert_eq!(one.poll(one.copy(memory.address(), 0, 0)), TicketState::Failed);
        assert_eq!(state(CopyState::Pending), TicketState::Pending);
    }
}

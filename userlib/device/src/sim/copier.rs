//! A GPU's copier as the model knows copiers. The GPU's crate knows no model, and the model no GPUs; both are known
//! here.

use std::sync::Arc;

use extoll_abi::Atomic;
use extoll_sim::memory::{self, DeviceCopier, MemoryError, RangeKind, TicketState};
use ggas_gpu::{AtomicStart, Copier, CopyState, Gpu, GpuError, copier};

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

    fn modify(&self, address: u64, atomic: Atomic) -> Result<Option<u64>, MemoryError> {
        // SAFETY: as above.
        match unsafe { self.0.atomic(address, atomic) } {
            AtomicStart::Started(id) => Ok(Some(id)),
            AtomicStart::Busy => Ok(None),
            AtomicStart::Refused => Err(MemoryError::Device { address }),
        }
    }

    fn take_before(&self, id: u64) -> Option<u64> {
        self.0.take_before(id)
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
    use std::time::Duration;

    use super::*;
    use crate::sim::SimNetwork;
    use crate::{PAGE, Place, SmfuMap, Span};

    const SOON: Duration = Duration::from_secs(60);

    /// Runs a test of these with GPUs whose memory is host memory, and a variable set.
    fn in_a_child(test: &str, variable: Option<&str>) {
        let folder = std::env::temp_dir().join(format!("ggas-libcuda-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/tests/fake_libcuda.c");
        let mut compiler = Command::new("cc");
        let built =
            compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libcuda.so")).arg(source).status();
        assert!(built.unwrap().success());
        // Libcuda is loaded once in a process, so the checks run in a child that finds this one.
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("sim::copier::tests::{test}"), "--ignored", "--nocapture"])
            .env("LD_LIBRARY_PATH", &folder)
            .envs(variable.map(|name| (name, "1")))
            .output()
            .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn regions_of_a_gpu_share_its_copier_and_copies_go_through_it() {
        in_a_child("child", None);
    }

    #[test]
    fn atomics_of_other_nodes_are_the_copiers() {
        in_a_child("atomics_child", Some("FAKE_COPIER"));
    }

    /// Node 1's part is in GPU memory.
    #[test]
    #[ignore = "runs as the child of the other test, with GPUs whose memory is host memory, and a copier that runs"]
    fn atomics_child() {
        const EACH: u64 = 300;
        let network = SimNetwork::builder().nodes(2).build().unwrap();
        let gpu = Gpu::open(0).unwrap();
        let memory = gpu.alloc(PAGE).unwrap();
        let part = Span { address: memory.address(), len: PAGE, place: Place::Gpu(gpu.clone()) };
        let (stride, part_bytes) = (PAGE as u64, PAGE as u64);
        let map =
            |local| SmfuMap { nodes: vec![0, 1], stride, part_bytes, local, uncached: false, window: None };
        let devices = [0, 1].map(|node| network.device(node).unwrap());
        // SAFETY: the memory is dropped behind the windows.
        let far = unsafe { devices[1].map_smfu(&map(Some(part))) }.unwrap();
        // SAFETY: there is none.
        let near = unsafe { devices[0].map_smfu(&map(None)) }.unwrap();
        near.store(stride, &40u64.to_le_bytes()).unwrap();
        let refused = || {
            let error = near.atomic(stride, Atomic::add(2), SOON).unwrap_err().to_string();
            assert!(error.contains("only while its copier runs"), "{error}");
        };
        refused();
        gpu.load(b"image").unwrap();
        let armed = Copier::of(&gpu).unwrap().arm().unwrap();
        assert_eq!(near.atomic(stride, Atomic::add(2), SOON).unwrap(), 40);
        // Of both nodes, with results and without, between stores and loads of another word, and a kernel's own.
        // SAFETY: the word is in the fake GPU's memory, which is mapped here, and is changed by atomics only.
        let word = unsafe { std::sync::atomic::AtomicU64::from_ptr(memory.address() as *mut u64) };
        std::thread::scope(|threads| {
            threads.spawn(|| {
                (0..EACH).for_each(|_| _ = word.fetch_add(1 << 32, std::sync::atomic::Ordering::Relaxed));
            });
            for (window, place) in [(&near, 64), (&near, 72), (&far, 80), (&far, 88)] {
                threads.spawn(move || {
                    for i in 0..EACH {
                        window.store(stride + place, &i.to_le_bytes()).unwrap();
                        window.reduce(stride, Atomic::add(1)).unwrap();
                        window.atomic(stride, Atomic::add(1), SOON).unwrap();
                        let mut seen = [0; 8];
                        window.load(stride + place, &mut seen, SOON).unwrap();
                        assert_eq!(u64::from_le_bytes(seen), i);
                    }
                });
            }
        });
        let sum = near.atomic(stride, Atomic::add(0), SOON).unwrap();
        assert_eq!(sum, EACH << 32 | (42 + 4 * 2 * EACH));
        drop(armed);
        refused();
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
        // Without its kernel the copier stores no entries, and the card's model writes them; it has no atomics.
        assert_eq!(one.copy_then_entry(memory.address(), memory.address() + 32, 8, 0, [1, 2]), None);
        let refused = Err(MemoryError::Device { address: memory.address() });
        assert_eq!(one.modify(memory.address(), Atomic::add(1)), refused);
        assert_eq!(one.poll(one.copy(memory.address(), 0, 0)), TicketState::Failed);
        assert_eq!(state(CopyState::Pending), TicketState::Pending);
    }
}

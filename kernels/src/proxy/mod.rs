//! Accesses of a GPU's kernels to addresses that no GPU has: parts of windows that lie on other hosts.
//!
//! On the CPU executor such addresses are trapped ([`trap`](crate::trap)). Kernels of a GPU are compiled twice: plainly, and with a look
//! at each address that may be trapped (`impl/vocab_cuda_trap.h`). Once a process has a window with trapped parts, its GPU's kernels are
//! those of the second kind: they write what they want into a ring in host memory, and a thread here, the GPU's *proxy*, makes the accesses
//! in the order of the ring. What holds for accesses of the executor holds for these, but for their failure: a kernel cannot be ended, so
//! an access that fails gives ones, all later ones do at once, waits end by `GGAS_ERR_LOST`, and who waits for the launch gets [`LaunchError::Access`].

mod arena;
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, clippy::undocumented_unsafe_blocks)] // as bindgen writes
mod layout;
mod ring;
mod serve;

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ggas_gpu::{Copier, CopierGuard, Module};

pub(crate) use arena::Arena;
pub use serve::Server;

use crate::image;
use crate::launch::{Launch, LaunchError};
use crate::memory::MemoryError;
use crate::processor::{Gpu, Processor};
use crate::trap;
use layout::ggas_proxy_here;

/// The constant of each module that says where trapped addresses are, and the ring.
const HERE: &CStr = c"ggas_proxy_here_now";

/// That of a GPU. Made once and kept: its kernels have the ring's address.
pub(crate) struct Proxy {
    ordinal: usize,
    /// Kernels that look at their addresses.
    modules: Vec<Module>,
    server: Arc<Server>,
    /// Trapped ranges of its kernels, and who serves them while there are some.
    users: Mutex<(usize, Option<JoinHandle<()>>)>,
}

static ALL: Mutex<Vec<&'static Proxy>> = Mutex::new(Vec::new());
/// Whether any GPU ever had one: launches do not look further until then.
static ANY: AtomicBool = AtomicBool::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// That of a GPU which has trapped ranges.
fn in_use(gpu: &ggas_gpu::Gpu) -> Option<&'static Proxy> {
    if !ANY.load(Ordering::Acquire) {
        return None;
    }
    let all = lock(&ALL);
    let used = |proxy: &&'static Proxy| proxy.ordinal == gpu.ordinal() && lock(&proxy.users).0 > 0;
    all.iter().copied().find(used)
}

/// The modules that kernels of a GPU are taken from, while it has trapped ranges.
pub(crate) fn modules_of(gpu: &ggas_gpu::Gpu) -> Option<&'static [Module]> {
    in_use(gpu).map(|proxy| &proxy.modules[..])
}

/// Keeps a GPU's kernels able to use trapped ranges.
pub(crate) struct Serving(&'static Proxy);

impl Serving {
    pub fn new(processor: &Processor, gpu: &Gpu) -> Result<Serving, MemoryError> {
        let ordinal = gpu.device().ordinal();
        let mut all = lock(&ALL);
        let known = all.iter().copied().find(|proxy| proxy.ordinal == ordinal);
        // One at a time: modules have the address of one ring.
        let proxy = match known {
            Some(proxy) => proxy,
            None => {
                let made: &'static Proxy = Box::leak(Box::new(Proxy::new(processor, gpu)?));
                all.push(made);
                ANY.store(true, Ordering::Release);
                made
            }
        };
        drop(all);
        let mut users = lock(&proxy.users);
        if users.1.is_none() {
            users.1 = Some(proxy.server.clone().spawn(ordinal)?);
        }
        users.0 += 1;
        Ok(Serving(proxy))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut users = lock(&self.0.users);
        users.0 -= 1;
        // Kernels that run still would wait for answers for ever; theirs are failures now, and the thread goes on for the next window.
        let runs = self.0.server.running.load(Ordering::Relaxed) > 0;
        if users.0 == 0 && !runs {
            self.0.server.stop();
            if let Some(thread) = users.1.take() {
                // It panics nowhere; and nothing is to be told of it here.
                let _ = thread.join();
            }
        }
    }
}

impl Proxy {
    fn new(processor: &Processor, gpu: &Gpu) -> Result<Proxy, MemoryError> {
        let arena = Arena::here()?;
        let server = Arc::new(Server::new(processor)?);
        let here = ggas_proxy_here { first: arena.first(), bytes: arena.bytes(), proxy: server.address() };
        let load = |fatbin| {
            let module = gpu.device().load(fatbin)?;
            module.set_global(HERE, &[here.first, here.bytes, here.proxy])?;
            Ok(module)
        };
        let modules = image::proxy_fatbins().into_iter().map(load).collect::<Result<_, MemoryError>>()?;
        Ok(Proxy { ordinal: gpu.device().ordinal(), modules, server, users: Mutex::default() })
    }
}

/// Kernels that run, as their proxies know: these look more often meanwhile. What other hosts store to this GPU's memory, and load from there,
/// the copier moves, if there is room for it.
#[derive(Default)]
pub(crate) struct Attended {
    proxies: Vec<&'static Proxy>,
    copiers: Vec<CopierGuard>,
    kernels: String,
}

impl Attended {
    pub fn new<'a>(launches: impl Iterator<Item = &'a Launch<'a>>) -> Attended {
        let mut attended = Attended::default();
        if !ANY.load(Ordering::Acquire) {
            return attended;
        }
        let mut names: Vec<&str> = Vec::new();
        for launch in launches {
            let Processor::Gpu(gpu) = launch.processor else { continue };
            let Some(proxy) = in_use(gpu.device()) else { continue };
            if !attended.proxies.iter().any(|known| known.ordinal == proxy.ordinal) {
                proxy.server.running.fetch_add(1, Ordering::Relaxed);
                attended.proxies.push(proxy);
                attended.copiers.extend(Copier::in_use(gpu.device()).and_then(|copier| copier.arm().ok()));
            }
            if !names.contains(&launch.kernel) {
                names.push(launch.kernel);
            }
        }
        attended.kernels = names.join(", ");
        attended
    }

    /// Behind the end of the kernels: what they posted is performed, and the first that failed is told.
    pub fn finish(&self) -> Result<(), LaunchError> {
        if self.proxies.is_empty() {
            return Ok(());
        }
        for proxy in &self.proxies {
            proxy.server.catch_up().map_err(LaunchError::Memory)?;
        }
        // As behind kernels of the executor, of nodes that do not answer stores are lost.
        if let Err(failed) = trap::settle() {
            tracing::debug!(
                "stores of kernels that ended may not have come: {}: {}",
                failed.place,
                failed.source
            );
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// The same behind kernels that may not have ended: what failed, if something did.
    pub fn failure(&self) -> Option<LaunchError> {
        // Of each GPU, or it would be that of the next launch there.
        let failures: Vec<_> =
            self.proxies.iter().filter_map(|proxy| proxy.server.failure(&self.kernels)).collect();
        failures.into_iter().next()
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        for proxy in &self.proxies {
            proxy.server.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

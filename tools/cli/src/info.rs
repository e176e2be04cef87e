//! `ggas info`: what this machine has, and what each device kind offers here.

use crate::failure::Failure;
use crate::out;
use ggas_benches::{Device, Via};
use ggas_gpu::{GpuInfo, NoGpu};
use ggas_kernels::Processor;
use std::fmt::Write;

#[derive(clap::Args)]
pub struct InfoArgs {}

pub fn run(_: &InfoArgs) -> Result<(), Failure> {
    let gpus = ggas_gpu::probe();
    let mut text = String::new();
    machine(&mut text);
    list_gpus(&mut text, &gpus);
    processors(&mut text);
    devices(&mut text);
    out::print(&text)
}

/// Where kernels run when nobody says it, and why not on a GPU. A GPU counts once it has loaded the kernels.
pub fn best_device() -> (Device, Option<String>) {
    match Processor::gpu(0) {
        Ok(_) => (Device::Gpu, None),
        Err(why) => (Device::Cpu, Some(why.to_string())),
    }
}

/// The device asked for, if it is there, else the best one; and why that is not a GPU.
pub fn choose(asked: Option<Device>) -> Result<(Device, Option<String>), Failure> {
    match (asked, best_device()) {
        (Some(Device::Gpu), (_, Some(why))) => Err(Failure::Failed(format!("--device gpu: {why}"))),
        (Some(device), _) => Ok((device, None)),
        (None, best) => Ok(best),
    }
}

/// The line for a program that goes on without a GPU.
pub fn fallback(why: &str) -> String {
    format!("{why}, using the CPU executor")
}

/// Names of the GPUs, for one line.
pub fn gpu_names() -> String {
    let names: Vec<String> = ggas_gpu::probe().into_iter().flatten().map(|gpu| gpu.name).collect();
    names.join(", ")
}

/// Whether this machine and this version have the device kind; if not, what is missing and what to use.
pub fn available(via: Via) -> Result<(), String> {
    match via {
        Via::Sim => Ok(()),
        Via::Hw => ggas_device::hw::probe().map_err(|error| hw(&error.to_string())),
        Via::Nvlink => nvlink(&ggas_gpu::probe()),
    }
}

fn hw(why: &str) -> String {
    format!("--via hw is not available: {why}; use --via sim")
}

fn nvlink(gpus: &Result<Vec<GpuInfo>, NoGpu>) -> Result<(), String> {
    let why = match gpus {
        Err(error) => error.to_string(),
        Ok(gpus) if gpus.len() < 2 => format!("it takes two GPUs, here is {}", gpus.len()),
        Ok(gpus) if !any_peers(gpus) => "no GPU here can access the memory of another".into(),
        Ok(_) => return Ok(()),
    };
    Err(format!("--via nvlink is not available: {why}; use --via sim"))
}

fn any_peers(gpus: &[GpuInfo]) -> bool {
    let reaches =
        |gpu: &GpuInfo| gpu.peers.iter().enumerate().any(|(i, peer)| i != gpu.ordinal && peer.access);
    gpus.iter().any(reaches)
}

fn machine(text: &mut String) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let locked = match nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK) {
        Ok((nix::libc::RLIM_INFINITY, _)) => "unlimited".into(),
        Ok((soft, _)) => format!("{} KiB (ulimit -l raises it)", soft >> 10),
        Err(error) => format!("unknown: {error}"),
    };
    let _ = writeln!(text, "machine");
    row(text, "cores", cores);
    row(text, "locked memory", locked);
    row(text, "kernel", std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim());
    let build = if cfg!(debug_assertions) { "debug: not for timing" } else { "release" };
    row(text, "build", format_args!("{} {build}", env!("CARGO_PKG_VERSION")));
    let code = match ggas_kernels::FATBIN.len() >> 10 {
        0 => "none: there was no nvcc at the build; run `cargo xtask setup` and build again".into(),
        kib => format!("{kib} KiB, embedded"),
    };
    row(text, "GPU code", code);
}

fn list_gpus(text: &mut String, gpus: &Result<Vec<GpuInfo>, NoGpu>) {
    let _ = writeln!(text, "GPUs");
    let gpus = match gpus {
        Ok(gpus) => gpus,
        Err(why) => return row(text, "none", why),
    };
    for gpu in gpus {
        let _ = writeln!(text, "  {gpu}");
        let yes = |flag| if flag { "yes" } else { "no" };
        row(text, "  CUDA", format_args!("driver for {}.{}", gpu.driver.0, gpu.driver.1));
        row(
            text,
            "  host memory",
            format_args!("mapped: {}, atomics: {}", yes(gpu.maps_host_memory), yes(gpu.host_atomics)),
        );
        row(
            text,
            "  windows",
            format_args!(
                "virtual memory: {}, passed on as a file: {}",
                yes(gpu.virtual_memory),
                yes(gpu.posix_handles)
            ),
        );
        row(text, "  dma-buf", yes(gpu.dma_buf));
        let peers = gpu.peers.iter().enumerate().filter(|(i, _)| *i != gpu.ordinal);
        for (other, peer) in peers {
            let what = match (peer.access, peer.atomics) {
                (true, true) => "loads, stores, atomics",
                (true, false) => "loads and stores, no atomics",
                _ => "no access",
            };
            row(text, &format!("  to GPU {other}"), what);
        }
    }
}

fn processors(text: &mut String) {
    let _ = writeln!(text, "kernels run on (--device)");
    row(text, "cpu", "yes: the CPU executor");
    let (device, why) = best_device();
    let gpu = match (device, why) {
        (Device::Gpu, _) => "yes, the default here".to_string(),
        (_, why) => format!("no: {}", why.unwrap_or_default()),
    };
    row(text, "gpu", gpu);
}

fn devices(text: &mut String) {
    let _ = writeln!(text, "traffic goes through (--via)");
    row(text, "sim", "yes: the software EXTOLL; RMA by slots and by the card's pages, GGAS windows");
    for via in [Via::Hw, Via::Nvlink] {
        let why = available(via).err().unwrap_or_else(|| match via {
            Via::Nvlink => "yes: windows over peer memory, and RMA by engines on the GPUs".into(),
            _ => "yes: RMA and messages by the card, from the host and the CPU executor".into(),
        });
        row(text, via.name(), why.replacen(&format!("--via {via} is not available"), "no", 1));
    }
}

fn row(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "  {name:<14} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvlink_says_what_is_missing() {
        assert!(nvlink(&Ok(Vec::new())).unwrap_err().contains("it takes two GPUs, here is 0"));
        assert!(nvlink(&Err(NoGpu::NotInstalled)).unwrap_err().contains("libcuda.so.1"));
    }
}

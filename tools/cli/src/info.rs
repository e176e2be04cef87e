//! `ggas info`: what this machine has, and what each device kind offers here.

use crate::failure::Failure;
use crate::out;
use ggas_benches::{Device, Via};
use ggas_device::{ChoiceError, DeviceError, ProcessorKind, Reason, available, choose_or};
use ggas_gpu::{GpuInfo, NoGpu};
use ggas_kernels::Processor;
use ggas_members::NetworkInfo;
use ggas_wire::{Library, WireError};
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
    network(&mut text);
    hosts(&mut text);
    out::print(&text)
}

/// Where kernels run when nobody says it, and why not on a GPU. A GPU counts once it has loaded the kernels.
pub fn best_device() -> (Device, Option<String>) {
    match Processor::gpu(0) {
        Ok(_) => (Device::Gpu, None),
        Err(why) => (Device::Cpu, Some(why.to_string())),
    }
}

/// The processor asked for (also by GGAS_PROCESSOR), if it is there, else the best one; and why that is not a GPU.
pub fn choose(asked: Option<Device>) -> Result<(Device, Option<String>), Failure> {
    let said = ggas_device::processor_kind().map_err(not_there)?.map(|kind| match kind {
        ProcessorKind::Cpu => Device::Cpu,
        ProcessorKind::Gpu => Device::Gpu,
    });
    match (asked.or(said), best_device()) {
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

/// What carries the traffic, with kernels on `device` if that is asked for: what is asked for, what the environment says, or
/// what is there; or what the caller prefers to that.
pub fn via(asked: Option<Via>, device: Option<Device>, preferred: Option<Via>) -> Result<Via, Failure> {
    let device = device.map(Device::kind);
    let choice = match preferred {
        Some(preferred) => choose_or(asked, device, preferred),
        None => ggas_device::choose(asked, device),
    };
    Ok(choice.map_err(not_there)?.kind)
}

/// What is wrong with the environment is a matter of usage; what is not there is not.
pub fn not_there(error: ChoiceError) -> Failure {
    match error {
        ChoiceError::Word { .. } | ChoiceError::Differ { .. } => Failure::Usage(error.to_string()),
        ChoiceError::NotThere { reason: Reason::Asked | Reason::Preferred, .. } => {
            Failure::Failed(format!("{error}; use --via sim"))
        }
        _ => Failure::Failed(error.to_string()),
    }
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
        0 if ggas_kernels::NVCC_NONE => "none: NVCC=none at the build; build again without it".into(),
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
    let on = ggas_device::processor_kind().ok().flatten();
    for via in [Via::Hw, Via::Nvlink] {
        let what = match (available(via, on), via, on) {
            (Err(DeviceError::NotAvailable { reason, .. }), ..) => format!("no: {reason}"),
            (Err(error), ..) => format!("no: {error}"),
            (Ok(()), Via::Nvlink, Some(ProcessorKind::Cpu)) => {
                "yes: RMA by engines on the CPU executor".into()
            }
            (Ok(()), Via::Nvlink, _) => {
                "yes: windows over peer memory, and RMA by engines on the GPUs".into()
            }
            (Ok(()), ..) => "yes: RMA and messages by the card, from the host and the CPU executor".into(),
        };
        row(text, via.name(), what);
    }
    // What a program that is started here takes.
    match ggas_device::choose(None, None) {
        Ok(choice) => row(text, "chosen", choice),
        Err(error) => row(text, "chosen", format_args!("none: {error}")),
    }
}

/// Which network a program started here would join.
fn network(text: &mut String) {
    let _ = writeln!(text, "network of the model");
    match ggas_members::which() {
        Ok((name, node, found)) => {
            row(text, "joined", format_args!("{name}, on node {node} (GGAS_NETWORK, GGAS_NODE)"));
            let now = match found {
                Some(NetworkInfo { shape: Some(shape), members, .. }) => {
                    format!("{shape}; {} processes are in it", members.len())
                }
                Some(_) => "another version of ggas made it".to_owned(),
                None => "not there: its first member makes it".to_owned(),
            };
            row(text, "now", now);
        }
        Err(error) => row(text, "joined", format_args!("none: {error}")),
    }
}

/// What could carry messages to other hosts.
fn hosts(text: &mut String) {
    let _ = writeln!(text, "between hosts (GGAS_FABRIC)");
    for library in Library::ALL {
        if let Err(error) = providers(text, library) {
            row(text, &library.to_string(), format_args!("none: {error}"));
        }
    }
    match ggas_wire::choose() {
        Ok(choice) => {
            row(text, "chosen", &choice);
            row(text, "GPU memory", choice.gpu);
        }
        // What is missing stands above.
        Err(WireError::Nothing { .. }) => row(text, "chosen", "none"),
        Err(error) => row(text, "chosen", format_args!("none: {error}")),
    }
}

fn providers(text: &mut String, library: Library) -> Result<(), WireError> {
    let (version, offers) = (library.version()?, library.offers()?);
    row(text, &library.to_string(), version);
    for offer in offers {
        row(text, &format!("  {}", offer.provider), &offer);
    }
    Ok(())
}

fn row(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "  {name:<14} {value}");
}

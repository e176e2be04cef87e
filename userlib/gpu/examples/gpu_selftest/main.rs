//! Checks every function of this crate on the GPUs of this host, with a table of results and timings.
//!
//! `gpu_selftest [filter]` runs the checks whose names contain `filter`. The exit status is 0 if all passed, 1 if one
//! failed, 2 without a usable GPU, 3 if a check hung.

mod copies;
mod harness;
mod memory;
mod running;

use std::process::{Command, ExitCode};

use ggas_gpu::{Gpu, GpuError, Launch, Module};
use ggas_selftest::args::gputest_fault;
use harness::{SHORT, Suite};

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("--fault") {
        return fault();
    }
    let infos = match ggas_gpu::probe() {
        Ok(infos) => infos,
        Err(reason) => {
            println!("{reason}");
            return ExitCode::from(2);
        }
    };
    for info in &infos {
        println!("{info}, CUDA driver {}.{}", info.driver.0, info.driver.1);
        println!(
            "  host memory mapped {}, same addresses {}, virtual memory {}, fd handles {}, dma-buf {}",
            info.maps_host_memory,
            info.host_pointers_are_device_pointers,
            info.virtual_memory,
            info.posix_handles,
            info.dma_buf
        );
        println!("  peers: {:?}", info.peers);
    }
    // First of all: a processor loads all kernels when it is opened.
    ggas_selftest::add();
    let mut suite = Suite::new(argument.unwrap_or_default());
    let Some(gpus) = open(&mut suite) else { return ExitCode::FAILURE };
    memory::checks(&mut suite, &gpus);
    running::checks(&mut suite, &gpus);
    copies::checks(&mut suite, &gpus);
    suite.check("a kernel that fails is named (in a child process)", child_fails);
    suite.finish()
}

/// Opens all GPUs, loads all kernels, and returns those of the tests.
fn open(suite: &mut Suite) -> Option<Vec<Module>> {
    let mut opened = Vec::new();
    suite.always("open all GPUs, load all kernels", || {
        for gpu in Gpu::all().map_err(text)? {
            opened.push(load(&gpu).map_err(text)?);
        }
        let kernels = opened.first().map_or(0, |module| module.kernels().count());
        Ok(format!("{} GPU(s), {kernels} kernels of tests", opened.len()))
    });
    (!opened.is_empty()).then_some(opened)
}

/// The library's kernels, of which the copier is one, and those of the tests, which are returned.
fn load(gpu: &Gpu) -> Result<Module, GpuError> {
    gpu.load(ggas_kernels::FATBIN)?;
    gpu.load(ggas_selftest::KERNELS.fatbin())
}

/// Runs this program again to break a context in it.
fn child_fails() -> Result<String, String> {
    let me = std::env::current_exe().map_err(text)?;
    let output = Command::new(me).arg("--fault").output().map_err(text)?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{}: {said}", output.status)) }
}

fn fault() -> ExitCode {
    match fault_errors() {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A kernel stores to nowhere; afterwards everything on this GPU is a typed error, and drops are quiet.
fn fault_errors() -> Result<String, String> {
    let module = Gpu::open(0).and_then(|gpu| load(&gpu)).map_err(text)?;
    let buffer = module.gpu().alloc(4096).map_err(text)?;
    let copier = ggas_gpu::Copier::of(module.gpu()).map_err(text)?;
    let armed = copier.arm().map_err(text)?;
    let args = gputest_fault { address: 8 };
    // SAFETY: not at all, on purpose, in a process of its own; only the GPU's context suffers.
    let launch = unsafe { Launch::new(&module, "ggas_gputest_fault", 1, 32, &args) };
    let failed = ggas_gpu::start(&[launch]).and_then(|mut running| running.wait(SHORT));
    let Err(GpuError::KernelFailed { kernel, .. }) = &failed else {
        return Err(format!("expected a failed kernel, got {failed:?}"));
    };
    if !kernel.contains("ggas_gputest_fault") {
        return Err(format!("the wrong kernel is named: {kernel}"));
    }
    let after = buffer.read(0, &mut [0; 8]);
    let Err(GpuError::Lost { .. }) = after else {
        return Err(format!("expected a lost GPU, got {after:?}"));
    };
    // SAFETY: the buffer lives.
    let copy = unsafe { copier.copy(buffer.address(), buffer.address() + 64, 8) };
    harness::until("the copier to notice", SHORT, || copier.poll(copy) == ggas_gpu::CopyState::Failed)?;
    drop(armed);
    drop(buffer);
    Ok(failed.map_or_else(|error| error.to_string(), |()| String::new()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

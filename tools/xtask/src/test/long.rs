//! `cargo xtask long`: what takes hours.

use super::{Check, Context, gaspi, librma2, steps};
use crate::demo;
use crate::run::cargo;
use crate::vm;
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub const ALL: &[Check] = &[
    Check::new("nvcc", "kernels compile for sm_80, sm_90 and PTX", steps::nvcc),
    Check::new(
        "librma2",
        "the C interface: programs of each compiler, with and without sanitizers, and a soak",
        librma2::check,
    ),
    Check::new("asan", "unsafe code under AddressSanitizer", steps::asan),
    Check::new("crowded", "the step unit five times beside two threads that never yield", crowded),
    Check::new("sim", "100,000 networks in virtual time that were never simulated before", sim),
    Check::new("hca", "the software HCA: 10^5 messages over a bad wire, 10^6 hostile packets", hca),
    Check::new("hosts", "as many networks of hosts: who meets, dies, leaves and comes again", hosts),
    Check::new("namespaces", "programs on several hosts, which are namespaces: all scenarios", namespaces),
    Check::new("chaos", "10,000 rounds of members and jobs that are killed and stopped", chaos),
    Check::new(
        "gaspi",
        "Jacobi's iteration through GASPI, 1,000 times with a rank that dies at any moment",
        gaspi::long,
    ),
    Check::new(
        "vm",
        "the kernel modules: all scenarios on all kernels, 10^6 random calls on the one that watches",
        vm,
    ),
];

fn vm(context: &Context) -> Result<String> {
    vm::vm(&vm::Select::everything(), context.policy)?;
    Ok(String::new())
}

fn crowded(context: &Context) -> Result<String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = (0..5).try_for_each(|_| steps::unit(context).map(|_| ()));
        over.store(true, Ordering::Relaxed);
        result
    })?;
    Ok("5 times".into())
}

/// Seeds of this moment, far above those that `cargo xtask test` runs.
fn first_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs()) << 20
}

fn hosts(context: &Context) -> Result<String> {
    let first = first_seed();
    let mut command = cargo(&["test", "--release", "--package", "extoll-sim", "--lib", "hosts::sim"]);
    command.env(steps::HOSTS_FIRST, first.to_string()).env("GGAS_HOSTS_SEEDS", "100000");
    context.run("hosts", command)?;
    Ok(format!("seeds from {first}"))
}

fn namespaces(context: &Context) -> Result<String> {
    crate::hosts::hosts(&crate::hosts::Select::everything(), context.policy)?;
    Ok(String::new())
}

fn sim(context: &Context) -> Result<String> {
    let first = first_seed();
    context.run("sim", demo::simulation(&["--first", &first.to_string(), "--seeds", "100000"]))?;
    Ok(format!("seeds from {first}"))
}

fn hca(context: &Context) -> Result<String> {
    context.run("hca", cargo(&["test", "--package", "ggas-hca", "--tests", "--", "--ignored"]))?;
    Ok(String::new())
}

fn chaos(context: &Context) -> Result<String> {
    for (package, test) in [("ggas", "chaos"), ("ggas-tests", "jobs")] {
        let mut command = cargo(&["test", "--release", "--package", package, "--test", test]);
        command.env("GGAS_CHAOS", if test == "chaos" { "10000" } else { "1000" });
        context.run("chaos", command)?;
    }
    Ok(String::new())
}

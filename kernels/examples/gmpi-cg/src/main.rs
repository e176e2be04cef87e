//! Conjugate gradients in one kernel, whose ranks exchange halos and sums by MPI calls.
//!
//! `cargo run -p gmpi-cg`: one process. Several: `ggas run -n 2 -- target/debug/gmpi-cg` by our own messages, `mpirun -n 2
//! target/debug/gmpi-cg` by the MPI library.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ggas::kernels::{self, Launch};
use ggas_gmpi::{Config, Gmpi, Joined};

/// Points of each rank.
const POINTS: usize = 96;
const SOON: Duration = Duration::from_secs(60);

/// `struct cg` in kernels/cg.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Cg {
    buf: u64,
    x: u64,
    r: u64,
    p: u64,
    q: u64,
    sums: u64,
    requests: u64,
    outcome: u64,
    tolerance: f64,
    points: u32,
    iterations: u32,
}

kernels::kernels! {
    static KERNELS = [gmpi_cg_solve(Cg)];
}

/// Solves -u'' = 1 with u = 0 at both ends, by as many points as all ranks have: u at a point i of n is i (n + 1 - i) / 2.
fn solve(joined: &Joined) -> Result<u64, Box<dyn Error>> {
    let Joined { gmpi, processor, .. } = joined;
    let memory = Arc::new(processor.alloc(5 * 8 * (POINTS + 2) + 64)?);
    gmpi.attach(&memory)?;
    let vector = |i: usize| i * 8 * (POINTS + 2);
    memory.write_u64s(vector(1), &[1f64.to_bits(); POINTS])?;
    let all = POINTS as u64 * u64::from(gmpi.size());
    let at = |i: usize| memory.address() + vector(i) as u64;
    let args = Cg {
        buf: gmpi.address(),
        x: at(0),
        r: at(1),
        p: at(2),
        q: at(3),
        sums: at(4),
        requests: at(4) + 16,
        outcome: at(4) + 48,
        tolerance: 1e-16,
        points: POINTS as u32,
        iterations: 2 * all as u32,
    };
    // SAFETY: the structure is the kernel's, and the memory lives until the kernel has ended.
    let launch = unsafe { Launch::new(processor, "gmpi_cg_solve", 1, 64, &args) };
    kernels::start(&[launch])?.wait(SOON)?;
    gmpi.check()?;
    let outcome = memory.load_u64(vector(4) + 48)?;
    if outcome >> 32 != 0 {
        return Err(format!("the kernel ended with error class {}", outcome >> 32).into());
    }
    let x = memory.read_u64s(vector(0), POINTS)?;
    for (x, i) in x.into_iter().zip(u64::from(gmpi.rank()) * POINTS as u64 + 1..) {
        let (x, exact) = (f64::from_bits(x), (i * (all + 1 - i)) as f64 / 2.0);
        if (x - exact).abs() > 1e-6 * exact {
            return Err(format!("point {i} is {x}, not {exact}").into());
        }
    }
    Ok(outcome)
}

fn run() -> Result<(), Box<dyn Error>> {
    // First of all: a GPU loads all kernels when it is opened.
    kernels::add(&KERNELS)?;
    let joined = Gmpi::join(&Config::default())?;
    let iterations = solve(&joined)?;
    let Joined { gmpi, processor, job } = joined;
    let (rank, size) = (gmpi.rank(), gmpi.size());
    if rank == 0 {
        let (carrier, on) = (gmpi.carrier(), processor.name());
        println!(
            "{} points on {size} ranks: solved in {iterations} iterations; {carrier}, kernels on {on}",
            POINTS as u32 * size
        );
    }
    gmpi.close()?;
    drop(job);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_solves_it() {
        run().expect("solved");
    }
}

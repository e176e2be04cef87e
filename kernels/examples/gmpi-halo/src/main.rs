//! A relaxation on a grid that ranks share in two directions: one kernel, whose edges go to four neighbours by MPI calls.
//!
//! `cargo run -p gmpi-halo`: one process. Several: `ggas run -n 4 -- target/debug/gmpi-halo` by our own messages, `mpirun -n 4
//! target/debug/gmpi-halo` by the MPI library.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ggas::kernels::{self, Launch};
use ggas_gmpi::{Config, Gmpi, Joined};

/// Points of each rank, and how often each becomes the mean of those around it: an even number.
const ROWS: usize = 24;
const COLUMNS: usize = 40;
const STEPS: u32 = 50;
const SOON: Duration = Duration::from_secs(60);

/// `struct halo` in kernels/halo.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Halo {
    buf: u64,
    field: [u64; 2],
    edges: u64,
    requests: u64,
    error: u64,
    rows: u32,
    columns: u32,
    across: u32,
    down: u32,
    steps: u32,
    reserved: u32,
}

kernels::kernels! {
    static KERNELS = [gmpi_halo_relax(Halo)];
}

/// Ranks of a row and of a column, as square as their number allows.
fn shape(size: u32) -> (u32, u32) {
    let down = (1..=size).filter(|down| size.is_multiple_of(*down) && down * down <= size).max().unwrap_or(1);
    (size / down, down)
}

/// What a point of the whole grid is at first, the border around it included; no two are alike.
fn first(row: usize, column: usize) -> f64 {
    (row * 8191 + column * 127) as f64
}

/// The whole grid with its border after all steps, by the host: `rows` x `columns` points.
fn reference(rows: usize, columns: usize) -> Vec<f64> {
    let width = columns + 2;
    let mut field: Vec<f64> = (0..(rows + 2) * width).map(|i| first(i / width, i % width)).collect();
    for _ in 0..STEPS {
        let from = field.clone();
        for at in (1..=rows).flat_map(|row| (1..=columns).map(move |column| row * width + column)) {
            field[at] = (from[at - width] + from[at + width] + from[at - 1] + from[at + 1]) * 0.25;
        }
    }
    field
}

/// Relaxes, and compares each point of this rank with the host's, bit by bit.
fn relax(joined: &Joined) -> Result<(), Box<dyn Error>> {
    let Joined { gmpi, processor, .. } = joined;
    let (across, down) = shape(gmpi.size());
    let (x, y) = ((gmpi.rank() % across) as usize, (gmpi.rank() / across) as usize);
    let (width, points) = (COLUMNS + 2, (ROWS + 2) * (COLUMNS + 2));
    let memory = Arc::new(processor.alloc(8 * (2 * points + 4 * ROWS + 8 + 1))?);
    gmpi.attach(&memory)?;
    let of_all = |i: usize| (y * ROWS + i / width, x * COLUMNS + i % width);
    let words: Vec<u64> = (0..points).map(of_all).map(|(row, column)| first(row, column).to_bits()).collect();
    memory.write_u64s(0, &words)?;
    memory.write_u64s(8 * points, &words)?;
    let at = |word: usize| memory.address() + 8 * word as u64;
    let (edges, requests) = (2 * points, 2 * points + 4 * ROWS);
    memory.write_u64s(8 * requests, &[0; 9])?;
    let args = Halo {
        buf: gmpi.address(),
        field: [at(0), at(points)],
        edges: at(edges),
        requests: at(requests),
        error: at(requests + 8),
        rows: ROWS as u32,
        columns: COLUMNS as u32,
        across,
        down,
        steps: STEPS,
        reserved: 0,
    };
    // SAFETY: the structure is the kernel's, and the memory lives until the kernel has ended.
    let launch = unsafe { Launch::new(processor, "gmpi_halo_relax", 1, 64, &args) };
    kernels::start(&[launch])?.wait(SOON)?;
    gmpi.check()?;
    let error = memory.load_u64(8 * (requests + 8))?;
    if error != 0 {
        return Err(format!("the kernel ended with error class {error}").into());
    }
    let (rows, columns) = (down as usize * ROWS, across as usize * COLUMNS);
    let wanted = reference(rows, columns);
    let field = memory.read_u64s(8 * points * (STEPS as usize % 2), points)?;
    for at in (1..=ROWS).flat_map(|row| (1..=COLUMNS).map(move |column| row * width + column)) {
        let (row, column) = of_all(at);
        let (seen, wanted) = (f64::from_bits(field[at]), wanted[row * (columns + 2) + column]);
        if seen.to_bits() != wanted.to_bits() {
            return Err(format!("row {row}, column {column} is {seen}, not {wanted}").into());
        }
    }
    Ok(())
}

fn run() -> Result<(), Box<dyn Error>> {
    // First of all: a GPU loads all kernels when it is opened.
    kernels::add(&KERNELS)?;
    let joined = Gmpi::join(&Config::default())?;
    relax(&joined)?;
    let Joined { gmpi, processor, job } = joined;
    if gmpi.rank() == 0 {
        let ((across, down), carrier, on) = (shape(gmpi.size()), gmpi.carrier(), processor.name());
        println!(
            "{STEPS} steps of {}x{} points on {down}x{across} ranks, as the host has them; {carrier}, kernels on {on}",
            down as usize * ROWS,
            across as usize * COLUMNS
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
    fn ranks_are_as_square_as_can_be() {
        assert_eq!([1, 2, 4, 6, 7].map(shape), [(1, 1), (2, 1), (2, 2), (3, 2), (7, 1)]);
    }
}

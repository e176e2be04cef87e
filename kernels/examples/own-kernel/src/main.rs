//! Two kernels of this crate: one sends numbers, the other, of the next process, squares them and sends them back.
//!
//! `cargo run -p own-kernel`: one process, on the GPU if there is one, else on the CPU executor. Two processes, on
//! whichever device `GGAS_DEVICE` says: `cargo build -p own-kernel && ggas run -n 2 -- target/debug/own-kernel`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ggas::kernels::{self, KernelMem, Launch, Processor};
use ggas::{Job, KernelPort, PortConfig, Region, RemoteRegion};

const COUNT: usize = 1000;
const SOON: Duration = Duration::from_secs(20);

/// `struct square` in kernels/square.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Square {
    port: u64,
    numbers: u64,
    numbers_nla: u64,
    peer_nla: u64,
    status: u64,
    peer_node: u32,
    peer_vpid: u32,
    count: u32,
    reserved: u32,
}

kernels::kernels! {
    static KERNELS = [own_square_ask(Square), own_square_answer(Square)];
}

/// A port with what its kernel uses.
struct Side {
    port: KernelPort,
    numbers: Arc<KernelMem>,
    region: Region,
    status: KernelMem,
}

impl Side {
    fn new(job: &Job, processor: &Processor) -> Result<Side, Box<dyn Error>> {
        // Its kernels post in the way that suits device and processor best.
        let port = job.node().open_kernel_port(PortConfig::default(), processor)?;
        let numbers = Arc::new(processor.alloc(COUNT * 8)?);
        let region = port.register_kernel_memory(numbers.clone())?;
        Ok(Side { port, numbers, region, status: processor.alloc(8)? })
    }

    fn args(&self, peer: &RemoteRegion) -> Result<Square, Box<dyn Error>> {
        Ok(Square {
            port: self.port.address(),
            numbers: self.numbers.address(),
            numbers_nla: self.region.nla(0)?,
            peer_nla: peer.nla(0, peer.len())?,
            status: self.status.address(),
            peer_node: peer.port().node.into(),
            peer_vpid: peer.port().vpid.into(),
            count: COUNT as u32,
            reserved: 0,
        })
    }

    /// What its kernel said when it ended.
    fn check(&self) -> Result<(), Box<dyn Error>> {
        match (self.status.load_u64(0)?, self.port.report()) {
            (0, _) => Ok(()),
            (status, None) => Err(format!("{}: error {status}", self.port.port_address()).into()),
            (_, Some(report)) => Err(report.to_string().into()),
        }
    }
}

/// Has the next process square `numbers`, and squares those of the one before.
fn square(job: &Job, processor: &Processor, numbers: &[u64]) -> Result<Vec<u64>, Box<dyn Error>> {
    let (asks, answers) = (Side::new(job, processor)?, Side::new(job, processor)?);
    asks.numbers.write_u64s(0, numbers)?;
    let all = job.exchange_values(&[&asks, &answers].map(|side| RemoteRegion::of(&side.region)), SOON)?;
    let (next, before) = ((job.rank() + 1) % job.size(), (job.rank() + job.size() - 1) % job.size());

    // While these live, the model looks for what the kernels post.
    let _armed = (asks.port.arm(), answers.port.arm());
    let (ask, answer) = (asks.args(&all[next as usize][1])?, answers.args(&all[before as usize][0])?);
    // SAFETY: the structures are those of the kernels, and what they name lives until the kernels have ended.
    let launches = unsafe {
        [
            Launch::new(processor, "own_square_ask", 1, 64, &ask),
            Launch::new(processor, "own_square_answer", 1, 64, &answer),
        ]
    };
    kernels::start(&launches)?.wait(SOON)?;
    [&asks, &answers].into_iter().try_for_each(Side::check)?;
    job.barrier(SOON)?;
    Ok(asks.numbers.read_u64s(0, numbers.len())?)
}

fn main() -> ExitCode {
    match squares() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn squares() -> Result<(), Box<dyn Error>> {
    // First of all: a GPU loads all kernels when it is opened.
    kernels::add(&KERNELS)?;
    let job = Job::join()?;
    let (processor, why_no_gpu) = job.processor()?;
    why_no_gpu.iter().for_each(|note| eprintln!("{note}"));
    let numbers: Vec<u64> = (0..COUNT as u64).collect();
    let squares = square(&job, &processor, &numbers)?;
    if squares.iter().zip(&numbers).any(|(square, number)| *square != number * number) {
        return Err("some numbers came back wrong".into());
    }
    println!("{COUNT} numbers came back squared; the kernels ran on {}", processor.name());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_squared() {
        kernels::add(&KERNELS).expect("names of their own");
        let numbers: Vec<u64> = (0..COUNT as u64).map(|i| 3 * i + 1).collect();
        let job = Job::join().expect("a job of one");
        let squares = square(&job, &Processor::cpu(), &numbers).expect("both kernels end well");
        assert!(squares.iter().zip(&numbers).all(|(square, number)| *square == number * number));
    }
}

//! Two kernels of this crate on two nodes: one sends numbers, the other squares them and sends them back.
//!
//! `cargo run -p own-kernel`: on the GPU if there is one, else on the CPU executor.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ggas::kernels::{self, KernelMem, Launch, Processor};
use ggas::{Cluster, KernelPath, KernelPort, Node, PortConfig, Region};

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

/// A node with what its kernel uses.
struct Side {
    port: KernelPort,
    numbers: Arc<KernelMem>,
    region: Region,
    status: KernelMem,
}

impl Side {
    fn new(node: &Node, processor: &Processor) -> Result<Side, Box<dyn Error>> {
        let port = node.open_port(PortConfig::default())?;
        let numbers = Arc::new(processor.alloc(COUNT * 8)?);
        let region = port.register_kernel_memory(numbers.clone())?;
        // Slots: the way for kernels to post that works on GPUs too, as long as the card is a model.
        let port = port.for_kernels(processor, KernelPath::Slots)?;
        Ok(Side { port, numbers, region, status: processor.alloc(8)? })
    }

    fn args(&self, peer: &Side) -> Result<Square, Box<dyn Error>> {
        let address = peer.port.port_address();
        Ok(Square {
            port: self.port.address(),
            numbers: self.numbers.address(),
            numbers_nla: self.region.nla(0)?,
            peer_nla: peer.region.nla(0)?,
            status: self.status.address(),
            peer_node: address.node.into(),
            peer_vpid: address.vpid.into(),
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

/// Has two nodes square `numbers` between them.
fn square(processor: &Processor, numbers: &[u64]) -> Result<Vec<u64>, Box<dyn Error>> {
    let cluster = Cluster::builder().nodes(2).build()?;
    let asks = Side::new(cluster.node(0)?, processor)?;
    let answers = Side::new(cluster.node(1)?, processor)?;
    asks.numbers.write_u64s(0, numbers)?;

    // While these live, the model looks for what the kernels post.
    let _armed = (asks.port.arm(), answers.port.arm());
    let (ask, answer) = (asks.args(&answers)?, answers.args(&asks)?);
    // SAFETY: the structures are those of the kernels, and what they name lives until the kernels have ended.
    let launches = unsafe {
        [
            Launch::new(processor, "own_square_ask", 1, 64, &ask),
            Launch::new(processor, "own_square_answer", 1, 64, &answer),
        ]
    };
    kernels::start(&launches)?.wait(SOON)?;
    asks.check()?;
    answers.check()?;
    Ok(asks.numbers.read_u64s(0, numbers.len())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    // First of all: a GPU loads all kernels when it is opened.
    kernels::add(&KERNELS)?;
    let (processor, why_no_gpu) = Processor::best();
    if let Some(note) = why_no_gpu {
        eprintln!("{note}");
    }
    let numbers: Vec<u64> = (0..COUNT as u64).collect();
    let squares = square(&processor, &numbers)?;
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
        let squares = square(&Processor::cpu(), &numbers).expect("both kernels end well");
        assert!(squares.iter().zip(&numbers).all(|(square, number)| *square == number * number));
    }
}

//! Collectives in streams of the caller's, on two GPUs with `GGAS_TEST_GPUS=2`; otherwise on the CPU executor, which has
//! no streams, one start after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_coll::{Collective, Element, Group, GroupConfig, Op, Vectors};
use ggas_device::sim::SimNetwork;
use ggas_kernels::{Launch, Processor, start};
use ggas_rma::Node;
use ggas_window::Window;

const COUNT: usize = 10_000;
const BYTES: usize = COUNT * size_of::<f32>();
const SOON: Duration = Duration::from_secs(60);

#[test]
fn sums_in_streams_of_the_caller_follow_each_other() {
    let gpus = std::env::var_os("GGAS_TEST_GPUS").is_some();
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    let nodes = [0, 1].map(|node| Node::new(network.device(node).unwrap()));
    let processors = [0, 1].map(|gpu| if gpus { Processor::gpu(gpu).unwrap() } else { Processor::cpu() });
    let config = GroupConfig { offset: BYTES.next_multiple_of(256), ..GroupConfig::default() };
    let pairs: Vec<_> = nodes.iter().zip(&processors).collect();
    let window = Arc::new(Window::new(&pairs, config.end(2).unwrap()).unwrap());
    let group = Group::new(window.clone(), &config).unwrap();
    for (rank, value) in [(0, 1.5_f32), (1, 2.0)] {
        window.write(rank, 0, &value.to_ne_bytes().repeat(COUNT)).unwrap();
    }
    let vectors = Vectors { input: 0, output: 0, count: COUNT, element: Element::Float, shape: None };
    let sum = Collective::Allreduce { op: Op::Sum };
    for _ in 0..3 {
        let launch = |rank| group.collective(rank, &processors[rank], sum, &vectors).unwrap();
        let launches: [Launch; 2] = [0, 1].map(launch);
        if gpus {
            for launch in &launches {
                // SAFETY: null is the default stream of the GPU's context; group and window live until all is over
                // below, and nothing else runs on these GPUs.
                unsafe { launch.enqueue(std::ptr::null_mut()) }.unwrap();
            }
        } else {
            start(&launches).unwrap().wait(SOON).unwrap();
        }
    }
    // 1.5 + 2, and twice the double of it: nothing says when a stream of somebody else is done.
    let expected = 14.0_f32.to_ne_bytes().repeat(COUNT);
    let begun = Instant::now();
    for rank in 0..2 {
        let mut seen = vec![0; BYTES];
        while seen != expected {
            assert!(begun.elapsed() < SOON, "rank {rank}: {:?}", &seen[..8]);
            window.read(rank, 0, &mut seen).unwrap();
        }
    }
    group.check().unwrap();
}

//! Tests of windows whose parts no other member's kernels reach, as on GPUs without peer access.

use std::time::Duration;

use extoll_abi::layout::GGAS_ERR_ARGUMENT;
use ggas_device::PAGE;
use ggas_device::sim::SimNetwork;
use ggas_kernels::{Processor, start};
use ggas_rma::Node;
use ggas_selftest::args::{SELFTEST_PUT_BLOCK, selftest_put};

use crate::memory::{At, Parts};
use crate::{Window, WindowError};

const SOON: Duration = Duration::from_secs(20);
const BYTES: usize = 2 * PAGE;
const WHY: &str = "GPU 0 cannot access the memory of GPU 1";

fn apart() -> (SimNetwork, Window) {
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    let nodes = [0, 1].map(|i| Node::new(network.device(i).unwrap()));
    let cpu = Processor::cpu();
    let parts = Parts::apart(&[&cpu, &cpu], BYTES, WHY.to_owned()).unwrap();
    let members = [(&nodes[0], &cpu), (&nodes[1], &cpu)];
    (network, Window::of_parts(&members, (parts, BYTES), BYTES, SOON).unwrap())
}

#[test]
fn it_is_said_why_and_pointers_do_not_exist() {
    let (_network, window) = apart();
    let said = window.info().to_string();
    assert!(said.contains("not mapped") && said.contains(WHY), "{said}");
    assert!(!window.info().atomics);
    let member = window.member(0).unwrap();
    assert_ne!(member.pointer_of(0).unwrap(), 0, "its own part");
    for refused in [member.pointer_of(1), member.global_pointer(0), member.global_pointer(1)] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, WindowError::NotMapped { reason } if reason == WHY), "{error}");
    }
}

#[test]
fn calls_go_through_the_nic() {
    let (_network, window) = apart();
    for (from, to) in [(0, 1), (1, 0), (0, 0)] {
        let text = format!("from {from} to {to}, longer than one packet of the unit: {:?}", [from; 40]);
        let origin = window.member(from).unwrap();
        origin.store(to, 300 * from + 3, text.as_bytes()).unwrap();
        let mut back = vec![0; text.len()];
        origin.load(to, 300 * from + 3, &mut back, SOON).unwrap();
        assert_eq!(String::from_utf8_lossy(&back), text);
        // The load came behind the store, so the bytes are in the part.
        window.read(to, 300 * from + 3, &mut back).unwrap();
        assert_eq!(String::from_utf8_lossy(&back), text);
    }
}

#[test]
fn kernels_are_refused_and_that_is_reported() {
    let (_network, window) = apart();
    let cpu = Processor::cpu();
    let status = cpu.alloc(16).unwrap();
    let member = window.member(0).unwrap();
    let args = selftest_put {
        window: member.address(),
        status: status.address(),
        wrong: status.address() + 8,
        rings: 0,
        bytes: 64,
        each: 64,
        skew: 0,
        form: SELFTEST_PUT_BLOCK,
        rounds: 1,
        lanes: 0,
        lines_log2: 0,
        puts: 1,
    };
    // SAFETY: the structure of this kernel, and all memory outlives the wait.
    let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_put", 1, 32, &args) };
    start(&[launch]).and_then(|running| running.wait(SOON)).unwrap();
    assert_eq!(status.load_u64(0).unwrap(), u64::from(GGAS_ERR_ARGUMENT));
    assert_eq!(member.report().expect("reported").peer, Some(1));
}

#[test]
fn zeros_go_in_pieces_that_leave_nothing_out() {
    let bytes = (2 << 20) + 5 * PAGE;
    let cpu = Processor::cpu();
    let parts = Parts::apart(&[&cpu, &cpu], bytes, WHY.to_owned()).unwrap();
    let at = |offset| At { offset, stride: bytes };
    for rank in 0..2 {
        parts.write(rank, at(0), &vec![7; bytes]).unwrap();
    }
    parts.zero(1, at(100), bytes - 200).unwrap();
    let mut all = vec![9; bytes];
    parts.read(1, at(0), &mut all).unwrap();
    let zeros = all.iter().filter(|byte| **byte == 0).count();
    assert!(zeros == bytes - 200 && all[..100] == [7; 100] && all[bytes - 100..] == [7; 100], "{zeros}");
    parts.read(0, at(0), &mut all).unwrap();
    assert!(all.iter().all(|byte| *byte == 7), "the other part is untouched");
}

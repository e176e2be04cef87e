//! Windows on the CPU executor: pointers, host access, and trapped access through the SMFU.

use std::time::Duration;

use ggas_device::sim::SimNetwork;
use ggas_kernels::Processor;
use ggas_rma::Node;
use ggas_window::{Mapping, Window, WindowError};

const SOON: Duration = Duration::from_secs(60);

fn nodes(count: usize) -> (SimNetwork, Vec<Node>) {
    let network = SimNetwork::builder().nodes(count).build().unwrap();
    let nodes = (0..count).map(|i| Node::new(network.device(i).unwrap())).collect();
    (network, nodes)
}

fn window(nodes: &[Node], bytes: usize) -> Result<Window, WindowError> {
    let cpu = Processor::cpu();
    let members: Vec<_> = nodes.iter().map(|node| (node, &cpu)).collect();
    Window::new(&members, bytes)
}

#[test]
fn parts_lie_at_even_distances_for_everyone() {
    let (_network, nodes) = nodes(3);
    let window = window(&nodes, 5000).unwrap();
    assert_eq!(window.info().mapped, Ok(Mapping::Process));
    assert!(window.info().atomics);
    assert_eq!((window.bytes(), window.info().stride), (5000, 8192));
    let base = window.member(0).unwrap().global_pointer(0).unwrap();
    for member in window.members() {
        for part in 0..3 {
            let pointer = member.pointer_of(part).unwrap();
            assert_eq!(pointer, base + 8192 * part as u64);
            assert_eq!(member.global_pointer(part).unwrap(), pointer);
        }
        assert!(matches!(member.pointer_of(3), Err(WindowError::NoSuchMember { member: 3, last: 2 })));
        assert_ne!(member.address(), 0);
    }
}

#[test]
fn the_host_reads_and_writes_parts() {
    let (_network, nodes) = nodes(2);
    let window = window(&nodes, 100).unwrap();
    window.write(1, 90, &[1; 10]).unwrap();
    let mut all = [9; 100];
    window.read(1, 0, &mut all).unwrap();
    assert!(all[..90] == [0; 90] && all[90..] == [1; 10]);
    window.read(0, 0, &mut all).unwrap();
    assert_eq!(all, [0; 100], "the other part is untouched");
    window.store_u64(0, 8, 77).unwrap();
    assert_eq!(window.load_u64(0, 8).unwrap(), 77);
    assert!(matches!(window.write(1, 91, &[0; 10]), Err(WindowError::Range { .. })));
    assert!(matches!(window.read(1, usize::MAX, &mut all), Err(WindowError::Range { .. })));
    assert!(matches!(window.load_u64(0, 4), Err(WindowError::Unaligned(4))));
}

#[test]
fn zeros_go_into_one_part() {
    let (_network, nodes) = nodes(2);
    let window = window(&nodes, 10_000).unwrap();
    for part in 0..2 {
        window.write(part, 0, &[7; 10_000]).unwrap();
    }
    window.zero(1, 100, 9000).unwrap();
    let mut all = [9; 10_000];
    window.read(1, 0, &mut all).unwrap();
    assert!(all[..100] == [7; 100] && all[100..9100] == [0; 9000] && all[9100..] == [7; 900]);
    window.read(0, 0, &mut all).unwrap();
    assert_eq!(all, [7; 10_000], "the other part is untouched");
    assert!(matches!(window.zero(1, 1, 10_000), Err(WindowError::Range { .. })));
}

#[test]
fn more_than_the_machine_has_is_refused_before_any_of_it_is_taken() {
    let (_network, nodes) = nodes(2);
    // Addresses for so much there are; no machine has the memory.
    let error = window(&nodes, 4 << 40).unwrap_err();
    assert!(matches!(error, WindowError::MoreThanMachine { total, .. } if total == 8 << 40), "{error}");
    let said = error.to_string();
    assert!(said.contains("8388608 MiB") && said.contains("at most "), "{said}");
}

/// Every member stores to every other through the SMFU and loads it back.
fn all_to_all(window: &Window, members: &[usize]) {
    for &from in members {
        for &to in members {
            let text = format!("from {from} to {to}, longer than one packet of the unit: {:?}", [from; 40]);
            let at = 600 * members.iter().position(|m| *m == from).unwrap() + 3;
            let origin = window.member(from).unwrap();
            origin.store(to, at, text.as_bytes()).unwrap();
            let mut back = vec![0; text.len()];
            origin.load(to, at, &mut back, SOON).unwrap();
            assert_eq!(back, text.as_bytes());
            // The load came behind the store, so the bytes are in the part.
            window.read(to, at, &mut back).unwrap();
            assert_eq!(back, text.as_bytes());
        }
    }
}

#[test]
fn trapped_accesses_go_through_intervals() {
    let (_network, nodes) = nodes(4);
    let window = window(&nodes, 8192).unwrap();
    assert_eq!(window.info().trapped, Ok(()), "{}", window.info());
    all_to_all(&window, &[0, 1, 2, 3]);
    // Spec 6.1: the counters of the unit moved.
    assert!(nodes[0].read_register(0xa028).unwrap() > 0, "posted stores sent");
    assert!(nodes[3].read_register(0xa040).unwrap() > 0, "posted stores received");
}

#[test]
fn more_nodes_than_intervals_use_the_address_mask() {
    let (_network, nodes) = nodes(100);
    let window = window(&nodes, 4096).unwrap();
    assert_eq!(window.info().trapped, Ok(()), "{}", window.info());
    all_to_all(&window, &[0, 1, 64, 99]);
}

#[test]
fn limits_of_the_unit_are_said() {
    let (_network, nodes) = nodes(2);
    // Of 63 intervals 62.
    let mut windows: Vec<Window> = (0..31).map(|_| window(&nodes, 4096).unwrap()).collect();
    assert!(windows.iter().all(|window| window.info().trapped == Ok(())));
    let next = window(&nodes, 4096).unwrap();
    let reason = next.info().trapped.clone().unwrap_err();
    assert!(
        reason.contains("2 parts; it has intervals for 63, and 62 parts of 31 other windows"),
        "{reason}"
    );
    assert!(next.info().mapped.is_ok(), "kernels do not need the unit");
    let error = next.member(0).unwrap().store(1, 0, &[1]).unwrap_err();
    assert!(matches!(error, WindowError::NotTrapped { .. }), "{error}");
    drop(windows.remove(3));
    let again = window(&nodes, 4096).unwrap();
    assert_eq!(again.info().trapped, Ok(()));
    all_to_all(&again, &[0, 1]);
    all_to_all(&windows[29], &[1, 0]);
    drop((again, windows));
    let large = window(&nodes, 200 << 20).unwrap();
    assert!(large.info().trapped.clone().unwrap_err().contains("exceed"), "{}", large.info());
}

#[test]
fn bad_windows_are_refused() {
    let (_network, nodes) = nodes(2);
    assert!(matches!(window(&[], 1), Err(WindowError::NoMembers)));
    assert!(matches!(window(&nodes, 0), Err(WindowError::Empty)));
    assert!(matches!(window(&nodes, usize::MAX), Err(WindowError::TooLarge { .. })));
    assert!(window(&nodes, 1 << 60).is_err());
    let twice = [nodes[1].clone(), nodes[1].clone()];
    assert!(matches!(window(&twice, 1), Err(WindowError::Twice(1))));
}

/// What a process does that has one node of a window: here two of them, on the model.
#[test]
fn a_window_on_nodes_is_made_on_each_of_them() {
    let (_network, nodes) = nodes(3);
    let cpu = Processor::cpu();
    let on = |node: &Node, ids: &[u16]| Window::on_nodes(node, ids, &cpu, 5000, SOON);
    let sides = [0, 2].map(|i: usize| on(&nodes[i], &[2, 0]).unwrap());
    assert_eq!(sides.each_ref().map(Window::local), [1..2, 0..1]);
    for window in &sides {
        assert_eq!((window.info().mapped.clone(), window.info().atomics), (Ok(Mapping::Trapped), true));
        let said = window.info().to_string();
        assert!(said.contains("trapped by the model's SMFU; remote atomics: yes"), "{said}");
        assert_eq!((window.len(), window.bytes(), window.info().trapped.clone()), (2, 5000, Ok(())));
    }
    let here = sides[0].member(1).unwrap();
    here.store(0, 100, b"from node 0").unwrap();
    let mut bytes = [0; 11];
    here.load(0, 100, &mut bytes, SOON).unwrap();
    assert_eq!(&bytes, b"from node 0");
    sides[1].read(0, 100, &mut bytes).unwrap();
    assert_eq!(&bytes, b"from node 0", "in the part of node 2");
    assert!(matches!(sides[0].member(0), Err(WindowError::Elsewhere { member: 0, .. })));

    let refused = |ids: &[u16]| on(&nodes[1], ids).unwrap_err();
    assert!(matches!(refused(&[]), WindowError::NoMembers));
    assert!(matches!(refused(&[1, 2, 1]), WindowError::Twice(1)));
    let error = refused(&[0, 2]);
    assert!(error.to_string().contains("node 1 is none of the window's nodes [0, 2]"), "{error}");
    // The unit has other windows beside it, and node 2 none of these.
    let other = on(&nodes[0], &[0, 2]).unwrap();
    let beside = other.member(0).unwrap();
    beside.store(1, 100, b"not for you").unwrap();
    let error = beside.load(1, 100, &mut bytes, SOON).unwrap_err().to_string();
    assert!(error.contains("the window is not open there"), "{error}");
    sides[1].read(0, 100, &mut bytes).unwrap();
    assert_eq!(&bytes, b"from node 0");
}

//! The figures' programs against what is counted by hand, and their answers on machines that cost something else.

use ggas_shared_gpu::Algorithm::{Btb, Gsb, Static};
use ggas_shared_gpu::Copier::Engine;

use super::flat::{Call, Library};
use super::machine::{Machine, Way};
use super::rounds::{Host, allgather, allreduce};
use super::{nodes, setup};

const MIB: usize = 1 << 20;

fn near(ours: f64, expected: f64) {
    assert!((ours - expected).abs() < 1e-3 * expected, "{ours}, not {expected}");
}

/// Costs that are easy to count with.
fn round() -> Machine {
    let numbers = [
        ("message_us", 1.0),
        ("network_us", 10.0),
        ("network_gbytes_per_s", 1.0),
        ("core_gbytes_per_s", 8.0),
        ("host_gbytes_per_s", 16.0),
    ];
    numbers.into_iter().fold(Machine::k80(), |machine, (name, value)| machine.with(name, value))
}

#[test]
fn rounds_take_what_is_counted_by_hand() {
    let us = |host, ranks, per_node| round().ns_of(&allreduce(host, ranks, 16_000), per_node) as f64 / 1e3;
    // Two of a node: each core reads and writes 2 x 16 kB for each of two messages, 8 us, and 48 kB for the sum, 6 us.
    near(us(Host::Doubling, 2, 2), 1.0 + 8.0 + 6.0);
    // Four share 16 GB/s, of which each has 4.
    near(us(Host::Doubling, 4, 4), 2.0 * (1.0 + 16.0 + 12.0));
    // Two nodes: 16 kB each way at 1 GB/s, at once.
    near(us(Host::Doubling, 2, 1), 10.0 + 16.0 + 6.0);
    // Half of it added, and half of it back.
    near(us(Host::Rabenseifner, 2, 1), 10.0 + 8.0 + 3.0 + 10.0 + 8.0);
    // Two of each node to their like on the other share the network.
    near(us(Host::Doubling, 4, 2), (1.0 + 8.0 + 6.0) + (10.0 + 32.0 + 6.0));
    let gathered = allgather(Host::Ring, 3, 8_000).expect("any number");
    near(round().ns_of(&gathered, 1) as f64 / 1e3, 2.0 * (10.0 + 8.0));
    assert_eq!(round().ns_of(&allreduce(Host::Ring, 1, 1_000), 1), 0, "one has nobody to meet");
}

#[test]
fn the_step_between_nodes_is_copies_and_network() {
    // 1 MiB at 8 GB/s twice and 3/2 of it at 1 GB/s, of four nodes; sums of 3/4 of it.
    let machine = round().with("pcie_gbytes_per_s", 8.0).with("staged_start_us", 0.0).with("network_us", 0.0);
    let us = machine.us_between(Call::Allreduce, 4, MIB).expect("it ends");
    let bytes = MIB as f64 / 1e3;
    near(us, 2.0 * bytes / 8.0 + 1.5 * bytes + 0.75 * 3.0 * bytes / 8.0);
}

#[test]
fn blocks_hide_copies_and_processors_have_short_vectors_only() {
    let machine = Machine::odin(true);
    let us = |library, bytes| machine.us_of_flat(library, Call::Allreduce, (4, 16), bytes).expect("it ends");
    assert!(us(Library::Pipelined, 4 * MIB) < 0.7 * us(Library::Staged, 4 * MIB));
    near(us(Library::Pipelined, 4096), us(Library::Staged, 4096));
    assert!(us(Library::Mapped, 16) < us(Library::Staged, 16));
    assert!(us(Library::Mapped, 64 << 10) > us(Library::Staged, 64 << 10));
    assert!(us(Library::Loopback, 16) < us(Library::Staged, 16));
    // Where starts of copies cost nothing, neither gains.
    let free = machine.with("staged_start_us", 0.0).with("load_us", 5.0);
    let of_free = |library| free.us_of_flat(library, Call::Allreduce, (4, 16), 16).expect("it ends");
    assert!(of_free(Library::Mapped) > of_free(Library::Staged));
    // 16 processes' results share the lanes, whoever stores them.
    let gather = machine.us_of_flat(Library::Mapped, Call::Allgather, (4, 16), MIB).expect("it ends");
    assert!(gather > 16.0 * 64.0 * MIB as f64 / 10.0 / 1e3);
}

#[test]
fn a_set_up_that_costs_more_takes_more_calls() {
    let calls = |points: &[setup::Point], ranks, bytes| {
        let own = points.iter().find(|point| point.ranks == ranks && point.bytes == bytes);
        own.and_then(setup::Point::calls)
    };
    let as_it_is = setup::points(&Machine::k20());
    assert_eq!(calls(&as_it_is, 16, 16 * MIB), Some(1.0));
    assert_eq!(calls(&as_it_is, 16, 4), None, "GSB is slower there");
    let dear = setup::points(&Machine::k20().with("open_memory_us", 30_000.0));
    let (one, other) = (calls(&as_it_is, 16, MIB).expect("pays"), calls(&dear, 16, MIB).expect("pays"));
    assert!(other > 10.0 * one, "{other} and {one}");
    assert!(setup::claims(&as_it_is)[..2].iter().all(|claim| claim.holds));
    assert!(setup::claims(&dear)[..2].iter().all(|claim| !claim.holds));
}

/// The step between nodes is the same for both: the slower it is, the less GSB gains.
#[test]
fn gains_across_nodes_are_what_the_network_leaves() {
    let gain = |machine: &Machine| {
        let flat = machine.us_of_flat(Library::Staged, Call::Allreduce, (4, 24), 16 * MIB).expect("it ends");
        flat / machine.us_of_levels((Gsb, Gsb), (4, 1, 24), 16 * MIB).expect("it ends")
    };
    let [slow, as_it_is, quick] =
        [0.1, 3.2, 100.0].map(|rate| gain(&Machine::k80().with("network_gbytes_per_s", rate)));
    assert!(slow < 2.0 && slow < as_it_is && as_it_is < quick, "{slow} {as_it_is} {quick}");
    let points = nodes::points(&Machine::k80());
    let last = points.iter().find(|point| point.ranks == 24 && point.bytes == 16 * MIB).expect("it is there");
    near(last.gain(1), as_it_is);
}

/// BTB between GPUs wins by links that carry at once what GSB has wait for the first GPU's.
#[test]
fn trees_between_gpus_win_by_their_links() {
    let over = |machine: &Machine| {
        let us = |between| machine.us_of_levels((Gsb, between), (4, 8, 3), 16 * MIB).expect("it ends");
        us(Gsb) / us(Btb)
    };
    let (as_it_is, quick) = (over(&Machine::k80()), over(&Machine::k80().with("peer_gbytes_per_s", 1e4)));
    assert!(as_it_is > 1.05 && quick < as_it_is, "{as_it_is} {quick}");
}

/// The stages of an allgather on several nodes are taken from other calls: on one node they make up its own.
#[test]
fn stages_of_an_allgather_are_an_allgather() {
    let machine = Machine::odin(true);
    for (ranks, bytes) in [(4, 4 << 10), (8, 64 << 10), (16, 64), (16, 256 << 10), (16, MIB / 2)] {
        for staged in [0, ranks / 2, ranks - 1] {
            let way = Static { staged, by: Engine };
            let all = |bytes| machine.us_of(Way::Ours(way), ranks, bytes).expect("it ends");
            let reduce = |bytes| machine.us_of_reduce(way, ranks, bytes).expect("it ends");
            let gather = machine.us_of_gathering(way, ranks, bytes).expect("it ends");
            let ours = gather + all(ranks * bytes) - reduce(ranks * bytes);
            let whole = machine.us_of_gather(Way::Ours(way), ranks, bytes).expect("it ends");
            assert!((ours / whole - 1.0).abs() < 0.06, "{ranks} x {bytes}, {staged}: {ours}, not {whole}");
        }
    }
}

#[test]
fn libraries_and_stages_are_what_their_parts_cost() {
    let of = |machine: &Machine, call, bytes| {
        let [mpi, gdr] = machine.us_of_libraries(call, 16, bytes);
        (
            mpi,
            gdr,
            machine.us_in_stages(call, &[Static { staged: 8, by: Engine }], 16, bytes).expect("it ends"),
        )
    };
    let machine = Machine::odin(true);
    for call in [Call::Allreduce, Call::Allgather] {
        let (mpi, gdr, ours) = of(&machine, call, 8);
        assert!(gdr < mpi && mpi < ours, "{call:?}: {gdr} {mpi} {ours}");
        let (mpi, _, ours) = of(&machine, call, MIB);
        assert!(ours < mpi, "{call:?}: {ours} {mpi}");
        // Slow loads leave the network card's copies, and a slow network loads.
        for (slow, number) in [("load_us", 500.0), ("network_us", 50.0)] {
            let (mpi, gdr, _) = of(&machine.with(slow, number), call, 8);
            assert!(gdr < mpi, "{call:?}, {slow}: {gdr} {mpi}");
        }
        // Loads, and a network, that are slow leave nothing of GPUDirect.
        let (mpi, gdr, slow) = of(&machine.with("load_us", 500.0).with("network_us", 50.0), call, 8);
        assert_eq!(gdr, mpi);
        // Two rounds of four nodes, at the least.
        assert!(slow > of(&machine, call, 8).2 + 2.0 * 48.0 - 1.0, "{call:?}: {slow}");
    }
}

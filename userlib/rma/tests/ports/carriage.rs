//! How bytes travel between processes: by reference from buffers in the arena, in two copies from other memory.

use crate::common::{Pair, SOON, bytes, networks_on, paths, pattern, region};
use ggas_device::sim::FabricKind;
use ggas_rma::{HostBuffer, Kind, Match, RegionError, Spec};

const LEN: usize = 1 << 20;

#[test]
fn buffers_of_a_job_travel_by_reference_and_others_in_two_copies() {
    for network in networks_on(FabricKind::Process) {
        let fabric = &network.process_fabrics()[0];
        let pair = Pair::new(&network, paths()[0]);
        let to = region(&pair.target, LEN, 0);
        let connection = pair.origin.connect(pair.target.address());
        let shared = HostBuffer::in_arena(fabric.arena(), LEN).unwrap();
        let private = HostBuffer::unshared(LEN).unwrap();
        for (buffer, staged, seed) in [(shared, 0, 1), (private, LEN as u64, 2)] {
            let from = pair.origin.register(buffer).unwrap();
            from.write(0, &pattern(LEN, seed)).unwrap();
            let before = fabric.counters();
            connection.put(&from, 0, LEN, to.nla(0).unwrap(), Spec::COMPLETER).unwrap();
            assert!(pair.target.wait(SOON).unwrap().error().is_empty());
            assert_eq!(bytes(&to, 0, LEN), pattern(LEN, seed));
            let after = fabric.counters();
            assert_eq!(after.referenced - before.referenced, LEN as u64);
            assert_eq!(after.staged - before.staged, staged);
        }
    }
}

/// The requester's notification says that the source may be changed: also while the target has not copied it.
#[test]
fn a_source_may_be_changed_once_the_requester_says_so() {
    for network in networks_on(FabricKind::Process) {
        let pair = Pair::new(&network, paths()[0]);
        let to = region(&pair.target, LEN, 0);
        let connection = pair.origin.connect(pair.target.address());
        let arena = network.process_fabrics()[0].arena();
        for buffer in [HostBuffer::in_arena(arena, LEN).unwrap(), HostBuffer::unshared(LEN).unwrap()] {
            let from = pair.origin.register(buffer).unwrap();
            for round in 0..20u8 {
                from.write(0, &pattern(LEN, round)).unwrap();
                connection.put(&from, 0, LEN, to.nla(0).unwrap(), Spec::REQUESTER | Spec::COMPLETER).unwrap();
                pair.origin.wait_match(&Match::any().kind(Kind::Requester), SOON).unwrap();
                from.write(0, &[0xff; LEN]).unwrap();
                pair.target.wait(SOON).unwrap();
                assert_eq!(bytes(&to, 0, LEN), pattern(LEN, round));
            }
        }
    }
}

#[test]
fn ends_of_regions_are_kept_to_on_every_way() {
    for network in networks_on(FabricKind::Process) {
        let pair = Pair::new(&network, paths()[0]);
        let arena = network.process_fabrics()[0].arena();
        let to = region(&pair.target, 4096, 7);
        let connection = pair.origin.connect(pair.target.address());
        for buffer in [HostBuffer::in_arena(arena, LEN).unwrap(), HostBuffer::unshared(LEN).unwrap()] {
            let from = pair.origin.register(buffer).unwrap();
            connection.put(&from, 0, LEN, to.nla(0).unwrap(), Spec::COMPLETER).unwrap();
            let arrived = pair.target.wait(SOON).unwrap();
            assert!(!arrived.error().is_empty(), "{LEN} bytes do not fit into a page");
            let past = connection.put(&from, 1, LEN, to.nla(0).unwrap(), Spec::COMPLETER).unwrap_err();
            assert!(matches!(past, ggas_rma::PostError::Region(RegionError::Range { .. })));
        }
    }
}

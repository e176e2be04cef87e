//! Commands that begin again: they go on where they were, nothing of them is done a second time, and nobody else is
//! taken for them.

use std::time::Duration;

use crate::common::engines::{
    CONFIG, ENTRIES, FRAGMENT, engines, errors, is_full, patient, port, put_of_fragments, small_port,
    with_config,
};
use crate::common::{SOON, bytes, pattern, region, until};
use ggas_device::engine::{EngineConfig, EngineErrors, EngineNetwork};
use ggas_rma::{
    ErrorUnits, Kind, Modifier, Node, Notification, Port, PortConfig, PortError, Region, Request, Spec,
};

/// Engines that wait for room in a queue end as they are told to end at once, which is after this time.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Two ports, and memory of each.
struct Ends {
    network: EngineNetwork,
    ports: [Port; 2],
    regions: [Region; 2],
}

impl Ends {
    fn new() -> Ends {
        let network = patient(TIMEOUT);
        let ports = [0, 1].map(|node| small_port(&network, node));
        let regions = [0, 1].map(|i| region(&ports[i], 4096, i as u8));
        Ends { network, ports, regions }
    }

    fn nla(&self, node: usize) -> u64 {
        self.regions[node].nla(0).unwrap()
    }

    /// What both ports hear of a request whose engine ends, with a full queue, after it has left.
    fn told(&self, request: &Request, other: Spec) -> [Notification; 2] {
        let [origin, target] = &self.ports;
        let running = self.network.run().unwrap();
        let back = target.connect(origin.address());
        (0..ENTRIES - 1).for_each(|i| back.notification_put(1, i, Spec::COMPLETER).unwrap());
        until("the queue does not fill", || is_full(origin));
        let connection = origin.connect(target.address());
        connection.post(request, Spec::REQUESTER | other, Modifier::NONE).unwrap();
        let there = target.wait(SOON).unwrap();
        drop(running);
        let _running = self.network.run().unwrap();
        for i in 0..ENTRIES - 1 {
            assert_eq!(origin.wait(SOON).unwrap().word0, i);
        }
        let here = origin.wait(SOON).unwrap();
        assert_eq!(here.kind(), Some(Kind::Requester), "{here:?}");
        connection.notification_put(2, 99, Spec::COMPLETER).unwrap();
        let next = target.wait(SOON).unwrap();
        assert_eq!((next.word0, next.class()), (99, 2), "{request:?} went twice: {next:?}");
        assert!(origin.poll().is_none() && target.poll().is_none());
        [here, there]
    }
}

#[test]
fn what_has_left_is_not_sent_again_though_its_engine_ends() {
    let requests = |ends: &Ends| {
        let (here, there) = (ends.nla(0), ends.nla(1));
        [
            (Request::Put { qw: false, read: here, write: there, size: 64 }, Spec::COMPLETER),
            (Request::ImmediatePut { count: 8, write: there, value: 7 }, Spec::COMPLETER),
            (Request::NotificationPut { class: 1, payload: 7 }, Spec::COMPLETER),
            (Request::Lock { to_responder: false, number: 1, compare: 9, add: 1 }, Spec::RESPONDER),
            (Request::Get { qw: false, read: there, write: here, size: 64 }, Spec::RESPONDER),
        ]
    };
    for i in 0..requests(&Ends::new()).len() {
        let ends = Ends::new();
        let (request, spec) = requests(&ends)[i];
        let [here, there] = ends.told(&request, spec);
        assert!(here.error().is_empty() && there.error().is_empty(), "{here:?} {there:?}");
        for node in 0..2 {
            assert_eq!(errors(&ends.network, node), EngineErrors::default(), "{request:?}");
        }
    }
}

#[test]
fn an_error_of_what_has_left_is_reported_once_though_its_engine_ends() {
    // Nobody registered memory there; within a packet, and more.
    for size in [64, 10_000] {
        let ends = Ends::new();
        let request = Request::Put { qw: false, read: 1 << 35, write: ends.nla(1), size };
        let [here, there] = ends.told(&request, Spec::COMPLETER);
        assert!(!here.error().is_empty() && !there.error().is_empty(), "{here:?} {there:?}");
        assert_eq!(errors(&ends.network, 0), EngineErrors { source: 1, ..EngineErrors::default() });
        assert_eq!(errors(&ends.network, 1), EngineErrors { received: 1, ..EngineErrors::default() });
    }
}

#[test]
fn fragments_that_left_are_reported_once_though_their_engine_ends() {
    const FRAGMENTS: u64 = 2 * ENTRIES - 1;
    let network = patient(TIMEOUT);
    let (origin, target) = (small_port(&network, 0), small_port(&network, 1));
    let regions = put_of_fragments(&origin, &target, FRAGMENTS, Spec::REQUESTER);
    let running = network.run().unwrap();
    until("the queue does not fill", || is_full(&origin));
    drop(running);
    let _running = network.run().unwrap();
    for i in 0..FRAGMENTS {
        assert_eq!(origin.wait(SOON).unwrap().word0, regions[0].nla(0).unwrap() + i * FRAGMENT, "{i}");
    }
    assert!(origin.poll().is_none());
}

#[test]
fn a_long_get_ends_though_its_responder_sees_epochs_all_the_time() {
    const BYTES: usize = 1 << 20;
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let (to, from) = (region(&origin, BYTES, 1), region(&target, BYTES, 2));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    connection.get(&to, 0, BYTES, from.nla(0).unwrap(), Spec::COMPLETER).unwrap();
    until("the get does not end", || {
        port(&network, 1).close().unwrap();
        origin.poll().is_some_and(|noti| noti.error().is_empty())
    });
    assert!(bytes(&to, 0, BYTES) == pattern(BYTES, 2));
}

/// Commands of two ports, one of which has a number that is also that of the other one's target.
#[test]
fn a_put_with_an_error_is_not_mistaken_for_what_arrives_between_its_packets() {
    const HOLE: usize = 4096;
    const BYTES: usize = 1 << 20;
    const POSTS: u64 = 100;
    let network = with_config(2, EngineConfig { requesters: Some(2), ..EngineConfig::default() });
    let (origin, other, target) = (port(&network, 0), port(&network, 0), port(&network, 1));
    assert_eq!(origin.address().vpid, target.address().vpid);
    let (hole, to) = (region(&target, HOLE, 0), region(&target, BYTES, 0));
    let from = region(&origin, HOLE + BYTES, 1);
    let first = hole.nla(0).unwrap();
    assert_eq!(to.nla(0).unwrap(), first + HOLE as u64);
    hole.unregister().unwrap();
    let _running = network.run().unwrap();
    // Its first packet is refused, and the last one says so.
    let put = origin.connect(target.address()).put(&from, 0, HOLE + BYTES, first, Spec::COMPLETER);
    put.unwrap();
    let connection = other.connect(target.address());
    (0..POSTS).for_each(|i| connection.notification_put(1, i, Spec::COMPLETER).unwrap());
    let mut next = 0;
    for _ in 0..=POSTS {
        let noti = target.wait(SOON).unwrap();
        if noti.remote() == origin.address() {
            assert!(!noti.error().is_empty(), "{noti:?}");
            continue;
        }
        assert!(noti.error().is_empty(), "{noti:?}");
        assert_eq!(noti.word0, next);
        next += 1;
    }
    assert_eq!(next, POSTS);
    assert_eq!(errors(&network, 1), EngineErrors { target: 1, ..EngineErrors::default() });
}

/// Engines that have stopped in the middle of a put, of which one packet was refused; no notification told of it.
fn cut_short(network: &EngineNetwork, [origin, other]: [&Port; 2], [target, full]: [&Port; 2]) -> bool {
    const HOLE: usize = 4096;
    const BYTES: usize = (8 << 20) - 2 * HOLE; // of a put at most, nearly
    let (hole, to) = (region(target, HOLE, 0), region(target, BYTES, 0));
    let from = region(origin, HOLE + BYTES, 1);
    let first = hole.nla(0).unwrap();
    assert_eq!(to.nla(0).unwrap(), first + HOLE as u64);
    hole.unregister().unwrap();
    let refused = errors(network, 1).target;
    let running = network.run().unwrap();
    let fill = other.connect(full.address());
    (0..ENTRIES - 1).for_each(|i| fill.notification_put(1, i, Spec::COMPLETER).unwrap());
    until("the queue does not fill", || is_full(full));
    origin.connect(target.address()).put(&from, 0, HOLE + BYTES, first, Spec::COMPLETER).unwrap();
    until("the put is not refused", || errors(network, 1).target > refused);
    // Nothing that comes behind is taken in.
    fill.notification_put(1, ENTRIES, Spec::COMPLETER).unwrap();
    drop(running);
    (1..ENTRIES).for_each(|_| assert!(full.wait(SOON).is_ok()));
    if origin.outstanding() != 0 {
        return true;
    }
    // All of it had left before. What was to stop it is out of the way for the next one.
    let _running = network.run().unwrap();
    full.wait(SOON).unwrap();
    target.wait(SOON).unwrap();
    false
}

#[test]
fn an_error_of_a_put_that_was_cut_short_is_not_that_of_the_next_one() {
    let config = EngineConfig {
        requesters: Some(2),
        queue_timeout: Duration::from_secs(600),
        timeout: TIMEOUT,
        ..EngineConfig::default()
    };
    let network = with_config(2, config);
    let hasty = PortConfig { post_timeout: Duration::from_millis(100), ..CONFIG };
    let mut origin = Node::new(network.device(0).unwrap()).open_port(hasty).unwrap();
    let other = port(&network, 0);
    let (target, full) = (port(&network, 1), small_port(&network, 1));
    let address = origin.address();
    let was_cut = (0..20).any(|_| cut_short(&network, [&origin, &other], [&target, &full]));
    assert!(was_cut, "every put ended before what was to stop it");
    // A port that closes takes with it what it has not sent in time.
    let closed = origin.close();
    assert!(matches!(closed, Err(PortError::Undrained { outstanding: 1, .. })), "{closed:?}");
    origin = port(&network, 0);
    assert_eq!(origin.address(), address);
    let _running = network.run().unwrap();
    let (from, to) = (region(&origin, 4096, 1), region(&target, 4096, 0));
    origin.connect(target.address()).put(&from, 0, 4096, to.nla(0).unwrap(), Spec::COMPLETER).unwrap();
    let noti = target.wait(SOON).unwrap();
    assert!(noti.error().is_empty(), "{noti:?}");
    assert_eq!(bytes(&to, 0, 4096), pattern(4096, 1));
}

#[test]
fn an_error_of_a_get_is_reported_though_the_port_it_reads_from_closes() {
    const HOLE: usize = 4096;
    const BYTES: usize = 4 << 20;
    let network = engines(2);
    let origin = port(&network, 0);
    let (hole, to) = (region(&origin, HOLE, 0), region(&origin, BYTES, 0));
    let write = hole.nla(0).unwrap();
    assert_eq!(to.nla(0).unwrap(), write + HOLE as u64);
    hole.unregister().unwrap();
    let _running = network.run().unwrap();
    let was_cut = (0..20).any(|_| {
        let target = port(&network, 1);
        let from = region(&target, HOLE + BYTES, 1);
        let get = Request::Get { qw: false, read: from.nla(0).unwrap(), write, size: (HOLE + BYTES) as u32 };
        let refused = errors(&network, 0).target;
        origin.connect(target.address()).post(&get, Spec::COMPLETER, Modifier::NONE).unwrap();
        until("the answer is not refused", || errors(&network, 0).target > refused);
        target.close().unwrap();
        let error = origin.wait(SOON).unwrap().error();
        assert!(error.contains(ErrorUnits::COMPLETER), "{error:?}");
        error.contains(ErrorUnits::RESPONDER)
    });
    assert!(was_cut, "every get ended before its port closed");
}

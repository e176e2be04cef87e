//! Ports served by engines (kernels that do the card's work), on the CPU executor: they must say and move what the model
//! says and moves.

use crate::common::engines::{CONFIG, engines, errors, port};
use crate::common::{SOON, builder, bytes, pattern, region};
use ggas_device::engine::{EngineErrors, EngineNetwork};
use ggas_kernels::Processor;
use ggas_rma::{
    Address, Kind, Modifier, Node, Notification, PageOption, Path, Port, PortConfig, Region, Request, Spec,
};

/// Two ports of two nodes with a region each.
struct Ends {
    ports: [Port; 2],
    regions: [Region; 2],
}

impl Ends {
    const BYTES: usize = 100_000;

    fn new(ports: [Port; 2]) -> Ends {
        let regions = [0, 1].map(|i| region(&ports[i], Ends::BYTES, i as u8));
        Ends { ports, regions }
    }

    fn memory(&self) -> [Vec<u8>; 2] {
        [0, 1].map(|i| bytes(&self.regions[i], 0, Ends::BYTES))
    }

    /// Posts the words at port 0, then waits for a command behind them, and returns what both ports were told before.
    fn told(&self, words: [u64; 3]) -> [Vec<Notification>; 2] {
        self.ports[0].post_raw(PageOption::TE, words).unwrap();
        let mut told = [Vec::new(), Vec::new()];
        // A get follows the way of requests and responses, and tells both sides.
        let Address { node, vpid } = self.ports[1].address();
        let (read, write) = (self.regions[1].nla(0).unwrap(), self.regions[0].nla(99_992).unwrap());
        let request = Request::Get { qw: true, read, write, size: 8 };
        let connection = self.ports[0].connect(Address { node, vpid });
        connection.post(&request, Spec::RESPONDER | Spec::COMPLETER, Modifier::NTR).unwrap();
        for (port, told) in self.ports.iter().zip(&mut told) {
            loop {
                let noti = port.wait(SOON).unwrap();
                // Its address and size are nobody else's.
                if noti.word0 == read && noti.kind() == Some(Kind::Responder)
                    || noti.word0 == write && noti.kind() == Some(Kind::Completer)
                {
                    break;
                }
                told.push(noti);
            }
        }
        told
    }
}

/// The same ports and regions on the model and on engines: NLAs and VPIDs are the same too.
struct Twins {
    model: Ends,
    engine: Ends,
    network: EngineNetwork,
}

impl Twins {
    fn new() -> Twins {
        let sim = builder().build().unwrap();
        let open = |node| Node::new(sim.device(node).unwrap()).open_port(CONFIG).unwrap();
        let model = Ends::new([open(0), open(1)]);
        let network = engines(2);
        let engine = Ends::new([port(&network, 0), port(&network, 1)]);
        for i in 0..2 {
            assert_eq!(model.regions[i].nla(0).unwrap(), engine.regions[i].nla(0).unwrap());
            assert_eq!(model.ports[i].address(), engine.ports[i].address());
        }
        Twins { model, engine, network }
    }

    /// Posts the words on both; they must say the same, in the same order at each port, and leave the same bytes.
    fn compare(&self, words: [u64; 3]) -> [Vec<Notification>; 2] {
        let (expected, told) = (self.model.told(words), self.engine.told(words));
        assert_eq!(told, expected, "words {words:#x?}");
        for (i, (engine, model)) in self.engine.memory().iter().zip(self.model.memory()).enumerate() {
            let differs = engine.iter().zip(&model).position(|(a, b)| a != b);
            assert_eq!(differs, None, "the first byte of region {i} that differs after {words:#x?}");
        }
        told
    }

    fn post(&self, request: &Request, spec: Spec, modifier: Modifier) -> [Vec<Notification>; 2] {
        let to = self.model.ports[1].address();
        self.compare(extoll_abi::Descriptor::encode(to, spec, modifier, request).unwrap().word)
    }
}

#[test]
fn ports_of_which_nothing_is_said_post_as_the_device_can() {
    let (model, network) = (builder().build().unwrap(), engines(1));
    let devices = [model.device(0).unwrap(), network.device(0).unwrap()];
    let (nodes, config) = (devices.map(Node::new), PortConfig::default());
    let ports = nodes.each_ref().map(|node| node.open_port(config).unwrap());
    assert_eq!([0, 1].map(|i| ports[i].config().path), [Some(Path::Card), Some(Path::Slots)]);
    // Kernels take slots of both: they serve those on GPUs, too.
    let cpu = Processor::cpu();
    let ports = nodes.each_ref().map(|node| node.open_kernel_port(config, &cpu).unwrap());
    assert!(ports.into_iter().all(|port| port.path() == Path::Slots));
}

#[test]
fn puts_and_gets_are_those_of_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let at = |i: usize, offset| twins.model.regions[i].nla(offset).unwrap();
    let sizes = [1, 7, 8, 9, 16, 224, 225, 496, 497, 4095, 4096, 4097, 50_001];
    for (n, size) in sizes.into_iter().enumerate() {
        for (from, to) in [(0, 0), (8, 16), (1, 0), (4093, 4090)] {
            let modifier = if n % 3 == 0 { Modifier::NTR } else { Modifier::NONE };
            let put = Request::Put { qw: false, read: at(0, from), write: at(1, to), size };
            twins.post(&put, Spec::REQUESTER | Spec::COMPLETER, modifier);
            let get = Request::Get { qw: false, read: at(1, from + 5), write: at(0, to + 40_000), size };
            twins.post(&get, Spec::REQUESTER | Spec::RESPONDER | Spec::COMPLETER, modifier);
        }
    }
    let quadwords = Request::Put { qw: true, read: at(0, 8), write: at(1, 80), size: 4096 };
    twins.post(&quadwords, Spec::COMPLETER, Modifier::NONE);
    let quadwords = Request::Get { qw: true, read: at(1, 8), write: at(0, 80), size: 6000 };
    let told = twins.post(&quadwords, Spec::COMPLETER, Modifier::NONE);
    assert_eq!((told[0].len(), told[1].len()), (1, 0));
    assert_eq!(errors(&twins.network, 0), EngineErrors::default());
    assert_eq!(errors(&twins.network, 1), EngineErrors::default());
}

#[test]
fn short_puts_over_and_over_are_those_of_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let at = |i: usize, offset| twins.model.regions[i].nla(offset).unwrap();
    let specs =
        [Spec::COMPLETER, Spec::REQUESTER | Spec::COMPLETER, Spec::REQUESTER, Spec::NONE, Spec::COMPLETER];
    for (n, size) in [8, 16, 224, 232, 240, 496, 504, 1024, 2048, 4088, 4096].into_iter().enumerate() {
        for (i, spec) in specs.into_iter().enumerate() {
            // Another page each time, and the same ones again.
            let (from, to) = (4096 * ((n + i) % 5), 4096 * (i % 3) + 40_960);
            let put = Request::Put { qw: i % 2 == 0, read: at(0, from), write: at(1, to), size };
            let told = twins.post(&put, spec, Modifier::NONE);
            let expected = |unit| usize::from(spec.contains(unit));
            assert_eq!(
                (told[0].len(), told[1].len()),
                (expected(Spec::REQUESTER), expected(Spec::COMPLETER))
            );
        }
    }
}

#[test]
fn puts_across_pages_are_those_of_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let at = |i: usize, offset| twins.model.regions[i].nla(offset).unwrap();
    // A warp alone, and what helpers get: the words behind the first 156.
    for size in [16, 224, 232, 744, 752, 1248, 1256, 2048, 4096] {
        let across = 4096 - (size as usize / 2).next_multiple_of(8);
        for (from, to) in [(across, 8192), (8192, across), (across, 4088), (4088, across)] {
            // The first one translates; with and without a notification that waits for the data.
            for (n, spec) in
                [Spec::NONE, Spec::COMPLETER, Spec::COMPLETER, Spec::NONE].into_iter().enumerate()
            {
                let (from, to) = (at(0, from + 4096 * (n % 2)), at(1, to + 32_768 + 4096 * (n / 2)));
                let put = Request::Put { qw: n == 1, read: from, write: to, size };
                let told = twins.post(&put, spec, Modifier::NONE);
                assert_eq!((told[0].len(), told[1].len()), (0, usize::from(spec == Spec::COMPLETER)));
            }
        }
    }
    assert_eq!(errors(&twins.network, 0), EngineErrors::default());
    assert_eq!(errors(&twins.network, 1), EngineErrors::default());
}

#[test]
fn what_was_translated_is_for_its_port_and_ends_with_its_region() {
    let network = engines(2);
    let (owner, other, target) = (port(&network, 0), port(&network, 0), port(&network, 1));
    let (from, to) = (region(&owner, 8192, 1), region(&target, 8192, 2));
    let _running = network.run().unwrap();
    let put = |size| Request::Put {
        qw: false,
        read: from.nla(4096 - 64).unwrap(),
        write: to.nla(0).unwrap(),
        size,
    };
    // Within a page and across two.
    let puts = [put(64), put(128)].map(|put| {
        let (spec, to) = (Spec::COMPLETER, target.address());
        extoll_abi::Descriptor::encode(to, spec, Modifier::NONE, &put).unwrap().word
    });
    let is_refused = |port: &Port, words| {
        port.post_raw(PageOption::TE, words).unwrap();
        !target.wait(SOON).unwrap().error().is_empty()
    };
    for words in puts {
        assert!(!is_refused(&owner, words) && !is_refused(&owner, words));
        assert!(is_refused(&other, words), "memory of another port");
        assert!(!is_refused(&owner, words));
    }
    assert!(!is_refused(&owner, puts[0]));
    from.unregister().unwrap();
    for words in puts {
        assert!(is_refused(&owner, words), "an old translation was used");
    }
    assert_eq!(errors(&network, 0).source, 4);
}

#[test]
fn small_commands_are_those_of_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let every = Spec::REQUESTER | Spec::RESPONDER | Spec::COMPLETER;
    let nla = twins.model.regions[1].nla(0).unwrap();
    for count in 1..=8 {
        // The last one crosses a page.
        for write in [nla, nla + 3, nla + 4090 + u64::from(count)] {
            let request = Request::ImmediatePut { count, write, value: 0x8877_6655_4433_2211 };
            twins.post(&request, every, Modifier::NONE);
        }
    }
    twins.post(&Request::NotificationPut { class: 200, payload: u64::MAX }, every, Modifier::NONE);
    twins.post(&Request::NotificationPut { class: 0, payload: 0 }, Spec::COMPLETER, Modifier::NONE);
    // The spec's trace (section 5), then locks that do not exist.
    for (compare, add) in [(28, 7), (28, 7), (28, 7), (28, 7), (28, 7), (28, 7), (35, -7), (-1, 5)] {
        let told = twins.post(
            &Request::Lock { to_responder: false, number: 3, compare, add },
            every,
            Modifier::NONE,
        );
        assert_eq!((told[0].len(), told[1].len()), (2, 1));
    }
    for number in [16, 0xff_ffff] {
        twins.post(&Request::Lock { to_responder: true, number, compare: 9, add: 1 }, every, Modifier::NONE);
    }
    assert_eq!(errors(&twins.network, 1).responder, 2);
}

#[test]
fn what_is_wrong_is_said_as_the_model_says_it() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let Address { node, vpid } = twins.model.ports[1].address();
    let frame = |command: u64, spec: u64| {
        3 | command << 2 | u64::from(vpid) << 8 | u64::from(node) << 16 | spec << 32
    };
    let nla = twins.model.regions[0].nla(0).unwrap();
    let far = 1 << 35;
    for command in 0..16 {
        let size = 63 << 40;
        // Unregistered source and destination, unaligned for quadwords, another count of quadwords, the Excellerate
        // port, a closed VPID.
        for words in [
            [frame(command, 7) | size, far, nla],
            [frame(command, 7) | size, nla, far],
            [frame(command, 7) | 4999 << 40, nla, nla + 99_000],
            [frame(command, 7) | size, nla + 1, nla],
            [(frame(command, 7) | size) & !1, nla, nla],
            [frame(command, 7) | size | 4 << 35, nla, nla],
            [frame(command, 7) | size | 8 << 35, nla, nla],
            [frame(command, 7) | size | 9 << 8, nla, nla],
            [frame(command, 0) | size, far, far],
        ] {
            twins.compare(words);
        }
    }
    let (origin, target) = (errors(&twins.network, 0), errors(&twins.network, 1));
    assert!(origin.command > 0 && origin.source > 0 && origin.route == 0, "{origin:?}");
    assert!(
        target.vpid > 0 && target.target > 0 && target.received > 0 && target.responder > 0,
        "{target:?}"
    );
}

#[test]
fn random_words_are_answered_as_by_the_model() {
    let twins = Twins::new();
    let _running = twins.network.run().unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for i in 0..400 {
        let [mut word0, mut word1, mut word2] = [next(), next(), next()];
        // To node 0 or 1 and open VPIDs mostly; no multicast; addresses mostly registered.
        word0 = word0 & !0xffff_ff08_ffff_ff03 | 3 | (next() & 1) << 16;
        if i % 8 != 0 {
            word0 &= !(0x7f_0000 << 40);
            (word1, word2) = (word1 % 110_000, word2 % 110_000);
        }
        if i % 16 == 1 {
            word0 |= 1 << 8;
        }
        twins.compare([word0, word1, word2]);
    }
}

#[test]
fn a_node_that_is_not_there_is_an_error_of_the_requester() {
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let _running = network.run().unwrap();
    let nowhere = origin.connect(Address { node: 2, vpid: 0 });
    nowhere.notification_put(1, 2, Spec::REQUESTER | Spec::COMPLETER).unwrap();
    let noti = origin.wait(SOON).unwrap();
    assert!(noti.kind() == Some(Kind::Requester) && !noti.error().is_empty(), "{noti:?}");
    assert_eq!(errors(&network, 0).route, 1);
    origin.connect(target.address()).notification_put(1, 2, Spec::COMPLETER).unwrap();
    assert!(target.wait(SOON).unwrap().error().is_empty(), "others are not touched");
}

#[test]
fn the_largest_put_is_exact_and_one_byte_beyond_its_region_moves_nothing() {
    const BYTES: usize = 8 << 20;
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let (from, to) = (region(&origin, BYTES, 3), region(&target, BYTES, 4));
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    // Registered memory ends with a page; the size goes beyond.
    let request =
        Request::Put { qw: false, read: from.nla(1).unwrap(), write: to.nla(0).unwrap(), size: BYTES as u32 };
    connection.post(&request, Spec::REQUESTER | Spec::COMPLETER, Modifier::NONE).unwrap();
    assert!(!origin.wait(SOON).unwrap().error().is_empty());
    assert!(!target.wait(SOON).unwrap().error().is_empty());
    assert!(bytes(&to, 0, BYTES) == pattern(BYTES, 4), "no byte moved");
    connection.put(&from, 0, BYTES, to.nla(0).unwrap(), Spec::COMPLETER).unwrap();
    let noti = target.wait(SOON).unwrap();
    let last = (BYTES as u64 - 1) / 496 * 496;
    assert_eq!(noti.word0, to.nla(0).unwrap() + last);
    assert!(bytes(&to, 0, BYTES) == pattern(BYTES, 3));
}

#[test]
fn a_page_that_is_missing_in_the_middle_is_an_error_of_the_whole_put() {
    let network = engines(2);
    let (origin, target) = (port(&network, 0), port(&network, 1));
    let from = region(&origin, 5 * 4096, 1);
    let parts: Vec<_> = (0..5).map(|i| region(&target, 4096, 10 + i)).collect();
    let first = parts[0].nla(0).unwrap();
    let mut parts: Vec<_> = parts.into_iter().map(Some).collect();
    parts[2].take().unwrap().unregister().unwrap();
    let _running = network.run().unwrap();
    let connection = origin.connect(target.address());
    connection.put(&from, 0, 5 * 4096, first, Spec::COMPLETER).unwrap();
    let noti = target.wait(SOON).unwrap();
    assert!(!noti.error().is_empty(), "{noti:?}");
    // The next one of the same port is not blamed for it.
    connection.put(&from, 0, 4096, first, Spec::COMPLETER).unwrap();
    assert!(target.wait(SOON).unwrap().error().is_empty());
}

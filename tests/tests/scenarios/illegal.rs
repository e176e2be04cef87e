//! Illegal input: it is counted and reported to whoever asked, changes no memory, and disturbs nobody
//! (spec 3.4, 4.1). "Unchanged destination is correct."

use extoll_abi::regs::{self, ErrorCounter};
use ggas::{
    Access, Address, Command, ErrorUnits, HostBuffer, Kind, Modifier, Notification, PageOption, Path,
    Request, Spec,
};
use ggas_tests::{Area, Bed, Errors, Pair, each, until};

/// What the tests of librma2 add to an address to leave every region.
const BEYOND: u64 = 0x100_0000;

/// Ports with an area each, and the error counters before anything happened.
struct Stage<'a> {
    bed: &'a Bed,
    pair: Pair,
    here: Area,
    there: Area,
    origin_before: Errors,
    target_before: Errors,
}

impl<'a> Stage<'a> {
    fn new(bed: &'a Bed) -> Stage<'a> {
        let pair = bed.pair();
        let here = Area::new(&pair.origin, 8192, 1);
        let there = Area::new(pair.target(), 8192, 2);
        let (origin_before, target_before) = (Errors::of(bed.origin()), Errors::of(bed.target()));
        Stage { bed, pair, here, there, origin_before, target_before }
    }

    /// Posts three words, waits until they and all before are done, and returns the notifications.
    fn post(&self, words: [u64; 3]) -> (Vec<Notification>, Vec<Notification>) {
        self.pair.origin.post_raw(self.pair.to.option(), words).unwrap();
        let seen = self.pair.settle();
        (seen.origin, seen.target)
    }

    fn request(
        &self,
        request: &Request,
        spec: Spec,
        modifier: Modifier,
    ) -> (Vec<Notification>, Vec<Notification>) {
        let words = extoll_abi::Descriptor::encode(self.pair.to.remote(), spec, modifier, request).unwrap();
        self.post(words.word)
    }

    /// Memory is as it was, and exactly these errors were counted at the origin and at the target.
    fn counted(&self, origin: &[ErrorCounter], target: &[ErrorCounter]) {
        self.here.verify("the origin's memory");
        self.there.verify("the target's memory");
        let tally = |counters: &[ErrorCounter]| {
            let mut names: Vec<_> = counters.iter().map(|c| (c.name, 1)).collect();
            names.sort();
            names
        };
        let (at_origin, at_target) = (
            Errors::of(self.bed.origin()).since(&self.origin_before),
            Errors::of(self.bed.target()).since(&self.target_before),
        );
        if self.bed.origin().id() == self.bed.target().id() {
            assert_eq!(at_origin, tally(&[origin, target].concat()));
        } else {
            assert_eq!((at_origin, at_target), (tally(origin), tally(target)));
        }
    }
}

/// The one notification of `kind` says that an error happened in `unit`.
fn reports(notifications: &[Notification], kind: Kind, unit: ErrorUnits) {
    let of_kind: Vec<_> = notifications.iter().filter(|n| n.kind() == Some(kind)).collect();
    let [one] = of_kind[..] else { panic!("not one {kind:?} notification: {notifications:x?}") };
    assert!(one.error().contains(unit), "{one:x?} names {:?}, not {unit:?}", one.error());
}

/// Codes without a command, and commands that only the hardware makes (spec 2.2).
const ILLEGAL: [u64; 9] = [4, 7, 8, 9, 14, 15, 10, 11, 13];

#[test]
fn illegal_cmd_with_noti_reports_two_errors() {
    each(|bed| {
        for code in ILLEGAL {
            let stage = Stage::new(bed);
            let put = Request::Put { qw: false, read: stage.here.nla(0), write: stage.there.nla(0), size: 8 };
            let to = stage.pair.to.remote();
            let mut words = extoll_abi::Descriptor::encode(to, Spec::ALL, Modifier::NONE, &put).unwrap().word;
            words[0] = words[0] & !(15 << 2) | code << 2;
            // Which side a completer's notification of such a command belongs to is left open: take both.
            stage.pair.origin.post_raw(PageOption::default(), words).unwrap();
            let all = stage.pair.settle_any();
            assert_eq!(all.len(), 2, "command {code}: {all:x?}");
            reports(&all, Kind::Requester, ErrorUnits::REQUESTER);
            reports(&all, Kind::Completer, ErrorUnits::REQUESTER);
            assert!(all.iter().all(|n| u64::from(n.command().get()) == code), "{all:x?}");
            stage.counted(&[regs::REQ_CMDT], &[regs::COMPL_ERRCMD]);
        }
    });
}

#[test]
fn illegal_cmd_without_noti_is_counted_and_silent() {
    each(|bed| {
        let stage = Stage::new(bed);
        let to = stage.pair.to.remote();
        let (origin, target) =
            stage.post([3 | 4 << 2 | u64::from(to.vpid) << 8 | u64::from(to.node) << 16, 1, 2]);
        assert_eq!((origin.len(), target.len()), (0, 0));
        let counted = Errors::of(bed.origin()).since(&stage.origin_before);
        assert!(counted.contains(&(regs::REQ_CMDT.name, 1)), "{counted:?}");
        stage.here.verify("the origin's memory");
        stage.there.verify("the target's memory");
    });
}

#[test]
fn illegal_mem_write_changes_nothing_and_is_reported() {
    each(|bed| {
        let stage = Stage::new(bed);
        let (read, write) = (stage.here.nla(8), stage.there.nla(8) + BEYOND);
        let put = Request::Put { qw: false, read, write, size: 100 };
        let (origin, target) = stage.request(&put, Spec::ALL, Modifier::NONE);
        assert_eq!((origin.len(), target.len()), (1, 1));
        assert!(origin[0].error().is_empty(), "the requester did its part");
        reports(&target, Kind::Completer, ErrorUnits::COMPLETER);
        stage.counted(&[], &[regs::COMPL_TRANS]);
    });
}

#[test]
fn illegal_immediate_put_changes_nothing_and_is_reported() {
    each(|bed| {
        let stage = Stage::new(bed);
        let put = Request::ImmediatePut { count: 8, write: stage.there.nla(8) + BEYOND, value: 7 };
        let (_, target) = stage.request(&put, Spec::ALL, Modifier::NONE);
        reports(&target, Kind::Completer, ErrorUnits::COMPLETER);
        stage.counted(&[], &[regs::COMPL_TRANS]);
    });
}

#[test]
fn illegal_mem_requester_changes_nothing_and_is_reported() {
    each(|bed| {
        let stage = Stage::new(bed);
        let (read, write) = (stage.here.nla(8) + BEYOND, stage.there.nla(8));
        let put = Request::Put { qw: false, read, write, size: 100 };
        let (origin, target) = stage.request(&put, Spec::ALL, Modifier::NONE);
        assert_eq!((origin.len(), target.len()), (1, 1));
        reports(&origin, Kind::Requester, ErrorUnits::REQUESTER);
        reports(&target, Kind::Completer, ErrorUnits::REQUESTER);
        stage.counted(&[regs::REQ_TRANS], &[regs::COMPL_ERRCMD]);
    });
}

#[test]
fn illegal_mem_read_changes_nothing_and_is_reported() {
    each(|bed| {
        let stage = Stage::new(bed);
        let (read, write) = (stage.there.nla(8) + BEYOND, stage.here.nla(8));
        let get = Request::Get { qw: false, read, write, size: 100 };
        let (origin, target) = stage.request(&get, Spec::ALL, Modifier::NONE);
        reports(&origin, Kind::Completer, ErrorUnits::RESPONDER);
        reports(&target, Kind::Responder, ErrorUnits::RESPONDER);
        let at_target = Errors::of(bed.target());
        assert_eq!(at_target.count(regs::RESP_TRANS) - stage.target_before.count(regs::RESP_TRANS), 1);
        stage.here.verify("the origin's memory");
        stage.there.verify("the target's memory");
    });
}

#[test]
fn a_get_to_an_illegal_local_address_changes_nothing_and_is_reported() {
    each(|bed| {
        let stage = Stage::new(bed);
        let (read, write) = (stage.there.nla(8), stage.here.nla(8) + BEYOND);
        let get = Request::Get { qw: false, read, write, size: 100 };
        let (origin, target) = stage.request(&get, Spec::ALL, Modifier::NONE);
        reports(&origin, Kind::Completer, ErrorUnits::COMPLETER);
        assert!(target[0].error().is_empty(), "the responder did its part: {target:x?}");
        stage.counted(&[regs::COMPL_TRANS], &[]);
    });
}

#[test]
fn a_transfer_that_runs_out_of_its_region_stays_inside() {
    each(|bed| {
        let stage = Stage::new(bed);
        // The area is the last of its region's pages or not: only the bytes before its end may change.
        let source = Area::new(&stage.pair.origin, 16 << 10, 3);
        let small = Area::new(stage.pair.target(), 4096, 4);
        let end = small.region.len() - 100;
        let put = Request::Put { qw: false, read: source.nla(0), write: small.nla(end), size: 12_000 };
        let (_, target) = stage.request(&put, Spec::COMPLETER, Modifier::NONE);
        assert_eq!(target.len(), 1);
        assert!(target[0].error().contains(ErrorUnits::COMPLETER), "{target:x?}");
        stage.there.verify("another region of the port");
        source.verify("the source");
        let mut front = vec![0; end];
        small.region.read(0, &mut front).unwrap();
        assert_eq!(front, small.expected(0, end), "bytes before the put's start");
    });
}

#[test]
fn illegal_vpid_write_reaches_nobody() {
    each(|bed| {
        let stage = Stage::new(bed);
        let target = stage.pair.target().address();
        let unopened = Address::new(target.node, target.vpid + 1);
        let to = stage.pair.origin.connect(unopened);
        let write = stage.there.nla(0);
        to.put(&stage.here.region, 0, 64, write, Spec::ALL).unwrap();
        to.notification_put(1, 2, Spec::COMPLETER).unwrap();
        let seen = stage.pair.settle();
        // The requester did its part, and there is no queue for the completer's.
        assert_eq!((seen.origin.len(), seen.target.len()), (1, 0), "{seen:x?}");
        assert!(seen.origin[0].error().is_empty());
        // Between processes the sender refuses by itself what nobody serves, in its own time.
        let before = stage.target_before.count(regs::COMPL_VPID);
        let refused = || Errors::of(bed.target()).count(regs::COMPL_VPID) - before;
        let counted = || {
            stage.pair.origin.poll();
            (refused() == 2).then_some(())
        };
        until(|| format!("2 packets to be counted that found no port, not {}", refused()), counted);
        stage.there.verify("the target's memory");
    });
}

#[test]
fn a_get_from_an_unopened_vpid_answers_with_an_error() {
    each(|bed| {
        let stage = Stage::new(bed);
        let target = stage.pair.target().address();
        let to = stage.pair.origin.connect(Address::new(target.node, 200));
        to.get(&stage.here.region, 0, 64, stage.there.nla(0), Spec::ALL).unwrap();
        let seen = stage.pair.settle();
        reports(&seen.origin, Kind::Completer, ErrorUnits::RESPONDER);
        assert_eq!(seen.target, []);
        let counted = Errors::of(bed.target());
        assert_eq!(counted.count(regs::RESP_VPID) - stage.target_before.count(regs::RESP_VPID), 1);
        stage.here.verify("the origin's memory");
    });
}

#[test]
fn illegal_mem_vpid_write_needs_the_owner_of_the_memory() {
    each(|bed| {
        let stage = Stage::new(bed);
        let neighbour = bed.target().open_port(bed.setting.port()).unwrap();
        let theirs = Area::new(&neighbour, 4096, 5);
        // The neighbour's address, sent to the target's VPID (spec 4.1).
        let put = Request::Put { qw: false, read: stage.here.nla(0), write: theirs.nla(0), size: 64 };
        let (_, target) = stage.request(&put, Spec::COMPLETER, Modifier::NONE);
        reports(&target, Kind::Completer, ErrorUnits::COMPLETER);
        // And to read what the neighbour has.
        let get = Request::Get { qw: false, read: theirs.nla(0), write: stage.here.nla(0), size: 64 };
        let (origin, _) = stage.request(&get, Spec::COMPLETER, Modifier::NONE);
        reports(&origin, Kind::Completer, ErrorUnits::RESPONDER);
        theirs.verify("the neighbour's memory");
        stage.here.verify("the origin's memory");
        assert!(neighbour.poll().is_none(), "the neighbour hears nothing");
    });
}

#[test]
fn a_put_from_memory_of_another_port_of_the_node_fails() {
    each(|bed| {
        let stage = Stage::new(bed);
        let neighbour = bed.origin().open_port(bed.setting.port()).unwrap();
        let theirs = Area::new(&neighbour, 4096, 6);
        let put = Request::Put { qw: false, read: theirs.nla(0), write: stage.there.nla(0), size: 64 };
        let (origin, _) = stage.request(&put, Spec::REQUESTER, Modifier::NONE);
        reports(&origin, Kind::Requester, ErrorUnits::REQUESTER);
        stage.there.verify("the target's memory");
    });
}

#[test]
fn illegal_excel_is_refused_while_disabled() {
    each(|bed| {
        for modifier in [Modifier::EWA, Modifier::ERA] {
            let stage = Stage::new(bed);
            let put = Request::Put { qw: true, read: stage.here.nla(0), write: stage.there.nla(0), size: 64 };
            let (origin, _) = stage.request(&put, Spec::REQUESTER, modifier);
            reports(&origin, Kind::Requester, ErrorUnits::REQUESTER);
            let counted = Errors::of(bed.origin()).since(&stage.origin_before);
            assert!(counted.contains(&(regs::REQ_EXLDIS.name, 1)), "{counted:?}");
            stage.there.verify("the target's memory");
        }
    });
}

#[test]
fn access_rights_of_a_region_hold() {
    each(|bed| {
        let stage = Stage::new(bed);
        let target = stage.pair.target();
        let readable = target.register_with(HostBuffer::zeroed(4096).unwrap(), Access::READ).unwrap();
        let writable = target.register_with(HostBuffer::zeroed(4096).unwrap(), Access::WRITE).unwrap();
        let to = &stage.pair.to;
        to.put(&stage.here.region, 0, 64, readable.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        reports(&stage.pair.settle().target, Kind::Completer, ErrorUnits::COMPLETER);
        to.get(&stage.here.region, 0, 64, writable.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        reports(&stage.pair.settle().origin, Kind::Completer, ErrorUnits::RESPONDER);
        stage.here.verify("the origin's memory");
        // The other way round both work.
        to.put(&stage.here.region, 0, 64, writable.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        assert!(stage.pair.settle().target[0].error().is_empty());
        to.get(&stage.here.region, 0, 64, readable.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        assert!(stage.pair.settle().origin[0].error().is_empty());
        let mut found = [1; 64];
        readable.read(0, &mut found).unwrap();
        assert_eq!(found, [0; 64]);
    });
}

#[test]
fn a_packet_with_another_protection_id_is_dropped() {
    each(|bed| {
        if bed.setting.shape == ggas_tests::Shape::OnePort {
            return; // it has only one id
        }
        let stage = Stage::new(bed);
        let vpid = stage.pair.target().address().vpid;
        let set = |id| bed.target().write_register(regs::vpid_table(vpid), regs::vpid_entry(id)).unwrap();
        set(7);
        stage.pair.to.put(&stage.here.region, 0, 64, stage.there.nla(0), Spec::COMPLETER).unwrap();
        // Behind it on the same way, to a port of the same id.
        let other = bed.target().open_port(bed.setting.port()).unwrap();
        let witness = stage.pair.origin.connect(other.address());
        witness.notification_put(1, 1, Spec::COMPLETER).unwrap();
        other.wait(ggas_tests::LIMIT).unwrap();
        set(0);
        let seen = stage.pair.settle();
        assert!(seen.target.iter().all(|n| !n.error().is_empty()), "{seen:x?}");
        let counted = Errors::of(bed.target());
        assert_eq!(counted.count(regs::COMPL_PDID) - stage.target_before.count(regs::COMPL_PDID), 1);
        stage.there.verify("the target's memory");
    });
}

#[test]
fn physical_addresses_outside_all_memory_are_an_error() {
    each(|bed| {
        let config = ggas::PortConfig { slot_option: PageOption::PHYSICAL, ..bed.setting.port() };
        let attacker = bed.origin().open_port(config).unwrap();
        let stage = Stage::new(bed);
        let to = attacker.connect_with(stage.pair.target().address(), PageOption::PHYSICAL);
        let own = attacker.register(HostBuffer::zeroed(4096).unwrap()).unwrap();
        for write in [0, 8, 0xdead_beef_0000, u64::MAX - 63, u64::MAX] {
            let put = Request::Put { qw: false, read: own.address(), write, size: 64 };
            to.post(&put, Spec::COMPLETER, Modifier::NONE).unwrap();
            let n = stage.pair.target().wait(ggas_tests::LIMIT).unwrap();
            assert!(n.error().contains(ErrorUnits::COMPLETER) && n.mode().is_empty(), "{n:x?}");
        }
        // What was registered by anybody is memory; physical commands need no translation (spec 2.1).
        to.post(
            &Request::Put { qw: false, read: own.address(), write: stage.there.region.address(), size: 64 },
            Spec::COMPLETER,
            Modifier::NONE,
        )
        .unwrap();
        let n = stage.pair.target().wait(ggas_tests::LIMIT).unwrap();
        assert!(n.error().is_empty(), "{n:x?}");
        stage.there.expect(0, &[0; 64]);
        stage.there.verify("a physical put");
    });
}

#[test]
fn a_slot_ring_posts_with_its_own_option_only() {
    each(|bed| {
        let pair = bed.pair();
        let physical = pair.origin.connect_with(pair.target().address(), PageOption::PHYSICAL);
        let posted = physical.notification_put(1, 2, Spec::COMPLETER);
        match bed.setting.path {
            Path::Slots => assert!(matches!(posted, Err(ggas::PostError::SlotOption { .. })), "{posted:?}"),
            Path::Card => {
                posted.unwrap();
                let n = pair.target().wait(ggas_tests::LIMIT).unwrap();
                assert_eq!(
                    (n.mode().is_empty(), n.command().command()),
                    (true, Some(Command::NotificationPut))
                );
            }
        }
    });
}

//! What cards are asked to do, and what becomes of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use extoll_abi::{Address, Body, Descriptor, Kind as Unit, Modifier, Notification, Request, Spec};

use super::super::world::World;
use super::host::Host;
use super::ledger::{For, Ledger, Op, Opened, What, find};
use super::port::{GIVEN, Port, pattern};
use crate::network::hosts::landing::LANDS;
use crate::packet::ANYONE;

impl World {
    pub(super) fn host(&mut self, who: usize) -> &mut Host {
        self.processes[who].host.as_mut().expect("a card")
    }

    pub fn open_port(&mut self, who: usize) {
        let World { processes, random, ledger, slow, .. } = self;
        let host = processes[who].host.as_mut().expect("a card");
        // Of memory that lies page by page, one after the other is read.
        let flips = if *slow < Duration::from_micros(300) { [0, 1, 8, 16] } else { [0, 0, 8, 16] };
        let flip = flips[random.usize(..flips.len())];
        if let Some(Port { vpid, first, .. }) = host.open(ledger.opened.len(), flip, random) {
            let (vpid, first) = (*vpid, *first);
            ledger.opened.push(Opened { who, vpid, first, closed: false, sent: None, came: HashMap::new() });
        }
    }

    pub fn close_port(&mut self, who: usize) {
        let ports = self.host(who).ports.len();
        if ports > 0 {
            let at = self.random.usize(..ports);
            let opened = self.host(who).close(at);
            self.ledger.opened[opened].closed = true;
        }
    }

    fn draw_len(&mut self) -> u32 {
        let (most, random) = (self.most(), &mut self.random);
        match random.u8(..16) {
            0..8 => random.u32(1..=64),
            8..11 => random.u32(65..4_096),
            11..13 => random.u32(most - 100..LANDS + 1_000),
            13..15 => random.u32(1..LANDS),
            _ => random.u32(LANDS..2 * LANDS),
        }
    }

    fn port_of(&mut self, who: usize) -> Option<usize> {
        let ports = self.host(who).ports.len();
        (ports > 0).then(|| self.random.usize(..ports))
    }

    /// Posts a command of a process, if there is somebody for whom, and room. Whether its card took it.
    pub fn post_command(&mut self, who: usize) -> Option<bool> {
        let hot = self.hot.filter(|_| self.random.u8(..8) > 0);
        let node = hot.unwrap_or_else(|| self.random.u16(..self.at.len() as u16));
        let to = self.at[usize::from(node)]?;
        let (from, at) = (self.port_of(who)?, self.port_of(to)?);
        let at = if hot.is_some() { 0 } else { at };
        let (what, mut len) = (self.random.u8(..8), self.draw_len());
        let number = self.ledger.ops.len();
        let spec =
            [Spec::COMPLETER | Spec::REQUESTER, Spec::COMPLETER, Spec::REQUESTER][self.random.usize(..3)];
        let (from_opened, to_opened) = (self.host(who).ports[from].opened, self.host(to).ports[at].opened);
        let target = Address::new(node, self.host(to).ports[at].vpid);
        let World { processes, random, .. } = self;
        let mut room = |of: usize, port: usize, len| {
            processes[of].host.as_mut().and_then(|host| host.ports[port].room(len, random))
        };
        let (mut read, mut write, mut spec) = (0, 0, spec);
        let what = match what {
            0..4 => {
                (read, write) = (room(who, from, len)?, room(to, at, len)?);
                What::Put
            }
            4 => {
                (write, len) = (room(to, at, 8)?, 8);
                What::Immediate
            }
            5 => {
                len = 0;
                What::Notify
            }
            6 => {
                (write, spec) = (room(who, from, len)?, Spec::COMPLETER);
                let first = processes[to].host.as_ref()?.ports[at].first;
                read = first + u64::from(random.u32(..GIVEN - len));
                What::Get
            }
            _ => {
                let free = self.ledger.free_lock(from_opened, target, |who| processes[who].node)?;
                (read, len, spec) = (free.into(), 0, Spec::COMPLETER);
                What::Lock
            }
        };
        let seen = self.processes[who].seen.clone();
        let meant = match seen.era(node) {
            _ if to == who => For::Target,
            ANYONE => For::Whoever,
            _ if seen.process(node) >> 8 == to as u64 + 1 => For::Target,
            _ => For::Nobody,
        };
        let sure = to == who || meant != For::Nobody && (self.calm || self.is_up(who, to));
        let request = match what {
            What::Put => Request::Put { qw: false, read, write, size: len },
            What::Get => Request::Get { qw: false, read, write, size: len },
            What::Immediate => Request::ImmediatePut { count: 8, write, value: number as u64 },
            What::Notify => Request::NotificationPut { class: 1, payload: number as u64 },
            What::Lock => {
                Request::Lock { to_responder: false, number: read as u32, compare: i32::MAX - 1, add: 1 }
            }
        };
        if what == What::Put {
            self.host(who).ports[from].write(read, &pattern(number, len as usize));
        }
        let descriptor = Descriptor::encode(target, spec, Modifier::NONE, &request).expect("a command");
        let op = Op {
            what,
            from: from_opened,
            to: to_opened,
            meant,
            sure,
            len,
            read,
            write,
            spec,
            sent: 0,
            done: 0,
            failed: false,
        };
        if self.told {
            eprintln!("  {number}: {op:?}");
        }
        self.ledger.add(op);
        let taken = self.host(who).post(from, &descriptor);
        if !taken {
            // It is as if it had not been posted: nothing of it may come.
            let op = &mut self.ledger.ops[number];
            (op.meant, op.sure, op.spec) = (For::Nobody, false, Spec::NONE);
        }
        Some(taken)
    }

    /// A notification of a VPID: it is right, and the first one.
    pub fn notified(&mut self, who: usize, at: usize, notification: Notification) {
        let (header, body) = notification.decode().expect("a notification");
        let opened = self.host(who).ports[at].opened;
        let Ledger { ops, writes, reads, .. } = &self.ledger;
        let number = match (header.kind, body) {
            (Unit::Requester, Body::Transfer { address, .. }) => find(reads, ops, address),
            (Unit::Completer, Body::Transfer { address, .. }) => find(writes, ops, address),
            (_, Body::Immediate { value: number, .. } | Body::Class { payload: number, .. }) => {
                Some(number as usize)
            }
            (Unit::Completer, Body::Lock { number, .. }) => {
                self.ledger.lock(opened, number, header.remote, |who| self.processes[who].node)
            }
            _ => None,
        };
        let number = number.unwrap_or_else(|| panic!("{header:?} {body:?}: nobody asked for it"));
        if self.told {
            eprintln!("  {number} at {opened}: {:?} {}", header.kind, header.error);
        }
        let failed = !header.error.is_empty();
        match header.kind {
            Unit::Requester => {
                assert!(!failed, "{number}: {:?}: {}", self.ledger.ops[number], header.error);
                self.sent(number, (who, at, opened));
            }
            _ => self.done(number, (who, at, opened), failed, body),
        }
    }

    fn sent(&mut self, number: usize, (who, at, opened): (usize, usize, usize)) {
        let Ledger { ops, opened: all, .. } = &mut self.ledger;
        let op = &mut ops[number];
        op.sent += 1;
        assert!((op.from, op.sent) == (opened, 1), "{number}: {op:?}: sent twice, or told to {opened}");
        assert!(op.spec.contains(Spec::REQUESTER), "{number}: {op:?}: nobody asked");
        let before = all[opened].sent.replace(number);
        assert!(before < Some(number), "{number}: {op:?}: it is told behind {before:?}");
        if op.what == What::Put {
            // Who reads it from now on reads what he may not.
            let (read, len) = (op.read, op.len);
            self.host(who).ports[at].reuse(read, len);
        }
    }

    fn done(&mut self, number: usize, (who, at, opened): (usize, usize, usize), failed: bool, body: Body) {
        let Ledger { ops, opened: all, .. } = &mut self.ledger;
        let op = &mut ops[number];
        op.done += 1;
        let answers = matches!(op.what, What::Get | What::Lock);
        assert!(
            op.done == 1 && op.spec.contains(Spec::COMPLETER),
            "{number}: {op:?}: twice, or nobody asked"
        );
        assert!(answers || op.meant != For::Nobody, "{number}: {op:?}: it came to {who}");
        let here = if answers { op.from } else { op.to };
        let is_gone = |port: usize| all[port].closed || !self.processes[all[port].who].alive;
        // What comes late comes to who has the VPID then.
        let anybody = all[here].who == who || !answers && op.meant == For::Whoever;
        assert!(opened == here || is_gone(here) && anybody, "{number}: {op:?}: it came to {opened} of {who}");
        let may_fail = opened != here || is_gone(op.to);
        if !answers {
            let before = all[opened].came.insert(op.from, number);
            assert!(before < Some(number), "{number}: {op:?}: it came behind {before:?}");
        }
        if failed {
            assert!(may_fail, "{number}: {op:?}: it failed at {opened} of {who}");
            op.failed = true;
            self.ledger.failed += 1;
            return;
        }
        let written = matches!(body, Body::Transfer { .. });
        assert!(opened == here || !written, "{number}: {op:?}: it was written for {opened}");
        match body {
            Body::Lock { result, value, .. } => {
                assert_eq!((result, value > 0), (1, true), "{number}: {op:?}");
            }
            Body::Transfer { .. } => self.check_bytes(number, who, at),
            _ => {}
        }
        self.ledger.done += 1;
    }

    fn check_bytes(&mut self, number: usize, who: usize, at: usize) {
        let (bytes, write) = (self.ledger.bytes(number), self.ledger.ops[number].write);
        let right = self.host(who).ports[at].has(write, &bytes);
        assert!(right, "{number}: {:?}: other bytes than were sent", self.ledger.ops[number]);
    }

    /// When all is quiet: each command has become what it should.
    pub fn check_work(&mut self) {
        for number in 0..self.ledger.ops.len() {
            let Ledger { ops, opened, .. } = &self.ledger;
            let op = &ops[number];
            let (from, to) = (&opened[op.from], &opened[op.to]);
            let is_open = |port: &Opened| !port.closed && self.processes[port.who].alive;
            if !is_open(from) || self.processes[from.who].leaves.is_some() {
                continue;
            }
            let told = op.spec.contains(Spec::REQUESTER);
            assert_eq!(op.sent, u32::from(told), "{number}: {op:?} of {} is not sent", from.who);
            let parted = |a: &Opened, b: &Opened| {
                self.lost.contains_key(&(a.who, b.who)) || self.left.contains(&(a.who, b.who))
            };
            if !op.sure || !is_open(to) || parted(from, to) || parted(to, from) {
                continue;
            }
            let asked = op.spec.contains(Spec::COMPLETER);
            assert_eq!(op.done, u32::from(asked), "{number}: {op:?} of {} for {}", from.who, to.who);
            let (who, port) = (to.who, op.to);
            if !asked && op.len > 0 {
                let at = self.host(who).ports.iter().position(|open| open.opened == port);
                self.check_bytes(number, who, at.expect("it is open"));
            }
        }
        self.check_locks();
        for (who, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            let kept = process.core().kept();
            assert!(kept.is_empty(), "{who} still has {kept:?}");
            let host = process.host.as_ref().expect("a card");
            assert!(host.has_sent_all(), "{who} has not sent all");
            assert!(!host.waits_for_closed(), "{who} still uses memory of VPIDs that were closed");
        }
    }

    /// Each lock was taken as often as it is said, and no more often than it was asked for.
    fn check_locks(&self) {
        let Ledger { ops, opened, locks, .. } = &self.ledger;
        let mut of = BTreeMap::<_, (u32, u32)>::new();
        for op in locks.iter().map(|number| &ops[*number]) {
            let (done, asked) = of.entry((opened[op.to].who, opened[op.to].vpid, op.read)).or_default();
            (*done, *asked) = (*done + op.done - u32::from(op.failed), *asked + 1);
        }
        for ((who, vpid, number), (done, asked)) in of {
            if let Some(host) = &self.processes[who].host {
                let value = host.lock(vpid, number);
                assert!(
                    (done..=asked).contains(&value),
                    "lock {number} of {who}: {value}, {done} of {asked}"
                );
            }
        }
    }
}

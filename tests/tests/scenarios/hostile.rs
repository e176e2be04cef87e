//! Random words, straight into pages and slots, beside a pair of ports that works on (spec 3.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use extoll_abi::{WcbState, regs};
use extoll_sim::Nic;
use ggas::{Cluster, HostBuffer, PageOption, Path, Port, PortConfig, PostError, Progress, Region, Spec};
use ggas_tests::{Area, Ended, LIMIT, Trouble, bytes};

/// What a hostile port knows: its own memory, where others are, and how descriptors look.
struct Guess {
    random: fastrand::Rng,
    own: [u64; 2],
    others: Vec<u64>,
    nodes: u16,
}

impl Guess {
    /// Three words: noise, or a descriptor in which something is wrong, or everything right.
    fn words(&mut self) -> [u64; 3] {
        let r = &mut self.random;
        let mut words = [r.u64(..), r.u64(..), r.u64(..)];
        if r.u8(..8) == 0 {
            return words; // noise
        }
        let node = if r.u8(..16) == 0 { r.u16(..) } else { r.u16(..=self.nodes) };
        let vpid = if r.u8(..4) == 0 { r.u8(..) } else { r.u8(..4) };
        let size = match r.u8(..64) {
            0 => r.u64(..1 << 23),
            1..8 => r.u64(..1 << 14),
            _ => r.u64(..700),
        };
        let command = if r.u8(..4) == 0 { r.u64(..16) } else { [0, 1, 2, 3, 5, 6, 12][r.usize(..7)] };
        let modifier = if r.u8(..4) == 0 { r.u64(..16) } else { 0 };
        words[0] = 3 | command << 2 | u64::from(vpid) << 8 | u64::from(node) << 16 | r.u64(..8) << 32;
        words[0] |= modifier << 35 | size << 40;
        if r.u8(..16) == 0 {
            words[0] ^= 1 << r.u32(..64);
        }
        for word in &mut words[1..] {
            *word = match r.u8(..8) {
                0..4 => self.own[r.usize(..2)] + r.u64(..9000),
                4..6 => self.others[r.usize(..self.others.len())].wrapping_add(r.u64(..9000)),
                6 => r.u64(..1 << 40),
                _ => *word,
            };
        }
        words
    }
}

/// Verified traffic between two ports that nobody disturbs.
struct Victim {
    here: Port,
    there: Port,
    source: Area,
    destination: Area,
    canary: Area,
}

impl Victim {
    fn new(cluster: &Cluster, config: PortConfig) -> Victim {
        let here = cluster.node(0).unwrap().open_port(config).unwrap();
        let there = cluster.node(1).unwrap().open_port(config).unwrap();
        let source = Area::new(&here, 16 << 10, 1);
        let destination = Area::new(&there, 16 << 10, 2);
        let canary = Area::new(&there, 64 << 10, 3);
        // Packets of other protection ids do not reach them (spec 8.3).
        for (node, port) in [(0, &here), (1, &there)] {
            let entry = regs::vpid_table(port.address().vpid);
            cluster.node(node).unwrap().write_register(entry, regs::vpid_entry(0x5afe)).unwrap();
        }
        Victim { here, there, source, destination, canary }
    }

    /// One put there, one get back, both compared.
    fn exchange(&self, round: usize) {
        let to = self.here.connect(self.there.address());
        let (at, len) = (round * 61 % 9000, 1 + round * 97 % 5000);
        to.put(&self.source.region, at, len, self.destination.nla(at), Spec::ALL).unwrap();
        self.destination.expect(at, &self.source.expected(at, len));
        let sent = self.here.wait(LIMIT).unwrap();
        let arrived = self.there.wait(LIMIT).unwrap();
        assert!(sent.error().is_empty() && arrived.error().is_empty(), "{sent:x?} {arrived:x?}");
        assert_eq!((sent.remote(), arrived.remote()), (self.there.address(), self.here.address()));
        assert_eq!(arrived.total_size(self.destination.nla(at)), len as u64);
        to.get(&self.source.region, at, len, self.destination.nla(at), Spec::COMPLETER).unwrap();
        let answered = self.here.wait(LIMIT).unwrap();
        assert!(answered.error().is_empty() && answered.remote() == self.there.address(), "{answered:x?}");
    }

    fn verify(&self) {
        self.source.verify("the victim's source");
        self.destination.verify("the victim's destination");
        self.canary.verify("memory that nobody wrote to");
        assert!(self.here.poll().is_none() && self.there.poll().is_none(), "only its own notifications");
    }
}

/// A port that posts what it likes, and a second one at the other node that others may hit.
struct Attacker {
    port: Port,
    target: Port,
    nic: Arc<Nic>,
    _memory: [Region; 2],
    guess: Guess,
    slots: bool,
}

impl Attacker {
    fn new(cluster: &Cluster, config: PortConfig, seed: u64, victim: &Victim) -> Attacker {
        let port = cluster.node(0).unwrap().open_port(config).unwrap();
        let target = cluster.node(1).unwrap().open_port(config).unwrap();
        let memory = [&port, &target].map(|p| p.register(HostBuffer::zeroed(8192).unwrap()).unwrap());
        let guess = Guess {
            random: fastrand::Rng::with_seed(seed),
            own: [memory[0].nla(0).unwrap(), memory[1].nla(0).unwrap()],
            others: vec![
                victim.source.nla(0),
                victim.destination.nla(0),
                victim.canary.nla(0),
                0,
                u64::MAX - 4096,
            ],
            nodes: cluster.nodes().len() as u16,
        };
        let nic = cluster.network().sim_device(0).unwrap().nic().clone();
        Attacker { port, target, nic, _memory: memory, guess, slots: config.path == Some(Path::Slots) }
    }

    /// Stores words to a page in any order, at times with a store beside them; says whether the card took them.
    fn store(&mut self, words: [u64; 3]) -> bool {
        let r = &mut self.guess.random;
        // Translated pages of every traffic class, with and without interrupts: what a user may have.
        let option = PageOption::TE.with_traffic_class(r.u8(..4));
        let option = if r.u8(..8) == 0 { option | PageOption::IRQ } else { option };
        let vpid = self.port.address().vpid;
        let page = option.page_offset(vpid);
        let mut order = [0u64, 1, 2];
        r.shuffle(&mut order);
        for word in order {
            self.nic.requester_store(page | (8 * word), words[word as usize]);
        }
        if r.u8(..32) == 0 {
            self.nic.requester_store(page | r.u64(24..4096), r.u64(..));
        }
        forgive(&self.nic, vpid)
    }

    /// Posts one guess; over the page in any order of the words and with stores beside them.
    fn attack(&mut self) {
        let words = self.guess.words();
        if self.slots {
            match self.port.post_raw(PageOption::default(), words) {
                Ok(()) => {}
                Err(PostError::Timeout { .. }) => panic!("the slot ring hangs after {words:x?}"),
                Err(error) => panic!("{error}"),
            }
        } else {
            while !self.store(words) {
                self.nic.progress();
                std::thread::yield_now();
            }
        }
        // It hears of some of it, and its own queues must not hold others up.
        while self.port.poll().is_some() || self.target.poll().is_some() {}
    }
}

/// Clears a rejection, so that the card takes what comes next; says whether there was none.
fn forgive(nic: &Nic, vpid: u8) -> bool {
    let state = WcbState(nic.reg_read(regs::wcb_state(vpid)));
    if state.rejected() > 0 {
        nic.reg_write(regs::wcb_state(vpid), state.acknowledged().0);
    }
    state.rejected() == 0
}

impl Drop for Attacker {
    /// The library, which posted nothing to the page, finds the state as it left it.
    fn drop(&mut self) {
        if !self.slots {
            self.nic.reg_write(regs::wcb_state(self.port.address().vpid), 0);
        }
    }
}

fn attack(path: Path, slots: u32, progress: Progress, trouble: Trouble, attacks: usize, seed: u64) {
    let cluster = Cluster::builder().nodes(2).progress(progress).faults(trouble.faults()).build().unwrap();
    let config = PortConfig { path: Some(path), slots, post_timeout: LIMIT, ..PortConfig::default() };
    let victim = Victim::new(&cluster, PortConfig::default());
    // Held by nobody's region: the model must not find it by any address.
    let private = HostBuffer::zeroed(64 << 10).unwrap();
    private.write(0, &bytes(seed, 64 << 10));
    let mut attacker = Attacker::new(&cluster, config, seed, &victim);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hostile = scope.spawn(|| {
            let ended = Ended(&done);
            (0..attacks).for_each(|_| attacker.attack());
            drop(ended);
        });
        let mut round = 0;
        while !done.load(Ordering::Acquire) || round < 20 {
            victim.exchange(round);
            round += 1;
        }
        hostile.join().unwrap_or_else(|_| panic!("the attacker failed, seed {seed}, {path} path"));
    });
    for round in 0..20 {
        victim.exchange(round);
    }
    victim.verify();
    let mut found = vec![0; 64 << 10];
    private.read(0, &mut found);
    assert!(found == bytes(seed, 64 << 10), "memory of nobody's region changed");
    // The hostile ports end like others.
    drop(attacker);
    victim.exchange(7);
    victim.verify();
}

#[test]
fn random_words_in_a_page_disturb_nobody() {
    attack(Path::Card, 256, Progress::Inline, Trouble::None, 60_000, 1);
    attack(Path::Card, 256, Progress::Threads(1), Trouble::None, 30_000, 2);
}

#[test]
fn random_words_in_slots_disturb_nobody() {
    attack(Path::Slots, 256, Progress::Inline, Trouble::None, 30_000, 3);
    attack(Path::Slots, 1, Progress::Inline, Trouble::None, 10_000, 4);
    attack(Path::Slots, 64, Progress::Threads(1), Trouble::None, 20_000, 5);
}

#[test]
fn random_words_disturb_nobody_on_links_with_faults() {
    attack(Path::Card, 256, Progress::Inline, Trouble::Everything(6), 3_000, 6);
    attack(Path::Slots, 64, Progress::Inline, Trouble::Everything(7), 3_000, 7);
}

#[test]
fn random_words_on_every_option_page_end() {
    // Physical and register pages may do harm by design (spec 2.1), but not to the process: no panic, no hang, and a
    // network beside this one is none of theirs.
    let beside = Cluster::builder().nodes(2).build().unwrap();
    let other = Victim::new(&beside, PortConfig::default());
    let cluster = Cluster::builder().nodes(2).build().unwrap();
    let lost = Victim::new(&cluster, PortConfig::default());
    let mut attacker = Attacker::new(&cluster, PortConfig::default(), 8, &lost);
    let vpid = u64::from(attacker.port.address().vpid);
    for _ in 0..40_000 {
        let words = attacker.guess.words();
        let option = attacker.guess.random.u64(..32);
        for (i, word) in words.into_iter().enumerate() {
            // Untranslated addresses would be this process's own declared memory: only guesses without knowledge.
            let known = option & 16 == 0 && i > 0;
            let word = if known { attacker.guess.random.u64(..) } else { word };
            attacker.nic.requester_store(option << 20 | vpid << 12 | (8 * i as u64), word);
        }
        forgive(&attacker.nic, vpid as u8);
        while attacker.port.poll().is_some() || attacker.target.poll().is_some() {}
    }
    (0..50).for_each(|round| other.exchange(round));
    other.verify();
}

#[test]
fn lines_of_words_of_all_vpids_at_once_are_kept_apart() {
    // Unopened VPIDs have pages too; what comes through them is nobody's.
    let cluster = Cluster::builder().nodes(2).build().unwrap();
    let victim = Victim::new(&cluster, PortConfig::default());
    let nic = cluster.network().sim_device(0).unwrap().nic().clone();
    let mut random = fastrand::Rng::with_seed(9);
    let own = u64::from(victim.here.address().vpid);
    for round in 0..20_000 {
        let vpid = random.u64(..256);
        if vpid != own {
            let word = random.u64(..3);
            nic.requester_store(16 << 20 | vpid << 12 | (8 * word), random.u64(..));
        }
        if round % 100 == 0 {
            victim.exchange(round / 100);
        }
    }
    victim.verify();
}

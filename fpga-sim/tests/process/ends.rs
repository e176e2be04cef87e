//! Processes of their own that die or are stopped while others send to them: what the senders get.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use crate::common::members::*;
use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::shared::ProcessFabric;
use ggas_members::{Member, Members, NetworkShape, PeerState};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Says to [`child`] which network it belongs to.
const NETWORK: &str = "EXTOLL_TEST_NETWORK";

fn shape() -> NetworkShape {
    NetworkShape::torus(2, 1, 1).unwrap()
}

/// A member on a node, with a card.
fn member(network: &str, node: u16) -> Node {
    over(&ProcessFabric::join(Member::join_network(network, &shape(), node).unwrap()).unwrap())
}

/// Says to [`child`] to take down the cable of its link port 0.
const CABLE: &str = "EXTOLL_TEST_CABLE";

/// No test: a process of its own, on node 1, with memory in which it has written its number. It tells what comes, until
/// nobody listens to it any more.
#[test]
fn child() {
    let Ok(network) = std::env::var(NETWORK) else { return };
    let node = member(&network, 1);
    let mut port = open(&node);
    let memory = Pages::new(&node.memory, 4096, 4096);
    memory.store(0, 77);
    let nla = node.register(port.vpid, &memory, Access::ALL);
    if std::env::var_os(CABLE).is_some() {
        node.nic.reg_write(link_status(0), 0);
    }
    println!("\nchild {} {nla}", port.vpid);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    loop {
        if let Some(notification) = port.try_next() {
            let (_, body) = notification.decode().unwrap();
            println!("heard {body:?}");
        }
        if !node.nic.progress() {
            std::thread::yield_now();
        }
    }
}

struct Child {
    process: std::process::Child,
    out: BufReader<ChildStdout>,
    to: Address,
    nla: u64,
}

impl Child {
    fn start(network: &str) -> Child {
        Child::with(network, &[])
    }

    fn with(network: &str, variables: &[(&str, &str)]) -> Child {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["ends::child", "--exact", "--nocapture", "--quiet"])
            .env(NETWORK, network)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let mut child = Child { process, out, to: Address::default(), nla: 0 };
        let said = child.line("child ");
        let (vpid, nla) = said.split_once(' ').unwrap();
        (child.to, child.nla) = (Address::new(1, vpid.parse().unwrap()), nla.parse().unwrap());
        child
    }

    /// The rest of the next line that begins so.
    fn line(&mut self, begin: &str) -> String {
        let mut lines = (&mut self.out).lines().map(|line| line.expect("it lives"));
        let line = lines.find_map(|line| line.strip_prefix(begin).map(str::to_owned));
        line.unwrap_or_else(|| panic!("the child ended before it said {begin:?}"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id() as i32), signal).unwrap();
    }

    /// Returns once it is stopped.
    fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !state().contains(") T ") {
            assert!(Instant::now() < deadline, "it is not stopped");
            std::thread::yield_now();
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Those that a test has to do with: one that sends from node 0, and one beside the target.
struct Scene {
    origin: Node,
    beside: Node,
}

impl Scene {
    fn new() -> Scene {
        let first = Member::join_private(&shape(), 0).unwrap();
        let network = first.network().to_owned();
        let origin = over(&ProcessFabric::join(first).unwrap());
        Scene { origin, beside: member(&network, 1) }
    }

    fn network(&self) -> Arc<Member> {
        nodes(&self.origin).member().clone()
    }

    /// What closed VPIDs of node 1 refused.
    fn refused(&self) -> [u16; 2] {
        [COMPL_VPID, RESP_VPID].map(|counter| self.beside.errors(counter))
    }

    /// The next notification of the origin: who wrote it, and its errors.
    fn next(&self, port: &mut Port<'_>) -> (Kind, ErrorUnits) {
        let notification = port.next();
        let header = notification.header().unwrap();
        (header.kind, header.error)
    }
}

const PUT: (Kind, ErrorUnits) = (Kind::Requester, ErrorUnits::NONE);
const REFUSED: (Kind, ErrorUnits) = (Kind::Completer, ErrorUnits::RESPONDER);

/// A put and a get to an address that nobody serves, begun by `post`: as at a VPID that is not open, they change
/// nothing, the put is reported as sent, the get as refused, and the target's node counts both.
fn is_refused(scene: &Scene, to: Address, between: impl FnOnce()) {
    let mut port = open(&scene.origin);
    let memory = Pages::new(&scene.origin.memory, 4096, 4096);
    memory.store(0, 1);
    let nla = scene.origin.register(port.vpid, &memory, Access::ALL);
    let mut others = open(&scene.beside);
    let there = Pages::new(&scene.beside.memory, 4096, 4096);
    let same = scene.beside.register(others.vpid, &there, Access::ALL);
    assert_ne!(others.address(), to);
    let before = scene.refused();
    port.put(to, Spec::ALL, nla, same, 8);
    port.get(to, Spec::ALL, same, nla + 8, 8);
    between();
    let told = [(); 3].map(|()| scene.next(&mut port));
    assert_eq!(told, [PUT, PUT, REFUSED]);
    assert_eq!(scene.refused(), before.map(|count| count + 1));
    assert_eq!((port.drain(), others.drain()), (vec![], vec![]));
    assert_eq!((memory.load(1), there.load(0)), (0, 0));
}

#[test]
fn nobody_has_the_vpid() {
    let scene = Scene::new();
    is_refused(&scene, Address::new(1, 200), || ());
}

#[test]
fn its_process_died() {
    for met in [true, false] {
        let scene = Scene::new();
        let mut child = Child::start(scene.network().network());
        if met {
            let mut port = open(&scene.origin);
            let memory = Pages::new(&scene.origin.memory, 4096, 4096);
            let nla = scene.origin.register(port.vpid, &memory, Access::ALL);
            port.get(child.to, Spec::COMPLETER, child.nla, nla, 8);
            assert_eq!((scene.next(&mut port), memory.load(0)), ((Kind::Completer, ErrorUnits::NONE), 77));
        }
        let id = nodes(&scene.origin).owner(1, child.to.vpid).unwrap();
        child.kill();
        is_refused(&scene, child.to, || ());
        assert_eq!(scene.network().state(id), PeerState::Lost);
    }
}

#[test]
fn its_process_dies_while_it_is_asked() {
    let scene = Scene::new();
    let mut child = Child::start(scene.network().network());
    child.stop();
    is_refused(&scene, child.to, || {
        // It was asked, or will be; nobody answers.
        while scene.origin.nic.progress() {}
        child.kill();
    });
}

/// What it had not taken when it died is answered for it.
#[test]
fn its_process_dies_with_packets_in_its_inbox() {
    let scene = Scene::new();
    let mut child = Child::start(scene.network().network());
    let slot = nodes(&scene.origin).owner(1, child.to.vpid).unwrap().slot;
    let mut port = open(&scene.origin);
    port.post(child.to, Spec::ALL, Modifier::NONE, &Request::NotificationPut { class: 1, payload: 5 });
    assert_eq!((scene.next(&mut port), child.line("heard ").is_empty()), (PUT, false));
    child.stop();
    is_refused(&scene, child.to, || {
        while scene.origin.nic.progress() {}
        assert_eq!(scene.network().at(slot).map(|info| info.state), Some(PeerState::Joined));
        child.kill();
    });
}

#[test]
fn its_process_is_stopped_while_it_is_asked() {
    let scene = Scene::new();
    let mut child = Child::start(scene.network().network());
    child.stop();
    let mut port = open(&scene.origin);
    let memory = Pages::new(&scene.origin.memory, 4096, 4096);
    let nla = scene.origin.register(port.vpid, &memory, Access::ALL);
    for payload in 0..3 {
        let request = Request::NotificationPut { class: 1, payload };
        port.post(child.to, Spec::COMPLETER, Modifier::NONE, &request);
    }
    port.get(child.to, Spec::COMPLETER, child.nla, nla, 8);
    while scene.origin.nic.progress() {}
    assert!(port.try_next().is_none(), "nobody can have answered");
    child.signal(Signal::SIGCONT);
    assert_eq!((scene.next(&mut port), memory.load(0)), ((Kind::Completer, ErrorUnits::NONE), 77));
    for payload in 0..3 {
        let heard = child.line("heard ");
        assert_eq!(heard, format!("{:?}", Body::Class { class: 1, payload }), "each once, in order");
    }
    assert_eq!(port.drain(), []);
    assert_eq!(scene.refused(), [0; 2]);
}

/// A register that it wrote takes a cable down for all; so it stays when the process is killed.
#[test]
fn what_a_dead_process_did_to_the_network_stays() {
    let scene = Scene::new();
    let status = || scene.origin.nic.reg_read(link_status(1));
    assert!(LINK_ENABLE.is_set(status()) && LINK_READY.is_set(status()));
    let mut child = Child::with(scene.network().network(), &[(CABLE, "1")]);
    assert!(!LINK_ENABLE.is_set(status()) && !LINK_READY.is_set(status()), "the other end of its cable");
    child.kill();
    assert!(!LINK_ENABLE.is_set(status()) && !LINK_READY.is_set(scene.beside.nic.reg_read(link_status(0))));
    scene.origin.nic.reg_write(link_status(1), 1);
    assert!(LINK_READY.is_set(scene.beside.nic.reg_read(link_status(0))));
}

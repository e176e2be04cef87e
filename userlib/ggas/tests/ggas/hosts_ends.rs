//! Processes of a network of hosts that die, stand still or leave: what the others get. Where no library carries packets the tests
//! are skipped.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::places::Hosts;
use ggas::device::{LostPeer, PeerEnd};
use ggas::{Address, Match, Network, Port, PortConfig, PostError, Spec, WaitError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Only what is broken takes longer.
const SOON: Duration = Duration::from_secs(60);
/// The file of hosts; and whether [`child`] leaves.
const FILE: &str = "GGAS_TEST_HOSTS";
const LEAVES: &str = "GGAS_TEST_LEAVES";
/// What a child that leaves says before.
const SAID: u64 = 200;

fn join(file: &Path, node: u16) -> (Network, Port) {
    let network = Network::builder().join_hosts(file, node).unwrap();
    let port = network.node().open_port(PortConfig::default()).unwrap();
    (network, port)
}

/// No test: the process of node 1. It says what it waits for, and how that ends.
#[test]
fn child() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let (network, port) = join(Path::new(&file), 1);
    println!("\nchild {}", port.address().vpid);
    let first = port.wait(SOON).unwrap().remote();
    let to = port.connect(first);
    if std::env::var_os(LEAVES).is_some() {
        for number in 0..SAID {
            to.notification_put(2, number, Spec::COMPLETER).unwrap();
        }
        port.close().unwrap();
        drop((to, network));
        println!("left");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    to.notification_put(2, 0, Spec::COMPLETER).unwrap();
    // In memory that is touched before: nothing of it needs the parent.
    let end = port.wait_match(&Match::any().from(first), 10 * SOON).unwrap_err();
    println!("waited: {end}");
    println!("posted: {}", to.notification_put(2, 1, Spec::COMPLETER).unwrap_err());
    let _ = std::io::stdin().read(&mut [0]);
}

struct Other {
    process: Child,
    said: BufReader<ChildStdout>,
    address: Address,
}

impl Other {
    fn start(hosts: &Hosts, leaves: bool) -> Other {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["hosts_ends::child", "--exact", "--nocapture"]).env(FILE, hosts.path());
        if leaves {
            command.env(LEAVES, "1");
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let mut other = Other { process, said, address: Address::new(1, 0) };
        other.address.vpid = other.says("child ").parse().unwrap();
        other
    }

    /// The rest of its next line that begins so.
    fn says(&mut self, begin: &str) -> String {
        let mut lines = self.said.by_ref().lines().map(Result::unwrap);
        lines.find_map(|line| line.strip_prefix(begin).map(str::to_owned)).expect("the child speaks")
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id() as i32), signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Posts until the other one answers: before it is there nobody is met.
fn meet(port: &Port, other: &Other) {
    let answer = Match::any().from(other.address);
    port.connect(other.address).notification_put(1, 0, Spec::COMPLETER).unwrap();
    port.wait_match(&answer, SOON).unwrap();
}

fn assert_lost(port: &Port, other: &Other, end: PeerEnd) {
    let error = port.wait_match(&Match::any().from(other.address), SOON).unwrap_err();
    let lost = LostPeer { rank: 1, node: 1, vpid: Some(other.address.vpid), end };
    assert!(matches!(error, WaitError::PeerLost { peer, .. } if peer == lost), "{error}");
    let error = port.connect(other.address).notification_put(1, 0, Spec::COMPLETER).unwrap_err();
    assert!(matches!(error, PostError::PeerLost(peer) if peer == lost), "{error}");
}

#[test]
fn a_killed_process_ends_waits_and_posts_and_its_next_one_is_met() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (_network, port) = join(hosts.path(), 0);
    for _ in 0..2 {
        let other = Other::start(&hosts, false);
        // Of the last one it is known that it is gone; of the next one only once it is met.
        let begun = Instant::now();
        while let Err(error) = port.connect(other.address).notification_put(1, 0, Spec::COMPLETER) {
            assert!(matches!(error, PostError::PeerLost(_)) && begun.elapsed() < SOON, "{error}");
            std::thread::sleep(Duration::from_millis(10));
        }
        port.wait_match(&Match::any().class(2), SOON).unwrap();
        other.signal(Signal::SIGKILL);
        let killed = Instant::now();
        assert_lost(&port, &other, PeerEnd::Lost);
        eprintln!("a death is known after {:?}", killed.elapsed());
    }
}

/// It is lost, and stays so: it hears of it when it goes on.
#[test]
fn who_is_silent_for_too_long_is_lost_for_both() {
    let Some(hosts) = Hosts::new(2) else { return };
    hosts.append("silence 1\n");
    let (_network, port) = join(hosts.path(), 0);
    let mut other = Other::start(&hosts, false);
    meet(&port, &other);
    other.signal(Signal::SIGSTOP);
    assert_lost(&port, &other, PeerEnd::Lost);
    other.signal(Signal::SIGCONT);
    let ends = [other.says("waited: "), other.says("posted: ")];
    assert!(ends.iter().all(|end| end.contains("member 0 died")), "{ends:?}");
    assert_lost(&port, &other, PeerEnd::Lost);
}

#[test]
fn all_that_a_process_said_comes_before_its_goodbye() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (network, port) = join(hosts.path(), 0);
    let mut other = Other::start(&hosts, true);
    port.connect(other.address).notification_put(1, 0, Spec::COMPLETER).unwrap();
    other.says("left");
    let from = Match::any().from(other.address);
    for number in 0..SAID {
        assert_eq!(port.wait_match(&from, SOON).unwrap().word0, number);
    }
    assert_lost(&port, &other, PeerEnd::Left);
    let (_, foreign, malformed) = network.network().and_then(|network| network.hosts()).unwrap().counts();
    assert_eq!((foreign, malformed), (0, 0));
}

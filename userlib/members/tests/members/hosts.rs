//! Jobs over hosts. A host is a directory of networks here: processes of different ones share no memory of a job.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Dir, Shell, until};

const SECRET: &str = "00112233445566778899aabbccddeeff";

/// Hosts, and where rank 0 of a job over them is met.
struct Hosts {
    dirs: Vec<Dir>,
    place: String,
}

impl Hosts {
    fn new(name: &str, hosts: usize) -> Hosts {
        let dirs = (0..hosts).map(|host| Dir::new(&format!("{name}-{host}"))).collect();
        // Free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Hosts { dirs, place: format!("127.0.0.1:{port}") }
    }

    /// A rank that is about to join.
    fn rank(&self, host: usize, rank: u32, size: u32, more: &str) -> Shell {
        let place = &self.place;
        let mut shell = self.dirs[host].shell(&format!(
            "RANK={rank} SIZE={size} JOB=far JOIN_TIMEOUT=60 MEET={place} SECRET={SECRET} {more}"
        ));
        shell.begin("join");
        shell
    }

    /// Ranks on these hosts, that have joined.
    fn ranks(&self, on: &[usize]) -> Vec<Shell> {
        let size = on.len() as u32;
        let mut ranks: Vec<Shell> =
            on.iter().zip(0..).map(|(host, rank)| self.rank(*host, rank, size, "")).collect();
        ranks.iter_mut().for_each(|rank| assert_eq!(rank.answer(), ""));
        ranks
    }
}

/// All of them do this at the same time.
fn all_do(ranks: &mut [Shell], command: &str) {
    ranks.iter_mut().for_each(|rank| rank.begin(command));
    for rank in ranks {
        let answer = rank.answer();
        assert!(!answer.contains("error"), "{command}: {answer}");
    }
}

#[test]
fn three_and_one_are_a_job() {
    let hosts = Hosts::new("three-one", 2);
    let mut ranks = hosts.ranks(&[0, 0, 0, 1]);
    for (number, rank) in ranks.iter_mut().enumerate() {
        assert_eq!(rank.ask("who"), format!("rank {number} of 4 on node {number} of 4"));
    }
    for command in
        ["barrier=60000", "exchange=1000", "exchange=65536", "barrier=60000", "exchange=0", "barriers=50"]
    {
        all_do(&mut ranks, command);
    }
    // Descriptors go as far as memory does.
    ranks[1].begin("tell=2");
    assert_eq!(ranks[2].ask("hear=1"), "");
    assert_eq!(ranks[1].answer(), "");
    let refused = ranks[1].ask("tell=3");
    assert!(refused.contains("rank 3 is on another host") && refused.contains("use exchange"), "{refused}");
    assert!(ranks[3].ask("try-fds=0").contains("rank 0 is on another host"));
    ranks.iter_mut().for_each(|rank| rank.does("leave"));
    hosts.dirs.iter().for_each(Dir::is_empty);
}

/// Rank 0 is not on the host that most are on, and comes last.
#[test]
fn any_order_and_place_will_do() {
    let hosts = Hosts::new("order", 3);
    let mut ranks: Vec<Shell> =
        [(2, 4), (1, 3), (2, 2), (1, 1), (0, 0)].map(|(host, rank)| hosts.rank(host, rank, 5, "")).into();
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.answer(), ""));
    all_do(&mut ranks, "exchange=5000");
}

#[test]
fn the_end_of_a_rank_is_known_on_all_hosts() {
    let hosts = Hosts::new("ends", 2);
    let mut ranks = hosts.ranks(&[0, 0, 1, 1]);
    ranks.iter_mut().for_each(|rank| rank.begin("losses=1"));
    let lost = ranks.remove(3);
    lost.kill();
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.answer(), "lost [3], [3]"));
    for rank in &mut ranks {
        let said = rank.ask("try-barrier=60000");
        assert!(said.contains("rank 3 is gone"), "{said}");
    }
}

/// Who waits for it hears of it, too; and so with rank 0, by which the others hear of each other.
#[test]
fn waits_for_a_rank_that_dies_end() {
    for dies in [0, 3] {
        let hosts = Hosts::new(&format!("waits-{dies}"), 2);
        let mut ranks = hosts.ranks(&[0, 0, 1, 1]);
        let lost = ranks.remove(dies);
        ranks.iter_mut().for_each(|rank| rank.begin("try-barrier=60000"));
        lost.kill();
        for rank in &mut ranks {
            let said = rank.answer();
            assert!(said.contains(&format!("rank {dies} is gone")), "{said}");
        }
    }
}

/// What a transport found counts where rank 0 is gone, and is told once.
#[test]
fn a_transport_tells_what_rank_0_did_not_live_to_tell() {
    let hosts = Hosts::new("orphans", 2);
    let mut ranks = hosts.ranks(&[0, 0, 1, 1]);
    ranks.iter_mut().skip(1).for_each(|rank| rank.begin("losses=1"));
    ranks.remove(0).kill();
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.answer(), "lost [0], [0]"));
    ranks.remove(2).kill();
    assert_eq!(ranks[1].ask("losses=2"), "lost [0, 3], [0, 3]", "they share a host");
    for _ in 0..2 {
        ranks[0].does("find-lost=3");
        assert_eq!(ranks[0].ask("losses=2"), "lost [0, 3], [0, 3]");
    }
    // Of its own host a rank hears otherwise.
    ranks[1].does("find-lost=2");
    assert_eq!(ranks[1].ask("losses=2"), "lost [0, 3], [0, 3]");
}

/// Messages go between hosts as within one: in order, and as many as one likes.
#[test]
fn messages_go_between_hosts() {
    let hosts = Hosts::new("messages", 2);
    let mut ranks = hosts.ranks(&[0, 0, 1, 1]);
    // To and fro, and by rank 0 to itself; more than are under way at a time.
    for (number, to) in [(3, 0), (2, 1), (1, 3), (0, 2)] {
        ranks[number].begin(&format!("post={to},3000"));
    }
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.answer(), ""));
    // What was sent before an end comes before it.
    ranks[3].does("post=1,100");
    assert_eq!(ranks[3].ask("mail=3000"), "3000 in order");
    ranks.remove(3).kill();
    assert_eq!(ranks[1].ask("losses=1"), "lost [3], [3]");
    for (rank, count) in ranks.iter_mut().zip([3000, 3100, 3000]) {
        assert_eq!(rank.ask(&format!("mail={count}")), format!("{count} in order"));
    }
    assert!(ranks[0].ask("post=3,1").starts_with("0: Err"));
    // Without rank 0 they do not get through, and are told so.
    ranks.remove(0).kill();
    assert_eq!(ranks[1].ask("losses=2"), "lost [0, 3], [0, 3]");
    assert!(ranks[1].ask("post=1,1").starts_with("0: Err"));
}

/// Letters go to ranks of any host, and to the own one; those that came from a rank that is gone are there.
#[test]
fn bytes_go_between_some_ranks() {
    let hosts = Hosts::new("bytes", 2);
    let mut ranks = hosts.ranks(&[0, 0, 1]);
    for (from, to) in [(1, 2), (2, 1), (0, 1), (2, 0), (1, 1)] {
        for len in [0, 1, 8000] {
            assert_eq!(ranks[from].ask(&format!("write={to},{len}")), "sent");
            assert_eq!(ranks[to].ask(&format!("read={from}")), format!("{len} bytes"), "from {from} to {to}");
        }
    }
    let refused = ranks[1].ask("write=2,8001");
    assert!(refused.contains("8001 bytes are too many for one letter"), "{refused}");
    assert!(ranks[1].ask("write=3,1").contains("rank 3"));
    assert_eq!(ranks[2].ask("write=1,7"), "sent");
    all_do(&mut ranks, "barrier=60000"); // what was sent before it has come
    ranks.remove(2).kill();
    assert_eq!(ranks[1].ask("losses=1"), "lost [2], [2]");
    assert_eq!(ranks[1].ask("read=2"), "7 bytes");
    for command in ["read=2", "write=2,1"] {
        let said = ranks[1].ask(command);
        assert!(said.contains("rank 2 is gone"), "{command}: {said}");
    }
}

/// A time-out names who is missing, and the same barrier goes on.
#[test]
fn a_barrier_goes_on_after_a_time_out() {
    let hosts = Hosts::new("goes-on", 2);
    let mut ranks = hosts.ranks(&[0, 1, 1]);
    let said = ranks[1].ask("try-barrier=50");
    assert!(said.contains("ranks 0, 2 did not come"), "{said}");
    all_do(&mut ranks, "barrier=60000");
    // Left, and not lost: who had entered does not count.
    ranks[2].does("leave");
    let said = ranks[0].ask("try-barrier=60000");
    assert!(said.contains("rank 2 is gone"), "{said}");
    assert_eq!(ranks[0].ask("losses=0"), "lost [], []");
}

#[test]
fn what_does_not_fit_is_said() {
    let hosts = Hosts::new("unfit", 2);
    let mut first = hosts.rank(0, 0, 3, "");
    let mut second = hosts.rank(1, 1, 3, "");
    // Who is first on a host gives the job its shape there.
    for (host, socket) in ["socket.0", "socket.1"].iter().enumerate() {
        let is_there = || hosts.dirs[host].files("job-far").iter().any(|file| file == socket);
        until("a rank is on its host", is_there);
    }
    // Which of two has the rank, is not known before it has come.
    let mut others =
        [hosts.rank(0, 2, 3, "SIZE=4 JOB=far"), hosts.rank(1, 2, 4, ""), hosts.rank(0, 2, 3, "JOB=near")];
    let texts = ["shape", "shape", "it is of job-near, and this is job-far"];
    for (other, text) in others.iter_mut().zip(texts) {
        let said = other.answer();
        assert!(said.contains(text), "{text}: {said}");
    }
    let stranger = hosts.rank(0, 2, 3, "SECRET=ffeeddccbbaa99887766554433221100").answer();
    assert!(stranger.contains("has another secret"), "{stranger}");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[0; 64]] {
        let mut stream = TcpStream::connect(&hosts.place).unwrap();
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest); // it is closed, one way or the other
        assert!(rest.is_empty());
    }
    // Says nothing, and keeps nobody out.
    let silent = TcpStream::connect(&hosts.place).unwrap();
    let mut third = hosts.rank(1, 2, 3, "");
    for rank in [&mut first, &mut second, &mut third] {
        assert_eq!(rank.answer(), "");
    }
    drop(silent);
}

/// Strangers that call again and again, and say a byte now and then of what may become a frame.
#[test]
fn slow_strangers_keep_nobody_out() {
    let hosts = Hosts::new("slow", 2);
    let mut first = hosts.rank(0, 0, 2, "");
    until("rank 0 listens", || TcpStream::connect(&hosts.place).is_ok());
    let (place, done) = (hosts.place.clone(), Arc::new(AtomicBool::new(false)));
    let (calls, ends) = (Arc::new(AtomicUsize::new(0)), done.clone());
    let called = calls.clone();
    let strangers = std::thread::spawn(move || {
        let mut all: Vec<TcpStream> = Vec::new();
        while !ends.load(Ordering::Relaxed) {
            all.retain_mut(|stream| stream.write_all(&[2]).is_ok());
            while all.len() < 70
                && let Ok(stream) = TcpStream::connect(&place)
            {
                all.push(stream);
                called.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    until("more have called than are listened to", || calls.load(Ordering::Relaxed) >= 100);
    let mut second = hosts.rank(1, 1, 2, "");
    let answers = [first.answer(), second.answer()];
    done.store(true, Ordering::Relaxed);
    strangers.join().unwrap();
    assert_eq!(answers, ["", ""]);
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let hosts = Hosts::new("missing", 2);
    let mut ranks = [hosts.rank(0, 0, 3, "JOIN_TIMEOUT=3"), hosts.rank(1, 1, 3, "JOIN_TIMEOUT=3")];
    let said = ranks[0].answer();
    assert!(said.contains("did not join") || said.contains("rank 1 ended"), "{said}");
    let said = ranks[1].answer();
    assert!(said.contains("did not join") || said.contains("rank 0 ended"), "{said}");
    // Nobody listens at all.
    let alone = hosts.rank(1, 1, 3, "JOIN_TIMEOUT=1").answer();
    let parts = ["rank 0 is not met at 127.0.0.1:", "firewalls", "Connection refused"];
    assert!(parts.iter().all(|part| alone.contains(part)), "{alone}");
}

#[test]
fn a_place_that_is_taken() {
    let hosts = Hosts::new("taken", 1);
    let _other = TcpListener::bind(hosts.place.replace("127.0.0.1", "0.0.0.0")).unwrap();
    let said = hosts.rank(0, 0, 2, "").answer();
    assert!(said.contains("cannot listen") && said.contains("GGAS_MEET"), "{said}");
}

#[test]
fn a_node_is_of_one_host() {
    let hosts = Hosts::new("split", 2);
    let mut ranks: Vec<Shell> =
        [(0, 0), (1, 1)].map(|(host, rank)| hosts.rank(host, rank, 2, "PER_NODE=2")).into();
    for rank in &mut ranks {
        let said = rank.answer();
        assert!(said.contains("ranks 0 and 1 are both on node 0") && said.contains("--per-node 1"), "{said}");
    }
}

/// Programs of a rank one after the other: each meets those of its run.
#[test]
fn a_second_program_of_each_rank_is_a_second_job() {
    let hosts = Hosts::new("second", 2);
    for _ in 0..3 {
        let mut ranks = hosts.ranks(&[0, 1, 1]);
        all_do(&mut ranks, "exchange=100");
        ranks.iter_mut().for_each(|rank| rank.does("leave"));
    }
}

//! What coming and going costs: processes that join a network of the model, meet a peer, and leave.
//!
//! `cargo run --release -p ggas --example visitors` prints the table; a number behind it says how many processes come one
//! after the other (10,000). This process is the peer that stays: it waits, or polls its memory; its children visit it.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ggas::{Address, HostBuffer, Network, Port, PortConfig, Region, Spec};
use nix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn Error>>;

const SOON: Duration = Duration::from_secs(60);
const TIMES: usize = 1_000;
const PROCESSES: usize = 10_000;
/// How long ports stay open while nothing arrives.
const IDLE: Duration = Duration::from_secs(5);
/// What a visitor that has done its puts says to a peer that polls.
const END: u64 = u64::MAX;
/// Words of the peer's region: what is put to it, where to put back, and what short visits leave.
const WORD: u64 = 0;
const BACK: u64 = 8;
const VISIT: u64 = 16;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => stay(PROCESSES),
        [count] => count.parse().map_err(Into::into).and_then(stay),
        [what, node, vpid, nla] => visit(what, node, vpid, nla),
        _ => Err("visitors [PROCESSES]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn stay(processes: usize) -> Outcome<()> {
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let folder = parent.join(format!("visitors-{}", std::process::id()));
    // SAFETY: no other thread of this process runs yet.
    unsafe {
        std::env::set_var("GGAS_RUNTIME_DIR", &folder);
        std::env::set_var("GGAS_QUIET", "1");
        std::env::set_var("GGAS_DEVICE", "sim");
    }
    let network = Network::join()?;
    let port = network.node().open_port(PortConfig::default())?;
    let region = port.register(HostBuffer::zeroed(4096)?)?;
    let host = Host { port, region, folder: folder.clone() };
    println!("{:<62} {:>10} {:>10} {:>10}", "", "least", "median", "99 %");
    for what in ["join", "contact"] {
        print!("{}", output(host.visitor(what)?)?);
    }
    host.polls()?;
    host.answers_by_polling()?;
    host.sleeps()?;
    host.has_short_visits(processes)?;
    drop(host);
    drop(network);
    // Fails if the network left a file.
    Ok(std::fs::remove_dir(folder)?)
}

/// The peer that stays.
struct Host {
    region: Region,
    port: Port,
    folder: PathBuf,
}

impl Host {
    fn visitor(&self, what: &str) -> Outcome<Child> {
        let (own, nla) = (self.port.address(), self.region.nla(0)?);
        let mut command = Command::new(std::env::current_exe()?);
        command.args([what.to_owned(), own.node.to_string(), own.vpid.to_string(), nla.to_string()]);
        Ok(command.env("GGAS_NODE", "1").stdout(Stdio::piped()).spawn()?)
    }

    /// Calls nothing while it waits, so that its thread has to be woken for each packet.
    fn polls(&self) -> Outcome<()> {
        self.region.store_u64(WORD as usize, 0)?;
        let visitor = self.visitor("put")?;
        let (mut times, mut last) = (Vec::new(), 0);
        loop {
            let word = next_word(&self.region, last)?;
            if word == END {
                break;
            }
            times.push(Duration::from_nanos(now()?.saturating_sub(word)));
            last = word;
        }
        output(visitor)?;
        row("put to a process that polls its memory, 8 bytes, one way", times)
    }

    fn answers_by_polling(&self) -> Outcome<()> {
        self.region.store_u64(WORD as usize, 0)?;
        let visitor = self.visitor("ping")?;
        let (mut last, mut back) = (0, None);
        loop {
            last = next_word(&self.region, last)?;
            if last == END {
                break;
            }
            let (connection, nla) = match &back {
                Some(back) => back,
                None => {
                    let [vpid, nla] = [0, 8].map(|at| self.region.load_u64(BACK as usize + at));
                    back.insert((self.port.connect(Address::new(1, vpid?.try_into()?)), nla?))
                }
            };
            connection.immediate_put(last, 8, *nla, Spec::NONE)?;
        }
        print!("{}", output(visitor)?);
        Ok(())
    }

    fn sleeps(&self) -> Outcome<()> {
        let visitor = self.visitor("sleep")?;
        self.port.wait(SOON)?;
        let mine = idle()?;
        print!("{}", output(visitor)?);
        idle_row("the same, of its peer", mine);
        Ok(())
    }

    fn has_short_visits(&self, processes: usize) -> Outcome<()> {
        let before = self.belongings()?;
        let mut times = Vec::with_capacity(processes);
        for at in 0..processes {
            let begun = Instant::now();
            output(self.visitor("visit")?)?;
            times.push(begun.elapsed());
            let put = self.port.wait(SOON)?;
            if !put.error().is_empty() || self.region.load_u64(VISIT as usize)? == 0 {
                return Err(format!("visitor {at}: {put:?}").into());
            }
            self.region.store_u64(VISIT as usize, 0)?;
        }
        row(&format!("process that comes, puts and goes; {processes} one by one"), times)?;
        // What belongs to the last one goes when its end has been noticed.
        let deadline = Instant::now() + SOON;
        while self.belongings()?.iter().zip(before).any(|(now, before)| *now > before) {
            if Instant::now() > deadline {
                return Err("visitors left files or descriptors behind".into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Files of the network, and descriptors of this process.
    fn belongings(&self) -> Outcome<[usize; 2]> {
        let entries = |folder: &Path| std::fs::read_dir(folder).map(Iterator::count);
        Ok([entries(&self.folder.join("default"))?, entries(Path::new("/proc/self/fd"))?])
    }
}

fn visit(what: &str, node: &str, vpid: &str, nla: &str) -> Outcome<()> {
    let (peer, nla) = (Address::new(node.parse()?, vpid.parse()?), nla.parse::<u64>()?);
    if what == "join" {
        let joined = (0..TIMES).map(|_| {
            let begun = Instant::now();
            let (_network, _port) = join()?;
            Ok(begun.elapsed())
        });
        return row("joining, and opening the first port", joined.collect::<Outcome<_>>()?);
    }
    if what == "contact" {
        let answered = (0..TIMES).map(|_| {
            let (_network, port) = join()?;
            Ok((get(&port, peer, nla)?, get(&port, peer, nla)?))
        });
        let (first, second): (Vec<_>, Vec<_>) = answered.collect::<Outcome<Vec<_>>>()?.into_iter().unzip();
        row("first get from a peer that sleeps, 8 bytes, to its answer", first)?;
        return row("the second", second);
    }
    let (_network, port) = join()?;
    get(&port, peer, nla)?;
    let to_peer = port.connect(peer);
    match what {
        "put" => {
            for _ in 0..TIMES {
                // Long enough that this process's core is free when the packet comes.
                std::thread::sleep(Duration::from_millis(2));
                to_peer.immediate_put(now()?, 8, nla + WORD, Spec::NONE)?;
            }
            to_peer.immediate_put(END, 8, nla + WORD, Spec::NONE)?;
            port.drain(SOON)?;
        }
        "ping" => {
            let region = port.register(HostBuffer::zeroed(4096)?)?;
            to_peer.immediate_put(port.address().vpid.into(), 8, nla + BACK, Spec::NONE)?;
            to_peer.immediate_put(region.nla(0)?, 8, nla + BACK + 8, Spec::NONE)?;
            let mut times = Vec::new();
            for round in 1..=TIMES as u64 {
                let begun = Instant::now();
                to_peer.immediate_put(round, 8, nla + WORD, Spec::NONE)?;
                next_word(&region, round - 1)?;
                times.push(begun.elapsed() / 2);
            }
            to_peer.immediate_put(END, 8, nla + WORD, Spec::NONE)?;
            port.drain(SOON)?;
            row("half a round trip of two that poll their memory, no free core", times)?;
        }
        "sleep" => {
            to_peer.notification_put(0, 0, Spec::COMPLETER)?;
            idle_row("processor time while nothing arrives", idle()?);
        }
        "visit" => {
            to_peer.immediate_put(1, 8, nla + VISIT, Spec::REQUESTER | Spec::COMPLETER)?;
            port.wait(SOON)?;
        }
        _ => return Err(format!("{what} is none of join, contact, put, ping, sleep, visit").into()),
    }
    Ok(port.close()?)
}

fn join() -> Outcome<(Network, Port)> {
    let network = Network::join()?;
    let port = network.node().open_port(PortConfig::default())?;
    Ok((network, port))
}

/// How long a get of 8 bytes takes until its answer is consumed.
fn get(port: &Port, peer: Address, nla: u64) -> Outcome<Duration> {
    let into = port.register(HostBuffer::zeroed(64)?)?;
    let begun = Instant::now();
    port.connect(peer).get(&into, 0, 8, nla, Spec::COMPLETER)?;
    let answer = port.wait(SOON)?;
    let time = begun.elapsed();
    if !answer.error().is_empty() {
        return Err(format!("{answer:?}").into());
    }
    Ok(time)
}

/// The word that follows `last`, by loads alone.
fn next_word(region: &Region, last: u64) -> Outcome<u64> {
    loop {
        let word = region.load_u64(WORD as usize)?;
        if word != last {
            return Ok(word);
        }
        std::hint::spin_loop();
    }
}

fn row(what: &str, mut times: Vec<Duration>) -> Outcome<()> {
    times.sort_unstable();
    let at =
        |share: usize| times.get((times.len().max(1) - 1) * share / 100).map(|time| time.as_secs_f64() * 1e6);
    let [least, median, most] = [0, 50, 99].map(at).map(|time| time.ok_or("nothing was measured"));
    println!("{:<62} {:>10.1} {:>10.1} {:>10.1}", format!("{what}, us"), least?, median?, most?);
    Ok(())
}

fn idle_row(what: &str, time: Duration) {
    println!("{:<62} {:>21.1}", format!("{what}, us/s"), time.as_secs_f64() * 1e6);
}

/// Processor time that this process uses in a second while it sleeps.
fn idle() -> Outcome<Duration> {
    // What went before settles.
    std::thread::sleep(IDLE / 10);
    let spent = || Ok::<Duration, nix::Error>(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into());
    let before = spent()?;
    std::thread::sleep(IDLE);
    Ok((spent()? - before) / IDLE.as_secs() as u32)
}

/// What it printed. A visitor that fails has said why.
fn output(mut child: Child) -> Outcome<String> {
    let mut text = String::new();
    child.stdout.take().ok_or("no pipe")?.read_to_string(&mut text)?;
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("a visitor ended with {status}").into());
    }
    Ok(text)
}

/// Nanoseconds of a clock that all processes share.
fn now() -> Outcome<u64> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?).as_nanos().try_into()?)
}

//! Half a round trip of 8 bytes between two processes: by `write_notify` and `notify_waitsome`, and by a put with the card's
//! notification on a port, in turns in the same run; and how long a post takes until it returns.
//!
//! `cargo build --release -p ggas-gaspi --example latency && ggas run -n 2 -- target/release/examples/latency`

use std::error::Error;
use std::time::{Duration, Instant};

use ggas::{Connection, HostBuffer, Kind, Match, Port, PortConfig, Region, RemoteRegion, Spec};
use ggas_gaspi::{Config, GROUP_ALL, Gaspi, Notice, Part, Timeout};

const SOON: Duration = Duration::from_secs(30);
const TRIPS: usize = 5_000;
const ROUNDS: usize = 5;
const POSTS: usize = 16;
const POST_ROUNDS: usize = 2_000;

/// A port of each process, with memory that the other puts to.
struct Own {
    port: Port,
    to: Connection,
    memory: Region,
    remote: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let gaspi = Gaspi::init(Config::default(), Timeout::Within(SOON))?;
    if gaspi.ranks() != 2 {
        return Err("start two processes: ggas run -n 2 -- latency".into());
    }
    gaspi.segment_create(0, 64, GROUP_ALL, Timeout::Within(SOON))?;
    let port = gaspi.job().node().open_port(PortConfig::default())?;
    let memory = port.register(HostBuffer::zeroed(64)?)?;
    let all = gaspi.job().exchange_values(&RemoteRegion::of(&memory), SOON)?;
    let other = all[usize::from(1 - gaspi.rank())];
    let own = Own { to: port.connect(other.port()), remote: other.nla(8, 8)?, memory, port };

    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        trips(
            &gaspi,
            &mut times[0],
            |value| by_queue(&gaspi, value),
            |value| wait_for_notice(&gaspi, value),
        )?;
        trips(&gaspi, &mut times[1], |value| by_port(&own, value), |value| wait_at_port(&own, value))?;
    }
    if gaspi.rank() == 0 {
        println!("half a round trip, 8 bytes     min us  median us   p99 us");
        for (name, times) in ["write_notify to waitsome", "put with notification"].into_iter().zip(&mut times)
        {
            times.sort_unstable();
            let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6 / 2.0;
            println!("{name:28} {:9.2} {:10.2} {:8.2}", at(0), at(50), at(99));
        }
    }
    if gaspi.rank() == 0 {
        post_times(&gaspi, &own)?;
    }
    gaspi.barrier(GROUP_ALL, Timeout::Within(SOON))?;
    drop(own);
    Ok(())
}

/// Posts that find room: some in a row, then a wait for all.
fn post_times(gaspi: &Gaspi, own: &Own) -> Result<(), Box<dyn Error>> {
    let part = Part { local: 0, local_offset: 0, remote: 0, remote_offset: 8, bytes: 8 };
    let notice = Notice { segment: 0, id: 0, value: 1 };
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..POST_ROUNDS {
        let began = Instant::now();
        for _ in 0..POSTS {
            gaspi.write(&part, 1, 0)?;
        }
        times[0].push(began.elapsed());
        gaspi.wait(0, Timeout::Within(SOON))?;
        let began = Instant::now();
        for _ in 0..POSTS {
            gaspi.write_notify(&[part], &notice, 1, 0)?;
        }
        times[1].push(began.elapsed());
        gaspi.wait(0, Timeout::Within(SOON))?;
        let began = Instant::now();
        for _ in 0..POSTS {
            own.to.put(&own.memory, 0, 8, own.remote, Spec::REQUESTER)?;
        }
        times[2].push(began.elapsed());
        for _ in 0..POSTS {
            own.port.wait_match(&Match::any().kind(Kind::Requester), SOON)?;
        }
    }
    println!("a post until it returns            min ns  median ns");
    for (name, times) in ["write", "write_notify", "put with notification"].into_iter().zip(&mut times) {
        times.sort_unstable();
        let each = |time: Duration| time.as_secs_f64() * 1e9 / POSTS as f64;
        println!("{name:28} {:12.0} {:10.0}", each(times[0]), each(times[times.len() / 2]));
    }
    Ok(())
}

/// To and fro: rank 0 begins, rank 1 answers.
fn trips(
    gaspi: &Gaspi,
    times: &mut Vec<Duration>,
    send: impl Fn(u64) -> Result<(), Box<dyn Error>>,
    receive: impl Fn(u64) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    gaspi.barrier(GROUP_ALL, Timeout::Within(SOON))?;
    for value in 1..=TRIPS as u64 {
        let began = Instant::now();
        if gaspi.rank() == 0 {
            send(value)?;
            receive(value)?;
            times.push(began.elapsed());
        } else {
            receive(value)?;
            send(value)?;
        }
    }
    Ok(())
}

fn by_queue(gaspi: &Gaspi, value: u64) -> Result<(), Box<dyn Error>> {
    gaspi.store(0, 0, &value.to_ne_bytes())?;
    let part = Part { local: 0, local_offset: 0, remote: 0, remote_offset: 8, bytes: 8 };
    let notice = Notice { segment: 0, id: 0, value: 1 };
    gaspi.write_notify(&[part], &notice, 1 - gaspi.rank(), 0)?;
    Ok(gaspi.wait(0, Timeout::Within(SOON))?)
}

fn wait_for_notice(gaspi: &Gaspi, value: u64) -> Result<(), Box<dyn Error>> {
    gaspi.notify_waitsome(0, 0, 1, Timeout::Within(SOON))?;
    gaspi.notify_reset(0, 0)?;
    let mut got = [0; 8];
    gaspi.load(0, 8, &mut got)?;
    check(u64::from_ne_bytes(got), value)
}

fn by_port(own: &Own, value: u64) -> Result<(), Box<dyn Error>> {
    own.memory.store_u64(0, value)?;
    own.to.put(&own.memory, 0, 8, own.remote, Spec::REQUESTER | Spec::COMPLETER)?;
    own.port.wait_match(&Match::any().kind(Kind::Requester), SOON)?;
    Ok(())
}

fn wait_at_port(own: &Own, value: u64) -> Result<(), Box<dyn Error>> {
    own.port.wait_match(&Match::any().kind(Kind::Completer), SOON)?;
    check(own.memory.load_u64(8)?, value)
}

fn check(got: u64, value: u64) -> Result<(), Box<dyn Error>> {
    if got == value { Ok(()) } else { Err(format!("{got} arrived in place of {value}").into()) }
}

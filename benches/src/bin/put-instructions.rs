//! Posts 8-byte puts so that callgrind can count their instructions; `benches/put-instructions.sh` runs it.
//!
//! `put-instructions <way> <number of puts>`; `put-instructions list` names the ways.

use std::process::ExitCode;
use std::time::Duration;

use ggas::{Cluster, HostBuffer, Path, PortConfig, Progress, Spec};

/// How the puts are posted and completed.
const WAYS: &[(&str, Path, Spec)] = &[
    ("card", Path::Card, Spec::NONE),
    ("card-notified", Path::Card, Spec::COMPLETER),
    ("slots", Path::Slots, Spec::NONE),
    ("slots-notified", Path::Slots, Spec::COMPLETER),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["list"] => {
            WAYS.iter().for_each(|(name, ..)| println!("{name}"));
            Ok(())
        }
        [way, puts] => run(way, puts),
        _ => Err("usage: put-instructions list | <way> <number of puts>".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("put-instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(way: &str, puts: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (_, path, spec) = *WAYS.iter().find(|(name, ..)| *name == way).ok_or("no such way; try `list`")?;
    let puts: u64 = puts.parse()?;
    let cluster = Cluster::builder().nodes(2).progress(Progress::Inline).build()?;
    let config = PortConfig { path: Some(path), ..PortConfig::default() };
    let (origin, target) = (cluster.node(0)?.open_port(config)?, cluster.node(1)?.open_port(config)?);
    let source = origin.register(HostBuffer::zeroed(4096)?)?;
    let destination = target.register(HostBuffer::zeroed(4096)?)?;
    let connection = origin.connect(target.address());
    let remote = destination.nla(0)?;
    for put in 0..puts {
        source.store_u64(0, put + 1)?;
        connection.put(&source, 0, 8, remote, spec)?;
        if spec == Spec::COMPLETER {
            target.wait(Duration::from_secs(10))?;
        }
    }
    // All of it arrived, in order, or the count says nothing.
    connection.notification_put(0, 0, Spec::COMPLETER)?;
    target.wait(Duration::from_secs(10))?;
    if destination.load_u64(0)? != puts {
        return Err(
            format!("the last put did not arrive: {} instead of {puts}", destination.load_u64(0)?).into()
        );
    }
    Ok(())
}

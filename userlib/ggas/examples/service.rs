//! A service and its clients: programs of one network that begin and end when they like, without a job.
//!
//! After `cargo build -p ggas --example service`, in two shells:
//!
//! ```text
//! GGAS_NODE=2 target/debug/examples/service serve      # until you end it
//! GGAS_NODE=1 target/debug/examples/service ask 2 12   # prints 144; as often as you like, also before the service begins
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use ggas::{Address, Connection, Match, Network, Port, PortConfig, PostError, Spec, WaitError};

/// Classes of notification puts.
const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const QUESTION: u8 = 3;
const ANSWER: u8 = 4;

/// VPIDs that are greeted: a node gives out the lowest ones first.
const VPIDS: u8 = 16;
/// How often a client says hello, and asks, and how long it waits each time: what is put to a port before it is open
/// goes nowhere.
const HELLOS: usize = 600;
const AGAIN: Duration = Duration::from_millis(100);
const QUESTIONS: usize = 3;
const SOON: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => serve(),
        ["ask", node, number] => parsed(node, number).map(|square| println!("{square}")),
        _ => Err("service serve | service ask NODE NUMBER".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parsed(node: &str, number: &str) -> Result<u64, Box<dyn Error>> {
    ask(node.parse()?, number.parse()?)
}

/// Squares numbers for whoever asks, without an end.
pub fn serve() -> Result<(), Box<dyn Error>> {
    let network = Network::join()?;
    let port = network.node().open_port(PortConfig::default())?;
    println!("serving at {}", port.address());
    loop {
        let came = match port.wait(SOON) {
            Ok(came) if came.error().is_empty() => came,
            Ok(_) | Err(WaitError::Timeout { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let client = port.connect(came.remote());
        let answered = match came.class() {
            HELLO => client.notification_put(WELCOME, 0, Spec::COMPLETER),
            QUESTION => client.notification_put(ANSWER, came.word0.wrapping_mul(came.word0), Spec::COMPLETER),
            _ => Ok(()),
        };
        unless_gone(answered)?;
    }
}

/// Has the service on node `node` square `number`.
pub fn ask(node: u16, number: u64) -> Result<u64, Box<dyn Error>> {
    let network = Network::join()?;
    let port = network.node().open_port(PortConfig::default())?;
    let service = find(&port, node)?;
    let wanted = Match::any().class(ANSWER).from(service.remote());
    for _ in 0..QUESTIONS {
        service.notification_put(QUESTION, number, Spec::COMPLETER)?;
        match port.wait_match(&wanted, SOON) {
            Ok(answer) => return Ok(answer.word0),
            Err(WaitError::Timeout { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(format!("the service at {} does not answer", service.remote()).into())
}

/// Greets the ports of a node until one of them answers.
fn find(port: &Port, node: u16) -> Result<Connection, Box<dyn Error>> {
    let welcome = Match::any().class(WELCOME).from_node(node);
    for _ in 0..HELLOS {
        for vpid in 0..VPIDS {
            let greeted = port.connect(Address::new(node, vpid)).notification_put(HELLO, 0, Spec::COMPLETER);
            unless_gone(greeted)?;
        }
        match port.wait_match(&welcome, AGAIN) {
            Ok(came) => return Ok(port.connect(came.remote())),
            Err(WaitError::Timeout { .. } | WaitError::PeerLost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(format!("no service on node {node}: start it there (GGAS_NODE={node} ... service serve)").into())
}

/// That a process ended meanwhile is no failure of this one.
fn unless_gone(posted: Result<(), PostError>) -> Result<(), PostError> {
    match posted {
        Err(PostError::PeerLost(_)) => Ok(()),
        posted => posted,
    }
}

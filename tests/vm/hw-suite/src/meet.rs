//! How two machines find each other: by notifications to the port that each opens first.

use std::error::Error;
use std::time::{Duration, Instant};

use extoll_abi::{Address, Spec};
use ggas_rma::{Connection, Match, Port};

use crate::SOON;

/// Class of a greeting, whose payload is an address in the sender's memory; others are for the suite.
const HELLO: u8 = 250;
const AGAIN: Duration = Duration::from_millis(100);
/// The other machine may boot much later.
const BOOT: Duration = Duration::from_secs(120);

/// The other machine's port, and the address that it sent.
pub fn meet(port: &Port, node: u16, own: u64) -> Result<(Connection, u64), Box<dyn Error>> {
    let there = port.connect(Address::new(node, port.address().vpid));
    let hello = Match::any().class(HELLO).from(there.remote());
    let end = Instant::now() + BOOT;
    loop {
        // Before the other port is open this goes nowhere.
        there.notification_put(HELLO, own, Spec::COMPLETER)?;
        if let Ok(note) = port.wait_match(&hello, AGAIN) {
            // Now it is open: this one arrives, if none before did.
            there.notification_put(HELLO, own, Spec::COMPLETER)?;
            return Ok((there, note.word0));
        }
        if Instant::now() > end {
            return Err(format!("node {node} does not answer within {BOOT:?}").into());
        }
    }
}

/// Both sides get here before either goes on. `step` is a class of its own.
pub fn sync(port: &Port, there: &Connection, step: u8) -> Result<(), Box<dyn Error>> {
    there.notification_put(step, 0, Spec::COMPLETER)?;
    port.wait_match(&Match::any().class(step).from(there.remote()), SOON)?;
    Ok(())
}

//! How two machines find each other: by notifications to the port that each opens first.

use std::error::Error;
use std::time::{Duration, Instant};

use extoll_abi::{Address, Spec};
use ggas_rma::{Connection, Match, Port};

use crate::SOON;

/// Class of a greeting, whose payload is an address in the sender's memory; others are for the suite.
const HELLO: u8 = 250;
const MET: u8 = 251;
const AGAIN: Duration = Duration::from_millis(100);
/// The other machine may boot much later.
const BOOT: Duration = Duration::from_secs(120);

/// VPIDs that the other machine's port may have: the lowest that are free, and have rested since they were used.
const VPIDS: u8 = 16;

/// The other machine's port, and the address that it sent.
pub fn meet(port: &Port, node: u16, own: u64) -> Result<(Connection, u64), Box<dyn Error>> {
    let hello = Match::any().class(HELLO).from_node(node);
    let end = Instant::now() + BOOT;
    loop {
        // Before the other port is open this goes nowhere.
        for vpid in 0..VPIDS {
            port.connect(Address::new(node, vpid)).notification_put(HELLO, own, Spec::COMPLETER)?;
        }
        match port.wait_match(&hello, AGAIN) {
            Ok(note) => {
                let there = port.connect(note.remote());
                // Now it is open: this one arrives, if none before did.
                there.notification_put(HELLO, own, Spec::COMPLETER)?;
                // Then none of its greetings is on the way to ports that are opened from here on.
                sync(port, &there, MET)?;
                return Ok((there, note.word0));
            }
            _ if Instant::now() > end => {
                return Err(format!("node {node} does not answer within {BOOT:?}").into());
            }
            _ => {}
        }
    }
}

/// Both sides get here before either goes on. `step` is a class of its own.
pub fn sync(port: &Port, there: &Connection, step: u8) -> Result<(), Box<dyn Error>> {
    sync_all(port, std::slice::from_ref(there), step)
}

/// All nodes get here before any goes on. `step` is a class of its own.
pub fn sync_all(port: &Port, others: &[Connection], step: u8) -> Result<(), Box<dyn Error>> {
    for there in others {
        there.notification_put(step, 0, Spec::COMPLETER)?;
    }
    for there in others {
        port.wait_match(&Match::any().class(step).from(there.remote()), SOON)?;
    }
    Ok(())
}

//! Immediate puts and notification puts from every process to every other: each arrives once, in order.

use ggas::{Command, HostBuffer, Job, Kind, Match, PortConfig, RemoteRegion, Spec};

use crate::patience;
use crate::trouble::Trouble;

const EACH: u64 = 40;

pub fn run(job: &Job, seed: u64) -> Result<(), Trouble> {
    let (rank, size) = (u64::from(job.rank()), job.size() as usize);
    let port = job.node().open_port(PortConfig { post_timeout: patience(), ..PortConfig::default() })?;
    let words = port.register(HostBuffer::zeroed(8 * size)?)?;
    let peers = job.exchange_values(&RemoteRegion::of(&words), patience())?;
    let value = |from: u64, i: u64| seed ^ (from << 32) ^ i;
    for i in 0..EACH {
        for peer in &peers {
            let way = port.connect(peer.port());
            way.immediate_put(value(rank, i), 8, peer.nla(8 * rank, 8)?, Spec::NONE)?;
            way.notification_put(i as u8, value(rank, i), Spec::COMPLETER)?;
        }
    }
    for (from, peer) in peers.iter().enumerate() {
        let wanted = Match::any().kind(Kind::Completer).command(Command::NotificationPut).from(peer.port());
        for i in 0..EACH {
            let notification = port.wait_match(&wanted, patience())?;
            let (class, payload) = (notification.class(), notification.word0);
            if (class, payload) != (i as u8, value(from as u64, i)) {
                return Err(Trouble::Wrong(format!(
                    "notification {i} of rank {from}: class {class}, {payload:#x}"
                )));
            }
        }
        let word = words.load_u64(8 * from)?;
        if word != value(from as u64, EACH - 1) {
            return Err(Trouble::Wrong(format!(
                "after its last notification, rank {from}'s word is {word:#x}"
            )));
        }
    }
    job.barrier(patience())?;
    Ok(())
}

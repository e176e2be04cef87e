//! Puts to the next process and gets from the one before, out of library and of private memory, every byte checked.

use ggas::{Command, HostBuffer, Job, Kind, Match, Notification, PortConfig, Region, RemoteRegion, Spec};
use ggas_tests::bytes;

use crate::patience;
use crate::trouble::Trouble;

const SIZES: [usize; 8] = [1, 8, 65, 496, 4097, 40_000, 100_003, 1 << 20];
const LARGEST: usize = 1 << 20;

pub fn run(job: &Job, seed: u64) -> Result<(), Trouble> {
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let port = job.node().open_port(PortConfig { post_timeout: patience(), ..PortConfig::default() })?;
    let inbox = port.register(HostBuffer::zeroed(LARGEST)?)?;
    let mine = port.register(HostBuffer::zeroed(LARGEST)?)?;
    let mut private = vec![0u8; LARGEST];
    // SAFETY: the vector outlives the region, which is dropped first; it is not touched while transfers run.
    let hidden = unsafe { port.register_raw(private.as_mut_ptr(), private.len())? };
    let told = (RemoteRegion::of(&inbox), RemoteRegion::of(&mine));
    let peers = job.exchange_values(&told, patience())?;
    let from = (rank + size - 1) % size;
    let (next, before) = (peers[(rank + 1) % size], peers[from]);
    let (to, back) = (port.connect(next.0.port()), port.connect(before.0.port()));
    let (next_inbox, before_mine) = (next.0.nla(0, LARGEST as u64)?, before.1.nla(0, LARGEST as u64)?);

    for (i, len) in SIZES.into_iter().enumerate() {
        let data = bytes(seed ^ (rank * 64 + i) as u64, len);
        let source = if i % 2 == 0 { &mine } else { &hidden };
        source.write(0, &data)?;
        to.put(source, 0, len, next_inbox, Spec::REQUESTER | Spec::COMPLETER)?;
        for wanted in [
            Match::any().kind(Kind::Completer).from(back.remote()),
            Match::any().kind(Kind::Requester).from(to.remote()),
        ] {
            carried_out(&port.wait_match(&wanted.puts(), patience())?)?;
        }
        check("put", &inbox, &bytes(seed ^ (from * 64 + i) as u64, len))?;
        job.barrier(patience())?;
    }
    // Now `mine` of everyone holds what it sent last from there.
    let last = SIZES.len() - 2;
    back.get(&inbox, 0, SIZES[last], before_mine, Spec::COMPLETER)?;
    let got = Match::any()
        .kind(Kind::Completer)
        .command(Command::GetBtRsp)
        .command(Command::BtGet)
        .from(back.remote());
    carried_out(&port.wait_match(&got, patience())?)?;
    check("get", &inbox, &bytes(seed ^ (from * 64 + last) as u64, SIZES[last]))?;
    job.barrier(patience())?;
    Ok(())
}

/// Who gives up closes its port, and then refuses what still comes.
fn carried_out(notification: &Notification) -> Result<(), Trouble> {
    if notification.error().is_empty() {
        Ok(())
    } else {
        Err(Trouble::Lost(format!("refused: {notification:?}")))
    }
}

fn check(what: &str, region: &Region, expected: &[u8]) -> Result<(), Trouble> {
    let mut found = vec![0; expected.len()];
    region.read(0, &mut found)?;
    match (0..found.len()).find(|at| found[*at] != expected[*at]) {
        None => Ok(()),
        Some(at) => Err(Trouble::Wrong(format!(
            "byte {at} of a {what} of {} bytes is {:#04x}, not {:#04x}",
            found.len(),
            found[at],
            expected[at]
        ))),
    }
}

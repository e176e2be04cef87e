//! All processes add to one lock of rank 0: no addition is lost.

use ggas::{Address, Job, Lock, PortConfig};

use crate::PATIENCE;
use crate::trouble::Trouble;

const EACH: i32 = 15;

pub fn run(job: &Job) -> Result<(), Trouble> {
    let port = job.node().open_port(PortConfig { post_timeout: PATIENCE, ..PortConfig::default() })?;
    let ports = job.exchange_values(&(port.address().node, port.address().vpid), PATIENCE)?;
    let target = Address::new(ports[0].0, ports[0].1);
    let connection = port.connect(target);
    let add = Lock { number: 3, compare: i32::MAX, add: 1 };
    for _ in 0..EACH {
        let outcome = port.lock(&connection, add, PATIENCE)?;
        if !outcome.taken {
            return Err(Trouble::Wrong(format!("an addition was refused: {outcome:?}")));
        }
    }
    job.barrier(PATIENCE)?;
    let last = port.lock(&connection, Lock { add: 0, ..add }, PATIENCE)?;
    let expected = EACH * job.size() as i32;
    job.barrier(PATIENCE)?;
    if last.value == expected {
        Ok(())
    } else {
        Err(Trouble::Wrong(format!("the lock is {last:?}, not {expected}")))
    }
}

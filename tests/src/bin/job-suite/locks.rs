//! All processes add to one lock of rank 0: no addition is lost.

use ggas::{Address, Job, Lock, PortConfig};

use crate::patience;
use crate::trouble::Trouble;

const EACH: i32 = 15;

pub fn run(job: &Job) -> Result<(), Trouble> {
    let port = job.node().open_port(PortConfig { post_timeout: patience(), ..PortConfig::default() })?;
    let ports = job.exchange_values(&(port.address().node, port.address().vpid), patience())?;
    let target = Address::new(ports[0].0, ports[0].1);
    let connection = port.connect(target);
    let add = Lock { number: 3, compare: i32::MAX, add: 1 };
    for _ in 0..EACH {
        let outcome = port.lock(&connection, add, patience())?;
        if !outcome.taken {
            return Err(Trouble::Wrong(format!("an addition was refused: {outcome:?}")));
        }
    }
    job.barrier(patience())?;
    let last = port.lock(&connection, Lock { add: 0, ..add }, patience())?;
    let expected = EACH * job.size() as i32;
    job.barrier(patience())?;
    if last.value == expected {
        Ok(())
    } else {
        Err(Trouble::Wrong(format!("the lock is {last:?}, not {expected}")))
    }
}

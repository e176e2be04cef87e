//! Calls of the hub: of ranks, or of whoever else reaches its port.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, PoisonError};

use super::Shared;
use crate::far::callers::Timed;
use crate::far::frame::{Answer, Hello};
use crate::far::proof::{Side, Talk};
use crate::far::reach::{STEP, prepare};
use crate::meeting::{bad, is_full, random};
use crate::quiet;

impl Shared {
    /// Lets one in. Whether there is no room, for a moment.
    pub(super) fn accept(self: &Arc<Self>, listener: &TcpListener) -> bool {
        let (stream, from) = match listener.accept() {
            Ok((stream, from)) => (Arc::new(stream), from),
            Err(error) => return is_full(&error),
        };
        let (own, number) = (self.clone(), self.callers.add(&stream, from.ip()));
        let listen = move || {
            if let Err(error) = own.be_called(&stream, number) {
                tracing::warn!("a call from {from} was refused: {error}");
            }
            own.callers.remove(number);
            let _ = own.news.write(1); // full: it will look
        };
        let spawned = quiet::spawn("ggas-called", listen);
        if spawned.is_err() {
            self.callers.remove(number);
        }
        spawned.is_err()
    }

    fn be_called(&self, stream: &Arc<TcpStream>, number: u64) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        prepare(stream)?;
        let mut timed = Timed::new(stream, STEP);
        let mut talk = Talk::new(&mut timed, self.secret, Side::Hub);
        let hello = Hello::of(&talk.hear()?);
        self.callers.has_proven(number);
        let checked = hello.and_then(|hello| self.check(&hello).map(|()| hello));
        let refused = checked.as_ref().err().cloned();
        let answer = postcard::to_stdvec(&Answer { nonce: random()?, refused }).map_err(io::Error::other)?;
        talk.say(&answer)?;
        let hello = checked.map_err(io::Error::other)?;
        talk.hear()?;
        stream.set_nonblocking(true)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken[hello.rank as usize].replace(hello.host.clone()).is_some() {
            return Err(bad("its rank has come meanwhile"));
        }
        drop(taken);
        self.came.lock().unwrap_or_else(PoisonError::into_inner).push((hello, stream.clone()));
        Ok(())
    }

    /// Whether who says this is of this job.
    fn check(&self, hello: &Hello) -> Result<(), String> {
        let Hello { job, rank, size, per_node, .. } = hello;
        if *job != self.job {
            return Err(format!("it is of {job}, and this is {}: GGAS_JOB differs", self.job));
        }
        let own = (self.shape.processes(), self.shape.per_node());
        if (*size, *per_node) != own || rank >= size {
            return Err(format!(
                "it is rank {rank} of {size}, {per_node} on each node, and this is a job of {}, {} on each node: GGAS_SIZE or \
                 GGAS_PER_NODE differs",
                own.0, own.1
            ));
        }
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match &taken[*rank as usize] {
            Some(host) => Err(format!(
                "rank {rank} has come already, from {host}: give every process a GGAS_RANK of its own"
            )),
            None => Ok(()),
        }
    }
}

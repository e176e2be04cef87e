//! How members that are in several processes tell each other where things are.

use std::time::Duration;

use ggas_members::Job;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::QueuesError;

/// Longest reason that is passed on to the others.
const REASON_MAX: usize = 1000;

/// Members that hand bytes to each other. A [`Job`]'s processes do; others may by whatever they have.
pub trait Exchange {
    /// Gives everyone up to 32 KiB, and returns what all gave, by member. All have called it when it returns.
    ///
    /// # Errors
    /// Members that do not come in time, or are gone.
    fn exchange(&self, own: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, QueuesError>;
}

impl Exchange for Job {
    fn exchange(&self, own: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, QueuesError> {
        Ok(Job::exchange(self, own, timeout)?)
    }
}

/// Who has to be asked.
#[derive(Clone, Copy)]
pub(crate) enum Peers<'a> {
    /// Nobody: all members are here.
    Here,
    /// Each member is in a process of its own.
    Across(&'a dyn Exchange, Duration),
}

impl Peers<'_> {
    /// What all members say, by member; `own` is what those of this process do. Either all succeed or all fail.
    pub fn gather<T: Serialize + DeserializeOwned>(
        self,
        own: Result<Vec<T>, QueuesError>,
    ) -> Result<Vec<T>, QueuesError> {
        let Peers::Across(exchange, timeout) = self else { return own };
        let said: Result<&Vec<T>, String> =
            own.as_ref().map_err(|error| error.to_string().chars().take(REASON_MAX).collect());
        let bytes = postcard::to_stdvec(&said).map_err(|error| QueuesError::Exchange(error.to_string()))?;
        let all = exchange.exchange(&bytes, timeout);
        // What went wrong here says more.
        own?;
        let mut values = Vec::new();
        for (member, bytes) in all?.iter().enumerate() {
            let peer = |what| QueuesError::Peer { member, what };
            let value: Result<Vec<T>, String> = postcard::from_bytes(bytes).map_err(|error| {
                peer(format!(
                    "what it sent is no message of this version ({error}): build all processes alike"
                ))
            })?;
            values.extend(value.map_err(peer)?);
        }
        Ok(values)
    }
}

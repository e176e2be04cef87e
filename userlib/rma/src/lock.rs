//! Lock operations with their answer (spec 5).

use std::time::Duration;

use extoll_abi::{Command, Kind, Notification, Spec};

use crate::{Connection, Lock, LockError, Match, Port};

/// Answer to a lock operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockOutcome {
    /// Whether the addition took place.
    pub taken: bool,
    /// The lock's value afterwards, either way.
    pub value: i32,
}

impl LockOutcome {
    /// The answer in a notification: the completer's at the origin, or the responder's at the target. `None` for
    /// other notifications, and for the requester's, which comes first and answers nothing.
    pub fn of(notification: &Notification) -> Option<LockOutcome> {
        let answers = matches!(notification.kind(), Some(Kind::Completer | Kind::Responder));
        let lock = matches!(notification.command().command(), Some(Command::LockReq | Command::LockRsp));
        (answers && lock && notification.error().is_empty())
            .then(|| LockOutcome { taken: notification.lock_result() != 0, value: notification.lock_value() })
    }
}

impl Port {
    /// Carries out a lock operation at the connection's port and waits for the answer; other notifications stay
    /// in the queue. One such call per lock number at a time: answers do not say which request they belong to.
    ///
    /// # Errors
    /// [`LockError::Post`], [`LockError::Wait`]; [`LockError::Refused`] for a number that the target does not have.
    pub fn lock(
        &self,
        connection: &Connection,
        lock: Lock,
        timeout: Duration,
    ) -> Result<LockOutcome, LockError> {
        connection.lock(lock, Spec::COMPLETER)?;
        let answer = Match::any()
            .kind(Kind::Completer)
            .command(Command::LockReq)
            .command(Command::LockRsp)
            .lock(lock.number);
        let notification = self.wait_match(&answer.from(connection.remote()), timeout)?;
        LockOutcome::of(&notification)
            .ok_or(LockError::Refused { number: lock.number, target: connection.remote() })
    }
}

//! Forks of a process that has joined.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ggas_members::{Job, JobError, Member, MemberId, Members};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use crate::{Failure, State, say};

/// Does a command; `false`: it is another's.
pub fn run(state: &mut State, name: &str) -> Result<bool, Failure> {
    match name {
        // The child tries everything, drops its copy, and ends with 7.
        "fork" => {
            let status = in_child(|| {
                let all = refuses(state);
                drop(std::mem::take(state));
                if all { 7 } else { 8 }
            })?;
            say(&status);
        }
        // The child ends by the function that calls exit handlers.
        "fork-exit" => {
            let status = in_child(|| std::process::exit(6))?;
            say(&status);
        }
        // The child joins by itself, sees its parent, and leaves.
        "fork-join" => {
            let parent = state.member()?.me();
            let status = in_child(|| match Member::join() {
                Ok(member) if member.me() != parent && member.list().iter().any(|it| it.id == parent) => 5,
                Ok(member) => {
                    say(&format!("{member:?}: {:?}", member.list()));
                    1
                }
                Err(error) => {
                    say(&error.to_string());
                    2
                }
            })?;
            say(&status);
        }
        // Children that drop copies made while other threads hold locks of the original.
        "fork-often" => fork_often(state)?,
        // A child that lives on, with copies of all descriptors, until nobody can write to its input.
        "fork-stay" => {
            // SAFETY: the child waits, and ends.
            if let ForkResult::Child = unsafe { fork()? } {
                let stdin = std::io::stdin();
                let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
                let _ = nix::poll::poll(&mut fds, PollTimeout::NONE);
                // SAFETY: nothing of the parent's is run.
                unsafe { libc::_exit(0) };
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// What became of a child that does this.
fn in_child(work: impl FnOnce() -> i32) -> Result<String, Failure> {
    // SAFETY: what the child calls is what is tested; it is killed where it hangs.
    match unsafe { fork()? } {
        ForkResult::Parent { child } => Ok(match waitpid(child, None)? {
            WaitStatus::Exited(_, status) => format!("child ends with {status}"),
            other => format!("{other:?}").replace(&child.to_string(), "child"),
        }),
        ForkResult::Child => {
            // SAFETY: a number; a child that hangs ends by the signal.
            unsafe { libc::alarm(60) };
            let status = work();
            // SAFETY: ends the child as a killed one would.
            unsafe { libc::_exit(status) }
        }
    }
}

/// Every call of the copies.
fn refuses(state: &State) -> bool {
    let forked = |outcome: Result<(), JobError>| matches!(outcome, Err(JobError::Forked { .. }));
    let job = state.job.as_ref().is_none_or(|job| {
        forked(job.barrier(Duration::ZERO))
            && forked(job.exchange(&[], Duration::ZERO).map(drop))
            && forked(job.send_fds(0, 0, &[], Duration::ZERO))
            && forked(job.recv_fds(0, 0, Duration::ZERO).map(drop))
            && matches!(Job::join(), Err(JobError::RankTaken { .. }))
            && job.lost().is_empty()
    });
    let member = state.member().is_ok_and(|member| {
        let other = MemberId { slot: 0, generation: 1 };
        member.lose(other);
        member.leave();
        member.handle(3, Arc::new(|_, _, _| {}));
        drop(member.on_gone(Arc::new(|_, _| {})));
        forked(member.publish("key", &[1]))
            && member.send(other, 1, &[], &[], Instant::now()).is_err()
            && member.node_memory(0, (4096, 4096), |_| {}).is_err()
    });
    job && member
}

fn fork_often(state: &mut State) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let work = {
        let (stop, member) = (stop.clone(), state.member()?.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                drop(member.on_gone(Arc::new(|_, _| {})));
            }
        }
    };
    let threads = [std::thread::spawn(work.clone()), std::thread::spawn(work)];
    let ends = (0..200).map(|_| {
        in_child(|| {
            // Copies of what others use at this moment.
            let (job, member, events) = (state.job.take(), state.member.take(), state.events.take());
            drop((events, member, job));
            7
        })
    });
    let wrong = ends
        .map(|end| end.map_err(|error| error.to_string()))
        .find(|end| !end.as_ref().is_ok_and(|end| end == "child ends with 7"));
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    say(&wrong.map_or("all ended".into(), |end| format!("{end:?}")));
    Ok(())
}

//! Bounded waits for the end of a child process: pidfd_open(2), poll(2), then SIGKILL.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

/// The time that a child usually gets to end by itself, and that the kernel gets to kill it.
pub const GRACE: Duration = Duration::from_secs(2);
/// The interval of polling where there are no pidfds (before Linux 5.3, or by a seccomp filter).
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A child of this process that has no other waiter.
pub trait ChildProcess {
    /// Its process id, which the kernel does not reuse until it was waited for.
    fn pid(&self) -> Pid;
    /// Its status if it has ended. Never blocks.
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>>;
}

impl ChildProcess for Child {
    fn pid(&self) -> Pid {
        Pid::from_child(self)
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        Child::try_wait(self)
    }
}

/// A child of fork(2).
impl ChildProcess for Pid {
    fn pid(&self) -> Pid {
        *self
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = retry_on_intr(|| waitpid(Some(*self), WaitOptions::NOHANG))?;
        Ok(ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw())))
    }
}

/// The status of a child, and whether it had to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildEnd {
    /// The status of wait(2).
    pub status: ExitStatus,
    /// True if it did not end by itself in time.
    pub was_killed: bool,
}

/// The status of a child that ends within this time; none where it has not ended by then.
pub fn wait_for(child: &mut impl ChildProcess, time: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + time;
    let mut pidfd = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        match pidfd.get_or_insert_with(|| pidfd_open(child.pid(), PidfdFlags::empty())) {
            Ok(pidfd) => {
                let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
                match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            Err(_) => thread::sleep(left.min(POLL_INTERVAL)),
        }
    }
}

/// Waits for a child's end, kills it after `grace`, and reaps it.
///
/// # Errors
/// `TimedOut` where even SIGKILL has not ended it within [`GRACE`], as in a call that cannot be
/// interrupted; it is then left to itself. `ECHILD` where it was waited for before.
pub fn wait_or_kill(child: &mut impl ChildProcess, grace: Duration) -> io::Result<ChildEnd> {
    if let Some(status) = wait_for(child, grace)? {
        let was_killed = false;
        return Ok(ChildEnd { status, was_killed });
    }
    let pid = child.pid();
    // It was not waited for yet, so the process id is still its own.
    kill_process(pid, Signal::KILL)?;
    let status = wait_for(child, GRACE)?.ok_or_else(|| {
        let why = format!("did not end within {} s of SIGKILL either", GRACE.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, why)
    })?;
    // A child that was ending already keeps its own status.
    let was_killed = status.signal() == Some(Signal::KILL.as_raw());
    Ok(ChildEnd { status, was_killed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().unwrap()
    }

    // Invariant 8.
    #[test]
    fn a_child_that_is_stopped_is_killed_and_reaped() {
        let mut child = shell("kill -STOP $$");
        let began = Instant::now();
        assert_eq!(
            wait_for(&mut child, Duration::from_millis(50)).unwrap(),
            None
        );
        assert!(began.elapsed() >= Duration::from_millis(50));
        let end = wait_or_kill(&mut child, Duration::ZERO).unwrap();
        assert!(end.was_killed);
        assert_eq!(end.status.signal(), Some(9));
        // It was reaped: its process id may be another process's.
        let gone = Pid::from_child(&child).try_wait().unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(Errno::CHILD.raw_os_error()));
        let error = wait_or_kill(&mut Pid::from_child(&child), Duration::ZERO).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::CHILD.raw_os_error()));
    }

    #[test]
    fn a_child_that_ends_by_itself_keeps_its_status() {
        let long = Duration::from_secs(60);
        let began = Instant::now();
        let exited = wait_or_kill(&mut shell("exit 3"), long).unwrap();
        assert_eq!((exited.status.code(), exited.was_killed), (Some(3), false));
        let mut forked = Pid::from_child(&shell("kill -TERM $$"));
        let terminated = wait_or_kill(&mut forked, long).unwrap();
        assert_eq!(
            (terminated.status.signal(), terminated.was_killed),
            (Some(15), false)
        );
        assert!(began.elapsed() < long);
    }
}

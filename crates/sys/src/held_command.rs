//! A command whose process is forked, and waits before execve(2) until it may begin: so it can be
//! prepared from outside by its process id.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;

/// A forked process that waits before execve(2).
#[derive(Debug)]
pub struct HeldCommand {
    /// The thread that waits for the standard library's `spawn`.
    spawning: JoinHandle<io::Result<Child>>,
    /// A byte written here lets the process continue.
    release: PipeWriter,
    process: u32,
}

impl HeldCommand {
    /// Forks a process for a command. If this process ends before [`HeldCommand::begin`], that one ends
    /// as well.
    pub fn fork(mut command: Command) -> io::Result<HeldCommand> {
        let (mut pid_reader, pid_writer) = pipe()?;
        let (gate, release) = pipe()?;
        hold(&mut command, pid_writer, gate, release.as_raw_fd());
        // `spawn` returns after the child's execve, so it needs a thread of its own.
        let spawning = thread::Builder::new().spawn(move || command.spawn())?;
        let mut pid = [0; 4];
        match pid_reader.read_exact(&mut pid) {
            Ok(()) => Ok(HeldCommand {
                spawning,
                release,
                process: u32::from_ne_bytes(pid),
            }),
            // It was not forked.
            Err(e) => match spawning.join() {
                Ok(Err(why)) => Err(why),
                _ => Err(e),
            },
        }
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Lets it execute its command.
    ///
    /// # Errors
    /// Those of execve(2): `NotFound`, `PermissionDenied`.
    pub fn begin(mut self) -> io::Result<Child> {
        self.release.write_all(&[0])?;
        let spawned = self.spawning.join();
        spawned.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
    }
}

/// Makes the command's process write its process id, and then wait for a byte at the gate.
fn hold(command: &mut Command, mut pid: PipeWriter, mut gate: PipeReader, release: i32) {
    // SAFETY: between fork and exec it makes system calls on descriptors that it owns; it takes no
    // lock and allocates nothing, not even for its errors. `release` is the child's copy of the gate's
    // other end, which would keep the pipe open for ever and has no other user in the child.
    unsafe {
        command.pre_exec(move || {
            libc::close(release);
            pid.write_all(&std::process::id().to_ne_bytes())?;
            match gate.read(&mut [0])? {
                0 => Err(Errno::CANCELED.into()),
                _ => Ok(()),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_held_command_executes_nothing_until_it_may_begin() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$"]).stdout(Stdio::piped());
        let held = HeldCommand::fork(command).unwrap();
        let process = held.process();
        let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap();
        assert_eq!(program, std::env::current_exe().unwrap());
        let ended = held.begin().unwrap().wait_with_output().unwrap();
        assert_eq!(ended.stdout, format!("{process}\n").into_bytes());
    }

    #[test]
    fn a_missing_command_is_an_error_of_begin() {
        let held = HeldCommand::fork(Command::new("/no/such/program")).unwrap();
        assert_eq!(held.begin().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

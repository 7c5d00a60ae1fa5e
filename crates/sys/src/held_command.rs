//! A command whose process waits, after fork(2) and before execve(2), until it may begin.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;

/// A process that waits.
#[derive(Debug)]
pub struct HeldCommand {
    starting: JoinHandle<io::Result<Child>>,
    go: PipeWriter,
    process: u32,
}

impl HeldCommand {
    /// Forks a process for a command; it waits. If this process ends first, that one does too.
    pub fn fork(mut command: Command) -> io::Result<HeldCommand> {
        let (mut numbers, number) = pipe()?;
        let (gate, go) = pipe()?;
        hold(&mut command, number, gate, go.as_raw_fd());
        // The standard library waits for the child to execute, so a thread has to wait for it.
        let starting = thread::Builder::new().spawn(move || command.spawn())?;
        let mut number = [0; 4];
        match numbers.read_exact(&mut number) {
            Ok(()) => Ok(HeldCommand {
                starting,
                go,
                process: u32::from_ne_bytes(number),
            }),
            // It was not forked.
            Err(e) => match starting.join() {
                Ok(Err(why)) => Err(why),
                _ => Err(e),
            },
        }
    }

    /// The process's number.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Lets it execute its command.
    ///
    /// # Errors
    /// What execve(2) answers: `NotFound`, `PermissionDenied`.
    pub fn begin(mut self) -> io::Result<Child> {
        self.go.write_all(&[0])?;
        let started = self.starting.join();
        started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
    }
}

/// Has the command's process write its number, and then wait for a byte.
fn hold(command: &mut Command, mut number: PipeWriter, mut gate: PipeReader, go: i32) {
    // SAFETY: between fork and exec it makes system calls on descriptors that it owns; it takes no
    // lock and allocates nothing, not even for its errors. `go` is the child's own copy of the other
    // end, which would keep the pipe open for ever, and nobody uses it in the child.
    unsafe {
        command.pre_exec(move || {
            libc::close(go);
            number.write_all(&std::process::id().to_ne_bytes())?;
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
    fn a_command_that_is_not_there_is_an_error_of_its_begin() {
        let held = HeldCommand::fork(Command::new("/no/such/program")).unwrap();
        assert_eq!(held.begin().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

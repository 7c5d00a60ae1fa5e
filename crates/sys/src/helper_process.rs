//! A program of others, started with further descriptors and ended with the thread that started it.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Has a command's process killed when the thread that starts it ends, prctl(2) PR_SET_PDEATHSIG,
/// and leaves `kept` open in it under their numbers here, where they are closed with the command.
/// What it starts in its turn does not end with the thread.
pub fn attach(command: &mut Command, kept: Vec<OwnedFd>) {
    let parent = std::process::id() as i32;
    // SAFETY: between fork and exec it makes system calls on descriptors that it owns; it takes
    // no lock and allocates nothing, not even for its errors.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // A parent that died before that took hold has left it to another one.
            if getppid().map(|p| p.as_raw_pid()) != Some(parent) {
                return Err(Errno::SRCH.into());
            }
            for fd in &kept {
                fcntl_setfd(fd, FdFlags::empty())?;
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::process::{Child, Stdio};

    fn shell(script: &str) -> (Child, io::PipeReader) {
        let (read, write) = io::pipe().unwrap();
        let write = OwnedFd::from(write);
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(script)
            .arg(format!("/proc/self/fd/{}", write.as_raw_fd()))
            .stdin(Stdio::piped());
        attach(&mut command, vec![write]);
        (command.spawn().unwrap(), read)
    }

    // Invariant 9.
    #[test]
    fn a_helper_ends_with_the_thread_that_started_it() {
        let (mut child, mut read) = std::thread::spawn(|| {
            let (child, mut read) = shell("exec 3> \"$0\"; echo up >&3; exec sleep 600 >&3");
            let mut up = [0; 3];
            read.read_exact(&mut up).unwrap();
            (child, read)
        })
        .join()
        .unwrap();
        assert_eq!(read.read(&mut [0; 8]).unwrap(), 0, "nobody writes any more");
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}

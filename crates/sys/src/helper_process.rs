//! Child programs that end with the thread that started them, and inherit chosen descriptors.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Makes a command's process end with the thread that starts it, prctl(2) PR_SET_PDEATHSIG, and inherit
/// `kept` under the same numbers; in this process they are closed with the command. Processes that it
/// starts itself do not end with the thread.
pub fn attach(command: &mut Command, kept: Vec<OwnedFd>) {
    let parent = std::process::id() as i32;
    // SAFETY: between fork and exec it makes system calls on descriptors that it owns; it takes
    // no lock and allocates nothing, not even for its errors.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If the parent ended before this call, the process has another parent now.
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
        assert_eq!(
            read.read(&mut [0; 8]).unwrap(),
            0,
            "the pipe has no writer any more"
        );
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}

//! A program of others that does work for one of our threads: started with descriptors beside its
//! standard ones, ended with the thread that started it, and asked for its CPU time.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Has the process of a command be killed when the thread that starts it ends, prctl(2)
/// PR_SET_PDEATHSIG, and leaves `kept` open in it, under the numbers that they have here. They
/// are closed here with the command.
///
/// What it starts in its turn does not end with the thread: it should notice that what it reads
/// from has ended.
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

/// CPU time of all threads of a process in ns, those that have ended included,
/// clock_getcpuclockid(3). Does not allocate.
///
/// # Errors
/// ESRCH where there is no such process.
pub fn cpu_ns(pid: u32) -> io::Result<u64> {
    let mut clock = 0;
    // SAFETY: `clock` is valid for writes for the length of the call; any number may be asked for.
    let found = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) };
    if found != 0 {
        return Err(io::Error::from_raw_os_error(found));
    }
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is valid for writes of a `timespec` for the length of the call.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and filled it; all-zero bytes were a valid `timespec` before.
    let time = unsafe { time.assume_init() };
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::process::{Child, Stdio};
    use std::time::{Duration, Instant};

    /// A shell that has one more descriptor, which is the end of a pipe.
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

    #[test]
    fn a_helper_has_the_descriptors_that_it_was_given_and_its_parent_s_are_closed() {
        let (mut child, mut read) = shell("echo given > \"$0\"");
        let mut said = String::new();
        read.read_to_string(&mut said).unwrap();
        assert_eq!(said, "given\n");
        assert!(child.wait().unwrap().success());
    }

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

    #[test]
    fn the_cpu_time_of_a_process_is_its_own_and_all_of_it() {
        let before = clock::process_cpu_ns();
        let own = cpu_ns(std::process::id()).unwrap();
        assert!((before..=clock::process_cpu_ns()).contains(&own));

        let (mut child, mut read) = shell(
            "exec 3> \"$0\"; echo begun >&3; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done >&3; read x",
        );
        let mut line = [0; 6];
        read.read_exact(&mut line).unwrap();
        let begun = cpu_ns(child.id()).unwrap();
        read.read_exact(&mut line[..5]).unwrap();
        // The kernel brings it up to date at ticks, and when a process begins to wait.
        let told = Instant::now();
        while cpu_ns(child.id()).unwrap() <= begun {
            assert!(
                told.elapsed() < Duration::from_secs(60),
                "no time was added"
            );
        }
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
        let gone = cpu_ns(child.id()).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }
}

//! System calls of a thread and of the threads and processes that it starts, reported before the kernel
//! carries them out: seccomp's user notification. Tests count by it; it needs no privileges.
//!
//! Source: seccomp_unotify(2), since Linux 5.0; to let a call continue, since 5.5.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_long, sock_filter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::syscall::{checked, new_fd};

/// A system call of which a [`CallListener`] can report each invocation.
#[derive(Clone, Copy, Debug)]
pub struct SystemCall {
    /// Its name, as in the manual.
    pub name: &'static str,
    /// True if it moves bytes, or makes the kernel move those of a mover.
    pub moves: bool,
    number: c_long,
    /// The index of the argument with its flags, if it has one.
    flags: Option<usize>,
}

const fn moving(name: &'static str, number: c_long, flags: Option<usize>) -> SystemCall {
    SystemCall {
        name,
        moves: true,
        number,
        flags,
    }
}

const fn other(name: &'static str, number: c_long, flags: Option<usize>) -> SystemCall {
    SystemCall {
        moves: false,
        ..moving(name, number, flags)
    }
}

/// The system calls that can be reported. For setsockopt(2) and futex(2), the option and the operation
/// take the place of flags.
pub const CALLS: &[SystemCall] = &[
    moving("read", libc::SYS_read, None),
    moving("readv", libc::SYS_readv, None),
    moving("pread64", libc::SYS_pread64, None),
    moving("preadv", libc::SYS_preadv, None),
    moving("preadv2", libc::SYS_preadv2, Some(5)),
    moving("write", libc::SYS_write, None),
    moving("writev", libc::SYS_writev, None),
    moving("pwrite64", libc::SYS_pwrite64, None),
    moving("pwritev", libc::SYS_pwritev, None),
    moving("pwritev2", libc::SYS_pwritev2, Some(5)),
    moving("lseek", libc::SYS_lseek, None),
    moving("fsync", libc::SYS_fsync, None),
    moving("fdatasync", libc::SYS_fdatasync, None),
    moving("mmap", libc::SYS_mmap, Some(3)),
    moving("sendto", libc::SYS_sendto, Some(3)),
    moving("sendmsg", libc::SYS_sendmsg, Some(2)),
    moving("sendmmsg", libc::SYS_sendmmsg, Some(3)),
    moving("recvfrom", libc::SYS_recvfrom, Some(3)),
    moving("recvmsg", libc::SYS_recvmsg, Some(2)),
    moving("recvmmsg", libc::SYS_recvmmsg, Some(3)),
    moving("setsockopt", libc::SYS_setsockopt, Some(2)),
    moving("sendfile", libc::SYS_sendfile, None),
    moving("splice", libc::SYS_splice, Some(5)),
    moving("vmsplice", libc::SYS_vmsplice, Some(3)),
    moving("tee", libc::SYS_tee, Some(3)),
    moving("copy_file_range", libc::SYS_copy_file_range, Some(5)),
    moving("io_submit", libc::SYS_io_submit, None),
    moving("io_getevents", libc::SYS_io_getevents, None),
    moving("io_uring_enter", libc::SYS_io_uring_enter, Some(3)),
    other("munmap", libc::SYS_munmap, None),
    other("futex", libc::SYS_futex, Some(1)),
];

/// The index of mmap(2)'s argument with the descriptor.
const MMAP_FD: usize = 4;
/// Its value for memory without a file: -1.
const NO_FILE: u32 = u32::MAX;

/// An invocation of a system call that the kernel has not carried out yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// Its name.
    pub name: &'static str,
    /// Its flags; 0 where it has none.
    pub flags: u32,
    /// The thread that makes it.
    pub thread: u32,
    /// Its first two arguments, which are descriptors where it has any.
    pub first: [u64; 2],
}

/// The receiving end of a thread's reports. Another thread calls [`CallListener::next`] as long as the
/// first, and what it has started, make such calls: once this is dropped, they fail with ENOSYS. If
/// futex(2) is among the calls, neither thread may wait at a lock or channel that both use: the call
/// that ends the wait would not be reported.
#[derive(Debug)]
pub struct CallListener(OwnedFd);

impl CallListener {
    /// Makes each of these calls, by the calling thread and all that it starts from now on, wait until
    /// it was reported. The thread can gain no privileges any more (PR_SET_NO_NEW_PRIVS).
    ///
    /// # Errors
    /// ENOSYS and EINVAL without seccomp(2), EBUSY if the thread has a listener already.
    pub fn of_this_thread(calls: &[SystemCall]) -> io::Result<CallListener> {
        let count = u8::try_from(calls.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        rustix::thread::set_no_new_privs(true)?;
        let step = |code: u32, jt: u8, k: u32| sock_filter {
            code: code as u16,
            jt,
            jf: 0,
            k,
        };
        // The number of the call is the first word of `struct seccomp_data`. Programs of another
        // architecture have other numbers; none is started here.
        let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
        for (i, call) in calls.iter().enumerate() {
            let jump_if_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
            program.push(step(jump_if_equal, count - i as u8, call.number as u32));
        }
        let verdict = libc::BPF_RET | libc::BPF_K;
        program.push(step(verdict, 0, libc::SECCOMP_RET_ALLOW));
        program.push(step(verdict, 0, libc::SECCOMP_RET_USER_NOTIF));
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: `program` points to as many steps as it says, all of which live until after the
        // call; the kernel copies them. The descriptor is new and has no other owner.
        let fd = unsafe {
            new_fd(libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            ))
        };
        fd.map(CallListener)
    }

    /// Waits for the next call, passes it to `visit` while its thread waits, and lets it continue;
    /// false if there was none within `patience`. Mappings without a file are not passed on.
    pub fn next(&self, patience: Duration, visit: impl FnOnce(PendingCall)) -> io::Result<bool> {
        let mut descriptor = [PollFd::new(&self.0, PollFlags::IN)];
        let time = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
        poll(&mut descriptor, Some(&time))?;
        if !descriptor[0].revents().contains(PollFlags::IN) {
            return Ok(false);
        }
        let Some(notification) = self.receive()? else {
            return Ok(true);
        };
        if let Some(call) = pending_call(&notification.data, notification.pid) {
            visit(call);
        }
        self.let_continue(notification.id)?;
        Ok(true)
    }

    /// The next notification; none if its thread has ended meanwhile.
    fn receive(&self) -> io::Result<Option<libc::seccomp_notif>> {
        // SAFETY: all zeros are a value of this plain structure, and the kernel demands them.
        let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        let (fd, request) = (self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV);
        // SAFETY: the descriptor is a listener, and `notification` has the size that the request implies.
        let done = unsafe { libc::ioctl(fd, request, &raw mut notification) };
        Ok(is_alive(done)?.then_some(notification))
    }

    fn let_continue(&self, id: u64) -> io::Result<()> {
        let response = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        let (fd, request) = (self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND);
        // SAFETY: the descriptor is a listener, and `response` has the size that the request implies.
        let done = unsafe { libc::ioctl(fd, request, &raw const response) };
        is_alive(done).map(drop)
    }
}

/// Returns false if an ioctl(2) of a listener failed because the thread has ended.
fn is_alive(done: libc::c_int) -> io::Result<bool> {
    match checked(done) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The call of a notification; none for a mapping without a file.
fn pending_call(data: &libc::seccomp_data, thread: u32) -> Option<PendingCall> {
    let call = CALLS.iter().find(|c| c.number == c_long::from(data.nr))?;
    if call.number == libc::SYS_mmap && data.args[MMAP_FD] as u32 == NO_FILE {
        return None;
    }
    Some(PendingCall {
        name: call.name,
        flags: call.flags.map_or(0, |index| data.args[index] as u32),
        thread,
        first: [data.args[0], data.args[1]],
    })
}

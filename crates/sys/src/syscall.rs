//! Results of system calls, and system calls that several files make.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The result of a system call; for -1 the error in errno, which the next call may overwrite.
pub(crate) fn checked(result: impl Into<i64>) -> io::Result<usize> {
    usize::try_from(result.into()).map_err(|_| io::Error::last_os_error())
}

/// The owner of a descriptor that a system call has returned.
///
/// # Safety
/// The descriptor has no other owner.
pub(crate) unsafe fn new_fd(result: impl Into<i64>) -> io::Result<OwnedFd> {
    let fd = checked(result)? as i32;
    // SAFETY: the kernel has returned it, and the caller promises that it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of a socket, setsockopt(2).
pub(crate) fn set_option<T>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (socket, size) = (socket.as_fd().as_raw_fd(), size_of::<T>());
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value lives until the call returns, its size is the one passed, and the kernel only
    // reads it.
    let set = unsafe { libc::setsockopt(socket, level, option, value, size as libc::socklen_t) };
    checked(set).map(drop)
}

/// Installs a signal handler, sigaction(2).
///
/// # Safety
/// The handler calls only async-signal-safe functions, signal-safety(7).
pub(crate) unsafe fn handle(
    signal: libc::c_int,
    handler: extern "C" fn(libc::c_int),
    flags: libc::c_int,
) -> io::Result<()> {
    // SAFETY: all zeros are a valid `sigaction`: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the caller promises it, and the handler lives as long as the program.
    let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    checked(set).map(drop)
}

/// Runs the work of a signal handler and restores errno, which the interrupted code may be about to
/// read.
pub(crate) fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: the address is that of the calling thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

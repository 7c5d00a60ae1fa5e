//! What a system call answers, and calls that several files make.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// What a call answers; for -1 the error in errno: ask before another call leaves its own.
pub(crate) fn checked(answer: impl Into<i64>) -> io::Result<usize> {
    usize::try_from(answer.into()).map_err(|_| io::Error::last_os_error())
}

///
/// # Safety
/// Nobody else has it.
pub(crate) unsafe fn made(answer: impl Into<i64>) -> io::Result<OwnedFd> {
    let fd = checked(answer)? as i32;
    // SAFETY: the kernel has given it, and the caller says that nobody else has it.
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
    // SAFETY: the value lives until the call returns, its size is what is said, and the kernel only
    // reads.
    let set = unsafe { libc::setsockopt(socket, level, option, value, size as libc::socklen_t) };
    checked(set).map(drop)
}

/// Has a handler called for a signal, sigaction(2).
///
/// # Safety
/// It calls only what a handler may, signal-safety(7).
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

/// Leaves errno as it was: the code that the signal interrupted may be about to read it.
pub(crate) fn handled(work: impl FnOnce()) {
    // SAFETY: the address is that of the calling thread's own number.
    let errno = unsafe { *libc::__errno_location() };
    work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

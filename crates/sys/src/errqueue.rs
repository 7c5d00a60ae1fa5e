//! The error queue of a socket, on which the kernel reports completed MSG_ZEROCOPY sends: recvmsg(2),
//! ip(7) and Documentation/networking/msg_zerocopy.rst of the kernel.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use crate::syscall::set_option;

const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Completed sends: their numbers `first..=last`, counted from 0 at the socket's first
/// MSG_ZEROCOPY send, modulo 2³².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Number of the first send.
    pub first: u32,
    /// Number of the last send; less than `first` where the counter wrapped.
    pub last: u32,
    /// True if the kernel copied the bytes after all.
    pub copied: bool,
}

impl Completion {
    /// The number of sends in the range. The kernel sets it, so the caller must bound it.
    pub fn sends(&self) -> u32 {
        self.last.wrapping_sub(self.first).wrapping_add(1)
    }
}

/// Sets SO_ZEROCOPY, without which the kernel ignores MSG_ZEROCOPY. EOPNOTSUPP for sockets that do
/// not have it.
pub fn set_zerocopy(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    set_option(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &on).map_err(unsupported)
}

/// EOPNOTSUPP in place of ENOTSUPP (524), a kernel-internal number that has no text in libc.
fn unsupported(error: io::Error) -> io::Error {
    const ENOTSUPP: i32 = 524;
    if error.raw_os_error() == Some(ENOTSUPP) {
        io::Error::from_raw_os_error(libc::EOPNOTSUPP)
    } else {
        error
    }
}

/// Takes one completion off the error queue, without waiting; none when it is empty, `InvalidData`
/// for an entry that is no zero-copy completion.
pub fn completion(socket: impl AsFd) -> io::Result<Option<Completion>> {
    // Room for one sock_extended_err with the address behind it; aligned as cmsghdr demands.
    let mut control = [0u64; 16];
    // SAFETY: an all-zero msghdr is a valid one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message points to `control`, which outlives the call, with its length. By
    // syscall(), since glibc's recvmsg is a cancellation point that costs more in threads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_recvmsg,
            socket.as_fd().as_raw_fd(),
            &raw mut message,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        };
    }
    parse(&message).map(Some)
}

fn parse(message: &libc::msghdr) -> io::Result<Completion> {
    let why = "the error queue holds something that is no zero-copy completion";
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, why);
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(unexpected());
    }
    // SAFETY: the kernel filled the control buffer and set its length.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return Err(unexpected());
    }
    // SAFETY: CMSG_FIRSTHDR gave a header that lies within the buffer.
    let head = unsafe { *header };
    let is_error = matches!(
        (head.cmsg_level, head.cmsg_type),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
    );
    // SAFETY: CMSG_LEN is arithmetic.
    let min_length = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as _) } as usize;
    if !is_error || (head.cmsg_len as usize) < min_length {
        return Err(unexpected());
    }
    // SAFETY: the data of this header are a sock_extended_err, and long enough; it may lie
    // unaligned, hence the unaligned read.
    let error: libc::sock_extended_err =
        unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
    if error.ee_origin != SO_EE_ORIGIN_ZEROCOPY || error.ee_errno != 0 {
        return Err(unexpected());
    }
    Ok(Completion {
        first: error.ee_info,
        last: error.ee_data,
        copied: error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0,
    })
}

/// Waits for an entry or the peer's end; false when `timeout` ran out.
pub fn wait(socket: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
    // No event asked for: POLLERR is always reported.
    let mut polled = [PollFd::new(&socket, PollFlags::empty())];
    Ok(retry_on_intr(|| poll(&mut polled, Some(&timeout)))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_may_wrap() {
        for (first, last, sends) in [(u32::MAX, 1, 3), (7, 7, 1)] {
            let copied = false;
            let completion = Completion {
                first,
                last,
                copied,
            };
            assert_eq!(completion.sends(), sends);
        }
    }

    #[test]
    fn a_unix_socket_has_no_zero_copy() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let errno = set_zerocopy(&a).unwrap_err().raw_os_error();
        assert_eq!(errno, Some(libc::EOPNOTSUPP));
    }
}

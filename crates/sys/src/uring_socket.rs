//! io_uring for sending from one region: plain sends and zero-copy sends.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode};

use crate::region::Region;
use crate::ring::RequestRing;

const IORING_SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const IORING_NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// What the ring says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEvent {
    /// Bytes that the request of this tag sent, or the negative error number; and whether its
    /// buffer is still held, so that a [`SendEvent::Released`] follows.
    Done(u64, i32, bool),
    /// The zero-copy buffer of this tag is free again; and whether the kernel copied after all.
    Released(u64, bool),
}

/// A ring that sends pieces of its region over its socket.
pub struct UringSocket {
    // Dropped first, so that no request outlives the memory it reads.
    ring: RequestRing,
    socket: OwnedFd,
    region: Region,
    zero_copy: bool,
}

impl UringSocket {
    /// A ring for `entries` requests. For `zero_copy` sends, which report whether the kernel
    /// copied, the region is registered, so that its pages are pinned once. EPERM or ENOSYS where
    /// io_uring is forbidden or missing, ENOMEM where RLIMIT_MEMLOCK is too small.
    pub fn new(
        entries: u32,
        socket: OwnedFd,
        region: Region,
        zero_copy: bool,
    ) -> io::Result<UringSocket> {
        let ring = RequestRing::of_one_thread(entries)?;
        if zero_copy {
            let whole = libc::iovec {
                iov_base: region.bytes().as_ptr().cast_mut().cast(),
                iov_len: region.bytes().len(),
            };
            // SAFETY: the region is mapped, and stays so until after the ring is gone.
            unsafe { ring.ring.submitter().register_buffers(&[whole])? };
        }
        Ok(UringSocket {
            ring,
            socket,
            region,
            zero_copy,
        })
    }

    /// The memory, to be written between uses.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.region.bytes_mut()
    }

    /// Queues a send of the whole range (MSG_WAITALL); a `linked` one starts the next when it is
    /// done. `InvalidInput` outside the region, `WouldBlock` when the queue is full.
    pub fn send(&mut self, range: Range<usize>, tag: u64, linked: bool) -> io::Result<()> {
        let piece = self.region.bytes().get(range);
        let piece = piece.ok_or(io::ErrorKind::InvalidInput)?;
        let len = u32::try_from(piece.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (socket, start) = (Fd(self.socket.as_raw_fd()), piece.as_ptr());
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = match self.zero_copy {
            false => opcode::Send::new(socket, start, len).flags(flags).build(),
            true => opcode::SendZc::new(socket, start, len)
                .flags(flags)
                .buf_index(Some(0))
                .zc_flags(IORING_SEND_ZC_REPORT_USAGE)
                .build(),
        };
        // SAFETY: the request reads from the region, which lives as long as the ring, and only
        // reads: even a stray request could not harm memory.
        unsafe { self.ring.push(entry.user_data(tag), linked) }
    }

    /// Hands over the queue and waits for at least `want` events, in one system call,
    /// io_uring_enter(2); false when `timeout` ran out.
    pub fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<bool> {
        Ok(self.ring.enter(want, timeout)?.is_some())
    }

    /// The next event that is there already.
    pub fn event(&mut self) -> Option<SendEvent> {
        let entry = self.ring.next()?;
        let tag = entry.user_data();
        Some(if cqueue::notif(entry.flags()) {
            let copied = entry.result() as u32 & IORING_NOTIF_USAGE_ZC_COPIED != 0;
            SendEvent::Released(tag, copied)
        } else {
            SendEvent::Done(tag, entry.result(), cqueue::more(entry.flags()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    // Invariant 8.
    #[test]
    fn a_wait_has_an_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let region = Region::new(8192).unwrap();
        let mut ring = UringSocket::new(8, sender.into(), region, false).unwrap();
        assert!(!ring.enter(1, Duration::from_millis(10)).unwrap());
        assert!(ring.send(8000..9000, 1, false).is_err());
    }
}

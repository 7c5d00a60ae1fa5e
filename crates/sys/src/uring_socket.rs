//! io_uring for sending from one region over one socket: plain sends and zero-copy sends.

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

/// A completion of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEvent {
    /// A request is done.
    Done {
        /// Its tag.
        tag: u64,
        /// The number of bytes that it has sent, or a negative errno.
        result: i32,
        /// Its buffer is still in use, so that a [`SendEvent::Released`] follows.
        is_held: bool,
    },
    /// The kernel has released a zero-copy buffer.
    Released {
        /// The tag of its request.
        tag: u64,
        /// The kernel copied the bytes after all.
        is_copied: bool,
    },
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
    /// Sets up a ring for `entries` requests. For `zero_copy` sends, which report if the kernel copied,
    /// the region is registered, so that its pages are pinned once. EPERM or ENOSYS if io_uring is
    /// forbidden or missing, ENOMEM if RLIMIT_MEMLOCK is too small.
    pub fn new(
        entries: u32,
        socket: OwnedFd,
        region: Region,
        zero_copy: bool,
    ) -> io::Result<UringSocket> {
        let ring = RequestRing::single_issuer(entries)?;
        if zero_copy {
            let whole = libc::iovec {
                iov_base: region.bytes().as_ptr().cast_mut().cast(),
                iov_len: region.bytes().len(),
            };
            // SAFETY: the region stays mapped until after the ring is dropped.
            unsafe { ring.ring.submitter().register_buffers(&[whole])? };
        }
        Ok(UringSocket {
            ring,
            socket,
            region,
            zero_copy,
        })
    }

    /// The bytes of the region, for writing while no request uses them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.region.bytes_mut()
    }

    /// Queues a send of the whole range (MSG_WAITALL); with `linked`, the next request starts when this
    /// one is done. `InvalidInput` outside of the region, `WouldBlock` if the queue is full.
    pub fn send(&mut self, range: Range<usize>, tag: u64, linked: bool) -> io::Result<()> {
        let piece = (self.region.bytes().get(range)).ok_or(io::ErrorKind::InvalidInput)?;
        let len = u32::try_from(piece.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (socket, start) = (Fd(self.socket.as_raw_fd()), piece.as_ptr());
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = if self.zero_copy {
            opcode::SendZc::new(socket, start, len)
                .flags(flags)
                .buf_index(Some(0))
                .zc_flags(IORING_SEND_ZC_REPORT_USAGE)
                .build()
        } else {
            opcode::Send::new(socket, start, len).flags(flags).build()
        };
        // SAFETY: the request only reads the region, which lives as long as the ring.
        unsafe { self.ring.push(entry.user_data(tag), linked) }
    }

    /// Submits the queue and waits for at least `want` completions, in one system call,
    /// io_uring_enter(2); false if `timeout` ran out.
    pub fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<bool> {
        Ok(self.ring.enter(want, timeout)?.is_some())
    }

    /// The next completion that has arrived.
    pub fn event(&mut self) -> Option<SendEvent> {
        let entry = self.ring.next()?;
        let tag = entry.user_data();
        Some(if cqueue::notif(entry.flags()) {
            let is_copied = entry.result() as u32 & IORING_NOTIF_USAGE_ZC_COPIED != 0;
            SendEvent::Released { tag, is_copied }
        } else {
            SendEvent::Done {
                tag,
                result: entry.result(),
                is_held: cqueue::more(entry.flags()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    // Invariant 8.
    #[test]
    fn a_wait_ends_at_its_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let region = Region::new(8192).unwrap();
        let mut ring = UringSocket::new(8, sender.into(), region, false).unwrap();
        assert!(!ring.enter(1, Duration::from_millis(10)).unwrap());
        assert!(ring.send(8000..9000, 1, false).is_err());
    }
}

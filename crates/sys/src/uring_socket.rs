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
    /// The request ran: bytes sent, or the negative error number. `more` when a [`SendEvent::Back`]
    /// follows.
    Done {
        /// The request's tag.
        tag: u64,
        /// Bytes, or a negative error number.
        result: i32,
        /// Whether the buffer is still held.
        more: bool,
    },
    /// The buffer of a zero-copy request is the caller's again.
    Back {
        /// The request's tag.
        tag: u64,
        /// The kernel copied after all.
        copied: bool,
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
    /// A ring with room for `entries` requests. For `zero_copy` sends, which report whether the
    /// kernel copied, the region is registered, so that its pages are pinned once and for all (this
    /// counts against RLIMIT_MEMLOCK).
    ///
    /// # Errors
    /// What io_uring_setup(2) and io_uring_register(2) answer: EPERM or ENOSYS where io_uring is
    /// forbidden or missing, ENOMEM where the locked-memory limit is too small.
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
                iov_len: region.len(),
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

    /// Queues a send of the whole range (MSG_WAITALL). With `linked` the next request starts
    /// when this one is done.
    ///
    /// # Errors
    /// `InvalidInput` for a range outside the region, `WouldBlock` when the queue is full.
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

    /// Hands over what is queued and waits for at least `want` events; false when `timeout` ran
    /// out before. One system call.
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<bool> {
        Ok(self.ring.enter(want, timeout)?.is_some())
    }

    /// The next event that is there already.
    pub fn event(&mut self) -> Option<SendEvent> {
        let entry = self.ring.next()?;
        let tag = entry.user_data();
        Some(if cqueue::notif(entry.flags()) {
            SendEvent::Back {
                tag,
                copied: entry.result() as u32 & IORING_NOTIF_USAGE_ZC_COPIED != 0,
            }
        } else {
            SendEvent::Done {
                tag,
                result: entry.result(),
                more: cqueue::more(entry.flags()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    /// A ring with 64 bytes of each number in its region, and the other end of its socket.
    fn ring(zero_copy: bool) -> (UringSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let mut region = Region::new(8192).unwrap();
        region.bytes_mut().copy_from_slice(&content());
        let ring = UringSocket::new(8, sender.into(), region, zero_copy);
        (ring.unwrap(), receiver)
    }

    fn content() -> Vec<u8> {
        (0..8192).map(|i| (i / 64) as u8).collect()
    }

    fn done(tag: u64, result: i32, more: bool) -> Option<SendEvent> {
        Some(SendEvent::Done { tag, result, more })
    }

    #[test]
    fn linked_sends_arrive_whole_and_in_order() {
        let (mut ring, mut receiver) = ring(false);
        ring.send(0..4096, 1, true).unwrap();
        ring.send(4096..8192, 2, false).unwrap();
        assert!(ring.enter(2, Duration::from_secs(60)).unwrap());
        assert_eq!(ring.event(), done(1, 4096, false));
        assert_eq!(ring.event(), done(2, 4096, false));
        assert_eq!(ring.event(), None);
        let mut got = vec![0; 8192];
        receiver.read_exact(&mut got).unwrap();
        assert_eq!(got, content());
    }

    #[test]
    fn a_zero_copy_send_gives_its_buffer_back_and_says_that_loopback_copied() {
        let (mut ring, mut receiver) = ring(true);
        ring.send(0..8192, 7, false).unwrap();
        assert!(ring.enter(1, Duration::from_secs(60)).unwrap());
        assert_eq!(ring.event(), done(7, 8192, true));
        let mut got = vec![0; 8192];
        receiver.read_exact(&mut got).unwrap();
        assert_eq!(got, content());
        assert!(ring.enter(1, Duration::from_secs(60)).unwrap());
        let (tag, copied) = (7, true);
        assert_eq!(ring.event(), Some(SendEvent::Back { tag, copied }));
    }

    // Invariant 8.
    #[test]
    fn a_wait_has_an_end() {
        let (mut ring, _receiver) = ring(false);
        assert!(!ring.enter(1, Duration::from_millis(10)).unwrap());
        assert!(ring.send(8000..9000, 1, false).is_err());
    }
}

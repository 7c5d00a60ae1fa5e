//! io_uring for sending from one region: plain sends and zero-copy sends.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::region::Region;
use crate::ring;

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
    ring: IoUring,
    socket: OwnedFd,
    region: Region,
}

impl UringSocket {
    /// A ring with room for `entries` requests. With `register` the region is registered, so
    /// that its pages are pinned once and for all (this counts against RLIMIT_MEMLOCK).
    ///
    /// # Errors
    /// What io_uring_setup(2) and io_uring_register(2) answer: EPERM or ENOSYS where io_uring is
    /// forbidden or missing, ENOMEM where the locked-memory limit is too small.
    pub fn new(
        entries: u32,
        socket: OwnedFd,
        region: Region,
        register: bool,
    ) -> io::Result<UringSocket> {
        let ring = ring::of_one_thread(entries)?;
        if register {
            let whole = libc::iovec {
                iov_base: region.bytes().as_ptr().cast_mut().cast(),
                iov_len: region.len(),
            };
            // SAFETY: the region is mapped, and stays so until after the ring is gone.
            unsafe { ring.submitter().register_buffers(&[whole])? };
        }
        Ok(UringSocket {
            ring,
            socket,
            region,
        })
    }

    /// The memory, to be written between uses.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.region.bytes_mut()
    }

    /// The memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.region.bytes()
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Queues a send of the whole range (MSG_WAITALL). With `linked` the next request starts
    /// when this one is done.
    ///
    /// # Errors
    /// `InvalidInput` for a range outside the region, `WouldBlock` when the queue is full.
    pub fn send(&mut self, range: Range<usize>, tag: u64, linked: bool) -> io::Result<()> {
        let (start, len) = self.piece(range)?;
        let entry = opcode::Send::new(Fd(self.socket.as_fd().as_raw_fd()), start, len)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        self.push(entry, tag, linked)
    }

    /// Queues a zero-copy send of the whole range, which reports whether it copied. With
    /// `registered` the pages pinned at the start are used.
    ///
    /// # Errors
    /// As [`UringSocket::send`].
    pub fn send_zc(
        &mut self,
        range: Range<usize>,
        tag: u64,
        linked: bool,
        registered: bool,
    ) -> io::Result<()> {
        let (start, len) = self.piece(range)?;
        let entry = opcode::SendZc::new(Fd(self.socket.as_fd().as_raw_fd()), start, len)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .buf_index(registered.then_some(0))
            .zc_flags(IORING_SEND_ZC_REPORT_USAGE)
            .build();
        self.push(entry, tag, linked)
    }

    fn piece(&self, range: Range<usize>) -> io::Result<(*const u8, u32)> {
        let piece = self
            .region
            .bytes()
            .get(range)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let len = u32::try_from(piece.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok((piece.as_ptr(), len))
    }

    fn push(&mut self, entry: squeue::Entry, tag: u64, linked: bool) -> io::Result<()> {
        let flags = if linked {
            squeue::Flags::IO_LINK
        } else {
            squeue::Flags::empty()
        };
        let entry = entry.user_data(tag).flags(flags);
        // SAFETY: the request reads from the region, which lives as long as the ring, and only
        // reads: even a stray request could not harm memory.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::WouldBlock.into())
    }

    /// Hands over what is queued and waits for at least `want` events; false when `timeout` ran
    /// out before. One system call.
    ///
    /// # Errors
    /// What io_uring_enter(2) answers.
    pub fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<bool> {
        Ok(ring::enter(&self.ring, want, timeout)?.is_some())
    }

    /// The next event that is there already.
    pub fn event(&mut self) -> Option<SendEvent> {
        let entry = self.ring.completion().next()?;
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

    fn ring(register: bool) -> (UringSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let mut region = Region::new(8192).unwrap();
        for (i, b) in region.bytes_mut().iter_mut().enumerate() {
            *b = (i / 64) as u8;
        }
        (
            UringSocket::new(8, sender.into(), region, register).unwrap(),
            receiver,
        )
    }

    #[test]
    fn linked_sends_arrive_whole_and_in_order() {
        let (mut ring, mut receiver) = ring(false);
        ring.send(0..4096, 1, true).unwrap();
        ring.send(4096..8192, 2, false).unwrap();
        assert!(ring.enter(2, Duration::from_secs(60)).unwrap());
        assert_eq!(
            ring.event(),
            Some(SendEvent::Done {
                tag: 1,
                result: 4096,
                more: false
            })
        );
        assert_eq!(
            ring.event(),
            Some(SendEvent::Done {
                tag: 2,
                result: 4096,
                more: false
            })
        );
        assert_eq!(ring.event(), None);
        let mut got = vec![0; 8192];
        receiver.read_exact(&mut got).unwrap();
        assert_eq!(got, ring.bytes());
    }

    #[test]
    fn a_zero_copy_send_gives_its_buffer_back_and_says_that_loopback_copied() {
        let (mut ring, mut receiver) = ring(true);
        ring.send_zc(0..8192, 7, false, true).unwrap();
        assert!(ring.enter(1, Duration::from_secs(60)).unwrap());
        assert_eq!(
            ring.event(),
            Some(SendEvent::Done {
                tag: 7,
                result: 8192,
                more: true
            })
        );
        let mut got = vec![0; 8192];
        receiver.read_exact(&mut got).unwrap();
        assert_eq!(got, ring.bytes());
        assert!(ring.enter(1, Duration::from_secs(60)).unwrap());
        assert_eq!(
            ring.event(),
            Some(SendEvent::Back {
                tag: 7,
                copied: true
            })
        );
    }

    // Invariant 8.
    #[test]
    fn a_wait_has_an_end() {
        let (mut ring, _receiver) = ring(false);
        assert!(!ring.enter(1, Duration::from_millis(10)).unwrap());
        assert!(ring.send(8000..9000, 1, false).is_err());
    }
}

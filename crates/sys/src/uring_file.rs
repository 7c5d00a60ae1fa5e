//! io_uring for one file: reads into, or writes from, a set of buffers.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, opcode};

use crate::io_buffers::IoBuffers;
use crate::request_queue::RequestQueue;
use crate::ring::RequestRing;

/// The time without a request after which the kernel's polling thread sleeps, in ms.
const IDLE_MS: u32 = 1000;
/// The longest wait for requests when the ring is dropped.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The kind of requests of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRequests {
    /// Reads.
    Read,
    /// Reads of a registered file into registered buffers, which the kernel looks up and pins once. The
    /// buffers count against RLIMIT_MEMLOCK.
    ReadRegistered,
    /// Registered reads that a kernel thread takes from the queue (IORING_SETUP_SQPOLL).
    ReadPolled,
    /// Writes.
    Write,
}

/// A ring whose requests move bytes between a file and its buffers.
pub struct UringFile {
    // Dropped first, so that no request outlives the memory it uses.
    ring: RequestRing,
    file: OwnedFd,
    buffers: IoBuffers,
    requests: FileRequests,
}

impl UringFile {
    /// Sets up a ring with room for one request a buffer. EPERM or ENOSYS if io_uring is forbidden or
    /// missing, ENOMEM if RLIMIT_MEMLOCK is too small.
    pub fn new(file: OwnedFd, buffers: IoBuffers, requests: FileRequests) -> io::Result<UringFile> {
        let entries = u32::try_from(buffers.count()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let ring = if requests == FileRequests::ReadPolled {
            // The polling thread frees entries after a batch, of which some may have finished
            // already: so there is room for one more batch than can be in flight.
            let polled = IoUring::builder()
                .setup_sqpoll(IDLE_MS)
                .build(entries.saturating_mul(2));
            RequestRing::new(polled?)
        } else {
            RequestRing::single_issuer(entries)?
        };
        if matches!(
            requests,
            FileRequests::ReadRegistered | FileRequests::ReadPolled
        ) {
            let vectors: Vec<libc::iovec> = (0..buffers.count())
                .map(|index| libc::iovec {
                    iov_base: buffers.pointer(index).cast(),
                    iov_len: buffers.size(),
                })
                .collect();
            // SAFETY: the buffers stay mapped until after the ring is dropped.
            unsafe { ring.ring.submitter().register_buffers(&vectors)? };
            ring.ring.submitter().register_files(&[file.as_raw_fd()])?;
        }
        Ok(UringFile {
            ring,
            file,
            buffers,
            requests,
        })
    }
}

impl RequestQueue for UringFile {
    #[inline]
    fn buffers(&self) -> &IoBuffers {
        &self.buffers
    }

    #[inline]
    fn start(&mut self, index: usize, offset: u64) -> io::Result<()> {
        let len = u32::try_from(self.buffers.size()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let buffer_index = u16::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
        let buffer = self.buffers.begin(index)?;
        let fd = Fd(self.file.as_raw_fd());
        let entry = match self.requests {
            FileRequests::Read => opcode::Read::new(fd, buffer, len).offset(offset).build(),
            FileRequests::Write => opcode::Write::new(fd, buffer, len).offset(offset).build(),
            _ => opcode::ReadFixed::new(Fixed(0), buffer, len, buffer_index)
                .offset(offset)
                .build(),
        };
        // SAFETY: the request uses one buffer, which cannot be borrowed until the request has
        // finished, and whose memory is not unmapped before that.
        let pushed = unsafe { self.ring.push(entry.user_data(index as u64), false) };
        if pushed.is_err() {
            self.buffers.end(index);
        }
        pushed
    }

    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>> {
        let missing = want.saturating_sub(self.ring.ring.completion().len());
        let is_polled = self.requests == FileRequests::ReadPolled;
        if is_polled && missing == 0 && !self.ring.ring.submission().need_wakeup() {
            return Ok(Some(0));
        }
        self.ring.enter(missing, timeout)
    }

    #[inline]
    fn finished(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.next()?;
        let index = entry.user_data() as usize;
        self.buffers.end(index);
        Some((index, entry.result()))
    }
}

impl Drop for UringFile {
    fn drop(&mut self) {
        let buffers = &mut self.buffers;
        self.ring
            .drain(LAST_WAIT, |entry| buffers.end(entry.user_data() as usize));
    }
}

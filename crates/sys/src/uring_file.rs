//! io_uring for a file: reads and writes between its places and the file.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, opcode};

use crate::io_buffers::IoBuffers;
use crate::request_queue::RequestQueue;
use crate::ring::RequestRing;

/// The kernel's poller sleeps after so many ms without a request.
const IDLE_MS: u32 = 1000;
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What the requests of a ring are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRequests {
    /// Reads.
    Read,
    /// Reads of a registered file into registered places, looked up and pinned once. This counts
    /// against RLIMIT_MEMLOCK.
    ReadRegistered,
    /// The same, for which a thread of the kernel polls (IORING_SETUP_SQPOLL).
    ReadPolled,
    /// Writes.
    Write,
}

/// A ring that moves bytes between a file and its places.
pub struct UringFile {
    // Dropped first, so that no request outlives the memory it uses.
    ring: RequestRing,
    file: OwnedFd,
    places: IoBuffers,
    requests: FileRequests,
}

impl UringFile {
    /// A ring with room for a request in each place: EPERM or ENOSYS where io_uring is forbidden or
    /// missing, ENOMEM where RLIMIT_MEMLOCK is too small.
    pub fn new(file: OwnedFd, places: IoBuffers, requests: FileRequests) -> io::Result<UringFile> {
        let entries = u32::try_from(places.count()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let ring = if requests == FileRequests::ReadPolled {
            // The poller gives entries back after a batch, when some of it may be over already:
            // so there is room for one batch more than can be in flight.
            let polled = IoUring::builder()
                .setup_sqpoll(IDLE_MS)
                .build(entries.saturating_mul(2));
            RequestRing::of(polled?)
        } else {
            RequestRing::of_one_thread(entries)?
        };
        if matches!(
            requests,
            FileRequests::ReadRegistered | FileRequests::ReadPolled
        ) {
            let vectors: Vec<libc::iovec> = (0..places.count())
                .map(|place| libc::iovec {
                    iov_base: places.pointer(place).cast(),
                    iov_len: places.size(),
                })
                .collect();
            // SAFETY: the places are mapped, and stay so until after the ring is gone.
            unsafe { ring.ring.submitter().register_buffers(&vectors)? };
            ring.ring.submitter().register_files(&[file.as_raw_fd()])?;
        }
        Ok(UringFile {
            ring,
            file,
            places,
            requests,
        })
    }
}

impl RequestQueue for UringFile {
    #[inline]
    fn places(&self) -> &IoBuffers {
        &self.places
    }

    #[inline]
    fn start(&mut self, place: usize, offset: u64) -> io::Result<()> {
        let len = u32::try_from(self.places.size()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let index = u16::try_from(place).map_err(|_| io::ErrorKind::InvalidInput)?;
        let at = self.places.begin(place)?;
        let fd = Fd(self.file.as_raw_fd());
        let entry = match self.requests {
            FileRequests::Read => opcode::Read::new(fd, at, len).offset(offset).build(),
            FileRequests::Write => opcode::Write::new(fd, at, len).offset(offset).build(),
            _ => opcode::ReadFixed::new(Fixed(0), at, len, index)
                .offset(offset)
                .build(),
        };
        // SAFETY: the request uses one place, which nobody sees until the request is over, and
        // whose memory is never given back before that.
        let pushed = unsafe { self.ring.push(entry.user_data(place as u64), false) };
        if pushed.is_err() {
            self.places.end(place);
        }
        pushed
    }

    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>> {
        let there = self.ring.ring.completion().len();
        let want = want.saturating_sub(there);
        let is_polled = self.requests == FileRequests::ReadPolled;
        if is_polled && want == 0 && !self.ring.ring.submission().need_wakeup() {
            return Ok(Some(0));
        }
        self.ring.enter(want, timeout)
    }

    #[inline]
    fn finished(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.next()?;
        let place = entry.user_data() as usize;
        self.places.end(place);
        Some((place, entry.result()))
    }
}

impl Drop for UringFile {
    fn drop(&mut self) {
        let places = &mut self.places;
        self.ring
            .end(LAST_WAIT, |over| places.end(over.user_data() as usize));
    }
}

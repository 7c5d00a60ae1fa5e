//! io_uring for a file: reads and writes between its places and the file.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, opcode, squeue};

use crate::io_buffers::IoBuffers;
use crate::request_queue::RequestQueue;
use crate::ring;

/// How long the kernel's poller looks for requests before it sleeps, in ms.
const IDLE_MS: u32 = 1000;
/// How long a ring that is dropped waits for what is in flight.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What a ring is to do, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Requests write; else they read.
    pub write: bool,
    /// The file and the places are registered, so that they are looked up and pinned once. This
    /// counts against RLIMIT_MEMLOCK.
    pub registered: bool,
    /// A thread of the kernel polls for requests (IORING_SETUP_SQPOLL).
    pub poller: bool,
}

/// A ring that moves bytes between a file and its places.
pub struct UringFile {
    // Dropped first, so that no request outlives the memory it uses.
    ring: IoUring,
    file: OwnedFd,
    places: IoBuffers,
    options: Options,
    in_flight: usize,
}

impl UringFile {
    /// A ring with room for a request in each place.
    ///
    /// # Errors
    /// What io_uring_setup(2) and io_uring_register(2) answer: EPERM or ENOSYS where io_uring is
    /// forbidden or missing, ENOMEM where the locked-memory limit is too small.
    pub fn new(file: OwnedFd, places: IoBuffers, options: Options) -> io::Result<UringFile> {
        let entries = u32::try_from(places.count()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let ring = if options.poller {
            // The poller gives entries back after a batch, when some of it may be over already:
            // so there is room for one batch more than can be in flight.
            IoUring::builder()
                .setup_sqpoll(IDLE_MS)
                .build(entries.saturating_mul(2))?
        } else {
            ring::of_one_thread(entries)?
        };
        if options.registered {
            let vectors: Vec<libc::iovec> = (0..places.count())
                .map(|place| libc::iovec {
                    iov_base: places.pointer(place).cast(),
                    iov_len: places.size(),
                })
                .collect();
            // SAFETY: the places are mapped, and stay so until after the ring is gone.
            unsafe { ring.submitter().register_buffers(&vectors)? };
            ring.submitter().register_files(&[file.as_raw_fd()])?;
        }
        Ok(UringFile {
            ring,
            file,
            places,
            options,
            in_flight: 0,
        })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the request uses one place, which nobody sees until the request is over, and
        // whose memory is never given back before that.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| io::ErrorKind::WouldBlock.into())
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
        let entry = match (self.options.write, self.options.registered) {
            (false, false) => opcode::Read::new(fd, at, len).offset(offset).build(),
            (true, false) => opcode::Write::new(fd, at, len).offset(offset).build(),
            (false, true) => opcode::ReadFixed::new(Fixed(0), at, len, index)
                .offset(offset)
                .build(),
            (true, true) => opcode::WriteFixed::new(Fixed(0), at, len, index)
                .offset(offset)
                .build(),
        };
        let pushed = self.push(&entry.user_data(place as u64));
        if pushed.is_err() {
            self.places.end(place);
        } else {
            self.in_flight += 1;
        }
        pushed
    }

    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>> {
        let there = self.ring.completion().len();
        let want = want.saturating_sub(there);
        if self.options.poller && want == 0 && !self.ring.submission().need_wakeup() {
            return Ok(Some(0));
        }
        ring::enter(&self.ring, want, timeout)
    }

    #[inline]
    fn finished(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.completion().next()?;
        let place = entry.user_data() as usize;
        self.places.end(place);
        self.in_flight -= 1;
        Some((place, entry.result()))
    }
}

impl Drop for UringFile {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            while self.finished().is_some() {}
            // What still does not end keeps its place in use, whose memory then stays.
            if self.in_flight == 0 || !matches!(self.enter(1, LAST_WAIT), Ok(Some(_))) {
                break;
            }
        }
        while self.finished().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_map::FileMap;

    fn file() -> OwnedFd {
        let file = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        for block in 0..16_u64 {
            rustix::io::pwrite(&file, &[block as u8 + 1; 4096], block * 4096).unwrap();
        }
        file
    }

    #[test]
    fn requests_go_both_ways_by_every_option() {
        for options in [
            (false, false, false),
            (false, true, false),
            (false, true, true),
            (false, false, true),
            (true, false, false),
            (true, true, false),
        ] {
            let (write, registered, poller) = options;
            let options = Options {
                write,
                registered,
                poller,
            };
            let mut places = IoBuffers::new(8, 4096).unwrap();
            (0..8).for_each(|place| places.bytes_mut(place).unwrap().fill(99));
            let mut ring = UringFile::new(file(), places, options).unwrap();
            for place in 0..8 {
                ring.start(place, 8192 * place as u64).unwrap();
            }
            assert!(ring.start(3, 0).is_err(), "its place is in use");
            let mut over = Vec::new();
            while over.len() < 8 {
                assert!(ring.enter(1, Duration::from_secs(60)).unwrap().is_some());
                while let Some((place, result)) = ring.finished() {
                    assert_eq!(result, 4096);
                    over.push(place);
                }
            }
            over.sort_unstable();
            assert_eq!(over, (0..8).collect::<Vec<_>>());
            for place in 0..8 {
                let expected = if write { 99 } else { 2 * place as u8 + 1 };
                assert_eq!(ring.places().bytes(place).unwrap()[4095], expected);
                let map = FileMap::new(ring.file(), 8192 * place as u64, 4096).unwrap();
                let sum = map.touch(4095, 1) / 2;
                assert_eq!(sum, u64::from(expected), "{options:?}");
            }
        }
    }

    #[test]
    fn a_poller_has_room_for_what_takes_the_place_of_what_is_over() {
        let options = Options {
            poller: true,
            registered: true,
            write: false,
        };
        for count in [1, 4] {
            let places = IoBuffers::new(count, 4096).unwrap();
            let mut ring = UringFile::new(file(), places, options).unwrap();
            (0..count).for_each(|place| ring.start(place, 0).unwrap());
            for _ in 0..5000 {
                assert!(ring.enter(1, Duration::from_secs(60)).unwrap().is_some());
                while let Some((place, result)) = ring.finished() {
                    assert_eq!(result, 4096);
                    ring.start(place, 4096).unwrap();
                }
            }
        }
    }

    #[test]
    fn what_is_in_flight_when_a_ring_is_dropped_is_waited_for() {
        let places = IoBuffers::new(4, 4096).unwrap();
        let mut ring = UringFile::new(file(), places, Options::default()).unwrap();
        for place in 0..4 {
            ring.start(place, 0).unwrap();
        }
        drop(ring);
    }

    #[test]
    fn a_wait_for_a_file_has_an_end() {
        let places = IoBuffers::new(1, 4096).unwrap();
        let mut ring = UringFile::new(file(), places, Options::default()).unwrap();
        assert_eq!(ring.enter(1, Duration::from_millis(10)).unwrap(), None);
    }
}

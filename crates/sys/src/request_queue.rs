//! What carries out requests to a file while others are asked for.

use std::io;
use std::time::Duration;

use crate::io_buffers::IoBuffers;

/// Requests to a file, each of which moves all of a place of memory. How that goes is what its
/// implementations differ in.
pub trait RequestQueue {
    /// Calls that it takes to start a request, beside those that hand several over.
    const CALLS_TO_START: u64 = 0;

    /// The memory of the requests.
    fn places(&self) -> &IoBuffers;

    /// Queues or starts a request for all of a place at an offset of the file.
    ///
    /// # Errors
    /// `WouldBlock` while another request uses the place; what the call answers that starts it.
    fn start(&mut self, place: usize, offset: u64) -> io::Result<()>;

    /// Hands over what is queued and waits for at least `want` requests: how many system calls
    /// that took, or none when `timeout` ran out before.
    ///
    /// # Errors
    /// What the calls answer. Requests that were not taken are given up.
    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>>;

    /// The next request that is over: its place, which is free again, and its bytes or a negative
    /// error number.
    fn finished(&mut self) -> Option<(usize, i32)>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libaio::Libaio;
    use crate::posix_aio::PosixAio;
    use crate::uring_file::{Options, UringFile};
    use std::os::fd::OwnedFd;

    const LONG: Duration = Duration::from_secs(60);
    const READS: Options = Options {
        write: false,
        registered: false,
        poller: false,
    };

    /// A file of 16 blocks that each hold their number and one.
    fn file() -> OwnedFd {
        let file = rustix::fs::memfd_create("queue", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        for block in 0..16_u64 {
            rustix::io::pwrite(&file, &[block as u8 + 1; 4096], block * 4096).unwrap();
        }
        file
    }

    fn places(count: usize) -> IoBuffers {
        IoBuffers::new(count, 4096).unwrap()
    }

    fn uring(file: OwnedFd, places: IoBuffers, options: Options) -> UringFile {
        UringFile::new(file, places, options).unwrap()
    }

    /// Waits for so many requests: their places, in order.
    fn over(queue: &mut impl RequestQueue, count: usize) -> Vec<usize> {
        let mut over = Vec::new();
        while over.len() < count {
            assert!(queue.enter(1, LONG).unwrap().is_some());
            while let Some((place, result)) = queue.finished() {
                assert_eq!(result, 4096);
                over.push(place);
            }
        }
        assert_eq!(queue.finished(), None);
        over.sort_unstable();
        over
    }

    /// Starts a request in each of 8 places, from the end of the file on, and waits for them.
    fn goes_round(queue: &mut impl RequestQueue) {
        for place in 0..8 {
            queue.start(place, 4096 * (15 - place as u64)).unwrap();
        }
        assert!(queue.start(3, 0).is_err(), "its place is in use");
        assert_eq!(over(queue, 8), (0..8).collect::<Vec<_>>());
    }

    fn reads(mut queue: impl RequestQueue) {
        for _ in 0..3 {
            goes_round(&mut queue);
            for place in 0..8 {
                let bytes = queue.places().bytes(place).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 16 - place as u8));
            }
        }
        // Past the end there is nothing to read.
        queue.start(0, 1 << 20).unwrap();
        assert!(queue.enter(1, LONG).unwrap().is_some());
        assert_eq!(queue.finished(), Some((0, 0)));
        // Dropped in flight: it is waited for.
        queue.start(1, 0).unwrap();
    }

    #[test]
    fn requests_end_in_their_places_by_every_queue() {
        reads(Libaio::new(file(), places(8)).unwrap());
        reads(PosixAio::new(file(), places(8)));
        for (registered, poller) in [(false, false), (true, false), (true, true), (false, true)] {
            let options = Options {
                registered,
                poller,
                ..READS
            };
            reads(uring(file(), places(8), options));
        }
    }

    #[test]
    fn what_is_written_is_in_the_file() {
        for registered in [false, true] {
            let file = file();
            let mut from = places(8);
            (0..8).for_each(|place| from.bytes_mut(place).unwrap().fill(99));
            let options = Options {
                write: true,
                registered,
                poller: false,
            };
            goes_round(&mut uring(file.try_clone().unwrap(), from, options));
            let mut all = vec![0; 16 * 4096];
            rustix::io::pread(&file, &mut all, 0).unwrap();
            assert!(all[8 * 4096..].iter().all(|byte| *byte == 99));
            assert_eq!(all[7 * 4096..8 * 4096], [8; 4096]);
        }
    }

    #[test]
    fn a_poller_has_room_for_what_takes_the_place_of_what_is_over() {
        let options = Options {
            poller: true,
            registered: true,
            ..READS
        };
        for count in [1, 4] {
            let mut ring = uring(file(), places(count), options);
            (0..count).for_each(|place| ring.start(place, 0).unwrap());
            for _ in 0..5000 {
                assert!(ring.enter(1, LONG).unwrap().is_some());
                while let Some((place, result)) = ring.finished() {
                    assert_eq!(result, 4096);
                    ring.start(place, 4096).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_wait_has_an_end() {
        let soon = Duration::from_millis(10);
        let mut aio = Libaio::new(file(), places(1)).unwrap();
        assert_eq!(aio.enter(1, soon).unwrap(), None);
        let mut ring = uring(file(), places(1), READS);
        assert_eq!(ring.enter(1, soon).unwrap(), None);
    }
}

//! What carries out requests to a file while others are asked for.

use std::io;
use std::time::Duration;

use crate::io_buffers::IoBuffers;

/// Requests to a file, each of which moves all of a place of memory, in the way of each queue.
pub trait RequestQueue {
    /// Calls that it takes to start a request, beside those that hand several over.
    const CALLS_TO_START: u64 = 0;

    /// The memory of the requests.
    fn places(&self) -> &IoBuffers;

    /// Queues or starts a request for all of a place at an offset of the file; `WouldBlock` while
    /// another one uses the place.
    fn start(&mut self, place: usize, offset: u64) -> io::Result<()>;

    /// Hands over the queue and waits for at least `want` requests: how many system calls that
    /// took, or none when `timeout` ran out. On an error, requests that were not taken are given
    /// up.
    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>>;

    /// The next request that is over: its place, free again, and its bytes or a negative errno.
    fn finished(&mut self) -> Option<(usize, i32)>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libaio::Libaio;
    use crate::posix_aio::PosixAio;
    use crate::uring_file::{FileRequests, UringFile};
    use std::os::fd::OwnedFd;

    const LONG: Duration = Duration::from_secs(60);

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

    fn uring(count: usize, requests: FileRequests) -> UringFile {
        UringFile::new(file(), places(count), requests).unwrap()
    }

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

    /// Reads in each of 8 places, from the end of the file on.
    fn reads(mut queue: impl RequestQueue) {
        for _ in 0..3 {
            for place in 0..8 {
                queue.start(place, 4096 * (15 - place as u64)).unwrap();
            }
            assert!(queue.start(3, 0).is_err(), "its place is in use");
            assert_eq!(over(&mut queue, 8), (0..8).collect::<Vec<_>>());
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
        use FileRequests::{Read, ReadPolled, ReadRegistered};
        for requests in [Read, ReadRegistered, ReadPolled] {
            reads(uring(8, requests));
        }
    }

    #[test]
    fn a_poller_has_room_for_what_takes_the_place_of_what_is_over() {
        for count in [1, 4] {
            let mut ring = uring(count, FileRequests::ReadPolled);
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
        let mut ring = uring(1, FileRequests::Read);
        assert_eq!(ring.enter(1, soon).unwrap(), None);
    }
}

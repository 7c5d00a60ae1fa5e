//! The common interface of asynchronous file I/O: [`crate::libaio`], [`crate::posix_aio`] and
//! [`crate::uring_file`].

use std::io;
use std::time::Duration;

use crate::io_buffers::IoBuffers;

/// A queue of requests to a file. Each request moves a whole buffer of [`IoBuffers`].
pub trait RequestQueue {
    /// System calls for starting one request, in addition to those that submit several.
    const CALLS_TO_START: u64 = 0;

    /// The buffers of the requests.
    fn buffers(&self) -> &IoBuffers;

    /// Queues or starts a request for the buffer at an index and an offset of the file; `WouldBlock`
    /// while another request uses the buffer.
    fn start(&mut self, index: usize, offset: u64) -> io::Result<()>;

    /// Submits the queue and waits for at least `want` finished requests: the number of system calls,
    /// or none if `timeout` ran out. On an error, requests that the kernel did not accept are dropped.
    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>>;

    /// The next finished request: the index of its buffer, which is free again, and its bytes or a
    /// negative errno.
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

    fn buffers(count: usize) -> IoBuffers {
        IoBuffers::new(count, 4096).unwrap()
    }

    fn uring(count: usize, requests: FileRequests) -> UringFile {
        UringFile::new(file(), buffers(count), requests).unwrap()
    }

    /// The indices of `count` requests that finish.
    fn finish(queue: &mut impl RequestQueue, count: usize) -> Vec<usize> {
        let mut finished = Vec::new();
        while finished.len() < count {
            assert!(queue.enter(1, LONG).unwrap().is_some());
            while let Some((index, result)) = queue.finished() {
                assert_eq!(result, 4096);
                finished.push(index);
            }
        }
        assert_eq!(queue.finished(), None);
        finished.sort_unstable();
        finished
    }

    /// Reads blocks into each of 8 buffers, backwards from the end of the file.
    fn check_reads(mut queue: impl RequestQueue) {
        for _ in 0..3 {
            for index in 0..8 {
                queue.start(index, 4096 * (15 - index as u64)).unwrap();
            }
            assert!(queue.start(3, 0).is_err(), "its buffer is in use");
            assert_eq!(finish(&mut queue, 8), (0..8).collect::<Vec<_>>());
            for index in 0..8 {
                let bytes = queue.buffers().bytes(index).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 16 - index as u8));
            }
        }
        // Past the end there is nothing to read.
        queue.start(0, 1 << 20).unwrap();
        assert!(queue.enter(1, LONG).unwrap().is_some());
        assert_eq!(queue.finished(), Some((0, 0)));
        // A drop waits for a request in flight.
        queue.start(1, 0).unwrap();
    }

    #[test]
    fn every_queue_reads_into_the_right_buffers() {
        check_reads(Libaio::new(file(), buffers(8)).unwrap());
        check_reads(PosixAio::new(file(), buffers(8)));
        use FileRequests::{Read, ReadPolled, ReadRegistered};
        for requests in [Read, ReadRegistered, ReadPolled] {
            check_reads(uring(8, requests));
        }
    }

    #[test]
    fn a_polled_ring_has_room_for_a_request_after_each_finished_one() {
        for count in [1, 4] {
            let mut ring = uring(count, FileRequests::ReadPolled);
            (0..count).for_each(|index| ring.start(index, 0).unwrap());
            for _ in 0..5000 {
                assert!(ring.enter(1, LONG).unwrap().is_some());
                while let Some((index, result)) = ring.finished() {
                    assert_eq!(result, 4096);
                    ring.start(index, 4096).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_wait_ends_at_its_timeout() {
        let soon = Duration::from_millis(10);
        let mut aio = Libaio::new(file(), buffers(1)).unwrap();
        assert_eq!(aio.enter(1, soon).unwrap(), None);
        let mut ring = uring(1, FileRequests::Read);
        assert_eq!(ring.enter(1, soon).unwrap(), None);
    }
}

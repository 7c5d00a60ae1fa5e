//! POSIX asynchronous I/O, aio(7): glibc carries the requests out on threads of the process.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::io_buffers::IoBuffers;
use crate::request_queue::RequestQueue;

/// The longest wait for requests when the queue is dropped.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A queue of aio_read(3) requests from one file into its buffers.
pub struct PosixAio {
    file: OwnedFd,
    buffers: IoBuffers,
    /// One control block for each buffer. The library writes to them, so they do not move.
    blocks: Box<[UnsafeCell<libc::aiocb>]>,
    /// The control block of each buffer with a request in flight; null for others.
    list: Box<[*const libc::aiocb]>,
    /// The index of the buffer at which the next search for a finished request begins.
    next: usize,
}

impl PosixAio {
    /// A queue with room for one request a buffer.
    pub fn new(file: OwnedFd, buffers: IoBuffers) -> PosixAio {
        // SAFETY: an aiocb is numbers and pointers, for which zeroes are valid.
        let blank = || UnsafeCell::new(unsafe { std::mem::zeroed::<libc::aiocb>() });
        let count = buffers.count();
        PosixAio {
            file,
            buffers,
            blocks: (0..count).map(|_| blank()).collect(),
            list: vec![std::ptr::null(); count].into(),
            next: 0,
        }
    }

    fn is_over(&self, index: usize) -> bool {
        let block = self.list[index];
        // SAFETY: it points to a request of `blocks` that was started and not yet returned.
        !block.is_null() && unsafe { libc::aio_error(block) } != libc::EINPROGRESS
    }

    fn in_flight(&self) -> bool {
        self.list.iter().any(|block| !block.is_null())
    }
}

impl RequestQueue for PosixAio {
    const CALLS_TO_START: u64 = 1;

    #[inline]
    fn buffers(&self) -> &IoBuffers {
        &self.buffers
    }

    #[inline]
    fn start(&mut self, index: usize, offset: u64) -> io::Result<()> {
        let buffer = self.buffers.begin(index)?;
        let block = self.blocks[index].get();
        // SAFETY: the buffer was free, so its control block has no other user.
        unsafe {
            (*block).aio_fildes = self.file.as_raw_fd();
            (*block).aio_buf = buffer.cast();
            (*block).aio_nbytes = self.buffers.size();
            (*block).aio_offset = offset as libc::off_t;
            (*block).aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        }
        // SAFETY: the control block and its buffer do not move and cannot be borrowed until the
        // request is over; neither is freed before that.
        if unsafe { libc::aio_read(block) } != 0 {
            let error = io::Error::last_os_error();
            self.buffers.end(index);
            return Err(error);
        }
        self.list[index] = block;
        Ok(())
    }

    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>> {
        if want == 0 || (0..self.list.len()).any(|index| self.is_over(index)) {
            return Ok(Some(0));
        }
        let time = libc::timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        let mut calls = 0;
        loop {
            calls += 1;
            let count = self.list.len() as libc::c_int;
            // SAFETY: each pointer is null or to a request of `blocks`.
            if unsafe { libc::aio_suspend(self.list.as_ptr(), count, &raw const time) } == 0 {
                return Ok(Some(calls));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => return Ok(None),
                Some(libc::EINTR) => {}
                _ => return Err(error),
            }
        }
    }

    #[inline]
    fn finished(&mut self) -> Option<(usize, i32)> {
        let count = self.list.len();
        let index = (0..count)
            .map(|step| (self.next + step) % count)
            .find(|index| self.is_over(*index))?;
        self.next = (index + 1) % count;
        self.list[index] = std::ptr::null();
        let block = self.blocks[index].get();
        // SAFETY: the request was started, is over, and is returned once.
        let (error, result) = unsafe { (libc::aio_error(block), libc::aio_return(block)) };
        self.buffers.end(index);
        let result = if error == 0 { result as i32 } else { -error };
        Some((index, result))
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        // SAFETY: the descriptor is owned here; requests that have begun continue and are waited for.
        unsafe { libc::aio_cancel(self.file.as_raw_fd(), std::ptr::null_mut()) };
        while self.in_flight() {
            while self.finished().is_some() {}
            if self.in_flight() && !matches!(self.enter(1, LAST_WAIT), Ok(Some(_))) {
                break;
            }
        }
        if self.in_flight() {
            // The library may still write to these, so they stay allocated, and so do the buffers.
            std::mem::forget(std::mem::take(&mut self.blocks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_result_of_its_request() {
        let (_read, write) = rustix::pipe::pipe().unwrap();
        let mut aio = PosixAio::new(write, IoBuffers::new(1, 8).unwrap());
        aio.start(0, 0).unwrap();
        assert!(aio.enter(1, Duration::from_secs(60)).unwrap().is_some());
        assert_eq!(aio.finished(), Some((0, -libc::EBADF)));
    }
}

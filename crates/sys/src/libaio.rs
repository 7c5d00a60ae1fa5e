//! Linux AIO (io_setup(2), io_submit(2), io_getevents(2)), called without the library libaio.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::io_buffers::IoBuffers;
use crate::request_queue::RequestQueue;
use crate::syscall::checked;

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct IoEvent {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

const IOCB_CMD_PREAD: u16 = 0;

/// An AIO context whose requests read one file into its buffers.
pub struct Libaio {
    context: libc::c_ulong,
    file: OwnedFd,
    buffers: IoBuffers,
    /// One control block for each buffer; the kernel copies it when it is submitted.
    blocks: Box<[UnsafeCell<libc::iocb>]>,
    queued: Vec<*mut libc::iocb>,
    events: Box<[IoEvent]>,
    /// The events that [`RequestQueue::finished`] has not returned yet.
    unread: Range<usize>,
}

impl Libaio {
    /// A context with room for one request a buffer. EAGAIN if fs.aio-max-nr is reached, ENOSYS if the
    /// kernel has no AIO, io_setup(2).
    pub fn new(file: OwnedFd, buffers: IoBuffers) -> io::Result<Libaio> {
        let count = buffers.count();
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is zero, as io_setup demands, and valid for writes.
        let set_up =
            unsafe { libc::syscall(libc::SYS_io_setup, count as libc::c_uint, &mut context) };
        checked(set_up)?;
        // SAFETY: an iocb is numbers alone, for which zeroes are valid.
        let blank = || UnsafeCell::new(unsafe { std::mem::zeroed::<libc::iocb>() });
        Ok(Libaio {
            context,
            file,
            buffers,
            blocks: (0..count).map(|_| blank()).collect(),
            queued: Vec::with_capacity(count),
            events: vec![IoEvent::default(); count].into(),
            unread: 0..0,
        })
    }

    /// Drops the queued requests that the kernel has not accepted.
    fn discard_queued(&mut self, from: usize) {
        for block in &self.queued[from..] {
            // SAFETY: it points into `blocks`, of which no reference is held here.
            let index = unsafe { (**block).aio_data };
            self.buffers.end(index as usize);
        }
        self.queued.clear();
    }

    /// Waits for `want` unread events: the number of system calls, and false if `timeout` ran out.
    fn wait(&mut self, want: usize, timeout: Duration) -> io::Result<(u64, bool)> {
        if self.unread.len() >= want {
            return Ok((0, true));
        }
        let mut time = libc::timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        let mut calls = 0;
        loop {
            calls += 1;
            // SAFETY: `events` has room for so many, and all of them were read before.
            let got = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    want as libc::c_long,
                    self.events.len() as libc::c_long,
                    self.events.as_mut_ptr(),
                    &raw mut time,
                )
            };
            if got >= 0 {
                self.unread = 0..got as usize;
                return Ok((calls, got as usize >= want));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl RequestQueue for Libaio {
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
            (*block).aio_data = index as u64;
            (*block).aio_lio_opcode = IOCB_CMD_PREAD;
            (*block).aio_fildes = self.file.as_raw_fd() as u32;
            (*block).aio_buf = buffer.expose_provenance() as u64;
            (*block).aio_nbytes = self.buffers.size() as u64;
            (*block).aio_offset = offset as i64;
        }
        self.queued.push(block);
        Ok(())
    }

    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<Option<u64>> {
        let mut calls = 0;
        let mut from = 0;
        while from < self.queued.len() {
            calls += 1;
            let left = &mut self.queued[from..];
            let count = left.len() as libc::c_long;
            // SAFETY: each pointer is to a request of `blocks`, which lives as long as the
            // context and does not move; its buffer cannot be borrowed until it is over.
            let taken = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, count, left.as_mut_ptr())
            };
            match taken {
                1.. => from += taken as usize,
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        self.discard_queued(from);
                        return Err(error);
                    }
                }
            }
        }
        self.queued.clear();
        let (waited, met) = self.wait(want, timeout)?;
        Ok(met.then_some(calls + waited))
    }

    #[inline]
    fn finished(&mut self) -> Option<(usize, i32)> {
        let event = self.events[self.unread.next()?];
        let index = event.data as usize;
        self.buffers.end(index);
        Some((index, event.res as i32))
    }
}

impl Drop for Libaio {
    fn drop(&mut self) {
        self.discard_queued(0);
        // SAFETY: the context is ours. The kernel waits here until no request is left, so that
        // nothing is written to a buffer any more.
        let destroyed = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        if destroyed == 0 {
            for index in 0..self.buffers.count() {
                self.buffers.end(index);
            }
        }
    }
}

//! select(2) and poll(2) on sets of descriptors that live from one call to the next.
//!
//! rustix has both, but its select is unsafe, and its poll borrows the descriptors for the life of the
//! set. The sets here hold numbers, which is safe: a number that is no open descriptor (any more) gives
//! an error or an event, and nothing is read or written.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::event::epoll::EventFlags;

use crate::syscall::checked;

/// The first descriptor number that does not fit into a set of select(2): 1024.
pub const FD_SETSIZE: usize = libc::FD_SETSIZE;

/// A set of descriptors for select(2).
#[derive(Clone, Copy)]
pub struct FdSet(libc::fd_set);

impl Default for FdSet {
    fn default() -> FdSet {
        let mut set = MaybeUninit::<libc::fd_set>::uninit();
        // SAFETY: FD_ZERO writes the whole set, which is valid for that.
        unsafe { libc::FD_ZERO(set.as_mut_ptr()) };
        // SAFETY: FD_ZERO has initialised it.
        FdSet(unsafe { set.assume_init() })
    }
}

impl FdSet {
    /// Adds a descriptor; `InvalidInput` from [`FD_SETSIZE`] on.
    pub fn insert(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if !fits(fd.as_raw_fd()) {
            let (fd, last) = (fd.as_raw_fd(), FD_SETSIZE - 1);
            let why = format!("descriptor {fd} is beyond what select takes: they end at {last}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // SAFETY: the number is within the set, as was just checked.
        unsafe { libc::FD_SET(fd.as_raw_fd(), &raw mut self.0) };
        Ok(())
    }

    /// Removes a descriptor number, if the set has it.
    pub fn remove(&mut self, fd: RawFd) {
        if fits(fd) {
            // SAFETY: the number is within the set, as was just checked.
            unsafe { libc::FD_CLR(fd, &raw mut self.0) };
        }
    }

    /// Returns true if the set has a descriptor number.
    pub fn contains(&self, fd: RawFd) -> bool {
        // SAFETY: the number is within the set, as is checked first.
        fits(fd) && unsafe { libc::FD_ISSET(fd, &raw const self.0) }
    }
}

fn fits(fd: RawFd) -> bool {
    usize::try_from(fd).is_ok_and(|fd| fd < FD_SETSIZE)
}

/// Waits, without a timeout, until a descriptor below `end` of `read` can be read or one of `write` can
/// be written, select(2). The sets then hold the ready ones, whose number is returned. EBADF for a
/// closed descriptor, `Interrupted` after a signal.
pub fn select(end: usize, read: &mut FdSet, write: &mut FdSet) -> io::Result<usize> {
    let nfds = end.min(FD_SETSIZE) as libc::c_int;
    let none = std::ptr::null_mut();
    // SAFETY: both sets are valid for reads and writes, and hold at least `nfds` bits;
    // null stands for exceptions and for no timeout.
    let ready = unsafe { libc::select(nfds, &raw mut read.0, &raw mut write.0, none, none.cast()) };
    checked(ready)
}

/// A set of descriptors for poll(2).
#[derive(Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
    /// The index in `entries` of each descriptor number.
    indices: Vec<Option<usize>>,
}

impl PollSet {
    /// Adds a descriptor, or changes the events for which it waits: `IN` or `OUT`.
    pub fn set(&mut self, fd: BorrowedFd<'_>, events: EventFlags) {
        let bits = events.bits() as libc::c_short;
        let number = fd.as_raw_fd() as usize;
        if number >= self.indices.len() {
            self.indices.resize(number + 1, None);
        }
        match self.indices[number] {
            Some(index) => self.entries[index].events = bits,
            None => {
                self.indices[number] = Some(self.entries.len());
                self.entries.push(libc::pollfd {
                    fd: fd.as_raw_fd(),
                    events: bits,
                    revents: 0,
                });
            }
        }
    }

    /// Removes a descriptor number, if the set has it.
    pub fn remove(&mut self, fd: RawFd) {
        let index = usize::try_from(fd)
            .ok()
            .and_then(|number| self.indices.get_mut(number)?.take());
        if let Some(index) = index {
            self.entries.swap_remove(index);
            if let Some(moved) = self.entries.get(index) {
                self.indices[moved.fd as usize] = Some(index);
            }
        }
    }

    /// Waits without a timeout: the number of ready descriptors. `InvalidInput` for more descriptors
    /// than the process may have, `Interrupted` after a signal, poll(2).
    pub fn wait(&mut self) -> io::Result<usize> {
        let count = self.entries.len() as libc::nfds_t;
        // SAFETY: the entries are valid for reads and writes, and their number is the one passed.
        let ready = unsafe { libc::poll(self.entries.as_mut_ptr(), count, -1) };
        checked(ready)
    }

    /// The descriptors that were ready at the last wait, also those with errors and hang-ups.
    pub fn ready(&self) -> impl Iterator<Item = RawFd> + '_ {
        (self.entries.iter())
            .filter(|entry| entry.revents != 0)
            .map(|entry| entry.fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_numbers_out_of_bounds_are_harmless() {
        let mut set = FdSet::default();
        // SAFETY: only the number is used; there is no such descriptor.
        let far = unsafe { BorrowedFd::borrow_raw(FD_SETSIZE as RawFd) };
        let error = set.insert(far).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("they end at 1023"), "{error}");
        for fd in [-1, FD_SETSIZE as RawFd, RawFd::MAX, RawFd::MIN] {
            set.remove(fd);
            assert!(!set.contains(fd));
        }
        let mut polled = PollSet::default();
        polled.remove(-1);
        polled.remove(RawFd::MAX);
        // SAFETY: as above.
        let closed = unsafe { BorrowedFd::borrow_raw(900) };
        polled.set(closed, EventFlags::IN);
        assert_eq!(polled.wait().unwrap(), 1);
        assert_eq!(polled.ready().collect::<Vec<_>>(), [900]);
    }
}

//! select(2) and poll(2) with sets that are kept from one call to the next.
//!
//! rustix has both, but its select is unsafe, and its poll takes descriptors that stay borrowed for
//! as long as the set is there. Here sets hold numbers, which can do no harm: one that is no open
//! descriptor (any more) gives an error or an event, and nothing is read or written.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::event::epoll::EventFlags;

use crate::syscall::checked;

/// The first number of a descriptor that a set of select(2) has no room for: 1024.
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
    /// Puts a descriptor in; `InvalidInput` from [`FD_SETSIZE`] on.
    pub fn insert(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if !fits(fd.as_raw_fd()) {
            let (fd, last) = (fd.as_raw_fd(), FD_SETSIZE - 1);
            let why = format!("descriptor {fd} is beyond what select takes: they end at {last}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // SAFETY: the number is within the set, as was just seen.
        unsafe { libc::FD_SET(fd.as_raw_fd(), &raw mut self.0) };
        Ok(())
    }

    /// Takes a number out, if it is in.
    pub fn remove(&mut self, fd: RawFd) {
        if fits(fd) {
            // SAFETY: the number is within the set, as was just seen.
            unsafe { libc::FD_CLR(fd, &raw mut self.0) };
        }
    }

    /// Whether a number is in.
    pub fn contains(&self, fd: RawFd) -> bool {
        // SAFETY: the number is within the set, as is seen first.
        fits(fd) && unsafe { libc::FD_ISSET(fd, &raw const self.0) }
    }
}

fn fits(fd: RawFd) -> bool {
    usize::try_from(fd).is_ok_and(|fd| fd < FD_SETSIZE)
}

/// Waits without end until a descriptor below `end` can be read or written; the sets then hold
/// those that can, whose number it gives. `BadF` for no open descriptor, `Interrupted`, select(2).
pub fn select(end: usize, read: &mut FdSet, write: &mut FdSet) -> io::Result<usize> {
    let end = end.min(FD_SETSIZE) as libc::c_int;
    let none = std::ptr::null_mut();
    // SAFETY: both sets are valid for reads and writes, and hold as many bits as `end` at least;
    // null stands for what is not asked for.
    let ready = unsafe { libc::select(end, &raw mut read.0, &raw mut write.0, none, none.cast()) };
    checked(ready)
}

/// A set of descriptors for poll(2).
#[derive(Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
    places: Vec<Option<usize>>,
}

impl PollSet {
    /// Puts a descriptor in, or changes what is waited for: `IN` or `OUT`.
    pub fn set(&mut self, fd: BorrowedFd<'_>, events: EventFlags) {
        let events = events.bits() as libc::c_short;
        let number = fd.as_raw_fd() as usize;
        if number >= self.places.len() {
            self.places.resize(number + 1, None);
        }
        match self.places[number] {
            Some(place) => self.entries[place].events = events,
            None => {
                self.places[number] = Some(self.entries.len());
                self.entries.push(libc::pollfd {
                    fd: fd.as_raw_fd(),
                    events,
                    revents: 0,
                });
            }
        }
    }

    /// Takes a number out, if it is in.
    pub fn remove(&mut self, fd: RawFd) {
        let place = usize::try_from(fd)
            .ok()
            .and_then(|number| self.places.get_mut(number)?.take());
        if let Some(place) = place {
            self.entries.swap_remove(place);
            if let Some(moved) = self.entries.get(place) {
                self.places[moved.fd as usize] = Some(place);
            }
        }
    }

    /// Waits without end; the number of ready ones. `InvalidInput` for more descriptors than the
    /// process may have, `Interrupted`, poll(2).
    pub fn wait(&mut self) -> io::Result<usize> {
        let count = self.entries.len() as libc::nfds_t;
        // SAFETY: the entries are valid for reads and writes, and as many as is said.
        let ready = unsafe { libc::poll(self.entries.as_mut_ptr(), count, -1) };
        checked(ready)
    }

    /// Those that were ready at the last wait, errors and ends included.
    pub fn ready(&self) -> impl Iterator<Item = RawFd> + '_ {
        let ready = self.entries.iter().filter(|entry| entry.revents != 0);
        ready.map(|entry| entry.fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_do_no_harm() {
        let mut set = FdSet::default();
        // SAFETY: the number is only looked at; it stands for a descriptor that is not there.
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

//! What the movers share that read a file one request after the other.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::places::Places;
use rustix::io::Errno;

use crate::file::too_short;
use crate::mover::{Move, MoveFile, Offer};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

/// The call that brings bytes of a file into memory.
pub(super) trait Read {
    /// Reads into `bytes` from `offset` on: how many came, 0 at the end of the file. Counts its
    /// own calls.
    fn read(
        &mut self,
        file: &OwnedFd,
        bytes: &mut [u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize>;
}

/// A mover that waits for each request.
struct Reading<R> {
    file: OwnedFd,
    /// One place: where all requests go.
    memory: Places,
    walk: Walk,
    offset: u64,
    read: R,
    tally: Tally,
}

/// A mover of [`Read`].
pub(super) fn open<R: Read + 'static>(mut setup: Setup, read: R) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    Ok(Box::new(Reading {
        file: work.file,
        memory: Places::new(1, setup.size)?,
        walk: work.walk,
        offset: 0,
        read,
        tally: Tally::default(),
    }))
}

impl<R: Read> Move for Reading<R> {
    fn offer(&mut self) -> io::Result<Offer> {
        self.offset = self.walk.step();
        let bytes = self.memory.bytes_mut(0).ok_or(io::ErrorKind::WouldBlock)?;
        let mut done = 0;
        while done < bytes.len() {
            let (rest, at) = (&mut bytes[done..], self.offset + done as u64);
            match self.read.read(&self.file, rest, at, &mut self.tally) {
                Ok(0) => return Err(too_short()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.tally.messages += 1;
        self.tally.bytes += bytes.len() as u64;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

impl<R: Read> MoveFile for Reading<R> {
    fn look(&self, place: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        if let Some(bytes) = self.memory.bytes(place) {
            see(self.offset, &bytes[..bytes.len().min(most)]);
        }
    }
}

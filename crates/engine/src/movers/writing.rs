//! What the movers share that write a file one request after the other.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::places::Places;
use rustix::io::Errno;

use crate::file::{to_be_written, written_places};
use crate::mover::{Move, MoveFile, Offer};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

/// What weakens movers that synchronise.
pub(super) const PASSES: &str = "it synchronises once for each pass through the file, so the window must be long enough for some passes: choose --ring and --window with that in mind";

/// The call that takes bytes from memory to a file.
pub(super) trait Write {
    /// Writes `bytes` from `offset` on: how many went. Counts its own calls.
    fn write(
        &mut self,
        file: &OwnedFd,
        bytes: &[u8],
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<usize>;
}

/// A mover that waits for each request.
struct Writing<W> {
    file: OwnedFd,
    memory: Places,
    walk: Walk,
    size: usize,
    /// fdatasync(2) at the end of each pass.
    sync: bool,
    write: W,
    tally: Tally,
}

/// A mover of [`Write`]. With `sync` the file is synchronised at the end of each pass.
pub(super) fn open<W: Write + 'static>(
    mut setup: Setup,
    sync: bool,
    write: W,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    Ok(Box::new(Writing {
        file: work.file,
        memory: to_be_written(setup.size, written_places(setup.size, 1))?,
        walk: work.walk,
        size: setup.size,
        sync,
        write,
        tally: Tally::default(),
    }))
}

impl<W: Write> Move for Writing<W> {
    fn offer(&mut self) -> io::Result<Offer> {
        let offset = self.walk.step();
        let place = (offset / self.size as u64) as usize % self.memory.count();
        let bytes = self.memory.bytes(place).ok_or(io::ErrorKind::WouldBlock)?;
        let mut done = 0;
        while done < bytes.len() {
            let (rest, at) = (&bytes[done..], offset + done as u64);
            match self.write.write(&self.file, rest, at, &mut self.tally) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if self.sync && self.walk.is_at_start() {
            self.tally.calls += 1;
            rustix::fs::fdatasync(&self.file)?;
        }
        self.tally.messages += 1;
        self.tally.bytes += bytes.len() as u64;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

impl<W: Write> MoveFile for Writing<W> {}

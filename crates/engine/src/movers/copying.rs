//! What the movers share that take a file somewhere else, a block with each call or two.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::file::too_short;
use crate::mover::{Move, MoveFile, Offer};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

/// The calls that take a block from one file to another.
pub(super) trait Carry {
    /// Takes at most `len` bytes, which lie at `offset` in both: how many went, 0 at the end of
    /// the file. Counts its own calls.
    fn carry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        offset: u64,
        len: usize,
        tally: &mut Tally,
    ) -> io::Result<usize>;

    /// The beginning of the block that was carried last, where it passed through memory.
    fn carried(&self) -> &[u8] {
        &[]
    }
}

/// A mover that waits for each call.
struct Copying<C> {
    from: OwnedFd,
    to: OwnedFd,
    walk: Walk,
    size: usize,
    block: usize,
    /// Where the last block was.
    last: u64,
    carry: C,
    tally: Tally,
}

/// A mover of [`Carry`] into a file. `make` is told the most that it is asked for at once.
pub(super) fn to_file<C: Carry + 'static>(
    mut setup: Setup,
    make: impl FnOnce(usize) -> io::Result<C>,
) -> io::Result<Box<dyn MoveFile>> {
    let mut work = setup.take_file()?;
    let to = work.target.take().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "this mover needs a second file",
        )
    })?;
    setup.file = Some(work);
    opened(setup, to, make)
}

/// A mover of [`Carry`] to where nothing is kept.
pub(super) fn to_null<C: Carry + 'static>(
    setup: Setup,
    make: impl FnOnce(usize) -> io::Result<C>,
) -> io::Result<Box<dyn MoveFile>> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let null = rustix::fs::open("/dev/null", flags, Mode::empty())?;
    opened(setup, null, make)
}

fn opened<C: Carry + 'static>(
    mut setup: Setup,
    to: OwnedFd,
    make: impl FnOnce(usize) -> io::Result<C>,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    let block = work.block.clamp(1, setup.size.max(1));
    Ok(Box::new(Copying {
        from: work.file,
        to,
        walk: work.walk,
        size: setup.size,
        block,
        last: 0,
        carry: make(block)?,
        tally: Tally::default(),
    }))
}

impl<C: Carry> Move for Copying<C> {
    fn offer(&mut self) -> io::Result<Offer> {
        let start = self.walk.step();
        let mut done = 0;
        while done < self.size {
            let len = self.block.min(self.size - done);
            self.last = start + done as u64;
            let carried = self
                .carry
                .carry(&self.from, &self.to, self.last, len, &mut self.tally);
            match carried {
                Ok(0) => return Err(too_short()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.tally.messages += 1;
        self.tally.bytes += self.size as u64;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

impl<C: Carry> MoveFile for Copying<C> {
    fn look(&self, _place: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        let bytes = self.carry.carried();
        if !bytes.is_empty() {
            see(self.last, &bytes[..bytes.len().min(most)]);
        }
    }
}

/// Makes a call until all of `bytes` are written.
pub(super) fn write_whole(
    bytes: &[u8],
    tally: &mut Tally,
    mut write: impl FnMut(&[u8], usize) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        tally.calls += 1;
        match write(&bytes[done..], done) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

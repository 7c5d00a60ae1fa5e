//! `read-write`: a file read into a buffer of the program's own, and written to the socket from
//! there: what a copy loop does that knows nothing of sockets.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::region::Region;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::sent_file::take;
use crate::file::too_short;
use crate::mover::{FILE_SENT, Move, Mover, MoverFacts, Offer, Open, retry};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "read-write",
        summary: "read(2) of `block` bytes of a file into a buffer, write(2) of them to the socket, and so on: the kernel copies twice",
        ..FILE_SENT
    },
    open: Open::Stream(open),
};

struct ReadWrite {
    socket: OwnedFd,
    file: OwnedFd,
    walk: Walk,
    /// Where the file's position is.
    position: u64,
    buffer: Region,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    rustix::fs::seek(&work.file, SeekFrom::Start(0))?;
    Ok(Box::new(ReadWrite {
        socket,
        file: work.file,
        walk: work.walk,
        position: 0,
        buffer: Region::new(work.block.max(1))?,
        size: setup.size,
        tally: Tally::default(),
    }))
}

impl ReadWrite {
    fn go_to(&mut self, start: u64) -> io::Result<()> {
        if self.position != start {
            self.tally.calls += 1;
            rustix::fs::seek(&self.file, SeekFrom::Start(start))?;
            self.position = start;
        }
        Ok(())
    }

    /// Reads at most `most` bytes into the buffer: how many came.
    fn bring(&mut self, most: usize) -> io::Result<usize> {
        let most = most.min(self.buffer.len());
        loop {
            self.tally.calls += 1;
            match rustix::io::read(&self.file, &mut self.buffer.bytes_mut()[..most]) {
                Ok(0) => return Err(too_short()),
                Ok(n) => {
                    self.position += n as u64;
                    return Ok(n);
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Writes the buffer's first bytes, all of them.
    fn pass(&mut self, len: usize) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            self.tally.calls += 1;
            match rustix::io::write(&self.socket, &self.buffer.bytes()[done..len]) {
                Ok(n) => done += n,
                Err(e) => retry(e.into())?,
            }
        }
        Ok(())
    }
}

impl Move for ReadWrite {
    fn offer(&mut self) -> io::Result<Offer> {
        let start = self.walk.step();
        self.go_to(start)?;
        let mut done = 0;
        while done < self.size {
            let came = self.bring(self.size - done)?;
            self.pass(came)?;
            done += came;
        }
        self.tally.messages += 1;
        self.tally.bytes += self.size as u64;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

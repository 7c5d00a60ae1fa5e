//! `splice-file`: from a file to another through a pipe.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::pipe::Pipe;

use super::copying::{self, Carry};
use super::splice::PIPE_BYTES;
use crate::mover::{FILE_COPY, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "splice-file",
        summary: "splice(2) into a pipe, which refers to the file's pages, and from there to the other file, which copies them; two calls a block or more",
        descriptors_per_flow: 4,
        ..FILE_COPY
    },
    open: Open::File(open),
};

struct SpliceFile(Pipe);

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    copying::to_file(setup, |_| Ok(SpliceFile(Pipe::new(PIPE_BYTES)?)))
}

impl Carry for SpliceFile {
    fn carry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        offset: u64,
        len: usize,
        tally: &mut Tally,
    ) -> io::Result<usize> {
        tally.calls += 1;
        let filled = self.0.fill_from_file(from, offset, len)?;
        let mut done = 0;
        while done < filled {
            tally.calls += 1;
            match self.0.drain_at(to, offset + done as u64, filled - done) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                // What is in the pipe would be lost otherwise.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

//! `read-write-file`: from a file to another through memory of the user's.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::places::Places;

use super::copying::{self, Carry, write_whole};
use crate::mover::{FILE_COPY, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "read-write-file",
        summary: "pread(2) of a block into memory, pwrite(2) of it to the other file: two copies, two calls a block",
        ..FILE_COPY
    },
    open: Open::File(open),
};

struct ReadWrite(Places);

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    copying::to_file(setup, |block| Ok(ReadWrite(Places::new(1, block)?)))
}

impl Carry for ReadWrite {
    fn carry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        offset: u64,
        len: usize,
        tally: &mut Tally,
    ) -> io::Result<usize> {
        let bytes = self.0.bytes_mut(0).ok_or(io::ErrorKind::WouldBlock)?;
        tally.calls += 1;
        let n = rustix::io::pread(from, &mut bytes[..len], offset)?;
        write_whole(&bytes[..n], tally, |rest, done| {
            rustix::io::pwrite(to, rest, offset + done as u64)
        })?;
        Ok(n)
    }
}

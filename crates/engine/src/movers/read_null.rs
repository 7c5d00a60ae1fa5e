//! `read-null`: through memory of the user's to where nothing is kept.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::places::Places;

use super::copying::{self, Carry, write_whole};
use crate::mover::{FILE_TO_NULL, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "read-null",
        summary: "pread(2) of a block into memory, write(2) of it to /dev/null, which looks at no byte: one copy, two calls a block",
        ..FILE_TO_NULL
    },
    open: Open::File(open),
};

struct ReadNull {
    memory: Places,
    /// Bytes of the last block.
    len: usize,
}

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    copying::to_null(setup, |block| {
        Ok(ReadNull {
            memory: Places::new(1, block)?,
            len: 0,
        })
    })
}

impl Carry for ReadNull {
    fn carry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        offset: u64,
        len: usize,
        tally: &mut Tally,
    ) -> io::Result<usize> {
        let bytes = self.memory.bytes_mut(0).ok_or(io::ErrorKind::WouldBlock)?;
        tally.calls += 1;
        self.len = rustix::io::pread(from, &mut bytes[..len], offset)?;
        write_whole(&bytes[..self.len], tally, |rest, _| {
            rustix::io::write(to, rest)
        })?;
        Ok(self.len)
    }

    fn carried(&self) -> &[u8] {
        self.memory.bytes(0).map_or(&[], |bytes| &bytes[..self.len])
    }
}

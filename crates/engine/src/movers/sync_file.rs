//! Movers that read or write a file one request after the other. Each row has another system call; the
//! order of the requests is the same.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use bytecost_sys::io_buffers::IoBuffers;
use rustix::fs::SeekFrom;
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwrite};

use crate::block_order::BlockOrder;
use crate::file::{buffers_to_write, too_short, written_places};
use crate::mover::{
    FILE_READ, FILE_WRITE, Move, MoveFile, Mover, MoverFacts, Offer, Open, at_once, finish, whole,
};
use crate::setup::Setup;
use crate::statement::{FROM_FILE, INTO_FILE, NOWAIT, Requirement, SEEKS, SYNCS, call};
use crate::tally::Tally;

pub const READ: Mover = Mover {
    facts: MoverFacts {
        name: "read",
        summary: "read(2) at the file's position; in random order after an lseek(2)",
        ..FILE_READ
    },
    states: FROM_FILE.by(&[call("read"), SEEKS]),
    open: Open::File(|setup| {
        let mut position = Position(0);
        reading(setup, move |file, bytes, offset, tally| {
            position.seek(file, offset, tally)?;
            position.gone(rustix::io::read(file, bytes))
        })
    }),
};

pub const PREAD: Mover = Mover {
    facts: MoverFacts {
        name: "pread",
        summary: "pread(2): the call has the offset, the file position stays",
        ..FILE_READ
    },
    states: FROM_FILE.by(&[call("pread64")]),
    open: Open::File(|setup| reading(setup, |file, bytes, offset, _| pread(file, bytes, offset))),
};

pub const PREADV2: Mover = Mover {
    facts: MoverFacts {
        name: "preadv2",
        summary: "preadv2(2) without flags: what a vector of one buffer costs",
        ..FILE_READ
    },
    states: FROM_FILE.by(&[call("preadv2")]),
    open: Open::File(|setup| {
        reading(setup, |file, bytes, offset, _| {
            let mut vector = [IoSliceMut::new(bytes)];
            preadv2(file, &mut vector, offset, ReadWriteFlags::empty())
        })
    }),
};

pub const PREADV2_NOWAIT: Mover = Mover {
    facts: MoverFacts {
        name: "preadv2-nowait",
        summary: "preadv2(2) with RWF_NOWAIT, and again without it where the page cache has not all",
        ..FILE_READ
    },
    states: FROM_FILE
        .by(&[call("preadv2").with(NOWAIT)])
        .needing(&[Requirement::Nowait]),
    open: Open::File(|setup| reading(setup, nowait)),
};

pub const WRITE: Mover = Mover {
    facts: MoverFacts {
        name: "write",
        summary: "write(2) at the file's position; in random order after an lseek(2)",
        ..FILE_WRITE
    },
    states: INTO_FILE.by(&[call("write"), SEEKS]),
    open: Open::File(|setup| by_position(setup, false)),
};

pub const WRITE_FDATASYNC: Mover = Mover {
    facts: MoverFacts {
        name: "write-fdatasync",
        summary: "write(2) at the file's position; in random order after an lseek(2); fdatasync(2) at the end of each pass through the file",
        caution: Some(PASSES),
        ..FILE_WRITE
    },
    states: INTO_FILE.by(&[call("write"), SEEKS, SYNCS]),
    open: Open::File(|setup| by_position(setup, true)),
};

pub const PWRITE: Mover = Mover {
    facts: MoverFacts {
        name: "pwrite",
        summary: "pwrite(2): the call has the offset, the file position stays",
        ..FILE_WRITE
    },
    states: INTO_FILE.by(&[call("pwrite64")]),
    open: Open::File(|setup| by_offset(setup, false)),
};

pub const PWRITE_FDATASYNC: Mover = Mover {
    facts: MoverFacts {
        name: "pwrite-fdatasync",
        summary: "pwrite(2): the call has the offset, the file position stays; fdatasync(2) at the end of each pass through the file",
        caution: Some(PASSES),
        ..FILE_WRITE
    },
    states: INTO_FILE.by(&[call("pwrite64"), SYNCS]),
    open: Open::File(|setup| by_offset(setup, true)),
};

/// The limit of movers that synchronise, in their facts.
pub(super) const PASSES: &str = "it synchronises once for each pass through the file, so the window must be long enough for some passes: choose --ring and --window with that in mind";

/// Reads what the page cache has, and the rest in a second call, which waits for the disk.
fn nowait(
    file: &OwnedFd,
    bytes: &mut [u8],
    offset: u64,
    tally: &mut Tally,
) -> rustix::io::Result<usize> {
    let mut vector = [IoSliceMut::new(bytes)];
    let some = match preadv2(file, &mut vector, offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN) => 0,
        // The cache has all, or the file ends.
        whole if whole == Ok(bytes.len()) || whole == Ok(0) => return whole,
        part => part?,
    };
    tally.misses += 1;
    tally.calls += 1;
    Ok(some + pread(file, &mut bytes[some..], offset + some as u64)?)
}

fn by_position(setup: Setup, sync: bool) -> io::Result<Box<dyn MoveFile>> {
    let mut position = Position(0);
    writing(setup, sync, move |file, bytes, offset, tally| {
        position.seek(file, offset, tally)?;
        position.gone(rustix::io::write(file, bytes))
    })
}

fn by_offset(setup: Setup, sync: bool) -> io::Result<Box<dyn MoveFile>> {
    writing(setup, sync, |file, bytes, offset, _| {
        pwrite(file, bytes, offset)
    })
}

/// The position of the open file, for calls without an offset.
pub(super) struct Position(pub(super) u64);

impl Position {
    /// Moves the position to an offset by lseek(2), if it is another one.
    pub(super) fn seek(
        &mut self,
        file: &OwnedFd,
        offset: u64,
        tally: &mut Tally,
    ) -> rustix::io::Result<()> {
        if self.0 != offset {
            tally.calls += 1;
            rustix::fs::seek(file, SeekFrom::Start(offset))?;
            self.0 = offset;
        }
        Ok(())
    }

    pub(super) fn gone(&mut self, moved: rustix::io::Result<usize>) -> rustix::io::Result<usize> {
        self.0 += moved? as u64;
        moved
    }
}

/// A mover that reads and waits for each request.
struct Reading<R> {
    file: OwnedFd,
    /// The one buffer of all requests.
    memory: IoBuffers,
    order: BlockOrder,
    offset: u64,
    read: R,
    tally: Tally,
}

/// Reads bytes at an offset of a file into memory. Returns their number, 0 at the end of the file. It
/// counts the system calls that it makes in addition to the first.
pub(super) trait Read:
    FnMut(&OwnedFd, &mut [u8], u64, &mut Tally) -> rustix::io::Result<usize>
{
}

impl<F> Read for F where F: FnMut(&OwnedFd, &mut [u8], u64, &mut Tally) -> rustix::io::Result<usize> {}

pub(super) fn reading(
    mut setup: Setup,
    read: impl Read + 'static,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    Ok(Box::new(Reading {
        file: work.file,
        memory: IoBuffers::new(1, setup.size)?,
        order: work.order,
        offset: 0,
        read,
        tally: Tally::default(),
    }))
}

impl<R: Read> Move for Reading<R> {
    fn offer(&mut self) -> io::Result<Offer> {
        self.offset = self.order.next_offset();
        let bytes = self.memory.bytes_mut(0).ok_or(io::ErrorKind::WouldBlock)?;
        finish(bytes.len(), &mut self.tally, |done, tally| {
            let (rest, at) = (&mut bytes[done..], self.offset + done as u64);
            match (self.read)(&self.file, rest, at, tally)? {
                0 => Err(too_short()),
                came => Ok(came),
            }
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

impl<R: Read> MoveFile for Reading<R> {
    fn inspect(&self, index: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        if let Some(bytes) = self.memory.bytes(index) {
            see(self.offset, &bytes[..bytes.len().min(most)]);
        }
    }
}

/// A mover that writes and waits for each request. `write` writes bytes at an offset of the file and
/// returns their number; it counts the system calls that it makes in addition to the first. With
/// `sync` the file is synchronised at the end of each pass.
fn writing(
    mut setup: Setup,
    sync: bool,
    mut write: impl FnMut(&OwnedFd, &[u8], u64, &mut Tally) -> rustix::io::Result<usize> + 'static,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    let (file, mut order) = (work.file, work.order);
    let memory = buffers_to_write(setup.size, written_places(setup.size, 1))?;
    Ok(at_once(move |tally| {
        let offset = order.next_offset();
        let index = (offset / setup.size as u64) as usize % memory.count();
        let bytes = memory.bytes(index).ok_or(io::ErrorKind::WouldBlock)?;
        whole(bytes.len(), tally, |done, tally| {
            written(write(&file, &bytes[done..], offset + done as u64, tally))
        })?;
        if sync && order.is_at_start() {
            tally.calls += 1;
            rustix::fs::fdatasync(&file)?;
        }
        tally.moved(bytes.len());
        Ok(())
    }))
}

/// The bytes that a write to a file took, which is an error if there are none.
pub(super) fn written(answer: Result<usize, impl Into<io::Error>>) -> io::Result<usize> {
    match answer.map_err(Into::into)? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        went => Ok(went),
    }
}

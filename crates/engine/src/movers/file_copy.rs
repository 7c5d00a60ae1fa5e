//! A file taken to another one or to where nothing is kept, a block with each call or two: each
//! row is another way.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Condition;
use bytecost_sys::io_buffers::IoBuffers;
use bytecost_sys::pipe::{Pipe, moving};
use rustix::fs::{Mode, OFlags};
use rustix::io::{pread, pwrite};
use rustix::pipe::splice;

use super::file_send::PIPE_BYTES;
use super::sync_file::written;
use crate::block_order::BlockOrder;
use crate::file::too_short;
use crate::mover::{
    FILE_COPY, FILE_TO_NULL, Move, MoveFile, Mover, MoverFacts, Offer, Open, finish, whole,
};
use crate::setup::Setup;
use crate::statement::{Each, FILE_TO_FILE, FROM_FILE, INTO_FILE, NOTHING, SPLICES, call};
use crate::tally::Tally;

pub const READ_NULL: Mover = Mover {
    facts: MoverFacts {
        name: "read-null",
        summary: "pread(2) of a block into memory, write(2) of it to /dev/null, which reads no byte: one copy, two calls a block",
        ..FILE_TO_NULL
    },
    states: FROM_FILE.by(&[
        call("pread64").each(Each::Block),
        call("write").each(Each::Block),
    ]),
    open: Open::File(|setup| {
        to_null(setup, |block| {
            Ok(ReadNull {
                memory: IoBuffers::new(1, block)?,
                len: 0,
            })
        })
    }),
};

/// The kernel takes references to the file's pages into a pipe of its own, and `/dev/null` lets go
/// of them (splice_direct_to_actor in fs/splice.c, splice_write_null in drivers/char/mem.c).
pub const SENDFILE_NULL: Mover = Mover {
    facts: MoverFacts {
        name: "sendfile-null",
        summary: "sendfile(2) to /dev/null: references to the file's pages are taken and let go; nothing is copied",
        condition: Some(Condition::NoDataNeeded),
        caution: Some(
            "no byte of the file is touched on the way to /dev/null: this measures the look-up of pages in the page cache, and the disk where they are missing, but no copy; using the data costs more",
        ),
        ..FILE_TO_NULL
    },
    states: NOTHING.by(&[call("sendfile").each(Each::Block)]),
    open: Open::File(|setup| {
        to_null(setup, |_| {
            Ok(|block: Block<'_>, _: &mut Tally| {
                let mut offset = block.offset;
                let sent = rustix::fs::sendfile(block.to, block.from, Some(&mut offset), block.len);
                Ok(sent?)
            })
        })
    }),
};

pub const READ_WRITE_FILE: Mover = Mover {
    facts: MoverFacts {
        name: "read-write-file",
        summary: "pread(2) of a block into memory, pwrite(2) of it to the other file: two copies, two calls a block",
        ..FILE_COPY
    },
    states: FILE_TO_FILE.by(&[
        call("pread64").each(Each::Block),
        call("pwrite64").each(Each::Block),
    ]),
    open: Open::File(|setup| {
        to_file(setup, |block_bytes| {
            let mut memory = IoBuffers::new(1, block_bytes)?;
            Ok(move |block: Block<'_>, tally: &mut Tally| {
                let bytes = block.read(&mut memory)?;
                whole(bytes.len(), tally, |done, _| {
                    written(pwrite(block.to, &bytes[done..], block.offset + done as u64))
                })?;
                Ok(bytes.len())
            })
        })
    }),
};

pub const COPY_FILE_RANGE: Mover = Mover {
    facts: MoverFacts {
        name: "copy_file_range",
        summary: "copy_file_range(2) to the other file: the kernel copies from page to page, one call a block",
        condition: Some(Condition::OneFileSystem),
        caution: Some(
            "a file system that can let two files share their blocks (btrfs, xfs, overlayfs upon these, nfs) may do that in the place of copying; then this measures no copy, and who writes to either file later pays for it",
        ),
        ..FILE_COPY
    },
    states: INTO_FILE.by(&[call("copy_file_range").each(Each::Block)]),
    open: Open::File(|setup| {
        to_file(setup, |_| {
            Ok(|block: Block<'_>, _: &mut Tally| {
                let (mut from, mut to) = (block.offset, block.offset);
                let (at_from, at_to) = (Some(&mut from), Some(&mut to));
                Ok(rustix::fs::copy_file_range(
                    block.from, at_from, block.to, at_to, block.len,
                )?)
            })
        })
    }),
};

pub const SPLICE_FILE: Mover = Mover {
    facts: MoverFacts {
        name: "splice-file",
        summary: "splice(2) into a pipe, which refers to the file's pages, and from there to the other file, which copies them; two calls a block or more",
        descriptors_per_flow: 4,
        ..FILE_COPY
    },
    states: INTO_FILE.by(&[SPLICES.each(Each::Block).times(2)]),
    open: Open::File(|setup| {
        to_file(setup, |_| {
            let pipe = Pipe::new(PIPE_BYTES)?;
            Ok(move |block: Block<'_>, tally: &mut Tally| by_pipe(&pipe, block, tally))
        })
    }),
};

#[derive(Clone, Copy)]
struct Block<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    /// The offset in both files.
    offset: u64,
    len: usize,
}

/// The calls that copy a block from one file to another.
trait Carry {
    /// Copies at most a block. Returns the number of bytes, 0 at the end of the file. Counts all calls but the
    /// first.
    fn carry(&mut self, block: Block<'_>, tally: &mut Tally) -> io::Result<usize>;

    /// The beginning of the block that was carried last, where it can be looked at.
    fn carried(&self) -> &[u8] {
        &[]
    }
}

impl<F: FnMut(Block<'_>, &mut Tally) -> io::Result<usize>> Carry for F {
    fn carry(&mut self, block: Block<'_>, tally: &mut Tally) -> io::Result<usize> {
        self(block, tally)
    }
}

struct ReadNull {
    memory: IoBuffers,
    len: usize,
}

impl Carry for ReadNull {
    fn carry(&mut self, block: Block<'_>, tally: &mut Tally) -> io::Result<usize> {
        let bytes = block.read(&mut self.memory)?;
        self.len = bytes.len();
        whole(bytes.len(), tally, |done, _| {
            written(rustix::io::write(block.to, &bytes[done..]))
        })?;
        Ok(self.len)
    }

    fn carried(&self) -> &[u8] {
        self.memory.bytes(0).map_or(&[], |bytes| &bytes[..self.len])
    }
}

fn by_pipe(pipe: &Pipe, block: Block<'_>, tally: &mut Tally) -> io::Result<usize> {
    let (mut from, into, flags) = (block.offset, &pipe.write, moving(false));
    let filled = splice(block.from, Some(&mut from), into, None, block.len, flags)?;
    // The pipe must be emptied: bytes that stay in it would be lost.
    whole(filled, tally, |done, _| {
        let (mut to, len) = (block.offset + done as u64, filled - done);
        let at = Some(&mut to);
        written(splice(&pipe.read, None, block.to, at, len, flags))
    })?;
    Ok(filled)
}

impl Block<'_> {
    /// Reads it into memory, as far as one call does.
    fn read<'m>(&self, memory: &'m mut IoBuffers) -> io::Result<&'m [u8]> {
        let bytes = memory.bytes_mut(0).ok_or(io::ErrorKind::WouldBlock)?;
        let n = pread(self.from, &mut bytes[..self.len], self.offset)?;
        Ok(&bytes[..n])
    }
}

/// A mover that waits for each call.
struct Copying<C> {
    from: OwnedFd,
    to: OwnedFd,
    order: BlockOrder,
    size: usize,
    block: usize,
    last: u64,
    carry: C,
    tally: Tally,
}

/// A mover of [`Carry`] into a file. `make` gets the most bytes of one request.
fn to_file<C: Carry + 'static>(
    mut setup: Setup,
    make: impl FnOnce(usize) -> io::Result<C>,
) -> io::Result<Box<dyn MoveFile>> {
    let target = setup.file.as_mut().and_then(|work| work.target.take());
    let why = "this mover needs a second file";
    let to = target.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    opened(setup, to, make)
}

fn to_null<C: Carry + 'static>(
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
        order: work.order,
        size: setup.size,
        block,
        last: 0,
        carry: make(block)?,
        tally: Tally::default(),
    }))
}

impl<C: Carry> Move for Copying<C> {
    fn offer(&mut self) -> io::Result<Offer> {
        let start = self.order.next_offset();
        finish(self.size, &mut self.tally, |done, tally| {
            self.last = start + done as u64;
            let block = Block {
                from: &self.from,
                to: &self.to,
                offset: self.last,
                len: self.block.min(self.size - done),
            };
            match self.carry.carry(block, tally)? {
                0 => Err(too_short()),
                went => Ok(went),
            }
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

impl<C: Carry> MoveFile for Copying<C> {
    fn inspect(&self, _index: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        let bytes = self.carry.carried();
        if !bytes.is_empty() {
            see(self.last, &bytes[..bytes.len().min(most)]);
        }
    }
}

//! A file sent over a socket by calls that return when the socket has it: each row is another way.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::Access;
use bytecost_sys::pipe::{Pipe, moving};
use bytecost_sys::region::Region;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use rustix::pipe::splice;

use super::sync_file::Position;
use crate::block_order::BlockOrder;
use crate::corked::Corked;
use crate::file::too_short;
use crate::mover::{FILE_SENT, Move, Mover, MoverFacts, Open, Release, at_once, finish, whole};
use crate::payload::{Layout, Source};
use crate::setup::{FileWork, Setup};
use crate::statement::{CORKS, Each, READ_AND_SENT, Requirement, SEEKS, SPLICES, TAKEN, call};
use crate::tally::Tally;

pub const SENDFILE: Mover = Mover {
    facts: MoverFacts {
        name: "sendfile",
        summary: "sendfile(2) from a file: the socket refers to the file's pages; nothing is copied on the way out",
        release: Release::Never,
        ..FILE_SENT
    },
    states: TAKEN.by(&[call("sendfile")]),
    open: Open::Stream(sendfile),
};

/// The call that brings the file then never sends a segment that is not full, whatever pieces the
/// kernel cuts the file into; what is left goes out when the cork is taken off. Source: tcp(7),
/// TCP_CORK, which was made for this pair.
pub const SENDFILE_CORK: Mover = Mover {
    facts: MoverFacts {
        name: "sendfile-cork",
        summary: "as sendfile, with TCP_CORK set before each message and taken off after it: no segment but the last goes out before it is full",
        descriptors_per_flow: 3,
        ..SENDFILE.facts
    },
    states: TAKEN
        .by(&[CORKS, call("sendfile")])
        .needing(&[Requirement::Tcp]),
    open: Open::Stream(|setup| {
        let socket = setup.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let kept = socket.try_clone()?;
        Ok(Box::new(Corked::new(sendfile(setup)?, kept)))
    }),
};

pub const SPLICE: Mover = Mover {
    facts: MoverFacts {
        name: "splice",
        summary: "splice(2) from a file through a pipe: the socket refers to the file's pages; two calls a message or more",
        release: Release::Never,
        descriptors_per_flow: 4,
        ..FILE_SENT
    },
    states: TAKEN.by(&[SPLICES.times(2)]),
    open: Open::Stream(|setup| {
        let pipe = Pipe::new(PIPE_BYTES)?;
        sending(setup, |_| {
            Ok(move |message: &Message<'_>, tally: &mut Tally| {
                let fill = |done: usize, len: usize| {
                    let mut from = message.offset + done as u64;
                    let to = &pipe.write;
                    match splice(message.file, Some(&mut from), to, None, len, moving(false)) {
                        Ok(0) => Err(too_short()),
                        Ok(n) => Ok(n),
                        Err(e) => Err(spliced(e)),
                    }
                };
                through_pipe(message.size, &pipe, message.socket, tally, fill)
            })
        })
    }),
};

/// The copy loop of a program that knows nothing of sockets.
pub const READ_WRITE: Mover = Mover {
    facts: MoverFacts {
        name: "read-write",
        summary: "read(2) of `block` bytes of a file into a buffer, write(2) of them to the socket, until its end: the kernel copies twice",
        ..FILE_SENT
    },
    states: READ_AND_SENT.by(&[
        call("read").each(Each::Block),
        call("write").each(Each::Block),
        SEEKS,
    ]),
    open: Open::Stream(|setup| {
        sending(setup, |work| {
            rustix::fs::seek(&work.file, SeekFrom::Start(0))?;
            let mut buffer = Region::new(work.block.max(1))?;
            let mut position = Position(0);
            Ok(move |message: &Message<'_>, tally: &mut Tally| {
                position.seek(message.file, message.offset, tally)?;
                finish(message.size, tally, |done, tally| {
                    let most = buffer.bytes().len().min(message.size - done);
                    let read = rustix::io::read(message.file, &mut buffer.bytes_mut()[..most]);
                    let bytes = match position.gone(read)? {
                        0 => return Err(too_short()),
                        came => &buffer.bytes()[..came],
                    };
                    whole(bytes.len(), tally, |written, _| {
                        Ok(rustix::io::write(message.socket, &bytes[written..])?)
                    })?;
                    Ok(bytes.len())
                })
            })
        })
    }),
};

/// The largest pipe that a user may ask for by default (fs.pipe-max-size).
pub(super) const PIPE_BYTES: usize = 1 << 20;
/// Bytes of one call where the setup names no file, and so no block size.
const BLOCK_BYTES: usize = 64 << 10;

struct Message<'a> {
    socket: &'a OwnedFd,
    file: &'a OwnedFd,
    offset: u64,
    size: usize,
}

/// A mover that sends a file block by block. `make` creates the function that sends a whole message.
fn sending<F: FnMut(&Message<'_>, &mut Tally) -> io::Result<()> + 'static>(
    mut setup: Setup,
    make: impl FnOnce(&FileWork) -> io::Result<F>,
) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let mut work = take(&mut setup)?;
    let mut send = make(&work)?;
    Ok(at_once(move |tally| {
        let message = Message {
            socket: &socket,
            file: &work.file,
            offset: work.order.next_offset(),
            size: setup.size,
        };
        send(&message, tally)
    }))
}

fn sendfile(setup: Setup) -> io::Result<Box<dyn Move>> {
    sending(setup, |_| {
        Ok(|message: &Message<'_>, tally: &mut Tally| {
            finish(message.size, tally, |done, _| {
                let mut offset = message.offset + done as u64;
                let left = message.size - done;
                match rustix::fs::sendfile(message.socket, message.file, Some(&mut offset), left) {
                    Ok(0) => Err(too_short()),
                    Ok(n) => Ok(n),
                    Err(e) => Err(spliced(e)),
                }
            })
        })
    })
}

/// Moves a message through a pipe, which is filled as far as possible and emptied again and again.
pub(super) fn through_pipe(
    size: usize,
    pipe: &Pipe,
    socket: &OwnedFd,
    tally: &mut Tally,
    mut fill: impl FnMut(usize, usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut waiting = 0;
    finish(size, tally, |done, tally| {
        if waiting == 0 {
            tally.calls += 1;
            waiting = fill(done, size - done)?;
        }
        let flags = moving(done + waiting < size);
        let drained = splice(&pipe.read, None, socket, None, waiting, flags)?;
        waiting -= drained;
        Ok(drained)
    })
}

/// Takes the file that is sent out of the setup; without one, a memory file of one round of the ring.
pub(super) fn take(setup: &mut Setup) -> io::Result<FileWork> {
    setup.write_once()?;
    if let Some(work) = setup.file.take() {
        return Ok(work);
    }
    let (_, region) = Source::new(setup, Layout::contiguous(setup))?;
    let file = rustix::fs::memfd_create("bytecost-payload", rustix::fs::MemfdFlags::CLOEXEC)?;
    crate::file::write_all(&file, region.bytes(), 0)?;
    let (slots, size) = (setup.slots as u64, setup.size as u64);
    Ok(FileWork {
        file,
        order: BlockOrder::new(Access::Sequential, 0, slots, size, 0),
        depth: 1,
        block: BLOCK_BYTES,
        target: None,
    })
}

/// The error of splice(2) or sendfile(2), with an explanation if the file system cannot splice.
pub(super) fn spliced(error: Errno) -> io::Error {
    match error {
        Errno::INVAL | Errno::NOSYS => io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "this file cannot be spliced to a socket ({error}): its file system has no splice; choose another directory with --dir, or read-write"
            ),
        ),
        e => e.into(),
    }
}

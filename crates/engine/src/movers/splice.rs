//! `splice`: from a file into a pipe, from the pipe to the socket.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Release;
use bytecost_sys::pipe::Pipe;
use rustix::io::Errno;

use super::sent_file::{spliced, take};
use crate::file::too_short;
use crate::mover::{FILE_SENT, Move, Mover, MoverFacts, Offer, Open, finish};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "splice",
        summary: "splice(2) from a file through a pipe: the socket refers to the file's pages; two calls a message or more",
        release: Release::Never,
        descriptors_per_flow: 4,
        ..FILE_SENT
    },
    open: Open::Stream(open),
};

/// The largest pipe that a user may ask for by default (fs.pipe-max-size).
pub(super) const PIPE_BYTES: usize = 1 << 20;

struct Splice {
    socket: OwnedFd,
    file: OwnedFd,
    pipe: Pipe,
    walk: Walk,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    let pipe = Pipe::new(PIPE_BYTES)?;
    Ok(Box::new(Splice {
        socket,
        file: work.file,
        pipe,
        walk: work.walk,
        size: setup.size,
        tally: Tally::default(),
    }))
}

impl Move for Splice {
    fn offer(&mut self) -> io::Result<Offer> {
        let start = self.walk.step();
        let fill = |done: usize, len: usize| {
            let filled = self
                .pipe
                .fill_from_file(&self.file, start + done as u64, len);
            match filled {
                Ok(0) => Err(too_short()),
                Ok(n) => Ok(n),
                Err(e) => Err(Errno::from_io_error(&e).map_or(e, spliced)),
            }
        };
        through_pipe(self.size, &self.pipe, &self.socket, &mut self.tally, fill)?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// Moves a message through a pipe: fills it with what fits, empties it, and so on.
pub(super) fn through_pipe(
    size: usize,
    pipe: &Pipe,
    socket: &OwnedFd,
    tally: &mut Tally,
    mut fill: impl FnMut(usize, usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut waiting = 0;
    let mut fills = 0;
    finish(size, tally, |done| {
        if waiting == 0 {
            fills += 1;
            waiting = fill(done, size - done)?;
        }
        let drained = pipe.drain(socket, waiting, done + waiting < size)?;
        waiting -= drained;
        Ok(drained)
    })?;
    tally.calls += fills;
    Ok(())
}

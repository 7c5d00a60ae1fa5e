//! `sendfile`: from a file to the socket, without passing through user memory.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Release;

use super::sent_file::{spliced, take};
use crate::corked::Corked;
use crate::file::too_short;
use crate::mover::{FILE_SENT, Move, Mover, MoverFacts, Offer, Open, finish};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "sendfile",
        summary: "sendfile(2) from a file: the socket refers to the file's pages; nothing is copied on the way out",
        release: Release::Never,
        ..FILE_SENT
    },
    open: Open::Stream(open),
};

/// The call that brings the file then never sends a segment that is not full, whatever pieces the
/// kernel cuts the file into; what is left goes out when the cork is taken off. Source: tcp(7),
/// TCP_CORK, which was made for this pair.
pub const WITH_CORK: Mover = Mover {
    facts: MoverFacts {
        name: "sendfile-cork",
        summary: "as sendfile, with TCP_CORK set before each message and taken off after it: no segment but the last goes out before it is full",
        descriptors_per_flow: 3,
        ..MOVER.facts
    },
    open: Open::Stream(|setup| {
        let socket = setup.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let kept = socket.try_clone()?;
        Ok(Box::new(Corked::new(open(setup)?, kept)))
    }),
};

struct Sendfile {
    socket: OwnedFd,
    file: OwnedFd,
    walk: Walk,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    Ok(Box::new(Sendfile {
        socket,
        file: work.file,
        walk: work.walk,
        size: setup.size,
        tally: Tally::default(),
    }))
}

impl Move for Sendfile {
    fn offer(&mut self) -> io::Result<Offer> {
        let start = self.walk.step();
        finish(self.size, &mut self.tally, |done| {
            let mut offset = start + done as u64;
            let left = self.size - done;
            match rustix::fs::sendfile(&self.socket, &self.file, Some(&mut offset), left) {
                Ok(0) => Err(too_short()),
                Ok(n) => Ok(n),
                Err(e) => Err(spliced(e)),
            }
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

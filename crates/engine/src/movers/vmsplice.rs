//! `vmsplice`: pages of user memory into a pipe, from the pipe to the socket.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Release;
use bytecost_sys::pipe::Pipe;
use bytecost_sys::region::Region;

use super::file_send::{PIPE_BYTES, through_pipe};
use crate::mover::{Move, Mover, MoverFacts, Offer, Open, STREAM};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::{SPLICES, TAKEN, call};
use crate::tally::Tally;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "vmsplice",
        summary: "vmsplice(2) of user pages into a pipe, splice(2) to the socket: nothing is copied on the way out, and nothing ever says when the pages are free",
        release: Release::Never,
        descriptors_per_flow: 3,
        caution: Some(
            "vmsplice has no completion at all: the pages may be read until the peer has read them, so a program that writes \
         to them again sends something else",
        ),
        ..STREAM
    },
    states: TAKEN.by(&[call("vmsplice"), SPLICES]),
    open: Open::Stream(open),
};

struct Vmsplice {
    socket: OwnedFd,
    pipe: Pipe,
    source: Source,
    region: Region,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    setup.write_once()?;
    let (source, region) = Source::new(&setup, Layout::contiguous(&setup))?;
    let pipe = Pipe::new(PIPE_BYTES)?;
    Ok(Box::new(Vmsplice {
        socket,
        pipe,
        source,
        region,
        size: setup.size,
        tally: Tally::default(),
    }))
}

impl Move for Vmsplice {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(self.region.bytes_mut());
        let range = self.source.layout().range(slot, 0);
        let fill = |done: usize, _| {
            self.pipe
                .fill_from_memory(&self.region, range.start + done..range.end)
        };
        through_pipe(self.size, &self.pipe, &self.socket, &mut self.tally, fill)?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

//! `vmsplice`: pages of user memory into a pipe, from the pipe to the socket.

use std::io;

use bytecost_spec::survey::Release;
use bytecost_sys::pipe::Pipe;

use super::file_send::{PIPE_BYTES, through_pipe};
use crate::mover::{Move, Mover, MoverFacts, Open, STREAM, at_once};
use crate::payload::{Layout, Source};
use crate::setup::Setup;
use crate::statement::{SPLICES, TAKEN, call};

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

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    setup.write_once()?;
    let (mut source, mut region) = Source::new(&setup, Layout::contiguous(&setup))?;
    let pipe = Pipe::new(PIPE_BYTES)?;
    Ok(at_once(move |tally| {
        let slot = source.begin(region.bytes_mut());
        let range = source.layout().range(slot, 0);
        let fill = |done, _| pipe.fill_from_memory(&region, range.start + done..range.end);
        through_pipe(setup.size, &pipe, &socket, tally, fill)
    }))
}

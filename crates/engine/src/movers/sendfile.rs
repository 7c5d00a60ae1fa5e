//! `sendfile`: from a memory file to the socket, without passing through user memory.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Release;

use super::{InFlight, Move, Mover, Offer, Route, Setup, Tally, finish};
use crate::payload::{Layout, Source};

pub const MOVER: Mover = Mover {
    name: "sendfile",
    summary: "sendfile(2) from a memory file: the socket refers to the file's pages; nothing is copied on the way out",
    route: Route::FileToSocket,
    in_flight: InFlight::One,
    release: Release::Never,
    uses_fields: false,
    locks_rings: 0,
    descriptors_per_flow: 2,
    leaves_completions: false,
    caution: None,
    open,
};

struct Sendfile {
    socket: OwnedFd,
    file: OwnedFd,
    source: Source,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let (file, source) = memory_file(&mut setup)?;
    Ok(Box::new(Sendfile {
        socket,
        file,
        source,
        size: setup.size,
        tally: Tally::default(),
    }))
}

/// A memory file that holds one round of the ring.
pub(super) fn memory_file(setup: &mut Setup) -> io::Result<(OwnedFd, Source)> {
    setup.write_once()?;
    let (source, region) = Source::new(setup, Layout::contiguous(setup))?;
    let file = rustix::fs::memfd_create("bytecost-payload", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut written = 0;
    while written < region.len() {
        written += rustix::io::pwrite(&file, &region.bytes()[written..], written as u64)?;
    }
    Ok((file, source))
}

impl Move for Sendfile {
    fn offer(&mut self) -> io::Result<Offer> {
        let slot = self.source.begin(&mut []);
        let start = self.source.layout().range(slot, 0).start;
        finish(self.size, &mut self.tally, |done| {
            let mut offset = (start + done) as u64;
            Ok(rustix::fs::sendfile(
                &self.socket,
                &self.file,
                Some(&mut offset),
                self.size - done,
            )?)
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

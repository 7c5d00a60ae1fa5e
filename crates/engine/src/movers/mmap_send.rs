//! `mmap-send`: the file mapped, and sent from the mapping.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::file_map::FileMap;
use rustix::io::Errno;

use super::sent_file::take;
use crate::file::too_short;
use crate::mover::{FILE_SENT, Move, Mover, MoverFacts, Offer, Open, finish};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "mmap-send",
        summary: "mmap(2) of the file in each pass, send(2) of `block` bytes of the mapping after the other: the kernel copies once, and its copy faults the pages in",
        ..FILE_SENT
    },
    open: Open::Stream(open),
};

struct MmapSend {
    socket: OwnedFd,
    file: OwnedFd,
    walk: Walk,
    map: Option<FileMap>,
    size: usize,
    block: usize,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    Ok(Box::new(MmapSend {
        socket,
        file: work.file,
        walk: work.walk,
        map: None,
        size: setup.size,
        block: work.block.max(1),
        tally: Tally::default(),
    }))
}

impl MmapSend {
    /// Maps the file from its beginning to the end of the walk's part. A pass has a mapping of
    /// its own, as a program has that sends a file once: in one that was touched before no page
    /// is left to be faulted in.
    fn ready(&mut self) -> io::Result<()> {
        if self.walk.is_at_start() && self.map.take().is_some() {
            self.tally.calls += 1;
        }
        if self.map.is_none() {
            let (from, len) = self.walk.part();
            let whole = usize::try_from(from + len).map_err(|_| io::ErrorKind::InvalidInput)?;
            self.tally.calls += 1;
            self.map = Some(FileMap::new(&self.file, 0, whole)?);
        }
        Ok(())
    }
}

impl Move for MmapSend {
    fn offer(&mut self) -> io::Result<Offer> {
        self.ready()?;
        let start = self.walk.step() as usize;
        let Some(map) = &self.map else {
            return Err(io::ErrorKind::NotFound.into());
        };
        finish(self.size, &mut self.tally, |done| {
            let len = self.block.min(self.size - done);
            map.send(&self.socket, start + done, len)
                .map_err(|e| match Errno::from_io_error(&e) {
                    Some(Errno::FAULT) => too_short(),
                    _ => e,
                })
        })?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn let_go(&mut self) -> io::Result<()> {
        self.map = None;
        Ok(())
    }
}

//! `mmap-touch`: the file mapped, and each of its pages touched.

use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::file_map::FileMap;
use rustix::fs::OFlags;

use crate::mover::{FILE_READ, Move, MoveFile, Mover, MoverFacts, Offer, Open};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

pub const MOVER: Mover = Mover {
    facts: MoverFacts {
        name: "mmap-touch",
        summary: "mmap(2) of the whole file in each pass, and one byte read of each page: nothing is copied",
        caution: Some(
            "it touches one byte of each page where others copy all of it: a program that then reads them all pays for that later",
        ),
        ..FILE_READ
    },
    open: Open::File(open),
};

struct MmapTouch {
    file: OwnedFd,
    walk: Walk,
    map: Option<FileMap>,
    size: usize,
    offset: u64,
    tally: Tally,
}

fn open(mut setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    if rustix::fs::fcntl_getfl(&work.file)?.contains(OFlags::DIRECT) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a mapping shows the page cache, so nothing goes past it",
        ));
    }
    Ok(Box::new(MmapTouch {
        file: work.file,
        walk: work.walk,
        map: None,
        size: setup.size,
        offset: 0,
        tally: Tally::default(),
    }))
}

impl MmapTouch {
    /// Maps the file from its beginning to the end of the walk's part. A pass has a mapping of
    /// its own: in one that was touched before nothing is left to be done.
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

impl Move for MmapTouch {
    fn offer(&mut self) -> io::Result<Offer> {
        self.ready()?;
        self.offset = self.walk.step();
        if let Some(map) = &self.map {
            black_box(map.touch(self.offset as usize, self.size));
        }
        self.tally.messages += 1;
        self.tally.bytes += self.size as u64;
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

impl MoveFile for MmapTouch {
    fn look(&self, _place: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        let Some(map) = &self.map else { return };
        let mut piece = [0; 4096];
        let mut at = 0;
        while at < self.size.min(most) {
            let part = &mut piece[..(self.size.min(most) - at).min(4096)];
            let got = map.copy(self.offset as usize + at, part);
            see(self.offset + at as u64, &part[..got]);
            at += part.len();
        }
    }
}

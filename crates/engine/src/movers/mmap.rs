//! A file mapped in each pass: its pages sent from the mapping, or touched.

use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::survey::Condition;
use bytecost_sys::file_map::FileMap;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::file_send::take;
use crate::block_order::BlockOrder;
use crate::file::too_short;
use crate::mover::{FILE_READ, FILE_SENT, Move, MoveFile, Mover, MoverFacts, Offer, Open, finish};
use crate::setup::FileWork;
use crate::statement::{Each, MAPS, NOTHING, Requirement, SENDTO, SENT, UNMAPS};
use crate::tally::Tally;

pub const SEND: Mover = Mover {
    facts: MoverFacts {
        name: "mmap-send",
        summary: "mmap(2) of the file in each pass, send(2) of `block` bytes of the mapping after the other: the kernel copies once, and its copy faults the pages in",
        ..FILE_SENT
    },
    states: SENT.by(&[MAPS, SENDTO.each(Each::Block), UNMAPS]),
    open: Open::Stream(|mut setup| {
        let socket = setup.take_socket()?;
        let work = take(&mut setup)?;
        let (size, block) = (setup.size, work.block.max(1));
        Ok(by_map(work, size, move |map, start, tally| {
            finish(size, tally, |done, _| {
                let sent = map.send(&socket, start + done, block.min(size - done));
                sent.map_err(|e| match Errno::from_io_error(&e) {
                    Some(Errno::FAULT) => too_short(),
                    _ => e,
                })
            })
        }))
    }),
};

pub const TOUCH: Mover = Mover {
    facts: MoverFacts {
        name: "mmap-touch",
        summary: "mmap(2) of the whole file in each pass, and one byte read of each page: nothing is copied",
        condition: Some(Condition::OneByteOfEachPage),
        caution: Some(
            "it touches one byte of each page where others copy all of it: a program that then reads them all pays for that later",
        ),
        ..FILE_READ
    },
    states: NOTHING
        .by(&[MAPS, UNMAPS])
        .needing(&[Requirement::PageCache]),
    open: Open::File(|mut setup| {
        let work = setup.take_file()?;
        if rustix::fs::fcntl_getfl(&work.file)?.contains(OFlags::DIRECT) {
            let why = "a mapping shows the page cache, so nothing goes past it";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let size = setup.size;
        Ok(by_map(work, size, move |map, start, tally| {
            black_box(map.touch(start, size));
            tally.moved(size);
            Ok(())
        }))
    }),
};

struct Mapped {
    file: OwnedFd,
    order: BlockOrder,
    map: Option<FileMap>,
}

impl Mapped {
    /// The mapping, from the beginning of the file to the end of the last block, and the offset of the
    /// next request in it. Each pass makes a new mapping, as a program does that reads a file once: all
    /// pages of the mapping of an earlier pass are present, so that none would fault.
    fn next_request(&mut self, tally: &mut Tally) -> io::Result<(&FileMap, usize)> {
        if self.order.is_at_start() && self.map.take().is_some() {
            tally.calls += 1;
        }
        if self.map.is_none() {
            let (from, len) = self.order.part();
            let whole = usize::try_from(from + len).map_err(|_| io::ErrorKind::InvalidInput)?;
            tally.calls += 1;
            self.map = Some(FileMap::new(&self.file, 0, whole)?);
        }
        let start = self.order.next_offset() as usize;
        let map = self.map.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok((map, start))
    }
}

/// A mover that calls `step` for each message with the mapping and the message's offset in it.
struct ByMap<F> {
    mapped: Mapped,
    size: usize,
    offset: usize,
    step: F,
    tally: Tally,
}

/// Moves the message at an offset of the mapping, and counts it.
trait Step: FnMut(&FileMap, usize, &mut Tally) -> io::Result<()> {}

impl<F: FnMut(&FileMap, usize, &mut Tally) -> io::Result<()>> Step for F {}

fn by_map(work: FileWork, size: usize, step: impl Step) -> Box<impl MoveFile> {
    Box::new(ByMap {
        mapped: Mapped {
            file: work.file,
            order: work.order,
            map: None,
        },
        size,
        offset: 0,
        step,
        tally: Tally::default(),
    })
}

impl<F: Step> Move for ByMap<F> {
    fn offer(&mut self) -> io::Result<Offer> {
        let (map, start) = self.mapped.next_request(&mut self.tally)?;
        self.offset = start;
        (self.step)(map, start, &mut self.tally)?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn let_go(&mut self) -> io::Result<()> {
        self.mapped.map = None;
        Ok(())
    }
}

impl<F: Step> MoveFile for ByMap<F> {
    fn inspect(&self, _index: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        let Some(map) = &self.mapped.map else { return };
        let mut piece = [0; 4096];
        let mut at = 0;
        while at < self.size.min(most) {
            let part = &mut piece[..(self.size.min(most) - at).min(4096)];
            let got = map.copy(self.offset + at, part);
            see((self.offset + at) as u64, &part[..got]);
            at += part.len();
        }
    }
}

//! The queue of requests of movers that have several to a file in flight.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_sys::io_buffers::IoBuffers;
use bytecost_sys::request_queue::RequestQueue;

use crate::file::{too_short, written_places};
use crate::mover::{Move, MoveFile, Offer};
use crate::setup::Setup;
use crate::tally::Tally;
use crate::walk::Walk;

/// All that may be in flight is handed over in so many portions. In one, the device would wait for
/// work until the last of it is prepared; one by one, each request would pay for a system call.
const PORTIONS: usize = 8;

pub(super) struct Queued<Q> {
    queue: Q,
    walk: Walk,
    size: usize,
    depth: usize,
    patience: Duration,
    in_flight: usize,
    /// Requests that were queued since some were handed over last.
    held_back: usize,
    free: Vec<usize>,
    writes: bool,
    /// The file, where it is to be synchronised at the end of each pass.
    synced: Option<OwnedFd>,
    next: Option<u64>,
    /// By place, the offset of its request.
    offsets: Vec<u64>,
    place: usize,
    tally: Tally,
}

pub(super) fn reading<Q: RequestQueue + 'static>(
    mut setup: Setup,
    make: impl FnOnce(OwnedFd, IoBuffers) -> io::Result<Q>,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    let (walk, depth) = (work.walk, work.depth.max(1));
    let queue = make(work.file, IoBuffers::new(depth, setup.size)?)?;
    Ok(Box::new(Queued::new(queue, walk, depth, &setup)))
}

/// With `sync` the file is synchronised at the end of each pass.
pub(super) fn writing<Q: RequestQueue + 'static>(
    mut setup: Setup,
    sync: bool,
    make: impl FnOnce(OwnedFd, IoBuffers) -> io::Result<Q>,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    let (walk, depth) = (work.walk, work.depth.max(1));
    let places = crate::file::to_be_written(setup.size, written_places(setup.size, depth))?;
    let synced = sync.then(|| work.file.try_clone()).transpose()?;
    let queue = make(work.file, places)?;
    Ok(Box::new(Queued {
        writes: true,
        synced,
        ..Queued::new(queue, walk, depth, &setup)
    }))
}

impl<Q: RequestQueue> Queued<Q> {
    fn new(queue: Q, walk: Walk, depth: usize, setup: &Setup) -> Queued<Q> {
        let places = queue.places().count();
        Queued {
            queue,
            walk,
            size: setup.size,
            depth,
            patience: setup.patience,
            in_flight: 0,
            held_back: 0,
            free: (0..depth).rev().collect(),
            writes: false,
            synced: None,
            next: None,
            offsets: vec![0; places],
            place: 0,
            tally: Tally::default(),
        }
    }

    /// Synchronises the file at the end of a pass; false while something is in flight.
    fn synchronised(&mut self) -> io::Result<bool> {
        let Some(file) = &self.synced else {
            return Ok(true);
        };
        if !self.walk.is_at_start() || self.tally.messages == 0 {
            return Ok(true);
        }
        if self.in_flight > 0 {
            return Ok(false);
        }
        self.tally.calls += 1;
        rustix::fs::fdatasync(file)?;
        Ok(true)
    }

    fn free_place(&mut self, offset: u64) -> Option<usize> {
        if !self.writes {
            return self.free.pop();
        }
        // What a block holds is decided by its number, so its place is too.
        let place = (offset / self.size as u64) as usize % self.offsets.len();
        let busy = self.in_flight == self.depth || self.queue.places().is_busy(place);
        (!busy).then_some(place)
    }
}

impl<Q: RequestQueue> Move for Queued<Q> {
    fn offer(&mut self) -> io::Result<Offer> {
        let offset = match self.next.take() {
            Some(offset) => offset,
            None if self.in_flight == self.depth || !self.synchronised()? => {
                return Ok(Offer::Full);
            }
            None => self.walk.step(),
        };
        let Some(place) = self.free_place(offset) else {
            self.next = Some(offset);
            return Ok(Offer::Full);
        };
        self.tally.calls += Q::CALLS_TO_START;
        self.queue.start(place, offset)?;
        self.offsets[place] = offset;
        self.place = place;
        self.in_flight += 1;
        self.held_back += 1;
        if self.held_back >= self.depth.div_ceil(PORTIONS) {
            self.held_back = 0;
            let calls = self.queue.enter(0, Duration::ZERO)?;
            self.tally.calls += calls.unwrap_or(0);
        }
        Ok(Offer::Queued)
    }

    fn reap(&mut self, min: u32) -> io::Result<()> {
        let min = (min as usize).min(self.in_flight);
        self.held_back = 0;
        if let Some(calls) = self.queue.enter(min, self.patience)? {
            self.tally.calls += calls;
            return Ok(());
        }
        let why = "no request to the file was over for as long as patience lasts";
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

impl<Q: RequestQueue> MoveFile for Queued<Q> {
    fn place(&self) -> usize {
        self.place
    }

    fn finished(&mut self) -> io::Result<Option<usize>> {
        let Some((place, result)) = self.queue.finished() else {
            return Ok(None);
        };
        self.in_flight -= 1;
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        if result as usize != self.size {
            return Err(too_short());
        }
        if !self.writes {
            self.free.push(place);
        }
        self.tally.moved(self.size);
        Ok(Some(place))
    }

    fn look(&self, place: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        if let Some(bytes) = self.queue.places().bytes(place) {
            see(self.offsets[place], &bytes[..bytes.len().min(most)]);
        }
    }
}

//! Movers that keep several requests to a file in flight, by one queue of requests.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_sys::io_buffers::IoBuffers;
use bytecost_sys::request_queue::RequestQueue;

use crate::block_order::BlockOrder;
use crate::file::{too_short, written_places};
use crate::mover::{Move, MoveFile, Offer};
use crate::setup::Setup;
use crate::tally::Tally;

/// Number of portions in which requests are submitted until `depth` of them are in flight. With one
/// portion the device would be idle until all are prepared; one by one, each would cost a system call.
const PORTIONS: usize = 8;

pub(super) struct Queued<Q> {
    queue: Q,
    order: BlockOrder,
    size: usize,
    depth: usize,
    patience: Duration,
    in_flight: usize,
    /// Requests that were queued since the last submission.
    not_submitted: usize,
    /// Indices of buffers without a request, of a mover that reads.
    free: Vec<usize>,
    writes: bool,
    /// The file, where it is to be synchronised at the end of each pass.
    synced: Option<OwnedFd>,
    /// The offset of a request for which no buffer was free.
    postponed: Option<u64>,
    /// The offset of the last request of each buffer, by index.
    offsets: Vec<u64>,
    /// The index of the buffer of the last request.
    index: usize,
    tally: Tally,
}

pub(super) fn reading<Q: RequestQueue + 'static>(
    mut setup: Setup,
    make: impl FnOnce(OwnedFd, IoBuffers) -> io::Result<Q>,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    let (order, depth) = (work.order, work.depth.max(1));
    let queue = make(work.file, IoBuffers::new(depth, setup.size)?)?;
    Ok(Box::new(Queued::new(queue, order, depth, &setup)))
}

/// With `sync` the file is synchronised at the end of each pass.
pub(super) fn writing<Q: RequestQueue + 'static>(
    mut setup: Setup,
    sync: bool,
    make: impl FnOnce(OwnedFd, IoBuffers) -> io::Result<Q>,
) -> io::Result<Box<dyn MoveFile>> {
    let work = setup.take_file()?;
    let (order, depth) = (work.order, work.depth.max(1));
    let buffers = crate::file::buffers_to_write(setup.size, written_places(setup.size, depth))?;
    let synced = sync.then(|| work.file.try_clone()).transpose()?;
    let queue = make(work.file, buffers)?;
    Ok(Box::new(Queued {
        writes: true,
        synced,
        ..Queued::new(queue, order, depth, &setup)
    }))
}

impl<Q: RequestQueue> Queued<Q> {
    fn new(queue: Q, order: BlockOrder, depth: usize, setup: &Setup) -> Queued<Q> {
        let buffers = queue.buffers().count();
        Queued {
            queue,
            order,
            size: setup.size,
            depth,
            patience: setup.patience,
            in_flight: 0,
            not_submitted: 0,
            free: (0..depth).rev().collect(),
            writes: false,
            synced: None,
            postponed: None,
            offsets: vec![0; buffers],
            index: 0,
            tally: Tally::default(),
        }
    }

    /// Synchronises the file at the end of a pass; false while something is in flight.
    fn synchronised(&mut self) -> io::Result<bool> {
        let Some(file) = &self.synced else {
            return Ok(true);
        };
        if !self.order.is_at_start() || self.tally.messages == 0 {
            return Ok(true);
        }
        if self.in_flight > 0 {
            return Ok(false);
        }
        self.tally.calls += 1;
        rustix::fs::fdatasync(file)?;
        Ok(true)
    }

    fn free_index(&mut self, offset: u64) -> Option<usize> {
        if !self.writes {
            return self.free.pop();
        }
        // The number of a block decides its content, and so its buffer.
        let index = (offset / self.size as u64) as usize % self.offsets.len();
        let busy = self.in_flight == self.depth || self.queue.buffers().is_busy(index);
        (!busy).then_some(index)
    }
}

impl<Q: RequestQueue> Move for Queued<Q> {
    fn offer(&mut self) -> io::Result<Offer> {
        let offset = match self.postponed.take() {
            Some(offset) => offset,
            None if self.in_flight == self.depth || !self.synchronised()? => {
                return Ok(Offer::Full);
            }
            None => self.order.next_offset(),
        };
        let Some(index) = self.free_index(offset) else {
            self.postponed = Some(offset);
            return Ok(Offer::Full);
        };
        self.tally.calls += Q::CALLS_TO_START;
        self.queue.start(index, offset)?;
        self.offsets[index] = offset;
        self.index = index;
        self.in_flight += 1;
        self.not_submitted += 1;
        if self.not_submitted >= self.depth.div_ceil(PORTIONS) {
            self.not_submitted = 0;
            let calls = self.queue.enter(0, Duration::ZERO)?;
            self.tally.calls += calls.unwrap_or(0);
        }
        Ok(Offer::Queued)
    }

    fn reap(&mut self, min: u32) -> io::Result<()> {
        let min = (min as usize).min(self.in_flight);
        self.not_submitted = 0;
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
    fn index(&self) -> usize {
        self.index
    }

    fn finished(&mut self) -> io::Result<Option<usize>> {
        let Some((index, result)) = self.queue.finished() else {
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
            self.free.push(index);
        }
        self.tally.moved(self.size);
        Ok(Some(index))
    }

    fn inspect(&self, index: usize, most: usize, see: &mut dyn FnMut(u64, &[u8])) {
        if let Some(bytes) = self.queue.buffers().bytes(index) {
            see(self.offsets[index], &bytes[..bytes.len().min(most)]);
        }
    }
}

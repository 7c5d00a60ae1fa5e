//! The loop of requests to a file: one flow, from warm-up to the last request.

use std::io;

use bytecost_engine::{MoveFile, Offer, PayloadPattern, Tally, WrongBytes};
use bytecost_meter::Meter;
use bytecost_sys::clock;
use hdrhistogram::Histogram;

use crate::edges::{LoopBody, Sampling, Segments, WindowEnd, by_gate};
use crate::flow::histogram;
use crate::phase::Gate;

/// The most passes of a cold file in one window.
pub const MAX_PASSES: usize = 1000;

/// The expected bytes of a file.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// The file's content.
    pub pattern: PayloadPattern,
    /// The most first bytes of a request that are compared.
    pub most: usize,
}

/// A function that makes the file cold again.
pub type Cool<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// The loop body of requests without pause, as many in flight as the mover accepts.
pub struct Requests<'a> {
    mover: &'a mut dyn MoveFile,
    content: Option<Content>,
    /// Requests of a pass, and the function that makes the file cold again.
    cold: Option<(u64, Cool<'a>)>,
    offered: u64,
    in_flight: u32,
    /// The beginning of the request in each buffer, in ns of CLOCK_MONOTONIC.
    began_ns: Vec<u64>,
    last_ns: u64,
    timed: bool,
    /// Time of each request, within the window, in ns.
    pub latency_ns: Histogram<u64>,
    /// Bytes whose content was compared.
    pub compared_bytes: u64,
}

impl<'a> Requests<'a> {
    /// A loop over at most `buffers` of the mover; `cold` makes a file cold after so many requests.
    pub fn new(
        mover: &'a mut dyn MoveFile,
        buffers: usize,
        content: Option<Content>,
        cold: Option<(u64, Cool<'a>)>,
    ) -> Requests<'a> {
        Requests {
            mover,
            content,
            cold,
            offered: 0,
            in_flight: 0,
            began_ns: vec![0; buffers.max(1)],
            last_ns: 0,
            timed: false,
            latency_ns: histogram(),
            compared_bytes: 0,
        }
    }

    /// Runs the loop until the gate's last phase; `InvalidData` where the file has other bytes.
    pub fn run<M: Meter>(
        &mut self,
        gate: &impl Gate,
        meter: &mut M,
        end: WindowEnd<impl FnOnce()>,
    ) -> io::Result<Segments<M::Snapshot>> {
        let mut segments = by_gate(self, gate, meter, end)?;
        // The time between two passes of a cold file would be in them.
        segments.marks = segments.marks.filter(|_| self.cold.is_none());
        Ok(segments)
    }

    #[inline]
    fn request(&mut self) -> io::Result<()> {
        match self.mover.offer()? {
            Offer::Moved => {
                self.offered += 1;
                let now_ns = clock::monotonic_ns();
                self.note(now_ns - self.last_ns);
                self.last_ns = now_ns;
                self.compare(0)
            }
            Offer::Queued | Offer::Held => {
                self.offered += 1;
                self.in_flight += 1;
                let index = self.mover.index();
                self.began_ns[index] = self.last_ns;
                Ok(())
            }
            Offer::Full => self.take(1),
        }
    }

    fn take(&mut self, min: u32) -> io::Result<()> {
        self.mover.reap(min)?;
        let now_ns = clock::monotonic_ns();
        while let Some(index) = self.mover.finished()? {
            self.in_flight -= 1;
            self.note(now_ns - self.began_ns[index]);
            self.compare(index)?;
        }
        self.last_ns = now_ns;
        Ok(())
    }

    #[inline]
    fn note(&mut self, took_ns: u64) {
        if self.timed {
            self.latency_ns.saturating_record(took_ns);
        }
    }

    #[inline]
    fn compare(&mut self, index: usize) -> io::Result<()> {
        let Some(Content { pattern, most }) = self.content else {
            return Ok(());
        };
        let mut wrong = None;
        let mut compared = 0;
        self.mover.inspect(index, most, &mut |offset, bytes| {
            compared += bytes.len() as u64;
            if wrong.is_none() {
                wrong = pattern.mismatch(offset, bytes).map(|at| offset + at as u64);
            }
        });
        self.compared_bytes += compared;
        match wrong {
            None => Ok(()),
            Some(at) => Err(not_what_it_holds(at)),
        }
    }
}

impl LoopBody for Requests<'_> {
    const SAMPLING: Sampling = Sampling::ByClock;
    const MAX_SEGMENTS: usize = MAX_PASSES;

    #[inline]
    fn step(&mut self) -> io::Result<bool> {
        if self.is_segment_over()? {
            self.prepare_segment()?;
        }
        self.request()?;
        Ok(true)
    }

    fn tally(&self) -> Tally {
        self.mover.tally()
    }

    fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
        self.last_ns = clock::monotonic_ns();
    }

    fn now_ns(&self) -> u64 {
        self.last_ns
    }

    /// A request may take longer than the window, so that the window ends with its first.
    fn may_close(&self, opened: &Tally) -> bool {
        self.mover.tally().messages > opened.messages
    }

    /// Returns true if a cold file was read through and is not cold any more.
    #[inline]
    fn is_segment_over(&mut self) -> io::Result<bool> {
        match self.cold {
            Some((pass, _)) if self.offered >= pass => self.complete().map(|()| true),
            _ => Ok(false),
        }
    }

    /// Makes the file cold again. Nothing is in flight.
    fn prepare_segment(&mut self) -> io::Result<()> {
        self.mover.let_go()?;
        self.offered = 0;
        if let Some((_, cool)) = &mut self.cold {
            cool()?;
        }
        self.last_ns = clock::monotonic_ns();
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        self.mover.flush()?;
        while self.in_flight > 0 {
            self.take(self.in_flight)?;
        }
        Ok(())
    }
}

#[cold]
fn not_what_it_holds(at: u64) -> io::Error {
    WrongBytes(format!(
        "what was read is not what the file holds: byte {at} of it is wrong"
    ))
    .into()
}

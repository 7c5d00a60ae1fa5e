//! The loops of long messages, and of files that are sent cold: a window is a number of passes.
//!
//! A message of a gigabyte takes longer than a window, and a cold file must be dropped from the
//! page cache before it is sent again. So both sides count what is sent: a warm-up of
//! [`crate::passes::WARMUP_PASSES`], then at least one pass until the window's time is over. Each pass is a
//! segment: the sender's from its first call to its last answer, the receiver's from its first byte
//! to its last.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::{Move, Offer};
use bytecost_meter::Meter;
use bytecost_sys::clock;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use crate::edges::{Edge, Segments, WindowEnd};
use crate::flow::{Intake, drain, histogram, read_exactly};
use crate::passes::Passes;
use crate::phase::{Gate, Phase};
use crate::requests::{Cool, MAX_PASSES};

/// The sending side of a window of passes.
pub struct PassSender<'a> {
    /// The mover that sends.
    pub mover: &'a mut dyn Move,
    /// In the `ask` pattern: the socket of answers, and room for one.
    pub answers: Option<(&'a OwnedFd, Vec<u8>)>,
    /// Makes the file cold before each pass but the first.
    pub cool: Option<Cool<'a>>,
    /// The messages and bytes of a pass.
    pub passes: Passes,
    /// Time from the beginning of a message to its answer, within the window, in ns.
    pub latency_ns: Histogram<u64>,
}

impl<'a> PassSender<'a> {
    /// A sender without answers or a cold file.
    pub fn new(mover: &'a mut dyn Move, passes: Passes) -> PassSender<'a> {
        PassSender {
            mover,
            answers: None,
            cool: None,
            passes,
            latency_ns: histogram(),
        }
    }

    /// Warms up, waits in `opening` until the window opens, and sends until it is over.
    pub fn run<M: Meter>(
        &mut self,
        gate: &impl Gate,
        meter: &mut M,
        opening: impl FnOnce(),
        end: WindowEnd<impl FnOnce()>,
    ) -> io::Result<Segments<M::Snapshot>> {
        let mut segments = Segments::with_capacity(MAX_PASSES);
        for _ in 0..self.passes.warmup {
            self.pass(false)?;
            self.prepare_segment()?;
        }
        // Reading the usage of a helping process takes so long that it counts as time between segments.
        let is_helped = self.mover.helper().is_some();
        let mut since_ns = None;
        opening();
        loop {
            let from = Edge::opens(meter, || self.mover.tally());
            if let Some(since_ns) = since_ns {
                segments.aside_ns += clock::thread_cpu_ns() - since_ns;
            }
            self.pass(true)?;
            since_ns = is_helped.then(clock::thread_cpu_ns);
            let to = Edge::closes(meter, || self.mover.tally());
            segments.edges.push((from, to));
            let enough = self.mover.tally().messages >= end.min_messages;
            if gate.phase() >= Phase::Cooldown && enough || segments.edges.len() == MAX_PASSES {
                break;
            }
            if self.cool.is_some() {
                let cpu_ns = clock::thread_cpu_ns();
                self.prepare_segment()?;
                if !is_helped {
                    segments.aside_ns += clock::thread_cpu_ns() - cpu_ns;
                }
            }
        }
        drain(self.mover)?;
        segments.total = self.mover.tally();
        (end.on_close)();
        Ok(segments)
    }

    fn pass(&mut self, timed: bool) -> io::Result<()> {
        let mut began_ns = clock::monotonic_ns();
        for _ in 0..self.passes.messages {
            while self.mover.offer()? == Offer::Full {
                self.mover.reap(1)?;
            }
            let Some((socket, answer)) = &mut self.answers else {
                continue;
            };
            self.mover.flush()?;
            read_exactly(socket, answer)?;
            if timed {
                let ended_ns = clock::monotonic_ns();
                self.latency_ns.saturating_record(ended_ns - began_ns);
                began_ns = ended_ns;
            }
        }
        self.mover.flush()
    }

    fn prepare_segment(&mut self) -> io::Result<()> {
        let Some(cool) = &mut self.cool else {
            return Ok(());
        };
        self.mover.let_go()?;
        cool()
    }
}

impl Intake<'_> {
    /// Receives passes until the sender has closed the connection; calls `warm` after the warm-up and
    /// `closed` at the end. Waits on `socket` for a pass's first byte, for `timeout` at most.
    ///
    /// # Errors
    /// `InvalidData` where something else arrives, `UnexpectedEof` where the sender leaves early.
    pub fn run_passes<M: Meter>(
        &mut self,
        passes: Passes,
        socket: &OwnedFd,
        timeout: Duration,
        meter: &mut M,
        warm: impl FnOnce(),
        closed: impl FnOnce(),
    ) -> io::Result<Segments<M::Snapshot>> {
        let mut segments = Segments::with_capacity(MAX_PASSES);
        let warm_bytes = passes.warmup.saturating_mul(passes.bytes);
        while self.checker.offset() < warm_bytes {
            if !self.pull()? {
                return Err(sender_left(self.checker.offset()));
            }
        }
        // A receiver that is behind would count the first passes of the window as warm-up.
        warm();
        loop {
            wait_for_bytes(socket, timeout)?;
            let from = Edge::opens(meter, || self.tally());
            if !self.pull()? {
                break;
            }
            // The last call may have received bytes of the next pass.
            let end = (from.tally.bytes / passes.bytes + 1).saturating_mul(passes.bytes);
            while self.checker.offset() < end {
                if !self.pull()? {
                    return Err(sender_left(self.checker.offset()));
                }
            }
            let to = Edge::closes(meter, || self.tally());
            if segments.edges.len() == MAX_PASSES {
                let why = "the sender sends more passes than it may";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            segments.edges.push((from, to));
        }
        let is_whole = self.checker.offset().is_multiple_of(self.size_bytes);
        if !is_whole || segments.edges.is_empty() {
            return Err(sender_left(self.checker.offset()));
        }
        segments.total = self.tally();
        closed();
        Ok(segments)
    }
}

#[cold]
fn sender_left(bytes: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the sender went away before it had sent all: {bytes} bytes came"),
    )
}

fn wait_for_bytes(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut polled, Some(&timeout)))? == 0 {
        let why = "no byte came for as long as patience lasts: does the sender still send?";
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    }
    Ok(())
}

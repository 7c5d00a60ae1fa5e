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
use rustix::event::PollFlags;

use crate::deadline::{after, await_event};
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

/// The receiving side of a window of passes.
pub struct PassReceiver<'i, 'a> {
    /// Receives and checks the bytes.
    pub intake: &'i mut Intake<'a>,
    /// The messages and bytes of a pass.
    pub passes: Passes,
    /// The connection, on which the first byte of each pass is awaited.
    pub socket: &'i OwnedFd,
    /// The longest such wait.
    pub timeout: Duration,
}

impl PassReceiver<'_, '_> {
    /// Receives passes until the sender has closed the connection; calls `warm` after the warm-up and
    /// `closed` at the end.
    ///
    /// # Errors
    /// `InvalidData` where something else arrives, `UnexpectedEof` where the sender leaves early.
    pub fn run<M: Meter>(
        self,
        meter: &mut M,
        warm: impl FnOnce(),
        closed: impl FnOnce(),
    ) -> io::Result<Segments<M::Snapshot>> {
        let PassReceiver { intake, passes, .. } = self;
        let mut segments = Segments::with_capacity(MAX_PASSES);
        pull_to(intake, passes.warmup.saturating_mul(passes.bytes))?;
        // A receiver that is behind would count the first passes of the window as warm-up.
        warm();
        loop {
            let late = "no byte came for as long as patience lasts: does the sender still send?";
            await_event(self.socket, PollFlags::IN, after(self.timeout), None)
                .map_err(|e| io::Error::new(e.kind(), late))?;
            let from = Edge::opens(meter, || intake.tally());
            if !intake.pull()? {
                break;
            }
            // The last call may have received bytes of the next pass.
            pull_to(
                intake,
                (from.tally.bytes / passes.bytes + 1).saturating_mul(passes.bytes),
            )?;
            let to = Edge::closes(meter, || intake.tally());
            if segments.edges.len() == MAX_PASSES {
                let why = "the sender sends more passes than it may";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            segments.edges.push((from, to));
        }
        segments.total = intake.tally();
        let is_whole = segments.total.bytes.is_multiple_of(intake.size_bytes);
        if !is_whole || segments.edges.is_empty() {
            return Err(sender_left(segments.total.bytes));
        }
        closed();
        Ok(segments)
    }
}

/// Receives up to that byte of the stream.
fn pull_to(intake: &mut Intake<'_>, end: u64) -> io::Result<()> {
    while intake.checker.offset() < end {
        if !intake.pull()? {
            return Err(sender_left(intake.checker.offset()));
        }
    }
    Ok(())
}

#[cold]
fn sender_left(bytes: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the sender went away before it had sent all: {bytes} bytes came"),
    )
}

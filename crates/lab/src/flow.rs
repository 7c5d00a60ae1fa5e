//! The loops that move bytes: one flow of one side, from warm-up to the last completion.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use bytecost_engine::{Checker, Move, Offer, Take, Tally};
use bytecost_meter::Meter;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::clock;
use hdrhistogram::Histogram;

use crate::edges::{LoopBody, Sampling, Segments, WindowEnd, by_gate};
use crate::phase::Gate;
use crate::socket::Socket;

/// The longest round-trip time of a histogram, in ns: a minute.
pub(crate) const MOST_LATENCY_NS: u64 = 60_000_000_000;

/// The loop body of a sender without pauses.
pub struct Stream<'m>(pub &'m mut dyn Move);

impl LoopBody for Stream<'_> {
    const SAMPLING: Sampling = Sampling::ByGate;

    #[inline]
    fn step(&mut self) -> io::Result<bool> {
        push(self.0)?;
        Ok(true)
    }

    fn tally(&self) -> Tally {
        self.0.tally()
    }

    fn complete(&mut self) -> io::Result<()> {
        drain(self.0)
    }
}

#[inline]
fn push(mover: &mut dyn Move) -> io::Result<()> {
    if mover.offer()? == Offer::Full {
        mover.reap(1)?;
    }
    Ok(())
}

/// Flushes a mover and waits for its last completion.
pub(crate) fn drain(mover: &mut dyn Move) -> io::Result<()> {
    mover.flush()?;
    loop {
        let tally = mover.tally();
        let outstanding = tally.held - tally.released;
        if outstanding == 0 {
            return Ok(());
        }
        mover.reap(u32::try_from(outstanding).unwrap_or(u32::MAX))?;
    }
}

/// The loop body of a sender that waits for the answer to each message.
pub struct Ask<'a> {
    /// The mover that sends.
    pub mover: &'a mut dyn Move,
    /// The socket from which answers come.
    pub socket: &'a OwnedFd,
    /// Room for one answer.
    pub answer: Vec<u8>,
    /// Round-trip times within the window, in ns.
    pub latency_ns: Histogram<u64>,
    timed: bool,
    /// The end of the last exchange, in ns of CLOCK_MONOTONIC, where it is timed.
    ended_ns: u64,
}

impl<'a> Ask<'a> {
    /// A loop body with room for one answer.
    pub fn new(mover: &'a mut dyn Move, socket: &'a OwnedFd, answer: Vec<u8>) -> Ask<'a> {
        Ask {
            mover,
            socket,
            answer,
            latency_ns: histogram(),
            timed: false,
            ended_ns: 0,
        }
    }

    fn exchange(&mut self) -> io::Result<()> {
        while self.mover.offer()? == Offer::Full {
            self.mover.reap(1)?;
        }
        self.mover.flush()?;
        read_exactly(self.socket, &mut self.answer)
    }
}

impl LoopBody for Ask<'_> {
    const SAMPLING: Sampling = Sampling::ByClock;

    fn step(&mut self) -> io::Result<bool> {
        self.exchange()?;
        if self.timed {
            let now_ns = clock::monotonic_ns();
            self.latency_ns.saturating_record(now_ns - self.ended_ns);
            self.ended_ns = now_ns;
        }
        Ok(true)
    }

    fn tally(&self) -> Tally {
        self.mover.tally()
    }

    fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
        self.ended_ns = clock::monotonic_ns();
    }

    fn latency_ns(&mut self) -> Option<&mut Histogram<u64>> {
        Some(&mut self.latency_ns)
    }

    fn now_ns(&self) -> u64 {
        self.ended_ns
    }

    /// After one exchange at least, which may take longer than the window is open.
    fn may_close(&self, opened: &Tally) -> bool {
        self.mover.tally().messages > opened.messages
    }

    fn complete(&mut self) -> io::Result<()> {
        drain(self.mover)
    }
}

pub(crate) fn moved(tally: &Tally, elapsed_ns: u64) -> FlowReading {
    FlowReading {
        bytes: tally.bytes,
        messages: tally.messages,
        elapsed_ns,
    }
}

/// The counters of a tally, with those of buffers that were released later, where that is so.
pub(crate) fn tallied(moved: &Tally, completed: Option<&Tally>) -> Readings {
    [
        (Counter::Bytes, Some(moved.bytes)),
        (Counter::Messages, Some(moved.messages)),
        (Counter::Calls, Some(moved.calls)),
        (Counter::Completions, completed.map(|t| t.released)),
        (Counter::CompletionsCopied, completed.map(|t| t.copied)),
        (Counter::Enobufs, completed.map(|_| moved.enobufs)),
    ]
    .into_iter()
    .filter_map(|(c, n)| Some((c, Reading::Measured(n?))))
    .collect()
}

/// An empty histogram of round-trip times: three significant digits, up to a minute.
pub fn histogram() -> Histogram<u64> {
    histogram_to(MOST_LATENCY_NS, 3)
}

/// An empty histogram of ns up to `most_ns`, with so many significant digits.
pub(crate) fn histogram_to(most_ns: u64, digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, most_ns, digits).unwrap_or_else(|_| unreachable!("bounds"))
}

pub(crate) fn read_exactly(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<()> {
    let mut got = 0;
    while got < buffer.len() {
        match rustix::net::recv(socket, &mut buffer[got..], rustix::net::RecvFlags::empty()) {
            Ok((0, _)) => {
                let why = "the receiver closed the connection before its response";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            Ok((n, _)) => got += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let why = "no response came in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// The loop body of a receiver, which checks all bytes of a flow.
pub struct Intake<'a> {
    /// The receiver.
    pub receiver: &'a mut dyn Take,
    /// The check of received bytes.
    pub checker: Checker,
    /// Bytes of a message.
    pub size_bytes: u64,
    /// In the `ask` pattern: the socket for answers, and one answer.
    pub answers: Option<(&'a OwnedFd, Vec<u8>)>,
}

impl Intake<'_> {
    /// Receives until the sender has closed the connection; calls `closed` when the window is over.
    /// `InvalidData` when something else arrives than was sent.
    pub fn run<M: Meter>(
        &mut self,
        gate: &impl Gate,
        meter: &mut M,
        closed: impl FnOnce(),
    ) -> io::Result<Segments<M::Snapshot>> {
        // It receives until the sender's end.
        let end = WindowEnd {
            on_close: closed,
            min_messages: u64::MAX,
        };
        by_gate(self, gate, meter, end)
    }

    /// Returns true within an exchange, or before byte `least`: an edge of the window must not cut one.
    fn is_awaited(&self, least: u64) -> bool {
        let offset = self.checker.offset();
        let is_amid = offset < least || !offset.is_multiple_of(self.size_bytes);
        self.answers.is_some() && is_amid
    }

    /// Receives the bytes that are there; false when the sender has closed.
    pub(crate) fn pull(&mut self) -> io::Result<bool> {
        let before = self.checker.offset() / self.size_bytes;
        let got = self.receiver.take()?;
        if got == 0 {
            return Ok(false);
        }
        self.checker.check(self.receiver, got)?;
        if let Some((socket, answer)) = &self.answers {
            for _ in before..self.checker.offset() / self.size_bytes {
                Socket(socket).write_all(answer)?;
            }
        }
        Ok(true)
    }

    pub(crate) fn tally(&self) -> Tally {
        let bytes = self.checker.offset();
        Tally {
            bytes,
            messages: bytes / self.size_bytes,
            calls: self.receiver.calls(),
            ..Tally::default()
        }
    }
}

impl LoopBody for Intake<'_> {
    const SAMPLING: Sampling = Sampling::ByGate;

    #[inline]
    fn step(&mut self) -> io::Result<bool> {
        self.pull()
    }

    fn tally(&self) -> Tally {
        Intake::tally(self)
    }

    fn may_open(&self) -> bool {
        !self.is_awaited(0)
    }

    fn may_close(&self, opened: &Tally) -> bool {
        !self.is_awaited(opened.bytes + self.size_bytes)
    }
}

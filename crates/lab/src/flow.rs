//! The loops that move bytes: one flow of one side, from warm-up to the last completion.
//!
//! Between the two edges of the window nothing here allocates, locks, formats or logs; a test
//! with a counting allocator holds it to that.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_engine::{Checker, Move, Offer, Take, Tally};
use bytecost_meter::Meter;
use bytecost_sys::clock;
use hdrhistogram::Histogram;

use crate::marks::{Clocked, Marks};
use crate::phase::{Gate, Phase};

/// The longest round-trip time that is told apart: a minute.
const MOST_LATENCY_NS: u64 = 60_000_000_000;

/// What one side's flow had done at an edge of the window.
#[derive(Clone, Copy, Debug)]
pub struct Edge<S> {
    /// The meter's snapshot.
    pub snapshot: S,
    /// The mover's tally; of a receiver its bytes and calls.
    pub tally: Tally,
}

/// Told by a flow when its window is over, and how much it must move in any case.
pub struct Finish<F> {
    /// Told when the window is over; bytes then still move until the gate says stop, so that the
    /// other side's window ends under load as well.
    pub closed: F,
    /// Messages that are sent at least, so that a check sees all of the ring on any machine.
    pub messages_least: u64,
}

/// Both edges of the window, and the whole trial.
#[derive(Clone, Copy, Debug)]
pub struct Window<S> {
    /// Where it opened.
    pub from: Edge<S>,
    /// Where it closed.
    pub to: Edge<S>,
    /// The tally at the very end, the last completion included.
    pub total: Tally,
    /// The edges of its eighths; none where nobody asked for them.
    pub marks: Option<Marks>,
}

/// Sends without pause.
///
/// # Errors
/// What the mover answers.
pub fn stream<M: Meter>(
    mover: &mut dyn Move,
    gate: &impl Gate,
    meter: &mut M,
    finish: Finish<impl FnOnce()>,
) -> io::Result<Window<M::Snapshot>> {
    push_until(mover, gate, Phase::Window)?;
    let from = Edge {
        tally: mover.tally(),
        snapshot: meter.read_start(),
    };
    let marks = push_through(mover, gate)?;
    let to = Edge {
        snapshot: meter.read_end(),
        tally: mover.tally(),
    };
    (finish.closed)();
    push_until(mover, gate, Phase::Stop)?;
    while mover.tally().messages < finish.messages_least {
        push(mover)?;
    }
    drain(mover)?;
    Ok(Window {
        from,
        to,
        total: mover.tally(),
        marks: Some(marks),
    })
}

/// Through the window. An edge of an eighth costs the others nothing: what is compared with the
/// phase is only another number.
fn push_through(mover: &mut dyn Move, gate: &impl Gate) -> io::Result<Marks> {
    let mut marks = Marks::open(&mover.tally());
    let mut until = marks.until();
    loop {
        let phase = gate.phase();
        if phase >= until {
            if phase >= Phase::Cooldown {
                break;
            }
            until = marks.step(phase, &mover.tally());
        }
        push(mover)?;
    }
    marks.close(&mover.tally());
    Ok(marks)
}

fn push_until(mover: &mut dyn Move, gate: &impl Gate, until: Phase) -> io::Result<()> {
    while gate.phase() < until {
        push(mover)?;
    }
    Ok(())
}

#[inline]
pub(crate) fn push(mover: &mut dyn Move) -> io::Result<()> {
    if mover.offer()? == Offer::Full {
        mover.reap(1)?;
    }
    Ok(())
}

/// The end of a trial is its last completion, not its last call.
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

/// Sends a message, waits for the answer, and so on.
pub struct Ask<'a> {
    /// Sends.
    pub mover: &'a mut dyn Move,
    /// Where answers come in.
    pub socket: &'a OwnedFd,
    /// Room for one answer.
    pub answer: Vec<u8>,
    /// Round-trip times within the window, in ns.
    pub latency_ns: Histogram<u64>,
}

impl<'a> Ask<'a> {
    /// Ready to ask; `answer` is the room for one.
    #[must_use]
    pub fn new(mover: &'a mut dyn Move, socket: &'a OwnedFd, answer: Vec<u8>) -> Ask<'a> {
        Ask {
            mover,
            socket,
            answer,
            latency_ns: histogram(),
        }
    }

    /// Asks until the gate says stop.
    ///
    /// # Errors
    /// What the mover or recv(2) answers.
    pub fn run<M: Meter>(
        &mut self,
        gate: &impl Gate,
        meter: &mut M,
        finish: Finish<impl FnOnce()>,
    ) -> io::Result<Window<M::Snapshot>> {
        while gate.phase() < Phase::Window {
            self.exchange()?;
        }
        let from = Edge {
            tally: self.mover.tally(),
            snapshot: meter.read_start(),
        };
        let mut began = clock::monotonic_ns();
        let mut clocked = Clocked::open(began, gate.eighth_ns(), &from.tally);
        // At least one, since an exchange may take longer than the window is open.
        loop {
            self.exchange()?;
            let ended = clock::monotonic_ns();
            self.latency_ns.saturating_record(ended - began);
            began = ended;
            if gate.phase() >= Phase::Cooldown {
                break;
            }
            clocked.pass(ended, || self.mover.tally());
        }
        clocked.marks.close(&self.mover.tally());
        let to = Edge {
            snapshot: meter.read_end(),
            tally: self.mover.tally(),
        };
        (finish.closed)();
        while gate.phase() < Phase::Stop {
            self.exchange()?;
        }
        while self.mover.tally().messages < finish.messages_least {
            self.exchange()?;
        }
        drain(self.mover)?;
        Ok(Window {
            from,
            to,
            total: self.mover.tally(),
            marks: Some(clocked.marks),
        })
    }

    /// One message and its answer.
    pub(crate) fn exchange(&mut self) -> io::Result<()> {
        while self.mover.offer()? == Offer::Full {
            self.mover.reap(1)?;
        }
        self.mover.flush()?;
        read_exactly(self.socket, &mut self.answer)
    }
}

/// An empty histogram of round-trip times: three significant digits, up to a minute.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    // The bounds are constants that the constructor accepts; a test makes one.
    Histogram::new_with_bounds(1, MOST_LATENCY_NS, 3)
        .unwrap_or_else(|_| unreachable!("constant bounds"))
}

pub(crate) fn read_exactly(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<()> {
    let mut got = 0;
    while got < buffer.len() {
        match rustix::net::recv(socket, &mut buffer[got..], rustix::net::RecvFlags::empty()) {
            Ok((0, _)) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the receiver closed the connection before its response",
                ));
            }
            Ok((n, _)) => got += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no response came in time",
                ));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Takes in all that comes, and checks it.
pub struct Intake<'a> {
    /// Takes.
    pub receiver: &'a mut dyn Take,
    /// Checks.
    pub checker: Checker,
    /// Bytes of a message.
    pub size_bytes: u64,
    /// In the `ask` pattern: where answers go, and one answer.
    pub answers: Option<(&'a OwnedFd, Vec<u8>)>,
}

impl Intake<'_> {
    /// Takes until the sender has closed the connection; `closed` is told when the window is over.
    ///
    /// # Errors
    /// What the receiver answers; `InvalidData` when something else arrives than was sent.
    pub fn run<M: Meter>(
        &mut self,
        gate: &impl Gate,
        meter: &mut M,
        closed: impl FnOnce(),
    ) -> io::Result<Window<M::Snapshot>> {
        let open = self.pull_until(gate, Phase::Window, 0)?;
        let from = Edge {
            tally: self.tally(),
            snapshot: meter.read_start(),
        };
        let least = from.tally.bytes + self.size_bytes;
        let marks = match open {
            true => self.pull_through(gate, least)?,
            false => None,
        };
        let to = Edge {
            snapshot: meter.read_end(),
            tally: self.tally(),
        };
        let Some(marks) = marks else {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the sender went away before the window was over",
            ));
        };
        closed();
        while self.pull()? {}
        Ok(Window {
            from,
            to,
            total: self.tally(),
            marks: Some(marks),
        })
    }

    /// False when the sender has closed. Where answers are waited for, it goes on to the end of an
    /// exchange, and to byte `least` of the stream: one may take longer than the window is open,
    /// and half of one says nothing of how long it takes.
    fn pull_until(&mut self, gate: &impl Gate, until: Phase, least: u64) -> io::Result<bool> {
        while gate.phase() < until || self.answers.is_some() && self.is_amid(least) {
            if !self.pull()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Through the window, as `pull_until`; none when the sender has closed.
    fn pull_through(&mut self, gate: &impl Gate, least: u64) -> io::Result<Option<Marks>> {
        let mut marks = Marks::open(&self.tally());
        let mut until = marks.until();
        loop {
            let phase = gate.phase();
            if phase >= until {
                if phase < Phase::Cooldown {
                    until = marks.step(phase, &self.tally());
                } else if self.answers.is_none() || !self.is_amid(least) {
                    break;
                }
            }
            if !self.pull()? {
                return Ok(None);
            }
        }
        marks.close(&self.tally());
        Ok(Some(marks))
    }

    fn is_amid(&self, least: u64) -> bool {
        let offset = self.checker.offset();
        offset < least || !offset.is_multiple_of(self.size_bytes)
    }

    /// Takes what is there; false when the sender has closed.
    pub(crate) fn pull(&mut self) -> io::Result<bool> {
        let before = self.checker.offset() / self.size_bytes;
        let got = self.receiver.take()?;
        if got == 0 {
            return Ok(false);
        }
        self.checker.check(self.receiver, got)?;
        if let Some((socket, answer)) = &self.answers {
            for _ in before..self.checker.offset() / self.size_bytes {
                write_all(socket, answer)?;
            }
        }
        Ok(true)
    }

    /// What was taken in so far.
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

fn write_all(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        match rustix::net::send(socket, left, rustix::net::SendFlags::NOSIGNAL) {
            Ok(n) => left = &left[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

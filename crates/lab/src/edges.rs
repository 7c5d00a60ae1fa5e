//! The loop that moves bytes through a window, and the readings at the edges of the window.
//!
//! Nothing allocates, locks, formats or logs within a segment (a test checks it). A window is one
//! segment, except with a cold file: there each pass over the file is a segment, and the time between
//! passes is not measured.

use std::io;

use bytecost_engine::Tally;
use bytecost_meter::Meter;
use bytecost_sys::clock;
use hdrhistogram::Histogram;

use crate::marks::{Clocked, Marks};
use crate::phase::{Gate, Phase};

/// The counters of one side's flow at an edge of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Edge<S, T = Tally> {
    /// The meter's snapshot.
    pub snapshot: S,
    /// The mover's tally; of a receiver its bytes and calls.
    pub tally: T,
}

impl<S, T> Edge<S, T> {
    /// The edge at which a segment opens: the meter is read last.
    pub(crate) fn opens(
        meter: &mut impl Meter<Snapshot = S>,
        tally: impl FnOnce() -> T,
    ) -> Edge<S, T> {
        let tally = tally();
        Edge {
            snapshot: meter.read_start(),
            tally,
        }
    }

    /// The edge at which a segment closes: the meter is read first.
    pub(crate) fn closes(
        meter: &mut impl Meter<Snapshot = S>,
        tally: impl FnOnce() -> T,
    ) -> Edge<S, T> {
        let snapshot = meter.read_end();
        Edge {
            snapshot,
            tally: tally(),
        }
    }
}

/// The end of a flow's window.
pub struct WindowEnd<F> {
    /// Called once when the window of the flow has closed; bytes then still move until the gate says
    /// stop, so that the other side's window ends under load as well.
    pub on_close: F,
    /// The fewest messages that the flow moves in a trial, so that a check of the bytes covers the whole
    /// ring on any machine.
    pub min_messages: u64,
}

/// The measured parts of a window, and the tally of the whole trial.
#[derive(Clone, Debug)]
pub struct Segments<S> {
    /// The opening and the closing edge of each segment; there is one at least.
    pub edges: Vec<(Edge<S>, Edge<S>)>,
    /// The tally at the end of the trial, the last completion included.
    pub total: Tally,
    /// CPU time of the flow's thread between segments, in ns.
    pub aside_ns: u64,
    /// The edges of the window's eighths; none where they were not sampled, or with passes.
    pub marks: Option<Marks>,
}

impl<S> Segments<S> {
    pub(crate) fn with_capacity(max: usize) -> Segments<S> {
        Segments {
            edges: Vec::with_capacity(max),
            total: Tally::default(),
            aside_ns: 0,
            marks: None,
        }
    }

    /// The tally of all segments together.
    pub fn tally(&self) -> Tally {
        let each = self
            .edges
            .iter()
            .map(|(from, to)| to.tally.since(&from.tally));
        each.fold(Tally::default(), |sum, one| sum.plus(&one))
    }
}

/// The sampling of a window's throughput, by edges of its eighths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The loop notes the edges when the gate's phase changes. This costs nothing: the loop compares
    /// the phase in any case.
    ByGate,
    /// The loop notes the edges by the clock, which it reads for each message in any case.
    ByClock,
    /// Eighths are not sampled.
    None,
}

/// The body of a loop that moves bytes, with the readings for the edges of its window.
pub trait LoopBody {
    /// The sampling of its window.
    const SAMPLING: Sampling;
    /// The most segments of a window.
    const MAX_SEGMENTS: usize = 1;

    /// Moves a message, or the part of a message that has arrived; false once the other side has ended.
    fn step(&mut self) -> io::Result<bool>;

    /// The tally so far.
    fn tally(&self) -> Tally;

    /// Begins or ends the recording of latencies.
    fn set_timed(&mut self, _timed: bool) {}

    /// The recorded latencies; none for a loop that records none.
    fn latency_ns(&mut self) -> Option<&mut Histogram<u64>> {
        None
    }

    /// The end of the last step, in ns of CLOCK_MONOTONIC, of a loop that reads the clock.
    #[inline]
    fn now_ns(&self) -> u64 {
        0
    }

    /// Returns true if the window may open between two steps.
    fn may_open(&self) -> bool {
        true
    }

    /// Returns true if the window may close between two steps, given the tally at its opening.
    fn may_close(&self, _opened: &Tally) -> bool {
        true
    }

    /// Returns true if a segment is over before the window is; operations under way are completed then.
    #[inline]
    fn is_segment_over(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Prepares the next segment, while nothing is measured.
    fn prepare_segment(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Waits for operations under way: the end of a trial is its last completion, not its last call.
    fn complete(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a loop from its first step to its last one, with a window by the gate's phases.
///
/// # Errors
/// Those of a step; `UnexpectedEof` where the other side ends before the window does,
/// `InvalidInput` where there are more segments than [`LoopBody::MAX_SEGMENTS`].
pub fn by_gate<M: Meter, S: LoopBody>(
    body: &mut S,
    gate: &impl Gate,
    meter: &mut M,
    end: WindowEnd<impl FnOnce()>,
) -> io::Result<Segments<M::Snapshot>> {
    let mut window = Warmup { body, gate, meter }.wait_for_open()?;
    while window.wait_for_close()? == PauseReason::SegmentOver {
        window.next_segment()?;
    }
    window.close().wait_for_stop(end)
}

/// A loop that takes steps before its window.
struct Warmup<'l, S, G, M> {
    body: &'l mut S,
    gate: &'l G,
    meter: &'l mut M,
}

/// A loop within its window, and what was read of it so far.
struct OpenWindow<'l, S, G, M: Meter> {
    body: &'l mut S,
    gate: &'l G,
    meter: &'l mut M,
    segments: Segments<M::Snapshot>,
    /// The opening edge of the segment.
    from: Edge<M::Snapshot>,
    /// The tally at the opening of the window.
    opened: Tally,
    eighths: Clocked,
    /// The phase in which the next edge is noted.
    until: Phase,
}

/// A loop that takes steps after its window.
struct Cooldown<'l, S, G, N> {
    body: &'l mut S,
    gate: &'l G,
    segments: Segments<N>,
}

/// The reason for which the loop stops taking steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseReason {
    SegmentOver,
    WindowOver,
}

impl<'l, S: LoopBody, G: Gate, M: Meter> Warmup<'l, S, G, M> {
    /// Takes steps until the gate opens the window, and reads its opening edge.
    fn wait_for_open(self) -> io::Result<OpenWindow<'l, S, G, M>> {
        let Warmup { body, gate, meter } = self;
        let segments = Segments::with_capacity(S::MAX_SEGMENTS);
        while gate.phase() < Phase::Window || !body.may_open() {
            must_step(body)?;
        }
        let from = Edge::opens(meter, || body.tally());
        let opened = from.tally;
        body.set_timed(true);
        let eighth_ns = match S::SAMPLING {
            Sampling::ByClock => gate.eighth_ns(),
            Sampling::ByGate | Sampling::None => 0,
        };
        let eighths = Clocked::open(body.now_ns(), eighth_ns, &opened);
        let until = match S::SAMPLING {
            Sampling::ByGate => eighths.marks.until(),
            Sampling::ByClock | Sampling::None => Phase::Cooldown,
        };
        Ok(OpenWindow {
            body,
            gate,
            meter,
            segments,
            from,
            opened,
            eighths,
            until,
        })
    }
}

impl<'l, S: LoopBody, G: Gate, M: Meter> OpenWindow<'l, S, G, M> {
    /// Takes steps until the segment or the window is over, and notes the edges of eighths that it passes.
    fn wait_for_close(&mut self) -> io::Result<PauseReason> {
        let (body, eighths) = (&mut *self.body, &mut self.eighths);
        while let Some(phase) = step_until(self.until, body, self.gate, eighths)? {
            if phase < Phase::Cooldown {
                self.until = eighths.marks.step(phase, &body.tally());
            } else if body.may_close(&self.opened) {
                return Ok(PauseReason::WindowOver);
            }
            if step_ends_segment(body, eighths)? {
                break;
            }
        }
        Ok(PauseReason::SegmentOver)
    }

    /// Reads the closing edge of a segment, and the opening edge of the next one.
    fn next_segment(&mut self) -> io::Result<()> {
        let closed = Edge::closes(self.meter, || self.body.tally());
        self.segments.edges.push((self.from, closed));
        if self.segments.edges.len() == S::MAX_SEGMENTS {
            return Err(too_many_segments(S::MAX_SEGMENTS));
        }
        let cpu_ns = clock::thread_cpu_ns();
        self.body.prepare_segment()?;
        self.segments.aside_ns += clock::thread_cpu_ns() - cpu_ns;
        self.from = Edge::opens(self.meter, || self.body.tally());
        self.body.set_timed(true);
        Ok(())
    }

    /// Reads the closing edge of the window.
    fn close(mut self) -> Cooldown<'l, S, G, M::Snapshot> {
        self.eighths.marks.close(&self.body.tally());
        let closed = Edge::closes(self.meter, || self.body.tally());
        self.segments.edges.push((self.from, closed));
        self.segments.marks = (S::SAMPLING != Sampling::None).then_some(self.eighths.marks);
        self.body.set_timed(false);
        Cooldown {
            body: self.body,
            gate: self.gate,
            segments: self.segments,
        }
    }
}

impl<S: LoopBody, G: Gate, N> Cooldown<'_, S, G, N> {
    /// Takes steps until the gate says stop, and waits for operations under way.
    fn wait_for_stop(mut self, end: WindowEnd<impl FnOnce()>) -> io::Result<Segments<N>> {
        (end.on_close)();
        while self.gate.phase() < Phase::Stop || self.body.tally().messages < end.min_messages {
            if !self.body.step()? {
                break;
            }
        }
        self.body.complete()?;
        self.segments.total = self.body.tally();
        Ok(self.segments)
    }
}

/// Takes steps until the gate is in the phase `until` or a later one, and returns that phase; none if
/// the segment is over before. A function of its own, so that the loop keeps nothing else in registers.
#[inline(never)]
fn step_until<S: LoopBody>(
    until: Phase,
    body: &mut S,
    gate: &impl Gate,
    eighths: &mut Clocked,
) -> io::Result<Option<Phase>> {
    loop {
        let phase = gate.phase();
        if phase >= until {
            return Ok(Some(phase));
        }
        if step_ends_segment(body, eighths)? {
            return Ok(None);
        }
    }
}

/// Returns true if the segment is over; takes a step otherwise.
#[inline(always)]
fn step_ends_segment<S: LoopBody>(body: &mut S, eighths: &mut Clocked) -> io::Result<bool> {
    if body.is_segment_over()? {
        return Ok(true);
    }
    must_step(body)?;
    if S::SAMPLING == Sampling::ByClock {
        eighths.pass(body.now_ns(), || body.tally());
    }
    Ok(false)
}

/// Takes a step; an error if the other side has ended.
#[inline]
fn must_step(body: &mut impl LoopBody) -> io::Result<()> {
    if body.step()? {
        Ok(())
    } else {
        Err(sender_left())
    }
}

#[cold]
fn sender_left() -> io::Error {
    let why = "the sender went away before the window was over";
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

#[cold]
fn too_many_segments(max: usize) -> io::Error {
    let why = format!(
        "the file was through {max} times within the window: choose a larger --ring for cold files"
    );
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

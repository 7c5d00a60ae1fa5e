//! The window of a loop that moves bytes, whatever it moves: here its edges are taken.
//!
//! Nothing allocates, locks, formats or logs within a stretch (held by a test). A window is one
//! stretch, but for a cold file: there each pass is one, and what lies between is not measured.

use std::io;

use bytecost_engine::Tally;
use bytecost_meter::Meter;
use bytecost_sys::clock;
use hdrhistogram::Histogram;

use crate::marks::{Clocked, Marks};
use crate::phase::{Gate, Phase};

/// What one side's flow had done at an edge of a stretch.
#[derive(Clone, Copy, Debug)]
pub struct Edge<S, T = Tally> {
    /// The meter's snapshot.
    pub snapshot: S,
    /// The mover's tally; of a receiver its bytes and calls.
    pub tally: T,
}

impl<S, T> Edge<S, T> {
    /// Where a stretch begins: the meter is read last.
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

    /// Where it ends: the meter is read first.
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

/// Told by a flow when its window is over, and how much it must move in any case.
pub struct Finish<F> {
    /// Told when the window is over; bytes then still move until the gate says stop, so that the
    /// other side's window ends under load as well.
    pub closed: F,
    /// Messages that are moved at least, so that a check sees all of the ring on any machine.
    pub messages_least: u64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Stretches<S> {
    /// Both edges of each stretch, at least one.
    pub of: Vec<(Edge<S>, Edge<S>)>,
    /// The tally at the very end, the last completion included.
    pub total: Tally,
    /// CPU time between the stretches, in ns.
    pub aside_ns: u64,
    /// The edges of the window's eighths; none where nobody asked for them, or of passes.
    pub marks: Option<Marks>,
}

impl<S> Stretches<S> {
    pub(crate) fn room(most: usize) -> Stretches<S> {
        Stretches {
            of: Vec::with_capacity(most),
            total: Tally::default(),
            aside_ns: 0,
            marks: None,
        }
    }

    /// What was done within the stretches.
    pub fn grown(&self) -> Tally {
        let each = self.of.iter().map(|(from, to)| to.tally.since(&from.tally));
        each.fold(Tally::default(), |sum, one| sum.plus(&one))
    }
}

/// Who notes the edges of the window's eighths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The gate steps through them. An edge costs the loop nothing: it compares the phase anyway.
    ByGate,
    /// The loop reads the clock for each message anyway.
    ByClock,
    /// Nobody.
    None,
}

/// A loop that moves bytes, as who takes its edges sees it.
pub trait Steps {
    /// Who notes its course.
    const COURSE: Course;
    /// The most stretches of a window.
    const STRETCHES: usize = 1;

    /// Goes a step on. False when the other side has ended.
    fn step(&mut self) -> io::Result<bool>;

    /// What was done so far.
    fn tally(&self) -> Tally;

    /// Notes latencies from now on, or no longer.
    fn time(&mut self, _timed: bool) {}

    /// The latencies that it has noted, where it notes any.
    fn latency_ns(&mut self) -> Option<&mut Histogram<u64>> {
        None
    }

    /// When the last step ended, of a loop that reads the clock.
    #[inline]
    fn now_ns(&self) -> u64 {
        0
    }

    /// Whether the window may open between these two steps.
    fn may_open(&self) -> bool {
        true
    }

    /// Whether it may close here, having opened there.
    fn may_close(&self, _opened: &Tally) -> bool {
        true
    }

    /// Whether a stretch is over before the window is; what is under way is finished then.
    #[inline]
    fn is_through(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes all ready for the next stretch.
    fn renew(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Waits for what is under way: the end of a trial is its last completion, not its last call.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Steps from the first to the last, with a window by the gate's phases.
///
/// # Errors
/// What a step answers; `UnexpectedEof` where the other side ends before the window does,
/// `InvalidInput` where there are more stretches than it has room for.
pub fn by_gate<M: Meter, S: Steps>(
    steps: &mut S,
    gate: &impl Gate,
    meter: &mut M,
    finish: Finish<impl FnOnce()>,
) -> io::Result<Stretches<M::Snapshot>> {
    let mut stretches = Stretches::room(S::STRETCHES);
    while gate.phase() < Phase::Window || !steps.may_open() {
        go(steps)?;
    }
    let mut from = Edge::opens(meter, || steps.tally());
    let opened = from.tally;
    steps.time(true);
    let eighth_ns = match S::COURSE {
        Course::ByClock => gate.eighth_ns(),
        Course::ByGate | Course::None => 0,
    };
    let mut course = Clocked::open(steps.now_ns(), eighth_ns, &opened);
    let mut until = match S::COURSE {
        Course::ByGate => course.marks.until(),
        Course::ByClock | Course::None => Phase::Cooldown,
    };
    while through(steps, gate, (&mut course, &mut until), &opened)? == Pause::Stretch {
        let closed = Edge::closes(meter, || steps.tally());
        stretches.of.push((from, closed));
        if stretches.of.len() == S::STRETCHES {
            return Err(too_many(S::STRETCHES));
        }
        let cpu_ns = clock::thread_cpu_ns();
        steps.renew()?;
        stretches.aside_ns += clock::thread_cpu_ns() - cpu_ns;
        from = Edge::opens(meter, || steps.tally());
        steps.time(true);
    }
    course.marks.close(&steps.tally());
    stretches
        .of
        .push((from, Edge::closes(meter, || steps.tally())));
    stretches.marks = (S::COURSE != Course::None).then_some(course.marks);
    steps.time(false);
    (finish.closed)();
    while gate.phase() < Phase::Stop || steps.tally().messages < finish.messages_least {
        if !steps.step()? {
            break;
        }
    }
    steps.end()?;
    stretches.total = steps.tally();
    Ok(stretches)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Stretch,
    Window,
}

fn through<S: Steps>(
    steps: &mut S,
    gate: &impl Gate,
    (course, until): (&mut Clocked, &mut Phase),
    opened: &Tally,
) -> io::Result<Pause> {
    while let Some(phase) = while_before(*until, steps, gate, course)? {
        if phase < Phase::Cooldown {
            *until = course.marks.step(phase, &steps.tally());
        } else if steps.may_close(opened) {
            return Ok(Pause::Window);
        }
        if is_over_with_one(steps, course)? {
            break;
        }
    }
    Ok(Pause::Stretch)
}

/// Steps until the gate has come to that phase: which it has; none where the stretch is over before.
/// By itself, so that the loop keeps nothing else in registers.
#[inline(never)]
fn while_before<S: Steps>(
    until: Phase,
    steps: &mut S,
    gate: &impl Gate,
    course: &mut Clocked,
) -> io::Result<Option<Phase>> {
    loop {
        let phase = gate.phase();
        if phase >= until {
            return Ok(Some(phase));
        }
        if is_over_with_one(steps, course)? {
            return Ok(None);
        }
    }
}

#[inline(always)]
fn is_over_with_one<S: Steps>(steps: &mut S, course: &mut Clocked) -> io::Result<bool> {
    if steps.is_through()? {
        return Ok(true);
    }
    go(steps)?;
    if S::COURSE == Course::ByClock {
        course.pass(steps.now_ns(), || steps.tally());
    }
    Ok(false)
}

/// A step that must not be the last.
#[inline]
fn go(steps: &mut impl Steps) -> io::Result<()> {
    match steps.step()? {
        true => Ok(()),
        false => Err(gone()),
    }
}

#[cold]
fn gone() -> io::Error {
    let why = "the sender went away before the window was over";
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

#[cold]
fn too_many(most: usize) -> io::Error {
    let why = format!(
        "the file was through {most} times within the window: choose a larger --ring for cold files"
    );
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

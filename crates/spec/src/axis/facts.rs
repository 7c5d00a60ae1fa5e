//! What decides which axes apply to a cell.

use super::{AXES, Axis, Value};
use crate::cell::{Cell, Ring};
use crate::metric::{Measure, Metric, Side, Unit};
use crate::survey::{InFlight, MoverFacts, Release, Route, Survey, WorkKind};

/// A cell with what the tables say of its mover and its service.
#[derive(Clone, Copy, Debug)]
pub struct CellFacts<'a> {
    cell: &'a Cell,
    mover: Option<Ways>,
    has_size: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ways {
    route: Route,
    release: Release,
    in_flight: InFlight,
    wakes: bool,
}

impl<'a> CellFacts<'a> {
    /// A cell with the facts of a survey.
    pub fn of(cell: &'a Cell, survey: &'a Survey) -> CellFacts<'a> {
        let services = survey.serving.as_ref().map_or(&[][..], |s| &s.services);
        let service = services.iter().find(|s| s.name == cell.serving.service);
        let mover = survey.mover(&cell.mover).map(Ways::of);
        CellFacts {
            cell,
            mover: mover.filter(|_| !cell.is_served()),
            has_size: !cell.is_served() || service.is_none_or(|s| s.sizes.is_some()),
        }
    }

    /// A cell of messages or of files, with the facts of its mover.
    pub fn moved_by<T>(cell: &'a Cell, mover: &MoverFacts<T>) -> CellFacts<'a> {
        CellFacts {
            cell,
            mover: Some(Ways::of(mover)),
            has_size: true,
        }
    }

    /// The cell.
    pub fn cell(&self) -> &'a Cell {
        self.cell
    }

    /// Whether an axis applies to the cell.
    pub fn applies(&self, axis: Axis) -> bool {
        (axis.row().applies_to.cells)(self)
    }

    /// Whether the cell lies where axes have these values: what does not apply to it is no place.
    pub(crate) fn lies_at(&self, at: &[(Axis, Vec<Value>)]) -> bool {
        let is_there = |(axis, values): &(Axis, Vec<Value>)| {
            values.contains(&self.cell.value(*axis)) || !self.applies(*axis)
        };
        at.iter().all(is_there)
    }

    /// The cell with one value for all that does not apply, so that no two measure the same.
    pub fn normal(&self) -> Cell {
        let mut cell = self.cell.clone();
        for row in AXES.iter().filter(|row| !self.applies(row.axis)) {
            let value = match (row.otherwise)(self) {
                "" => row.default,
                value => value,
            };
            let set = cell.set(row.axis, value);
            debug_assert_eq!(set, Ok(()), "what {} is where it does not apply", row.name);
        }
        cell
    }

    /// Whether two cells are of one kind, and agree in every axis of both, but for some.
    pub fn agrees(&self, other: &CellFacts<'_>, except: &[Axis]) -> bool {
        // Reading a file is not compared with writing one, nor work with moving bytes.
        let is_alone = |c: &CellFacts<'_>| c.is_of_files() || c.is_work() || c.is_ping();
        let of_one_kind = self.route() == other.route() || self.is_ping() && other.is_ping();
        // Nor is one side compared with two, nor a server with bytes that are moved.
        let sides = |c: &CellFacts<'_>| (c.is_served(), c.is_sent() && !c.is_received());
        sides(self) == sides(other)
            && (of_one_kind || !is_alone(self) && !is_alone(other))
            && AXES.iter().all(|row| {
                except.contains(&row.axis)
                    || (row.is_same)(self.cell, other.cell)
                    || !self.applies(row.axis)
                    || !other.applies(row.axis)
            })
    }

    fn route(&self) -> Route {
        self.mover.map_or(Route::Nowhere, |m| m.route)
    }

    /// What such a cell is measured for, the main measure first: a wake-up for how late it comes,
    /// two threads that take turns for their round trip, a server for its requests.
    pub fn metrics(&self) -> &'static [Metric] {
        const fn of(measure: Measure) -> Metric {
            Metric::both(measure)
        }
        const RATE: Metric = of(Measure::ThroughputGbitPerS);
        const BYTE: Metric = of(Measure::CpuSPerGb);
        const STEPS: Metric = of(Measure::MessagesPerS);
        const STEP: Metric = of(Measure::CpuNsPerMessage);
        const TURN: Metric = of(Measure::RoundTripNs);
        const P50: Metric = of(Measure::LatencyUsP50);
        const P99: Metric = of(Measure::LatencyUsP99);
        const SERVER: Metric = Metric {
            measure: Measure::CpuNsPerMessage,
            side: Side::Server,
        };
        if self.is_served() {
            &[STEPS, SERVER, P99]
        } else if self.wakes() {
            &[P50, P99]
        } else if self.is_ping() {
            &[TURN, STEP]
        } else if self.is_work() {
            &[STEPS, STEP]
        } else if self.is_of_files() || !self.is_sent() {
            &[RATE, BYTE]
        } else {
            &[BYTE, RATE, P50]
        }
    }

    /// What one message is called here.
    pub fn unit(&self) -> Unit {
        if self.wakes() {
            Unit::WakeUp
        } else if self.is_work() {
            Unit::Step
        } else if self.is_ping() {
            Unit::RoundTrip
        } else if self.has_a_file() && self.cell.ring == Ring::Message {
            Unit::File
        } else if self.is_served() || self.is_of_files() {
            Unit::Request
        } else {
            Unit::Message
        }
    }

    /// Whether a server is asked by many clients.
    pub fn is_served(&self) -> bool {
        self.cell.is_served()
    }

    /// Whether a mover sends messages to another end; one that is not known is taken to do so.
    pub fn is_sent(&self) -> bool {
        !self.is_served() && self.mover.is_none_or(|m| m.route.has_peer())
    }

    /// Whether a mover works on a file and has no other end.
    pub fn is_of_files(&self) -> bool {
        self.route().is_of_files()
    }

    /// Whether a CPU works, and nothing is moved.
    pub fn is_work(&self) -> bool {
        self.route().is_work()
    }

    /// Whether a thread sleeps and wakes at each beat.
    pub fn wakes(&self) -> bool {
        self.mover.is_some_and(|m| m.wakes)
    }

    /// Whether two threads take turns.
    pub fn is_ping(&self) -> bool {
        self.route().is_ping()
    }

    /// Whether a message stays in memory, or goes nowhere at all.
    pub(super) fn stays_in_memory(&self) -> bool {
        let alone = self.is_of_files() || self.is_work() || self.is_ping();
        !(self.is_served() || self.is_sent() || alone)
    }

    /// Whether a message or request has a size of its own.
    pub fn has_size(&self) -> bool {
        self.has_size && !self.is_ping()
    }

    /// Whether somebody receives what is sent.
    pub(super) fn is_received(&self) -> bool {
        self.is_sent() && self.cell.transport.has_receiver()
    }

    /// Whether messages are sent over TCP.
    pub(super) fn is_sent_by_tcp(&self) -> bool {
        self.is_sent() && self.cell.transport.is_tcp()
    }

    /// Whether messages are sent over a link that is made for the run.
    pub(super) fn has_a_link(&self) -> bool {
        self.is_sent() && self.cell.transport.is_made()
    }

    /// Whether a server's clients wait for an answer before they ask again.
    pub(super) fn is_closed_loop(&self) -> bool {
        self.is_served() && self.cell.serving.rate_per_s.is_none()
    }

    /// Whether the kernel says when a buffer may be used again.
    pub(super) fn completes(&self) -> bool {
        let at_completion = |m: Ways| m.release == Release::AtCompletion;
        self.is_sent() && self.mover.is_none_or(at_completion)
    }

    /// Whether there is a file, whose place and order the cell chooses.
    pub(super) fn has_a_file(&self) -> bool {
        self.is_of_files() || self.route() == Route::FileToSocket
    }

    /// Whether the file is gone through in blocks, one call each: from a file to another or to
    /// nothing, or through memory of the mover's own to a socket.
    pub(super) fn goes_by_blocks(&self) -> bool {
        let through_memory =
            |m: Ways| m.route == Route::FileToSocket && m.release == Release::AtReturn;
        self.route().goes_by_blocks() || self.mover.is_some_and(through_memory)
    }

    /// Whether several requests can be in flight.
    pub(super) fn has_depth(&self) -> bool {
        let several =
            |m: Ways| matches!(m.in_flight, InFlight::Several | InFlight::SeveralByThreads);
        self.is_served() || self.is_of_files() && self.mover.is_some_and(several)
    }
}

impl Ways {
    fn of<T>(mover: &MoverFacts<T>) -> Ways {
        Ways {
            route: mover.route,
            release: mover.release,
            in_flight: mover.in_flight,
            wakes: mover.work == WorkKind::Beats,
        }
    }
}

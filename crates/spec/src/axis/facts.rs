//! The facts of a cell and of its mover or service by which axes apply to it or not.

use super::{AXES, Axis, Value};
use crate::cell::{Cell, Ring};
use crate::metric::{Measure, Metric, Side, Unit};
use crate::survey::{InFlight, MoverFacts, Release, Route, Survey, WorkKind};

/// A cell together with the rows of its mover and its service in the engine's tables.
#[derive(Clone, Copy, Debug)]
pub struct CellFacts<'a> {
    cell: &'a Cell,
    mover: Option<MoverKind>,
    has_size: bool,
}

/// The columns of a mover's row by which axes apply.
#[derive(Clone, Copy, Debug)]
struct MoverKind {
    route: Route,
    release: Release,
    in_flight: InFlight,
    wakes: bool,
}

impl<'a> CellFacts<'a> {
    /// A cell of a study, with the tables that a survey holds.
    pub fn new(cell: &'a Cell, survey: &'a Survey) -> CellFacts<'a> {
        let is_served = cell.is_served();
        let services = survey.serving.as_ref().map_or(&[][..], |s| &s.services);
        let service = services.iter().find(|s| s.name == cell.serving.service);
        CellFacts {
            cell,
            mover: (survey.mover(&cell.mover))
                .filter(|_| !is_served)
                .map(MoverKind::from),
            has_size: !is_served || service.is_none_or(|s| s.sizes.is_some()),
        }
    }

    /// A cell of messages or of files whose mover's row is at hand.
    pub fn moved_by<T>(cell: &'a Cell, mover: &MoverFacts<T>) -> CellFacts<'a> {
        CellFacts {
            cell,
            mover: Some(MoverKind::from(mover)),
            has_size: true,
        }
    }

    /// The cell itself.
    pub fn cell(&self) -> &'a Cell {
        self.cell
    }

    /// Returns true if the axis means something to the cell.
    pub fn applies(&self, axis: Axis) -> bool {
        (axis.row().applies_to.cells)(self)
    }

    /// Returns true if the cell has one of the values on each of the axes that apply to it.
    pub(crate) fn lies_at(&self, at: &[(Axis, Vec<Value>)]) -> bool {
        at.iter()
            .all(|(axis, values)| values.contains(&self.cell.value(*axis)) || !self.applies(*axis))
    }

    /// The cell with one fixed value on each axis that does not apply, so that no two cells measure the same.
    pub fn normal(&self) -> Cell {
        let mut cell = self.cell.clone();
        for row in AXES.iter().filter(|row| !self.applies(row.axis)) {
            let value = match (row.otherwise)(self) {
                "" => row.default,
                value => value,
            };
            let set = cell.set(row.axis, value);
            debug_assert_eq!(
                set,
                Ok(()),
                "the value of {} where it does not apply",
                row.name
            );
        }
        cell
    }

    /// Returns true if two cells can be compared: both are of one kind, and equal in every axis that
    /// applies to both, except those that are named.
    pub fn agrees(&self, other: &CellFacts<'_>, except: &[Axis]) -> bool {
        // Reading a file is not compared with writing one, nor work with moving bytes.
        let has_no_peer = |c: &CellFacts<'_>| c.is_of_files() || c.is_work() || c.is_ping();
        let of_one_kind = self.route() == other.route() || self.is_ping() && other.is_ping();
        // Nor is one side compared with two, nor a server with bytes that are moved.
        let sides = |c: &CellFacts<'_>| (c.is_served(), c.is_sent() && !c.is_received());
        sides(self) == sides(other)
            && (of_one_kind || !has_no_peer(self) && !has_no_peer(other))
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

    /// The metrics that such a cell is measured for, the main one first: the delay of a wake-up, the
    /// round trip of two threads that take turns, the requests of a server.
    pub fn metrics(&self) -> &'static [Metric] {
        const RATE: Metric = Metric::both(Measure::ThroughputGbitPerS);
        const BYTE: Metric = Metric::both(Measure::CpuSPerGb);
        const STEPS: Metric = Metric::both(Measure::MessagesPerS);
        const STEP: Metric = Metric::both(Measure::CpuNsPerMessage);
        const TURN: Metric = Metric::both(Measure::RoundTripNs);
        const P50: Metric = Metric::both(Measure::LatencyUsP50);
        const P99: Metric = Metric::both(Measure::LatencyUsP99);
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

    /// The noun for one operation of the cell: a message, a request, a step.
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

    /// Returns true if many clients send requests to a server.
    pub fn is_served(&self) -> bool {
        self.cell.is_served()
    }

    /// Returns true if a mover sends messages to a peer; a mover that no table has is assumed to.
    pub fn is_sent(&self) -> bool {
        !self.is_served() && self.mover.is_none_or(|m| m.route.has_peer())
    }

    /// Returns true if a mover works on a file and has no peer.
    pub fn is_of_files(&self) -> bool {
        self.route().is_of_files()
    }

    /// Returns true if the CPU computes and nothing is moved.
    pub fn is_work(&self) -> bool {
        self.route().is_work()
    }

    /// Returns true if a thread sleeps and is woken by a periodic timer.
    pub fn wakes(&self) -> bool {
        self.mover.is_some_and(|m| m.wakes)
    }

    /// Returns true if two threads take turns.
    pub fn is_ping(&self) -> bool {
        self.route().is_ping()
    }

    /// Returns true if messages stay in memory or go nowhere: `memcpy` and `null`.
    pub(super) fn stays_in_memory(&self) -> bool {
        let has_no_message = self.is_of_files() || self.is_work() || self.is_ping();
        !(self.is_served() || self.is_sent() || has_no_message)
    }

    /// Returns true if the size of a message or request can be chosen.
    pub fn has_size(&self) -> bool {
        self.has_size && !self.is_ping()
    }

    /// Returns true if a receiver reads what is sent.
    pub(super) fn is_received(&self) -> bool {
        self.is_sent() && self.cell.transport.has_receiver()
    }

    pub(super) fn is_sent_by_tcp(&self) -> bool {
        self.is_sent() && self.cell.transport.is_tcp()
    }

    /// Returns true if messages are sent over a link that is made for the run.
    pub(super) fn has_a_link(&self) -> bool {
        self.is_sent() && self.cell.transport.is_made()
    }

    /// Returns true if a server's clients wait for a response before their next request.
    pub(super) fn is_closed_loop(&self) -> bool {
        self.is_served() && self.cell.serving.rate_per_s.is_none()
    }

    /// Returns true if the kernel reports by a completion when a buffer may be used again.
    pub(super) fn completes(&self) -> bool {
        let at_completion = |m: MoverKind| m.release == Release::AtCompletion;
        self.is_sent() && self.mover.is_none_or(at_completion)
    }

    /// Returns true if there is a file, whose cache state and order of access the cell chooses.
    pub(super) fn has_a_file(&self) -> bool {
        self.is_of_files() || self.route() == Route::FileToSocket
    }

    /// Returns true if the file is copied block by block, one call each: from a file to another or to
    /// nothing, or through the mover's own memory to a socket.
    pub(super) fn goes_by_blocks(&self) -> bool {
        let through_memory =
            |m: MoverKind| m.route == Route::FileToSocket && m.release == Release::AtReturn;
        self.route().goes_by_blocks() || self.mover.is_some_and(through_memory)
    }

    /// Returns true if several requests can be in flight.
    pub(super) fn has_depth(&self) -> bool {
        let several =
            |m: MoverKind| matches!(m.in_flight, InFlight::Several | InFlight::SeveralByThreads);
        self.is_served() || self.is_of_files() && self.mover.is_some_and(several)
    }
}

impl<T> From<&MoverFacts<T>> for MoverKind {
    fn from(mover: &MoverFacts<T>) -> MoverKind {
        MoverKind {
            route: mover.route,
            release: mover.release,
            in_flight: mover.in_flight,
            wakes: mover.work == WorkKind::Beats,
        }
    }
}

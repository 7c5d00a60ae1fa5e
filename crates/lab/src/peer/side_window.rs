//! The window of a trial's side that plays here for a coordinator on another host: what this machine
//! and its network do between the edges, which schedules, passes or the clients of a server give.

use std::ops::Range;
use std::slice;

use bytecost_meter::{NetworkMeter, NetworkSnapshot};
use bytecost_spec::{Cell, Readings};

use crate::endpoint_process::Endpoint;
use crate::groups::ControlGroups;
use crate::networks;
use crate::passes::Passes;
use crate::protocol::{FromEndpoint, Role, Schedule};
use crate::whole_machine::{Instruments, MachineEdge, owners};
use crate::window::machine_edges_ns;

/// A window with the control groups of its side, which are removed after the processes in them.
pub(super) struct SideWindow {
    cell: Cell,
    group: Option<ControlGroups>,
    state: State,
}

/// Edges are moments in ns of CLOCK_MONOTONIC.
enum State {
    /// Nobody knows yet when it is.
    Unknown,
    /// It opens and closes by the clock.
    Scheduled(NetworkMeter, Range<u64>),
    /// It closes by the clock, or with the passes of the side.
    Open(NetworkMeter, Edge, Option<u64>),
    Closed(NetworkMeter, Edge, MachineEdge),
}

/// Machine and network when the window opened.
struct Edge {
    machine: MachineEdge,
    packets: NetworkSnapshot,
}

impl SideWindow {
    pub(super) fn new(cell: &Cell, group: Option<ControlGroups>) -> SideWindow {
        SideWindow {
            cell: cell.clone(),
            group,
            state: State::Unknown,
        }
    }

    /// The moment of the next edge by the clock.
    pub(super) fn next_edge_ns(&self) -> Option<u64> {
        match &self.state {
            State::Scheduled(_, window_ns) => Some(window_ns.start),
            State::Open(_, _, until_ns) => *until_ns,
            State::Unknown | State::Closed(..) => None,
        }
    }

    /// Takes the edges of a schedule, unless another one is to follow, or passes or the clients of a
    /// server set them.
    pub(super) fn set_schedule(
        &mut self,
        end: &Endpoint,
        instruments: &mut Instruments,
        schedule: &Schedule,
    ) {
        let is_by_clock = schedule.steady_by_ns.is_none() && Passes::of(&self.cell).is_none();
        if is_by_clock && end.role() != Role::Client {
            let window_ns = machine_edges_ns(schedule, end.role() == Role::Server);
            self.set_edges(end, instruments, window_ns);
        }
    }

    fn set_edges(&mut self, end: &Endpoint, instruments: &mut Instruments, window_ns: Range<u64>) {
        let network = self.list(end, instruments);
        self.state = State::Scheduled(network, window_ns);
    }

    /// Opens a window of passes.
    pub(super) fn open(&mut self, end: &Endpoint, instruments: &mut Instruments) {
        let network = self.list(end, instruments);
        self.read_start(instruments, network, None);
    }

    /// Lists all processes, and opens the counters of the side's network.
    fn list(&self, end: &Endpoint, instruments: &mut Instruments) -> NetworkMeter {
        let ends = slice::from_ref(end);
        instruments.clocks.list(&owners(ends, None, &self.cell));
        networks::meter(&self.cell, ends)
    }

    /// Reads the edges whose moments have come.
    pub(super) fn pass_edges(&mut self, instruments: &mut Instruments, now_ns: u64) {
        while self.next_edge_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            match std::mem::replace(&mut self.state, State::Unknown) {
                State::Scheduled(network, window_ns) => {
                    self.read_start(instruments, network, Some(window_ns.end));
                }
                open => {
                    self.state = open;
                    self.read_end(instruments);
                }
            }
        }
    }

    fn read_start(
        &mut self,
        instruments: &mut Instruments,
        network: NetworkMeter,
        until_ns: Option<u64>,
    ) {
        let edge = Edge {
            machine: instruments.around(self.group.as_ref()).read_start(),
            packets: network.read(),
        };
        self.state = State::Open(network, edge, until_ns);
    }

    fn read_end(&mut self, instruments: &mut Instruments) {
        match std::mem::replace(&mut self.state, State::Unknown) {
            State::Open(network, opened, _) => {
                let closed = instruments.around(self.group.as_ref()).read_end();
                self.state = State::Closed(network, opened, closed);
            }
            other => self.state = other,
        }
    }

    /// Takes what an answer of the endpoint says of the window: its readings with the last one.
    pub(super) fn on_answer(
        &mut self,
        end: &Endpoint,
        instruments: &mut Instruments,
        answer: &FromEndpoint,
    ) -> Readings {
        match (answer, &self.state) {
            (FromEndpoint::Connected(window_ns), _) => {
                self.set_edges(end, instruments, window_ns.clone());
            }
            (FromEndpoint::Closed, State::Open(_, _, None)) => self.read_end(instruments),
            (FromEndpoint::Done(_), State::Closed(network, opened, closed)) => {
                let mut around = instruments.around(self.group.as_ref());
                let mut readings = around.difference(&opened.machine, closed);
                readings.extend(network.difference(&opened.packets, &network.read()));
                return readings;
            }
            _ => {}
        }
        Readings::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use bytecost_meter::MachineMeter;
    use bytecost_spec::{Axis, Counter, Reading};
    use bytecost_sys::clock;

    use crate::program::Program;

    /// A side of a role by a program that says nothing.
    fn side(role: Role, values: &[(Axis, &str)]) -> (Endpoint, SideWindow, Instruments) {
        let program = Program::at("/usr/bin/yes".as_ref()).unwrap();
        let mut cell = Cell::default();
        cell.set(Axis::Transport, "peer").unwrap();
        for (axis, value) in values {
            cell.set(*axis, value).unwrap();
        }
        (
            Endpoint::start(&program, role, None).unwrap(),
            SideWindow::new(&cell, None),
            Instruments::new(MachineMeter::open(Path::new("/"))),
        )
    }

    fn done() -> FromEndpoint {
        FromEndpoint::Done(Box::default())
    }

    fn elapsed_ns(readings: &Readings) -> Option<u64> {
        let elapsed = readings.get(&Counter::MachineElapsedNs);
        elapsed.and_then(Reading::measured)
    }

    #[test]
    fn a_window_by_the_clock_is_read_at_its_edges_whenever_its_side_closes_it() {
        let (end, mut window, mut instruments) = side(Role::Receiver, &[]);
        let now_ns = clock::monotonic_ns();
        let mut schedule = Schedule {
            begin_ns: now_ns,
            window_from_ns: now_ns,
            window_to_ns: now_ns + 10_000_000,
            steady_by_ns: Some(now_ns),
        };
        window.set_schedule(&end, &mut instruments, &schedule);
        assert_eq!(window.next_edge_ns(), None, "another schedule is to follow");
        schedule.steady_by_ns = None;
        window.set_schedule(&end, &mut instruments, &schedule);
        let edges_ns = machine_edges_ns(&schedule, false);
        assert_eq!(window.next_edge_ns(), Some(edges_ns.start));
        window.pass_edges(&mut instruments, edges_ns.start);
        assert_eq!(window.next_edge_ns(), Some(edges_ns.end));
        let closed = window.on_answer(&end, &mut instruments, &FromEndpoint::Closed);
        assert_eq!(
            (closed, window.next_edge_ns()),
            (Readings::new(), Some(edges_ns.end))
        );
        window.pass_edges(&mut instruments, edges_ns.end);
        assert_eq!(window.next_edge_ns(), None);
        let readings = window.on_answer(&end, &mut instruments, &done());
        assert!(elapsed_ns(&readings).is_some(), "{readings:?}");
    }

    #[test]
    fn a_window_of_passes_closes_with_them_and_one_that_never_opened_has_no_readings() {
        let long = [(Axis::Size, "64MiB"), (Axis::Ring, "message")];
        let (end, mut window, mut instruments) = side(Role::Sender, &long);
        let none = window.on_answer(&end, &mut instruments, &done());
        assert_eq!(none, Readings::new());
        window.open(&end, &mut instruments);
        window.pass_edges(&mut instruments, u64::MAX);
        window.on_answer(&end, &mut instruments, &FromEndpoint::Closed);
        let readings = window.on_answer(&end, &mut instruments, &done());
        assert!(elapsed_ns(&readings).is_some(), "{readings:?}");
    }

    #[test]
    fn the_clients_of_a_server_say_when_the_window_is() {
        let (end, mut window, mut instruments) = side(Role::Client, &[]);
        let connected = FromEndpoint::Connected(7..9);
        window.on_answer(&end, &mut instruments, &connected);
        assert_eq!(window.next_edge_ns(), Some(7));
        window.pass_edges(&mut instruments, 9);
        let readings = window.on_answer(&end, &mut instruments, &done());
        assert!(elapsed_ns(&readings).is_some(), "{readings:?}");
    }
}

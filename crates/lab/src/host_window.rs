//! The window of a trial on one host: the readings of its machine and its network between the edges.
//! The coordinator has one for its host, the agent one for the side that plays on the other.

use std::mem;
use std::ops::Range;
use std::path::PathBuf;

use bytecost_meter::{NetworkMeter, NetworkSnapshot};
use bytecost_spec::{Cell, Readings};

use crate::groups::ControlGroups;
use crate::instruments::{Instruments, MachineEdge};
use crate::networks;
use crate::trial_processes::TrialProcesses;

/// The time behind an edge of a window at which the machine is read: as a rule the sides have read their
/// own clocks by then, which brings the kernel's account of a running thread up to date. Where they come
/// after the machine at one edge and before it at the other, up to a tick is too much.
const BEHIND_EDGE_NS: u64 = 250_000;

/// A window with the control groups of its sides, which are removed after the processes in them.
pub(crate) struct HostWindow {
    cell: Cell,
    group: Option<ControlGroups>,
    /// Counters of the networks that its packets go through.
    network: NetworkMeter,
    state: State,
}

/// The states follow each other. Moments are in ns of CLOCK_MONOTONIC; a window of passes has none.
enum State {
    /// Its time is not set yet.
    Unknown,
    Upcoming(Range<u64>),
    /// The network was read, the machine was not.
    Opening {
        packets: NetworkSnapshot,
        window_ns: Option<Range<u64>>,
    },
    Open {
        edge: OpenEdge,
        until_ns: Option<u64>,
    },
    Closed {
        edge: Box<OpenEdge>,
        machine: MachineEdge,
        /// Read where connections have ended with the window.
        packets: Option<NetworkSnapshot>,
    },
}

/// Network and machine when the window opened.
struct OpenEdge {
    packets: NetworkSnapshot,
    machine: MachineEdge,
}

impl HostWindow {
    pub(crate) fn new(cell: &Cell, group: Option<ControlGroups>) -> HostWindow {
        HostWindow {
            cell: cell.clone(),
            group,
            network: NetworkMeter::open(&[]),
            state: State::Unknown,
        }
    }

    /// The files by which a process enters the control groups.
    pub(crate) fn procs_files(&self) -> Vec<PathBuf> {
        (self.group.as_ref()).map_or_else(Vec::new, ControlGroups::procs_files)
    }

    /// Lists all processes, and opens the counters of the networks of a trial's processes.
    pub(crate) fn prepare(&mut self, instruments: &mut Instruments, processes: &TrialProcesses) {
        instruments.list(&self.cell, processes);
        self.network = networks::meter(&self.cell, processes);
    }

    /// Sets the times at which the flows open and close it.
    pub(crate) fn schedule(&mut self, window_ns: Range<u64>) {
        self.state = State::Upcoming(window_ns);
    }

    /// The moment of the next edge; none of a window that is closed, or of passes.
    pub(crate) fn next_edge_ns(&self) -> Option<u64> {
        match &self.state {
            State::Upcoming(window_ns) => Some(window_ns.start),
            State::Opening { window_ns, .. } => {
                window_ns.as_ref().map(|w| self.machine_edge_ns(w.start))
            }
            State::Open { until_ns, .. } => until_ns.map(|at_ns| self.machine_edge_ns(at_ns)),
            State::Unknown | State::Closed { .. } => None,
        }
    }

    /// The time at which the machine is read for that edge of the flows. Processes that end with their
    /// connections as soon as the window is over have no clocks after that.
    fn machine_edge_ns(&self, edge_ns: u64) -> u64 {
        if self.ends_with_window() {
            edge_ns
        } else {
            edge_ns.saturating_add(BEHIND_EDGE_NS)
        }
    }

    fn ends_with_window(&self) -> bool {
        self.cell.is_served()
    }

    /// Returns true between the two readings of the machine.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Reads the next edge.
    pub(crate) fn pass_edge(&mut self, instruments: &mut Instruments) {
        let group = self.group.as_ref();
        self.state = match mem::replace(&mut self.state, State::Unknown) {
            State::Upcoming(window_ns) => State::Opening {
                packets: self.network.read(),
                window_ns: Some(window_ns),
            },
            State::Opening { packets, window_ns } => {
                let machine = instruments.read_start(group);
                State::Open {
                    edge: OpenEdge { packets, machine },
                    until_ns: window_ns.map(|window_ns| window_ns.end),
                }
            }
            State::Open { edge, .. } => {
                let machine = instruments.read_end(group);
                let packets = self.ends_with_window().then(|| self.network.read());
                State::Closed {
                    edge: Box::new(edge),
                    machine,
                    packets,
                }
            }
            other => other,
        };
    }

    pub(crate) fn open(&mut self, instruments: &mut Instruments) {
        self.state = State::Opening {
            packets: self.network.read(),
            window_ns: None,
        };
        self.pass_edge(instruments);
    }

    /// The machine's readings, to be taken soon after the window has closed.
    pub(crate) fn machine_readings(&self, instruments: &mut Instruments) -> Readings {
        match &self.state {
            State::Closed { edge, machine, .. } => instruments.difference(&edge.machine, machine),
            _ => Readings::new(),
        }
    }

    /// The network's readings, once all flows have closed their windows: an exchange is finished first,
    /// whose packets are in the windows of flows, unless connections have ended.
    pub(crate) fn network_readings(&self) -> Readings {
        match &self.state {
            State::Closed { edge, packets, .. } => {
                let after = packets.unwrap_or_else(|| self.network.read());
                self.network.difference(&edge.packets, &after)
            }
            _ => Readings::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;
    use crate::trial_processes::SideProcess;
    use bytecost_spec::{Axis, Counter, Reading};

    /// The window of a side that this process plays.
    fn window(values: &[(Axis, &str)]) -> (HostWindow, Instruments) {
        let mut cell = Cell::default();
        cell.set(Axis::Transport, "peer").unwrap();
        for (axis, value) in values {
            cell.set(*axis, value).unwrap();
        }
        let processes = TrialProcesses {
            sides: vec![SideProcess {
                role: Role::Receiver,
                pid: std::process::id(),
            }],
            ..TrialProcesses::default()
        };
        let (mut window, mut instruments) = (HostWindow::new(&cell, None), Instruments::default());
        window.prepare(&mut instruments, &processes);
        (window, instruments)
    }

    fn is_read(window: &HostWindow, instruments: &mut Instruments) -> bool {
        let machine = window.machine_readings(instruments);
        let elapsed = machine.get(&Counter::MachineElapsedNs);
        let is_measured = elapsed.and_then(Reading::measured).is_some();
        assert_eq!(window.network_readings().is_empty(), !is_measured);
        is_measured
    }

    #[test]
    fn a_window_by_the_clock_has_its_machine_read_behind_both_edges_alike() {
        let (mut window, mut instruments) = window(&[]);
        assert_eq!(window.next_edge_ns(), None);
        window.schedule(10_000_000..30_000_000);
        let mut edges_ns = Vec::new();
        while let Some(at_ns) = window.next_edge_ns() {
            assert!(!is_read(&window, &mut instruments));
            edges_ns.push((at_ns, window.is_open()));
            window.pass_edge(&mut instruments);
        }
        let [(network_ns, false), (from_ns, false), (to_ns, true)] = edges_ns[..] else {
            panic!("{edges_ns:?}");
        };
        assert_eq!((network_ns, to_ns - from_ns), (10_000_000, 20_000_000));
        assert!(from_ns > network_ns);
        assert!(is_read(&window, &mut instruments));
    }

    #[test]
    fn one_whose_processes_end_with_it_has_its_machine_read_at_once() {
        let (mut window, mut instruments) = window(&[(Axis::Server, "thread")]);
        window.schedule(7..9);
        for expected in [Some(7), Some(7), Some(9), None] {
            assert_eq!(window.next_edge_ns(), expected);
            window.pass_edge(&mut instruments);
        }
        assert!(is_read(&window, &mut instruments));
    }

    #[test]
    fn a_window_of_passes_opens_and_closes_at_once() {
        let long = [(Axis::Size, "64MiB"), (Axis::Ring, "message")];
        let (mut window, mut instruments) = window(&long);
        window.open(&mut instruments);
        assert_eq!((window.is_open(), window.next_edge_ns()), (true, None));
        window.pass_edge(&mut instruments);
        assert!(is_read(&window, &mut instruments));
    }
}

//! The window of a trial on one host, edge after edge: each of these values is made of the one before it,
//! and has its readings.

use bytecost_meter::{NetworkMeter, NetworkSnapshot};
use bytecost_spec::{Cell, Readings};

use crate::groups::ThrottlingAccount;
use crate::instruments::{Instruments, MachineEdge};
use crate::path_meters;
use crate::protocol::ObservedTrial;

/// The time behind an edge of a window at which the machine is read: as a rule the sides have read their
/// own clocks by then, which brings the kernel's account of a running thread up to date. Where they come
/// after the machine at one edge and before it at the other, up to a tick is too much.
const BEHIND_EDGE_NS: u64 = 250_000;

/// The time at which the machine is read for that edge of a cell's flows, in ns. Processes that end with
/// their connections as soon as the window is over have no clocks after that.
pub(crate) fn machine_edge_ns(cell: &Cell, edge_ns: u64) -> u64 {
    if ends_with_window(cell) {
        edge_ns
    } else {
        edge_ns.saturating_add(BEHIND_EDGE_NS)
    }
}

fn ends_with_window(cell: &Cell) -> bool {
    cell.is_served()
}

/// The meters of a host that are read at the edges of one window.
struct WindowMeters<'i> {
    instruments: &'i mut Instruments,
    /// Counters of the networks that the trial's packets go through.
    network: NetworkMeter,
    throttling: Option<ThrottlingAccount>,
    /// True if connections end with the window.
    ends_with_window: bool,
}

/// A window whose meters are open.
pub(crate) struct UpcomingWindow<'i>(WindowMeters<'i>);

/// A window before which the network was read, and not yet the machine.
pub(crate) struct OpeningWindow<'i> {
    meters: WindowMeters<'i>,
    packets: NetworkSnapshot,
}

/// A window whose opening edge was read.
pub(crate) struct OpenWindow<'i> {
    meters: WindowMeters<'i>,
    packets: NetworkSnapshot,
    machine: MachineEdge,
}

/// A window both of whose edges were read.
pub(crate) struct ClosedWindow<'i> {
    open: OpenWindow<'i>,
    machine: MachineEdge,
    /// Read where connections have ended with the window.
    packets: Option<NetworkSnapshot>,
}

impl<'i> UpcomingWindow<'i> {
    /// Lists all processes, and opens the counters of the networks of a trial's processes.
    pub(crate) fn prepare(
        instruments: &'i mut Instruments,
        trial: &ObservedTrial,
    ) -> UpcomingWindow<'i> {
        instruments.list(&trial.cell, &trial.processes);
        UpcomingWindow(WindowMeters {
            instruments,
            network: path_meters::network_meter(&trial.cell, &trial.processes),
            throttling: trial.throttling.clone(),
            ends_with_window: ends_with_window(&trial.cell),
        })
    }

    pub(crate) fn read_network(self) -> OpeningWindow<'i> {
        OpeningWindow {
            packets: self.0.network.read(),
            meters: self.0,
        }
    }
}

impl<'i> OpeningWindow<'i> {
    pub(crate) fn read_machine(self) -> OpenWindow<'i> {
        let OpeningWindow { meters, packets } = self;
        OpenWindow {
            machine: meters.instruments.read_start(meters.throttling.as_ref()),
            meters,
            packets,
        }
    }
}

impl<'i> OpenWindow<'i> {
    pub(crate) fn close(mut self) -> ClosedWindow<'i> {
        let WindowMeters {
            instruments,
            network,
            throttling,
            ends_with_window,
        } = &mut self.meters;
        ClosedWindow {
            machine: instruments.read_end(throttling.as_ref()),
            packets: ends_with_window.then(|| network.read()),
            open: self,
        }
    }
}

impl ClosedWindow<'_> {
    /// The machine's readings, to be taken soon after the window has closed.
    pub(crate) fn machine_readings(&mut self) -> Readings {
        let open = &mut self.open;
        (open.meters.instruments).difference(&open.machine, &self.machine)
    }

    /// The network's readings, once all flows have closed their windows: an exchange is finished first,
    /// whose packets are in the windows of flows, unless connections have ended.
    pub(crate) fn network_readings(&self) -> Readings {
        let network = &self.open.meters.network;
        let after = self.packets.unwrap_or_else(|| network.read());
        network.difference(&self.open.packets, &after)
    }
}

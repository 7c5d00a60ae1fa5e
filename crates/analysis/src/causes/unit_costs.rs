//! The unit costs of a cell's events on this machine: of a system call, a copy, a context switch.

use bytecost_spec::cell::{Placement, Ring};
use bytecost_spec::evidence::CountedEvent;
use bytecost_spec::survey::{Priced, UnitCost};
use bytecost_stats::trimmed_mean;
use itertools::Itertools as _;

use crate::confidence::LEVEL;
use crate::result::{CauseOf, Uncertain};
use crate::trials::CellTrials;

pub(super) struct UnitCosts<'v, 'a> {
    pub(super) costs: &'v [UnitCost],
    pub(super) cell: &'v CellTrials<'a>,
}

/// The working sets for which the unit costs `copy-near` and `copy-middle` were measured, in bytes.
const NEAR_BYTES: u64 = 256 << 10;
const MIDDLE_BYTES: u64 = 4 << 20;

/// The CPUs of the two ends of a cell.
enum Ends {
    SameCpu,
    OtherCpu,
    /// The scheduler chooses them.
    Free,
}

impl UnitCosts<'_, '_> {
    /// The unit cost of a cause, in ns; none if it is not known.
    pub(super) fn cause_cost(&self, cause: CauseOf) -> Option<Uncertain> {
        let (cell, route) = (self.cell.cell, self.cell.route);
        let event = match cause {
            CauseOf::Event(event) => event,
            CauseOf::Copies => return self.copy_from_sender(),
            CauseOf::Work(_) => return None,
        };
        let priced = match event {
            CountedEvent::SystemCalls if cell.is_served() || route.has_peer() => Priced::SocketCall,
            CountedEvent::SystemCalls if route.is_of_files() => Priced::FileCall,
            CountedEvent::SystemCalls => Priced::SystemCall,
            CountedEvent::ContextSwitches => return self.context_switch(),
            CountedEvent::PageFaults => Priced::PageFault,
            CountedEvent::Packets if cell.transport.has_receiver() => Priced::Packet,
            _ => return None,
        };
        self.cost(priced)
    }

    /// The cost of one more copy of a message out of the sender's caches, in ns.
    fn copy_from_sender(&self) -> Option<Uncertain> {
        let bytes = match self.cell.cell.ring {
            Ring::Bytes(bytes) => bytes,
            Ring::Message => self.cell.cell.size_bytes,
        };
        let copy = match bytes {
            bytes if bytes <= NEAR_BYTES => Priced::CopyNear,
            bytes if bytes <= MIDDLE_BYTES => Priced::CopyMiddle,
            _ => Priced::CopyFar,
        };
        self.message_copy(copy)
    }

    /// The cost of one more copy of a message by its receiver, in ns. Bytes that another CPU has just
    /// written are not in the private caches of the receiver's CPU.
    pub(super) fn copy_received(&self) -> Option<Uncertain> {
        let near = self.copy_from_sender()?;
        let from_other_cpu = self.message_copy(Priced::CopyOtherCpu);
        Some(match (self.ends(), from_other_cpu) {
            (Ends::SameCpu, _) | (_, None) => near,
            (Ends::OtherCpu, Some(far)) => far,
            (Ends::Free, Some(far)) => near.up_to(far),
        })
    }

    /// The cost of a copy of a message, in ns, by the cost of a byte.
    fn message_copy(&self, copy: Priced) -> Option<Uncertain> {
        let size = Uncertain::exact(self.cell.cell.size_bytes as f64);
        Some(self.cost(copy)?.times(size))
    }

    /// The cost of a context switch, in ns. One that another CPU causes may cost ten times as much as one
    /// between two threads of the same CPU.
    fn context_switch(&self) -> Option<Uncertain> {
        let same = self.cost(Priced::SwitchSameCpu);
        let other = self.cost(Priced::SwitchOtherCpu);
        match self.ends() {
            Ends::SameCpu => same,
            Ends::OtherCpu => other,
            Ends::Free => match (same, other) {
                (Some(same), Some(other)) => Some(same.up_to(other)),
                _ => same.or(other),
            },
        }
    }

    fn ends(&self) -> Ends {
        match &self.cell.cell.placement {
            Placement::Within { cpus } if cpus.len() == 1 => Ends::SameCpu,
            Placement::Cpus { sender, receiver } if sender == receiver => Ends::SameCpu,
            Placement::Cpus { .. } | Placement::Pinned => Ends::OtherCpu,
            _ => Ends::Free,
        }
    }

    /// The measured cost of one event, in ns; none if its interval includes zero, or other processes ran
    /// in most repetitions.
    fn cost(&self, event: Priced) -> Option<Uncertain> {
        let repetitions = self.costs.iter().find(|c| c.event == event)?;
        let ns_per_event = repetitions
            .undisturbed()
            .iter()
            .map(|t| t.cpu_ns as f64 / t.events.max(1) as f64)
            .collect_vec();
        let cost = Uncertain::from_location(trimmed_mean(&ns_per_event)?, LEVEL)?;
        (cost.low > 0.0).then_some(cost)
    }
}

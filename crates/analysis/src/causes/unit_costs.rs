//! Unit costs of a cell's events on this machine.

use bytecost_spec::cell::{Placement, Ring};
use bytecost_spec::evidence::CountedEvent;
use bytecost_spec::survey::{Priced, UnitCost};
use bytecost_stats::trimmed_mean;
use itertools::Itertools as _;

use crate::confidence::LEVEL;
use crate::result::{CauseOf, Uncertain};
use crate::trials::CellTrials;

/// The measured unit costs, as they apply to a cell.
pub(super) struct UnitCosts<'v, 'a> {
    pub(super) costs: &'v [UnitCost],
    pub(super) cell: &'v CellTrials<'a>,
}

/// CPUs of the two ends of a cell: one for both, or one each.
enum Ends {
    SameCpu,
    OtherCpu,
    /// The scheduler chose.
    Free,
}

impl UnitCosts<'_, '_> {
    /// The unit cost of a cause in ns; none where it is not known.
    pub(super) fn cause_cost(&self, of: CauseOf) -> Option<Uncertain> {
        let (cell, route) = (self.cell.cell, self.cell.route);
        let event = match of {
            CauseOf::Event(event) => event,
            CauseOf::Copies => return self.copy_near(),
            CauseOf::Work(_) => return None,
        };
        let priced = match event {
            CountedEvent::SystemCalls if cell.is_served() || route.has_peer() => Priced::SocketCall,
            CountedEvent::SystemCalls if route.is_of_files() => Priced::FileCall,
            CountedEvent::SystemCalls => Priced::SystemCall,
            CountedEvent::ContextSwitches => return self.switch(),
            CountedEvent::PageFaults => Priced::PageFault,
            CountedEvent::Packets if cell.transport.has_receiver() => Priced::Packet,
            _ => return None,
        };
        self.cost(priced)
    }

    /// The cost of one more copy of a message, in ns, from the sender's caches.
    fn copy_near(&self) -> Option<Uncertain> {
        let bytes = match self.cell.cell.ring {
            Ring::Bytes(bytes) => bytes,
            Ring::Message => self.cell.cell.size_bytes,
        };
        let copy = match bytes {
            ..=0x4_0000 => Priced::CopyNear,
            0x4_0001..=0x40_0000 => Priced::CopyMiddle,
            _ => Priced::CopyFar,
        };
        self.copy(copy)
    }

    /// The cost of one more copy of a message by its receiver, in ns. Bytes that another CPU has just
    /// written are in no cache of the receiver's own.
    pub(super) fn copy_received(&self) -> Option<Uncertain> {
        let near = self.copy_near()?;
        Some(match (self.ends(), self.copy(Priced::CopyOtherCpu)) {
            (Ends::SameCpu, _) | (_, None) => near,
            (Ends::OtherCpu, Some(far)) => far,
            (Ends::Free, Some(far)) => near.up_to(far),
        })
    }

    fn copy(&self, copy: Priced) -> Option<Uncertain> {
        let size = Uncertain::exact(self.cell.cell.size_bytes as f64);
        Some(self.cost(copy)?.times(size))
    }

    /// The cost of a context switch, in ns. One that another CPU asks for may cost ten times as much as
    /// one on a single CPU.
    fn switch(&self) -> Option<Uncertain> {
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

    /// The measured cost of one event, in ns; none where it is not above zero, or other processes ran in
    /// most of the repetitions.
    fn cost(&self, event: Priced) -> Option<Uncertain> {
        let cost = self.costs.iter().find(|c| c.event == event)?;
        let each = cost
            .undisturbed()
            .iter()
            .map(|t| t.cpu_ns as f64 / t.events.max(1) as f64)
            .collect_vec();
        let cost = Uncertain::from_location(trimmed_mean(&each)?, LEVEL)?;
        (cost.low > 0.0).then_some(cost)
    }
}

//! What a trial brought together before it is told.

use bytecost_spec::host::Obstacle;
use bytecost_spec::reading::Of;
use bytecost_spec::sample::Truth;
use bytecost_spec::{Cell, Counter, Held, PacketSocket, Reading, Readings};

use crate::protocol::Done;

/// Both sides, the machine and what ran beside them.
pub(crate) struct Parts {
    pub(crate) sender: Done,
    /// The receiver, or who stands in its place.
    pub(crate) receiver: Option<Done>,
    pub(crate) machine: Readings,
    pub(crate) truth: Option<Truth>,
    /// Where the neighbour's threads were held.
    pub(crate) neighbour: Vec<Held>,
    /// Who else took the packets.
    pub(crate) packet_sockets: Vec<PacketSocket>,
    /// What was in the way of its packets.
    pub(crate) obstacles: Vec<Obstacle>,
}

impl Parts {
    /// A side that was kept off its CPU for the whole window has nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        let moved = |done: &Done| {
            let mut flows = done.side.flows.iter();
            flows.any(|f| f.bytes > 0 || f.messages > 0)
        };
        !moved(&self.sender) || self.receiver.as_ref().is_some_and(|r| !moved(r))
    }

    /// Whether anything else used more than so much of the machine, as a share of its CPU time.
    pub(crate) fn crowded(&self, bound: f64) -> Option<String> {
        let get = |readings: &Readings, counter| readings.get(&counter).and_then(Reading::measured);
        let busy = get(&self.machine, Counter::MachineBusyNs)? as f64;
        let step = get(&self.machine, Counter::MachineBusyResolutionNs).unwrap_or(0) as f64;
        let capacity = get(&self.machine, Counter::MachineElapsedNs)? as f64
            * get(&self.machine, Counter::MachineCpus)? as f64;
        let mut own = 0.0;
        for done in [Some(&self.sender), self.receiver.as_ref()]
            .into_iter()
            .flatten()
        {
            own += get(&done.side.readings, Counter::CpuNs)? as f64;
            own += get(&done.side.readings, Counter::AsideNs).unwrap_or(0) as f64;
        }
        own += get(&self.machine, Counter::NeighbourNs).unwrap_or(0) as f64;
        // What one step of the clock could feign does not count as a neighbour.
        let share = (busy - own - 2.0 * step) / capacity;
        (share > bound).then(|| {
            format!(
                "others used {:.0} % of the machine's CPU time, more than {:.0} %",
                share * 100.0,
                bound * 100.0
            )
        })
    }
}

/// What the far end of wire has read of its machine, in a receiver's place.
pub(crate) fn of_responder(cell: &Cell, far: Option<&Done>) -> Vec<(Counter, Reading)> {
    let responder = far.filter(|_| !cell.transport.has_receiver());
    let all = responder.into_iter().flat_map(|r| &r.side.readings);
    let of_machine = all.filter(|(counter, _)| counter.row().of == Of::Machine);
    of_machine
        .map(|(counter, reading)| (*counter, reading.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs for 100 ms: the sender used so much of it, a neighbour so much, and all together.
    fn crowded(sender_ms: u64, neighbour_ms: Option<u64>, busy_ms: u64) -> bool {
        let ms = |n: u64| Reading::Measured(n * 1_000_000);
        let mut parts = Parts {
            sender: Done::default(),
            receiver: None,
            machine: [
                (Counter::MachineBusyNs, ms(busy_ms)),
                (Counter::MachineElapsedNs, ms(100)),
                (Counter::MachineCpus, Reading::Measured(2)),
            ]
            .into(),
            truth: None,
            neighbour: Vec::new(),
            packet_sockets: Vec::new(),
            obstacles: Vec::new(),
        };
        let readings = &mut parts.sender.side.readings;
        readings.insert(Counter::CpuNs, ms(sender_ms));
        if let Some(used) = neighbour_ms {
            parts.machine.insert(Counter::NeighbourNs, ms(used));
        }
        parts.crowded(0.05).is_some()
    }

    #[test]
    fn a_neighbour_of_the_labs_own_is_no_stranger() {
        assert!(!crowded(90, None, 95));
        assert!(crowded(90, None, 190), "half of the machine was others'");
        assert!(!crowded(90, Some(98), 190));
        assert!(crowded(90, Some(20), 190));
    }
}

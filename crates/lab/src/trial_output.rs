//! The results of a trial: those of its sides, and the readings beside them.

use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_spec::host::Obstacle;
use bytecost_spec::reading::Scope;
use bytecost_spec::sample::Truth;
use bytecost_spec::{Cell, Counter, Held, PacketSocket, Reading, Readings};

use crate::delivery_check;
use crate::protocol::{Done, HostEvidence, HostReadings};
use crate::trial_error::TrialError;

#[derive(Default)]
pub(crate) struct TrialOutput {
    pub(crate) sender: Done,
    /// The receiver, or the server or responder in its place.
    pub(crate) receiver: Option<Done>,
    pub(crate) machine: Readings,
    /// The other host's machine, where one side played there.
    pub(crate) peer_machine: Readings,
    pub(crate) truth: Option<Truth>,
    /// CPUs that the threads of the background load were held to.
    pub(crate) neighbour: Vec<Held>,
    /// Sockets of other programs that took the packets.
    pub(crate) packet_sockets: Vec<PacketSocket>,
    /// Circumstances of its packets and its processes.
    pub(crate) obstacles: Vec<Obstacle>,
    /// Evidence of this host, if it was wanted.
    pub(crate) evidence: HostEvidence,
}

/// The readings of the hosts of a trial.
#[derive(Default)]
pub(crate) struct ReadingsOfHosts {
    pub(crate) here: HostReadings,
    /// Those of the other host; nothing where no side plays there.
    pub(crate) there: HostReadings,
}

impl TrialOutput {
    /// Joins the results of both sides, the sender's last, with the readings of the machine, and checks
    /// the bytes. The other fields are filled in by the caller.
    pub(crate) fn join(
        cell: &Cell,
        mover: Option<&Mover>,
        is_own_file: bool,
        mut done: Vec<Done>,
        mut machine: Readings,
    ) -> Result<TrialOutput, TrialError> {
        let sender = done
            .pop()
            .ok_or_else(|| TrialError::failed("the sender said nothing"))?;
        let receiver = done.pop();
        let truth = delivery_check::check(cell, mover, is_own_file, &sender, receiver.as_ref())?;
        // The far end of wire reads its machine, in a receiver's place.
        let responder = receiver.iter().filter(|_| !cell.transport.has_receiver());
        let read = responder.flat_map(|far| &far.side.readings);
        let of_machine = read.filter(|(counter, _)| counter.row().scope == Scope::Machine);
        machine.extend(of_machine.map(|(counter, reading)| (*counter, reading.clone())));
        let turned_away = sender.strangers + receiver.as_ref().map_or(0, |r| r.strangers);
        if turned_away > 0 {
            machine.insert(Counter::StrangersDropped, Reading::Measured(turned_away));
        }
        Ok(TrialOutput {
            sender,
            receiver,
            machine,
            truth,
            ..TrialOutput::default()
        })
    }

    /// The number that a counter of this host's machine read; none if it is absent.
    pub(crate) fn machine(&self, counter: Counter) -> Option<u64> {
        self.machine.get(&counter).and_then(Reading::measured)
    }

    /// Returns true if a flow moved nothing within its window, which was too short then. The requests of
    /// a server's clients count together.
    pub(crate) fn has_idle_flow(&self) -> bool {
        let idle = |done: &Done| {
            let mut flows = done.side.flows.iter();
            flows.len() == 0 || flows.any(|f| f.bytes == 0 && f.messages == 0)
        };
        idle(&self.sender) || self.receiver.as_ref().is_some_and(idle)
    }

    /// The longest window of a flow that moved nothing: it stays open while the flow waits in a call.
    pub(crate) fn stalled(&self) -> Option<Duration> {
        let sides = self.receiver.iter().chain([&self.sender]);
        sides
            .flat_map(|done| &done.side.flows)
            .filter(|f| f.bytes == 0 && f.messages == 0)
            .map(|f| Duration::from_nanos(f.elapsed_ns))
            .max()
    }

    /// Returns true if both sides together used a CPU for less than a twentieth of the window.
    pub(crate) fn used_no_cpu(&self) -> bool {
        let used = [Counter::SenderProcessesNs, Counter::ReceiverProcessesNs]
            .map(|counter| self.machine(counter));
        let both = used.into_iter().sum::<Option<u64>>();
        both.zip(self.machine(Counter::MachineElapsedNs))
            .is_some_and(|(cpu_ns, elapsed_ns)| cpu_ns * 20 < elapsed_ns)
    }
}

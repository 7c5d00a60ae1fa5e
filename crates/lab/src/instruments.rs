//! The meters of this host that trials share: CPU time of all processes by owner, machine, frequency,
//! quota, and the latency between two CPUs.

use std::path::Path;

use bytecost_host::Roots;
use bytecost_meter::{
    ClocksRead, CoreToCoreMeter, FrequencyMeter, FrequencySnapshot, MachineMeter, MachineSnapshot,
    Meter, ProcessClocks, ProcessOwner,
};
use bytecost_spec::{Cell, Counter, Reading, Readings};

use crate::groups::{Throttled, ThrottlingAccount};
use crate::protocol::OthersUse;
use crate::quotas::Quotas;
use crate::role::Role;
use crate::trial_processes::TrialProcesses;

const NO_KERNEL: &str =
    "kernel threads cannot be seen from here: run outside of a PID namespace (a container)";

/// Meters of this machine, which are kept from trial to trial.
pub(crate) struct Instruments {
    machine: MachineMeter,
    clocks: ProcessClocks,
    /// Throttling of this process's own control groups from trial to trial.
    pub(crate) quotas: Quotas,
    frequency: FrequencyMeter,
    /// True if it is read at the edges of the next window.
    reads_frequency: bool,
    /// True if a background load of this host belongs to that window.
    has_load: bool,
}

/// The readings of all meters at an edge of a window.
pub(crate) struct MachineEdge {
    clocks: ClocksRead,
    machine: MachineSnapshot,
    frequency: FrequencySnapshot,
    /// The account of the control group's quota, where there is one.
    throttled: Option<Result<Throttled, String>>,
}

impl Instruments {
    /// Opens the meters, for the processes that `program` has started and the frequency of these CPUs.
    pub(crate) fn open(program: u32, cpus: &[u32]) -> Instruments {
        let root = Path::new("/");
        Instruments {
            machine: MachineMeter::open(root),
            clocks: ProcessClocks::new(root, program),
            quotas: Quotas::open(&Roots::real()),
            frequency: FrequencyMeter::open(root, cpus),
            reads_frequency: true,
            has_load: false,
        }
    }

    /// CPU time so far of all processes and of the machine, for an edge of a block.
    pub(crate) fn cpu_times(&mut self) -> CpuTimes {
        self.clocks.list(&[]);
        CpuTimes {
            processes: self.clocks.read_with_children(),
            machine: self.machine.read_start(),
        }
    }

    /// The CPU time of others and of the kernel between two edges of a block. CPU time of others is neither
    /// ours nor the kernel's, so that no mover can have a block repeated.
    pub(crate) fn others_use(&self, before: &CpuTimes, after: &CpuTimes) -> OthersUse {
        let used = self.clocks.between(&before.processes, &after.processes);
        let used_by = |owner| used.get(&owner).copied().unwrap_or(0);
        // No process ran while all CPUs were idle, even if its account grew meanwhile.
        let machine = self.machine.difference(&before.machine, &after.machine);
        let busy = machine.get(&Counter::MachineBusyNs);
        let busy_ns = busy.and_then(Reading::measured).unwrap_or(u64::MAX);
        let mut others = self.clocks.largest(&before.processes, &after.processes);
        for other in &mut others {
            other.cpu_ns = other.cpu_ns.min(busy_ns);
        }
        OthersUse {
            others_ns: used_by(ProcessOwner::Other).min(busy_ns),
            others,
            kernel_threads_ns: used_by(ProcessOwner::Kernel) + used_by(ProcessOwner::Softirq),
        }
    }

    /// Lists all processes with their owners, for the window that comes next.
    pub(crate) fn list(&mut self, cell: &Cell, processes: &TrialProcesses) {
        self.clocks.list(&owners(cell, processes));
        // Processes that end with the window leave no time to read frequencies, some µs for each CPU.
        self.reads_frequency = !cell.is_served();
        self.has_load = processes.background.is_some();
    }

    /// The edge at which a window opens, with the account of the trial's control group.
    pub(crate) fn read_start(&mut self, throttling: Option<&ThrottlingAccount>) -> MachineEdge {
        let frequency = self.frequency_now();
        MachineEdge {
            // These two belong together, in the same order at both edges.
            clocks: self.clocks.read(),
            machine: self.machine.read_start(),
            frequency,
            throttled: throttling.map(ThrottlingAccount::read),
        }
    }

    /// The edge at which it closes.
    pub(crate) fn read_end(&mut self, throttling: Option<&ThrottlingAccount>) -> MachineEdge {
        MachineEdge {
            clocks: self.clocks.read(),
            machine: self.machine.read_end(),
            frequency: self.frequency_now(),
            throttled: throttling.map(ThrottlingAccount::read),
        }
    }

    fn frequency_now(&self) -> FrequencySnapshot {
        if self.reads_frequency {
            self.frequency.read()
        } else {
            FrequencySnapshot::default()
        }
    }

    /// Readings between two edges. Processes that came meanwhile are looked up and read here: soon after
    /// the second edge, so that their CPU time until then counts too.
    pub(crate) fn difference(&mut self, from: &MachineEdge, to: &MachineEdge) -> Readings {
        let mut readings = self.machine.difference(&from.machine, &to.machine);
        readings.extend(self.frequency.difference(&from.frequency, &to.frequency));
        if let (Some(from), Some(to)) = (&from.throttled, &to.throttled) {
            readings.extend(Throttled::between(from, to));
        }
        let all = self.clocks.with_newcomers(&to.clocks);
        let used = self.clocks.between(&from.clocks, &all);
        let hidden = self.clocks.hides_others();
        let of = |owner| match hidden.filter(|_| self.clocks.is_empty()) {
            Some(why) => Reading::absent(why),
            None => Reading::Measured(used.get(&owner).copied().unwrap_or(0)),
        };
        let of_others = |reading| hidden.map_or(reading, Reading::absent);
        let sees_kernel = self.clocks.sees_kernel();
        let of_kernel = |reading| match hidden {
            None if !sees_kernel => Reading::absent(NO_KERNEL),
            _ => of_others(reading),
        };
        let softirq = of(ProcessOwner::Softirq);
        readings.extend([
            (Counter::SenderProcessesNs, of(ProcessOwner::Sender)),
            (Counter::ReceiverProcessesNs, of(ProcessOwner::Receiver)),
            (Counter::InstrumentNs, of(ProcessOwner::Instrument)),
            (
                Counter::OtherProcessesNs,
                of_others(of(ProcessOwner::Other)),
            ),
            (
                Counter::KernelThreadsNs,
                of_kernel(of(ProcessOwner::Kernel).plus(&softirq)),
            ),
            (Counter::SoftirqThreadsNs, of_kernel(softirq)),
        ]);
        if self.has_load {
            readings.insert(Counter::NeighbourNs, of(ProcessOwner::Background));
        }
        readings
    }
}

/// CPU time of all processes, those that have ended included, and of the machine.
pub(crate) struct CpuTimes {
    processes: ClocksRead,
    machine: MachineSnapshot,
}

/// The latency between the CPUs of a trial's ends, around its window, while they sleep. It is of this host
/// alone: ends on two hosts have no CPUs in common.
pub(crate) struct CoreToCore<'m> {
    meter: Option<&'m CoreToCoreMeter>,
    before_ns: Option<u64>,
}

impl<'m> CoreToCore<'m> {
    pub(crate) fn before(meter: Option<&'m CoreToCoreMeter>) -> CoreToCore<'m> {
        CoreToCore {
            meter,
            before_ns: meter.and_then(CoreToCoreMeter::read_ns),
        }
    }

    /// Both readings; nothing where there is no meter.
    pub(crate) fn after(&self) -> impl Iterator<Item = (Counter, Reading)> {
        let busy = || Reading::absent("a CPU was too busy to answer");
        let reading = |ns: Option<u64>| ns.map_or_else(busy, Reading::Measured);
        let both = self.meter.map(|meter| {
            [
                (Counter::CoreToCoreBeforeNs, reading(self.before_ns)),
                (Counter::CoreToCoreAfterNs, reading(meter.read_ns())),
            ]
        });
        both.into_iter().flatten()
    }
}

/// The owners of the processes of a trial on this host.
fn owners(cell: &Cell, processes: &TrialProcesses) -> Vec<(u32, ProcessOwner)> {
    let owner = |role| match role {
        Role::Sender | Role::Client => ProcessOwner::Sender,
        // The responder over wire is none of the sides.
        Role::Receiver if !cell.transport.has_receiver() => ProcessOwner::Instrument,
        Role::Receiver | Role::Server => ProcessOwner::Receiver,
        Role::Background => ProcessOwner::Background,
        Role::Observer => ProcessOwner::Instrument,
    };
    let sides = processes.sides.iter().map(|s| (s.pid, owner(s.role)));
    let background = (processes.background).map(|pid| (pid, ProcessOwner::Background));
    sides.chain(background).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use bytecost_sys::clock::process_cpu_ns_of;
    use rustix::process::{Pid, Signal, kill_process};

    /// Starts a process that works on a line of input, prints its number, and ends with it.
    const STARTER: &str = "ulimit -t 60; read _; while :; do :; done & echo $!; wait";

    #[test]
    fn who_comes_within_a_window_counts_and_who_goes_right_after_it_too() {
        let mut starter = Command::new("sh")
            .args(["-c", STARTER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut machine = Instruments {
            has_load: true,
            ..Instruments::open(std::process::id(), &[])
        };
        let load = (starter.id(), ProcessOwner::Background);
        machine.clocks.list(&[load]);
        let mut line = String::new();
        for goes in [false, true] {
            let opened = machine.read_start(None);
            if let (Some(mut input), Some(output)) = (starter.stdin.take(), starter.stdout.take()) {
                input.write_all(b"\n").unwrap();
                BufReader::new(output).read_line(&mut line).unwrap();
            }
            let pid = line.trim().parse().unwrap();
            let until_ns = process_cpu_ns_of(pid as u32).unwrap() + 20_000_000;
            while process_cpu_ns_of(pid as u32).unwrap() < until_ns {}
            let closed = machine.read_end(None);
            if goes {
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
                starter.wait().unwrap();
            }
            let used = &machine.difference(&opened, &closed)[&Counter::NeighbourNs];
            assert!(matches!(used, Reading::Measured(20_000_000..)), "{used:?}");
        }
        starter.wait().unwrap();
    }
}

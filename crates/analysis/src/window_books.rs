//! The books of one window: the users of the CPUs between the two readings of the machine. Times that a
//! side has measured over its own window are scaled to the machine's.

use bytecost_spec::evidence::CpuUser;
use bytecost_spec::{Counter, PeerSide, Readings, Sample, SideReadings};

/// By how much the window of a side and that of the machine may differ for the side's times to be
/// scaled: where a window is a number of passes, the time between them is no part of it.
const SAME_WINDOW: f64 = 0.25;

/// The time of all CPUs in a window by who used it, in ns.
pub(crate) struct WindowBooks {
    /// They add up to the time of all CPUs.
    lines: Vec<(CpuUser, f64)>,
    pub(crate) elapsed_ns: f64,
    pub(crate) capacity_ns: f64,
    /// Both sides with their workers.
    pub(crate) sides_ns: f64,
    /// CPU time of the machine that is not of other processes.
    pub(crate) of_cell_ns: f64,
    /// Interrupts on idle CPUs, and kernel threads that handle interrupts; none where the kernel's
    /// accounts do not show the former.
    pub(crate) interrupts_ns: Option<f64>,
}

impl WindowBooks {
    /// One trial's, of both machines where a side played on another host and that was read.
    pub(crate) fn new(sample: &Sample, there: Option<PeerSide>) -> Option<WindowBooks> {
        let (sender, receiver) = (Some(&sample.sender), sample.receiver.as_ref());
        let (here, other) = match there {
            None => ((sender, receiver), (None, None)),
            Some(PeerSide::Receiver) => ((sender, None), (None, receiver)),
            Some(PeerSide::Sender) => ((None, receiver), (sender, None)),
        };
        let here = machine_books(&sample.machine, here)?;
        let other = machine_books(&sample.peer_machine, other).filter(|_| there.is_some());
        Some(match other {
            Some(other) => here.plus(other),
            None => here,
        })
    }

    pub(crate) fn ns_of(&self, user: CpuUser) -> f64 {
        let line = self.lines.iter().find(|(of, _)| *of == user);
        line.map_or(0.0, |(_, ns)| *ns)
    }

    fn plus(self, other: WindowBooks) -> WindowBooks {
        let lines = self.lines.iter();
        let interrupts = self.interrupts_ns.zip(other.interrupts_ns);
        WindowBooks {
            lines: lines
                .map(|(user, ns)| (*user, ns + other.ns_of(*user)))
                .collect(),
            elapsed_ns: self.elapsed_ns,
            capacity_ns: self.capacity_ns + other.capacity_ns,
            sides_ns: self.sides_ns + other.sides_ns,
            of_cell_ns: self.of_cell_ns + other.of_cell_ns,
            interrupts_ns: interrupts.map(|(here, there)| here + there),
        }
    }
}

/// A side's CPU time over a window of the machine's, in ns.
#[derive(Clone, Copy, Default)]
struct SideTime {
    /// Its threads, without workers.
    threads: f64,
    workers: f64,
    /// Its own readings at the edges of its window.
    edges: f64,
    /// Interrupts on its CPUs that its threads' clocks leave out, and that are in `threads`.
    interrupts: f64,
}

fn machine_books(
    machine: &Readings,
    (sender, receiver): (Option<&SideReadings>, Option<&SideReadings>),
) -> Option<WindowBooks> {
    let of = |counter| machine.get(&counter)?.measured().map(|n| n as f64);
    let or_none = |counter| of(counter).unwrap_or(0.0);
    let elapsed = of(Counter::MachineElapsedNs)?;
    let capacity = elapsed * of(Counter::MachineCpus)?;
    let idle = of(Counter::MachineIdleNs)?;
    let steal = or_none(Counter::MachineStealNs);
    let others = of(Counter::OtherProcessesNs)?;
    let side = |played: Option<&SideReadings>| match played {
        Some(played) => side(played, elapsed),
        None => Some(SideTime::default()),
    };
    let (sender, receiver) = (side(sender)?, side(receiver)?);
    let busy = capacity - idle - steal;
    let in_sides = sender.interrupts + receiver.interrupts;
    // The two accounts of tasks are written by the same lines of the kernel, so that they fit to
    // the last ns; idle time comes in steps of 10 ms. A kernel whose tasks have no interrupts in
    // their time accounts for them apart, on any CPU.
    let apart = || of(Counter::MachineSoftirqNs).filter(|_| in_sides > 0.0);
    let tasks = of(Counter::MachineTasksNs);
    let on_idle = tasks
        .map(|tasks| busy - tasks)
        .or_else(apart)
        .map(|ns| ns - in_sides);
    let interrupts = on_idle.unwrap_or(0.0);
    let kernel = or_none(Counter::KernelThreadsNs);
    let background = or_none(Counter::NeighbourNs);
    let instrument = or_none(Counter::InstrumentNs) + sender.edges + receiver.edges;
    let sides = sender.threads + sender.workers + receiver.threads + receiver.workers;
    let known = sides + kernel + interrupts + background + instrument + others;
    Some(WindowBooks {
        lines: vec![
            (CpuUser::SenderThreads, sender.threads),
            (CpuUser::SenderWorkers, sender.workers),
            (CpuUser::ReceiverThreads, receiver.threads),
            (CpuUser::ReceiverWorkers, receiver.workers),
            (CpuUser::KernelThreads, kernel),
            (CpuUser::Interrupts, interrupts),
            (CpuUser::Background, background),
            (CpuUser::Instrument, instrument),
            (CpuUser::OtherProcesses, others),
            (CpuUser::Idle, idle),
            (CpuUser::Steal, steal),
            (CpuUser::LeftOver, busy - known),
        ],
        elapsed_ns: elapsed,
        capacity_ns: capacity,
        sides_ns: sides,
        of_cell_ns: busy - interrupts - others - background - instrument,
        interrupts_ns: on_idle.map(|ns| ns + or_none(Counter::SoftirqThreadsNs)),
    })
}

fn side(side: &SideReadings, machine_ns: f64) -> Option<SideTime> {
    let number = |counter| side.measured(counter).map(|n| n as f64);
    let or_none = |counter| number(counter).unwrap_or(0.0);
    let cpu = number(Counter::CpuNs)?;
    let workers = or_none(Counter::WorkersNs);
    let clocks = number(Counter::ThreadCpuNs).unwrap_or(cpu);
    let times = machine_ns / number(Counter::ElapsedNs)?;
    let times = if (times - 1.0).abs() < SAME_WINDOW {
        times
    } else {
        1.0
    };
    Some(SideTime {
        threads: (cpu - workers) * times + or_none(Counter::AsideNs),
        workers: workers * times,
        edges: or_none(Counter::EdgesNs),
        interrupts: (cpu - clocks) * times,
    })
}

//! The value of a metric in one trial: a number, a reason why there is none, or neither.

use std::cell::OnceCell;

use bytecost_spec::cell::Pattern;
use bytecost_spec::metric::MEASURES;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::service::is_saturated;
use bytecost_spec::survey::{MoverFacts, Release};
use bytecost_spec::{Cell, Counter, Measure, Metric, Reading, Sample, Side, SideReadings};
use bytecost_stats::{Distribution, LatencyHistogram};

use crate::measures::QUANTILES;
use crate::result::NoValue;

pub(crate) type Found = Result<f64, NoValue>;

pub(crate) const FAULTS: [Counter; 2] = [Counter::PageFaultsMinor, Counter::PageFaultsMajor];
pub(crate) const SWITCHES: [Counter; 2] = [
    Counter::ContextSwitchesVoluntary,
    Counter::ContextSwitchesInvoluntary,
];
/// The value of [`Counter::GeneratorLimited`] for clients that were always busy.
const GENERATOR_BUSY: u64 = 1;
/// A kernel stack on x86-64 and arm64 (THREAD_SIZE), in bytes. An assumption: other
/// architectures and kernels built for debugging have other sizes.
pub const KERNEL_STACK_BYTES: f64 = 16384.0;

/// The latencies that metrics ask for, in µs, by [`QUANTILES`].
pub(crate) type LatencyQuantiles = [f64; QUANTILES.len()];

/// A trial that counts. Each of its values is computed once. Its histogram is read at most once for
/// its quantiles and once for its distribution, and not kept: a thousand of them take half a gigabyte.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) sample: &'a Sample,
    /// By measure and side; none of what has no meaning for the cell.
    values: Vec<[OnceCell<Option<Found>>; SIDES]>,
    cell: &'a Cell,
    release: Option<Release>,
    is_ping: bool,
    latency: OnceCell<Option<LatencyQuantiles>>,
    distribution: OnceCell<Option<Distribution>>,
    /// Interrupts on idle CPUs as a share of the CPU time of both sides, to which they are added.
    interrupts: f64,
}

const SIDES: usize = Side::Client as usize + 1;

#[derive(Clone, Copy)]
enum Per {
    Bytes(f64),
    Message,
    Ns(f64),
}

impl<'a> Trial<'a> {
    pub(crate) fn sent(&self, counter: Counter) -> Option<f64> {
        read(&self.sample.sender, counter).ok()
    }

    pub(crate) fn received(&self, counter: Counter) -> Option<f64> {
        read(self.sample.receiver.as_ref()?, counter).ok()
    }

    /// A counter of the sending side over another one that is not zero.
    pub(crate) fn sent_over(&self, counter: Counter, other: Counter) -> Option<f64> {
        let other = self.sent(other).filter(|n| *n > 0.0)?;
        Some(self.sent(counter)? / other)
    }

    pub(crate) fn of_all(&self, counter: Counter) -> Option<f64> {
        machine(self.sample, counter).ok()
    }

    pub(crate) fn new(sample: &'a Sample, cell: &'a Cell, mover: Option<&MoverFacts>) -> Trial<'a> {
        Trial {
            sample,
            values: vec![Default::default(); MEASURES.len()],
            cell,
            release: mover.map(|m| m.release),
            is_ping: mover.is_some_and(|m| m.route.is_ping()),
            latency: OnceCell::new(),
            distribution: OnceCell::new(),
            interrupts: 0.0,
        }
    }

    /// Adds interrupts on idle CPUs to the CPU time of both sides together, as a share of it; before
    /// any value is asked for.
    pub(crate) fn charge_interrupts(&mut self, share: f64) {
        self.interrupts = share;
    }

    /// The round-trip times in ns; `None` without a histogram and for one that cannot be read.
    pub(crate) fn histogram(&self) -> Option<LatencyHistogram> {
        LatencyHistogram::decode(self.sample.latency_ns_histogram.as_deref()?)
    }

    /// The round-trip times in µs, as they are spread.
    pub(crate) fn distribution(&self) -> Option<&Distribution> {
        let read = || self.histogram()?.distribution_us();
        self.distribution.get_or_init(read).as_ref()
    }

    /// The metric's value, finite and not negative; none where it is absent or has no meaning.
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        self.found(metric)?.as_ref().ok().copied()
    }

    /// The reason for which the metric is absent, where it has a meaning for the cell.
    pub(crate) fn absent(&self, metric: Metric) -> Option<&NoValue> {
        self.found(metric)?.as_ref().err()
    }

    fn found(&self, metric: Metric) -> Option<&Found> {
        let slot = &self.values[metric.measure as usize][metric.side as usize];
        let find = || {
            Some(match self.find(metric)? {
                Ok(v) if !v.is_finite() || v < 0.0 => Err(NoValue::NoNumber),
                found => found,
            })
        };
        slot.get_or_init(find).as_ref()
    }

    fn find(&self, metric: Metric) -> Option<Found> {
        let side = metric.side;
        // Requests to a server are what counts, not bytes.
        let is_served = self.cell.is_served();
        let moves = !is_served && self.moves();
        let per = |counters: &[Counter], per: Per| {
            let has_meaning = moves || !matches!(per, Per::Bytes(_));
            has_meaning.then(|| self.sum(side, counters, per))
        };
        let (byte, kib, mib) = (Per::Bytes(1.0), Per::Bytes(1024.0), Per::Bytes(1_048_576.0));
        let is_there = match side {
            Side::Sender | Side::Receiver => !is_served,
            Side::Server | Side::Client => is_served,
            Side::Both => true,
        };
        if !is_there || (!is_served && is_of_servers_only(metric.measure)) {
            return None;
        }
        if side == Side::Receiver && self.sample.receiver.is_none() {
            let nobody = self.moves() && !self.cell.transport.has_receiver();
            return nobody.then_some(Err(NoValue::PacketsFreed));
        }
        match metric.measure {
            Measure::ThroughputGbitPerS => moves.then(|| self.throughput()),
            Measure::CpuSPerGb => per(&[Counter::CpuNs], byte),
            Measure::CpuNsPerMessage => per(&[Counter::CpuNs], Per::Message),
            Measure::MessagesPerS => Some(self.message_rate()),
            Measure::CallsPerMessage if is_served => None,
            Measure::CallsPerMessage => per(&[Counter::Calls], Per::Message),
            Measure::CallsPerMib => per(&[Counter::Calls], mib),
            Measure::MsPerMessage => moves.then(|| self.ms_per_message()),
            Measure::RoundTripNs => self.is_ping.then(|| Ok(1e6 * self.ms_per_message()?)),
            Measure::LatencyUsP50
            | Measure::LatencyUsP90
            | Measure::LatencyUsP99
            | Measure::LatencyUsP999
            | Measure::LatencyUsMax => self.latency_us(metric.measure),
            Measure::SystemShare => Some(self.system_share(side)),
            Measure::CpuUtilization => per(&[Counter::CpuNs], Per::Ns(1.0)),
            Measure::ContextSwitchesPerMessage => per(&SWITCHES, Per::Message),
            Measure::MigrationsPerS => per(&[Counter::Migrations], Per::Ns(1e9)),
            Measure::PageFaultsPerMessage => per(&FAULTS, Per::Message),
            Measure::CyclesPerByte => per(&[Counter::Cycles], byte),
            Measure::InstructionsPerByte => per(&[Counter::Instructions], byte),
            Measure::L1dLoadMissesPerKib => per(&[Counter::L1dLoadMisses], kib),
            Measure::LlcLoadMissesPerKib => per(&[Counter::LlcLoadMisses], kib),
            Measure::BranchMissesPerMessage => per(&[Counter::BranchMisses], Per::Message),
            Measure::CopiedShare if is_served => None,
            Measure::CopiedShare => self.copied_share(),
            // Counted in trials of its own.
            Measure::CopiesPerByte => None,
            Measure::DelayedAcksPerMessage => {
                let is_tcp = moves && self.cell.transport.is_tcp();
                is_tcp.then(|| self.delayed_acks())
            }
            Measure::CyclesPerMessage => per(&[Counter::Cycles], Per::Message),
            Measure::InstructionsPerMessage => per(&[Counter::Instructions], Per::Message),
            Measure::CacheMissesPerMessage => per(&[Counter::CacheMisses], Per::Message),
            Measure::ErrorsPerMessage => Some(errors_per_response(self.sample)),
            Measure::LeastServedShare => Some(least_served_share(self.sample)),
            Measure::MemoryKibPerConnection => {
                Some(memory_kib_per_connection(self.sample, self.cell))
            }
            Measure::ThrottledShare => (self.cell.cgroup.quota_percent).map(|_| self.throttled()),
            Measure::NeighbourShare => Some(self.neighbour_share()),
            Measure::StealShare => {
                let steal_ns = machine(self.sample, Counter::MachineStealNs);
                Some(steal_ns.and_then(|ns| self.machine_share(ns)))
            }
        }
    }

    /// Returns true if bytes are moved; the `null` mover has no metrics per byte.
    fn moves(&self) -> bool {
        self.sample.receiver.is_some() || self.sample.truth.is_some()
    }

    /// Both ends are in one count: on veth the sum of their namespaces, on loopback the host's.
    fn delayed_acks(&self) -> Found {
        over(
            machine(self.sample, Counter::TcpDelayedAcks)?,
            self.messages(&self.sample.sender)?,
            NoValue::NoMessage,
        )
    }

    /// The sides whose readings are a side's: clients send requests, the server receives them.
    pub(crate) fn played(&self, side: Side) -> Vec<&'a SideReadings> {
        let sender =
            (!matches!(side, Side::Receiver | Side::Server)).then_some(&self.sample.sender);
        let receiver = self
            .sample
            .receiver
            .as_ref()
            .filter(|_| !matches!(side, Side::Sender | Side::Client));
        sender.into_iter().chain(receiver).collect()
    }

    /// Both sides are the sum of each over its own window, so that the split adds up.
    fn sum(&self, side: Side, counters: &[Counter], per: Per) -> Found {
        let sides = self.played(side);
        if sides.is_empty() {
            return Err(NoValue::NoReceiver);
        }
        let each = sides
            .iter()
            .map(|played| self.quotient(played, counters, per));
        let sum: f64 = each.sum::<Found>()?;
        Ok(match (side, counters) {
            (Side::Both, [Counter::CpuNs]) => sum * (1.0 + self.interrupts),
            _ => sum,
        })
    }

    fn quotient(&self, side: &SideReadings, counters: &[Counter], per: Per) -> Found {
        let all = counters.iter().map(|counter| self.hardware(side, *counter));
        let sum = all.sum::<Found>()?;
        let divisor = match per {
            Per::Bytes(n) => read(side, Counter::Bytes)? / n,
            Per::Message if self.cell.is_served() => served_messages(side)?,
            Per::Message => self.messages(side)?,
            Per::Ns(n) => read(side, Counter::ElapsedNs)? / n,
        };
        over(sum, divisor, NoValue::NothingMoved)
    }

    /// A counter's reading; that of a hardware counter only if it was on the CPU throughout.
    fn hardware(&self, side: &SideReadings, counter: Counter) -> Found {
        let value = read(side, counter)?;
        let of_the_group = matches!(
            counter,
            Counter::Cycles
                | Counter::Instructions
                | Counter::L1dLoadMisses
                | Counter::LlcLoadMisses
                | Counter::Branches
                | Counter::BranchMisses
        );
        // Those of servers are no group, and each is absent where it did not count all the time.
        if of_the_group && !self.cell.is_served() {
            let enabled = read(side, Counter::PerfEnabledNs)?;
            if read(side, Counter::PerfRunningNs)? < enabled {
                return Err(NoValue::SharedCounters);
            }
        }
        Ok(value)
    }

    /// Messages of a side; a receiver of a stream that sees no message bounds counts by bytes.
    fn messages(&self, side: &SideReadings) -> Found {
        match read(side, Counter::Messages) {
            Ok(n) if n > 0.0 => Ok(n),
            _ if self.moves() => {
                Ok(read(side, Counter::Bytes)? / self.cell.size_bytes.max(1) as f64)
            }
            other => other,
        }
    }

    /// Bits per ns are Gbit per s.
    fn throughput(&self) -> Found {
        let side = self.sample.receiver.as_ref().unwrap_or(&self.sample.sender);
        if side.flows.is_empty() {
            let bits = 8.0 * read(side, Counter::Bytes)?;
            let elapsed_ns = read(side, Counter::ElapsedNs)?;
            return over(bits, elapsed_ns, NoValue::EmptyWindow);
        }
        flow_sum(side, |f| 8.0 * f.bytes as f64)
    }

    /// The time of a message; of several flows that of a message of one of them.
    fn ms_per_message(&self) -> Found {
        let flows = (self.sample.sender.flows.len().max(1)) as f64;
        let rate = self.message_rate()?;
        over(1e3 * flows, rate, NoValue::NoMessage)
    }

    fn message_rate(&self) -> Found {
        let side = &self.sample.sender;
        if side.flows.is_empty() {
            let seconds = read(side, Counter::ElapsedNs)? / 1e9;
            return over(self.messages(side)?, seconds, NoValue::EmptyWindow);
        }
        flow_sum(side, |f| 1e9 * f.messages as f64)
    }

    fn latency_us(&self, measure: Measure) -> Option<Found> {
        // Answers are waited for, or requests to a file are timed one by one.
        let is_timed = self.cell.pattern == Pattern::RequestResponse
            || self.sample.latency_ns_histogram.is_some();
        if !is_timed || !self.moves() {
            return None;
        }
        let place = QUANTILES.iter().position(|(m, _)| *m == measure)?;
        let read = || self.histogram().as_ref().map(latencies);
        Some(match self.latency.get_or_init(read) {
            Some(found) => Ok(found[place]),
            None if self.sample.latency_ns_histogram.is_some() => Err(NoValue::UnreadableHistogram),
            None => Err(NoValue::NoLatency),
        })
    }

    fn system_share(&self, side: Side) -> Found {
        let sides = self.played(side);
        let all = |counter| sides.iter().map(move |played| read(played, counter));
        let user = all(Counter::UserNs).sum::<Found>()?;
        let system = all(Counter::SystemNs).sum::<Found>()?;
        over(system, user + system, NoValue::NoCpuTime)
    }

    /// Time is counted on each CPU, so several that are held back at once make more than one.
    fn throttled(&self) -> Found {
        over(
            machine(self.sample, Counter::CgroupThrottledNs)?,
            machine(self.sample, Counter::MachineElapsedNs)?,
            NoValue::EmptyWindow,
        )
    }

    fn copied_share(&self) -> Option<Found> {
        let completions = read(&self.sample.sender, Counter::Completions);
        let known = completions.as_ref().is_ok_and(|n| *n > 0.0);
        match self.release {
            Some(Release::AtReturn | Release::Never) => return None,
            None if !known => return None,
            Some(Release::AtCompletion) | None => {}
        }
        let share = || {
            let copied = read(&self.sample.sender, Counter::CompletionsCopied)?;
            over(copied, completions?, NoValue::NoCompletion)
        };
        Some(share())
    }

    /// The share of the machine's CPU time that other processes used: by their clocks if these were read,
    /// else the busy time of the machine less the CPU time of both sides.
    fn neighbour_share(&self) -> Found {
        if self.sample.machine.contains_key(&Counter::OtherProcessesNs) {
            return self.machine_share(machine(self.sample, Counter::OtherProcessesNs)?);
        }
        let busy = machine(self.sample, Counter::MachineBusyNs)?;
        let sides = self.played(Side::Both).into_iter();
        let of_side = |side: &SideReadings| -> Found {
            Ok(read(side, Counter::CpuNs)? + read(side, Counter::AsideNs).unwrap_or(0.0))
        };
        let mut own = sides.map(of_side).sum::<Found>()?;
        own += machine(self.sample, Counter::ResponderCpuNs).unwrap_or(0.0);
        // The study's own background load is not of other processes.
        own += machine(self.sample, Counter::NeighbourNs).unwrap_or(0.0);
        self.machine_share((busy - own).max(0.0))
    }

    /// A time of the machine over the time of all its CPUs.
    fn machine_share(&self, time_ns: f64) -> Found {
        let elapsed = machine(self.sample, Counter::MachineElapsedNs)?;
        let cpus = machine(self.sample, Counter::MachineCpus)?;
        over(time_ns, elapsed * cpus, NoValue::EmptyWindow)
    }
}

/// The sum of what each flow of a side has, over its own window in ns.
fn flow_sum(side: &SideReadings, of: fn(&FlowReading) -> f64) -> Found {
    let each =
        (side.flows.iter()).map(|f| over(of(f), f.elapsed_ns as f64, NoValue::EmptyFlowWindow));
    each.sum()
}

/// The quantiles of a histogram of ns, in µs.
pub(crate) fn latencies(histogram: &LatencyHistogram) -> LatencyQuantiles {
    QUANTILES.map(|(_, share)| histogram.quantile_us(share))
}

fn over(above: f64, below: f64, otherwise: NoValue) -> Found {
    if below > 0.0 {
        Ok(above / below)
    } else {
        Err(otherwise)
    }
}

pub(crate) fn read(side: &SideReadings, counter: Counter) -> Found {
    found(side.readings.get(&counter), counter)
}

pub(crate) fn machine(sample: &Sample, counter: Counter) -> Found {
    found(sample.machine.get(&counter), counter)
}

fn found(reading: Option<&Reading>, counter: Counter) -> Found {
    match reading {
        Some(Reading::Measured(n)) => Ok(*n as f64),
        Some(Reading::Absent { absent }) => Err(NoValue::Recorded(absent.clone())),
        None => Err(NoValue::NotRead(counter)),
    }
}

fn is_of_servers_only(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::CyclesPerMessage
            | Measure::InstructionsPerMessage
            | Measure::CacheMissesPerMessage
            | Measure::ErrorsPerMessage
            | Measure::LeastServedShare
            | Measure::MemoryKibPerConnection
    )
}

/// Answers within the side's own window, if they came at the rate of the clients' window. The
/// two are nearly the same: the server's counters are read by a process that must get a CPU.
pub(crate) fn served_messages(side: &SideReadings) -> Found {
    let messages = read(side, Counter::Messages)?;
    let window_ns: u64 = side.flows.iter().map(|f| f.elapsed_ns).sum();
    let elapsed_ns = read(side, Counter::ElapsedNs)?;
    let share = over(elapsed_ns, window_ns as f64, NoValue::EmptyClientsWindow)?;
    Ok(messages * share)
}

pub(crate) fn wrong_responses(sample: &Sample) -> f64 {
    read(&sample.sender, Counter::ErrorsWrong).unwrap_or(0.0)
}

/// Errors of all kinds over right answers.
fn errors_per_response(sample: &Sample) -> Found {
    let side = &sample.sender;
    let answers = read(side, Counter::Messages)?;
    let errors = Counter::REQUEST_ERRORS
        .into_iter()
        .map(|counter| read(side, counter));
    over(errors.sum::<Found>()?, answers, NoValue::NoResponse)
}

/// Answers to the connection that got fewest, over those to the median one.
fn least_served_share(sample: &Sample) -> Found {
    over(
        read(&sample.sender, Counter::AnswersLeast)?,
        read(&sample.sender, Counter::AnswersMedian)?,
        NoValue::HalfUnserved,
    )
}

/// Memory of the server's processes, kernel stacks included, in bytes.
pub(crate) fn server_memory_bytes(sample: &Sample) -> Found {
    let server = sample.receiver.as_ref().ok_or(NoValue::NoServer)?;
    Ok(read(server, Counter::MemoryBytes)? + KERNEL_STACK_BYTES * read(server, Counter::Tasks)?)
}

/// The same in KiB over all connections.
fn memory_kib_per_connection(sample: &Sample, cell: &Cell) -> Found {
    let kib = server_memory_bytes(sample)? / 1024.0;
    let connections = cell.serving.all_connections() as f64;
    over(kib, connections, NoValue::NoConnection)
}

pub(crate) fn is_generator_limited(sample: &Sample) -> bool {
    let limited = sample.sender.readings.get(&Counter::GeneratorLimited);
    match limited.and_then(Reading::measured) {
        None | Some(0) => false,
        Some(GENERATOR_BUSY) => !is_server_never_idle(sample).unwrap_or(false),
        Some(_) => true,
    }
}

fn is_server_never_idle(sample: &Sample) -> Result<bool, NoValue> {
    let server = sample.receiver.as_ref().ok_or(NoValue::NoServer)?;
    let value = |counter| read(server, counter);
    let (mut used_ns, window_ns) = (value(Counter::CpuNs)?, value(Counter::ElapsedNs)?);
    // Of servers with one thread alone; several would wait for each other.
    used_ns += value(Counter::RunQueueNs).unwrap_or(0.0);
    let cpus = value(Counter::CpusAllowed)?;
    // A server of many threads opens its own window late, since each of them is read: the machine's is
    // that of the clients.
    let in_machine = machine(sample, Counter::ReceiverProcessesNs).and_then(|ns| {
        let elapsed_ns = machine(sample, Counter::MachineElapsedNs)?;
        Ok(is_saturated(ns, elapsed_ns, cpus))
    });
    Ok(is_saturated(used_ns, window_ns, cpus) || in_machine.unwrap_or(false))
}

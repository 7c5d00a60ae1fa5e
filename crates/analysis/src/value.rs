//! The value of a metric in one trial: a number, a reason why there is none, or neither.

use std::cell::OnceCell;

use bytecost_spec::cell::Pattern;
use bytecost_spec::metric::MEASURES;
use bytecost_spec::survey::{MoverFacts, Release};
use bytecost_spec::{Cell, Counter, Measure, Metric, Sample, Side, SideReadings};
use bytecost_stats::{Distribution, LatencyHistogram};

mod found;
pub(crate) mod served;

use found::over;
pub(crate) use found::{Found, machine, read};

/// What a trial says of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// The number, finite and not negative.
    Known(f64),
    /// It cannot be had, and why.
    Absent(String),
    /// It has no meaning for the cell.
    NotApplicable,
}

impl Value {
    pub(crate) fn known(&self) -> Option<f64> {
        match self {
            Value::Known(v) => Some(*v),
            Value::Absent(_) | Value::NotApplicable => None,
        }
    }
}

/// The latencies that metrics ask for, in µs, by [`QUANTILES`].
pub(crate) type LatencyQuantiles = [f64; QUANTILES.len()];

/// The quantiles that are metrics.
pub(crate) const QUANTILES: [(Measure, f64); 5] = [
    (Measure::LatencyUsP50, 0.5),
    (Measure::LatencyUsP90, 0.9),
    (Measure::LatencyUsP99, 0.99),
    (Measure::LatencyUsP999, 0.999),
    (Measure::LatencyUsMax, 1.0),
];

/// The share of all values below a tail, where a measure is a quantile in one: there the trials that
/// make it are those that a trimmed mean leaves out, so that it is of all trials together.
pub(crate) fn tail_share(measure: Measure) -> Option<f64> {
    let tail = [Measure::LatencyUsP99, Measure::LatencyUsP999];
    let (_, share) = QUANTILES.iter().find(|(m, _)| *m == measure)?;
    tail.contains(&measure).then_some(*share)
}

/// Whether a measure is of the one value of a trial that is furthest out, which is never trimmed.
pub(crate) fn is_extreme(measure: Measure) -> bool {
    measure == Measure::LatencyUsMax
}

/// A trial that counts. Each of its values is computed once. Its histogram is read at most once for
/// its quantiles and once for its distribution, and not kept: a thousand of them take half a gigabyte.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) sample: &'a Sample,
    values: Vec<[OnceCell<Value>; SIDES]>,
    cell: &'a Cell,
    release: Option<Release>,
    is_ping: bool,
    latency: OnceCell<Option<LatencyQuantiles>>,
    distribution: OnceCell<Option<Distribution>>,
}

/// How many sides a metric may be of.
const SIDES: usize = Side::Client as usize + 1;

/// What a counter is divided by.
#[derive(Clone, Copy)]
enum Per {
    Byte,
    Kib,
    Mib,
    Message,
    Nanosecond,
    Second,
}

/// Why a transport of one side has no readings of the other.
const NOBODY: &str = "nobody receives over wire: packets are freed as they leave, so there is no receiving side to measure";

impl<'a> Trial<'a> {
    /// A counter of the sending side, where it was read.
    pub(crate) fn sent(&self, counter: Counter) -> Option<f64> {
        read(&self.sample.sender, counter).ok()
    }

    /// A counter of the receiving side, where it was read.
    pub(crate) fn received(&self, counter: Counter) -> Option<f64> {
        read(self.sample.receiver.as_ref()?, counter).ok()
    }

    /// A counter of the sending side over another one that is not zero.
    pub(crate) fn sent_over(&self, counter: Counter, other: Counter) -> Option<f64> {
        let other = self.sent(other).filter(|n| *n > 0.0)?;
        Some(self.sent(counter)? / other)
    }

    /// A counter of the machine, where it was read.
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
        }
    }

    /// The round-trip times in ns; `None` without a histogram and for one that cannot be read.
    pub(crate) fn histogram(&self) -> Option<LatencyHistogram> {
        LatencyHistogram::decode(self.sample.latency_ns_histogram.as_deref()?)
    }

    fn latencies(&self) -> Option<LatencyQuantiles> {
        *self
            .latency
            .get_or_init(|| Some(latencies(&self.histogram()?)))
    }

    /// The round-trip times in µs, as they are spread.
    pub(crate) fn distribution(&self) -> Option<&Distribution> {
        let read = || self.histogram()?.distribution_us();
        self.distribution.get_or_init(read).as_ref()
    }

    /// The metric's value. Both sides together are the sum of the sides, each over its own
    /// window, so that the split adds up.
    pub(crate) fn value(&self, metric: Metric) -> &Value {
        let slot = &self.values[metric.measure as usize][metric.side as usize];
        slot.get_or_init(|| match self.find(metric) {
            None => Value::NotApplicable,
            Some(Ok(v)) if v.is_finite() && v >= 0.0 => Value::Known(v),
            Some(Ok(_)) => Value::Absent("the readings give no number".to_owned()),
            Some(Err(why)) => Value::Absent(why),
        })
    }

    fn find(&self, metric: Metric) -> Option<Found> {
        let side = metric.side;
        let per = |counters: &[Counter], per: Per| Some(self.sides(side, counters, per));
        let of_served = matches!(side, Side::Server | Side::Client);
        if self.cell.is_served() {
            if matches!(side, Side::Sender | Side::Receiver) || served::has_no(metric.measure) {
                return None;
            }
        } else if of_served || served::only(metric.measure) {
            return None;
        }
        if side == Side::Receiver && self.sample.receiver.is_none() {
            let nobody = self.moves() && !self.cell.transport.has_receiver();
            return nobody.then(|| Err(NOBODY.to_owned()));
        }
        match metric.measure {
            Measure::ThroughputGbitPerS => self.moves().then(|| self.throughput()),
            Measure::CpuSPerGb => self.per_byte(side, Counter::CpuNs, Per::Byte),
            Measure::CpuNsPerMessage => per(&[Counter::CpuNs], Per::Message),
            Measure::MessagesPerS => Some(self.message_rate()),
            Measure::CallsPerMessage => per(&[Counter::Calls], Per::Message),
            Measure::CallsPerMib => self.per_byte(side, Counter::Calls, Per::Mib),
            Measure::MsPerMessage => self.moves().then(|| self.ms_per_message()),
            Measure::RoundTripNs => self.is_ping.then(|| Ok(1e6 * self.ms_per_message()?)),
            Measure::LatencyUsP50
            | Measure::LatencyUsP90
            | Measure::LatencyUsP99
            | Measure::LatencyUsP999
            | Measure::LatencyUsMax => self.latency_us(metric.measure),
            Measure::SystemShare => Some(self.system_share(side)),
            Measure::CpuUtilization => per(&[Counter::CpuNs], Per::Nanosecond),
            Measure::ContextSwitchesPerMessage => per(
                &[
                    Counter::ContextSwitchesVoluntary,
                    Counter::ContextSwitchesInvoluntary,
                ],
                Per::Message,
            ),
            Measure::MigrationsPerS => per(&[Counter::Migrations], Per::Second),
            Measure::PageFaultsPerMessage => per(
                &[Counter::PageFaultsMinor, Counter::PageFaultsMajor],
                Per::Message,
            ),
            Measure::CyclesPerByte => self.per_byte(side, Counter::Cycles, Per::Byte),
            Measure::InstructionsPerByte => self.per_byte(side, Counter::Instructions, Per::Byte),
            Measure::L1dLoadMissesPerKib => self.per_byte(side, Counter::L1dLoadMisses, Per::Kib),
            Measure::LlcLoadMissesPerKib => self.per_byte(side, Counter::LlcLoadMisses, Per::Kib),
            Measure::BranchMissesPerMessage => per(&[Counter::BranchMisses], Per::Message),
            Measure::CopiedShare => self.copied_share(),
            // Counted in trials of its own.
            Measure::CopiesPerByte => None,
            Measure::DelayedAcksPerMessage => self.is_tcp().then(|| self.delayed_acks()),
            Measure::CyclesPerMessage => per(&[Counter::Cycles], Per::Message),
            Measure::InstructionsPerMessage => per(&[Counter::Instructions], Per::Message),
            Measure::CacheMissesPerMessage => per(&[Counter::CacheMisses], Per::Message),
            Measure::ErrorsPerMessage => Some(served::errors(self.sample)),
            Measure::LeastServedShare => Some(served::least(self.sample)),
            Measure::MemoryKibPerConnection => Some(served::memory_kib(self.sample, self.cell)),
            Measure::ThrottledShare => (self.cell.cgroup.quota_percent).map(|_| self.throttled()),
            Measure::NeighbourShare => Some(self.neighbour_share()),
            Measure::StealShare => Some(self.machine_share(Counter::MachineStealNs)),
        }
    }

    /// Whether anything is moved at all: per byte, the `null` mover has no meaning.
    fn moves(&self) -> bool {
        self.sample.receiver.is_some() || self.sample.truth.is_some()
    }

    fn is_tcp(&self) -> bool {
        self.moves() && self.cell.transport.is_tcp()
    }

    /// Both ends are in one count: on veth the sum of their namespaces, on loopback the host's.
    fn delayed_acks(&self) -> Found {
        over(
            machine(self.sample, Counter::TcpDelayedAcks)?,
            self.messages(&self.sample.sender)?,
            "no message was sent within the window",
        )
    }

    fn per_byte(&self, side: Side, counter: Counter, per: Per) -> Option<Found> {
        self.moves().then(|| self.sides(side, &[counter], per))
    }

    fn sides(&self, side: Side, counters: &[Counter], per: Per) -> Found {
        let sender = || self.quotient(&self.sample.sender, counters, per);
        let receiver = |r| self.quotient(r, counters, per);
        // Clients send requests, the server takes them in.
        match (side, &self.sample.receiver) {
            (Side::Sender | Side::Client, _) | (Side::Both, None) => sender(),
            (Side::Both, Some(r)) => Ok(sender()? + receiver(r)?),
            (Side::Receiver | Side::Server, Some(r)) => receiver(r),
            (Side::Receiver | Side::Server, None) => Err("there is no receiver".to_owned()),
        }
    }

    fn quotient(&self, side: &SideReadings, counters: &[Counter], per: Per) -> Found {
        let mut sum = 0.0;
        for &counter in counters {
            sum += self.hardware(side, counter)?;
        }
        let divisor = match per {
            Per::Byte => read(side, Counter::Bytes)?,
            Per::Kib => read(side, Counter::Bytes)? / 1024.0,
            Per::Mib => read(side, Counter::Bytes)? / f64::from(1 << 20),
            Per::Message if self.cell.is_served() => served::messages(side)?,
            Per::Message => self.messages(side)?,
            Per::Nanosecond => read(side, Counter::ElapsedNs)?,
            Per::Second => read(side, Counter::ElapsedNs)? / 1e9,
        };
        over(sum, divisor, "nothing was moved within the window")
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
                return Err("the counters shared the CPU's registers with others".to_owned());
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
            return over(
                bits,
                read(side, Counter::ElapsedNs)?,
                "the window had no length",
            );
        }
        side.flows
            .iter()
            .map(|f| {
                over(
                    8.0 * f.bytes as f64,
                    f.elapsed_ns as f64,
                    "a flow's window had no length",
                )
            })
            .sum()
    }

    /// Of several flows side by side, what a message of one of them takes.
    fn ms_per_message(&self) -> Found {
        let flows = (self.sample.sender.flows.len().max(1)) as f64;
        let rate = self.message_rate()?;
        over(1e3 * flows, rate, "no message was sent within the window")
    }

    fn message_rate(&self) -> Found {
        let side = &self.sample.sender;
        if side.flows.is_empty() {
            let seconds = read(side, Counter::ElapsedNs)? / 1e9;
            return over(self.messages(side)?, seconds, "the window had no length");
        }
        side.flows
            .iter()
            .map(|f| {
                over(
                    1e9 * f.messages as f64,
                    f.elapsed_ns as f64,
                    "a flow's window had no length",
                )
            })
            .sum()
    }

    fn latency_us(&self, measure: Measure) -> Option<Found> {
        // Answers are waited for, or requests to a file are timed one by one.
        let is_timed =
            self.cell.pattern == Pattern::Ask || self.sample.latency_ns_histogram.is_some();
        if !is_timed || !self.moves() {
            return None;
        }
        let place = QUANTILES.iter().position(|(m, _)| *m == measure)?;
        Some(
            match (self.latencies(), &self.sample.latency_ns_histogram) {
                (Some(found), _) => Ok(found[place]),
                (None, Some(_)) => Err("the latency histogram cannot be read".to_owned()),
                (None, None) => Err("the trial recorded no latencies".to_owned()),
            },
        )
    }

    fn system_share(&self, side: Side) -> Found {
        let sides: Vec<&SideReadings> = match side {
            Side::Sender | Side::Client => vec![&self.sample.sender],
            Side::Receiver | Side::Server => self.sample.receiver.iter().collect(),
            Side::Both => [Some(&self.sample.sender), self.sample.receiver.as_ref()]
                .into_iter()
                .flatten()
                .collect(),
        };
        let (mut user, mut system) = (0.0, 0.0);
        for side in sides {
            user += read(side, Counter::UserNs)?;
            system += read(side, Counter::SystemNs)?;
        }
        over(
            system,
            user + system,
            "no CPU time was counted within the window",
        )
    }

    /// Time is counted on each CPU, so several that are held back at once make more than one.
    fn throttled(&self) -> Found {
        over(
            machine(self.sample, Counter::CgroupThrottledNs)?,
            machine(self.sample, Counter::MachineElapsedNs)?,
            "the window had no length",
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
            over(
                copied,
                completions?,
                "no buffer came back within the window",
            )
        };
        Some(share())
    }

    /// By the processes' own clocks; runs of old have what was busy and neither side's.
    fn neighbour_share(&self) -> Found {
        if let Ok(others) = machine(self.sample, Counter::OtherProcessesNs) {
            return self.of_machine(others);
        }
        let busy = machine(self.sample, Counter::MachineBusyNs)?;
        let mut own = read(&self.sample.sender, Counter::CpuNs)?;
        own += read(&self.sample.sender, Counter::AsideNs).unwrap_or(0.0);
        if let Some(receiver) = &self.sample.receiver {
            own += read(receiver, Counter::CpuNs)?;
            own += read(receiver, Counter::AsideNs).unwrap_or(0.0);
        }
        own += machine(self.sample, Counter::ResponderCpuNs).unwrap_or(0.0);
        // The lab's own beside the trial is what was asked for.
        own += machine(self.sample, Counter::NeighbourNs).unwrap_or(0.0);
        self.of_machine((busy - own).max(0.0))
    }

    /// A time of the machine over the time of all its CPUs.
    pub(crate) fn machine_share(&self, counter: Counter) -> Found {
        self.of_machine(machine(self.sample, counter)?)
    }

    fn of_machine(&self, time_ns: f64) -> Found {
        let elapsed = machine(self.sample, Counter::MachineElapsedNs)?;
        let cpus = machine(self.sample, Counter::MachineCpus)?;
        over(time_ns, elapsed * cpus, "the window had no length")
    }
}

/// The quantiles of a histogram of ns, in µs.
pub(crate) fn latencies(histogram: &LatencyHistogram) -> LatencyQuantiles {
    QUANTILES.map(|(_, share)| histogram.quantile_us(share))
}

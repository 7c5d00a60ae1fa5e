//! Metrics of a server and its clients.

use bytecost_spec::service::is_saturated;
use bytecost_spec::{Cell, Counter, Measure, Reading, Sample, SideReadings};

use super::{Found, machine, over, read};
use crate::result::NoValue;

/// The value of [`Counter::GeneratorLimited`] for clients that were always busy.
const BUSY: u64 = 1;
/// A kernel stack on x86-64 and arm64 (THREAD_SIZE), in bytes. An assumption: other
/// architectures and kernels built for debugging have other sizes.
pub const KERNEL_STACK_BYTES: f64 = 16384.0;

pub(super) fn only(measure: Measure) -> bool {
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
pub(crate) fn messages(side: &SideReadings) -> Found {
    let messages = read(side, Counter::Messages)?;
    let window_ns: u64 = side.flows.iter().map(|f| f.elapsed_ns).sum();
    let elapsed_ns = read(side, Counter::ElapsedNs)?;
    let share = over(elapsed_ns, window_ns as f64, NoValue::EmptyClientsWindow)?;
    Ok(messages * share)
}

pub(crate) fn wrong_answers(sample: &Sample) -> f64 {
    read(&sample.sender, Counter::ErrorsWrong).unwrap_or(0.0)
}

/// Errors of all kinds over right answers.
pub(super) fn errors(sample: &Sample) -> Found {
    let side = &sample.sender;
    let answers = read(side, Counter::Messages)?;
    let errors = ERRORS.into_iter().map(|counter| read(side, counter));
    over(errors.sum::<Found>()?, answers, NoValue::NoResponse)
}

/// Errors of each kind, in the order of the counters.
pub(crate) const ERRORS: [Counter; 6] = [
    Counter::ErrorsRefused,
    Counter::ErrorsReset,
    Counter::ErrorsClosed,
    Counter::ErrorsTimeout,
    Counter::ErrorsWrong,
    Counter::ErrorsLocal,
];

/// Answers to the connection that got fewest, over those to the median one.
pub(super) fn least(sample: &Sample) -> Found {
    over(
        read(&sample.sender, Counter::AnswersLeast)?,
        read(&sample.sender, Counter::AnswersMedian)?,
        NoValue::HalfUnserved,
    )
}

/// Memory of the server's processes, kernel stacks included, in bytes.
pub(crate) fn memory_bytes(sample: &Sample) -> Found {
    let server = sample.receiver.as_ref().ok_or(NoValue::NoServer)?;
    Ok(read(server, Counter::MemoryBytes)? + KERNEL_STACK_BYTES * read(server, Counter::Tasks)?)
}

/// The same in KiB over all connections.
pub(super) fn memory_kib(sample: &Sample, cell: &Cell) -> Found {
    let kib = memory_bytes(sample)? / 1024.0;
    let connections = cell.serving.all_connections() as f64;
    over(kib, connections, NoValue::NoConnection)
}

pub(crate) fn is_limited(sample: &Sample) -> bool {
    let limited = sample.sender.readings.get(&Counter::GeneratorLimited);
    match limited.and_then(Reading::measured) {
        None | Some(0) => false,
        Some(BUSY) => !is_never_idle(sample).unwrap_or(false),
        Some(_) => true,
    }
}

fn is_never_idle(sample: &Sample) -> Result<bool, NoValue> {
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

//! The counters that flows publish once a second, for the thread that reports them.
//!
//! That thread asks for a reading by its number. A flow that sees a new number writes its
//! counters, then the number; counters are read only with the number that was asked for, and the
//! flow writes none again before the next request. So nothing is read half-written, and the
//! loop of a flow pays one relaxed load a message.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytecost_engine::Tally;
use bytecost_spec::hand::Stretch;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Counter, Reading, Readings, SideReadings};
use bytecost_sys::clock;
use bytecost_sys::tcp::TcpInfo;

use super::latency_histogram::{HistogramCounts, LatencyHistogram};

/// Flows wait.
pub(super) const WAIT: u32 = 0;
/// Flows finish what is under way.
pub(super) const STOP: u32 = u32::MAX;
/// How long a reading waits for flows that are in a call, or wait for a CPU.
const LATE: Duration = Duration::from_millis(150);

/// What a flow tells: totals since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowTotals {
    /// What was moved.
    pub(super) tally: Tally,
    /// CLOCK_MONOTONIC.
    pub(super) clock_ns: u64,
    /// CPU time of the thread.
    pub(super) cpu_ns: u64,
    /// The connection, where the kernel tells.
    pub(super) tcp: Option<TcpInfo>,
}

/// Numbers of an entry, in the order in which they are written.
const NUMBERS: usize = 13;

impl FlowTotals {
    fn numbers(&self) -> [u64; NUMBERS] {
        let (t, tcp) = (self.tally, self.tcp.unwrap_or_default());
        [
            t.messages,
            t.bytes,
            t.calls,
            t.held,
            t.released,
            t.copied,
            t.enobufs,
            self.clock_ns,
            self.cpu_ns,
            u64::from(self.tcp.is_some()),
            tcp.rtt_us.into(),
            tcp.min_rtt_us.into(),
            tcp.pacing_rate,
        ]
    }

    fn of(n: [u64; NUMBERS]) -> FlowTotals {
        FlowTotals {
            tally: Tally {
                messages: n[0],
                bytes: n[1],
                calls: n[2],
                held: n[3],
                released: n[4],
                copied: n[5],
                enobufs: n[6],
                misses: 0, // of movers of files, which have no other end to be shown
            },
            clock_ns: n[7],
            cpu_ns: n[8],
            tcp: (n[9] != 0).then(|| TcpInfo {
                rtt_us: n[10] as u32,
                min_rtt_us: n[11] as u32,
                pacing_rate: n[12],
                ..TcpInfo::default()
            }),
        }
    }

    /// What a flow did since an earlier entry. The connection's numbers are values, not counters.
    fn since(&self, then: &FlowTotals) -> FlowTotals {
        let mut numbers = self.numbers();
        for (n, before) in numbers.iter_mut().zip(then.numbers()).take(9) {
            *n = n.saturating_sub(before);
        }
        FlowTotals::of(numbers)
    }

    fn flow(&self) -> FlowReading {
        FlowReading {
            bytes: self.tally.bytes,
            messages: self.tally.messages,
            elapsed_ns: self.clock_ns,
        }
    }

    fn readings(&self, completes: bool) -> Readings {
        let mut readings = tallied(&self.tally, completes);
        let mut put = |counter, n| readings.insert(counter, Reading::Measured(n));
        put(Counter::ElapsedNs, self.clock_ns);
        put(Counter::CpuNs, self.cpu_ns);
        if let Some(tcp) = self.tcp {
            put(Counter::TcpRttUs, tcp.rtt_us.into());
            put(Counter::TcpMinRttUs, tcp.min_rtt_us.into());
        }
        readings
    }
}

/// A flow's row; alone in its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Row {
    number: AtomicU32,
    numbers: [AtomicU64; NUMBERS],
}

/// The counters of one side's flows.
#[derive(Debug)]
pub(super) struct FlowCounters {
    number: AtomicU32,
    rows: Vec<Row>,
    latencies: Vec<LatencyHistogram>,
}

impl FlowCounters {
    /// Counters for so many flows; `asks` where they note round-trip times.
    pub(super) fn new(flows: u32, asks: bool) -> FlowCounters {
        FlowCounters {
            number: AtomicU32::new(WAIT),
            rows: (0..flows).map(|_| Row::default()).collect(),
            latencies: (0..if asks { flows } else { 0 })
                .map(|_| LatencyHistogram::default())
                .collect(),
        }
    }

    /// The number now: [`WAIT`], [`STOP`], or that of the reading that is wanted.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Asks for the reading of a number.
    pub(super) fn request(&self, number: u32) {
        self.number.store(number, Ordering::Release);
    }

    /// Writes a flow's row. Neither allocates nor waits.
    pub(super) fn write(&self, flow: u32, number: u32, entry: &FlowTotals) {
        let row = &self.rows[flow as usize];
        for (place, n) in row.numbers.iter().zip(entry.numbers()) {
            place.store(n, Ordering::Relaxed);
        }
        row.number.store(number, Ordering::Release);
    }

    /// The flow's round-trip times.
    pub(super) fn latencies(&self, flow: u32) -> Option<&LatencyHistogram> {
        self.latencies.get(flow as usize)
    }

    /// A flow's row, where it has been written for this number.
    pub(super) fn read(&self, flow: usize, number: u32) -> Option<FlowTotals> {
        let row = &self.rows[flow];
        if row.number.load(Ordering::Acquire) != number {
            return None;
        }
        let mut numbers = [0; NUMBERS];
        for (n, place) in numbers.iter_mut().zip(&row.numbers) {
            *n = place.load(Ordering::Relaxed);
        }
        Some(FlowTotals::of(numbers))
    }
}

/// Reads the counters second by second.
#[derive(Debug)]
pub(super) struct CountersReader {
    number: u32,
    /// Whether buffers come back later, so that completions are told.
    completes: bool,
    last: Vec<Option<FlowTotals>>,
    counts: Vec<HistogramCounts>,
}

impl CountersReader {
    /// A reader of counters that nobody has asked for.
    pub(super) fn new(counters: &FlowCounters, completes: bool) -> CountersReader {
        CountersReader {
            number: WAIT,
            completes,
            last: vec![None; counters.rows.len()],
            counts: counters
                .latencies
                .iter()
                .map(|_| HistogramCounts::default())
                .collect(),
        }
    }

    /// Asks for a reading, waits a moment for the flows, and gives what they did since the last
    /// one. The first one starts them.
    pub(super) fn read(&mut self, counters: &FlowCounters) -> Stretch {
        // Seconds of a session never come near the number that says stop.
        self.number = (self.number + 1).min(STOP - 1);
        counters.request(self.number);
        let until_ns = clock::monotonic_ns() + LATE.as_nanos() as u64;
        let written =
            |flow: usize| counters.rows[flow].number.load(Ordering::Acquire) == self.number;
        while !(0..counters.rows.len()).all(written) && clock::monotonic_ns() < until_ns {
            clock::sleep_until_ns(clock::monotonic_ns() + 500_000);
        }
        let mut readings = Vec::with_capacity(counters.rows.len());
        let mut stretch = Stretch::default();
        for flow in 0..counters.rows.len() {
            let now = counters.read(flow, self.number);
            let change = now.zip(self.last[flow]);
            if change.is_none() && self.number > 1 {
                stretch.flows_silent += 1;
            }
            if now.is_some() {
                self.last[flow] = now;
            }
            let grown = change.map(|(now, then)| now.since(&then));
            stretch.side.flows.push(grown.unwrap_or_default().flow());
            readings.extend(grown.map(|g| g.readings(self.completes)));
        }
        stretch.side = SideReadings {
            readings: bytecost_meter::sum(&readings),
            ..stretch.side
        };
        let mut sum = HistogramCounts::default();
        let mut most_ns = 0;
        for (latencies, before) in counters.latencies.iter().zip(&mut self.counts) {
            most_ns = latencies.since(before, &mut sum).max(most_ns);
        }
        stretch.latency = sum.latency(most_ns);
        stretch
    }
}

/// The counters of what was moved; of completions where buffers come back later.
pub(super) fn tallied(tally: &Tally, completes: bool) -> Readings {
    let moved = [
        (Counter::Bytes, tally.bytes),
        (Counter::Messages, tally.messages),
        (Counter::Calls, tally.calls),
    ];
    let back = [
        (Counter::Completions, tally.released),
        (Counter::CompletionsCopied, tally.copied),
        (Counter::Enobufs, tally.enobufs),
    ];
    let back = back.iter().filter(|_| completes);
    let all = moved.iter().chain(back);
    all.map(|(counter, n)| (*counter, Reading::Measured(*n)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: u64, clock_ns: u64) -> FlowTotals {
        FlowTotals {
            tally: Tally {
                bytes,
                messages: bytes / 10,
                ..Tally::default()
            },
            clock_ns,
            ..FlowTotals::default()
        }
    }

    #[test]
    fn a_second_is_what_grew_and_a_flow_in_a_long_call_is_told_as_silent() {
        let counters = FlowCounters::new(2, false);
        let mut reader = CountersReader::new(&counters, false);
        counters.write(0, 1, &entry(0, 1000));
        counters.write(1, 1, &entry(0, 1000));
        reader.read(&counters);
        counters.write(0, 2, &entry(70, 2000));
        let second = reader.read(&counters);
        assert_eq!(second.flows_silent, 1);
        assert_eq!(second.side.flows[0].bytes, 70);
        assert_eq!(second.side.flows[0].elapsed_ns, 1000);
        assert_eq!(second.side.readings[&Counter::Bytes], Reading::Measured(70));
        counters.write(0, 3, &entry(80, 3000));
        counters.write(1, 3, &entry(50, 3000));
        let third = reader.read(&counters);
        assert_eq!(third.flows_silent, 0);
        assert_eq!(third.side.readings[&Counter::Bytes], Reading::Measured(60));
        assert_eq!(third.side.flows[1].elapsed_ns, 2000, "since it last told");
    }

    #[test]
    fn what_was_written_for_another_number_is_not_read() {
        let counters = FlowCounters::new(1, false);
        counters.write(0, 5, &entry(10, 1));
        assert!(counters.read(0, 4).is_none());
        assert_eq!(counters.read(0, 5).unwrap().tally.bytes, 10);
    }
}

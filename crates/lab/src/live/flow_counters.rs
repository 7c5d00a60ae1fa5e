//! Counters that flows write once a second, for the thread that reports them.
//!
//! That thread asks for a reading by its number. A flow that sees a new number writes what it has
//! done, then the number. Its row is read only once it has the number that was asked for, and the
//! flow writes it no more before the next request: so neither waits for the other, and the loop of
//! a flow pays one relaxed load a message.

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytecost_engine::Tally;
use bytecost_meter::Snapshot;
use bytecost_spec::live::{Activity, Latency};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::clock;
use bytecost_sys::tcp::TcpInfo;
use hdrhistogram::Histogram;

use crate::deadline::after;
use crate::flow::{MOST_LATENCY_NS, histogram_to, moved, tallied};

/// Flows wait.
pub(super) const WAIT: u32 = 0;
/// Flows finish what is under way.
pub(super) const STOP: u32 = u32::MAX;
/// The longest wait of a reading for flows that are in a call, or wait for a CPU.
const LATE: Duration = Duration::from_millis(150);

/// Counters of a flow since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowTotals {
    pub(super) tally: Tally,
    /// The counters of its thread and its connection.
    pub(super) edge: (Snapshot, Option<TcpInfo>),
}

impl FlowTotals {
    /// The difference to an earlier entry. The connection's numbers are values, not counters.
    fn since(&self, then: &FlowTotals, completes: bool) -> (FlowReading, Readings) {
        let tally = self.tally.since(&then.tally);
        let ((now, tcp), (then, _)) = (&self.edge, &then.edge);
        let elapsed_ns = now.clock_ns.saturating_sub(then.clock_ns);
        let cpu_ns = now.cpu_ns.saturating_sub(then.cpu_ns);
        let mut readings = tallied(&tally, completes.then_some(&tally));
        let known = [
            (Counter::ElapsedNs, Some(elapsed_ns)),
            (Counter::CpuNs, Some(cpu_ns)),
            (Counter::TcpRttUs, tcp.map(|tcp| tcp.rtt_us.into())),
            (Counter::TcpMinRttUs, tcp.map(|tcp| tcp.min_rtt_us.into())),
        ];
        readings.extend((known.into_iter()).filter_map(|(c, n)| Some((c, Reading::Measured(n?)))));
        (moved(&tally, elapsed_ns), readings)
    }
}

/// A flow's row; alone in its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Row {
    number: AtomicU32,
    totals: Mutex<(FlowTotals, Option<Histogram<u64>>)>,
}

impl Row {
    fn totals(&self) -> MutexGuard<'_, (FlowTotals, Option<Histogram<u64>>)> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty histogram of round-trip times, to a hundredth of each: of as many flows as there may
/// be, all can be read within a second, by a thread that all flows keep from its CPU.
pub(super) fn histogram() -> Histogram<u64> {
    histogram_to(MOST_LATENCY_NS, 2)
}

#[derive(Debug)]
pub(super) struct FlowCounters {
    number: AtomicU32,
    /// Flows that wait to begin.
    pub(super) ready: AtomicU32,
    rows: Vec<Row>,
}

impl FlowCounters {
    /// Counters for so many flows; `asks` where they note round-trip times.
    pub(super) fn new(flows: usize, asks: bool) -> FlowCounters {
        let row = |_| Row {
            totals: Mutex::new((FlowTotals::default(), asks.then(histogram))),
            ..Row::default()
        };
        FlowCounters {
            number: AtomicU32::new(WAIT),
            ready: AtomicU32::new(0),
            rows: (0..flows).map(row).collect(),
        }
    }

    /// The number now: [`WAIT`], [`STOP`], or that of the reading that is wanted.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn request(&self, number: u32) {
        self.number.store(number, Ordering::Release);
    }

    /// Marks a flow as ready, and waits until the first reading is asked for.
    pub(super) fn wait(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        while self.number() == WAIT {
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Writes a flow's row, and exchanges its round-trip times for those of the row, which are
    /// none where they have been read. Does not allocate.
    pub(super) fn write(
        &self,
        flow: u32,
        number: u32,
        totals: FlowTotals,
        latency_ns: Option<&mut Histogram<u64>>,
    ) {
        let row = &self.rows[flow as usize];
        let mut row_totals = row.totals();
        row_totals.0 = totals;
        if let (Some(own), Some(there)) = (latency_ns, &mut row_totals.1) {
            mem::swap(own, there);
        }
        drop(row_totals);
        row.number.store(number, Ordering::Release);
    }

    /// A flow's row, where it has been written for this number; its round-trip times go to `sum`.
    pub(super) fn read(
        &self,
        flow: usize,
        number: u32,
        sum: &mut Option<Histogram<u64>>,
    ) -> Option<FlowTotals> {
        let row = &self.rows[flow];
        if row.number.load(Ordering::Acquire) != number {
            return None;
        }
        let mut row_totals = row.totals();
        if let (Some(sum), Some(times)) = (sum, &mut row_totals.1) {
            // They have the same bounds.
            let _ = sum.add(&*times);
            times.reset();
        }
        Some(row_totals.0)
    }

    /// The round-trip times that have not been read.
    pub(super) fn unread(&self) -> impl Iterator<Item = Histogram<u64>> {
        self.rows.iter().filter_map(|row| row.totals().1.take())
    }
}

#[derive(Debug)]
pub(super) struct CountersReader {
    number: u32,
    /// True if buffers come back later, so that completions are counted.
    completes: bool,
    last: Vec<Option<FlowTotals>>,
    /// All round-trip times that were read.
    pub(super) latency_ns: Option<Histogram<u64>>,
}

impl CountersReader {
    pub(super) fn new(counters: &FlowCounters, completes: bool) -> CountersReader {
        let asks = counters.rows.iter().any(|row| row.totals().1.is_some());
        CountersReader {
            number: WAIT,
            completes,
            last: vec![None; counters.rows.len()],
            latency_ns: asks.then(histogram),
        }
    }

    /// Asks for a reading, waits a moment for the flows, and returns their activity since the last one. The
    /// first one starts them.
    pub(super) fn read(&mut self, counters: &FlowCounters) -> Activity {
        // Seconds of a session never come near the number that says stop.
        self.number = (self.number + 1).min(STOP - 1);
        counters.request(self.number);
        let until_ns = after(LATE);
        let written = |row: &Row| row.number.load(Ordering::Acquire) == self.number;
        while !counters.rows.iter().all(written) && clock::monotonic_ns() < until_ns {
            clock::sleep_until_ns(clock::monotonic_ns() + 500_000);
        }
        let mut readings = Vec::with_capacity(counters.rows.len());
        let mut activity = Activity::default();
        let mut latency_ns = self.latency_ns.as_ref().map(|_| histogram());
        for (flow, last) in self.last.iter_mut().enumerate() {
            let now = counters.read(flow, self.number, &mut latency_ns);
            let increase = (now.zip(*last)).map(|(now, then)| now.since(&then, self.completes));
            activity.flows_silent += u32::from(increase.is_none() && self.number > 1);
            *last = now.or(*last);
            let nothing = || moved(&Tally::default(), 0);
            let (activity_of_flow, read) = increase.unzip();
            (activity.side.flows).push(activity_of_flow.unwrap_or_else(nothing));
            readings.extend(read);
        }
        activity.side.readings = bytecost_meter::sum(&readings);
        activity.latency = latency_ns.as_ref().and_then(latency);
        if let (Some(all), Some(second)) = (&mut self.latency_ns, &latency_ns) {
            let _ = all.add(second);
        }
        activity
    }
}

/// The percentiles of round-trip times; none where nothing was noted.
pub(super) fn latency(histogram: &Histogram<u64>) -> Option<Latency> {
    let us = |ns: u64| ns as f64 / 1e3;
    (!histogram.is_empty()).then(|| Latency {
        count: histogram.len(),
        us_p50: us(histogram.value_at_quantile(0.5)),
        us_p99: us(histogram.value_at_quantile(0.99)),
        us_max: us(histogram.max()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: u64, clock_ns: u64) -> FlowTotals {
        let mut totals = FlowTotals::default();
        totals.tally.bytes = bytes;
        totals.edge.0.clock_ns = clock_ns;
        totals
    }

    #[test]
    fn a_second_is_what_grew_and_a_flow_in_a_long_call_is_silent() {
        let counters = FlowCounters::new(2, false);
        let mut reader = CountersReader::new(&counters, false);
        // The total bytes of each flow before a reading, with the time of its last write.
        let mut read = |number, written: &[(u32, u64, u64)]| {
            for (flow, bytes, clock_ns) in written {
                counters.write(*flow, number, entry(*bytes, *clock_ns), None);
            }
            let activity = reader.read(&counters);
            let bytes = activity.side.readings.get(&Counter::Bytes).cloned();
            let flows = activity.side.flows.iter().map(|f| (f.bytes, f.elapsed_ns));
            (activity.flows_silent, bytes, flows.collect::<Vec<_>>())
        };
        read(1, &[(0, 0, 1000), (1, 0, 1000)]);
        let bytes = |n| Some(Reading::Measured(n));
        let second = read(2, &[(0, 70, 2000)]);
        assert_eq!(second, (1, bytes(70), vec![(70, 1000), (0, 0)]));
        // Since it last wrote.
        let third = read(3, &[(0, 80, 3000), (1, 50, 3000)]);
        assert_eq!(third, (0, bytes(60), vec![(10, 1000), (50, 2000)]));
    }

    #[test]
    fn times_are_of_the_second_in_which_they_are_read_and_none_is_lost() {
        let counters = FlowCounters::new(1, true);
        let mut reader = CountersReader::new(&counters, false);
        let mut own = histogram();
        let mut report = |number, times_us: std::ops::RangeInclusive<u64>| {
            times_us.for_each(|us| own.record(us * 1000).unwrap());
            counters.write(0, number, entry(0, 1), Some(&mut own));
        };
        report(1, 1..=100);
        let latency = reader.read(&counters).latency.unwrap();
        assert_eq!(latency.count, 100);
        assert!((latency.us_p50 - 50.0).abs() < 0.5, "{latency:?}");
        assert!((latency.us_p99 - 99.0).abs() < 1.0, "{latency:?}");
        // A flow that wrote too late for its second, and wrote again.
        report(7, 5..=5);
        report(2, 6..=7);
        let late = reader.read(&counters).latency.unwrap();
        assert_eq!(late.count, 2);
        report(3, 8..=8);
        assert_eq!(reader.read(&counters).latency.unwrap().count, 2);
        assert_eq!(reader.read(&counters).latency, None);
        assert_eq!(reader.latency_ns.unwrap().len(), 104);
    }
}

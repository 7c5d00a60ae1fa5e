//! Round-trip times that are read while they are being noted.

use std::sync::atomic::{AtomicU64, Ordering};

use bytecost_spec::hand::Latency;

/// Steps of each doubling: a time is known to 1/32 of itself.
const STEPS: u64 = 32;
const BITS: u32 = STEPS.trailing_zeros();
/// Places: every 64-bit number has one.
const PLACES: usize = ((64 - BITS as usize) + 1) * STEPS as usize;

/// Counts of times by their size. One thread notes, another reads; neither waits.
#[derive(Debug)]
pub(super) struct LatencyHistogram {
    counts: Box<[AtomicU64]>,
    most_ns: AtomicU64,
}

/// What a [`LatencyHistogram`] had counted at a moment.
#[derive(Clone, Debug)]
pub(super) struct HistogramCounts(Vec<u64>);

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram {
            counts: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            most_ns: AtomicU64::new(0),
        }
    }
}

impl Default for HistogramCounts {
    fn default() -> HistogramCounts {
        HistogramCounts(vec![0; PLACES])
    }
}

impl LatencyHistogram {
    /// Notes one time. For one thread only: a second one would lose counts.
    #[inline]
    pub(super) fn note(&self, ns: u64) {
        let count = &self.counts[place(ns)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if ns > self.most_ns.load(Ordering::Relaxed) {
            self.most_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Adds what was noted since `before` to `sum`, moves `before` on, and gives the longest time
    /// since the last call.
    pub(super) fn since(&self, before: &mut HistogramCounts, sum: &mut HistogramCounts) -> u64 {
        for (count, (before, sum)) in self
            .counts
            .iter()
            .zip(before.0.iter_mut().zip(sum.0.iter_mut()))
        {
            let now = count.load(Ordering::Relaxed);
            *sum += now - *before;
            *before = now;
        }
        self.most_ns.swap(0, Ordering::Relaxed)
    }
}

impl HistogramCounts {
    /// The percentiles, to a thirty-second; none where nothing was noted.
    pub(super) fn latency(&self, most_ns: u64) -> Option<Latency> {
        let count: u64 = self.0.iter().sum();
        let at = |share: f64| {
            let wanted = (count as f64 * share).ceil() as u64;
            let mut seen = 0;
            let place = self.0.iter().position(|n| {
                seen += n;
                seen >= wanted
            });
            (middle(place.unwrap_or(0)).min(most_ns)) as f64 / 1e3
        };
        (count > 0).then(|| Latency {
            count,
            us_p50: at(0.5),
            us_p99: at(0.99),
            us_max: most_ns as f64 / 1e3,
        })
    }
}

/// Where a time is counted: exactly below [`STEPS`], then so many steps each doubling.
fn place(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - BITS;
    ((u64::from(shift) + 1) * STEPS + ((ns >> shift) & (STEPS - 1))) as usize
}

/// The time in the middle of a place.
fn middle(place: usize) -> u64 {
    let place = place as u64;
    if place < STEPS {
        return place;
    }
    let shift = place / STEPS - 1;
    let low = (STEPS + place % STEPS) << shift;
    low + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_place_near_it() {
        for ns in [0, 1, 31, 32, 33, 1000, 65_535, 1 << 40, u64::MAX] {
            let near = middle(place(ns));
            assert!(near.abs_diff(ns) <= ns / 32, "{ns} became {near}");
        }
        assert_eq!(place(u64::MAX), PLACES - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_times_since_the_last_reading() {
        let histogram = LatencyHistogram::default();
        let (mut before, mut sum) = (HistogramCounts::default(), HistogramCounts::default());
        histogram.note(1 << 30);
        let most = histogram.since(&mut before, &mut sum);
        assert_eq!((most, sum.latency(most).unwrap().count), (1 << 30, 1));
        (1..=100).for_each(|us| histogram.note(us * 1000));
        let mut sum = HistogramCounts::default();
        let most = histogram.since(&mut before, &mut sum);
        let told = sum.latency(most).unwrap();
        assert_eq!((told.count, told.us_max), (100, 100.0));
        assert!((told.us_p50 - 50.0).abs() < 2.0, "{told:?}");
        assert!((told.us_p99 - 99.0).abs() < 4.0, "{told:?}");
        let mut nothing = HistogramCounts::default();
        histogram.since(&mut before, &mut nothing);
        assert_eq!(nothing.latency(0), None);
    }
}

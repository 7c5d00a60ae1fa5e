//! Times at which the requests of an open loop are due, drawn before the first response.

use bytecost_engine::pattern::mix;
use bytecost_spec::Arrivals;

use super::Load;

/// The times at which one thread's requests are due, one after the other.
#[derive(Clone, Debug)]
pub(super) struct ArrivalTimes {
    arrivals: Arrivals,
    gap_ns: f64,
    /// The next time, in ns since the first could be.
    at_ns: f64,
    state: u64,
}

impl ArrivalTimes {
    /// Times of the `nth` thread: drawn times are independent of other threads', even ones lie at even
    /// distances from them.
    pub(super) fn new(share: &Load, per_s: f64, nth: u32) -> ArrivalTimes {
        let gap_ns = 1e9 / per_s;
        let mut times = ArrivalTimes {
            arrivals: share.arrivals,
            gap_ns,
            at_ns: gap_ns * f64::from(nth) / f64::from(share.threads),
            state: mix(share.seed ^ mix(u64::from(nth))),
        };
        if times.arrivals == Arrivals::Poisson {
            times.at_ns = times.gap();
        }
        times
    }

    pub(super) fn next_ns(&self) -> u64 {
        self.at_ns as u64
    }

    pub(super) fn advance(&mut self) {
        self.at_ns += self.gap();
    }

    fn gap(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Fixed => self.gap_ns,
            Arrivals::Poisson => {
                self.state = self.state.wrapping_add(1);
                // Above 0 and at most 1, of 53 bits.
                let share = ((mix(self.state) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                -share.ln() * self.gap_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    const PER_S: f64 = 1000.0;
    const GAP_NS: f64 = 1e6;

    /// When so many requests of one of two threads are due.
    fn times(arrivals: Arrivals, seed: u64, nth: u32, n: usize) -> Vec<f64> {
        let mut load = load();
        (load.arrivals, load.seed, load.threads) = (arrivals, seed, 2);
        let mut times = ArrivalTimes::new(&load, PER_S, nth);
        let next = |_| {
            let at_ns = times.next_ns() as f64;
            times.advance();
            at_ns
        };
        (0..n).map(next).collect()
    }

    #[test]
    fn gaps_of_a_poisson_stream_are_exponential_and_independent() {
        let n = 100_000;
        let times = times(Arrivals::Poisson, 1, 0, n);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) / GAP_NS).collect();
        let mean = |of: &dyn Fn(usize) -> f64| (0..n - 2).map(of).sum::<f64>() / (n - 2) as f64;
        assert!((mean(&|i| gaps[i]) - 1.0).abs() < 0.02);
        assert!((mean(&|i| (gaps[i] - 1.0).powi(2)) - 1.0).abs() < 0.05);
        assert!(mean(&|i| (gaps[i] - 1.0) * (gaps[i + 1] - 1.0)).abs() < 0.02);
        // A share of 1/e is longer than the mean, one of 1/e^3 longer than three times that.
        for least in [1.0_f64, 3.0] {
            let longer = mean(&|i| f64::from(gaps[i] > least));
            assert!((longer - (-least).exp()).abs() < 0.005, "{longer}");
        }
        // So many within a time as independent clients make: as many in the variance as in the mean.
        let span = |at_ns: &f64| (at_ns / (20.0 * GAP_NS)) as usize;
        let mut counts = vec![0.0; span(&times[n - 1]) + 1];
        times.iter().for_each(|t| counts[span(t)] += 1.0);
        let spans = counts.len() as f64;
        let spread = counts.iter().map(|c: &f64| (c - 20.0).powi(2)).sum::<f64>() / spans;
        assert!((15.0..25.0).contains(&spread), "{spread}");
    }

    #[test]
    fn a_stream_is_its_seeds_and_its_threads_alone() {
        let of = |seed, nth| times(Arrivals::Poisson, seed, nth, 2000);
        assert_eq!(of(7, 0), of(7, 0));
        let near = |one: &[f64], other: &[f64]| {
            let nearest = |t: &f64| other.iter().map(|o| (o - t).abs()).fold(f64::MAX, f64::min);
            one.iter().filter(|t| nearest(t) < GAP_NS / 100.0).count()
        };
        // Of two streams that know nothing of each other, 2 % have one so near.
        for (one, other) in [
            (of(7, 0), of(7, 1)),
            (of(7, 0), of(8, 0)),
            (of(0, 1), of(1, 0)),
        ] {
            assert!((10..80).contains(&near(&one, &other)));
        }
    }

    #[test]
    fn threads_of_a_metronome_beat_in_turn() {
        let of = |nth| times(Arrivals::Fixed, 7, nth, 1000);
        assert_eq!(of(0)[..3], [0.0, GAP_NS, 2.0 * GAP_NS]);
        assert_eq!(of(1)[..3], [0.5 * GAP_NS, 1.5 * GAP_NS, 2.5 * GAP_NS]);
        assert_eq!(of(0)[999], 999.0 * GAP_NS);
    }
}

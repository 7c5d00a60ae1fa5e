//! The result of a load: latencies, rates and errors.

use std::fmt;
use std::io;

use bytecost_spec::service::Fairness;
use hdrhistogram::Histogram;

use super::LoadInterface;
use crate::flow::histogram_to;
use crate::protocol::Traffic;

/// Longer latencies, in ns, count as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Share of the time from which on a generator that had work counts as the bottleneck.
const MOST_BUSY: f64 = 0.9;
/// Lateness that nobody would notice, in ns.
const NEGLIGIBLE_NS: u64 = 100_000;

/// The result of a load.
#[derive(Clone, Debug)]
pub struct LoadOutcome {
    /// Latency of each request, in ns: a lower bound for those that were given up.
    pub latency_ns: Histogram<u64>,
    /// Right answers: closed loop, those that came in the window; open loop, those due in it.
    pub answers: u64,
    /// Right answers that came within the window: these make the rate.
    pub answers_in_window: u64,
    /// Requests that were due in the window and had no answer when the load ended, sent or not. In
    /// the closed loop: those that waited through all of it.
    pub unanswered: u64,
    /// Length of the window in ns.
    pub window_ns: u64,
    /// Errors from the first connection on, warm-up included.
    pub errors: Errors,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that were begun and requests that were made, from the first on, whatever became
    /// of them: no server has seen more of this load.
    pub made: Traffic,
    /// The end of the server, in ns since the window opened: the first refusal that no connection
    /// followed. None where it stayed, or where that is not checked.
    pub server_gone_ns: Option<u64>,
    /// Answers in the window by connection.
    pub answers_by_connection: Vec<u64>,
    /// The work of the generator itself.
    pub generator: GeneratorLoad,
}

/// An error of a connection or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The server refused the connection.
    Refused,
    /// The connection was reset.
    Reset,
    /// The server closed the connection while something was asked, or one that was only there.
    Closed,
    /// No connection or answer came within the timeout.
    Timeout,
    /// The answer's content was wrong.
    Wrong,
    /// This machine could not open the connection: no descriptor, port or memory.
    Local,
}

/// The number of errors of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors([u64; 6]);

impl Errors {
    /// The number of errors of one kind.
    pub fn number(&self, kind: LoadError) -> u64 {
        self.0[kind as usize]
    }

    /// All together.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each kind by its name.
    pub fn by_kind(&self) -> [(&'static str, u64); 6] {
        let names = ["refused", "reset", "closed", "timeout", "wrong", "local"];
        std::array::from_fn(|kind| (names[kind], self.0[kind]))
    }

    pub(super) fn count(&mut self, kind: LoadError, times: u64) {
        self.0[kind as usize] += times;
    }
}

/// The work of the generator itself within the window.
#[derive(Clone, Debug)]
pub struct GeneratorLoad {
    /// Share of time in which its busiest thread had work, on the CPU or not, from 0 to 1.
    pub busy_share: f64,
    /// CPU time of its threads in ns.
    pub cpu_ns: u64,
    /// Time from when a request was due and a connection was free until it was sent, in ns.
    pub late_ns: Histogram<u64>,
    /// The interface that its threads used: never [`LoadInterface::Best`].
    pub way: LoadInterface,
    /// The reason why it had no ring, where it was to have one if possible.
    pub no_ring: Option<String>,
}

/// A limit of the generator, by which the result may be its own and not the server's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// It had work for this share of the time, so that the rate may be its own.
    Busy(f64),
    /// One of a hundred requests was sent this much later than possible, in ns.
    Late(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Busy(share) => write!(
                f,
                "the load generator was busy {:.0} % of the time: give it a CPU of its own or more threads",
                share * 100.0
            ),
            Limit::Late(ns) => write!(
                f,
                "the load generator sent 1 of 100 requests more than {:.1} ms late: lower the rate or give it more threads",
                *ns as f64 / 1e6
            ),
        }
    }
}

impl LoadOutcome {
    pub(super) fn new(connections: u32) -> LoadOutcome {
        LoadOutcome {
            latency_ns: histogram_to(LONGEST_NS, 3),
            answers: 0,
            answers_in_window: 0,
            unanswered: 0,
            window_ns: 0,
            errors: Errors::default(),
            opened: 0,
            made: Traffic::default(),
            server_gone_ns: None,
            answers_by_connection: vec![0; connections as usize],
            generator: GeneratorLoad {
                busy_share: 0.0,
                cpu_ns: 0,
                late_ns: histogram_to(LONGEST_NS, 3),
                way: LoadInterface::Uring,
                no_ring: None,
            },
        }
    }

    /// Right answers per second.
    pub fn answers_per_s(&self) -> f64 {
        if self.window_ns == 0 {
            return 0.0;
        }
        self.answers_in_window as f64 * 1e9 / self.window_ns as f64
    }

    /// Right answers by connection.
    pub fn fairness(&self) -> Fairness {
        let mut counts = self.answers_by_connection.clone();
        counts.sort_unstable();
        let last = counts.len().saturating_sub(1);
        let [least, median, most] =
            [0, last / 2, last].map(|index| counts.get(index).copied().unwrap_or(0));
        Fairness {
            least,
            median,
            most,
        }
    }

    /// The limit of the generator, if it reached one: the figures are then no verdict on the server.
    pub fn generator_limit(&self) -> Option<Limit> {
        let late_ns = self.generator.late_ns.value_at_quantile(0.99);
        let noticeable = NEGLIGIBLE_NS.max(self.latency_ns.value_at_quantile(0.99) / 2);
        if late_ns > noticeable {
            return Some(Limit::Late(late_ns));
        }
        let busy = self.generator.busy_share;
        (busy > MOST_BUSY).then_some(Limit::Busy(busy))
    }

    pub(super) fn add(&mut self, other: &LoadOutcome) -> io::Result<()> {
        let (generator, added) = (&mut self.generator, &other.generator);
        for (sum, one) in [
            (&mut self.latency_ns, &other.latency_ns),
            (&mut generator.late_ns, &added.late_ns),
        ] {
            sum.add(one).map_err(io::Error::other)?;
        }
        generator.busy_share = generator.busy_share.max(added.busy_share);
        generator.cpu_ns += added.cpu_ns;
        self.answers += other.answers;
        self.answers_in_window += other.answers_in_window;
        self.unanswered += other.unanswered;
        self.window_ns = self.window_ns.max(other.window_ns);
        for (sum, one) in self.errors.0.iter_mut().zip(other.errors.0) {
            *sum += one;
        }
        self.opened += other.opened;
        self.made.connections += other.made.connections;
        self.made.requests += other.made.requests;
        let gone = [self.server_gone_ns, other.server_gone_ns];
        self.server_gone_ns = gone.into_iter().flatten().max();
        self.answers_by_connection
            .extend_from_slice(&other.answers_by_connection);
        Ok(())
    }
}

/// Counts a time. Histograms know no zero.
pub(super) fn record(histogram: &mut Histogram<u64>, ns: u64) {
    histogram.saturating_record(ns.max(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(counts: &[u64], latencies_ns: &[u64]) -> LoadOutcome {
        let mut outcome = LoadOutcome::new(0);
        outcome.answers_by_connection = counts.to_vec();
        for ns in latencies_ns {
            record(&mut outcome.latency_ns, *ns);
        }
        outcome
    }

    #[test]
    fn threads_are_merged_and_not_averaged() {
        let mut all = outcome(&[5, 5], &[1000; 99]);
        all.window_ns = 2_000_000_000;
        all.answers_in_window = 99;
        let mut other = outcome(&[1], &[1_000_000]);
        other.errors.count(LoadError::Reset, 2);
        other.answers_in_window = 1;
        other.generator.busy_share = 0.95;
        all.add(&other).unwrap();
        assert_eq!(all.latency_ns.len(), 100);
        assert!(all.latency_ns.value_at_quantile(0.99) < 1100);
        assert!(all.latency_ns.max() >= 1_000_000);
        assert_eq!(all.errors.all(), 2);
        let expected = Fairness {
            least: 1,
            median: 5,
            most: 5,
        };
        assert_eq!(all.fairness(), expected);
        assert!((all.answers_per_s() - 50.0).abs() < 1e-9);
        let limit = all.generator_limit().unwrap();
        assert_eq!(limit, Limit::Busy(0.95));
        assert!(limit.to_string().contains("95 %"));
    }

    #[test]
    fn a_late_generator_says_so() {
        let check = |late_ns: u64, latency_ns: u64, limited: bool| {
            let mut outcome = outcome(&[], &[latency_ns; 10]);
            for _ in 0..10 {
                record(&mut outcome.generator.late_ns, late_ns);
            }
            assert_eq!(outcome.generator_limit().is_some(), limited, "{late_ns}");
        };
        check(0, 20_000, false);
        check(90_000, 20_000, false);
        check(5_000_000, 20_000, true);
        check(5_000_000, 20_000_000, false);
        check(5_000_000, 6_000_000, true);
    }
}

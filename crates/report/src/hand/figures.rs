//! What a stretch of time comes to, in the units of the table of measures.

use bytecost_spec::hand::{SessionPart, Stretch, Summary};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Counter, Reading, Side};

/// A stretch as numbers; what cannot be had is none.
pub(super) struct Figures<'a> {
    stretch: &'a Stretch,
}

/// Bits per ns, which is Gbit/s.
fn gbit_per_s(flow: &FlowReading) -> f64 {
    if flow.elapsed_ns == 0 {
        return 0.0;
    }
    flow.bytes as f64 * 8.0 / flow.elapsed_ns as f64
}

impl<'a> Figures<'a> {
    pub(super) fn of(stretch: &'a Stretch) -> Figures<'a> {
        Figures { stretch }
    }

    fn flows(&self) -> &[FlowReading] {
        &self.stretch.side.flows
    }

    pub(super) fn counter(&self, counter: Counter) -> Option<u64> {
        self.stretch
            .side
            .readings
            .get(&counter)
            .and_then(Reading::measured)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sum(|f| f.bytes)
    }

    pub(super) fn messages(&self) -> u64 {
        self.sum(|f| f.messages)
    }

    fn sum(&self, of: fn(&FlowReading) -> u64) -> u64 {
        self.flows().iter().map(of).fold(0, u64::saturating_add)
    }

    /// The longest of the flows.
    pub(super) fn elapsed_s(&self) -> f64 {
        let longest = self.flows().iter().map(|f| f.elapsed_ns).max();
        longest.unwrap_or(0) as f64 / 1e9
    }

    /// The sum of what each flow reached in its own time.
    pub(super) fn gbit_per_s(&self) -> f64 {
        self.flows().iter().map(gbit_per_s).sum()
    }

    pub(super) fn messages_per_s(&self) -> f64 {
        let rate = |f: &FlowReading| f.messages as f64 * 1e9 / f.elapsed_ns.max(1) as f64;
        self.flows().iter().map(rate).sum()
    }

    pub(super) fn spread_gbit_per_s(&self) -> Option<(f64, f64)> {
        let rates = self.flows().iter().map(gbit_per_s);
        let slowest = rates.clone().reduce(f64::min)?;
        let fastest = rates.reduce(f64::max)?;
        (self.flows().len() > 1).then_some((slowest, fastest))
    }

    /// Jain's index of the flows' rates: 1 where all are equal, one over their number where one
    /// has everything (Jain, Chiu, Hawe: A quantitative measure of fairness, 1984). None for one
    /// flow, or where nothing moved.
    pub(super) fn fairness(&self) -> Option<f64> {
        let n = self.flows().len();
        let rates: Vec<f64> = self.flows().iter().map(gbit_per_s).collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|r| r * r).sum();
        (n > 1 && squares > 0.0).then(|| sum * sum / (n as f64 * squares))
    }

    /// CPU ns a byte, which is CPU seconds a GB.
    pub(super) fn cpu_s_per_gb(&self) -> Option<f64> {
        self.over(Counter::CpuNs, Counter::Bytes)
    }

    pub(super) fn calls_per_message(&self) -> Option<f64> {
        self.over(Counter::Calls, Counter::Messages)
    }

    pub(super) fn copied_share(&self) -> Option<f64> {
        self.over(Counter::CompletionsCopied, Counter::Completions)
    }

    pub(super) fn system_share(&self) -> Option<f64> {
        let system = self.counter(Counter::SystemNs)? as f64;
        let user = self.counter(Counter::UserNs)? as f64;
        (system + user > 0.0).then(|| system / (system + user))
    }

    fn over(&self, counter: Counter, of: Counter) -> Option<f64> {
        let (n, of) = (self.counter(counter)?, self.counter(of)?);
        (of > 0).then(|| n as f64 / of as f64)
    }
}

pub(super) fn part(summary: &Summary, side: Side) -> Option<&SessionPart> {
    if summary.begun.own == side {
        Some(&summary.own)
    } else {
        summary.peer.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_goes_from_one_to_one_over_the_flows() {
        let check = |bytes: &[u64], expected: Option<f64>| {
            let mut stretch = Stretch::default();
            stretch.side.flows = bytes
                .iter()
                .map(|&bytes| FlowReading {
                    bytes,
                    messages: 1,
                    elapsed_ns: 1000,
                })
                .collect();
            assert_eq!(Figures::of(&stretch).fairness(), expected, "{bytes:?}");
        };
        check(&[5, 5, 5, 5], Some(1.0));
        check(&[20, 0, 0, 0], Some(0.25));
        check(&[30, 10], Some(0.8));
        check(&[5], None);
        check(&[0, 0], None);
    }
}

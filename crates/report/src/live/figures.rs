//! Figures of a span of time, in the units of the table of measures.

use bytecost_spec::Counter;
use bytecost_spec::live::{Activity, Session};
use bytecost_spec::sample::FlowReading;
use itertools::Itertools as _;
use serde::Serialize;

/// Figures for programs. What is not available is `null`, or left out where a session has none.
#[derive(Serialize)]
pub(super) struct Figures {
    /// The longest of the flows.
    pub elapsed_s: f64,
    pub bytes: u64,
    /// None where this side does not know the size of messages.
    pub messages: Option<u64>,
    /// Sum of the throughputs of the flows, each over its own time.
    pub throughput_gbit_per_s: f64,
    pub messages_per_s: Option<f64>,
    pub cpu_s_per_gb: Option<f64>,
    pub calls: Option<u64>,
    #[serde(skip)]
    pub calls_per_s: Option<f64>,
    pub calls_per_message: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_max: Option<f64>,
    flows_silent: u32,
    flow_bytes: Vec<u64>,
    /// Rates of the slowest and the fastest flow, in Gbit/s, where there are several.
    #[serde(skip)]
    pub spread: Option<(f64, f64)>,
}

impl Figures {
    pub(super) fn new(session: &Session, activity: &Activity) -> Figures {
        let flows = &activity.side.flows;
        let sum = |of: fn(&FlowReading) -> u64| flows.iter().map(of).fold(0, u64::saturating_add);
        let longest = flows.iter().map(|f| f.elapsed_ns).max().unwrap_or(0);
        // Bits per ns, which is Gbit/s.
        let rate = |f: &FlowReading| match f.elapsed_ns {
            0 => 0.0,
            ns => f.bytes as f64 * 8.0 / ns as f64,
        };
        let rates: Vec<f64> = flows.iter().map(rate).collect();
        let messages = |f: &FlowReading| f.messages as f64 * 1e9 / f.elapsed_ns.max(1) as f64;
        let ends = rates.iter().copied().minmax().into_option();
        let over = |n, of| {
            let (n, of) = (counter(activity, n)?, counter(activity, of)?);
            (of > 0).then(|| n as f64 / of as f64)
        };
        let latency = activity.latency.as_ref();
        let counted = session.counts_messages;
        let calls = counter(activity, Counter::Calls);
        Figures {
            elapsed_s: longest as f64 / 1e9,
            bytes: sum(|f| f.bytes),
            messages: counted.then(|| sum(|f| f.messages)),
            throughput_gbit_per_s: rates.iter().sum(),
            messages_per_s: counted.then(|| flows.iter().map(messages).sum()),
            // CPU ns a byte are CPU seconds a GB.
            cpu_s_per_gb: over(Counter::CpuNs, Counter::Bytes),
            calls,
            calls_per_s: calls.map(|n| n as f64 * 1e9 / longest.max(1) as f64),
            calls_per_message: over(Counter::Calls, Counter::Messages).filter(|_| counted),
            fairness: fairness(&rates),
            copied_share: over(Counter::CompletionsCopied, Counter::Completions),
            latency_us_p50: latency.map(|l| l.us_p50),
            latency_us_p99: latency.map(|l| l.us_p99),
            latency_us_max: latency.map(|l| l.us_max),
            flows_silent: activity.flows_silent,
            flow_bytes: flows.iter().map(|f| f.bytes).collect(),
            spread: ends.filter(|_| flows.len() > 1),
        }
    }
}

/// Jain's index of the flows' rates, 1 where all are equal (Jain, Chiu, Hawe: A quantitative
/// measure of fairness, 1984). None for one flow, or where nothing moved.
fn fairness(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    let several = rates.len() > 1 && squares > 0.0;
    several.then(|| sum * sum / (rates.len() as f64 * squares))
}

pub(super) fn counter(activity: &Activity, counter: Counter) -> Option<u64> {
    activity.side.measured(counter)
}

pub(super) fn system_share(activity: &Activity) -> Option<f64> {
    let system = counter(activity, Counter::SystemNs)? as f64;
    let user = counter(activity, Counter::UserNs)? as f64;
    (system + user > 0.0).then(|| system / (system + user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_goes_from_one_to_one_over_the_flows() {
        for (rates, expected) in [
            (&[5.0, 5.0, 5.0, 5.0][..], Some(1.0)),
            (&[20.0, 0.0, 0.0, 0.0], Some(0.25)),
            (&[30.0, 10.0], Some(0.8)),
            (&[5.0], None),
            (&[0.0, 0.0], None),
        ] {
            assert_eq!(fairness(rates), expected, "{rates:?}");
        }
    }
}

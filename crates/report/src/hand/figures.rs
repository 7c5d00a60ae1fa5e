//! What a stretch of time comes to, in the units of the table of measures.

use bytecost_spec::hand::{SessionPart, Stretch, Summary};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Counter, Side};
use itertools::Itertools as _;
use serde::Serialize;

/// A stretch as numbers for programs. What is not available is `null`, or left out by a session.
#[derive(Serialize)]
pub(super) struct Figures {
    /// The longest of the flows.
    pub elapsed_s: f64,
    pub bytes: u64,
    pub messages: u64,
    /// The sum of what each flow reached in its own time.
    pub throughput_gbit_per_s: f64,
    pub messages_per_s: f64,
    pub cpu_s_per_gb: Option<f64>,
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
    /// What the slowest and the fastest flow reached, in Gbit/s, where there are several.
    #[serde(skip)]
    pub spread: Option<(f64, f64)>,
}

impl Figures {
    pub(super) fn of(stretch: &Stretch) -> Figures {
        let flows = &stretch.side.flows;
        let sum = |of: fn(&FlowReading) -> u64| flows.iter().map(of).fold(0, u64::saturating_add);
        let longest = flows.iter().map(|f| f.elapsed_ns).max().unwrap_or(0);
        // Bits per ns, which is Gbit/s.
        let rates = flows.iter().map(|f| match f.elapsed_ns {
            0 => 0.0,
            ns => f.bytes as f64 * 8.0 / ns as f64,
        });
        let rates: Vec<f64> = rates.collect();
        let messages = |f: &FlowReading| f.messages as f64 * 1e9 / f.elapsed_ns.max(1) as f64;
        let ends = rates.iter().copied().minmax().into_option();
        let over = |n, of| {
            let (n, of) = (counter(stretch, n)?, counter(stretch, of)?);
            (of > 0).then(|| n as f64 / of as f64)
        };
        let latency = stretch.latency.as_ref();
        Figures {
            elapsed_s: longest as f64 / 1e9,
            bytes: sum(|f| f.bytes),
            messages: sum(|f| f.messages),
            throughput_gbit_per_s: rates.iter().sum(),
            messages_per_s: flows.iter().map(messages).sum(),
            // CPU ns a byte are CPU seconds a GB.
            cpu_s_per_gb: over(Counter::CpuNs, Counter::Bytes),
            calls_per_message: over(Counter::Calls, Counter::Messages),
            fairness: fairness(&rates),
            copied_share: over(Counter::CompletionsCopied, Counter::Completions),
            latency_us_p50: latency.map(|l| l.us_p50),
            latency_us_p99: latency.map(|l| l.us_p99),
            latency_us_max: latency.map(|l| l.us_max),
            flows_silent: stretch.flows_silent,
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

pub(super) fn counter(stretch: &Stretch, counter: Counter) -> Option<u64> {
    stretch.side.measured(counter)
}

pub(super) fn system_share(stretch: &Stretch) -> Option<f64> {
    let system = counter(stretch, Counter::SystemNs)? as f64;
    let user = counter(stretch, Counter::UserNs)? as f64;
    (system + user > 0.0).then(|| system / (system + user))
}

pub(super) fn part(summary: &Summary, side: Side) -> Option<&SessionPart> {
    match summary.begun.own == side {
        true => Some(&summary.own),
        false => summary.peer.as_ref(),
    }
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

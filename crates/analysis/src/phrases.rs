//! Numbers, places and verdicts as people say them.

use bytecost_spec::{Axis, Cell, Measure, Metric, Side, Study, units};

use crate::result::{Finding, Verdict};

/// How a measure is compared in words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Less is cheaper.
    Cost,
    /// More is a higher rate.
    Rate,
    /// Less is quicker.
    Time,
    /// A number of things, of which fewer are better.
    Number,
}

fn kind(measure: Measure) -> (Kind, &'static str) {
    use Measure as M;
    match measure {
        M::ThroughputGbitPerS => (Kind::Rate, "throughput"),
        M::MessagesPerS => (Kind::Rate, "message rate"),
        M::CpuSPerGb => (Kind::Cost, "CPU time per byte"),
        M::CpuNsPerMessage => (Kind::Cost, "CPU time per message"),
        M::MsPerMessage => (Kind::Time, "time per message"),
        M::RoundTripNs => (Kind::Time, "round trip"),
        M::CallsPerMib => (Kind::Number, "system calls per MiB"),
        M::LatencyUsP50 => (Kind::Time, "median latency"),
        M::LatencyUsP90 => (Kind::Time, "p90 latency"),
        M::LatencyUsP99 => (Kind::Time, "p99 latency"),
        M::LatencyUsP999 => (Kind::Time, "p99.9 latency"),
        M::LatencyUsMax => (Kind::Time, "maximum latency"),
        M::CallsPerMessage => (Kind::Number, "system calls per message"),
        M::SystemShare => (Kind::Number, "system share of CPU time"),
        M::CpuUtilization => (Kind::Number, "CPUs in use"),
        M::ContextSwitchesPerMessage => (Kind::Number, "context switches per message"),
        M::MigrationsPerS => (Kind::Number, "migrations"),
        M::PageFaultsPerMessage => (Kind::Number, "page faults per message"),
        M::CyclesPerByte => (Kind::Number, "cycles per byte"),
        M::InstructionsPerByte => (Kind::Number, "instructions per byte"),
        M::L1dLoadMissesPerKib => (Kind::Number, "L1d load misses per KiB"),
        M::LlcLoadMissesPerKib => (Kind::Number, "LLC load misses per KiB"),
        M::BranchMissesPerMessage => (Kind::Number, "branch misses per message"),
        M::CopiedShare => (Kind::Number, "copied share of the buffers"),
        M::CopiesPerByte => (Kind::Number, "copies per byte"),
        M::DelayedAcksPerMessage => (Kind::Number, "delayed acknowledgements per message"),
        M::CyclesPerMessage => (Kind::Number, "cycles per message"),
        M::InstructionsPerMessage => (Kind::Number, "instructions per message"),
        M::CacheMissesPerMessage => (Kind::Number, "cache misses per message"),
        M::ErrorsPerMessage => (Kind::Number, "failed requests per answer"),
        M::LeastServedShare => (Kind::Number, "answers to the least served connection"),
        M::MemoryKibPerConnection => (Kind::Number, "memory of the server per connection"),
        M::ThrottledShare => (Kind::Number, "throttled time"),
        M::NeighbourShare => (Kind::Number, "CPU time of others"),
        M::StealShare => (Kind::Number, "steal"),
    }
}

/// The metric within a sentence: `CPU time per byte`, `CPU time per byte of the sender`.
pub(crate) fn metric(metric: Metric) -> String {
    let (_, noun) = kind(metric.measure);
    match metric.side {
        Side::Both => noun.to_owned(),
        Side::Sender => format!("{noun} of the sender"),
        Side::Receiver => format!("{noun} of the receiver"),
        Side::Server => format!("{noun} of the server"),
        Side::Client => format!("{noun} of the clients"),
    }
}

/// A share as a percentage with a space, as in running text: `97.5 %`.
pub(crate) fn percent(share: f64) -> String {
    units::percent(share).replace('%', " %")
}

/// A factor with its interval, written as finely as the interval's width bears.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Factor {
    /// The number alone: `1.8`.
    pub(crate) value: String,
    /// `1.7 to 1.9`.
    pub(crate) interval: String,
}

/// A ratio with its interval, as finely as that bears: `0.42× (0.40 to 0.44)`.
pub(crate) fn ratio(value: f64, low: f64, high: f64) -> String {
    let most = if value < 0.1 { 3 } else { 2 };
    let decimals = decimals(low, high).clamp(2, most);
    let [value, low, high] = [value, low, high].map(|v| written(v, decimals));
    format!("{value}× ({low} to {high})")
}

/// The ratio of a finding as it is told: turned over where cheaper and quicker is told.
pub(crate) fn factor(finding: &Finding) -> Factor {
    let (value, low, high) = told(finding);
    let decimals = decimals(low, high);
    Factor {
        value: written(value, decimals),
        interval: format!("{} to {}", written(low, decimals), written(high, decimals)),
    }
}

/// The factors of some findings of one verdict, from the weakest to the strongest: `1.4× to 3.3×`.
pub(crate) fn factors(findings: &[&Finding]) -> String {
    let strength = |f: &Finding| f.ratio.ln().abs();
    let mut ordered = findings.to_vec();
    ordered.sort_by(|a, b| strength(a).total_cmp(&strength(b)));
    let (Some(weakest), Some(strongest)) = (ordered.first(), ordered.last()) else {
        return String::new();
    };
    let fineness = |f: &Finding| {
        let (_, low, high) = told(f);
        decimals(low, high)
    };
    let decimals = fineness(weakest).min(fineness(strongest));
    let [least, most] = [weakest, strongest].map(|f| written(told(f).0, decimals));
    if least == most {
        format!("{least}×")
    } else {
        format!("{least}× to {most}×")
    }
}

/// The ratio, and its interval from the lower end to the higher, as they are told.
fn told(finding: &Finding) -> (f64, f64, f64) {
    let turned = turned(finding);
    let turn = |x: f64| if turned { 1.0 / x } else { x };
    let (a, b) = (turn(finding.low), turn(finding.high));
    (turn(finding.ratio), a.min(b), a.max(b))
}

/// As many decimals as an interval's width bears, and enough to tell a factor from 1.
fn decimals(low: f64, high: f64) -> usize {
    let by_width = match (high - low) / 2.0 {
        w if w >= 5.0 => 0,
        w if w >= 0.05 => 1,
        w if w >= 0.005 => 2,
        _ => 3,
    };
    if low < 1.15 && high > 0.85 && high < 5.0 {
        by_width.max(2)
    } else {
        by_width
    }
}

fn written(factor: f64, decimals: usize) -> String {
    if factor >= 1000.0 {
        units::number(factor)
    } else {
        format!("{factor:.decimals$}")
    }
}

fn turned(finding: &Finding) -> bool {
    let told_by_gain = matches!(kind(finding.metric.measure).0, Kind::Cost | Kind::Time);
    told_by_gain && finding.verdict == Verdict::Better
}

/// The same as a whole predicate: ``is 1.8× as cheap as `send` in CPU time per byte``.
pub(crate) fn predicate(finding: &Finding, times: &str) -> String {
    let better = finding.verdict == Verdict::Better;
    let noun = metric(finding.metric);
    let base = finding.axis.subject(&finding.baseline_value);
    match (kind(finding.metric.measure).0, better) {
        (Kind::Cost, true) => format!("is {times} as cheap as {base} in {noun}"),
        (Kind::Cost, false) => format!("costs {times} as much {noun} as {base}"),
        (Kind::Time, true) => format!("is {times} as quick as {base} in {noun}"),
        (Kind::Time, false) => format!("takes {times} as long as {base} in {noun}"),
        (Kind::Rate, _) => format!("reaches {times} the {noun} of {base}"),
        (Kind::Number, _) => format!("has {times} the {noun} of {base}"),
    }
}

/// The same after the metric and the baseline were named: `is 1.8× as cheap`.
pub(crate) fn short_predicate(finding: &Finding, times: &str) -> String {
    let better = finding.verdict == Verdict::Better;
    let base = finding.axis.subject(&finding.baseline_value);
    match (kind(finding.metric.measure).0, better) {
        (Kind::Cost | Kind::Time, true) => format!("is {}", compared(finding, times)),
        (Kind::Cost | Kind::Time, false) => compared(finding, times),
        (Kind::Rate, _) => format!("reaches {times} that of {base}"),
        (Kind::Number, _) => format!("has {times} that of {base}"),
    }
}

fn plural(number: &str, noun: &str) -> String {
    let s = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// Several circumstances: `at 64 KiB, over unix, with 2 threads`; empty for none. What a cell's
/// name tells only where it matters is told only there.
pub(crate) fn circumstances(values: &[(Axis, String)]) -> String {
    values
        .iter()
        .filter(|(axis, value)| axis.tells(value))
        .map(|(axis, value)| axis.circumstance(value))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The same after a comma, or nothing.
pub(crate) fn joined_circumstances(values: &[(Axis, String)]) -> String {
    match circumstances(values) {
        none if none.is_empty() => none,
        some => format!(", {some}"),
    }
}

/// A text with its first letter large.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// A text that ends as a sentence does.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// A finding in one sentence.
pub(crate) fn finding(finding: &Finding, cell: &Cell, study: &Study, varied: &[Axis]) -> String {
    let rest: Vec<Axis> = varied
        .iter()
        .copied()
        .filter(|a| *a != finding.axis)
        .collect();
    let place = circumstances(&crate::grid::coordinates(cell, &rest));
    let place = if place.is_empty() {
        place
    } else {
        format!(" {place}")
    };
    let other = capital(&finding.axis.subject(&finding.value));
    let base = finding.axis.subject(&finding.baseline_value);
    let noun = metric(finding.metric);
    let told = factor(finding);
    let interval = format!("95 % interval {}", told.interval);
    match finding.verdict {
        Verdict::Better | Verdict::Worse => {
            let predicate = predicate(finding, &format!("{}×", told.value));
            format!("{other} {predicate}{place} ({interval}).")
        }
        Verdict::NoDifferenceThatMatters => {
            let bound = percent(study.smallest_effect);
            format!("{other} and {base} differ by less than {bound} in {noun}{place} ({interval}).")
        }
        Verdict::NotDecided if let Some(why) = &finding.withheld => {
            format!("{other} against {base} in {noun}{place}: no verdict ({interval}): {why}.")
        }
        Verdict::NotDecided => {
            let remedy = finding.blocks_needed.map_or_else(
                || "more blocks alone would not decide it".to_owned(),
                |n| format!("it would take about {n} blocks"),
            );
            // An interval stands for itself; the verdict answers for all comparisons together.
            let apart = if finding.low > 1.0 || finding.high < 1.0 {
                " once all comparisons are corrected together"
            } else {
                ""
            };
            format!(
                "{other} against {base} in {noun}{place}: not decided{apart} ({interval}); {remedy}."
            )
        }
    }
}
/// What holds `times` a factor: `1.8× as cheap`, `costs 1.3× as much`, for a verdict of better or
/// worse. `times` is the factor with its sign, or a span of them.
pub(crate) fn compared(finding: &Finding, times: &str) -> String {
    let better = finding.verdict == Verdict::Better;
    match (kind(finding.metric.measure).0, better) {
        (Kind::Cost, true) => format!("{times} as cheap"),
        (Kind::Cost, false) => format!("costs {times} as much"),
        (Kind::Time, true) => format!("{times} as quick"),
        (Kind::Time, false) => format!("takes {times} as long"),
        (Kind::Rate, _) => format!("{times} the {}", metric(finding.metric)),
        (Kind::Number, _) => format!("{times} as many"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Several of which any will do: `a, b or c`.
pub(crate) fn alternatives(items: &[String]) -> String {
    match items {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => list(items),
    }
}

/// A number with its noun: `1 trial`, `2 trials`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    plural(&n.to_string(), noun)
}

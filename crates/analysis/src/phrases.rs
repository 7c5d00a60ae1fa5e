//! Numbers, places and verdicts as people say them.

use bytecost_spec::{Axis, Cell, Measure, Metric, Side, Study, units};

use crate::confidence::ERROR_RATE;
use crate::result::{Finding, MainEffect, PlaceEffect, Verdict};

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
        M::RoundTripNs => (Kind::Time, "round-trip time"),
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

/// Whether a metric is spent, rather than waited for.
pub(crate) fn is_spent(metric: Metric) -> bool {
    kind(metric.measure).0 == Kind::Cost
}

/// Whether a metric is a number of things, which nobody pays or waits for as such.
pub(crate) fn is_count(metric: Metric) -> bool {
    kind(metric.measure).0 == Kind::Number
}

/// A share as a percentage with a space, as in running text: `97.5 %`.
pub(crate) fn percent(share: f64) -> String {
    units::percent(share).replace('%', " %")
}

/// A ratio with its interval, as finely as that bears: `0.42× (0.40 to 0.44)`.
pub(crate) fn ratio(value: f64, low: f64, high: f64) -> String {
    let most = if value < 0.1 { 3 } else { 2 };
    let decimals = decimals(low, high).clamp(2, most);
    let [value, low, high] = [value, low, high].map(|v| written(v, decimals));
    format!("{value}× ({low} to {high})")
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

/// A ratio as a change: `41 %` where it is less, `1.46×` where it is more.
pub(crate) fn change(ratio: f64) -> String {
    if ratio < 1.0 {
        let percent = 100.0 * (1.0 - ratio);
        return match percent {
            p if (99.0..99.95).contains(&p) || p < 0.95 => format!("{p:.1} %"),
            p if p >= 99.95 => format!("{p:.3} %"),
            p => format!("{p:.0} %"),
        };
    }
    match ratio {
        r if r >= 999.5 => format!("{}×", units::number(r.round())),
        r if r >= 9.95 => format!("{r:.0}×"),
        r if r >= 1.995 => format!("{r:.1}×"),
        r => format!("{r:.2}×"),
    }
}

/// A finding as a predicate: ``uses 41 % less CPU time per byte than `send` ``.
fn predicate(of: Metric, ratio: f64, base: &str) -> String {
    let (kind, noun) = (kind(of.measure).0, metric(of));
    let verb = match kind {
        Kind::Cost => "uses",
        Kind::Rate => "reaches",
        Kind::Time | Kind::Number => "has",
    };
    let change = change(ratio);
    match (ratio < 1.0, kind) {
        (true, Kind::Number) => format!("{verb} {change} fewer {noun} than {base}"),
        (true, _) => format!("{verb} {change} less {noun} than {base}"),
        (false, _) => format!("{verb} {change} the {noun} of {base}"),
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

/// `0.59×, 95 % interval 0.55 to 0.63`.
pub(crate) fn with_interval(finding: &Finding) -> String {
    in_full(finding.ratio, finding.low, finding.high)
}

fn in_full(value: f64, low: f64, high: f64) -> String {
    let told = ratio(value, low, high);
    told.replace(" (", ", 95 % interval ").replace(')', "")
}

/// A ratio with its interval beside a predicate, which has the ratio itself where it is more.
fn beside_predicate(value: f64, interval: &str) -> &str {
    match interval.split_once(", ") {
        Some((_, alone)) if value >= 1.0 => alone,
        _ => interval,
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
    let interval = with_interval(finding);
    match finding.verdict {
        Verdict::Better | Verdict::Worse => {
            let interval = beside_predicate(finding.ratio, &interval);
            let predicate = predicate(finding.metric, finding.ratio, &base);
            format!("{other} {predicate}{place} ({interval}).")
        }
        Verdict::NoDifferenceThatMatters => {
            let bound = percent(study.smallest_effect);
            format!("{other} and {base} differ by less than {bound} in {noun}{place} ({interval}).")
        }
        Verdict::NotDecided | Verdict::NotJudged if let Some(why) = &finding.withheld => {
            format!("{other} against {base} in {noun}{place}: no verdict ({interval}): {why}.")
        }
        Verdict::NotJudged => {
            format!(
                "{other} against {base} in {noun}{place}: exploratory, not judged ({interval})."
            )
        }
        Verdict::NotDecided => {
            let remedy = finding.blocks_needed.map_or_else(
                || "more blocks alone would hardly decide it".to_owned(),
                |n| format!("it would take about {n} blocks"),
            );
            // An interval stands for itself; the verdict answers for all comparisons together.
            let apart = if finding.low > 1.0 || finding.high < 1.0 {
                " once its family is corrected"
            } else {
                ""
            };
            format!(
                "{other} against {base} in {noun}{place}: undecided{apart} ({interval}); {remedy}."
            )
        }
    }
}

/// A main effect in one sentence. A mean over places of which one is better and one is worse says
/// nothing, and neither does one of a place without a verdict.
pub(crate) fn main_effect(effect: &MainEffect) -> String {
    let other = effect.axis.subject(&effect.value);
    let base = effect.axis.subject(&effect.baseline_value);
    let over = format!(
        "over all {} values of `{}`",
        effect.places.len(),
        effect.over.name()
    );
    let place = joined_circumstances(&effect.place);
    let noun = metric(effect.metric);
    let at = |p: &PlaceEffect| effect.over.circumstance(&p.value);
    if let Some(why) = &effect.withheld {
        let other = capital(&other);
        return format!("{other} against {base} in {noun} {over}{place}: no verdict: {why}.");
    }
    if effect.turns {
        let ratio = |a: &&PlaceEffect, b: &&PlaceEffect| a.ratio.total_cmp(&b.ratio);
        let (least, most) = (
            effect.places.iter().min_by(ratio),
            effect.places.iter().max_by(ratio),
        );
        let told = |p: &PlaceEffect| format!("{} {}", self::ratio(p.ratio, p.low, p.high), at(p));
        let ends: Vec<String> = least.into_iter().chain(most).map(told).collect();
        return format!(
            "{} against {base} in {noun}{place}: {}; it turns with `{}`, so that there is no mean over it.",
            capital(&other),
            list(&ends),
            effect.over.name()
        );
    }
    let interval = in_full(effect.ratio, effect.low, effect.high);
    let furthest = &effect.furthest;
    let apart = match furthest.p < ERROR_RATE {
        true => format!(
            "; it differs most {}, by {} of that",
            effect.over.circumstance(&furthest.value),
            ratio(furthest.ratio, furthest.low, furthest.high)
        ),
        false => String::new(),
    };
    match effect.verdict {
        Verdict::Better | Verdict::Worse => {
            let predicate = predicate(effect.metric, effect.ratio, &base);
            let interval = beside_predicate(effect.ratio, &interval);
            format!(
                "{} {predicate} {over}{place} ({interval}){apart}.",
                capital(&other)
            )
        }
        Verdict::NoDifferenceThatMatters => format!(
            "{} and {base} do not differ in {noun} by what matters {over}{place} ({interval}){apart}.",
            capital(&other)
        ),
        Verdict::NotDecided => format!(
            "{} against {base} in {noun} {over}{place}: undecided ({interval}){apart}.",
            capital(&other)
        ),
        Verdict::NotJudged => format!(
            "{} against {base} in {noun} {over}{place}: {interval}{apart}.",
            capital(&other)
        ),
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

/// A number with its noun: `1 trial`, `2 trials`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    plural(&n.to_string(), noun)
}

//! Numbers, metrics, places and lists in words.

use std::fmt::Display;

use bytecost_analysis::{CauseOf, Finding};
pub(crate) use bytecost_spec::units::{count, percent};
use bytecost_spec::{Axis, Measure, Metric, Side, Unit, Value, units};
use itertools::Itertools as _;

/// Standard deviations on either side of the mean within which 95 % of normal values lie.
const NORMAL_95: f64 = 1.96;

/// A measure as a noun within a sentence: its title, or another noun where that is a heading.
fn noun(measure: Measure) -> String {
    use Measure as M;
    let title = match measure {
        M::RoundTripNs => "round-trip time",
        M::CopiedShare => "copied share of the buffers",
        M::LeastServedShare => "responses to the least served connection",
        M::MemoryKibPerConnection => "memory of the server per connection",
        M::ThrottledShare => "throttled time",
        M::LatencyUsP50 => "median latency",
        M::LatencyUsP90 => "p90 latency",
        M::LatencyUsP99 => "p99 latency",
        M::LatencyUsP999 => "p99.9 latency",
        M::LatencyUsMax => "maximum latency",
        _ => measure.row().title,
    };
    // An abbreviation, such as CPU, stays in capitals.
    if title.chars().nth(1).is_some_and(char::is_lowercase) {
        title[..1].to_lowercase() + &title[1..]
    } else {
        title.to_owned()
    }
}

/// A metric as a noun within a sentence: `CPU time per byte`, `CPU time per request of the server`.
pub(crate) fn metric(metric: Metric, unit: Unit) -> String {
    let noun = unit.in_words(&noun(metric.measure));
    let of_side = match metric.side {
        Side::Both => "",
        Side::Sender => " of the sender",
        Side::Receiver => " of the receiver",
        Side::Server => " of the server",
        Side::Client => " of the clients",
    };
    format!("{noun}{of_side}")
}

/// A ratio with its interval, in as many decimals as that has a meaning for: `0.42× (0.40 to 0.44)`.
pub(crate) fn ratio(value: f64, low: f64, high: f64) -> String {
    let most = if value < 0.1 { 3 } else { 2 };
    let decimals = decimals(low, high).clamp(2, most);
    let [value, low, high] = [value, low, high].map(|v| ratio_number(v, decimals));
    format!("{value}× ({low} to {high})")
}

/// The decimals of a ratio by the width of its interval, and enough that a ratio near 1 differs from it.
fn decimals(low: f64, high: f64) -> usize {
    let by_width = match (high - low) / 2.0 {
        w if w >= 5.0 => 0,
        w if w >= 0.05 => 1,
        w if w >= 0.005 => 2,
        _ => 3,
    };
    let is_near_1 = low < 1.15 && high > 0.85 && high < 5.0;
    by_width.max(if is_near_1 { 2 } else { 0 })
}

fn ratio_number(factor: f64, decimals: usize) -> String {
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

/// The interval of a ratio as a change: `21–29 %` where it is less, `3.4–4.0×` where it is more.
pub(crate) fn between(low: f64, high: f64) -> String {
    let ends = match (low < 1.0, high < 1.0) {
        (true, true) => [high, low].map(change),
        (false, _) => [low, high].map(change),
        _ => [low, high].map(|ratio| format!("{ratio:.2}×")),
    };
    let [from, to] = ends;
    if from == to {
        return to;
    }
    let number = from.trim_end_matches(|c: char| !c.is_ascii_digit());
    format!("{number}–{to}")
}

/// Several circumstances: `at 64 KiB, over unix, with 2 threads`; empty for none. Values that a cell's
/// name leaves out are left out.
pub(crate) fn circumstances(values: &[(Axis, Value)]) -> String {
    values
        .iter()
        .filter(|(axis, value)| axis.is_shown(value))
        .map(|(axis, value)| axis.circumstance(value))
        .join(", ")
}

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

/// A text without the full stop that recorded words may end in.
pub(crate) fn without_stop(text: &str) -> &str {
    text.trim_end_matches('.')
}

/// `ratios differ from run to run by ±8 %`, by their standard deviation on a log scale.
pub(crate) fn from_run_to_run(deviation: f64) -> String {
    let apart = (NORMAL_95 * deviation).min(690.0).exp() - 1.0;
    format!("ratios differ from run to run by ±{}", percent(apart))
}

/// The deviation of a finding's ratio from run to run, where that alone leaves it undecided.
pub(crate) fn by_rounds(finding: &Finding) -> Option<String> {
    let deviation = finding.between_deviation;
    finding.rounds_prevent.then(|| from_run_to_run(deviation))
}

/// A cause with the numbers of both cells: `8 system calls a message instead of 1`.
pub(crate) fn cause(of: CauseOf, [from, to]: [f64; 2], whose: &str) -> String {
    let [before, after] = [from, to].map(units::short_number);
    match of {
        CauseOf::Copies => format!("{to:.2} copies of each byte instead of {from:.2}"),
        CauseOf::Event(event) => {
            format!("{after} {} {whose} instead of {before}", event.row().title)
        }
        CauseOf::Work(kind) => {
            let title = kind.row().title;
            format!("{after} ns of {title} {whose} instead of {before}")
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    match items.split_last() {
        None => String::new(),
        Some((one, [])) => one.to_string(),
        Some((last, most)) => format!("{} and {last}", most.iter().format(", ")),
    }
}

/// A range from the least to the most; one of them where both are written alike.
pub(crate) fn from_to([least, most]: [String; 2]) -> String {
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

/// The range of some numbers: `97 % to 100 %`.
pub(crate) fn span(values: &[f64], write: impl Fn(f64) -> String) -> String {
    let ends = values.iter().copied().minmax().into_option();
    let (least, most) = ends.unwrap_or_default();
    from_to([least, most].map(write))
}

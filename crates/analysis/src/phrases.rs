//! Numbers, places and verdicts as people say them.

use std::fmt::Display;

pub use bytecost_spec::units::{count, percent};
use bytecost_spec::{Axis, Measure, Metric, Side, Unit, Value, units};
use itertools::Itertools as _;

use crate::logs::exp;
use crate::result::{CauseOf, Finding};
use crate::value::QUANTILES;

/// Standard deviations that hold 95 % of normal values.
const NORMAL_REACH: f64 = 1.96;

#[derive(Clone, Copy, PartialEq, Eq)]
/// What a reader does with a measure.
pub enum Kind {
    /// Less is cheaper.
    Cost,
    /// More is a higher rate.
    Rate,
    /// Less is quicker.
    Time,
    /// A number of things, of which fewer are better, and which nobody pays or waits for as such.
    Number,
}

/// The kind of a measure.
pub fn kind(measure: Measure) -> Kind {
    use Measure as M;
    match measure {
        M::CpuSPerGb | M::CpuNsPerMessage => Kind::Cost,
        M::ThroughputGbitPerS | M::MessagesPerS => Kind::Rate,
        M::MsPerMessage | M::RoundTripNs => Kind::Time,
        _ if QUANTILES.iter().any(|(quantile, _)| *quantile == measure) => Kind::Time,
        _ => Kind::Number,
    }
}

/// A measure within a sentence: as its title, but for those whose title is no noun of a sentence.
fn noun(measure: Measure) -> String {
    use Measure as M;
    let own = match measure {
        M::RoundTripNs => "round-trip time",
        M::CopiedShare => "copied share of the buffers",
        M::LeastServedShare => "responses to the least served connection",
        M::MemoryKibPerConnection => "memory of the server per connection",
        M::ThrottledShare => "throttled time",
        _ => measure.row().title,
    };
    if let Some(which) = own.strip_prefix("Latency, ") {
        return format!("{which} latency");
    }
    // What begins with an abbreviation keeps it.
    match own.chars().nth(1).is_some_and(char::is_lowercase) {
        true => own[..1].to_lowercase() + &own[1..],
        false => own.to_owned(),
    }
}

/// The metric within a sentence: `CPU time per byte`, `CPU time per request of the server`.
pub fn metric(metric: Metric, unit: Unit) -> String {
    let noun = unit.in_words(&noun(metric.measure));
    let of = match metric.side {
        Side::Both => "",
        Side::Sender => " of the sender",
        Side::Receiver => " of the receiver",
        Side::Server => " of the server",
        Side::Client => " of the clients",
    };
    format!("{noun}{of}")
}

/// A ratio with its interval, as finely as that bears: `0.42× (0.40 to 0.44)`.
pub fn ratio(value: f64, low: f64, high: f64) -> String {
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
    let is_near_1 = low < 1.15 && high > 0.85 && high < 5.0;
    by_width.max(if is_near_1 { 2 } else { 0 })
}

fn written(factor: f64, decimals: usize) -> String {
    if factor >= 1000.0 {
        units::number(factor)
    } else {
        format!("{factor:.decimals$}")
    }
}

/// A ratio as a change: `41 %` where it is less, `1.46×` where it is more.
pub fn change(ratio: f64) -> String {
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
pub fn between(low: f64, high: f64) -> String {
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

/// Several circumstances: `at 64 KiB, over unix, with 2 threads`; empty for none. What a cell's
/// name tells only where it matters is told only there.
pub fn circumstances(values: &[(Axis, Value)]) -> String {
    let told = values.iter().filter(|(axis, value)| axis.tells(value));
    told.map(|(axis, value)| axis.circumstance(value))
        .join(", ")
}

/// The same after a comma, or nothing.
pub(crate) fn joined_circumstances(values: &[(Axis, Value)]) -> String {
    match circumstances(values) {
        none if none.is_empty() => none,
        some => format!(", {some}"),
    }
}

/// A text with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// A text that ends as a sentence does.
pub fn sentence(text: &str) -> String {
    let text = text.trim();
    match text.ends_with(['.', '!', '?']) {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

/// `ratios differ from run to run by ±8 %`, by their standard deviation on a log scale.
pub fn from_run_to_run(deviation: f64) -> String {
    let apart = exp(NORMAL_REACH * deviation) - 1.0;
    format!("ratios differ from run to run by ±{}", percent(apart))
}

/// How much a ratio differs from run to run, where that alone leaves it undecided.
pub fn by_rounds(finding: &Finding) -> Option<String> {
    let words = || from_run_to_run(finding.between_deviation);
    finding.rounds_prevent.then(words)
}

/// Something of which a message has `to` instead of `from`: `8 system calls a message instead of 1`.
pub fn cause(of: CauseOf, [from, to]: [f64; 2], whose: &str) -> String {
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
pub fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    match items.split_last() {
        None => String::new(),
        Some((one, [])) => one.to_string(),
        Some((last, most)) => format!("{} and {last}", most.iter().format(", ")),
    }
}

/// The least and the most in words, or one where they read alike.
pub fn from_to([least, most]: [String; 2]) -> String {
    match least == most {
        true => least,
        false => format!("{least} to {most}"),
    }
}

/// From the least to the most of some numbers: `97 % to 100 %`, or one where they read alike.
pub fn span(values: &[f64], write: impl Fn(f64) -> String) -> String {
    let ends = values.iter().copied().minmax().into_option();
    let (least, most) = ends.unwrap_or_default();
    from_to([least, most].map(write))
}

/// Where runs are kept unless a command line says something else.
const RUNS_DIR: &str = "bytecost-runs";

/// The option of a command line that leads to its runs: `--runs-dir 'my runs'`; nothing where they
/// are in the usual place.
pub fn runs_dir_option(command: &[String]) -> Option<[String; 2]> {
    let mut words = command.iter();
    let dir = words.find_map(|word| match word.strip_prefix("--runs-dir") {
        Some("") => Some(None),
        Some(rest) => rest.strip_prefix('=').map(Some),
        None => None,
    })?;
    let dir = dir.or_else(|| words.next().map(String::as_str))?;
    (dir != RUNS_DIR).then(|| ["--runs-dir".to_owned(), dir.to_owned()])
}

/// The option by which the command that resumes a run is given its peer again, whose words no record has;
/// empty for a run on one host.
pub fn peer_again(has_peer: bool) -> &'static str {
    if has_peer { " --peer COMMAND" } else { "" }
}

/// The words of a command about a run, with the option that leads to it.
pub fn command_of_run(words: &[&str], command: &[String]) -> String {
    let words = words.iter().map(|word| (*word).to_owned());
    let option = runs_dir_option(command).into_iter().flatten();
    command_line(&words.chain(option).collect_vec())
}

/// A command as a shell reads it.
pub fn command_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["--size", "4KiB,1MiB", "my study.toml", "it's", "$(reboot)"];
        let text = "--size 4KiB,1MiB 'my study.toml' 'it'\\''s' '$(reboot)'";
        assert_eq!(command_line(&words.map(str::to_owned)), text);
    }
}

//! Results of benches: estimates compared with targets, and the table of them.

use std::fmt::Write as _;

use anyhow::Result;
use bytecost_spec::units;
use bytecost_stats::{Interval, Location, blocks_needed, share_interval};

use crate::bench::{Bench, BenchOutcome};

/// Confidence level of all intervals.
const LEVEL: f64 = 0.95;
/// Largest number of blocks that the table proposes.
const MAX_BLOCKS: usize = 2000;
/// Widths of the first two columns of the table, bench and comparison.
const COLUMNS: (usize, usize) = (9, 37);

/// The bound of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Met if the interval contains it.
    Is(f64),
    Between(f64, f64),
    /// No bound: the number is there to compare others with.
    Shown,
}

impl Target {
    fn logarithm(self) -> Target {
        match self {
            Target::AtLeast(t) => Target::AtLeast(t.ln()),
            Target::AtMost(t) => Target::AtMost(t.ln()),
            Target::Is(t) => Target::Is(t.ln()),
            Target::Between(low, high) => Target::Between(low.ln(), high.ln()),
            Target::Shown => Target::Shown,
        }
    }
}

/// The position of an interval relative to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is within the target.
    Met,
    /// The whole interval is outside of the target.
    NotMet,
    /// The target is within the interval. The number of blocks is the one that would decide it if the
    /// estimate is right; none if there is no such number up to [`MAX_BLOCKS`].
    NotDecided(Option<usize>),
    /// There is no target.
    Shown,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The quantity and its unit, in a few words.
    label: String,
    value: f64,
    interval: Option<Interval>,
    target: Target,
    verdict: Verdict,
}

impl Row {
    /// A ratio or another positive value in the unit of its target, from its logarithm.
    pub fn new(label: impl Into<String>, log: Option<Location>, target: Target) -> Row {
        let interval = log.and_then(|l| l.interval(LEVEL));
        Row {
            label: label.into(),
            value: log.map_or(f64::NAN, |l| l.value.exp()),
            interval: interval.map(|i| Interval {
                low: i.low.exp(),
                high: i.high.exp(),
            }),
            target,
            verdict: match (log, interval) {
                (Some(log), Some(interval)) => verdict(&log, interval, target.logarithm()),
                _ => Verdict::NotDecided(None),
            },
        }
    }

    /// A difference in the unit of its target.
    pub fn difference(label: impl Into<String>, found: Option<Location>, target: Target) -> Row {
        let interval = found.and_then(|l| l.interval(LEVEL));
        Row {
            label: label.into(),
            value: found.map_or(f64::NAN, |l| l.value),
            interval,
            target,
            verdict: match (found, interval) {
                (Some(found), Some(interval)) => verdict(&found, interval, target),
                _ => Verdict::NotDecided(None),
            },
        }
    }

    /// A single reading, which has no interval.
    pub fn once(label: impl Into<String>, value: f64, target: Target) -> Row {
        let point = Interval {
            low: value,
            high: value,
        };
        Row {
            label: label.into(),
            value,
            interval: None,
            target,
            verdict: side(point, target),
        }
    }

    /// A share of `total` that was counted, with its exact interval (Clopper and Pearson).
    pub fn share(label: impl Into<String>, (count, total): (u64, u64), target: Target) -> Row {
        let (low, high) = share_interval(count, total, LEVEL);
        let interval = Interval { low, high };
        Row {
            label: label.into(),
            value: count as f64 / total as f64,
            interval: Some(interval),
            target,
            verdict: side(interval, target),
        }
    }

    #[cfg(test)]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    #[cfg(test)]
    pub fn label(&self) -> &str {
        &self.label
    }

    #[cfg(test)]
    pub fn value(&self) -> f64 {
        self.value
    }
}

fn verdict(location: &Location, interval: Interval, target: Target) -> Verdict {
    match (side(interval, target), target) {
        (Verdict::NotDecided(_), Target::AtLeast(t) | Target::AtMost(t)) => {
            let distance = (location.value - t).abs();
            Verdict::NotDecided(blocks_needed(
                location.deviation(),
                location.count,
                distance,
                1.0 - LEVEL,
                MAX_BLOCKS,
            ))
        }
        (side, _) => side,
    }
}

fn side(interval: Interval, target: Target) -> Verdict {
    let (is_met, is_missed) = match target {
        Target::Shown => return Verdict::Shown,
        Target::AtLeast(t) => (interval.low >= t, interval.high < t),
        Target::AtMost(t) => (interval.high <= t, interval.low > t),
        Target::Is(t) => (interval.holds(t), !interval.holds(t)),
        Target::Between(low, high) => (
            interval.low >= low && interval.high <= high,
            interval.high < low || interval.low > high,
        ),
    };
    if is_met {
        Verdict::Met
    } else if is_missed {
        Verdict::NotMet
    } else {
        Verdict::NotDecided(None)
    }
}

fn in_words(verdict: Verdict) -> String {
    match verdict {
        Verdict::Met => "met".to_owned(),
        Verdict::NotMet => "NOT MET".to_owned(),
        Verdict::NotDecided(Some(n)) => format!("not decided (~{n})"),
        Verdict::NotDecided(None) => "not decided".to_owned(),
        Verdict::Shown => String::new(),
    }
}

fn line(name: &str, row: &Row) -> String {
    let target = match row.target {
        Target::AtLeast(t) => format!("≥ {}", bound(t)),
        Target::AtMost(t) => format!("≤ {}", bound(t)),
        Target::Is(t) => format!("= {}", units::number(t)),
        Target::Between(low, high) => format!("{}–{}", bound(low), bound(high)),
        Target::Shown => String::new(),
    };
    let interval = row.interval.map_or_else(
        || "once".to_owned(),
        |i| format!("{} – {}", units::number(i.low), units::number(i.high)),
    );
    let (a, b) = COLUMNS;
    let line = format!(
        "{name:<a$} {:<b$} {:>6} {:>15}  {:<6}  {}",
        row.label,
        units::number(row.value),
        interval,
        target,
        in_words(row.verdict)
    );
    line.trim_end().to_owned()
}

/// A bound with the digits of the source, not those of a rounded number.
fn bound(t: f64) -> String {
    t.to_string()
}

/// The table of all rows, at most 100 columns wide.
pub fn table(outcomes: &[(&Bench, Result<BenchOutcome>)]) -> String {
    let (a, b) = COLUMNS;
    let mut out = format!(
        "{:<a$} {:<b$} {:>6} {:>15}  {:<6}  {}\n",
        "bench", "what", "is", "95 % interval", "target", "verdict (blocks it would take)"
    );
    for (bench, outcome) in outcomes {
        match outcome {
            Ok(BenchOutcome::Ran(results)) => {
                for row in &results.rows {
                    let _ = writeln!(out, "{}", line(bench.name, row));
                }
                if let Some(share) = results.disturbed() {
                    let _ = writeln!(
                        out,
                        "{:<a$} ^ not to be relied on: others used {:.0} % of the machine",
                        "",
                        share * 100.0
                    );
                }
                if !results.failures.is_empty() {
                    let n = results.failures.len();
                    let _ = writeln!(out, "{:<a$} {n} measurements failed, see above", bench.name);
                }
            }
            Ok(BenchOutcome::NotRun(_)) => {
                let _ = writeln!(out, "{:<a$} not run, see above", bench.name);
            }
            Err(_) => {
                let _ = writeln!(out, "{:<a$} FAILED, see above", bench.name);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_stats::trimmed_mean;

    /// The row of these measurements.
    fn row(values: &[f64], target: Target) -> Row {
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        Row::new("x", trimmed_mean(&logs), target)
    }

    fn check(values: &[f64], target: Target, expected: Verdict) {
        assert_eq!(
            row(values, target).verdict(),
            expected,
            "{values:?} {target:?}"
        );
    }

    #[test]
    fn a_target_is_met_when_the_whole_interval_is_on_its_side() {
        use Target::{AtLeast, AtMost, Between, Shown};
        let near_two = [1.9, 2.0, 2.1, 2.0, 1.95, 2.05];
        check(&near_two, AtMost(3.0), Verdict::Met);
        check(&near_two, AtMost(1.0), Verdict::NotMet);
        check(&near_two, AtLeast(1.0), Verdict::Met);
        check(&near_two, AtLeast(3.0), Verdict::NotMet);
        check(&near_two, Between(1.0, 3.0), Verdict::Met);
        check(&near_two, Between(3.0, 4.0), Verdict::NotMet);
        check(&near_two, Between(2.0, 4.0), Verdict::NotDecided(None));
        check(&near_two, Shown, Verdict::Shown);
        check(&[2.0, 2.0, 2.0], AtLeast(2.0), Verdict::Met);
        check(&[], AtMost(1.0), Verdict::NotDecided(None));
        check(&[0.0, 1.0], AtMost(1.0), Verdict::NotDecided(None));
    }

    #[test]
    fn a_row_that_is_not_decided_has_the_number_of_blocks_that_would_decide_it() {
        let row = row(&[0.9, 1.2, 1.3, 1.0, 0.8, 1.4], Target::AtLeast(1.0));
        let Verdict::NotDecided(Some(n)) = row.verdict() else {
            panic!("{row:?}");
        };
        assert!((7..200).contains(&n), "{n}");
    }

    #[test]
    fn a_row_has_values_and_not_their_logarithms() {
        let row = row(&[1.9, 2.0, 2.1, 2.0], Target::AtLeast(1.5));
        assert!((row.value - 2.0).abs() < 0.01);
        let interval = row.interval.unwrap();
        assert!(interval.low > 1.8 && interval.high < 2.2, "{interval:?}");
    }

    #[test]
    fn lines_fit_a_hundred_columns() {
        let mut row = row(
            &[0.91234, 0.9876, 1.02, 0.95123, 1.09],
            Target::AtLeast(1.02),
        );
        row.label = "256 KiB, default ring: CPU per byte x".to_owned();
        row.verdict = Verdict::NotDecided(Some(1999));
        let line = line("sockperf", &row);
        assert!(line.chars().count() <= 100, "{line}");
        assert!(line.contains("not decided (~1999)"), "{line}");
    }
}

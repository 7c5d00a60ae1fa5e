//! The phrase book of claims: tests, places, numbers and reasons in words.

use std::fmt::Display;

use bytecost_analysis::{
    AbsentReason, AuditedTest, AxisStep, Case, CasePlace, Gap, MeasuredNumber, NotTested,
    OpenReason, PublishedNumber, TableGap, is_bounded_share,
};
use bytecost_spec::claim::{Arithmetic, Between, Contrast, Expected, Term, TestKind};
use bytecost_spec::{Axis, Metric, Unit, Value, units};
use itertools::Itertools as _;

use crate::caveats::withholding_reason;
use crate::missing_points::gap_in_words;
use crate::text::joined;
use crate::{no_value, phrases};

pub(super) const HOLDS_BY_STALL: &str = "One side waits for a delayed acknowledgement on each message (Nagle's algorithm), which is no cost of copying; the same cells with TCP_NODELAY would tell the two apart.";
pub(super) const HIDDEN_BY_STALL: &str =
    "One side waits for a delayed acknowledgement on each message, which hides everything else.";
pub(super) const STALLS: &str = ", one side waits for the timer of delayed acknowledgements";
pub(super) const BY_TIMING: &str = "No counter shows this: what is displaced from the caches of the sending CPU was found by timing (prime and probe) instead, and each interval stands by itself.";

/// A test in words, for a run with messages of a unit.
pub(super) struct TestBook<'t> {
    pub(super) test: &'t AuditedTest,
    pub(super) unit: Unit,
}

impl TestBook<'_> {
    fn kind(&self) -> &TestKind {
        &self.test.test.kind
    }

    fn metric(&self, metric: Metric) -> String {
        phrases::metric(metric, self.unit)
    }

    /// Noun for the cases that a test counts: place, row or cell.
    pub(super) fn noun(&self) -> &'static str {
        match self.kind() {
            TestKind::Scaling { .. } | TestKind::Crossover(_) => "place",
            TestKind::Arithmetic(_) => "row",
            _ => "cell",
        }
    }

    /// ``throughput of `a` over that of `b` ``.
    pub(super) fn subject(&self) -> String {
        match self.kind() {
            TestKind::Ratio {
                contrast, metric, ..
            } => self.ratio(contrast, *metric),
            TestKind::Counter { contrast, metrics } => metrics
                .first()
                .map_or_else(String::new, |metric| self.ratio(contrast, *metric)),
            TestKind::Crossover(claimed) => {
                let [value, against] = both(&claimed.contrast);
                let (name, metric) = (claimed.along.name(), self.metric(claimed.metric));
                format!("the {name} from which {value} is better than {against} in {metric}")
            }
            TestKind::Level { metric, .. } => self.metric(*metric),
            TestKind::Stall { caveat, .. } => format!("`{caveat}`"),
            TestKind::Scaling {
                metric, between, ..
            } => {
                let (metric, which) = (self.metric(*metric), flows(*between));
                format!("the ratio of {metric} of all flows {which}")
            }
            TestKind::Arithmetic(sum) => of_tables(sum),
            TestKind::NotInThisRun { study, .. } => study.clone(),
        }
    }

    fn ratio(&self, contrast: &Contrast, metric: Metric) -> String {
        format!(
            "{} of {}",
            self.metric(metric),
            both(contrast).join(" over ")
        )
    }

    /// `above 1`.
    pub(super) fn expected(&self) -> String {
        match self.kind() {
            TestKind::Ratio { expect, .. } | TestKind::Scaling { expect, .. } => expect.to_string(),
            TestKind::Counter { metrics, .. } => {
                let others = metrics.iter().skip(1).map(|metric| self.metric(*metric));
                format!("below that of {}", phrases::list(others))
            }
            TestKind::Crossover(claimed) => {
                format!("about {}", claimed.along.subject(&claimed.from))
            }
            TestKind::Level { metric, expect } => level(*metric, *expect),
            TestKind::Stall { present: true, .. } => "found".to_owned(),
            TestKind::Stall { present: false, .. } => "absent".to_owned(),
            TestKind::Arithmetic(sum) => sum.expect.to_string(),
            TestKind::NotInThisRun { why, .. } => why.clone(),
        }
    }

    /// Note on a claim with a tighter bound than the smallest effect that matters: `within 5 %, not
    /// confirmed at 0.5 %`.
    pub(super) fn near(&self, smallest_effect: f64) -> Option<String> {
        let TestKind::Ratio {
            expect: Expected::Within(_, high),
            ..
        } = self.kind()
        else {
            return None;
        };
        let percent = (1e3 * (high - 1.0)).round() / 10.0;
        let within = phrases::percent(smallest_effect);
        Some(format!("within {within}, not confirmed at {percent} %"))
    }

    pub(super) fn published(&self, case: &Case) -> Option<String> {
        Some(match case.published.as_ref()? {
            PublishedNumber::Level(metric, number) => value(*metric, *number),
            PublishedNumber::Value(number) => units::number(*number),
            PublishedNumber::Ratio(both) if self.test.is_of_tables() => {
                with_ratio(*both, " / ", "")
            }
            PublishedNumber::Ratio(both) => with_ratio(*both, " against ", "×"),
            PublishedNumber::Among(mean, ends) => {
                let [least, most] = ends.map(units::number);
                format!("{}; its own data {least} to {most}", units::number(*mean))
            }
            PublishedNumber::Mean(mean, ends) => {
                let [least, most] = ends.map(units::number);
                format!("{} ({least} to {most})", units::number(*mean))
            }
            PublishedNumber::From(axis, value) => format!("from {}", axis.subject(value)),
        })
    }

    pub(super) fn measured(&self, case: &Case) -> Option<String> {
        Some(match case.measured.as_ref()? {
            MeasuredNumber::Ratio(ratio, interval) => {
                with_interval(times(*ratio), interval.map(times))
            }
            MeasuredNumber::Level(metric, number, interval) => {
                let ends = interval.unwrap_or([*number; 2]);
                with_interval(value(*metric, *number), ends.map(|n| value(*metric, n)))
            }
            MeasuredNumber::Zero { trials, most } => {
                let zero = format!("0 in {}", phrases::count(*trials, "trial"));
                let most =
                    most.map(|(metric, most)| format!("at most {} (95 %)", value(metric, most)));
                joined([zero, most.unwrap_or_default()], ", ")
            }
            MeasuredNumber::Copies(copies, means) => {
                let by = means.map_or_else(String::new, |m| format!(", counted by {}", m.title()));
                format!("{copies:.2}{by}")
            }
            MeasuredNumber::Counted(ratios) => ratios
                .iter()
                .map(|(metric, ratio)| format!("{} {}", self.metric(*metric), times(*ratio)))
                .join(", "),
            MeasuredNumber::Timed(levels) => {
                let level =
                    |(level, ratio): &(u32, f64)| format!("from L{level} {}", times(*ratio));
                format!(
                    "by timing: displaced {}",
                    levels.each_ref().map(level).join(", ")
                )
            }
            MeasuredNumber::Found(true) => "found".to_owned(),
            MeasuredNumber::Found(false) => "not found".to_owned(),
            MeasuredNumber::Steps(axis, along) => steps(along, *axis),
        })
    }

    /// Reason of a case without a number.
    pub(super) fn absent(&self, reason: &AbsentReason) -> String {
        match reason {
            AbsentReason::NoCounterpart => "there is no number to compare it with".to_owned(),
            AbsentReason::RefusedMetric(metric, reason) => {
                format!(
                    "{} is not available on this machine: {}",
                    self.metric(*metric),
                    no_value::words(reason)
                )
            }
            AbsentReason::Gap {
                metric,
                gap,
                blocks,
            } => match gap {
                Gap::Absent(_) | Gap::TwoGroups(_) => {
                    let why = gap_in_words(gap, self.unit);
                    format!("{} is not available: {why}", self.metric(*metric))
                }
                Gap::Failed(why) => format!("trials failed: {why}"),
                _ => format!(
                    "too few blocks have {}: an interval takes {blocks}",
                    self.metric(*metric)
                ),
            },
        }
    }

    pub(super) fn not_tested(&self, reason: &NotTested) -> String {
        match reason {
            NotTested::OtherStudy { study, why, is_known: true } => {
                format!("it needs a run of the study `{study}` (`bytecost run {study}`): {why}")
            }
            NotTested::OtherStudy { study, why, .. } => {
                format!("it needs a study of {study}, which this version does not have: {why}")
            }
            NotTested::Refused(why) => {
                format!("the cells are not available on this machine: {why}")
            }
            NotTested::NotMeasured { study, is_left_out } => {
                let budget = if *is_left_out {
                    " with a larger --budget"
                } else {
                    ""
                };
                let remedy = study.as_ref().map_or_else(String::new, |study| {
                    format!("; `bytecost run {study}`{budget} measures them")
                });
                format!("no cells with {} were measured{remedy}", self.cells())
            }
            NotTested::OneNumberOfFlows(why) => {
                format!("{} over several numbers of threads", self.not_tested(why))
            }
            NotTested::FlowsForCpus(between, cpus) => no_flows(*between, *cpus),
            NotTested::OneValue(axis) => {
                let name = axis.name();
                format!("the run compares them at one {name} only, or not at all")
            }
            NotTested::CopiesNotCounted => "bytes copied for each byte of payload were not counted: `--evidence copies` counts them, as root".to_owned(),
            NotTested::UnknownCaveat => {
                format!("this version does not look for {}", self.subject())
            }
            NotTested::NoMetric => "no metric is named".to_owned(),
            NotTested::Table(gap) => table_gap(gap),
        }
    }

    /// The cells that a test is about: `pattern streaming, size 4KiB or 8KiB and mover a and b`.
    fn cells(&self) -> String {
        let place = |(axis, values): &(Axis, Vec<Value>)| {
            format!("{} {}", axis.name(), values.iter().join(" or "))
        };
        let both = self
            .kind()
            .contrast()
            .map(|c| format!("{} {} and {}", c.axis.name(), c.value, c.against));
        phrases::list(self.test.test.place.iter().map(place).chain(both))
    }
}

/// Reason of an undecided case.
pub(super) fn open(reason: OpenReason) -> String {
    match reason {
        OpenReason::Blocks(Some(blocks)) => format!("about {blocks} blocks would decide it"),
        OpenReason::Blocks(None) => "more blocks would tell (--blocks, --budget)".to_owned(),
        OpenReason::Withheld(kind) => {
            format!("there is no verdict: {}", withholding_reason(kind))
        }
        OpenReason::LessThanMatters => "the difference is smaller than what matters".to_owned(),
        OpenReason::TimingOverlaps => "their intervals, found by timing, overlap".to_owned(),
        OpenReason::NothingAlong => "nothing was measured along the axis".to_owned(),
        OpenReason::NothingAbove => {
            "nothing was measured above the value that is claimed".to_owned()
        }
        OpenReason::UndecidedAbove => {
            "no comparison above the value that is claimed is decided".to_owned()
        }
        OpenReason::UndecidedBelow => "the comparisons below it are not decided".to_owned(),
        OpenReason::NothingNear => "nothing was measured near the value that is claimed".to_owned(),
        OpenReason::TooCoarse => {
            "the value is not known finely enough: measure more values between".to_owned()
        }
    }
}

/// Place of a case: `at 4 KiB, with 1 thread`; empty where there is only one.
pub(super) fn place(place: &CasePlace) -> String {
    match place {
        CasePlace::Cells {
            values,
            fields,
            flows,
        } => {
            let circumstances = values.iter().map(|(axis, value)| {
                let words = axis.circumstance(value);
                match fields {
                    // Some publications count the fields of a message.
                    Some([fields, bytes]) if *axis == Axis::Size => {
                        format!("{words} ({fields} × {})", units::bytes_in_words(*bytes))
                    }
                    _ => words,
                }
            });
            let compared = flows.map(|[more, fewer]| {
                let more = phrases::count(more as usize, "flow");
                format!("with {more} against {fewer}")
            });
            circumstances.chain(compared).join(", ")
        }
        CasePlace::Rows(columns) => columns_in_words(columns),
        CasePlace::MeanOfRows(rows) => format!("in the mean of {rows} rows"),
    }
}

/// `impl OneCopy, size 4096`.
fn columns_in_words(columns: &[(String, String)]) -> String {
    let word = |(column, value): &(String, String)| format!("{column} {value}");
    columns.iter().map(word).join(", ")
}

fn both(contrast: &Contrast) -> [String; 2] {
    [&contrast.value, &contrast.against].map(|value| contrast.axis.subject(value))
}

fn flows(between: Between) -> String {
    match between {
        Between::Numbers(low, high) => {
            format!("from {low} to {}", phrases::count(high as usize, "flow"))
        }
        Between::WithinCpus => "while every thread has a CPU".to_owned(),
        Between::BeyondCpus => "once there are more threads than CPUs".to_owned(),
    }
}

fn no_flows(between: Between, cpus: usize) -> String {
    let cpus = phrases::count(cpus, "CPU");
    match between {
        Between::Numbers(low, high) => {
            format!("the run has no cells with {low} and with {high} flows")
        }
        Between::WithinCpus => format!(
            "with {cpus} no two numbers of flows leave every thread a CPU, and a flow has two threads: what flows do to caches cannot be distinguished from waiting for a CPU; a machine with more CPUs would tell"
        ),
        Between::BeyondCpus => format!(
            "with {cpus} the run has no two numbers of flows of which only the greater has more threads than there are CPUs"
        ),
    }
}

/// `published throughput_gbps (pa02-b: impl OneCopy) over published throughput_gbps (pa02-b: impl TwoCopy)`.
fn of_tables(sum: &Arithmetic) -> String {
    let term = |term: &Term| {
        let rows = match term.rows.as_slice() {
            [] => String::new(),
            rows => format!(": {}", columns_in_words(rows)),
        };
        format!("published {} ({}{rows})", term.column, term.table)
    };
    match &sum.against {
        Some(other) if sum.expect != Expected::Among => {
            format!("{} over {}", term(&sum.term), term(other))
        }
        _ => term(&sum.term),
    }
}

fn table_gap(gap: &TableGap) -> String {
    match gap {
        TableGap::NoTable(name) => {
            format!("the table `{name}` is not there: put {name}.csv next to the claims file")
        }
        TableGap::NoColumn {
            table,
            column,
            known,
        } => {
            let columns = known.join(", ");
            format!("there is no column `{column}` in {table}.csv: its columns are {columns}")
        }
        TableGap::NoRow(table) => format!("the table {table} has no such row"),
        TableGap::NotANumber { table, line, why } => format!("in {table}.csv, line {line}: {why}"),
    }
}

fn level(metric: Metric, expect: Expected) -> String {
    let of = |number: f64| value(metric, number);
    match expect {
        Expected::Above(bound) if is_bounded_share(metric) => format!("above {}", of(bound)),
        Expected::Below(bound) if is_bounded_share(metric) => format!("below {}", of(bound)),
        Expected::Within(low, high) if is_bounded_share(metric) => {
            format!("from {} to {}", of(low), of(high))
        }
        other => with_unit(&other, metric),
    }
}

/// A number of a metric with its unit.
fn value(metric: Metric, number: f64) -> String {
    if is_bounded_share(metric) {
        phrases::percent(number)
    } else {
        with_unit(&units::number(number), metric)
    }
}

fn with_unit(number: &impl Display, metric: Metric) -> String {
    let text = format!("{number} {}", metric.measure.row().unit);
    text.trim_end().to_owned()
}

fn times(ratio: f64) -> String {
    format!("{}×", units::number(ratio))
}

/// A number with its interval, which is left out where it reads alike.
fn with_interval(number: String, [low, high]: [String; 2]) -> String {
    if number == low && number == high {
        return number;
    }
    format!("{number} ({low} to {high})")
}

/// The ratio of two numbers, followed by the numbers; the numbers alone where the ratio is not
/// finite.
fn with_ratio([above, below]: [f64; 2], between: &str, sign: &str) -> String {
    let ratio = above / below;
    let both = [above, below].map(units::number).join(between);
    if ratio.is_finite() {
        format!("{}{sign} ({both})", units::number(ratio))
    } else {
        both
    }
}

/// `not better at 2 KiB; better from 8 KiB to 128 KiB`.
fn steps(steps: &[AxisStep], along: Axis) -> String {
    let number = |number: f64| match along {
        Axis::Threads | Axis::Fields | Axis::Depth => units::number(number),
        _ => units::bytes_in_words(number.round().max(0.0) as u64),
    };
    let words = |run: &[AxisStep]| {
        let word = match run[0].is_better {
            Some(true) => "better",
            Some(false) => "not better",
            None => "undecided",
        };
        match run {
            [one] => format!("{word} at {}", number(one.at)),
            [first, .., last] => format!("{word} from {} to {}", number(first.at), number(last.at)),
            [] => String::new(),
        }
    };
    let mut runs = steps.chunk_by(|a, b| a.is_better == b.is_better).map(words);
    runs.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_along_an_axis_are_written_from_the_least_value_to_the_greatest() {
        let step = |at, is_better| AxisStep {
            at,
            is_better,
            p: None,
        };
        let along = [
            step(2048.0, Some(false)),
            step(8192.0, None),
            step(32_768.0, Some(true)),
            step(131_072.0, Some(true)),
        ];
        assert_eq!(
            steps(&along, Axis::Size),
            "not better at 2 KiB; undecided at 8 KiB; better from 32 KiB to 128 KiB"
        );
    }
}

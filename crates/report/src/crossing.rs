//! Crossovers in words: from which size on one way is better than another, and how sure that is.

use bytecost_analysis::{Analysis, Crossing, CrossingPoint, Crossover, Verdict};
use bytecost_spec::{Axis, units};

use crate::descriptions;
use crate::document::{DocColumn, DocEntry, DocMark, DocTable};
use crate::question::value_in_words;
use crate::scale::tick;
use crate::text::clean;

/// A crossover, ready for a row of a table.
#[derive(Clone, Debug)]
pub(crate) struct CrossingText {
    /// The way that is asked about.
    pub value: String,
    /// What it is held against.
    pub baseline: String,
    /// The metric's title.
    pub metric: String,
    /// What both hold constant.
    pub place: String,
    /// From where on it is better: `from 4.2 KiB`, `never within 256 B to 1 MiB`.
    pub from: String,
    /// The intervals of the places, in the same order; empty where there is none.
    pub interval: String,
    /// Better, worse, or not decided.
    pub mark: DocMark,
    /// It in one sentence.
    pub sentence: String,
}

/// The crossovers of a result, as readers want them.
pub(crate) struct Crossings {
    /// Those that say something: what says most first, else in their order.
    pub decided: Vec<CrossingText>,
    /// Those that the intervals leave open, in their order.
    pub open: Vec<CrossingText>,
}

impl Crossings {
    pub fn of(a: &Analysis) -> Crossings {
        Crossings::of_all(&a.crossovers)
    }

    fn of_all(all: &[Crossover]) -> Crossings {
        let (open, mut decided): (Vec<&Crossover>, Vec<&Crossover>) =
            all.iter().partition(|c| c.outcome == Crossing::Undecided);
        decided.sort_by_key(|c| rank(&c.outcome));
        let texts = |list: Vec<&Crossover>| list.into_iter().map(crossing).collect();
        Crossings {
            decided: texts(decided),
            open: texts(open),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.decided.is_empty() && self.open.is_empty()
    }

    /// Some of them as a table.
    pub fn table(of: &[CrossingText]) -> DocTable {
        let columns = ["What", "Metric", "Where", "Better", "95 % interval"].map(DocColumn::left);
        let rows = of.iter().map(|c| {
            let from = DocEntry {
                mark: Some(c.mark),
                ..DocEntry::from(c.from.as_str())
            };
            vec![
                format!("{} against {}", c.value, c.baseline).into(),
                c.metric.as_str().into(),
                c.place.as_str().into(),
                from,
                if c.interval.is_empty() {
                    "–"
                } else {
                    &c.interval
                }
                .into(),
            ]
        });
        DocTable::of::<DocEntry>(columns.to_vec(), rows).without_empty_columns()
    }

    /// What is to be said of those that are left open, if there are any.
    pub fn open_in_words(&self) -> Option<String> {
        let open = self.open.len();
        match (open, self.decided.is_empty()) {
            (0, _) => None,
            (1, true) => Some("The one pair that was looked at is not decided.".to_owned()),
            (_, true) => Some(format!("None of {open} pairs is decided.")),
            (1, false) => Some("1 more pair is not decided.".to_owned()),
            (_, false) => Some(format!("{open} more pairs are not decided.")),
        }
    }
}

/// Places come first whose intervals end within the range, then ways that are better all over it.
fn rank(outcome: &Crossing) -> u8 {
    match outcome {
        Crossing::At(points) if points.iter().all(|p| p.low.is_some() && p.high.is_some()) => 0,
        Crossing::AlwaysBetter => 1,
        Crossing::At(_) => 2,
        Crossing::NeverBetter => 3,
        Crossing::Undecided => 4,
    }
}

fn crossing(c: &Crossover) -> CrossingText {
    let (least, most) = (
        value_in_words(c.along, &c.range.0),
        value_in_words(c.along, &c.range.1),
    );
    let range = clean(&format!("{least} to {most}"));
    let (from, interval) = match &c.outcome {
        Crossing::AlwaysBetter => (format!("throughout {range}"), String::new()),
        Crossing::NeverBetter => (format!("never within {range}"), String::new()),
        Crossing::Undecided => (format!("not decided within {range}"), String::new()),
        Crossing::At(points) => {
            let places: Vec<String> = points.iter().map(|p| place(c.along, p)).collect();
            let bounds: Vec<String> = points
                .iter()
                .map(|p| bounds(c.along, p, &least, &most))
                .collect();
            (places.join(", "), clean(&bounds.join("; ")))
        }
    };
    let verdict = match c.outcome {
        Crossing::AlwaysBetter | Crossing::At(_) => Verdict::Better,
        Crossing::NeverBetter => Verdict::Worse,
        Crossing::Undecided => Verdict::NotDecided,
    };
    CrossingText {
        value: clean(&c.value),
        baseline: clean(&c.baseline),
        metric: c.metric.title(),
        place: clean(&descriptions::panel(&c.place)),
        from,
        interval,
        mark: DocMark::of(verdict),
        sentence: c.sentence.clone(),
    }
}

fn place(along: Axis, p: &CrossingPoint) -> String {
    let at = amount(along, p.value);
    match (p.fades, p.better_above) {
        (false, true) => format!("from {at}"),
        (false, false) => format!("up to {at}"),
        (true, true) => format!("by more than matters from {at}"),
        (true, false) => format!("by more than matters up to {at}"),
    }
}

/// `3.1 KiB to 5.6 KiB`; an open end lies beyond the range.
fn bounds(along: Axis, p: &CrossingPoint, least: &str, most: &str) -> String {
    let low = p.low.map(|v| amount(along, v));
    let high = p.high.map(|v| amount(along, v));
    match (low, high) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (None, Some(high)) => format!("below {least} to {high}"),
        (Some(low), None) => format!("{low} to above {most}"),
        (None, None) => format!("below {least} to above {most}"),
    }
}

/// An interpolated value of an axis for readers: `4.2 KiB`, `2.6`.
fn amount(along: Axis, value: f64) -> String {
    const STEPS: [(f64, &str); 3] = [
        (1_073_741_824.0, "GiB"),
        (1_048_576.0, "MiB"),
        (1024.0, "KiB"),
    ];
    if !along.is_bytes() {
        return units::number(value);
    }
    // 1023.6 B would be written as 1024 B.
    match STEPS.iter().find(|(step, _)| value >= step * 0.9995) {
        Some((step, unit)) => format!("{} {unit}", tick(value / step)),
        None => format!("{value:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::{Measure, Metric};

    fn crossover(value: &str, outcome: Crossing) -> Crossover {
        Crossover {
            metric: Metric::both(Measure::ThroughputGbitPerS),
            axis: Axis::Mover,
            baseline: "send".to_owned(),
            value: value.to_owned(),
            along: Axis::Size,
            range: ("256".to_owned(), "1MiB".to_owned()),
            place: Vec::new(),
            outcome,
            findings: Vec::new(),
            sentence: String::new(),
        }
    }

    #[test]
    fn what_is_decided_and_bounded_comes_first() {
        let at = |low, high| {
            Crossing::At(vec![CrossingPoint {
                better_above: true,
                fades: false,
                value: 4096.0,
                low,
                high,
            }])
        };
        let check = |outcomes: Vec<(&str, Crossing)>, expected: &[&str], words: Option<&str>| {
            let crossovers = outcomes.into_iter().map(|(v, o)| crossover(v, o));
            let all = Crossings::of_all(&crossovers.collect::<Vec<_>>());
            let values = all
                .decided
                .iter()
                .chain(&all.open)
                .map(|c| c.value.as_str());
            assert_eq!(values.collect::<Vec<_>>(), expected);
            assert_eq!(all.open_in_words().as_deref(), words);
        };
        check(
            vec![
                ("a", Crossing::Undecided),
                ("b", at(None, Some(8192.0))),
                ("c", Crossing::NeverBetter),
                ("d", at(Some(2048.0), Some(8192.0))),
                ("e", Crossing::Undecided),
            ],
            &["d", "b", "c", "a", "e"],
            Some("2 more pairs are not decided."),
        );
        check(
            vec![("a", Crossing::Undecided)],
            &["a"],
            Some("The one pair that was looked at is not decided."),
        );
        check(vec![("a", Crossing::AlwaysBetter)], &["a"], None);
    }

    #[test]
    fn a_crossover_says_from_where_and_how_sure() {
        let at = |value: f64, better_above, low, high| CrossingPoint {
            better_above,
            fades: false,
            value,
            low,
            high,
        };
        let check = |outcome: Crossing, from: &str, interval: &str| {
            let text = crossing(&crossover("sendfile", outcome));
            assert_eq!(
                (text.from.as_str(), text.interval.as_str()),
                (from, interval)
            );
        };
        check(Crossing::AlwaysBetter, "throughout 256 B to 1 MiB", "");
        check(Crossing::NeverBetter, "never within 256 B to 1 MiB", "");
        check(Crossing::Undecided, "not decided within 256 B to 1 MiB", "");
        check(
            Crossing::At(vec![at(4300.0, true, Some(3174.0), Some(5734.0))]),
            "from 4.2 KiB",
            "3.1 KiB to 5.6 KiB",
        );
        check(
            Crossing::At(vec![
                at(1024.0, true, None, Some(2048.0)),
                at(524_288.0, false, Some(400_000.0), None),
            ]),
            "from 1 KiB, up to 512 KiB",
            "below 256 B to 2 KiB; 391 KiB to above 1 MiB",
        );
    }
}

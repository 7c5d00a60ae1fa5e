//! Crossovers in words: from which size on one way is better than another, and how sure that is.

use bytecost_analysis::{Analysis, Crossing, CrossingPoint, Crossover, Verdict};
use bytecost_spec::{Axis, Unit};

use crate::descriptions;
use crate::document::{DocColumn, DocEntry, DocMark, DocTable};
use crate::question::value_in_words;
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
        Crossings::of_all(&a.crossovers, a.study.unit)
    }

    fn of_all(all: &[Crossover], unit: Unit) -> Crossings {
        let (open, mut decided): (Vec<&Crossover>, Vec<&Crossover>) =
            all.iter().partition(|c| c.outcome == Crossing::Undecided);
        decided.sort_by_key(|c| rank(&c.outcome));
        let texts = |list: Vec<&Crossover>| list.into_iter().map(|c| crossing(c, unit)).collect();
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

fn crossing(c: &Crossover, unit: Unit) -> CrossingText {
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
            let bounds: Vec<String> = points.iter().map(|p| bounds(c.along, p)).collect();
            (clean(&places.join(", ")), clean(&bounds.join("; ")))
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
        metric: c.metric.title(unit),
        place: clean(&descriptions::panel(&c.place)),
        from,
        interval,
        mark: DocMark::of(verdict),
        sentence: c.sentence.clone(),
    }
}

/// The nearest value at which it is decided to be better.
fn place(along: Axis, p: &CrossingPoint) -> String {
    let (word, end) = match p.better_above {
        true => ("from", &p.high),
        false => ("up to", &p.low),
    };
    let at = end
        .as_ref()
        .map_or_else(String::new, |v| value_in_words(along, v));
    match p.fades {
        false => format!("{word} {at}"),
        true => format!("by more than matters {word} {at}"),
    }
}

/// `4 KiB to 16 KiB`; beyond an end that is open nothing is decided.
fn bounds(along: Axis, p: &CrossingPoint) -> String {
    let ends = [&p.low, &p.high].map(|end| end.as_ref().map(|v| value_in_words(along, v)));
    match ends {
        [Some(low), Some(high)] => format!("{low} to {high}"),
        [None, Some(high)] => format!("not decided below {high}"),
        [Some(low), None] => format!("not decided above {low}"),
        [None, None] => String::new(),
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
            open: Vec::new(),
            sentence: String::new(),
        }
    }

    fn point(better_above: bool, low: Option<&str>, high: Option<&str>) -> CrossingPoint {
        let [low, high] = [low, high].map(|end| end.map(str::to_owned));
        CrossingPoint {
            better_above,
            fades: false,
            low,
            high,
        }
    }

    #[test]
    fn what_is_decided_and_bounded_comes_first() {
        let at = |low, high| Crossing::At(vec![point(true, low, high)]);
        let check = |outcomes: Vec<(&str, Crossing)>, expected: &[&str], words: Option<&str>| {
            let crossovers = outcomes.into_iter().map(|(v, o)| crossover(v, o));
            let all = Crossings::of_all(&crossovers.collect::<Vec<_>>(), Unit::Message);
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
                ("b", at(None, Some("8KiB"))),
                ("c", Crossing::NeverBetter),
                ("d", at(Some("2KiB"), Some("8KiB"))),
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
        let check = |outcome: Crossing, from: &str, interval: &str| {
            let text = crossing(&crossover("sendfile", outcome), Unit::Message);
            assert_eq!(
                (text.from.as_str(), text.interval.as_str()),
                (from, interval)
            );
        };
        check(Crossing::AlwaysBetter, "throughout 256 B to 1 MiB", "");
        check(Crossing::NeverBetter, "never within 256 B to 1 MiB", "");
        check(Crossing::Undecided, "not decided within 256 B to 1 MiB", "");
        check(
            Crossing::At(vec![point(true, Some("4KiB"), Some("16KiB"))]),
            "from 16 KiB",
            "4 KiB to 16 KiB",
        );
        check(
            Crossing::At(vec![
                point(true, None, Some("2KiB")),
                point(false, Some("64KiB"), None),
            ]),
            "from 2 KiB, up to 64 KiB",
            "not decided below 2 KiB; not decided above 64 KiB",
        );
    }
}

//! Crossovers: from which size on one way is better than another, and how sure that is.

use bytecost_analysis::{Analysis, Crossing, CrossingPoint, Crossover, Verdict};
use bytecost_spec::{Axis, Unit};
use itertools::Itertools as _;

use crate::descriptions;
use crate::document::{DocBlock, DocColumn, DocEntry, DocMark, DocTable, Document};

pub(crate) fn section(a: &Analysis, d: &mut Document) {
    if a.crossovers.is_empty() {
        return;
    }
    d.section("Crossover points", "crossovers", "Crossovers");
    let (decided, open) = ordered(&a.crossovers);
    if !decided.is_empty() {
        d.push(DocBlock::Table(table(&decided, a.study.unit)));
    }
    if !open.is_empty() {
        let title = open_in_words(open.len(), decided.is_empty());
        let table = DocBlock::Table(table(&open, a.study.unit));
        d.push(DocBlock::fold(title, vec![table]));
    }
}

/// Decided crossovers, those that change within the range first, and undecided ones.
fn ordered(all: &[Crossover]) -> (Vec<&Crossover>, Vec<&Crossover>) {
    let is_decided = |c: &&Crossover| c.outcome != Crossing::Undecided;
    let (mut decided, open): (Vec<_>, Vec<_>) = all.iter().partition(is_decided);
    decided.sort_by_key(|c| rank(&c.outcome));
    (decided, open)
}

fn table(crossovers: &[&Crossover], unit: Unit) -> DocTable {
    let columns = DocColumn::all("What | Metric | Where | Better | 95 % interval");
    let rows = crossovers.iter().map(|c| {
        let (from, interval) = outcome_in_words(c);
        let verdict = match c.outcome {
            Crossing::AlwaysBetter | Crossing::At(_) => Verdict::Better,
            Crossing::NeverBetter => Verdict::Worse,
            Crossing::Undecided => Verdict::NotDecided,
        };
        vec![
            format!("{} against {}", c.value, c.baseline).into(),
            c.metric.title(unit).into(),
            descriptions::panel(&c.place).into(),
            DocEntry::from(from).marked(DocMark::from(verdict)),
            DocEntry::or_gap(interval),
        ]
    });
    DocTable::of::<DocEntry>(columns, rows).without_empty_columns()
}

/// Sentence about the undecided pairs; `all` where no pair is decided.
fn open_in_words(open: usize, all: bool) -> String {
    match (open, all) {
        (1, true) => "The one pair that was looked at is not decided.".to_owned(),
        (_, true) => format!("None of {open} pairs is decided."),
        (1, false) => "1 more pair is not decided.".to_owned(),
        (_, false) => format!("{open} more pairs are not decided."),
    }
}

/// Order of outcomes in a table: places whose intervals end within the range, then ways that are
/// better all over it.
fn rank(outcome: &Crossing) -> u8 {
    match outcome {
        Crossing::At(points) if points.iter().all(|p| p.low.is_some() && p.high.is_some()) => 0,
        Crossing::AlwaysBetter => 1,
        Crossing::At(_) => 2,
        Crossing::NeverBetter => 3,
        Crossing::Undecided => 4,
    }
}

/// The outcome of a crossover, `from 4.2 KiB`, and the intervals of its places in the same order.
fn outcome_in_words(c: &Crossover) -> (String, Option<String>) {
    let [least, most] = [&c.range.0, &c.range.1].map(|end| c.along.in_words(end));
    let word = match &c.outcome {
        Crossing::AlwaysBetter => "throughout",
        Crossing::NeverBetter => "never within",
        Crossing::Undecided => "not decided within",
        Crossing::At(points) => {
            let places = points.iter().map(|p| place(c.along, p)).join(", ");
            let bounds = points.iter().map(|p| bounds(c.along, p)).join("; ");
            return (places, Some(bounds).filter(|b| !b.is_empty()));
        }
    };
    (format!("{word} {least} to {most}"), None)
}

/// The nearest value at which it is decided to be better.
fn place(along: Axis, p: &CrossingPoint) -> String {
    let how = if p.fades { "by more than matters " } else { "" };
    let (word, end) = if p.better_above {
        ("from", &p.high)
    } else {
        ("up to", &p.low)
    };
    let at = end.as_ref().map_or_else(String::new, |v| along.in_words(v));
    format!("{how}{word} {at}")
}

/// `4 KiB to 16 KiB`; beyond an end that is open nothing is decided.
fn bounds(along: Axis, p: &CrossingPoint) -> String {
    let ends = [&p.low, &p.high].map(|end| end.as_ref().map(|v| along.in_words(v)));
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
    use bytecost_spec::{Measure, Metric, Value};

    fn crossover(outcome: Crossing) -> Crossover {
        Crossover {
            metric: Metric::both(Measure::ThroughputGbitPerS),
            axis: Axis::Mover,
            baseline: "send".into(),
            value: "sendfile".into(),
            along: Axis::Size,
            range: ("256".into(), "1MiB".into()),
            place: Vec::new(),
            outcome,
            findings: Vec::new(),
            open: Vec::new(),
        }
    }

    fn point(better_above: bool, low: Option<&str>, high: Option<&str>) -> CrossingPoint {
        CrossingPoint {
            better_above,
            fades: false,
            low: low.map(Value::from),
            high: high.map(Value::from),
        }
    }

    #[test]
    fn what_is_decided_and_bounded_comes_first() {
        let at = |low| Crossing::At(vec![point(true, low, Some("8KiB"))]);
        let undecided = || Crossing::Undecided;
        let outcomes = [
            undecided(),
            at(None),
            Crossing::NeverBetter,
            at(Some("2KiB")),
            undecided(),
        ];
        let all = outcomes.map(crossover);
        let place = |c: &&Crossover| all.iter().position(|one| std::ptr::eq(one, *c)).unwrap();
        let (decided, open) = ordered(&all);
        let places = decided.iter().chain(&open).map(place);
        assert_eq!(places.collect::<Vec<_>>(), [3, 1, 2, 0, 4]);
        let one = "The one pair that was looked at is not decided.";
        assert_eq!(open_in_words(1, true), one);
        assert_eq!(open_in_words(2, false), "2 more pairs are not decided.");
    }

    #[test]
    fn a_crossover_says_from_where_and_how_sure() {
        let check = |points: Vec<CrossingPoint>, from: &str, interval: &str| {
            let found = outcome_in_words(&crossover(Crossing::At(points)));
            assert_eq!(found, (from.to_owned(), Some(interval.to_owned())));
        };
        let bounded = point(true, Some("4KiB"), Some("16KiB"));
        check(vec![bounded], "from 16 KiB", "4 KiB to 16 KiB");
        let open = [
            point(true, None, Some("2KiB")),
            point(false, Some("64KiB"), None),
        ];
        check(
            open.to_vec(),
            "from 2 KiB, up to 64 KiB",
            "not decided below 2 KiB; not decided above 64 KiB",
        );
    }
}

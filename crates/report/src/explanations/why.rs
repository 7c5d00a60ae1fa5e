//! Material for the answer to a question, and comparisons in words: where one way is better, by how
//! much, and where it is not.

use bytecost_analysis::{Analysis, Explanation, Finding, PairSeen, Question, Verdict, grouped};
use bytecost_spec::{Axis, Cell, Metric, Value, units};
use itertools::Itertools as _;

use crate::caveats::withholding_reason;
use crate::phrases;
use crate::text::joined;

/// Rows of numbers of one kind; the tables have the others.
pub(super) const MOST_ROWS: usize = 8;
/// Sentences of an answer; the rows have the others.
const MOST_SENTENCES: usize = 4;
/// Places that a sentence lists; where there are more, cells are counted.
const MOST_ITEMS: usize = 4;

/// Material for the answer to one question: explanation, words and comparisons.
pub(super) struct Why<'a> {
    pub(super) a: &'a Analysis,
    pub(super) explanation: &'a Explanation,
    pub(super) words: &'static Words,
    pub(super) pairs: Vec<Seen<'a>>,
}

/// An answer, with the numbers and the evidence behind it.
#[derive(Default)]
pub(super) struct AnswerParts {
    pub(super) answer: String,
    pub(super) numbers: Vec<String>,
    pub(super) evidence: Vec<String>,
}

pub(super) struct Words {
    pub(super) key: Question,
    pub(super) question: &'static str,
    /// Cells that an answer needs, for a study without any of them.
    pub(super) needs: &'static str,
    pub(super) would_change: &'static str,
    /// The axes whose values an answer by comparisons lists.
    pub(super) along: &'static [Axis],
    /// Returns true if all other places are put together, and cells counted.
    pub(super) is_together: bool,
    pub(super) answer: fn(&Why<'_>) -> AnswerParts,
}

impl Words {
    pub(super) const fn along(self, along: &'static [Axis]) -> Words {
        Words { along, ..self }
    }

    pub(super) const fn together(self) -> Words {
        let is_together = true;
        Words {
            is_together,
            ..self
        }
    }

    pub(super) const fn answered(self, answer: fn(&Why<'_>) -> AnswerParts) -> Words {
        Words { answer, ..self }
    }
}

/// A comparison, seen from one of its two cells.
pub(super) struct Seen<'a> {
    pub(super) finding: &'a Finding,
    pub(super) value: &'a Value,
    pub(super) baseline_value: &'a Value,
    pub(super) cell: &'a Cell,
    pub(super) baseline: &'a Cell,
    /// The cell's metric over the baseline's, with its interval.
    pub(super) ratio: [f64; 3],
    verdict: Verdict,
}

/// Pairs of an explanation whose finding and cells the result has.
pub(super) fn seen<'a>(a: &'a Analysis, pairs: &[PairSeen]) -> Vec<Seen<'a>> {
    let seen = |pair: &PairSeen| {
        let finding = a.findings.get(pair.finding)?;
        let straight = Seen {
            finding,
            value: &finding.value,
            baseline_value: &finding.baseline_value,
            cell: &a.result(&finding.cell)?.cell,
            baseline: &a.result(&finding.baseline)?.cell,
            ratio: [finding.ratio, finding.low, finding.high],
            verdict: match &finding.withheld {
                Some(_) => Verdict::NotDecided,
                None => finding.verdict,
            },
        };
        Some(if pair.is_turned {
            straight.turned()
        } else {
            straight
        })
    };
    pairs.iter().filter_map(seen).collect()
}

impl<'a> Seen<'a> {
    fn turned(self) -> Seen<'a> {
        let [value, low, high] = self.ratio;
        Seen {
            value: self.baseline_value,
            baseline_value: self.value,
            cell: self.baseline,
            baseline: self.cell,
            ratio: [1.0 / value, 1.0 / high, 1.0 / low],
            verdict: match self.verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                verdict => verdict,
            },
            ..self
        }
    }

    pub(super) fn has_amount(&self) -> bool {
        self.finding.amount_withheld.is_none()
    }

    pub(super) fn is(&self, verdict: Verdict) -> bool {
        match self.verdict {
            Verdict::NotJudged => verdict == Verdict::NotDecided,
            judged => judged == verdict,
        }
    }

    /// The ratio with its interval, or its direction alone where its amount is withheld.
    pub(super) fn amount(&self) -> String {
        let [value, low, high] = self.ratio;
        if !self.has_amount() {
            return if value < 1.0 { "less" } else { "more" }.to_owned();
        }
        phrases::ratio(value, low, high)
    }
}

impl Why<'_> {
    /// An answer from the comparisons alone, with the evidence given and the withheld verdicts.
    pub(super) fn by_pairs(&self, evidence: Vec<String>) -> AnswerParts {
        AnswerParts {
            answer: self.comparisons(),
            numbers: Vec::new(),
            evidence: [evidence, self.withheld()].concat(),
        }
    }

    /// Sentences about the decided comparisons.
    pub(super) fn comparisons(&self) -> String {
        let bare = self.pairs.iter().filter(|v| v.finding.withheld.is_none());
        let sentences: Vec<String> = grouped(bare.map(|v| (self.head(v), v)))
            .into_iter()
            .filter_map(|(head, pairs)| self.sentence(&head, &pairs))
            .collect();
        let more = sentences.len().saturating_sub(MOST_SENTENCES);
        let places = phrases::count(more, "more place");
        let more = (more > 0).then(|| format!("{places} in the rows"));
        let shown = sentences.into_iter().take(MOST_SENTENCES).chain(more);
        format!("{}.", shown.map(|s| phrases::capital(&s)).format(". "))
    }

    fn withheld(&self) -> Vec<String> {
        let all = phrases::count(self.pairs.len(), "comparison");
        let reason = |v: &Seen<'_>| Some((withholding_reason(v.finding.withheld?), ()));
        let reasons = grouped(self.pairs.iter().filter_map(reason)).into_iter();
        reasons
            .map(|(why, pairs)| format!("{} of {all} withheld: {why}", pairs.len()))
            .collect()
    }

    pub(super) fn metric(&self, metric: Metric) -> String {
        phrases::metric(metric, self.a.study.unit)
    }

    /// Place of a finding's cells, with a space in front: `` at 64 KiB over loopback``.
    pub(super) fn place(&self, finding: &Finding) -> String {
        let Some(result) = self.a.result(&finding.cell) else {
            return String::new();
        };
        let others = self.a.study.varied.iter().filter(|a| **a != finding.axis);
        let values = Vec::from_iter(others.map(|a| (*a, result.cell.value(*a))));
        match phrases::circumstances(&values).as_str() {
            "" => String::new(),
            place => format!(" {place}"),
        }
    }

    /// The estimates of a metric over some cells, with all that their intervals span:
    /// `2.0 to 2.2 (1.9 to 2.3)`; none where no cell has it.
    pub(super) fn estimates<'i>(
        &self,
        cells: impl IntoIterator<Item = &'i Cell>,
        metric: Metric,
    ) -> Option<String> {
        let estimate = |cell: &Cell| self.a.result(&cell.id())?.estimates.get(&metric);
        let known = Vec::from_iter(cells.into_iter().filter_map(estimate));
        let values = Vec::from_iter(known.iter().map(|e| e.value));
        let span = phrases::span(&values, units::number);
        let span = joined([&*span, metric.measure.row().unit], " ");
        let bounds: Option<Vec<f64>> = known.iter().flat_map(|e| [e.low, e.high]).collect();
        let ends = bounds.and_then(|bounds| bounds.into_iter().minmax().into_option());
        let interval = ends.map_or_else(String::new, |(low, high)| {
            let [low, high] = [low, high].map(units::number);
            format!(" ({low} to {high})")
        });
        (!known.is_empty()).then(|| span + &interval)
    }

    fn is_along(&self, axis: Axis) -> bool {
        self.words.along.contains(&axis)
    }

    /// `` `sendmsg` compared with `send-fields` in CPU time per byte, over unix``.
    fn head(&self, v: &Seen<'_>) -> String {
        let axis = v.finding.axis;
        let against = axis.subject(v.baseline_value);
        let metric = self.metric(v.finding.metric);
        let mut first = format!("compared with {against} in {metric}");
        if !self.is_along(axis) {
            first = format!("{} {first}", axis.subject(v.value));
        }
        let is_shown = |a: &&Axis| **a != axis && !self.is_along(**a) && self.is_in_head(**a);
        let places = places(v.cell, self.a.study.varied.iter().filter(is_shown));
        [first].into_iter().chain(places).join(", ")
    }

    /// Returns true if places along an axis are kept apart: what work or which server it is always is.
    fn is_in_head(&self, axis: Axis) -> bool {
        !self.words.is_together || matches!(axis, Axis::Mover | Axis::Server)
    }

    /// Place of a pair in words: the value of the last axis, and those of the axes before it.
    fn item(&self, v: &Seen<'_>) -> (String, String) {
        let axis = v.finding.axis;
        if self.is_along(axis) {
            return (String::new(), axis.subject(v.value));
        }
        let is_varied = |a: &&Axis| self.a.study.varied.contains(a);
        let mut varied = self.words.along.iter().filter(is_varied);
        let mut words = places(v.cell, varied.clone());
        let first = |a: &Axis| a.circumstance(&v.cell.value(*a));
        let last = words.pop().or_else(|| varied.next().map(first));
        (words.join(", "), last.unwrap_or_default())
    }

    /// The places of some pairs of a group; those that share all but the last word stand together. Where
    /// there are many places, or some cells of a place alone, cells are counted.
    fn items(&self, some: &[&Seen<'_>], all: &[&Seen<'_>]) -> String {
        let counts = |pairs: &[&Seen<'_>]| pairs.iter().map(|v| self.item(v)).counts();
        let (here, everywhere) = (counts(some), counts(all));
        if here.len() > MOST_ITEMS || here.iter().any(|(item, n)| everywhere[item] != *n) {
            return format!("in {} of {}", some.len(), phrases::count(all.len(), "cell"));
        }
        grouped(some.iter().map(|v| self.item(v)).unique())
            .into_iter()
            .map(|(start, ends)| joined([start, phrases::list(&ends)], ", "))
            .join(" and ")
    }

    /// Sentence about the decided comparisons of a group: `better at 256 B and at 4 KiB, 0.20× to
    /// 0.31× (0.19 to 0.33)`.
    fn sentence(&self, head: &str, pairs: &[&Seen<'_>]) -> Option<String> {
        let clause = |(verdict, word): (Verdict, &str)| {
            let is_of = |v: &&&Seen<'_>| v.is(verdict);
            let some = pairs.iter().filter(is_of).copied().collect_vec();
            let clause = joined([word, &self.items(&some, pairs)], " ");
            let has_amounts = some.iter().all(|v| v.has_amount());
            (!some.is_empty()).then(|| match verdict {
                Verdict::Better | Verdict::Worse if has_amounts => {
                    format!("{clause}, {}", hull(&some))
                }
                _ => clause,
            })
        };
        let clauses = VERDICTS.into_iter().filter_map(clause).join("; ");
        let is_decided = pairs.iter().any(|v| !v.is(Verdict::NotDecided));
        is_decided.then(|| format!("{head}: {clauses}"))
    }
}

const VERDICTS: [(Verdict, &str); 4] = [
    (Verdict::Better, "better"),
    (Verdict::Worse, "worse"),
    (
        Verdict::NoDifferenceThatMatters,
        "no difference that matters",
    ),
    (Verdict::NotDecided, "not decided"),
];

/// Circumstances of a cell in words: numbers always, others where they are not the usual.
fn places<'a>(cell: &Cell, axes: impl Iterator<Item = &'a Axis>) -> Vec<String> {
    let values = axes.map(|a| (a, cell.value(*a)));
    let shown = values.filter(|(a, v)| a.is_shown(v) || a.number(v).is_some());
    shown.map(|(a, v)| a.circumstance(&v)).collect()
}

/// Range of some ratios, with the range of their intervals: `0.12× to 0.30× (0.11 to 0.33)`.
pub(super) fn hull(pairs: &[&Seen<'_>]) -> String {
    let ratios = || pairs.iter().map(|v| v.ratio);
    let ends = ratios().minmax_by(|a, b| a[0].total_cmp(&b[0]));
    let Some(([least, ..], [most, ..])) = ends.into_option() else {
        return String::new();
    };
    let low = ratios()
        .map(|[_, low, _]| low)
        .fold(f64::INFINITY, f64::min);
    let high = ratios().map(|[.., high]| high).fold(0.0, f64::max);
    // Alike in all digits that are written.
    if least > 0.995 * most {
        return phrases::ratio(most, low, high);
    }
    let [value, top, low, high] = [least, most, low, high].map(units::number);
    format!("{value}× to {top}× ({low} to {high})")
}

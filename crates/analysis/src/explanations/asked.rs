//! What a question may look at and what there is to say to it; and the query that most are rows of:
//! who is compared with whom in what. Better and worse are said of decided findings alone.

use bytecost_spec::evidence::{EvidenceAsked, Means};
use bytecost_spec::survey::{InFlight, MoverFacts, Release, Route, ServerFacts, WorkKind};
use bytecost_spec::{Axis, Cell, Measure, Metric, Side, Value, units};
use itertools::Itertools as _;

use crate::comparison::JudgedPair;
use crate::contrast::Ratio;
use crate::grouping::grouped;
use crate::phrases;
use crate::result::{CellResult, Finding, Verdict};
use crate::stages::Explained;
use crate::trials::CellTrials;

/// Rows of numbers that are shown of one kind; the rest is in the tables.
pub(super) const MOST_ROWS: usize = 8;
/// Calls for each message from which on it is sent by several.
const SEVERAL_CALLS: f64 = 1.5;
/// Sentences of an answer; the rows have the rest.
const MOST_SENTENCES: usize = 4;

/// Places that a sentence lists; where there are more, cells are counted.
const MOST_ITEMS: usize = 4;

const CALLS: Metric = Metric::of(Measure::CallsPerMessage, Side::Sender);

pub(super) struct Answered {
    /// The answer, or what is missing for one in a short clause.
    pub(super) answer: Result<String, String>,
    /// Whether no run on this machine can answer it.
    pub(super) is_never: bool,
    pub(super) numbers: Vec<String>,
    pub(super) evidence: Vec<String>,
    pub(super) findings: Vec<String>,
}

impl Answered {
    pub(super) fn of(answer: Result<String, String>) -> Answered {
        Answered {
            answer,
            is_never: false,
            numbers: Vec::new(),
            evidence: Vec::new(),
            findings: Vec::new(),
        }
    }
}

impl<'v> Explained<'v> {
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let usual = [Measure::CpuSPerGb, Measure::ThroughputGbitPerS].map(Metric::both);
        let all = [self.main_metric()].into_iter().chain(usual);
        all.unique_by(|m| m.measure).collect()
    }

    /// Where a finding's cells are: `` at 64 KiB over loopback``, with a space in front.
    pub(super) fn place(&self, finding: &Finding) -> String {
        let place = self.result(&finding.cell).map(|c| {
            let others = self.varied().iter().filter(|a| **a != finding.axis);
            let values: Vec<_> = others.map(|a| (*a, c.cell.value(*a))).collect();
            phrases::circumstances(&values)
        });
        let place = place.filter(|place| !place.is_empty());
        place.map_or_else(String::new, |place| format!(" {place}"))
    }

    /// What became of a means of evidence; none where it was not looked for.
    pub(super) fn asked(&self, means: Means) -> Option<&'v EvidenceAsked> {
        let mut all = self.input.manifest.evidence.iter();
        all.find(|a| a.means == means)
    }

    pub(super) fn refused(&self, fits: impl Fn(&Cell) -> bool) -> Option<String> {
        let mut refused = self.input.refused.iter();
        let own = refused.find(|r| fits(&r.cell))?;
        Some(own.why.trim_end_matches('.').to_owned())
    }

    /// The estimates of a metric over some cells, with all that their intervals span:
    /// `2.0 to 2.2 (1.9 to 2.3)`; none where no cell has it.
    pub(crate) fn estimates<'i>(
        &self,
        cells: impl IntoIterator<Item = &'i str>,
        metric: Metric,
    ) -> Option<String> {
        let cells = cells.into_iter();
        let known = cells.filter_map(|id| self.result(id)?.estimates.get(&metric));
        let known = known.collect_vec();
        if known.is_empty() {
            return None;
        }
        let values = known.iter().map(|e| e.value).collect_vec();
        let values = phrases::span(&values, units::number);
        let values = format!("{values} {}", metric.measure.row().unit);
        let values = values.trim_end();
        let bounds: Option<Vec<f64>> = known.iter().flat_map(|e| [e.low, e.high]).collect();
        let bounds = bounds.and_then(|all| all.into_iter().minmax().into_option());
        Some(
            match bounds.map(|(low, high)| [low, high].map(units::number)) {
                None => values.to_owned(),
                Some([low, high]) => format!("{values} ({low} to {high})"),
            },
        )
    }

    pub(super) fn why_absent(&self, metric: Metric) -> &str {
        let absent = self.cells.iter().find_map(|c| c.absent.get(&metric));
        absent.map_or("they were not counted", |why| why.trim_end_matches('.'))
    }
}

/// A cell with the facts of who works in it, so that a new mover is explained once measured.
#[derive(Clone, Copy)]
pub(super) struct MeasuredWay<'v> {
    pub(super) trials: &'v CellTrials<'v>,
    pub(super) facts: Option<&'v MoverFacts>,
    pub(super) server: Option<&'v ServerFacts>,
    result: Option<&'v CellResult>,
}

#[derive(Clone, Copy)]
pub(super) struct Versus<'v> {
    pub(super) pair: JudgedPair<'v>,
    pub(super) baseline: MeasuredWay<'v>,
    pub(super) other: MeasuredWay<'v>,
}

pub(super) type End = for<'a> fn(&Versus<'a>) -> MeasuredWay<'a>;

/// What else bears on the answer that pairs give.
pub(super) type Evidence = fn(&AskedPairs<'_>) -> Vec<String>;

pub(super) const NONE: Evidence = |_| Vec::new();

pub(super) struct AskedPairs<'v> {
    pub(super) run: &'v Explained<'v>,
    query: &'v PairQuery,
    pub(super) aspects: Vec<Vec<Versus<'v>>>,
}

pub(super) struct PairQuery {
    pub(super) axes: &'static [Axis],
    /// Whether it is about a pair: the baseline and the other.
    pub(super) pairs: fn(MeasuredWay<'_>, MeasuredWay<'_>) -> bool,
    /// Of each list the first that decides something, else that is compared, else that is known.
    pub(super) metrics: fn(&Explained<'_>) -> Vec<Vec<Metric>>,
    /// What an answer goes along: its values are listed.
    pub(super) along: &'static [Axis],
    /// Whether all other places are put together, and cells counted.
    pub(super) together: bool,
    /// What is said where there is no such pair.
    pub(super) needs: &'static str,
}

impl<'v> MeasuredWay<'v> {
    pub(super) fn cell(&self) -> &'v Cell {
        self.trials.cell
    }

    pub(super) fn route(&self) -> Route {
        self.trials.route
    }

    fn sends(&self, release: Release) -> bool {
        let of = |m: &MoverFacts| m.route == Route::MemoryToSocket && m.release == release;
        self.facts.is_some_and(of)
    }

    /// Whether it sends from memory that the kernel is to leave where it is, and says when it did.
    pub(super) fn is_zero_copy(&self) -> bool {
        self.sends(Release::AtCompletion)
    }

    pub(super) fn copies(&self) -> bool {
        self.sends(Release::AtReturn)
    }

    pub(super) fn uses_fields(&self) -> bool {
        self.facts.is_some_and(|m| m.uses_fields)
    }

    pub(super) fn calls_often(&self) -> bool {
        self.value(CALLS).is_some_and(|n| n >= SEVERAL_CALLS)
    }

    pub(super) fn in_flight(&self) -> InFlight {
        self.facts.map_or(InFlight::One, |m| m.in_flight)
    }

    pub(super) fn works(&self, kind: WorkKind) -> bool {
        self.route().is_work() && self.facts.is_some_and(|m| m.work == kind)
    }

    pub(super) fn value(&self, metric: Metric) -> Option<f64> {
        self.result?.value(metric)
    }
}

impl<'v> Explained<'v> {
    pub(super) fn way(&'v self, trials: &'v CellTrials<'v>) -> MeasuredWay<'v> {
        let survey = &self.input.manifest.survey;
        let server = trials.cell.serving.server.as_deref();
        MeasuredWay {
            trials,
            facts: survey.mover(&trials.cell.mover),
            server: server.and_then(|s| survey.server(s)),
            result: self.result(&trials.id),
        }
    }

    pub(super) fn plans(&'v self, is: impl Fn(MeasuredWay<'v>) -> bool) -> bool {
        self.trials.moving().any(|c| is(self.way(c)))
    }

    /// What the study compares of the pairs in a metric, seen as the query does.
    pub(super) fn versus(&'v self, asked: &PairQuery, metric: Metric) -> Vec<Versus<'v>> {
        let is_of = |pair: &JudgedPair<'v>| {
            pair.finding.metric == metric && asked.axes.contains(&pair.pairing.axis)
        };
        let seen = |pair: JudgedPair<'v>| Versus {
            baseline: self.way(pair.pairing.baseline),
            other: self.way(pair.pairing.other),
            pair,
        };
        let found = self.pairs().filter(is_of).filter_map(|pair| {
            let either = [pair, pair.turned()].map(seen);
            let mut either = either.into_iter();
            either.find(|v| (asked.pairs)(v.baseline, v.other))
        });
        found.collect()
    }

    pub(super) fn ask(&'v self, query: &'v PairQuery) -> AskedPairs<'v> {
        let rank = |v: &Versus<'_>| (v.pair.is_decided(), v.is_compared());
        let of = |metrics: Vec<Metric>| {
            let all = metrics.into_iter().map(|m| self.versus(query, m));
            // Of equals the first.
            let best = all.rev().max_by_key(|of| of.iter().map(rank).max());
            best.unwrap_or_default()
        };
        AskedPairs {
            run: self,
            query,
            aspects: (query.metrics)(self).into_iter().map(of).collect(),
        }
    }
}

impl<'v> AskedPairs<'v> {
    pub(super) fn all(&self) -> impl Iterator<Item = &Versus<'v>> {
        self.aspects.iter().flatten()
    }

    /// The pairs that nothing withholds, by what is said of them first.
    fn groups(&self) -> Vec<(String, Vec<&Versus<'v>>)> {
        let bare = self.all().filter(|v| v.withheld().is_none());
        grouped(bare.map(|v| (self.head(v), v)))
    }

    /// What the verdicts say, sentence by sentence; else why nothing is said.
    pub(super) fn told(&self) -> Result<String, String> {
        let groups = self.groups().into_iter();
        let sentences = groups.filter_map(|(head, of)| self.sentence(&head, &of));
        let sentences = sentences.collect_vec();
        if sentences.is_empty() {
            let compared = self.all().find(|v| v.is_compared());
            let n = self.all().count();
            return Err(match compared.map(|v| v.withheld()) {
                None if n == 0 && self.is_measured() => {
                    "the study does not compare them".to_owned()
                }
                None if n == 0 => self.query.needs.to_owned(),
                None => "the study does not judge them".to_owned(),
                Some(Some(why)) => format!("withheld: {why}"),
                Some(None) => format!("not decided in {}", phrases::count(n, "comparison")),
            });
        }
        let more = sentences.len().saturating_sub(MOST_SENTENCES);
        let places = phrases::count(more, "more place");
        let more = (more > 0).then(|| format!("{places} in the rows"));
        let told = sentences.into_iter().take(MOST_SENTENCES).chain(more);
        let told = told.map(|s| phrases::capital(&s));
        Ok(format!("{}.", told.format(". ")))
    }

    /// Returns true if the run has such a pair, whether the study compares it or not.
    fn is_measured(&self) -> bool {
        let ways = self.run.measured().map(|c| self.run.way(c)).collect_vec();
        let differ_in = |axis: &Axis, one: &MeasuredWay<'_>, other: &MeasuredWay<'_>| {
            let facts = &one.trials.facts;
            let is_apart = one.cell().value(*axis) != other.cell().value(*axis);
            is_apart && facts.agrees(&other.trials.facts, &[*axis])
        };
        let mut pairs = ways.iter().cartesian_product(&ways);
        pairs.any(|(one, other)| {
            let mut axes = self.query.axes.iter();
            (self.query.pairs)(*one, *other) && axes.any(|axis| differ_in(axis, one, other))
        })
    }

    fn is_along(&self, axis: Axis) -> bool {
        self.query.along.contains(&axis)
    }

    /// `` `sendmsg` compared with `send-fields` in CPU time per byte, over unix``.
    fn head(&self, v: &Versus<'_>) -> String {
        let axis = v.pair.pairing.axis;
        let against = axis.subject(&v.pair.pairing.baseline.cell.value(axis));
        let metric = self.run.words(v.pair.finding.metric);
        let who = match self.is_along(axis) {
            true => String::new(),
            false => format!("{} ", axis.subject(&v.value())),
        };
        let is_said = |a: &&Axis| **a != axis && !self.is_along(**a) && self.is_in_head(**a);
        let places = places(v.other.cell(), self.run.varied().iter().filter(is_said));
        let first = format!("{who}compared with {against} in {metric}");
        [first].into_iter().chain(places).join(", ")
    }

    /// Whether places along an axis are kept apart: what work or which server it is always is.
    fn is_in_head(&self, axis: Axis) -> bool {
        !self.query.together || matches!(axis, Axis::Mover | Axis::Server)
    }

    /// Where a pair is along, in words: what the last axis says, and what those before it do.
    fn item(&self, v: &Versus<'_>) -> (String, String) {
        let axis = v.pair.pairing.axis;
        if self.is_along(axis) {
            return (String::new(), axis.subject(&v.value()));
        }
        let varied = self.query.along.iter();
        let mut varied = varied.filter(|a| self.run.varied().contains(a));
        let mut words = places(v.other.cell(), varied.clone());
        let first = |a: &Axis| a.circumstance(&v.other.cell().value(*a));
        let last = words.pop().or_else(|| varied.next().map(first));
        (words.join(", "), last.unwrap_or_default())
    }

    /// Where some pairs of a group are: those that share all but the last word together. Where
    /// there are many places, or some cells of a place alone, cells are counted.
    fn items(&self, own: &[&Versus<'_>], of: &[&Versus<'_>]) -> String {
        let counted = |of: &[&Versus<'_>]| of.iter().map(|v| self.item(v)).counts();
        let (here, all) = (counted(own), counted(of));
        if here.len() > MOST_ITEMS || here.iter().any(|(item, n)| all[item] != *n) {
            return format!("in {} of {}", own.len(), phrases::count(of.len(), "cell"));
        }
        let places = grouped(own.iter().map(|v| self.item(v)).unique()).into_iter();
        let told = places.map(|(start, ends)| match start.is_empty() {
            true => phrases::list(&ends),
            false => format!("{start}, {}", phrases::list(&ends)),
        });
        told.collect_vec().join(" and ")
    }

    /// What is decided of a group: `better at 256 B and at 4 KiB, 0.20× to 0.31× (0.19 to 0.33)`.
    fn sentence(&self, head: &str, of: &[&Versus<'_>]) -> Option<String> {
        let clause = |(verdict, word): (Verdict, &str)| {
            let own = of.iter().filter(|v| v.verdict() == verdict);
            let own = own.copied().collect_vec();
            let told = format!("{word} {}", self.items(&own, of));
            let told = told.trim_end();
            (!own.is_empty()).then(|| match verdict {
                Verdict::Better | Verdict::Worse if have_amounts(&own) => {
                    format!("{told}, {}", hull(&ratios(&own)))
                }
                _ => told.to_owned(),
            })
        };
        let clauses = VERDICTS.into_iter().filter_map(clause).join("; ");
        let decided = of.iter().any(|v| is_decided(v));
        decided.then(|| format!("{head}: {clauses}"))
    }

    pub(super) fn withheld(&self) -> Vec<String> {
        let reasons = grouped(self.all().filter_map(|v| Some((v.withheld()?, ())))).into_iter();
        let all = phrases::count(self.all().count(), "comparison");
        let told = reasons.map(|(why, n)| format!("{} of {all} withheld: {why}", n.len()));
        told.collect()
    }

    pub(super) fn by_verdicts(&self, evidence: Evidence) -> Answered {
        Answered {
            evidence: [evidence(self), self.withheld()].concat(),
            ..self.with(self.told())
        }
    }

    /// An answer with the run's findings of the pairs, whose numbers its tables have.
    pub(super) fn with(&self, answer: Result<String, String>) -> Answered {
        Answered {
            findings: ids(self.all()),
            ..Answered::of(answer)
        }
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

/// Circumstances of a cell in words: numbers always, the rest where it is not the usual.
fn places<'a>(cell: &Cell, axes: impl Iterator<Item = &'a Axis>) -> Vec<String> {
    let values = axes.map(|a| (a, cell.value(*a)));
    let told = values.filter(|(a, v)| a.tells(v) || a.number(v).is_some());
    told.map(|(a, v)| a.circumstance(&v)).collect()
}

impl Versus<'_> {
    pub(super) fn value(&self) -> Value {
        let pairing = &self.pair.pairing;
        pairing.other.cell.value(pairing.axis)
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.pair.verdict().unwrap_or(Verdict::NotDecided)
    }

    /// The ratio with its interval, or its direction alone where its amount is withheld.
    pub(super) fn amount(&self) -> String {
        let ratio = self.pair.ratio();
        if !self.pair.has_amount() {
            return if ratio.value < 1.0 { "less" } else { "more" }.to_owned();
        }
        phrases::ratio(ratio.value, ratio.low, ratio.high)
    }

    pub(super) fn withheld(&self) -> Option<&str> {
        self.pair.finding.withheld.as_deref()
    }

    fn is_compared(&self) -> bool {
        self.pair.finding.verdict != Verdict::NotJudged
    }
}

/// Clauses as one sentence; where there are none, what is missing for it.
pub(super) fn joined(clauses: impl Iterator<Item = String>, needs: &str) -> Result<String, String> {
    let told = clauses.collect_vec().join("; ");
    match told.is_empty() {
        true => Err(needs.to_owned()),
        false => Ok(format!("{told}.")),
    }
}

pub(super) fn ratios(of: &[&Versus<'_>]) -> Vec<Ratio> {
    of.iter().map(|v| v.pair.ratio()).collect()
}

pub(super) fn ids<'w, 'v: 'w>(all: impl Iterator<Item = &'w Versus<'v>>) -> Vec<String> {
    all.map(|v| v.pair.finding.id.clone()).unique().collect()
}

pub(super) fn is_decided(v: &Versus<'_>) -> bool {
    v.verdict() != Verdict::NotDecided
}

/// Returns true if the amount of none of them is withheld.
pub(super) fn have_amounts(of: &[&Versus<'_>]) -> bool {
    of.iter().all(|v| v.pair.has_amount())
}

/// From the least to the greatest of some ratios, with all that their intervals span:
/// `0.12× to 0.30× (0.11 to 0.33)`.
pub(super) fn hull(ratios: &[Ratio]) -> String {
    let ends = ratios.iter().minmax_by(|a, b| a.value.total_cmp(&b.value));
    let Some((least, most)) = ends.into_option() else {
        return String::new();
    };
    let low = ratios.iter().map(|r| r.low).fold(f64::INFINITY, f64::min);
    let high = ratios.iter().map(|r| r.high).fold(0.0, f64::max);
    // Alike in all digits that are written.
    if least.value > 0.995 * most.value {
        return phrases::ratio(most.value, low, high);
    }
    let [value, top, low, high] = [least.value, most.value, low, high].map(units::number);
    format!("{value}× to {top}× ({low} to {high})")
}

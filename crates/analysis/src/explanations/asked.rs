//! The query that most explanations are rows of: who is compared with whom, in what, and how that
//! is put into words. Better and worse are said of decided findings alone.

use bytecost_spec::survey::{InFlight, MoverFacts, Release, Route, ServerFacts, WorkKind};
use bytecost_spec::{Axis, Cell, Measure, Metric, Side};
use itertools::Itertools as _;

use super::ranges::{hull, span_of};
use super::{Explained, MOST_ROWS, Missing, View};
use crate::contrast::{PairContrast, Ratio, Standing};
use crate::grouping::grouped;
use crate::pairing::pairings;
use crate::phrases;
use crate::result::{CellResult, Verdict};
use crate::trials::CellTrials;

/// Calls for each message from which on it is sent by several.
const SEVERAL_CALLS: f64 = 1.5;
/// Sentences of an answer; the rows have the rest.
const MOST_SENTENCES: usize = 4;

/// Places that a sentence lists; where there are more, cells are counted.
const MOST_ITEMS: usize = 4;

pub(super) const CALLS: Metric = Metric {
    measure: Measure::CallsPerMessage,
    side: Side::Sender,
};

/// A cell with what the tables say of who works in it. Questions are about such facts, so that a
/// new mover is explained as soon as it is measured.
#[derive(Clone, Copy)]
pub(super) struct MeasuredWay<'v> {
    pub(super) trials: &'v CellTrials<'v>,
    pub(super) facts: Option<&'v MoverFacts>,
    server: Option<&'v ServerFacts>,
    result: Option<&'v CellResult>,
}

/// A pair of a question, in one metric.
#[derive(Clone, Copy)]
pub(super) struct Versus<'v> {
    pub(super) contrast: PairContrast<'v>,
    pub(super) baseline: MeasuredWay<'v>,
    pub(super) other: MeasuredWay<'v>,
}

/// What else bears on the answer that pairs give.
pub(super) type Evidence = for<'v> fn(&View<'v>, &[Vec<Versus<'v>>]) -> Vec<String>;

/// Where nothing else does.
pub(super) const NONE: Evidence = |_, _| Vec::new();

/// What a question compares.
pub(super) struct PairQuery {
    pub(super) axes: &'static [Axis],
    /// Whether it is about a pair: the baseline and the other.
    pub(super) pairs: fn(MeasuredWay<'_>, MeasuredWay<'_>) -> bool,
    /// In what: of each list the first that decides something, else the first that is compared, else
    /// the first that is known.
    pub(super) metrics: fn(&View<'_>) -> Vec<Vec<Metric>>,
    /// What an answer goes along: its values are listed. The compared axis itself where the values
    /// at one place are listed.
    pub(super) along: &'static [Axis],
    /// Whether all other places are put together, and cells counted.
    pub(super) together: bool,
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

    /// Whether it sends from memory that the kernel copies.
    pub(super) fn copies(&self) -> bool {
        self.sends(Release::AtReturn)
    }

    pub(super) fn uses_fields(&self) -> bool {
        self.facts.is_some_and(|m| m.uses_fields)
    }

    /// Whether several calls were made for each message, as was counted.
    pub(super) fn calls_often(&self) -> bool {
        self.value(CALLS).is_some_and(|n| n >= SEVERAL_CALLS)
    }

    pub(super) fn in_flight(&self) -> InFlight {
        self.facts.map_or(InFlight::One, |m| m.in_flight)
    }

    /// Whether it reads a file into memory.
    pub(super) fn reads(&self) -> bool {
        self.route() == Route::FileToMemory
    }

    pub(super) fn works(&self, kind: WorkKind) -> bool {
        self.route().is_work() && self.facts.is_some_and(|m| m.work == kind)
    }

    /// Whether it serves one connection after the other.
    pub(super) fn serves_in_turn(&self) -> bool {
        self.server.is_some_and(|s| s.in_turn)
    }

    pub(super) fn knows(&self, metric: Metric) -> bool {
        self.value(metric).is_some()
    }

    pub(super) fn value(&self, metric: Metric) -> Option<f64> {
        self.result?.value(metric)
    }
}

impl<'v> View<'v> {
    pub(super) fn way(&self, trials: &'v CellTrials<'v>) -> MeasuredWay<'v> {
        let survey = &self.input.manifest.survey;
        let server = trials.cell.serving.server.as_deref();
        MeasuredWay {
            trials,
            facts: survey.mover(&trials.cell.mover),
            server: server.and_then(|s| survey.server(s)),
            result: self.result(&trials.id),
        }
    }

    /// Whether anything that is planned is such.
    pub(super) fn plans(&self, is: impl Fn(MeasuredWay<'v>) -> bool) -> bool {
        self.trials.moving().any(|c| is(self.way(c)))
    }

    /// Every pair of the question in a metric, in the order of the plan. Where the run compares a
    /// value with some, those alone.
    pub(super) fn versus(&self, asked: &PairQuery, metric: Metric) -> Vec<Versus<'v>> {
        let study = &self.input.manifest.study;
        let mut found: Vec<Versus<'v>> = Vec::new();
        for axis in asked.axes {
            let moving = self.trials.moving();
            let values = moving.map(|c| c.cell.value(*axis)).unique();
            let all = values.flat_map(|v| pairings(study, self.trials, *axis, &v));
            found.extend(all.filter_map(|pairing| {
                let [baseline, other] = [pairing.baseline, pairing.other].map(|c| self.way(c));
                if !(asked.pairs)(baseline, other) {
                    return None;
                }
                let contrast = self.contrast(pairing, metric)?;
                let found = Versus {
                    contrast,
                    baseline,
                    other,
                };
                // Where either could be the baseline, it is the one of the study.
                let is_of_study = || {
                    found
                        .baseline_of_study()
                        .is_some_and(|id| *id == baseline.trials.id)
                };
                (!(asked.pairs)(other, baseline) || is_of_study()).then_some(found)
            }));
        }
        let compared: Vec<String> = (found.iter().filter(|v| v.is_compared()))
            .map(Versus::value)
            .collect();
        found.retain(|v| v.is_compared() || !compared.contains(&v.value()));
        found
    }

    /// The pairs of each list of metrics.
    pub(super) fn aspects(&self, asked: &PairQuery) -> Vec<Vec<Versus<'v>>> {
        let of = |metrics: Vec<Metric>| {
            let all: Vec<_> = (metrics.iter()).map(|m| self.versus(asked, *m)).collect();
            let first = |is: fn(&Versus<'v>) -> bool| all.iter().position(|of| of.iter().any(is));
            let at = first(|v| is_decided(v))
                .or_else(|| first(|v| v.is_compared()))
                .or_else(|| first(|_| true));
            all.into_iter().nth(at.unwrap_or(0)).unwrap_or_default()
        };
        (asked.metrics)(self).into_iter().map(of).collect()
    }

    /// What the verdicts say, sentence by sentence; else why nothing is said.
    pub(super) fn told(
        &self,
        asked: &PairQuery,
        aspects: &[Vec<Versus<'v>>],
        needs: &str,
    ) -> Result<String, Missing> {
        let all: Vec<&Versus<'_>> = aspects.iter().flatten().collect();
        let mut sentences: Vec<String> = Vec::new();
        for found in aspects {
            let bare = found.iter().filter(|v| v.withheld().is_none());
            let groups = grouped(bare.map(|v| (self.head(asked, v), v)));
            sentences.extend(
                groups
                    .iter()
                    .filter_map(|(h, of)| self.sentence(asked, h, of)),
            );
        }
        if sentences.is_empty() {
            return Err(match all.iter().find(|v| v.is_compared()) {
                None if all.is_empty() => needs.into(),
                None => "the study does not judge them".into(),
                Some(v) => match v.withheld() {
                    Some(why) => format!("withheld: {why}").into(),
                    None => {
                        format!("not decided in {}", phrases::count(all.len(), "comparison")).into()
                    }
                },
            });
        }
        let more = sentences.len().saturating_sub(MOST_SENTENCES);
        sentences.truncate(MOST_SENTENCES);
        if more > 0 {
            sentences.push(format!(
                "{} in the rows",
                phrases::count(more, "more place")
            ));
        }
        let told = sentences.iter().map(|s| phrases::capital(s));
        Ok(format!("{}.", told.collect::<Vec<_>>().join(". ")))
    }

    /// `` `sendmsg` compared with `send-fields` in CPU time per byte, over unix``.
    fn head(&self, asked: &PairQuery, v: &Versus<'_>) -> String {
        let axis = v.contrast.pairing.axis;
        let against = axis.subject(&v.contrast.pairing.baseline.cell.value(axis));
        let metric = self.words(v.contrast.metric);
        let who = match asked.along.contains(&axis) {
            true => String::new(),
            false => format!("{} ", axis.subject(&v.value())),
        };
        let is_said =
            |a: &&Axis| **a != axis && !asked.along.contains(a) && self.is_in_head(asked, **a);
        let axes: Vec<Axis> = self.varied.iter().filter(is_said).copied().collect();
        let mut told = vec![format!("{who}compared with {against} in {metric}")];
        told.extend(places(v.other.cell(), &axes));
        told.join(", ")
    }

    /// Whether places along an axis are kept apart: what work or which server it is always is.
    fn is_in_head(&self, asked: &PairQuery, axis: Axis) -> bool {
        !asked.together || matches!(axis, Axis::Mover | Axis::Server)
    }

    /// Where a pair is along, in words: what the last axis says, and what those before it do.
    fn item(&self, asked: &PairQuery, v: &Versus<'_>) -> (String, String) {
        let axis = v.contrast.pairing.axis;
        if asked.along.contains(&axis) {
            return (String::new(), axis.subject(&v.value()));
        }
        let varied = asked.along.iter().filter(|a| self.varied.contains(a));
        let axes: Vec<Axis> = varied.copied().collect();
        let mut words = places(v.other.cell(), &axes);
        if let (true, Some(first)) = (words.is_empty(), axes.first()) {
            words.push(first.circumstance(&v.other.cell().value(*first)));
        }
        let last = words.pop().unwrap_or_default();
        (words.join(", "), last)
    }

    /// Where some pairs of a group are: those that share all but the last word together. Where
    /// there are many places, or some cells of a place alone, cells are counted.
    fn items(&self, asked: &PairQuery, own: &[&Versus<'_>], of: &[&Versus<'_>]) -> String {
        let all: Vec<_> = of.iter().map(|v| self.item(asked, v)).collect();
        let here: Vec<_> = own.iter().map(|v| self.item(asked, v)).collect();
        let count = |list: &[(String, String)], item: &(String, String)| {
            list.iter().filter(|i| *i == item).count()
        };
        let unlike = here.iter().any(|i| count(&here, i) != count(&all, i));
        let places = grouped(here.iter().unique().cloned());
        if unlike || here.iter().unique().count() > MOST_ITEMS {
            return format!("in {} of {}", own.len(), phrases::count(of.len(), "cell"));
        }
        let told = places
            .into_iter()
            .map(|(start, ends)| match start.is_empty() {
                true => phrases::list(&ends),
                false => format!("{start}, {}", phrases::list(&ends)),
            });
        told.collect::<Vec<_>>().join(" and ")
    }

    /// What is decided of a group: `better at 256 B and at 4 KiB, 0.20× to 0.31× (0.19 to 0.33)`.
    fn sentence(&self, asked: &PairQuery, head: &str, of: &[&Versus<'_>]) -> Option<String> {
        let clause = |(verdict, word): (Verdict, &str)| {
            let own = of.iter().filter(|v| v.verdict() == verdict);
            let own: Vec<&Versus<'_>> = own.copied().collect();
            let told = format!("{word} {}", self.items(asked, &own, of));
            let told = told.trim_end();
            let ratios: Vec<Ratio> = own.iter().map(|v| v.contrast.ratio()).collect();
            (!own.is_empty()).then(|| match verdict {
                Verdict::Better | Verdict::Worse => format!("{told}, {}", hull(&ratios)),
                _ => told.to_owned(),
            })
        };
        let clauses: Vec<String> = VERDICTS.into_iter().filter_map(clause).collect();
        let decided = of.iter().any(|v| is_decided(v));
        decided.then(|| format!("{head}: {}", clauses.join("; ")))
    }

    /// Each pair with its ratio and its whole place, a row for each group.
    pub(super) fn rows(&self, asked: &PairQuery, aspects: &[Vec<Versus<'v>>]) -> Vec<String> {
        let bare = aspects.iter().flatten().filter(|v| v.withheld().is_none());
        let all = bare.map(|v| {
            let r = v.contrast.ratio();
            let axis = v.contrast.pairing.axis;
            let is_left = |a: &&Axis| {
                **a != axis && (asked.along.contains(a) || !self.is_in_head(asked, **a))
            };
            let axes: Vec<Axis> = self.varied.iter().filter(is_left).copied().collect();
            let mut place = places(v.other.cell(), &axes);
            if asked.along.contains(&axis) {
                place.insert(0, axis.circumstance(&v.value()));
            }
            let ratio = phrases::ratio(r.value, r.low, r.high);
            let told = format!("{ratio} {}", place.join(", "));
            (self.head(asked, v), told.trim_end().to_owned())
        });
        let rows = grouped(all).into_iter();
        let told = rows.map(|(head, list)| format!("{head}: {}", span_of(&list)));
        told.take(MOST_ROWS).collect()
    }

    /// How many pairs have no verdict, by what withholds it.
    pub(super) fn withheld(&self, aspects: &[Vec<Versus<'v>>]) -> Vec<String> {
        let all = || aspects.iter().flatten();
        let reasons = grouped(all().filter_map(|v| Some((v.withheld()?, ()))));
        let told = reasons.into_iter().map(|(why, n)| {
            let all = phrases::count(all().count(), "comparison");
            format!("{} of {all} withheld: {why}", n.len())
        });
        told.collect()
    }

    /// A question of pairs, answered by its verdicts alone.
    pub(super) fn explained(
        &self,
        asked: &PairQuery,
        needs: &str,
        evidence: Evidence,
    ) -> Explained {
        let aspects = self.aspects(asked);
        Explained {
            answer: self.told(asked, &aspects, needs),
            numbers: self.rows(asked, &aspects),
            evidence: [evidence(self, &aspects), self.withheld(&aspects)].concat(),
            findings: ids(&aspects),
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
fn places(cell: &Cell, axes: &[Axis]) -> Vec<String> {
    let values = axes.iter().map(|a| (a, cell.value(*a)));
    let told = values.filter(|(a, v)| a.tells(v) || a.number(v).is_some());
    told.map(|(a, v)| a.circumstance(&v)).collect()
}

impl Versus<'_> {
    pub(super) fn value(&self) -> String {
        self.contrast
            .pairing
            .other
            .cell
            .value(self.contrast.pairing.axis)
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.contrast.standing() {
            Standing::Decided(verdict) => verdict,
            Standing::Withheld(_) | Standing::NotJudged => Verdict::NotDecided,
        }
    }

    fn withheld(&self) -> Option<&str> {
        match self.contrast.standing() {
            Standing::Withheld(why) => Some(why),
            _ => None,
        }
    }

    fn baseline_of_study(&self) -> Option<&String> {
        Some(&self.contrast.finding()?.baseline)
    }

    fn is_compared(&self) -> bool {
        self.contrast.standing() != Standing::NotJudged
    }
}

/// The run's findings of some pairs.
pub(super) fn ids(aspects: &[Vec<Versus<'_>>]) -> Vec<String> {
    let all = aspects.iter().flatten();
    all.filter_map(|v| Some(v.contrast.finding()?.id.clone()))
        .unique()
        .collect()
}

pub(super) fn is_decided(v: &Versus<'_>) -> bool {
    v.verdict() != Verdict::NotDecided
}

//! The query of most questions: pairs of cells in a list of metrics.

use bytecost_spec::survey::{InFlight, MoverFacts, Release, Route, ServerFacts, WorkKind};
use bytecost_spec::{Axis, Cell, Measure, Metric, Placement, Side};
use itertools::Itertools as _;

use crate::result::{CaveatKind, CellResult, Fact, Missing, NoValue, PairSeen, Verdict};
use crate::stages::{Explained, JudgedPair};
use crate::trials::CellTrials;

/// Calls for each message from which on it is sent by several.
const SEVERAL_CALLS: f64 = 1.5;

const CALLS: Metric = Metric::new(Measure::CallsPerMessage, Side::Sender);

/// The answer of these results to a question.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) missing: Option<Missing>,
    pub(super) pairs: Vec<PairSeen>,
    pub(super) facts: Vec<Fact>,
}

impl Answer {
    /// An answer by facts alone; without any, cells are missing.
    pub(super) fn from_facts(facts: Vec<Fact>) -> Answer {
        Answer {
            missing: facts.is_empty().then_some(Missing::Cells),
            pairs: Vec::new(),
            facts,
        }
    }
}

/// The comparisons that a question is about.
pub(super) struct PairQuery {
    pub(super) axes: &'static [Axis],
    /// Returns true if it is about a pair: the baseline and the other.
    pub(super) pairs: fn(MeasuredWay<'_>, MeasuredWay<'_>) -> bool,
    /// Lists of metrics. Of each list the first that is decided is used, else the first that is
    /// compared, else the first that is measured.
    pub(super) metrics: fn(&Explained<'_>) -> Vec<Vec<Metric>>,
}

/// A way to send without a copy against one that copies.
pub(super) const ZERO_COPY: PairQuery = PairQuery {
    axes: &[Axis::Mover],
    pairs: |baseline, other| {
        let alike = |w: MeasuredWay<'_>| (w.in_flight(), w.uses_fields());
        let near = alike(baseline) == alike(other) || !baseline.uses_fields();
        other.is_zero_copy() && baseline.copies() && !baseline.calls_often() && near
    },
    metrics: |run| {
        let usual = [Measure::CpuSPerGb, Measure::ThroughputGbitPerS];
        let main = run.measured.main_metric();
        let others = usual.into_iter().filter(|m| *m != main.measure);
        vec![
            std::iter::once(main)
                .chain(others.map(Metric::both))
                .collect(),
        ]
    },
};

/// A cell with the facts of its mover and its server, so that a new mover needs no words of its own.
#[derive(Clone, Copy)]
pub(super) struct MeasuredWay<'v> {
    pub(super) trials: &'v CellTrials<'v>,
    pub(super) facts: Option<&'v MoverFacts>,
    pub(super) server: Option<&'v ServerFacts>,
    result: Option<&'v CellResult>,
}

/// A comparison that a query is about, in its direction.
#[derive(Clone, Copy)]
pub(super) struct Versus<'v> {
    pub(super) pair: JudgedPair<'v>,
    pub(super) baseline: MeasuredWay<'v>,
    pub(super) other: MeasuredWay<'v>,
}

/// The comparisons that a query is about: those of the best metric of each of its lists.
pub(super) struct FoundPairs<'v> {
    run: &'v Explained<'v>,
    query: &'v PairQuery,
    pub(super) by_list: Vec<Vec<Versus<'v>>>,
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

    /// Returns true if it sends from memory that the kernel is to leave where it is, and reports when
    /// it did.
    pub(super) fn is_zero_copy(&self) -> bool {
        self.sends(Release::AtCompletion)
    }

    pub(super) fn copies(&self) -> bool {
        self.sends(Release::AtReturn)
    }

    /// Returns true if it sends a file's pages as they are: nobody reports when it is done with them.
    pub(super) fn lends_pages(&self) -> bool {
        self.facts.is_some_and(|m| m.release == Release::Never)
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

    pub(super) fn is_asynchronous_read(&self) -> bool {
        self.route() == Route::FileToMemory && self.in_flight() != InFlight::One
    }

    pub(super) fn works(&self, kind: WorkKind) -> bool {
        self.route().is_work() && self.facts.is_some_and(|m| m.work == kind)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.cell().neighbour.is_idle()
    }

    pub(super) fn is_free(&self) -> bool {
        self.cell().placement == Placement::Free
    }

    pub(super) fn value(&self, metric: Metric) -> Option<f64> {
        self.result?.value(metric)
    }
}

impl Versus<'_> {
    pub(super) fn verdict(&self) -> Verdict {
        self.pair.verdict().unwrap_or(Verdict::NotDecided)
    }

    pub(super) fn withheld(&self) -> Option<CaveatKind> {
        self.pair.finding.withheld
    }

    pub(super) fn seen(&self) -> PairSeen {
        self.pair.seen()
    }

    fn is_compared(&self) -> bool {
        self.pair.finding.verdict != Verdict::NotJudged
    }
}

impl<'v> Explained<'v> {
    pub(super) fn way(&'v self, trials: &'v CellTrials<'v>) -> MeasuredWay<'v> {
        let survey = &self.measured.input.manifest.survey;
        let server = trials.cell.serving.server.as_deref();
        MeasuredWay {
            trials,
            facts: survey.mover(&trials.cell.mover),
            server: server.and_then(|s| survey.server(s)),
            result: self.measured.result(&trials.id),
        }
    }

    pub(super) fn plans(&'v self, is: impl Fn(MeasuredWay<'v>) -> bool) -> bool {
        self.measured.trials.moving().any(|c| is(self.way(c)))
    }

    /// The reason for which a cell that fits was refused; none where none was.
    pub(super) fn refused(&self, fits: impl Fn(&Cell) -> bool) -> Option<String> {
        let mut refused = self.measured.input.refused.iter();
        let own = refused.find(|r| fits(&r.cell))?;
        Some(own.why.trim_end_matches('.').to_owned())
    }

    /// The reason for which the first cell without a metric that applies to it has none.
    pub(super) fn why_absent(&self, metric: Metric) -> NoValue {
        let absent = self
            .measured
            .cells
            .iter()
            .find_map(|c| c.absent.get(&metric));
        absent.cloned().unwrap_or(NoValue::NotCounted)
    }

    /// The comparisons that a query is about.
    pub(super) fn ask(&'v self, query: &'v PairQuery) -> FoundPairs<'v> {
        let rank = |v: &Versus<'_>| (v.pair.is_decided(), v.is_compared());
        let best = |metrics: Vec<Metric>| {
            let all = metrics.into_iter().map(|m| self.versus(query, m));
            // Of equals the first.
            let best = all.rev().max_by_key(|of| of.iter().map(rank).max());
            best.unwrap_or_default()
        };
        FoundPairs {
            run: self,
            query,
            by_list: (query.metrics)(self).into_iter().map(best).collect(),
        }
    }

    fn versus(&'v self, query: &PairQuery, metric: Metric) -> Vec<Versus<'v>> {
        let is_of = |pair: &JudgedPair<'v>| {
            pair.finding.metric == metric && query.axes.contains(&pair.pairing.axis)
        };
        let seen = |pair: JudgedPair<'v>| Versus {
            baseline: self.way(pair.pairing.baseline),
            other: self.way(pair.pairing.other),
            pair,
        };
        let found = self.judged.pairs().filter(is_of).filter_map(|pair| {
            let mut either = [pair, pair.turned()].map(seen).into_iter();
            either.find(|v| (query.pairs)(v.baseline, v.other))
        });
        found.collect()
    }
}

impl<'v> FoundPairs<'v> {
    pub(super) fn all(&self) -> impl Iterator<Item = &Versus<'v>> {
        self.by_list.iter().flatten()
    }

    /// The answer of these comparisons, or the reason for which they have none.
    pub(super) fn answer(&self) -> Answer {
        Answer {
            missing: self.missing(),
            pairs: self.all().map(Versus::seen).collect(),
            facts: Vec::new(),
        }
    }

    /// The missing data, where none of them is decided.
    fn missing(&self) -> Option<Missing> {
        if self.all().any(|v| v.pair.is_decided()) {
            return None;
        }
        let compared = self.all().find(|v| v.is_compared());
        Some(match compared.map(Versus::withheld) {
            None if self.all().next().is_some() => Missing::Judgement,
            None if self.is_measured() => Missing::Comparison,
            None => Missing::Cells,
            Some(Some(kind)) => Missing::Verdicts(kind),
            Some(None) => Missing::Decision(self.all().count()),
        })
    }

    /// Returns true if the run has such a pair, whether the study compares it or not.
    fn is_measured(&self) -> bool {
        let ways = self
            .run
            .measured
            .trials
            .measured()
            .map(|c| self.run.way(c))
            .collect_vec();
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
}

//! Advice on ways to use and ways to avoid: one rule (`Group::may_use`), and the facts that follow from
//! it. A way is a value of the compared axis, such as a mover.

use bytecost_spec::study::{Compare, Family, Tier};
use bytecost_spec::survey::{Condition, Route};
use bytecost_spec::{Axis, Better, Measure, Metric, Side, Value};
use itertools::Itertools as _;

use crate::causes;
use crate::caveats::serving::{are_clients_of_both_busy, clients_limit};
use crate::corrections::level_of_each;
use crate::grid::{self, RANGES, implied_axes};
use crate::grouping::grouped;
use crate::measures::MeasureKind;
use crate::result::{
    Advice, Avoid, AvoidWith, CaveatKind, Conditional, DecidedPoint, DecidedRange, Finding,
    NothingDecided, Situation, Subject, Use, Verdict,
};
use crate::stages::Explained;
use crate::trials::CellTrials;

mod best_set;
mod conditions;
mod undecided;

use best_set::best_set;
use conditions::{conditions, more_conditions};

/// Axes that are circumstances of a transfer, in which nobody has a choice.
const CIRCUMSTANCES: [Axis; 13] = [
    Axis::Transport,
    Axis::Size,
    Axis::Fields,
    Axis::Threads,
    Axis::Cache,
    Axis::Access,
    Axis::Background,
    Axis::Cgroup,
    Axis::Connections,
    Axis::Idle,
    Axis::Rate,
    Axis::Service,
    Axis::Perf,
];
/// The share of copied buffers from which on a zero-copy way is to be avoided because of its copies.
const MOSTLY_COPIED: f64 = 0.5;

/// A finding with the trials of the cell and of the baseline that it compares.
#[derive(Clone)]
struct Compared<'v> {
    finding: &'v Finding,
    cell: &'v CellTrials<'v>,
    baseline: &'v CellTrials<'v>,
    /// Conditions of the use of the cell's way that the baseline does not have.
    extra_conditions: Vec<Condition>,
}

impl Compared<'_> {
    /// Returns true if the way can be used wherever the baseline can.
    fn is_free(&self) -> bool {
        self.extra_conditions.is_empty()
    }
}

/// A point of a group: a value of the axis `along`, if there is one, with the comparisons at it.
type At<'v> = (Option<Value>, Vec<Compared<'v>>);

/// Error rates of the set of best ways at a point with a primary comparison, and at another point: all
/// points with a primary comparison share one rate, and the other points of each comparison share one.
#[derive(Clone, Copy)]
struct ErrorRates {
    primary: f64,
    other: f64,
}

/// Findings of one comparison that differ in one further axis at most, such as the size.
struct Group<'v> {
    run: &'v Explained<'v>,
    compare: &'v Compare,
    metric: Metric,
    /// The first metric that would judge the group, where none of its comparisons is decided.
    open: Option<NothingDecided>,
    /// The further axis in which the findings differ.
    along: Option<Axis>,
    /// Values of axes that all findings share.
    place: Vec<(Axis, Value)>,
    /// The points of the group, in the study's order of the values of `along`.
    at: Vec<At<'v>>,
}

/// The advice that follows from the findings of a run.
pub(crate) fn advice<'v>(run: &'v Explained<'v>) -> Advice {
    let is_nothing_compared = run.judged.findings.is_empty();
    Advice {
        situations: situations(run),
        nothing: is_nothing_compared.then(|| undecided::why_nothing(run)),
        undecided: undecided::undecided(run),
    }
}

/// The situations of each comparison of the study. Those of a comparison after the first are left out
/// without advice; `Advice::undecided` counts them.
fn situations<'v>(run: &'v Explained<'v>) -> Vec<Situation> {
    // Of comparisons with the same axis, baseline and values only the first counts.
    let listed = run.measured.input.manifest.study.compare.iter();
    let compares = listed.unique_by(|c| (c.axis, &c.baseline, &c.values));
    let all = compares.map(|c| groups(run, c)).collect_vec();
    let error_rate = run.measured.error_rate();
    let points = all.iter().map(|groups| count_points(groups, true)).sum();
    let primary = level_of_each(error_rate, points);
    let of_compare = |(index, groups): (usize, &Vec<Group<'v>>)| {
        let rates = ErrorRates {
            primary,
            other: level_of_each(error_rate, count_points(groups, false)),
        };
        groups
            .iter()
            .flat_map(|group| group.situations(rates))
            .filter(|s| index == 0 || has_advice(s))
            .collect_vec()
    };
    all.iter().enumerate().flat_map(of_compare).collect()
}

/// The number of points with a primary comparison, or of the others.
fn count_points(groups: &[Group<'_>], primary: bool) -> usize {
    let at = groups.iter().flat_map(|group| &group.at);
    at.filter(|(_, compared)| is_primary(compared) == primary)
        .count()
}

fn has_advice(s: &Situation) -> bool {
    let uses = |u: &Use| u.gain.is_some() || !u.but.is_empty();
    let has_other = !(s.conditional.is_empty() && s.avoid.is_empty() && s.gains.is_empty());
    has_other || s.uses.iter().any(uses)
}

fn nothing_decided(metric: Metric, at: &[At<'_>]) -> Option<NothingDecided> {
    let findings = || at.iter().flat_map(|(_, all)| all).map(|c| c.finding);
    // Reasons are given only if all findings are withheld: more blocks may decide one that is not.
    let kinds: Option<Vec<CaveatKind>> = findings().map(|f| f.withheld).collect();
    (!findings().any(Finding::is_decided)).then(|| NothingDecided {
        metric,
        comparisons: findings().count(),
        withheld: kinds.into_iter().flatten().unique().collect(),
        blocks: findings().filter_map(|f| f.blocks_needed).min(),
    })
}

/// The groups of one comparison's findings, each with the metric that judges its ways.
fn groups<'v>(run: &'v Explained<'v>, compare: &'v Compare) -> Vec<Group<'v>> {
    let Some(&first) = compare.metrics.first() else {
        return Vec::new();
    };
    // A mover that wakes up is judged by how late it wakes, even if the study lists another metric first.
    let judging_metric = |cell: &CellTrials<'_>| {
        let own: &[Metric] = if cell.facts.wakes() {
            cell.facts.metrics()
        } else {
            &[]
        };
        let mut own = own.iter().filter(|m| compare.metrics.contains(m));
        *own.next().unwrap_or(&first)
    };
    let study = &run.measured.input.manifest.study;
    let cells = run.measured.trials.moving().map(|c| c.cell);
    let implied = implied_axes(compare.axis, cells);
    let is_judged = |f: &Finding| f.is_of(compare) && f.verdict != Verdict::NotJudged;
    let pairs = run.judged.pairs().filter(|pair| is_judged(pair.finding));
    let compared = pairs.filter_map(|pair| {
        let (finding, pair) = (pair.finding, pair.pairing);
        let (baseline, cell) = (pair.baseline, pair.other);
        let metric = Some(judging_metric(cell)).filter(|metric| *metric == finding.metric)?;
        let tier = study.tiers.iter().position(|t| is_part(t, cell));
        let along = range(&study.tiers, tier, compare.axis, cell);
        let compared_axes = along.into_iter().chain([compare.axis]);
        let free = compared_axes.chain(implied.iter().copied()).collect_vec();
        // The axes are those of the compared cell: a baseline may lack one, such as the depth. Servers whose
        // clients were the limit form a group of their own, since other advice holds for them.
        let limited =
            [cell, baseline].into_iter().any(clients_limit) || are_clients_of_both_busy(&pair);
        let key = (limited, cell.cell.id_without(&free));
        let compared = Compared {
            finding,
            cell,
            baseline,
            extra_conditions: more_conditions(run, compare.axis, cell, baseline),
        };
        Some(((tier.unwrap_or(usize::MAX), along, metric, key), compared))
    });
    let mut found = grouped(compared);
    found.sort_by_key(|((tier, ..), _)| *tier);
    let groups = found.into_iter().map(|((_, along, metric, _), members)| {
        Group::new(run, compare, metric, along, members).by_decided_metric()
    });
    groups.collect()
}

fn is_primary(at: &[Compared<'_>]) -> bool {
    at.iter().any(|c| c.finding.family == Family::Primary)
}

/// Returns true if a part of the study has the cell, at any size and with any congestion control: a later
/// part may add sizes, and the congestion control is the host's choice. An axis that does not apply to the
/// cell has its default there, whatever the part names.
fn is_part(tier: &Tier, cell: &CellTrials<'_>) -> bool {
    let is_free = |axis: Axis| [Axis::Congestion, Axis::Size].contains(&axis);
    let is_named = |axis: Axis| !is_free(axis) && cell.facts.applies(axis);
    let mut named = tier.axes.iter().filter(|(axis, _)| is_named(*axis));
    named.all(|(axis, values)| values.contains(&cell.cell.value(*axis)))
}

/// The first axis of [`RANGES`] that applies to the cell and of which its part of the study, or any part
/// if it is of none, has several values.
fn range(tiers: &[Tier], tier: Option<usize>, axis: Axis, cell: &CellTrials<'_>) -> Option<Axis> {
    let several = |along: &Axis| match tier {
        Some(tier) => tiers[tier].values(*along).len() > 1,
        None => tiers.iter().any(|t| t.values(*along).len() > 1),
    };
    let mut ranges = RANGES.into_iter().filter(|a| *a != axis);
    ranges.find(|a| cell.facts.applies(*a) && several(a))
}

/// The task of a reader for which a cell is a way, in a comparison over `axis`.
fn subject(axis: Axis, cell: &CellTrials<'_>) -> Subject {
    match (axis, cell.route) {
        (Axis::Mover, Route::MemoryToSocket) => Subject::DataInMemory,
        (Axis::Mover, Route::Nowhere) if cell.facts.is_sent() => Subject::DataInMemory,
        (Axis::Mover, Route::FileToSocket) => Subject::DataInFile,
        (Axis::Mover, Route::FileToMemory) => Subject::ReadFile,
        (Axis::Mover, Route::MemoryToFile) => Subject::WriteFile,
        (Axis::Mover, Route::FileToFile) => Subject::CopyFile,
        (Axis::Mover, Route::FileToNull) => Subject::FileToNull,
        (Axis::Mover, Route::Work) => Subject::Circumstance,
        (Axis::Server, _) if cell.cell.serving.all_connections() == 1 => Subject::OneConnection,
        (Axis::Server, _) => Subject::Connections,
        (axis, _) if CIRCUMSTANCES.contains(&axis) => Subject::Circumstance,
        _ => Subject::Choice,
    }
}

impl<'v> Group<'v> {
    fn new(
        run: &'v Explained<'v>,
        compare: &'v Compare,
        metric: Metric,
        along: Option<Axis>,
        members: Vec<Compared<'v>>,
    ) -> Group<'v> {
        let first = members.first().map(|first| first.cell);
        let place = first.map(|c| c.place(compare.axis, along, &run.measured.study.varied));
        let value_along = |c: &Compared<'_>| along.map(|axis| c.cell.cell.value(axis));
        let mut at = grouped(members.into_iter().map(|c| (value_along(&c), c)));
        if let Some(axis) = along {
            let cells = at.iter().flat_map(|(_, all)| all).map(|c| c.cell.cell);
            let order = grid::values(&run.measured.input.manifest.study, axis, cells);
            at.sort_by_key(|(x, _)| order.iter().position(|v| Some(v) == x.as_ref()));
        }
        Group {
            run,
            compare,
            metric,
            open: None,
            along,
            place: place.unwrap_or_default(),
            at,
        }
    }

    /// The same group by the first metric in which a comparison is decided. The group's own metric may
    /// decide nothing: a rate, for instance, may be limited by the clients.
    fn by_decided_metric(self) -> Group<'v> {
        let (own, mut open) = (self.metric, None);
        let others = self
            .compare
            .metrics
            .iter()
            .copied()
            .filter(|m| *m != own && is_cost(*m));
        for metric in std::iter::once(own).chain(others) {
            let by_metric = |c: &Compared<'v>| {
                let finding = self.finding(c, metric)?;
                Some(Compared {
                    finding,
                    ..c.clone()
                })
            };
            let at_value =
                |(x, all): &At<'v>| (x.clone(), all.iter().filter_map(by_metric).collect_vec());
            let at = self.at.iter().map(at_value).collect_vec();
            let mut all = at.iter().flat_map(|(_, all)| all);
            // A further metric is an answer only if two ways differ in it.
            let differs = metric == own || all.any(|c| c.finding.is_apart());
            match nothing_decided(metric, &at) {
                None if differs => {
                    return Group {
                        metric,
                        open,
                        at,
                        ..self
                    };
                }
                undecided => open = open.or(undecided),
            }
        }
        Group { open, ..self }
    }

    /// The finding on the same two cells by another metric.
    fn finding(&self, c: &Compared<'_>, metric: Metric) -> Option<&'v Finding> {
        let same = |f: &&Finding| {
            f.metric == metric && f.cell == c.finding.cell && f.baseline == c.finding.baseline
        };
        self.run.judged.findings.iter().find(same)
    }

    /// One situation for each task of a reader: data in memory and data in a file have different ways.
    fn situations(&self, rates: ErrorRates) -> Vec<Situation> {
        let axis = self.compare.axis;
        let all = || self.at.iter().flat_map(|(_, all)| all);
        let has_no_baseline = |s: &Subject| all().all(|c| subject(axis, c.baseline) != *s);
        // A subject without a baseline of its own in this group is left out if another finding has such a
        // baseline, which is fairer: files are then compared with a file.
        let is_fair = |s: &Subject| {
            let baseline = |f: &Finding| self.run.measured.trials.by_id(&f.baseline);
            let has_subject = |f: &Finding| baseline(f).is_some_and(|c| subject(f.axis, c) == *s);
            let mut findings = self.run.judged.findings.iter();
            !has_no_baseline(s) || !findings.any(|f| f.axis == axis && has_subject(f))
        };
        let subjects = all()
            .map(|c| subject(axis, c.cell))
            .unique_by(|s| *s as u8)
            .filter(is_fair);
        subjects
            .map(|s| self.situation(s, has_no_baseline(&s), rates))
            .collect()
    }

    fn situation(
        &self,
        subject_of: Subject,
        has_no_baseline: bool,
        rates: ErrorRates,
    ) -> Situation {
        let is_of = |c: &&Compared<'v>| subject(self.compare.axis, c.cell) == subject_of;
        let own = |(x, all): &At<'v>| (x.clone(), all.iter().filter(is_of).cloned().collect());
        let at: Vec<At<'v>> = self.at.iter().map(own).collect();
        let measured = |keep: &dyn Fn(&[Compared<'v>]) -> bool| -> Vec<Value> {
            let kept = at.iter().filter(|(_, all)| !all.is_empty() && keep(all));
            kept.filter_map(|(x, _)| x.clone()).collect()
        };
        let open = self.open.clone();
        let is_open = |c: &Compared<'_>| c.finding.withheld.is_none();
        let undecided = |c: &Compared<'_>| c.finding.verdict == Verdict::NotDecided;
        let is_choice = subject_of.is_choice();
        let worse = self.ranges(&at, self.metric, Verdict::Worse, &|_| true);
        let better = || self.ranges(&at, self.metric, Verdict::Better, &|_| true);
        let (uses, conditional, gains) = match subject_of {
            Subject::Circumstance => (Vec::new(), Vec::new(), better()),
            Subject::FileToNull => (Vec::new(), self.conditional(&at, rates), Vec::new()),
            _ => (
                self.uses(&at, has_no_baseline, rates),
                self.conditional(&at, rates),
                Vec::new(),
            ),
        };
        let values = at
            .iter()
            .flat_map(|(_, all)| all)
            .unique_by(|c| &c.finding.value);
        let is_free = |c: &Compared<'_>| is_choice && c.is_free();
        let may_be_best = at
            .iter()
            .filter_map(|(_, all)| self.may_be_best(all, is_free, rates));
        Situation {
            subject: subject_of,
            place: self.place.clone(),
            axis: self.compare.axis,
            baseline: self.compare.baseline.clone(),
            values: values.map(|c| c.finding.value.clone()).collect(),
            baseline_block: baseline_block(&at),
            baseline_is_apart: has_no_baseline,
            metric: self.metric,
            unit: self.run.measured.trials.unit,
            open: open.or_else(|| nothing_decided(self.metric, &at)),
            along: self.along,
            measured: measured(&|_| true),
            uses,
            may_be_best: may_be_best.flatten().map(|c| c.id.clone()).collect(),
            conditional,
            avoid: worse.into_iter().map(|cost| self.avoid(cost)).collect(),
            gains,
            undecided: measured(&|all| {
                all.iter().any(is_open) && all.iter().filter(|c| is_open(c)).all(undecided)
            }),
            withheld: measured(&|all| !all.iter().any(is_open)),
        }
    }

    /// **The rule.** Of the ways that `with` allows, those that may be the best (multiple comparisons with
    /// the best) and that corrected findings show to be better than the baseline. Empty if no finding shows
    /// a better way: the baseline is the advice then. `None` if all findings are withheld. If no way is in
    /// both sets, the findings decide, since a reader sees them.
    fn may_use(
        &self,
        at: &[Compared<'v>],
        with: impl Fn(&Compared<'v>) -> bool,
        rates: ErrorRates,
    ) -> Option<Vec<Compared<'v>>> {
        let best_cells = self.may_be_best(at, &with, rates)?;
        let open = at.iter().filter(|c| c.finding.withheld.is_none());
        let better = open.filter(|c| with(c) && c.finding.verdict == Verdict::Better);
        let better: Vec<Compared<'v>> = better.cloned().collect();
        let may_be_best = |c: &&Compared<'_>| best_cells.iter().any(|b| b.id == c.cell.id);
        let best: Vec<Compared<'v>> = better.iter().filter(may_be_best).cloned().collect();
        Some(if best.is_empty() { better } else { best })
    }

    /// The cells that may be the best, of the baseline and the ways that `with` allows; `None` if all
    /// findings are withheld.
    fn may_be_best(
        &self,
        at: &[Compared<'v>],
        with: impl Fn(&Compared<'v>) -> bool,
        rates: ErrorRates,
    ) -> Option<Vec<&'v CellTrials<'v>>> {
        let open = || at.iter().filter(|c| c.finding.withheld.is_none());
        let cells = open().filter(|c| with(c)).map(|c| c.cell);
        let cells = std::iter::once(open().next()?.baseline).chain(cells);
        let rate = if is_primary(at) {
            rates.primary
        } else {
            rates.other
        };
        let axis = self.compare.axis;
        let cells = cells.collect_vec();
        let comparisons = &self.run.measured.comparisons;
        Some(best_set(&cells, axis, self.metric, rate, comparisons))
    }

    /// The rule along the range: a segment is a row of points at all of which the same way may be used. If
    /// there are several such ways, the advice for the segment is the one with the safest bound.
    fn uses(&self, at: &[At<'v>], has_no_baseline: bool, rates: ErrorRates) -> Vec<Use> {
        // Segments with the ways that may be used at all of their points. A point whose findings are all
        // withheld ends a segment.
        let mut segments: Vec<(Vec<&Value>, Vec<At<'v>>)> = Vec::new();
        let mut is_ended = true;
        for point in at {
            let Some(usable) = self.may_use(&point.1, Compared::is_free, rates) else {
                is_ended = true;
                continue;
            };
            if !point.1.iter().any(|c| c.finding.is_decided()) {
                continue;
            }
            let names = usable.iter().map(|c| &c.finding.value).collect_vec();
            let last = segments.last_mut().filter(|_| !is_ended);
            is_ended = false;
            if let Some((common, part)) = last {
                let remaining = common
                    .iter()
                    .copied()
                    .filter(|n| names.contains(n))
                    .collect_vec();
                if !remaining.is_empty() || common.is_empty() && names.is_empty() {
                    *common = remaining;
                    part.push(point.clone());
                    continue;
                }
            }
            segments.push((names, vec![point.clone()]));
        }
        // Without a better way the advice is the baseline, unless that is for another subject.
        segments.retain(|(names, _)| !(names.is_empty() && has_no_baseline));
        segments
            .iter()
            .map(|(names, part)| self.one_use(part, names))
            .collect()
    }

    /// The advice for one segment: the safest of the ways `names`, or the baseline if there are none.
    fn one_use(&self, part: &[At<'v>], names: &[&Value]) -> Use {
        let bound = |name: &&&Value| {
            let own = part
                .iter()
                .flat_map(|(_, all)| all)
                .filter(|c| c.finding.value == ***name);
            let costs = own.map(|c| worst(c.finding));
            costs.fold(f64::NEG_INFINITY, f64::max)
        };
        let safest = names.iter().min_by(|a, b| bound(a).total_cmp(&bound(b)));
        let value = safest.map_or(&self.compare.baseline, |name| name);
        let is_used = |c: &Compared<'_>| c.finding.value == *value;
        let is_other = |m: &Metric| *m != self.metric && is_cost(*m);
        let others = self.compare.metrics.iter().copied().filter(is_other);
        let but = others.flat_map(|metric| match safest {
            Some(_) => self.ranges(part, metric, Verdict::Worse, &is_used),
            None => self.ranges(part, metric, Verdict::Better, &Compared::is_free),
        });
        let gain = || {
            self.ranges(part, self.metric, Verdict::Better, &is_used)
                .pop()
        };
        let own = |c: &Compared<'v>| {
            let cell = if is_used(c) { c.cell } else { c.baseline };
            (safest.is_none() || is_used(c)).then(|| conditions(self.run, self.compare.axis, cell))
        };
        let conditions = part.iter().flat_map(|(_, all)| all).find_map(own);
        Use {
            value: value.clone(),
            at: part.iter().filter_map(|(x, _)| x.clone()).collect(),
            gain: safest.and_then(|_| gain()),
            but: but.collect(),
            conditions: conditions.unwrap_or_default(),
        }
    }

    /// The ways with extra conditions, at the points where such a way is better than the baseline and may
    /// be the best of all ways that can be used under its conditions.
    fn conditional(&self, at: &[At<'v>], rates: ErrorRates) -> Vec<Conditional> {
        let is_best = |c: &Compared<'v>, all: &[Compared<'v>]| {
            let holds = |other: &Compared<'v>| {
                let mut conditions = other.extra_conditions.iter();
                conditions.all(|condition| c.extra_conditions.contains(condition))
            };
            let best = self.may_use(all, holds, rates).unwrap_or_default();
            !c.is_free() && best.iter().any(|b| b.cell.id == c.cell.id)
        };
        let best = at
            .iter()
            .map(|(x, all)| {
                let best = all.iter().filter(|c| is_best(c, all));
                (x.clone(), best.cloned().collect_vec())
            })
            .collect_vec();
        let gains = self.ranges(&best, self.metric, Verdict::Better, &|_| true);
        let conditional = gains.into_iter().filter_map(|gain| {
            let mut all = best.iter().flat_map(|(_, all)| all);
            let cell = all.find(|c| c.finding.value == gain.value)?.cell;
            let conditions = conditions(self.run, self.compare.axis, cell);
            Some(Conditional { conditions, gain })
        });
        conditional.collect()
    }

    /// The findings by a metric with a verdict, a range for each way; without withheld findings.
    fn ranges(
        &self,
        at: &[At<'v>],
        metric: Metric,
        verdict: Verdict,
        is_included: &dyn Fn(&Compared<'v>) -> bool,
    ) -> Vec<DecidedRange> {
        let decided_points = at.iter().flat_map(|(x, all)| {
            let own = all
                .iter()
                .filter(|c| is_included(c))
                .filter_map(|c| self.finding(c, metric));
            let decided = own.filter(|f| f.verdict == verdict && f.withheld.is_none());
            let point = |f: &Finding| DecidedPoint {
                at: x.clone(),
                ratio: f.ratio,
                low: f.low,
                high: f.high,
                has_no_amount: f.amount_withheld.is_some(),
                finding: f.number,
            };
            decided.map(|f| (f.value.clone(), point(f))).collect_vec()
        });
        let range = |(value, points)| DecidedRange {
            value,
            metric,
            verdict,
            points,
        };
        grouped(decided_points).into_iter().map(range).collect()
    }

    /// The advice to avoid a way, with a likely reason: copied buffers, or else a cause.
    fn avoid(&self, cost: DecidedRange) -> Avoid {
        let is_of = |c: &&Compared<'_>| cost.points.iter().any(|p| p.finding == c.finding.number);
        let cells = self.at.iter().flat_map(|(_, all)| all).filter(is_of);
        let results = self.run.measured;
        let value = |cell: &CellTrials<'_>, metric| results.result(&cell.id)?.value(metric);
        let copied = |c: &Compared<'_>| value(c.cell, Metric::both(Measure::CopiedShare));
        let copied: Option<Vec<f64>> = cells.clone().map(copied).collect();
        let least = copied.and_then(|all| all.into_iter().reduce(f64::min));
        let with = match least {
            Some(share) if share >= MOSTLY_COPIED => Some(AvoidWith::Copied(share)),
            _ => self.reason(&cost),
        };
        Avoid { cost, with }
    }

    /// The cause that explains at least half of the difference at more points of a range than any other
    /// cause, with these points.
    fn reason(&self, cost: &DecidedRange) -> Option<AvoidWith> {
        let reasons = cost.points.iter().filter_map(|point| {
            let cause = causes::reason(self.run, point.finding)?;
            Some((cause.of, (point, cause)))
        });
        let (of, at) = grouped(reasons)
            .into_iter()
            .max_by_key(|(_, at)| at.len())?;
        let (_, cause) = at.iter().max_by(|a, b| {
            let ratio = |p: &DecidedPoint| p.ratio.ln().abs();
            ratio(a.0).total_cmp(&ratio(b.0))
        })?;
        let is_everywhere = at.len() == cost.points.len();
        let places = at.iter().filter_map(|(point, _)| point.at.clone());
        Some(AvoidWith::Cause {
            of,
            from: cause.from,
            to: cause.to,
            at: if is_everywhere {
                Vec::new()
            } else {
                places.collect()
            },
        })
    }
}

/// The block size of the baseline, where the baseline moves data in blocks and the first way does not.
fn baseline_block(at: &[At<'_>]) -> Option<Value> {
    let first = at.iter().flat_map(|(_, all)| all).next()?;
    let goes_by_blocks = |cell: &CellTrials<'_>| cell.facts.applies(Axis::Block);
    let is_alone = goes_by_blocks(first.baseline) && !goes_by_blocks(first.cell);
    is_alone.then(|| first.baseline.cell.value(Axis::Block))
}

/// The less favourable bound of a finding's ratio, so that a larger one is worse for any metric.
fn worst(finding: &Finding) -> f64 {
    match finding.metric.better() {
        Better::Lower => finding.high,
        Better::Higher => 1.0 / finding.low,
    }
}

/// Returns true for costs, rates and times of both sides or of a server.
fn is_cost(metric: Metric) -> bool {
    matches!(metric.side, Side::Both | Side::Server)
        && MeasureKind::from(metric.measure) != MeasureKind::Number
}

//! What to use and what to avoid: one rule (`Group::may_use`), and the facts that follow from it.

use bytecost_spec::study::{Compare, Family, Tier};
use bytecost_spec::survey::{Condition, Route};
use bytecost_spec::{Axis, Better, Cell, Measure, Metric, Side};
use itertools::Itertools as _;

use crate::caveats::serving::clients_limit;
use crate::confidence::ERROR_RATE;
use crate::contrast::best_set;
use crate::grid::{self, RANGES, place};
use crate::grouping::grouped;
use crate::phrases;
use crate::result::{
    Advice, Avoid, AvoidWith, Conditional, DecidedPoint, DecidedRange, Finding, NothingDecided,
    Situation, Subject, Use, Verdict,
};
use crate::trials::CellTrials;
use crate::view::View;

mod sentence;
mod undecided;
mod words;

pub use words::UNDECIDED;

/// What is no choice of whoever moves bytes, but a circumstance.
const CIRCUMSTANCES: [Axis; 13] = [
    Axis::Transport,
    Axis::Size,
    Axis::Fields,
    Axis::Threads,
    Axis::Cache,
    Axis::Access,
    Axis::Neighbour,
    Axis::Cgroup,
    Axis::Connections,
    Axis::Idle,
    Axis::Rate,
    Axis::Service,
    Axis::Perf,
];
/// Times as many calls a message as the baseline's from which they are named beside a cost.
const MANY_CALLS: f64 = 2.5;
/// Calls a message more than the baseline's from which they are.
const MORE_CALLS: f64 = 0.5;
/// Share of copied buffers from which a zero-copy way is not one.
const COPIED: f64 = 0.5;

/// A way beside the baseline, at one place of the range.
#[derive(Clone, Copy)]
struct Compared<'v> {
    finding: &'v Finding,
    cell: &'v CellTrials<'v>,
    baseline: &'v CellTrials<'v>,
    condition: Option<Condition>,
}

/// Findings of one comparison that differ in one further axis at most, such as the size.
struct Group<'v> {
    view: &'v View<'v>,
    compare: &'v Compare,
    metric: Metric,
    /// What the study asks for first, where nothing of that is decided.
    open: Option<NothingDecided>,
    along: Option<Axis>,
    place: Vec<(Axis, String)>,
    /// The values along the range with what is compared at each, in order.
    at: Vec<(Option<String>, Vec<Compared<'v>>)>,
    /// The error rate of a place whose comparisons are primary, and of another one.
    rates: (f64, f64),
}

/// The advice of a run, and its sentences.
pub(crate) fn all<'v>(view: &'v View<'v>) -> Advice {
    let mut advice = Advice::default();
    // Of comparisons with one baseline the first says what is asked.
    let compares = view.input.manifest.study.compare.iter();
    let compares = compares.unique_by(|c| (c.axis, &c.baseline, &c.values));
    let all = compares.enumerate().flat_map(|(place, compare)| {
        let groups = groups(view, compare).into_iter();
        groups.map(move |group| (place, group))
    });
    let mut all: Vec<(usize, Group<'_>)> = all.collect();
    share_rate(&mut all, view.error_rate());
    for (place, group) in all {
        // What no further comparison decided is counted with all that is undecided.
        let told = |s: &Situation| place == 0 || says(s);
        advice
            .situations
            .extend(group.situations().into_iter().filter(told));
    }
    if view.findings.is_empty() {
        advice.nothing = Some(undecided::why_nothing(view));
    }
    advice.undecided = undecided::undecided(view);
    advice.lines = words::lines(view, &advice);
    advice
}

/// Whether anything was decided.
fn says(situation: &Situation) -> bool {
    let uses = |u: &Use| u.gain.is_some() || !u.but.is_empty();
    situation.uses.iter().any(uses)
        || !(situation.conditional.is_empty()
            && situation.avoid.is_empty()
            && situation.gains.is_empty())
}

/// Whether a finding says anything.
fn is_decided(finding: &Finding) -> bool {
    let none = matches!(finding.verdict, Verdict::NotDecided | Verdict::NotJudged);
    finding.withheld.is_none() && !none
}

/// What is to be said of findings of a metric, where none of them is decided.
fn nothing_decided<'f>(
    metric: Metric,
    findings: impl Iterator<Item = &'f Finding> + Clone,
) -> Option<NothingDecided> {
    if findings.clone().any(is_decided) {
        return None;
    }
    let reasons = findings.clone().filter_map(|f| f.withheld.clone());
    Some(NothingDecided {
        metric,
        comparisons: findings.clone().count(),
        withheld: reasons.unique().collect(),
        blocks: findings.filter_map(|f| f.blocks_needed).min(),
    })
}

/// The groups of what a comparison asks for first, in the order of the study's parts.
fn groups<'v>(view: &'v View<'v>, compare: &'v Compare) -> Vec<Group<'v>> {
    let Some(&first) = compare.metrics.first() else {
        return Vec::new();
    };
    // A thread that wakes up is asked how late it comes, whatever else the study counts.
    let metric = |of: &CellTrials<'_>| {
        let own: &[Metric] = match of.facts.wakes() {
            true => of.facts.metrics(),
            false => &[],
        };
        let mut own = own.iter().filter(|m| compare.metrics.contains(m));
        *own.next().unwrap_or(&first)
    };
    let study = &view.input.manifest.study;
    let of_compare = |f: &&Finding| {
        let is_of = f.axis == compare.axis && f.baseline_value == compare.baseline;
        is_of && compare.compares(&f.value) && f.verdict != Verdict::NotJudged
    };
    let findings = view.findings.iter().filter(of_compare);
    let compared = findings.filter_map(|finding| {
        let pair = view.trials.pair(finding)?;
        let (baseline, cell) = (pair.baseline, pair.other);
        let metric = Some(metric(cell)).filter(|metric| *metric == finding.metric)?;
        let tier = study.tiers.iter().position(|t| is_part(t, cell.cell));
        let along = range(&study.tiers, tier, compare.axis, cell);
        let free: Vec<Axis> = along.into_iter().chain([compare.axis]).collect();
        // The baseline's tells more: where it has no depth, say, the others' places differ.
        // Where clients were what limited a server, something else is said than elsewhere.
        let limited = [cell, baseline].into_iter().any(clients_limit);
        let key = (
            tier.unwrap_or(usize::MAX),
            along,
            metric,
            (limited, cell.cell.id_without(&free)),
        );
        let condition = condition(view, compare.axis, cell);
        let of = Compared {
            finding,
            cell,
            baseline,
            condition,
        };
        Some((key, of))
    });
    let mut found = grouped(compared);
    found.sort_by_key(|((tier, ..), _)| *tier);
    let groups = found.into_iter().map(|((_, along, metric, _), members)| {
        Group::of(view, compare, metric, along, members).of_what_is_decided()
    });
    groups.collect()
}

/// Gives each place its part of the error rate of best sets: all places of the study whose
/// comparisons are primary have one together, and those of each comparison that are not.
fn share_rate(all: &mut [(usize, Group<'_>)], error_rate: f64) {
    let places = |groups: &[(usize, Group<'_>)], of: Option<usize>| {
        let own = groups
            .iter()
            .filter(|(at, _)| of.is_none_or(|of| *at == of));
        let at = own.flat_map(|(_, group)| &group.at);
        let wanted = of.is_none();
        at.filter(|(_, all)| is_primary(all) == wanted).count()
    };
    let part = |places: usize| error_rate / places.max(1) as f64;
    let primary = part(places(all, None));
    for i in 0..all.len() {
        all[i].1.rates = (primary, part(places(all, Some(all[i].0))));
    }
}

/// Whether what is compared at a place is primary.
fn is_primary(at: &[Compared<'_>]) -> bool {
    at.iter().any(|c| c.finding.family == Family::Primary)
}

/// Whether a part of the study asks for the cell, whatever its size, since sizes between two of a
/// part are measured too. Which congestion control it got is the host's choice.
fn is_part(tier: &Tier, cell: &Cell) -> bool {
    let is_named = |axis: Axis| ![Axis::Congestion, Axis::Size].contains(&axis);
    let mut named = tier.axes.iter().filter(|(axis, _)| is_named(*axis));
    named.all(|(axis, values)| values.contains(&cell.value(*axis)))
}

/// The axis along which a part of the study goes, of those that apply to the cell.
fn range(tiers: &[Tier], tier: Option<usize>, axis: Axis, cell: &CellTrials<'_>) -> Option<Axis> {
    let several = |along: &Axis| match tier {
        Some(tier) => tiers[tier].values(*along).len() > 1,
        None => tiers.iter().any(|t| t.values(*along).len() > 1),
    };
    let mut ranges = RANGES.into_iter().filter(|a| *a != axis);
    ranges.find(|a| cell.facts.applies(*a) && several(a))
}

/// What must hold so that a way can be used.
fn condition(view: &View<'_>, axis: Axis, cell: &CellTrials<'_>) -> Option<Condition> {
    match axis {
        Axis::Mover => (view.input.manifest.survey.mover(&cell.cell.mover))?.condition(),
        Axis::Class => (cell.cell.class.needs_privilege()).then_some(Condition::Privilege),
        _ => None,
    }
}

/// What whoever compares these cells has.
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
        (Axis::Server, _) => Subject::Connections,
        (axis, _) if CIRCUMSTANCES.contains(&axis) => Subject::Circumstance,
        _ => Subject::Choice,
    }
}

impl<'v> Group<'v> {
    fn of(
        view: &'v View<'v>,
        compare: &'v Compare,
        metric: Metric,
        along: Option<Axis>,
        members: Vec<Compared<'v>>,
    ) -> Group<'v> {
        let place = members
            .first()
            .map(|first| place(first.cell, compare.axis, along, view.varied));
        let x = |c: &Compared<'_>| along.map(|axis| c.cell.cell.value(axis));
        let mut at = grouped(members.into_iter().map(|c| (x(&c), c)));
        if let Some(axis) = along {
            let cells = at.iter().flat_map(|(_, all)| all).map(|c| c.cell.cell);
            let order = grid::values(&view.input.manifest.study, axis, cells);
            at.sort_by_key(|(x, _)| order.iter().position(|v| Some(v) == x.as_ref()));
        }
        Group {
            view,
            compare,
            metric,
            open: None,
            along,
            place: place.unwrap_or_default(),
            at,
            rates: (ERROR_RATE, ERROR_RATE),
        }
    }

    /// The same by the first metric of which anything is decided: a rate that a server's clients
    /// limited, say, leaves what a request costs it.
    fn of_what_is_decided(self) -> Group<'v> {
        let (own, mut open) = (self.metric, None);
        let others = self.compare.metrics.iter().copied();
        let others = others.filter(|m| *m != own && is_cost(*m));
        for metric in std::iter::once(own).chain(others) {
            let of = |c: &Compared<'v>| {
                let finding = self.finding(c, metric)?;
                Some(Compared { finding, ..*c })
            };
            let of = |all: &Vec<Compared<'v>>| all.iter().filter_map(of).collect::<Vec<_>>();
            let at: Vec<_> = (self.at.iter())
                .map(|(x, all)| (x.clone(), of(all)))
                .collect();
            let findings = at.iter().flat_map(|(_, all)| all).map(|c| c.finding);
            // That two ways are alike in something else is no answer.
            let differs = |f: &Finding| matches!(f.verdict, Verdict::Better | Verdict::Worse);
            let differs = metric == own || findings.clone().any(differs);
            match nothing_decided(metric, findings) {
                None if differs => {
                    return Group {
                        metric,
                        open,
                        at,
                        ..self
                    };
                }
                none => open = open.or(none),
            }
        }
        Group { open, ..self }
    }

    /// The finding of two cells in a metric.
    fn finding(&self, c: &Compared<'_>, metric: Metric) -> Option<&'v Finding> {
        let same = |f: &&Finding| {
            f.metric == metric && f.cell == c.finding.cell && f.baseline == c.finding.baseline
        };
        self.view.findings.iter().find(same)
    }

    /// What each of a group's readers has to do: who has data in memory has other ways than who
    /// has it in a file.
    fn situations(&self) -> Vec<Situation> {
        let axis = self.compare.axis;
        let all = || self.at.iter().flat_map(|(_, all)| all);
        let subjects = all().map(|c| subject(axis, c.cell)).unique_by(|s| *s as u8);
        let apart = |s: &Subject| all().all(|c| subject(axis, c.baseline) != *s);
        // A baseline that has the data in a file is the fair one.
        let is_fair = |s: &Subject| {
            let baseline = |f: &Finding| self.view.trials.by_id(&f.baseline);
            let of = |f: &Finding| baseline(f).is_some_and(|c| subject(f.axis, c) == *s);
            !apart(s) || !self.view.findings.iter().any(|f| f.axis == axis && of(f))
        };
        let subjects = subjects.filter(is_fair);
        subjects.map(|s| self.situation(s, apart(&s))).collect()
    }

    fn situation(&self, subject_of: Subject, apart: bool) -> Situation {
        let is_of = |c: &&Compared<'v>| subject(self.compare.axis, c.cell) == subject_of;
        let at: Vec<Vec<Compared<'v>>> = (self.at.iter())
            .map(|(_, all)| all.iter().filter(is_of).copied().collect())
            .collect();
        let measured = |keep: &dyn Fn(&[Compared<'v>]) -> bool| -> Vec<String> {
            let places = self.at.iter().zip(&at);
            let kept = places.filter(|(_, all)| !all.is_empty() && keep(all));
            kept.filter_map(|((x, _), _)| x.clone()).collect()
        };
        let own = at.iter().flatten().map(|c| c.finding);
        let open = self.open.clone();
        let is_open = |c: &Compared<'_>| c.finding.withheld.is_none();
        let undecided = |c: &Compared<'_>| c.finding.verdict == Verdict::NotDecided;
        let is_choice = subject_of != Subject::Circumstance;
        let worse = self.ranges(&at, self.metric, Verdict::Worse, &|_| true);
        let better =
            |is: &dyn Fn(&Compared<'v>) -> bool| self.ranges(&at, self.metric, Verdict::Better, is);
        let (uses, conditional, gains) = match is_choice {
            true => (self.uses(&at, apart), self.conditional(&at), Vec::new()),
            false => (Vec::new(), Vec::new(), better(&|_| true)),
        };
        Situation {
            subject: subject_of,
            place: self.place.clone(),
            axis: self.compare.axis,
            baseline: self.compare.baseline.clone(),
            baseline_is_apart: apart,
            metric: self.metric,
            unit: self.view.trials.unit,
            open: open.or_else(|| nothing_decided(self.metric, own)),
            along: self.along,
            measured: measured(&|_| true),
            uses,
            conditional,
            avoid: worse.into_iter().map(|cost| self.avoid(cost)).collect(),
            gains,
            undecided: measured(&|all| all.iter().filter(|c| is_open(c)).all(undecided)),
            withheld: measured(&|all| !all.iter().any(is_open)),
        }
    }

    /// **The rule.** Of the ways without a condition, those that may be the best (multiple
    /// comparisons with the best, at the rate of the place) and that the run's corrected findings show
    /// to be better than the baseline. None where no finding does, so that the baseline may be the
    /// best itself and is the advice. Nothing at all where the baseline's findings are withheld.
    ///
    /// Both corrections are one-sided towards the baseline: where only one of the two excludes it,
    /// the findings decide, since they are what a reader sees.
    fn may_use(
        &self,
        at: &[Compared<'v>],
        with: impl Fn(&Compared<'v>) -> bool,
    ) -> Option<Vec<Compared<'v>>> {
        let open = at.iter().filter(|c| c.finding.withheld.is_none());
        let free: Vec<Compared<'v>> = open.copied().filter(|c| with(c)).collect();
        let baseline = at.iter().find(|c| c.finding.withheld.is_none())?.baseline;
        let is_better = |c: &&Compared<'_>| c.finding.verdict == Verdict::Better;
        let better: Vec<Compared<'v>> = free.iter().filter(is_better).copied().collect();
        let cells = std::iter::once(baseline)
            .chain(free.iter().map(|c| c.cell))
            .collect_vec();
        let (primary, other) = self.rates;
        let rate = if is_primary(at) { primary } else { other };
        let moderations = self.view.trials.moderations();
        let best = best_set(&cells, self.compare.axis, self.metric, rate, moderations);
        let may_be_best =
            |c: &&Compared<'_>| best.iter().any(|b| b.in_best_set && b.cell.id == c.cell.id);
        let best: Vec<Compared<'v>> = better.iter().filter(may_be_best).copied().collect();
        Some(if best.is_empty() { better } else { best })
    }

    /// The rule along the range, wherever anything is decided: a way is kept as long as it may be
    /// used, and of several the one whose bound is safest is taken.
    fn uses(&self, at: &[Vec<Compared<'v>>], apart: bool) -> Vec<Use> {
        let may: Vec<Option<Vec<Compared<'v>>>> = (at.iter())
            .map(|all| self.may_use(all, |c| c.condition.is_none()))
            .collect();
        let decided = |place: &usize| at[*place].iter().any(|c| is_decided(c.finding));
        // The names that may be used all along, and the places: what is withheld parts two ways.
        let mut stretches: Vec<(Vec<&str>, Vec<usize>)> = Vec::new();
        let mut parted = true;
        for (place, here) in may.iter().enumerate() {
            let Some(here) = here else {
                parted = true;
                continue;
            };
            if !decided(&place) {
                continue;
            }
            let names: Vec<&str> = here.iter().map(|c| c.finding.value.as_str()).collect();
            let last = stretches.last_mut().filter(|_| !parted);
            parted = false;
            if let Some((common, places)) = last {
                let still = common
                    .iter()
                    .copied()
                    .filter(|n| names.contains(n))
                    .collect_vec();
                if !still.is_empty() || common.is_empty() && names.is_empty() {
                    *common = still;
                    places.push(place);
                    continue;
                }
            }
            stretches.push((names, vec![place]));
        }
        let told = stretches
            .iter()
            .filter(|(names, _)| !(names.is_empty() && apart));
        told.map(|(names, places)| self.one_use(at, places, names))
            .collect()
    }

    fn one_use(&self, at: &[Vec<Compared<'v>>], span: &[usize], names: &[&str]) -> Use {
        let own = at.iter().enumerate();
        let own = own.map(|(i, all)| match span.contains(&i) {
            true => all.clone(),
            false => Vec::new(),
        });
        let part: Vec<Vec<Compared<'v>>> = own.collect();
        let bound = |name: &&&str| {
            let own = part.iter().flatten().filter(|c| c.finding.value == **name);
            own.map(|c| worst(c.finding))
                .fold(f64::NEG_INFINITY, f64::max)
        };
        let safest = names.iter().min_by(|a, b| bound(a).total_cmp(&bound(b)));
        let value = safest.map_or(self.compare.baseline.as_str(), |name| name);
        let of = |c: &Compared<'_>| c.finding.value == value;
        let told = |m: &Metric| *m != self.metric && is_cost(*m);
        let others = self.compare.metrics.iter().copied().filter(told);
        let but = others.flat_map(|metric| match safest {
            Some(_) => self.ranges(&part, metric, Verdict::Worse, &of),
            None => self.ranges(&part, metric, Verdict::Better, &|c| c.condition.is_none()),
        });
        let xs = span.iter().map(|place| &self.at[*place]);
        Use {
            value: value.to_owned(),
            at: xs.filter_map(|(x, _)| x.clone()).collect(),
            gain: safest.and_then(|_| {
                let mut gains = self.ranges(&part, self.metric, Verdict::Better, &of);
                gains.pop()
            }),
            ties: (names.iter().filter(|n| **n != value))
                .map(|n| (*n).to_owned())
                .collect(),
            but: but.collect(),
        }
    }

    /// Ways with a condition where they may be the best of all, and are better.
    fn conditional(&self, at: &[Vec<Compared<'v>>]) -> Vec<Conditional> {
        let best: Vec<Vec<Compared<'v>>> = (at.iter())
            .map(|all| self.may_use(all, |_| true).unwrap_or_default())
            .collect();
        let gains = self.ranges(&best, self.metric, Verdict::Better, &|c| {
            c.condition.is_some()
        });
        let condition = |gain: &DecidedRange| {
            let mut all = best.iter().flatten();
            all.find(|c| c.finding.value == gain.value)?.condition
        };
        let told = gains.into_iter().filter_map(|gain| {
            Some(Conditional {
                condition: condition(&gain)?,
                gain,
            })
        });
        told.collect()
    }

    /// The findings of a metric with one verdict that nothing withholds, a range for each way.
    fn ranges(
        &self,
        at: &[Vec<Compared<'v>>],
        metric: Metric,
        verdict: Verdict,
        is: &dyn Fn(&Compared<'v>) -> bool,
    ) -> Vec<DecidedRange> {
        let points = self.at.iter().zip(at).flat_map(|((x, _), all)| {
            let own = all.iter().filter(|c| is(c));
            let own = own.filter_map(|c| self.finding(c, metric));
            let decided = own.filter(|f| f.verdict == verdict && f.withheld.is_none());
            let point = |f: &Finding| DecidedPoint {
                at: x.clone(),
                ratio: f.ratio,
                low: f.low,
                high: f.high,
                finding: f.id.clone(),
            };
            decided.map(|f| (f.value.clone(), point(f))).collect_vec()
        });
        let ranges = grouped(points).into_iter();
        ranges
            .map(|(value, points)| DecidedRange {
                value,
                metric,
                verdict,
                points,
            })
            .collect()
    }

    /// A cost with what goes along with it.
    fn avoid(&self, cost: DecidedRange) -> Avoid {
        let is_of = |c: &&Compared<'_>| cost.points.iter().any(|p| p.finding == c.finding.id);
        let cells = self
            .at
            .iter()
            .flat_map(|(_, all)| all)
            .filter(is_of)
            .collect_vec();
        let value = |cell: &CellTrials<'_>, metric| self.view.result(&cell.id)?.value(metric);
        let copied = cells
            .iter()
            .map(|c| value(c.cell, Metric::both(Measure::CopiedShare)));
        let copied: Option<Vec<f64>> = copied.collect();
        let least = copied.and_then(|all| all.into_iter().reduce(f64::min));
        let calls = |cell| value(cell, Metric::of(Measure::CallsPerMessage, Side::Sender));
        let all = cells
            .iter()
            .map(|c| Some((calls(c.cell)?, calls(c.baseline)?)));
        let all: Option<Vec<(f64, f64)>> = all.collect();
        let has_many =
            |(own, base): &(f64, f64)| own - base >= MORE_CALLS && *own >= MANY_CALLS * base;
        let all = all.filter(|all| all.iter().all(has_many));
        let most = all.and_then(|all| all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)));
        let with = match (least, most) {
            (Some(share), _) if share >= COPIED => Some(AvoidWith::Copied(share)),
            (_, Some((own, base))) => Some(AvoidWith::Calls(own, base)),
            _ => None,
        };
        Avoid { cost, with }
    }
}

/// The bound of a finding that speaks against its way, as a cost.
fn worst(finding: &Finding) -> f64 {
    match finding.metric.better() {
        Better::Lower => finding.high,
        Better::Higher => 1.0 / finding.low,
    }
}

/// Whether a metric is something that users pay or wait for, on both sides or on a server.
fn is_cost(metric: Metric) -> bool {
    matches!(metric.side, Side::Both | Side::Server) && !phrases::is_count(metric)
}

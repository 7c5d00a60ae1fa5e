//! Work of two threads on CPUs that share a core or not.

use bytecost_spec::survey::WorkKind;
use bytecost_spec::{Axis, Measure, Metric, Nearness, Placement};

use super::pairs::{Answer, MeasuredWay, PairQuery, Versus};
use crate::grouping::grouped;
use crate::result::{Fact, Missing, Verdict};
use crate::stages::Explained;

pub(super) const ONE_CPU: Placement = Placement::Near(Nearness::SameCpu);
/// CPU time a step together, over alone, from which a core is shared; below the other it is not.
const SHARED: f64 = 1.25;
const OWN: f64 = 1.12;

const TOGETHER: PairQuery = PairQuery {
    axes: &[Axis::Threads],
    pairs: |one, two| two.route().is_work() && one.cell().threads == 1 && two.cell().threads == 2,
    metrics: |_| vec![vec![Metric::both(Measure::CpuNsPerMessage)]],
};

/// By turns on one CPU a step costs the same CPU time. Two hardware threads of one core slow each
/// other: each step costs more. Wall time alone does not show which it is, and work on memory slows
/// by itself.
pub(super) fn shared(run: &Explained<'_>) -> Option<Answer> {
    let asked = run.ask(&TOGETHER);
    let steps = asked.all().filter(|v| {
        // Which two CPUs the scheduler chose, nobody knows.
        let is_held = v.other.cell().placement != ONE_CPU && !v.other.is_free();
        let is_known = v.withheld().is_none() && v.pair.has_amount();
        is_held && v.other.works(WorkKind::Registers) && is_known
    });
    let places = grouped(steps.map(|v| (v.other.cell().placement.to_string(), v)));
    let core = |(placement, of): (String, Vec<&Versus<'_>>)| {
        let mut ratios = of.iter().map(|v| (v.verdict(), v.pair.ratio()));
        let is_own = ratios.clone().all(|(_, ratio)| ratio.high < OWN);
        let is_shared = ratios.any(|(verdict, r)| verdict == Verdict::Worse && r.low > SHARED);
        Fact::Core {
            placement,
            is_shared: (is_shared || is_own).then_some(is_shared),
        }
    };
    let facts: Vec<Fact> = places.into_iter().map(core).collect();
    Some(Answer {
        missing: facts.is_empty().then_some(Missing::Cells),
        facts,
        ..asked.answer()
    })
}

pub(super) fn is_pair_on_one_cpu(way: MeasuredWay<'_>) -> bool {
    way.cell().threads == 2 && way.cell().placement == ONE_CPU
}

/// Work that needs nothing but a core shows a shared core; work in memory slows down without one.
const BY_TURNS: PairQuery = PairQuery {
    axes: &[Axis::Placement],
    pairs: |one, two| is_pair_on_one_cpu(one) && two.works(WorkKind::Registers) && two.is_alone(),
    metrics: |_| vec![vec![Metric::both(Measure::MessagesPerS)]],
};

/// The rate of two threads on two CPUs over that on one, judged or not.
pub(super) fn turns(run: &Explained<'_>) -> Option<Answer> {
    let asked = run.ask(&BY_TURNS);
    let has_amount = asked.all().any(|v| v.pair.has_amount());
    Some(Answer {
        missing: (!has_amount).then_some(Missing::Cells),
        ..asked.answer()
    })
}

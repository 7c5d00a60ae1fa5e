//! The questions of a report, each answered by comparisons and further facts, or with the missing data.

use bytecost_spec::evidence::Means;
use bytecost_spec::survey::{InFlight, Route, WorkKind};
use bytecost_spec::{Axis, Cell, Class, HugePages, Measure, Metric, Side};
use itertools::Itertools as _;

use crate::causes::{greatest, is_worth_a_reason};
use crate::result::{CauseMeans, Explanation, Fact, Finding, Missing, PairSeen, Question};
use crate::stages::Explained;

mod cache_levels;
mod cache_steps;
mod cores;
mod pairs;
mod servers;
mod sockets;
mod unexpected;

use cores::ONE_CPU;
use pairs::{Answer, MeasuredWay, PairQuery, ZERO_COPY};
use servers::{is_busy, is_kept_busy, serves};

/// A question, the runs that it is about, and the way to answer it.
struct Row {
    question: Question,
    asks: fn(&Explained<'_>) -> bool,
    by: By,
}

enum By {
    Pairs(PairQuery),
    /// By a function of its own; none where there is nothing to explain.
    Own(fn(&Explained<'_>) -> Option<Answer>),
}

const RATE: Metric = Metric::both(Measure::MessagesPerS);
const SPEED: Metric = Metric::both(Measure::ThroughputGbitPerS);

/// Several threads that are held on one CPU take turns: that is no gain or loss of pinning.
const PINNED: PairQuery = PairQuery {
    axes: &[Axis::Placement],
    pairs: |free, held| {
        let is_alone = held.cell().threads == 1 || held.cell().placement != ONE_CPU;
        held.route().is_work() && free.is_free() && is_alone
    },
    metrics: |_| vec![vec![RATE]],
};

/// Every question, in the order of answers.
const QUESTIONS: &[Row] = &[
    Row {
        question: Question::WhyOneWayWins,
        asks: |_| true,
        by: By::Own(causes),
    },
    Row {
        question: Question::CopiesPerByte,
        asks: |_| true,
        by: By::Own(copies),
    },
    Row {
        question: Question::ZeroCopyNotFastest,
        asks: sends_without_a_copy,
        by: By::Own(sockets::not_fastest),
    },
    Row {
        question: Question::ZeroCopyAgainstCopying,
        asks: sends_without_a_copy,
        by: By::Own(sockets::from_what_size),
    },
    Row {
        question: Question::OneCallAgainstSeveral,
        asks: |run| run.plans(copies_fields),
        by: By::Pairs(PairQuery {
            pairs: |several, one| {
                let both_copy = several.copies() && one.copies();
                let is_one = several.calls_often() && !one.calls_often();
                several.uses_fields() && both_copy && is_one
            },
            ..ZERO_COPY
        }),
    },
    Row {
        question: Question::ThreadsAndCaches,
        asks: |run| run.plans(|w| w.is_zero_copy() || copies_fields(w)),
        by: By::Own(cache_levels::with_threads),
    },
    Row {
        question: Question::CacheLevel,
        asks: sends_without_a_copy,
        by: By::Own(cache_levels::gains_most),
    },
    Row {
        question: Question::AsynchronousSlower,
        asks: |run| run.plans(|w| w.is_asynchronous_read()),
        by: By::Pairs(PairQuery {
            axes: &[Axis::Mover],
            pairs: |one, other| {
                let is_synchronous = one.route() == Route::FileToMemory;
                is_synchronous && !one.is_asynchronous_read() && other.is_asynchronous_read()
            },
            metrics: |_| vec![vec![SPEED]],
        }),
    },
    Row {
        question: Question::SendfileSaves,
        asks: |run| {
            let to_socket = |w: MeasuredWay<'_>| w.route() == Route::FileToSocket;
            let sends = |lends| run.plans(|w| to_socket(w) && w.lends_pages() == lends);
            sends(true) && sends(false) || run.plans(|w| w.route() == Route::FileToNull)
        },
        by: By::Pairs(PairQuery {
            axes: &[Axis::Mover],
            pairs: |reads, other| {
                let is_helped = |w: MeasuredWay<'_>| w.in_flight() == InFlight::OneByProcess;
                let both = |route| reads.route() == route && other.route() == route;
                let lends = !reads.lends_pages() && other.lends_pages();
                let spares = both(Route::FileToSocket) && lends || both(Route::FileToNull);
                spares && is_helped(reads) == is_helped(other)
            },
            metrics: |_| {
                let cost = |side| Metric::new(Measure::CpuSPerGb, side);
                let time = vec![Metric::both(Measure::MsPerMessage), SPEED];
                vec![vec![cost(Side::Sender), cost(Side::Both)], time]
            },
        }),
    },
    Row {
        question: Question::WhichServer,
        asks: serves,
        by: By::Pairs(PairQuery {
            axes: &[Axis::Server],
            pairs: |one, other| is_busy(one) && is_busy(other),
            metrics: |_| vec![vec![RATE]],
        }),
    },
    Row {
        question: Question::IdleConnections,
        asks: serves,
        by: By::Pairs(PairQuery {
            axes: &[Axis::Idle],
            pairs: |alone, other| alone.cell().serving.idle == 0 && is_kept_busy(other),
            metrics: |_| vec![vec![RATE]],
        }),
    },
    Row {
        question: Question::ClientsShare,
        asks: serves,
        by: By::Own(servers::clients_share),
    },
    Row {
        question: Question::MemoryPerConnection,
        asks: serves,
        by: By::Own(servers::memory),
    },
    Row {
        question: Question::SingleSoonest,
        asks: serves,
        by: By::Pairs(PairQuery {
            axes: &[Axis::Server],
            pairs: |single, _| single.server.is_some_and(|s| s.in_turn),
            metrics: |_| {
                let both = [Measure::LatencyUsP50, Measure::LatencyUsP99];
                both.map(|m| vec![Metric::both(m)]).to_vec()
            },
        }),
    },
    Row {
        question: Question::Unexpected,
        asks: |run| !run.measured.input.manifest.study.expects.is_empty(),
        by: By::Own(unexpected::ask),
    },
    Row {
        question: Question::SharedCore,
        asks: |run| run.plans(|w| w.route().is_work() && w.cell().threads == 2),
        by: By::Own(cores::shared),
    },
    Row {
        question: Question::Pinning,
        asks: |run| {
            let plans = |free| run.plans(|w| w.route().is_work() && w.is_free() == free);
            plans(true) && plans(false)
        },
        by: By::Pairs(PINNED),
    },
    Row {
        question: Question::TakingTurns,
        asks: |run| run.plans(|w| w.route().is_work() && cores::is_pair_on_one_cpu(w)),
        by: By::Own(cores::turns),
    },
    Row {
        question: Question::CacheSteps,
        asks: |run| !cache_steps::kinds(run).is_empty(),
        by: By::Own(cache_steps::ask),
    },
    Row {
        question: Question::HugePages,
        asks: |run| run.plans(|w| in_huge_pages(w.cell())) || run.refused(in_huge_pages).is_some(),
        by: By::Own(huge_pages),
    },
    Row {
        question: Question::IsolationProtects,
        asks: |run| {
            let is_loaded = |w: MeasuredWay<'_>| !w.is_alone() && !w.works(WorkKind::Beats);
            run.plans(|w| is_set_apart(w) && is_loaded(w))
        },
        by: By::Pairs(PairQuery {
            axes: &[Axis::Background],
            pairs: |alone, loaded| {
                let is_work = loaded.route().is_work() && !loaded.works(WorkKind::Beats);
                is_work && alone.is_alone()
            },
            ..PINNED
        }),
    },
    Row {
        question: Question::IsolationWakes,
        asks: |run| run.plans(|w| is_set_apart(w) && w.works(WorkKind::Beats)),
        by: By::Pairs(PairQuery {
            axes: &[Axis::Class, Axis::Cgroup],
            pairs: |usual, other| other.works(WorkKind::Beats) && !is_set_apart(usual),
            // The latest of a hundred wake-ups.
            metrics: |_| vec![vec![Metric::both(Measure::LatencyUsP99)]],
        }),
    },
    Row {
        question: Question::CeilingShare,
        asks: |run| {
            run.measured
                .cells
                .iter()
                .any(|c| c.ceiling.as_ref().is_some_and(|s| s.share.is_some()))
        },
        by: By::Own(|_| Some(Answer::default())),
    },
];

/// The questions that the run is about. Those that no run on this machine can answer come last.
pub(crate) fn all(run: &Explained<'_>) -> Vec<Explanation> {
    let asked = QUESTIONS.iter().filter(|row| (row.asks)(run));
    let found = asked.filter_map(|row| {
        let Answer {
            missing,
            pairs,
            facts,
        } = match &row.by {
            By::Pairs(query) => run.ask(query).answer(),
            By::Own(answer) => answer(run)?,
        };
        Some(Explanation {
            question: row.question,
            missing,
            pairs,
            facts,
        })
    });
    let is_never = |e: &Explanation| matches!(e.missing, Some(Missing::Misses { .. }));
    found.sorted_by_key(is_never).collect()
}

fn sends_without_a_copy(run: &Explained<'_>) -> bool {
    run.plans(|w| w.is_zero_copy())
}

fn copies_fields(way: MeasuredWay<'_>) -> bool {
    way.uses_fields() && way.copies()
}

fn in_huge_pages(cell: &Cell) -> bool {
    cell.huge_pages == HugePages::On
}

const HUGE_PAGES: PairQuery = PairQuery {
    axes: &[Axis::HugePages],
    pairs: |off, on| {
        let is_other = off.cell().huge_pages == HugePages::Off;
        let is_quiet = on.is_alone() && on.cell().threads == 1;
        is_other && in_huge_pages(on.cell()) && is_quiet
    },
    metrics: |_| vec![vec![Metric::both(Measure::CpuNsPerMessage)]],
};

/// The comparisons of huge pages; where there are none, the reason for which their cells were refused.
fn huge_pages(run: &Explained<'_>) -> Option<Answer> {
    let found = run.ask(&HUGE_PAGES).answer();
    let refused = run
        .refused(in_huge_pages)
        .filter(|_| found.pairs.is_empty());
    Some(Answer {
        missing: refused.map(Missing::Refused).or(found.missing),
        ..found
    })
}

fn is_set_apart(way: MeasuredWay<'_>) -> bool {
    let cell = way.cell();
    way.route().is_work() && (cell.class != Class::default() || !cell.cgroup.is_none())
}

/// The reason for which there is no evidence, by the first of some means that the run used for it; none where it
/// used none. `otherwise` is that of a means that was not refused.
fn without_evidence(run: &Explained<'_>, means: &[Means], otherwise: Missing) -> Option<Missing> {
    let asked = means
        .iter()
        .filter_map(|means| run.measured.input.asked_evidence(*means))
        .find(|asked| !asked.unasked)?;
    let refused = asked.refused.clone();
    Some(refused.map_or(otherwise, Missing::Refused))
}

/// The decided findings whose causes are known, those with the greatest ratio first.
fn causes(run: &Explained<'_>) -> Option<Answer> {
    let causes = |f: &Finding| run.causes.iter().find(|c| c.finding == f.number);
    let has_causes =
        |f: &&Finding| is_worth_a_reason(f, &run.measured.stalls) && causes(f).is_some();
    let is_counted = |f: &Finding| causes(f).is_some_and(|c| c.by != CauseMeans::TimedTrials);
    let findings = greatest(run.judged.findings.iter().filter(has_causes), is_counted);
    let missing = if findings.is_empty() {
        let means = [Means::Copies, Means::Counts, Means::Time];
        Some(without_evidence(run, &means, Missing::Difference)?)
    } else {
        None
    };
    let pairs = findings.into_iter().map(|f| PairSeen {
        finding: f.number,
        is_turned: false,
    });
    let sampled = run.measured.input.asked_evidence(Means::Time);
    let no_samples = sampled.and_then(|asked| asked.refused.clone());
    Some(Answer {
        missing,
        pairs: pairs.collect(),
        facts: no_samples.map(Fact::NoCpuSamples).into_iter().collect(),
    })
}

/// The answer about copies; none where they were neither counted nor asked for.
fn copies(run: &Explained<'_>) -> Option<Answer> {
    let mut copies = run.measured.copies.iter();
    let is_counted = copies.any(|c| !c.is_flagged_only() && run.measured.result(&c.cell).is_some());
    let missing = if is_counted {
        None
    } else {
        Some(without_evidence(run, &[Means::Copies], Missing::Evidence)?)
    };
    Some(Answer {
        missing,
        ..Answer::default()
    })
}

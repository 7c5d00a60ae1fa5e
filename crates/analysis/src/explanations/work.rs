//! Work that moves nothing: cores, CPUs, placements, pages, classes and groups.

use bytecost_spec::survey::WorkKind;
use bytecost_spec::{Axis, Cell, Class, HugePages, Measure, Metric, Nearness, Placement};
use itertools::Itertools as _;

use super::asked::{
    AskedPairs, MeasuredWay, NONE, PairQuery, Versus, have_amounts, hull, joined, ratios,
};
use super::{Answered, Answers, Explained, Question, cache_steps};
use crate::grouping::grouped;
use crate::matrix;
use crate::phrases;
use crate::result::Verdict;

const DONE: Metric = Metric::both(Measure::MessagesPerS);
const STEP: Metric = Metric::both(Measure::CpuNsPerMessage);
const LATE: Metric = Metric::both(Measure::LatencyUsP99);
const ONE_CPU: Placement = Placement::Near(Nearness::SameCpu);
const SIBLINGS: Placement = Placement::Near(Nearness::SmtSibling);

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        key: "cpu-distance",
        text: "What does the distance between two CPUs cost, and does what they share explain it?",
        asks: |run| run.plans(|w| w.route().is_ping()),
        answers: Answers::Own(distance),
        would_change: "CPUs that never sleep while they idle, which makes wake-ups across CPUs cheaper, other pairs (--placement), and a quiet machine",
    },
    Question {
        key: "shared-core",
        text: "Do the two CPUs seem to share a core, whatever the kernel reports?",
        asks: |run| run.plans(|w| w.route().is_work() && w.cell().threads == 2),
        answers: Answers::Own(shared_core),
        would_change: "a quiet machine, where the CPU time of a step is not raised by what others do on the host's cores",
    },
    Question {
        key: "pinning",
        text: "What does it change to hold threads on CPUs, alone and beside background load?",
        asks: |run| {
            let is_free = |w: MeasuredWay<'_>| w.cell().placement == Placement::Free;
            let plans = |free| run.plans(|w| w.route().is_work() && is_free(w) == free);
            plans(true) && plans(false)
        },
        answers: Answers::Pairs(PINNED, moves),
        would_change: "load that comes and ceases on some CPUs and not on others (--background spin@0), more threads than CPUs, or CPUs that share no cache",
    },
    Question {
        key: "taking-turns",
        text: "Do two threads that slow each other share a core, or take turns on one CPU?",
        asks: |run| run.plans(|w| w.route().is_work() && is_pair_on_one_cpu(w)),
        answers: Answers::Own(turns),
        would_change: "a machine whose hardware threads are visible (placement smt-sibling), or other work: what waits for memory leaves a core to its sibling",
    },
    cache_steps::QUESTION,
    Question {
        key: "huge-pages",
        text: "From which working set on do huge pages make an access cheaper, and why?",
        asks: |run| run.plans(|w| in_huge_pages(w.cell())) || run.refused(in_huge_pages).is_some(),
        answers: Answers::Own(huge_pages),
        would_change: "another order of access: in order the next page is known before it is needed, so that its translation is too; and under a hypervisor, whether the host backs the guest's memory with huge pages",
    },
    Question {
        key: "isolation-protects",
        text: "Which scheduler class or control group keeps work from background load?",
        asks: |run| {
            let is_beside = |w: MeasuredWay<'_>| !w.cell().neighbour.is_idle();
            run.plans(|w| is_set_apart(w) && !w.works(WorkKind::Beats) && is_beside(w))
        },
        answers: Answers::Pairs(BESIDE, limits),
        would_change: "background load of another class or in a group of its own, more threads than CPUs, and caches and memory, which no class or group divides",
    },
    Question {
        key: "isolation-wakes",
        text: "What do a class, a weight and a quota do to wake-ups?",
        asks: |run| run.plans(|w| is_set_apart(w) && w.works(WorkKind::Beats)),
        answers: Answers::Pairs(WAKES, throttled),
        would_change: "other intervals between beats, other amounts of work at each, and other periods of the quota: a thread that has used it up waits for the end of its period",
    },
];

/// What the distance between two CPUs costs two threads that take turns: the words of the matrix.
fn distance(run: &Explained<'_>) -> Option<Answered> {
    let all = matrix::all(run);
    let words = all.iter().flat_map(|m| {
        let place = phrases::joined_circumstances(&m.panel);
        let said = move |words| format!("`{}`{place}: {words}", m.mover);
        m.words.iter().map(said).enumerate()
    });
    let (first, rest): (Vec<_>, Vec<_>) = words.partition(|(at, _)| *at == 0);
    let answer = match first.is_empty() {
        true => Err("needs two pairs of CPUs (--placement pairs)".into()),
        false => Ok(first.into_iter().map(|(_, said)| said).join(" ")),
    };
    let meaning = "a hypervisor may move virtual CPUs, and waking one up goes through it";
    Some(Answered {
        numbers: rest.into_iter().map(|(_, said)| said).collect(),
        evidence: virtualized(run, meaning),
        ..Answered::of(answer)
    })
}

fn virtualized(run: &Explained<'_>, meaning: &str) -> Vec<String> {
    let by = run.input.manifest.host.virtualization.iter();
    by.map(|v| format!("under {v}: {meaning}")).collect()
}

/// CPU time a step together, over alone, from which a core is shared; below the other, which is
/// told, it is not.
const SHARED: f64 = 1.25;
const OWN: f64 = 1.12;

const TOGETHER: PairQuery = PairQuery {
    axes: &[Axis::Threads],
    pairs: |one, two| two.route().is_work() && one.cell().threads == 1 && two.cell().threads == 2,
    metrics: |_| vec![vec![STEP], vec![DONE]],
    along: &[Axis::Placement],
    together: true,
    needs: "needs work in registers with one and with two threads, on two CPUs",
};

/// Whether two CPUs share a core, by what two threads cost each other. By turns on one CPU a step
/// costs the same CPU time. Two hardware threads of one core slow each other: each step costs more.
/// Wall time alone does not tell these apart, and work on memory slows by itself.
fn shared_core(run: &Explained<'_>) -> Option<Answered> {
    let asked = run.ask(&TOGETHER);
    let steps = asked.aspects[0].iter().filter(|v| {
        // Which two CPUs the scheduler chose, nobody knows.
        let place = &v.other.cell().placement;
        let held = *place != ONE_CPU && *place != Placement::Free;
        let is_known = v.withheld().is_none() && v.pair.has_amount();
        held && v.other.works(WorkKind::Registers) && is_known
    });
    let places = grouped(steps.map(|v| (v.other.cell().placement.to_string(), v)));
    let answers = places.into_iter().map(|(place, of)| {
        let ratios = || of.iter().map(|v| (v.verdict(), v.pair.ratio()));
        let is_shared = ratios().any(|(verdict, r)| verdict == Verdict::Worse && r.low > SHARED);
        let says = match (is_shared, ratios().all(|(_, r)| r.high < OWN)) {
            (true, _) => "two CPUs seem to share a core: a step costs more CPU time when both work",
            (_, true) => "each CPU seems to have a core of its own: when both work, a step costs less than 12 % more CPU time",
            _ => "it is not decided whether the CPUs share a core",
        };
        format!("with placement {place} {says}")
    });
    let answer = joined(answers, TOGETHER.needs);
    let meaning = "which of the host's threads a CPU is may change from run to run";
    Some(Answered {
        evidence: virtualized(run, meaning),
        ..asked.with(answer)
    })
}

/// Several threads that are held on one CPU take turns: that is no gain or loss of pinning.
const PINNED: PairQuery = PairQuery {
    axes: &[Axis::Placement],
    pairs: |free, held| {
        held.route().is_work()
            && free.cell().placement == Placement::Free
            && (held.cell().threads == 1 || held.cell().placement != ONE_CPU)
    },
    metrics: |_| vec![vec![DONE]],
    along: &[Axis::Background],
    together: true,
    needs: "no pinned work was measured next to free work",
};

fn moves(asked: &AskedPairs<'_>) -> Vec<String> {
    let free = asked.all().map(|v| v.baseline.trials.id.as_str());
    let moves = asked
        .run
        .estimates(free, Metric::both(Measure::MigrationsPerS));
    let told = |moves| format!("moves of free threads between CPUs: {moves}");
    moves.map(told).into_iter().collect()
}

fn is_pair_on_one_cpu(way: MeasuredWay<'_>) -> bool {
    way.cell().threads == 2 && way.cell().placement == ONE_CPU
}

/// Only what needs nothing but a core tells cores apart: memory slows by itself.
const BY_TURNS: PairQuery = PairQuery {
    pairs: |one, two| {
        is_pair_on_one_cpu(one) && two.works(WorkKind::Registers) && two.cell().neighbour.is_idle()
    },
    along: &[Axis::Placement],
    needs: "needs work in registers of two threads on one logical CPU and on two",
    ..PINNED
};

/// Two threads on one CPU take twice as long as on two; so far from that a ratio still has its mark.
const TURNS: std::ops::RangeInclusive<f64> = 1.9..=2.1;

fn turns(run: &Explained<'_>) -> Option<Answered> {
    let asked = run.ask(&BY_TURNS);
    let (shared, apart): (Vec<_>, Vec<_>) =
        (asked.aspects[0].iter()).partition(|v| v.other.cell().placement == SIBLINGS);
    let told = |of: &[&Versus<'_>]| {
        let is_known = !of.is_empty() && have_amounts(of);
        is_known.then(|| hull(&ratios(of)))
    };
    let mark = match ratios(&apart).iter().all(|r| TURNS.contains(&r.value)) {
        true => ", so that a ratio of run times near 2 has the mark of taking turns",
        false => "",
    };
    let verdict = match shared.iter().all(|v| v.verdict() == Verdict::Better) {
        true => "which is more: a core is shared there, and no CPU",
        false => "which is not decided to be more: they may as well take turns",
    };
    let clauses = [
        told(&apart).map(|r| {
            format!("on two CPUs two threads get done {r} what they do by turns on one logical CPU{mark}")
        }),
        told(&shared).map(|r| format!("on the siblings of one core {r}, {verdict}")),
    ];
    let answer = joined(clauses.into_iter().flatten(), BY_TURNS.needs);
    let hidden = run.refused(|c| c.placement == SIBLINGS);
    let hidden = hidden.map(|why| format!("two threads of one core are not available: {why}"));
    Some(Answered {
        evidence: hidden.into_iter().collect(),
        ..asked.with(answer)
    })
}

fn in_huge_pages(cell: &Cell) -> bool {
    cell.huge_pages == HugePages::On
}

fn huge_pages(run: &Explained<'_>) -> Option<Answered> {
    let query = PairQuery {
        axes: &[Axis::HugePages],
        pairs: |off, on| {
            off.cell().huge_pages == HugePages::Off
                && in_huge_pages(on.cell())
                && on.cell().neighbour.is_idle()
                && on.cell().threads == 1
        },
        metrics: |_| vec![vec![STEP]],
        along: &[Axis::Size],
        together: true,
        needs: "needs the same work with --huge-pages off and on",
    };
    let found = run.ask(&query).by_verdicts(NONE);
    let is_measured = !found.findings.is_empty();
    let refused = run.refused(in_huge_pages).filter(|_| !is_measured);
    Some(Answered {
        answer: refused.map_or(found.answer, Err),
        evidence: vec![
            "which pages the memory lay in was read in /proc/self/smaps before each trial, and a trial whose memory lay in others failed".to_owned(),
            "an entry of the translation buffers (TLB) covers one page: beyond what all of them cover, an access must also find out where its page is, and a huge page is worth as many small ones as fit into it".to_owned(),
        ],
        ..found
    })
}

fn is_set_apart(way: MeasuredWay<'_>) -> bool {
    let cell = way.cell();
    way.route().is_work() && (cell.class != Class::default() || !cell.cgroup.is_none())
}

const BESIDE: PairQuery = PairQuery {
    axes: &[Axis::Background],
    pairs: |alone, beside| {
        let is_work = beside.route().is_work() && !beside.works(WorkKind::Beats);
        is_work && alone.cell().neighbour.is_idle()
    },
    along: &[Axis::Class, Axis::Cgroup],
    needs: "needs work of one class or group with background load and without it",
    ..PINNED
};

fn limits(asked: &AskedPairs<'_>) -> Vec<String> {
    let is_limit = |c: &Cell| c.class == Class::Deadline || c.cgroup.quota_percent.is_some();
    let any = asked.all().any(|v| is_limit(v.other.cell()));
    let told = "a deadline thread and a quota are limits as well: alone work gets done no more with them than they allow";
    any.then(|| told.to_owned()).into_iter().collect()
}

/// The latest of a hundred wake-ups, with a class or group and without one.
const WAKES: PairQuery = PairQuery {
    axes: &[Axis::Class, Axis::Cgroup],
    pairs: |usual, other| other.works(WorkKind::Beats) && !is_set_apart(usual),
    metrics: |_| vec![vec![LATE]],
    along: &[Axis::Background],
    together: true,
    needs: "needs wake-ups with and without a class or group",
};

fn throttled(asked: &AskedPairs<'_>) -> Vec<String> {
    let ways = asked.run.measured().map(|c| asked.run.way(c));
    let told = ways.filter(|w| w.works(WorkKind::Beats)).filter_map(|w| {
        let share = phrases::percent(w.value(Metric::both(Measure::ThrottledShare))?);
        let held = [Axis::Mover, Axis::Cgroup, Axis::Background].map(|a| (a, w.cell().value(a)));
        let place = phrases::circumstances(&held);
        let told = format!("{place}: the quota held it back for {share} of the time");
        Some(told)
    });
    told.unique().collect()
}

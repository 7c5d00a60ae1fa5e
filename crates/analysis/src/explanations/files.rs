//! Files: what it saves to leave the bytes in the kernel, and what asynchronous reads cost.

use bytecost_spec::survey::{InFlight, Release, Route};
use bytecost_spec::{Axis, Cache, Measure, Metric, Side};
use itertools::Itertools as _;

use super::asked::{End, MeasuredWay, NONE, PairQuery, Versus, hull, ids, joined};
use super::{Answered, Answers, Explained, MOST_ROWS, Question};
use crate::grouping::grouped;
use crate::phrases;
use crate::result::{Estimate, Verdict};
use crate::trials::CellTrials;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        key: "asynchronous-slower",
        text: "When is asynchronous slower than synchronous?",
        asks: |run| run.plans(is_asynchronous),
        answers: Answers::Pairs(ASYNCHRONOUS, NONE),
        would_change: "more requests in flight (--depth), a file that is not in the page cache (--cache), other request sizes (--size), or a disk with more parallelism",
    },
    Question {
        key: "asynchronous-why",
        text: "Why is asynchronous slower, where it is?",
        asks: |run| run.plans(is_asynchronous),
        answers: Answers::Own(why_slower),
        would_change: "an interface that needs no thread for a request (io_uring), several requests in flight (--depth), or a file that is not in the page cache (--cache direct)",
    },
    Question {
        key: "sendfile-saves",
        text: "What does sendfile save, and when does it not?",
        asks: |run| {
            let sends =
                |keeps| run.plans(|w| w.route() == Route::FileToSocket && lends(w) == keeps);
            sends(true) && sends(false) || run.plans(|w| w.route() == Route::FileToNull)
        },
        answers: Answers::Own(saves),
        would_change: "a larger block for the way that reads and writes (--block), larger files (--size), a path on which the receiver is not what both wait for, or the other state of the page cache (--cache warm,cold)",
    },
];

fn is_asynchronous(way: MeasuredWay<'_>) -> bool {
    way.route() == Route::FileToMemory && way.in_flight() != InFlight::One
}

const SPEED: Metric = Metric::both(Measure::ThroughputGbitPerS);

const ASYNCHRONOUS: PairQuery = PairQuery {
    axes: &[Axis::Mover],
    pairs: |one, other| {
        one.route() == Route::FileToMemory && !is_asynchronous(one) && is_asynchronous(other)
    },
    metrics: |_| vec![vec![SPEED]],
    along: &[Axis::Cache, Axis::Depth, Axis::Size],
    together: true,
    needs: "no asynchronous read was measured next to a synchronous one (--mover pread,posix-aio,uring-read)",
};

/// Whether a mover sends the file's pages as they are: nobody says when it is done with them.
fn lends(way: MeasuredWay<'_>) -> bool {
    way.facts.is_some_and(|m| m.release == Release::Never)
}

/// Ways that leave the bytes in the kernel against those that bring them through memory.
const SPARING: PairQuery = PairQuery {
    axes: &[Axis::Mover],
    pairs: |reads, other| {
        let is_helped = |w: MeasuredWay<'_>| w.in_flight() == InFlight::OneByProcess;
        let of = |route| reads.route() == route && other.route() == route;
        (of(Route::FileToSocket) && !lends(reads) && lends(other) || of(Route::FileToNull))
            && is_helped(reads) == is_helped(other)
    },
    metrics: |_| {
        let sender = |measure| Metric::of(measure, Side::Sender);
        vec![
            vec![sender(Measure::CpuSPerGb), Metric::both(Measure::CpuSPerGb)],
            vec![Metric::both(Measure::MsPerMessage), SPEED],
        ]
    },
    along: &[Axis::Cache, Axis::Size],
    together: true,
    needs: "no way that leaves the bytes in the kernel was measured next to one that reads them into memory",
};

fn saves(run: &Explained<'_>) -> Option<Answered> {
    let asked = run.ask(&SPARING);
    let found: Vec<&Versus<'_>> = asked.all().collect();
    let is_cold = found.iter().any(|v| v.other.cell().cache == Cache::Cold);
    let has = |mover: &str| {
        let mut all = found.iter().flat_map(|v| [v.baseline, v.other]);
        all.any(|w| w.cell().mover == mover)
    };
    let cold = run.refused(|c| c.cache == Cache::Cold && has(&c.mover));
    let cold = (!is_cold && !found.is_empty()).then(|| match cold {
        Some(reason) => format!("a cold page cache was not measured: {reason}"),
        None => "a cold page cache was not measured (--cache cold)".to_owned(),
    });
    Some(Answered {
        evidence: cold.into_iter().chain(asked.withheld()).collect(),
        ..asked.with(asked.told())
    })
}

const SWITCHES: Metric = Metric::both(Measure::ContextSwitchesPerMessage);
/// At one size the ratio of CPU time per byte is that of a request.
const CPU: Metric = Metric::both(Measure::CpuSPerGb);
const CPU_OF_REQUEST: Metric = Metric::both(Measure::CpuNsPerMessage);
const TIME: Metric = Metric::both(Measure::LatencyUsP50);
/// Context switches a request from which it is handed to another thread and back.
const HANDED_OVER: f64 = 0.5;
/// How many times the throughput of one request in flight several must reach to overlap.
const OVERLAP: f64 = 1.5;

/// Why they are slower, where that is decided: what each request costs beside the read.
fn why_slower(run: &Explained<'_>) -> Option<Answered> {
    let all = run.versus(&ASYNCHRONOUS, SPEED);
    let is_slower = |v: &&Versus<'_>| v.verdict() == Verdict::Worse;
    let slower = all.iter().filter(is_slower).collect_vec();
    if slower.is_empty() {
        // That it is not decided, the question before says.
        return None;
    }
    let of = |fits: fn(&Versus<'_>) -> bool| -> Vec<&Versus<'_>> {
        slower.iter().filter(|v| fits(v)).copied().collect()
    };
    let is_cached = |v: &Versus<'_>| matches!(v.other.cell().cache, Cache::Warm | Cache::Memory);
    let (hits, missing): (Vec<&Versus<'_>>, Vec<_>) =
        (slower.iter().copied()).partition(|v| is_cached(v));
    let (deep, alone): (Vec<_>, Vec<_>) =
        (missing.iter().copied()).partition(|v: &&Versus<'_>| v.other.cell().depth > 1);
    let handed = of(|v| {
        let by_threads = v.other.in_flight() == InFlight::SeveralByThreads;
        by_threads && v.other.value(SWITCHES).is_some_and(|n| n >= HANDED_OVER)
    });
    let reasons = [
        by_threads(run, &handed),
        page_cache(run, &hits),
        gains(run, &alone, do_overlap).map(|(who, [most, one])| {
            format!("with one request in flight nothing overlaps: the throughput of {who} is {most} with the most in flight and {one} with one")
        }),
        gains(run, &deep, hardly_overlap).map(|(who, [most, one])| {
            format!("the requests of {who} to one file hardly overlap: its throughput is {most} with the most in flight and {one} with one")
        }),
    ];
    let answer = joined(reasons.into_iter().flatten(), run.why_absent(SWITCHES));
    Some(Answered {
        numbers: costs(run, &slower),
        findings: ids(slower.into_iter()),
        ..Answered::of(answer)
    })
}

/// By the nearer ends of their intervals.
fn do_overlap(one: &Estimate, most: &Estimate) -> bool {
    let ends = one.high.zip(most.low);
    ends.is_some_and(|(one, most)| most >= OVERLAP * one)
}

/// By the farther ends.
fn hardly_overlap(one: &Estimate, most: &Estimate) -> bool {
    let ends = one.low.zip(most.high);
    ends.is_some_and(|(one, most)| most < OVERLAP * one)
}

fn movers(of: &[&Versus<'_>]) -> String {
    phrases::list(of.iter().map(|v| Axis::Mover.subject(&v.value())).unique())
}

fn spans(run: &Explained<'_>, of: &[&Versus<'_>], way: End, metric: Metric) -> Option<String> {
    run.estimates(of.iter().map(|v| way(v).trials.id.as_str()), metric)
}

fn by_threads(run: &Explained<'_>, own: &[&Versus<'_>]) -> Option<String> {
    let here = spans(run, own, |v| v.other, SWITCHES)?;
    let (there, who) = (spans(run, own, |v| v.baseline, SWITCHES)?, movers(own));
    Some(format!(
        "threads of the process carry out the requests of {who}, so that each is handed over and back: {here} context switches per request instead of {there}"
    ))
}

/// Requests that the page cache serves at once: nothing is waited for that could be hidden.
fn page_cache(run: &Explained<'_>, own: &[&Versus<'_>]) -> Option<String> {
    let cost = |v: &&Versus<'_>| {
        let pair = run.pair(v.pair.pairing, CPU)?;
        pair.has_amount().then(|| pair.ratio())
    };
    let dear = own.iter().filter_map(cost).collect_vec();
    let took = spans(run, own, |v| v.baseline, TIME)?;
    let (who, times) = (movers(own), hull(&dear));
    (!dear.is_empty()).then(|| {
        format!(
            "in the page cache no request waits for the disk ({took} each), so that there is nothing to hide behind others, and what {who} adds comes on top: {times} the CPU time of a request"
        )
    })
}

/// The throughputs with most requests in flight, and with one, where the intervals fit.
fn gains(
    run: &Explained<'_>,
    own: &[&Versus<'_>],
    fits: fn(&Estimate, &Estimate) -> bool,
) -> Option<(String, [String; 2])> {
    let deeper = |v: &Versus<'_>| {
        let group = v.other.cell().id_without(&[Axis::Depth]);
        let is_alike = |c: &&CellTrials<'_>| c.cell.id_without(&[Axis::Depth]) == group;
        let alike = run.measured().filter(is_alike);
        let (one, most) = alike.minmax_by_key(|c| c.cell.depth).into_option()?;
        let is_apart = one.cell.depth == 1 && most.cell.depth > 1;
        let rate = |c: &CellTrials<'_>| run.result(&c.id)?.estimates.get(&SPEED).copied();
        let is_so = is_apart && fits(&rate(one)?, &rate(most)?);
        is_so.then_some([most.id.as_str(), one.id.as_str()])
    };
    let found = own.iter().filter_map(|v| Some((*v, deeper(v)?)));
    let (own, cells): (Vec<_>, Vec<_>) = found.unzip();
    let [most, one] = [0, 1].map(|at| run.estimates(cells.iter().map(|ids| ids[at]), SPEED));
    Some((movers(&own), [most?, one?]))
}

fn costs(run: &Explained<'_>, slower: &[&Versus<'_>]) -> Vec<String> {
    let ways = (slower.iter().map(|v| v.baseline)).chain(slower.iter().map(|v| v.other));
    let rows = grouped(ways.map(|w| (w.cell().mover.as_str(), w.trials.id.as_str()))).into_iter();
    let told = rows.filter_map(|(mover, ids)| {
        let ids = ids.into_iter().unique().collect_vec();
        let parts = [
            SWITCHES,
            Metric::both(Measure::CallsPerMessage),
            CPU_OF_REQUEST,
        ]
        .into_iter();
        let mut told = parts.filter_map(|m| {
            let span = run.estimates(ids.iter().copied(), m)?;
            Some(format!("{} {span}", run.words(m)))
        });
        let told = told.join("; ");
        let cells = phrases::count(ids.len(), "cell");
        (!told.is_empty()).then(|| format!("`{mover}` in {cells}: {told}"))
    });
    told.take(MOST_ROWS).collect()
}

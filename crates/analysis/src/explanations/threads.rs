//! How threads interact with caches, told apart from there being more threads than CPUs.

use bytecost_spec::{Axis, Measure, Metric};
use itertools::Itertools as _;

use super::asked::{PairQuery, Versus};
use super::cache_levels::{LEVELS, uncounted};
use super::sockets::is_about_sockets;
use super::{Answers, Explained, Missing, Question, View, why_absent};
use crate::grouping::grouped;
use crate::phrases;

pub(super) const QUESTION: Question = Question {
    key: "threads-and-caches",
    text: "How do threads interact with the caches, apart from there being more threads than CPUs?",
    asks: is_about_sockets,
    answers: Answers::Own(ask),
    would_change: "a machine with more CPUs, threads that are kept on CPUs of their own (--placement), or payload that does not fit into the caches (--ring)",
};

/// Threads of one flow: one sends, one receives.
const THREADS_OF_A_FLOW: usize = 2;

const FLOWS: PairQuery = PairQuery {
    axes: &[Axis::Threads],
    pairs: |one, several| one.cell().threads == 1 && several.route().has_peer(),
    metrics: |_| {
        let [first, last] = LEVELS.map(|(_, measure)| measure);
        let all = [first, last, Measure::ThroughputGbitPerS];
        all.map(|measure| vec![Metric::both(measure)]).to_vec()
    },
    along: &[Axis::Threads],
    together: false,
};

fn ask(view: &View<'_>) -> Option<Explained> {
    let aspects = view.aspects(&FLOWS);
    let cpus = view.cpus();
    Some(Explained {
        numbers: view.rows(&FLOWS, &aspects),
        evidence: vec![format!(
            "{}, {THREADS_OF_A_FLOW} threads a flow: up to {} each thread has a CPU",
            phrases::count(cpus, "CPU"),
            phrases::count(cpus / THREADS_OF_A_FLOW, "flow"),
        )],
        ..Explained::of(answer(view, &aspects))
    })
}

/// What becomes of the misses with most flows that have a CPU for each thread, and with most of
/// all, by the largest messages.
fn answer(view: &View<'_>, aspects: &[Vec<Versus<'_>>]) -> Result<String, Missing> {
    if let Some(level) = uncounted(view) {
        let reason = why_absent(view, Metric::both(LEVELS[1].1));
        return Err(Missing {
            why: format!("misses of the {level} are not counted: {reason}"),
            ever: true,
        });
    }
    let misses = LEVELS.iter().zip(aspects).flat_map(|((name, _), found)| {
        let largest = found.iter().map(|v| v.other.cell().size_bytes).max();
        let own = found
            .iter()
            .filter(move |v| Some(v.other.cell().size_bytes) == largest);
        let told = move |v: &Versus<'_>| {
            let r = v.contrast.ratio();
            format!("{} in the {name}", phrases::ratio(r.value, r.low, r.high))
        };
        // The first of equals: the order of the plan.
        let by_flows = grouped(own.map(|v| (v.other.cell().threads as usize, v)));
        by_flows
            .into_iter()
            .map(move |(flows, v)| (flows, told(v[0])))
    });
    let mut by_flows = grouped(misses);
    by_flows.sort_by_key(|(flows, _)| *flows);
    let fits = |flows: usize| THREADS_OF_A_FLOW * flows <= view.cpus();
    let clause = |head: &str, of: Option<&(usize, Vec<String>)>| {
        let told = |(flows, misses): &(usize, Vec<String>)| {
            format!(
                "{head} from 1 flow to {flows} flows the load misses per KiB become {}",
                phrases::list(misses)
            )
        };
        of.map(told)
    };
    let alone = by_flows.iter().rev().find(|(flows, _)| fits(*flows));
    let crowded = by_flows.last().filter(|(flows, _)| !fits(*flows));
    let clauses = [
        clause("with a CPU for each thread,", alone),
        clause("with threads that take turns on the CPUs,", crowded),
    ];
    match clauses.into_iter().flatten().join("; ") {
        none if none.is_empty() => {
            Err("needs cells with several numbers of flows (--threads 1,2,4)".into())
        }
        some => Ok(format!("{some}.")),
    }
}

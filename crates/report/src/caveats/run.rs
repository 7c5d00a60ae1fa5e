//! The course of a run and its numbers, in words.

use bytecost_analysis::{CaveatFact, command_of_run, peer_again};
use bytecost_spec::manifest::Difference;
use bytecost_spec::study::ERROR_RATE;
use bytecost_spec::{Counter, Measure, units};
use itertools::Itertools as _;

use super::known::{Known, fact};
use crate::phrases;
use crate::two_groups;

/// The command that resumes the run.
pub(super) fn resume(c: &Known<'_>) -> String {
    let words = ["bytecost", "run", "--resume", &c.a.run.id];
    command_of_run(&words, &c.a.run.command) + peer_again(c.a.peer.is_some())
}

/// `leg 2 from block 4: the kernel was 6.1, is 6.12`, for each leg but the first.
pub(super) fn legs(c: &Known<'_>) -> String {
    let difference = |d: &Difference| format!("{} was {}, is {}", d.what, d.was, d.is);
    let changes = c.caveat.facts.iter().filter_map(|fact| match fact {
        CaveatFact::Leg {
            first_block,
            differences,
        } => {
            let words = differences.iter().map(difference).join("; ");
            Some(format!("from block {first_block}: {words}"))
        }
        _ => None,
    });
    (2..)
        .zip(changes)
        .map(|(number, words)| format!("leg {number} {words}"))
        .join(". ")
}

const MOST_SHOWN: usize = 3;

/// The groups of the first cells, and how many more there are.
pub(super) fn groups(c: &Known<'_>, far: bool) -> String {
    let mut words = Vec::new();
    for fact in &c.caveat.facts {
        let CaveatFact::Groups(metric) = fact else {
            continue;
        };
        for cell in c.cells() {
            let varied = c.a.study.varied.iter();
            let values = varied.map(|axis| (*axis, cell.cell.value(*axis)));
            let place = phrases::circumstances(&values.collect_vec());
            let noun = c.noun(*metric);
            let groups = cell
                .two_groups
                .iter()
                .filter(|g| g.metric == *metric && g.are_far_apart() == far);
            words.extend(groups.map(|g| format!("{place}, {noun}: {}", two_groups::ranges(g))));
        }
    }
    let more = words.len().saturating_sub(MOST_SHOWN);
    words.truncate(MOST_SHOWN);
    words.extend((more > 0).then(|| format!("{more} more")));
    words.join("; ")
}

pub(super) fn longer(c: &Known<'_>) -> Option<String> {
    let seconds = fact!(c, CaveatFact::LongerRun(seconds) => *seconds)?;
    Some(seconds.map_or_else(
        || {
            "a quieter machine or fewer cells; more time alone would hardly make all as precise"
                .to_owned()
        },
        |seconds| format!("a longer run, such as --budget {seconds}s, or fewer cells"),
    ))
}

pub(super) fn twins(c: &Known<'_>) -> Option<String> {
    let floor = c.a.noise_floor.as_ref()?;
    let different = c.a.twins.iter().filter(|t| t.different);
    let ratios = phrases::list(different.map(|t| phrases::ratio(t.ratio, t.low, t.high)));
    let (some, all) = (floor.different, phrases::count(floor.twins, "twin"));
    let [by_chance, chance] = [ERROR_RATE, floor.chance].map(units::percent);
    Some(format!(
        "{some} of {all} came out different, {by_chance} would by chance; as many or more do so in {chance} of runs; their ratios: {ratios}"
    ))
}

/// Outcome of the blocks in which the run was stopped: measured again, or part of the result.
pub(super) fn stopped(c: &Known<'_>) -> Option<String> {
    Some(match c.part()? {
        (0, 1) => "measured again".to_owned(),
        (0, _) => "all measured again".to_owned(),
        (1, 1) => "which is part of the result".to_owned(),
        (stand, _) => format!("{stand} of them part of the result"),
    })
}

/// `other processes, most of all rustc,`.
pub(super) fn busiest(c: &Known<'_>) -> Option<String> {
    Some(match c.others()?.names.first() {
        Some(name) => format!("other processes, most of all {name},"),
        None => "other processes".to_owned(),
    })
}

/// Ratio of a metric in blocks with high core-to-core latency to blocks with low, in words.
pub(super) fn cost_of_high(c: &Known<'_>) -> Option<String> {
    let (metric, ratio, blocks) = fact!(
        c,
        CaveatFact::Ratio { metric, ratio, blocks } => (*metric, *ratio, *blocks)
    )?;
    let (noun, blocks) = (c.noun(metric), phrases::count(blocks, "block"));
    Some(format!(
        "{noun} was {:.2}× as much where it was high as where it was low ({:.2} to {:.2}, 95 %, from {blocks} with both)",
        ratio.value, ratio.low, ratio.high
    ))
}

/// The bytes of a segment of the two cells that are furthest apart.
pub(super) fn segments(c: &Known<'_>) -> Option<String> {
    let (number, bytes) = fact!(c, CaveatFact::Segments { finding, bytes } => (*finding, *bytes))?;
    let finding = c.a.findings.get(number)?;
    let values = [&finding.baseline_value, &finding.value];
    let [from, to] = values.map(|value| finding.axis.subject(value));
    let [a, b] = bytes.map(|bytes| units::number(bytes.round()));
    Some(format!("{from} {a} B, {to} {b} B"))
}

/// Name of the measure that changed within windows; none where connections or their buffers grew.
pub(super) fn course(c: &Known<'_>) -> Option<&'static str> {
    Some(match c.change()?.0.measure {
        Measure::CpuSPerGb => "CPU time",
        _ => "rate",
    })
}

/// Errors of each kind in words.
const ERRORS: [(Counter, &str); 6] = [
    (Counter::ErrorsRefused, "refused"),
    (Counter::ErrorsReset, "reset"),
    (Counter::ErrorsClosed, "closed by the server"),
    (Counter::ErrorsTimeout, "no response in time"),
    (Counter::ErrorsWrong, "wrong responses"),
    (
        Counter::ErrorsLocal,
        "not opened for want of a descriptor, port or memory",
    ),
];

pub(super) fn failed_requests(c: &Known<'_>) -> String {
    let kinds = ERRORS.iter().filter_map(|(counter, words)| {
        let failed = c.sum(*counter).filter(|n| *n > 0.0)?;
        Some(format!("{} {words}", units::number(failed)))
    });
    phrases::list(kinds)
}

/// Methods of reading CPU time where the kernel leaves interrupts out, with the numbers of cells.
pub(super) fn clock_means(c: &Known<'_>) -> Option<String> {
    let words = [
        "the interrupts of its CPUs are added to it",
        "CPU time is the perf task clock, which adds some µs to each context switch",
        "there is no CPU time",
    ];
    let means = clocks(c)?
        .into_iter()
        .zip(words)
        .filter(|(cells, _)| *cells > 0)
        .map(|(cells, words)| format!("in {} {words}", phrases::count(cells, "cell")))
        .join("; ");
    Some(means)
}

/// The cells by how their CPU time was read: with interrupts, by the task clock, not at all.
pub(super) fn clocks(c: &Known<'_>) -> Option<[usize; 3]> {
    fact!(
        c,
        CaveatFact::CpuClock { with_interrupts, by_task_clock, without } =>
            [*with_interrupts, *by_task_clock, *without]
    )
}

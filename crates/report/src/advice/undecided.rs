//! Undecided comparisons in words: their number, the reasons, and the remedy.

use bytecost_analysis::{Analysis, CaveatKind, Situation, Undecided, UndecidedOf, Verdict};
use bytecost_spec::units;
use itertools::Itertools as _;

use crate::caveats::withholding_reason;
use crate::phrases;
use crate::text::joined;

/// Reason why the study's first metric has no verdict in a situation where another metric has one.
pub(crate) fn open(s: &Situation) -> Option<String> {
    let open = s.open.as_ref()?;
    let noun = phrases::metric(open.metric, s.unit);
    Some(match (open.withheld.as_slice(), open.blocks) {
        ([], Some(blocks)) => {
            format!("{noun} is undecided; the first verdict would take about {blocks} blocks")
        }
        ([], None) => format!("{noun} is undecided, and more blocks would hardly decide it"),
        (kinds, _) => format!("{noun} has no verdict: {}", reasons(kinds.iter().copied())),
    })
}

/// The reasons of caveats that withhold verdicts, each once.
fn reasons(kinds: impl Iterator<Item = CaveatKind>) -> String {
    phrases::list(kinds.map(withholding_reason).unique())
}

pub(super) fn nothing_decided(a: &Analysis, undecided: &Undecided) -> String {
    let judged = (a.findings.iter()).filter(|f| f.verdict != Verdict::NotJudged);
    let why = reasons(judged.filter_map(|f| f.withheld));
    let families = undecided.by_family.iter();
    let comparisons: usize = families.map(|family| family.comparisons).sum();
    let all = units::count(comparisons, "comparison");
    let what = format!("none of {all} has a verdict");
    let (remedy, command) = remedy(undecided, false);
    let remedy = joined([&*remedy, command.unwrap_or_default()], ": ");
    match undecided.withheld {
        n if n == comparisons => format!("{what}: {why}"),
        0 => format!("{what}; {remedy}"),
        n => format!("{what}, {n} of them by a caveat ({why}); {remedy}"),
    }
}

/// Number of undecided comparisons in each family, with the remedy.
pub(crate) fn undecided(u: &Undecided, with_command: bool) -> String {
    let family = |(place, own): (usize, &UndecidedOf)| {
        let all = own.comparisons;
        let noun = if place == 0 {
            units::count(all, &format!("{} comparison", own.family.name()))
        } else {
            format!("{all} {} ones", own.family.name())
        };
        format!("{} of {noun}", own.undecided)
    };
    let all = phrases::list(u.by_family.iter().enumerate().map(family));
    let (remedy, command) = remedy(u, u.by_family.len() > 1);
    match command {
        Some(command) if with_command => format!("{all}; {remedy}: {command}"),
        Some(_) => format!("{all}; {remedy}: see the full report"),
        None => format!("{all}; {remedy}"),
    }
}

/// Remedy for undecided comparisons, and its command where there is one.
fn remedy(u: &Undecided, several: bool) -> (String, Option<&str>) {
    let family = several.then(|| format!("the {} ones", u.asks.name()));
    let command = u.command.as_deref();
    if command.is_none() {
        let them = family.as_deref().unwrap_or("them");
        return (format!("a longer run would hardly decide {them}"), None);
    }
    let of = family.map_or_else(String::new, |family| format!(" of {family}"));
    if u.seconds.is_some() {
        let n = u.would_decide;
        return (format!("a longer run would decide about {n}{of}"), command);
    }
    let apart = phrases::from_run_to_run(u.between_deviation.unwrap_or(0.0));
    let n = u.rounds_prevent;
    let remedy = format!("{apart} for {n}{of}, which several rounds lessen");
    (remedy, command)
}

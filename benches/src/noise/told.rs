//! The tables of the bench `noise`.

use std::collections::BTreeMap;

use bytecost_spec::units;
use bytecost_stats::{Location, mean, quantile, trimmed_mean, trimmed_mean_value, variance};

use super::components::{Apart, Components, by_cell, components as fitted, residuals, spread};
use super::{AWAKE, Kind, Run, Trial, USUAL};

/// Distances in time that are told, with their names.
const APART: [(Apart, &str); 6] = [
    (Apart::Within(0.0, 100.0), "≤ 0.1 s"),
    (Apart::Within(100.0, 300.0), "≤ 0.3 s"),
    (Apart::Within(300.0, 1000.0), "≤ 1 s"),
    (Apart::Within(1000.0, 3000.0), "≤ 3 s"),
    (Apart::Within(3000.0, 20_000.0), "≤ 20 s"),
    (Apart::Runs, "other run"),
];

fn of_kind(runs: &[Run], kind: Kind) -> Vec<&Run> {
    runs.iter().filter(|r| r.kind == kind).collect()
}

/// Deviations are written with three places, which is more than they are known to.
fn number(deviation: f64) -> String {
    format!("{deviation:.3}")
}

/// Columns of a table's number.
fn width(name: &str) -> usize {
    name.len().max(6)
}

fn placement(is_free: bool) -> &'static str {
    if is_free { "free" } else { "pinned" }
}

/// A part of the whole.
type Part = fn(&Components) -> f64;

/// Components by kind and placement.
pub(super) fn components(runs: &[Run], kinds: &[Kind]) -> Vec<String> {
    let columns: [(&str, Part); 10] = [
        ("all", |c| c.all),
        ("robust", |c| c.robust),
        ("trial", |c| c.trial),
        ("between", |c| c.between),
        ("within", |c| c.within),
        ("block", |c| c.block),
        ("run", |c| c.run),
        ("before", |c| c.predecessor),
        ("place", |c| c.place),
        ("lag 1", |c| c.neighbours),
    ];
    let mut line = format!("{:<6} {:<6} {:>6} {:>4}", "kind", "placed", "trials", "ms");
    for (name, _) in columns {
        let width = width(name);
        line += &format!(" {name:>width$}");
    }
    let mut lines = vec![
        String::new(),
        "Standard deviation of the logarithm of a trial's cost, by where it is from:".to_owned(),
        line,
    ];
    for kind in kinds {
        for is_free in [true, false] {
            let Some(found) = fitted(&of_kind(runs, *kind), is_free) else {
                continue;
            };
            let mut line = format!(
                "{:<6} {:<6} {:>6} {:>4.0}",
                kind.name(),
                placement(is_free),
                found.trials,
                found.ms
            );
            for (name, of) in columns {
                let width = width(name);
                line += &format!(" {:>width$}", number(of(&found)));
            }
            lines.push(line);
        }
    }
    lines
}

/// Each cell as it usually is: noise differs from cell to cell.
pub(super) fn cells(runs: &[Run]) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!("The same of each cell ({}):", USUAL.name()),
        format!(
            "{:<24} {:<6} {:>6} {:>7} {:>7} {:>18}",
            "cell", "placed", "trials", "all", "robust", "above 1.5 × median"
        ),
    ];
    for is_free in [true, false] {
        let all = residuals(&of_kind(runs, USUAL), Some(is_free));
        for (cell, found) in by_cell(&all) {
            lines.push(format!(
                "{cell:<24} {:<6} {:>6} {:>7} {:>7} {:>18}",
                placement(is_free),
                found.trials,
                number(found.all),
                number(found.robust),
                units::percent(found.far)
            ));
        }
    }
    lines
}

/// Trials by the core-to-core latency between their ends, which the host of virtual CPUs changes: the
/// noise of each kind within its cells, and the cost where it was high over that where it was low.
pub(super) fn latencies(runs: &[Run], kinds: &[Kind]) -> Vec<String> {
    let read = runs
        .iter()
        .flat_map(|r| &r.trials)
        .flat_map(|t| t.core_to_core_ns);
    let read: Vec<f64> = read.filter(|ns| *ns > 0).map(|ns| ns as f64).collect();
    let (Some(low), Some(high)) = (quantile(&read, 0.1), quantile(&read, 0.9)) else {
        return vec![
            String::new(),
            "No trial had two CPUs for its two ends.".to_owned(),
        ];
    };
    let between = (low * high).sqrt();
    let mut lines = vec![
        String::new(),
        format!(
            "By core-to-core latency before and after a trial ({low:.0} and {high:.0} ns are its 10 % and 90 % quantiles, low is up"
        ),
        format!(
            "to {between:.0} ns): standard deviation of the logarithm of a trial's cost within its cell, and the share of such trials:"
        ),
        format!(
            "{:<7} {:<7} {:>14} {:>14} {:>14} {:>13}",
            "kind", "placed", "low", "high", "changed", "high / low"
        ),
    ];
    for kind in kinds {
        for is_free in [true, false] {
            let of = of_kind(runs, *kind);
            let read = |t: &&Trial| t.is_free == is_free && !t.core_to_core_ns.contains(&0);
            let all: Vec<&Trial> = of.iter().flat_map(|r| &r.trials).filter(read).collect();
            let highs = |t: &Trial| t.core_to_core_ns.map(|ns| ns as f64 > between);
            let those = |kinds: &[[bool; 2]]| {
                logs(all.iter().copied().filter(|t| kinds.contains(&highs(t))))
            };
            let (low, high) = (those(&[[false; 2]]), those(&[[true; 2]]));
            let changed = those(&[[false, true], [true, false]]);
            let both = low
                .iter()
                .filter_map(|(cell, low)| Some((mean(high.get(cell)?)?, mean(low)?)));
            let ratios: Vec<f64> = both.map(|(high, low)| high - low).collect();
            let ratio = mean(&ratios).map_or("-".to_owned(), |log| format!("{:.2}", log.exp()));
            let mut line = format!("{:<7} {:<7}", kind.name(), placement(is_free));
            for cells in [&low, &high, &changed] {
                line += &format!(" {:>14}", deviation(cells, all.len()));
            }
            lines.push(format!("{line} {ratio:>13}"));
        }
    }
    lines
}

/// The logarithms of the costs of trials, by cell.
fn logs<'t>(trials: impl Iterator<Item = &'t Trial>) -> BTreeMap<&'t str, Vec<f64>> {
    let mut cells: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        let of_cell = cells.entry(&trial.cell).or_default();
        of_cell.push(trial.cost.ln());
    }
    cells
}

/// Their standard deviation within cells, pooled, and what share they are of so many trials.
fn deviation(cells: &BTreeMap<&str, Vec<f64>>, all: usize) -> String {
    let (mut squares, mut degrees, mut count) = (0.0, 0, 0);
    for logs in cells.values() {
        squares += variance(logs).unwrap_or(0.0) * (logs.len() - 1) as f64;
        degrees += logs.len() - 1;
        count += logs.len();
    }
    let share = units::percent(count as f64 / all.max(1) as f64);
    match degrees {
        0 => format!("- ({share})"),
        _ => format!("{} ({share})", number((squares / degrees as f64).sqrt())),
    }
}

/// Ratios of two cells by their distance in time.
pub(super) fn distances(runs: &[Run], kinds: &[Kind]) -> Vec<String> {
    let mut line = format!("{:<7} {:<7}", "kind", "placed");
    for (_, name) in APART {
        line += &format!(" {name:>13}");
    }
    let mut lines = vec![
        String::new(),
        "Standard deviation of the logarithm of the ratio of two cells (from the median), by how far".to_owned(),
        "apart in time their trials began:".to_owned(),
        line,
    ];
    for kind in kinds {
        for is_free in [true, false] {
            let all = residuals(&of_kind(runs, *kind), Some(is_free));
            let mut line = format!("{:<7} {:<7}", kind.name(), placement(is_free));
            for (apart, _) in APART {
                let told = spread(&all, apart).map_or_else(
                    || "-".to_owned(),
                    |s| format!("{} ({})", number(s.deviation), number(s.robust)),
                );
                line += &format!(" {told:>13}");
            }
            lines.push(line);
        }
    }
    lines
}

/// What the cost in one kind of trials is over that in another, by kind and placement:
/// round by round, the mean over cells of the log ratio.
fn ratio(runs: &[Run], of: (Kind, bool), to: (Kind, bool)) -> Option<Location> {
    let rounds = of_kind(runs, of.0).into_iter().zip(of_kind(runs, to.0));
    let logs: Vec<f64> = rounds
        .filter_map(|(a, b)| {
            let (a, b) = (levels(a, of.1), levels(b, to.1));
            let both = a.iter().filter_map(|(cell, v)| Some(v - b.get(cell)?));
            mean(&both.collect::<Vec<f64>>())
        })
        .collect();
    trimmed_mean(&logs)
}

/// The typical logarithm of each cell's cost in a run.
fn levels(run: &Run, is_free: bool) -> BTreeMap<&str, f64> {
    let trials = run.trials.iter().filter(|t| t.is_free == is_free);
    let levels = logs(trials).into_iter();
    levels
        .filter_map(|(cell, logs)| Some((cell, trimmed_mean_value(&logs)?)))
        .collect()
}

/// The time that a precision takes with each kind, relative to the usual one: variance of a
/// trial times its time.
pub(super) fn economy(runs: &[Run], kinds: &[Kind]) -> Vec<(String, f64)> {
    let time = |kind: Kind, is_free: bool| {
        let found = fitted(&of_kind(runs, kind), is_free)?;
        Some(found.all * found.all * found.ms)
    };
    let mut told = Vec::new();
    for is_free in [true, false] {
        for kind in kinds.iter().filter(|kind| **kind != USUAL) {
            let both = time(*kind, is_free).zip(time(USUAL, is_free));
            let name = placement(is_free);
            told.extend(both.map(|(one, usual)| {
                let (kind, usual_kind) = (kind.name(), USUAL.name());
                let what = format!("{name}: variance × time, {kind} / {usual_kind}");
                (what, one / usual)
            }));
        }
    }
    told
}

/// Whether what makes trials less noisy also changes what they cost, with intervals over rounds.
pub(super) fn headlines(runs: &[Run]) -> Vec<(&'static str, Option<Location>)> {
    vec![
        (
            "40 ms: cost pinned, over free",
            ratio(runs, (USUAL, false), (USUAL, true)),
        ),
        (
            "free: cost awake, over as left",
            ratio(runs, (AWAKE, true), (USUAL, true)),
        ),
        (
            "pinned: cost awake, over as left",
            ratio(runs, (AWAKE, false), (USUAL, false)),
        ),
        (
            "free: cost at 10 ms, over 40 ms",
            ratio(runs, (Kind::as_left(10), true), (USUAL, true)),
        ),
        (
            "free: cost at 160 ms, over 40 ms",
            ratio(runs, (Kind::as_left(160), true), (USUAL, true)),
        ),
        (
            "pinned: cost at 10 ms, over 40 ms",
            ratio(runs, (Kind::as_left(10), false), (USUAL, false)),
        ),
        (
            "pinned: cost at 160 ms, over 40 ms",
            ratio(runs, (Kind::as_left(160), false), (USUAL, false)),
        ),
    ]
}

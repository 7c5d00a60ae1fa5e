//! When asynchronous reads of a file are slower than synchronous ones.

use bytecost_spec::survey::{InFlight, MoverFacts, Route};
use bytecost_spec::{Axis, Cache, Cell, Measure, Metric, Survey};

use super::ranges::{hull, span_of};
use super::{Explained, MOST_ROWS, Why};
use crate::crossovers::Ratio;
use crate::grid;
use crate::phrases;
use crate::result::{Finding, Verdict};

/// What the two are held against each other in.
pub(super) const SPEED: Metric = Metric::both(Measure::ThroughputGbitPerS);

/// An asynchronous mover against a synchronous one: a finding, with its cell.
#[derive(Clone, Copy)]
pub(super) struct Duel<'v> {
    pub(super) finding: &'v Finding,
    pub(super) cell: &'v Cell,
}

/// The circumstances that decide: where the file's pages are, and whether requests can overlap.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    cache: Cache,
    several: bool,
}

/// Whether the run is about asynchronous reads; then their comparisons with synchronous ones.
pub(super) fn duels<'v>(why: &Why<'v>) -> Option<Vec<Duel<'v>>> {
    let survey = &why.view.input.manifest.survey;
    let mut planned = why.view.trials.moving();
    if !planned.any(|c| is_asynchronous(survey, &c.cell.mover)) {
        return None;
    }
    let reads_in_turn = |mover: &str| reads(survey, mover).is_some_and(|m| !overlaps(m));
    let found = why.view.findings.iter().filter(|f| {
        f.metric == SPEED
            && f.axis == Axis::Mover
            && is_asynchronous(survey, &f.value)
            && reads_in_turn(&f.baseline_value)
    });
    let duels = found.filter_map(|finding| {
        let result = why.view.cells.iter().find(|c| c.id == finding.cell)?;
        Some(Duel {
            finding,
            cell: &result.cell,
        })
    });
    Some(duels.collect())
}

fn reads<'s>(survey: &'s Survey, mover: &str) -> Option<&'s MoverFacts> {
    let facts = survey.mover(mover);
    facts.filter(|m| m.route == Route::FileToMemory)
}

fn overlaps(facts: &MoverFacts) -> bool {
    facts.in_flight != InFlight::One
}

/// Whether a mover reads a file with several requests in flight.
pub(super) fn is_asynchronous(survey: &Survey, mover: &str) -> bool {
    reads(survey, mover).is_some_and(overlaps)
}

/// Why there is no comparison at all.
pub(super) fn no_duel(why: &Why<'_>) -> String {
    let survey = &why.view.input.manifest.survey;
    let measured = |wanted: bool| {
        let mut cells = why.view.measured().map(|c| c.cell.mover.as_str());
        cells.any(|m| reads(survey, m).is_some_and(|f| overlaps(f) == wanted))
    };
    if !measured(true) {
        return "no asynchronous read was measured: needs cells with --mover posix-aio,libaio,uring-read beside pread".to_owned();
    }
    if !measured(false) {
        return "no synchronous read was measured beside them: needs cells with --mover pread"
            .to_owned();
    }
    "no asynchronous read is compared in throughput with a synchronous one that differs in nothing else and has three blocks in common with it".to_owned()
}

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let duels = duels(why)?;
    let answer = if duels.is_empty() {
        Err(no_duel(why))
    } else {
        answer(&duels)
    };
    Some(Explained {
        answer,
        numbers: numbers(why, &duels),
        evidence: open(&duels).into_iter().collect(),
        would_change: "more requests in flight (--depth), a file that is not in the page cache (--cache), other request sizes (--size), or a disk with more parallelism",
        findings: duels.iter().map(|d| d.finding.id.clone()).collect(),
    })
}

fn answer(duels: &[Duel<'_>]) -> Result<String, String> {
    let [slower, faster] = [Verdict::Worse, Verdict::Better].map(|verdict| clauses(duels, verdict));
    let same = duels
        .iter()
        .filter(|d| d.finding.verdict == Verdict::NoDifferenceThatMatters);
    let same = same.count();
    let open = duels
        .iter()
        .filter(|d| d.finding.verdict == Verdict::NotDecided)
        .count();
    if open == duels.len() {
        return Err(format!(
            "none of {} with a synchronous read is decided: needs more blocks (--budget)",
            phrases::count(open, "comparison")
        ));
    }
    let against = alternatives(duels);
    let mut told = if slower.is_empty() {
        format!(
            "at no place that was measured: of {} of its throughput with that of {against} none came out slower",
            phrases::count(duels.len(), "comparison")
        )
    } else {
        format!(
            "slower, by its throughput over that of {against}: {}",
            slower.join("; ")
        )
    };
    if !faster.is_empty() {
        told.push_str(&format!(". Faster: {}", faster.join("; ")));
    }
    if same > 0 {
        told.push_str(&format!(
            ". No difference that matters in {}",
            phrases::count(same, "cell")
        ));
    }
    Ok(format!("{told}."))
}

/// The synchronous movers that are compared with.
fn alternatives(duels: &[Duel<'_>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for duel in duels {
        let name = phrases::named(Axis::Mover, &duel.finding.baseline_value);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    phrases::alternatives(&names)
}

/// Where the comparisons of a verdict are, each place with its movers and their ratios.
fn clauses(duels: &[Duel<'_>], verdict: Verdict) -> Vec<String> {
    let mut places: Vec<Place> = Vec::new();
    for cache in Cache::ALL {
        places.extend([false, true].map(|several| Place {
            cache: *cache,
            several,
        }));
    }
    let clause = |place: Place| {
        let here: Vec<&Duel<'_>> = duels.iter().filter(|d| place.holds(d.cell)).collect();
        let mut movers: Vec<&str> = Vec::new();
        for duel in here.iter().filter(|d| d.finding.verdict == verdict) {
            if !movers.contains(&duel.finding.value.as_str()) {
                movers.push(&duel.finding.value);
            }
        }
        let told: Vec<String> = movers
            .into_iter()
            .map(|mover| {
                let own: Vec<&&Duel<'_>> =
                    here.iter().filter(|d| d.finding.value == mover).collect();
                let such = own.iter().filter(|d| d.finding.verdict == verdict);
                let ratios: Vec<Ratio> = such.map(|d| ratio(d.finding)).collect();
                let among = if ratios.len() == own.len() {
                    String::new()
                } else {
                    format!(" in {} of {} cells", ratios.len(), own.len())
                };
                format!("`{mover}` {}{among}", hull(&ratios))
            })
            .collect();
        (!told.is_empty()).then(|| format!("{} {}", place.in_words(), phrases::list(&told)))
    };
    places.into_iter().filter_map(clause).collect()
}

fn ratio(f: &Finding) -> Ratio {
    Ratio {
        value: f.ratio,
        low: f.low,
        high: f.high,
    }
}

impl Place {
    fn holds(self, cell: &Cell) -> bool {
        cell.cache == self.cache && (cell.depth > 1) == self.several
    }

    fn in_words(self) -> String {
        let flight = if self.several {
            "several requests in flight"
        } else {
            "one request in flight"
        };
        format!("{} with {flight}", from(self.cache))
    }
}

/// Where the bytes come from.
pub(super) fn from(cache: Cache) -> &'static str {
    match cache {
        Cache::Memory => "from a memory file",
        Cache::Warm => "from the page cache",
        Cache::Cold => "from the disk through the page cache",
        Cache::Direct => "from the disk past the page cache",
    }
}

/// A row for each asynchronous mover and state of the page cache.
fn numbers(why: &Why<'_>, duels: &[Duel<'_>]) -> Vec<String> {
    let mut rows: Vec<(String, Cache, Vec<String>)> = Vec::new();
    for duel in duels {
        let f = duel.finding;
        let head = format!(
            "`{}` against `{}`, throughput {}",
            f.value,
            f.baseline_value,
            from(duel.cell.cache)
        );
        let held: Vec<Axis> = why
            .varied
            .iter()
            .copied()
            .filter(|a| ![Axis::Mover, Axis::Cache].contains(a))
            .collect();
        let place = phrases::circumstances(&grid::coordinates(duel.cell, &held));
        let told = format!("{} {place}", phrases::ratio(f.ratio, f.low, f.high));
        let told = told.trim_end().to_owned();
        match rows
            .iter_mut()
            .find(|(h, cache, _)| *h == head && *cache == duel.cell.cache)
        {
            Some((_, _, list)) => list.push(told),
            None => rows.push((head, duel.cell.cache, vec![told])),
        }
    }
    let told = rows
        .iter()
        .map(|(head, _, list)| format!("{head}: {}", span_of(list)));
    told.take(MOST_ROWS).collect()
}

/// How many comparisons are not decided.
fn open(duels: &[Duel<'_>]) -> Option<String> {
    let open = duels
        .iter()
        .filter(|d| d.finding.verdict == Verdict::NotDecided)
        .count();
    (open > 0).then(|| {
        format!(
            "{open} of {} are not decided",
            phrases::count(duels.len(), "comparison")
        )
    })
}

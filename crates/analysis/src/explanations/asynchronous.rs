//! When asynchronous reads of a file are slower than synchronous ones, and why.

use bytecost_spec::survey::{InFlight, MoverFacts, Route};
use bytecost_spec::{Axis, Cache, Cell, Measure, Metric, Survey, units};
use itertools::Itertools as _;

use super::ranges::{estimates, hull, span_of};
use super::{Explained, MOST_ROWS, Why};
use crate::crossovers::Ratio;
use crate::grid;
use crate::pairing::Pairing;
use crate::phrases;
use crate::result::{Finding, Verdict};
use crate::trials::CellTrials;

/// What the two are held against each other in.
const SPEED: Metric = Metric::both(Measure::ThroughputGbitPerS);

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
fn duels<'v>(why: &Why<'v>) -> Option<Vec<Duel<'v>>> {
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
fn no_duel(why: &Why<'_>) -> String {
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
    let names = (duels.iter()).map(|d| Axis::Mover.subject(&d.finding.baseline_value));
    phrases::alternatives(&names.unique().collect::<Vec<_>>())
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
        let such = here.iter().filter(|d| d.finding.verdict == verdict);
        let told: Vec<String> = (such.map(|d| d.finding.value.as_str()).unique())
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

const SWITCHES: Metric = Metric::both(Measure::ContextSwitchesPerMessage);
const CPU: Metric = Metric::both(Measure::CpuNsPerMessage);
const CALLS: Metric = Metric::both(Measure::CallsPerMessage);
const TIME: Metric = Metric::both(Measure::LatencyUsP50);

/// Context switches a request from which it is handed to another thread and back.
const HANDED_OVER: f64 = 0.5;
/// How many times the throughput of one request in flight several must reach to overlap.
const OVERLAP: f64 = 1.5;

/// Why they are slower, where they are: what each request costs beside the read.
pub(super) fn ask_why(why: &Why<'_>) -> Option<Explained> {
    let all = duels(why)?;
    let slower: Vec<Duel<'_>> = all
        .iter()
        .copied()
        .filter(|d| d.finding.verdict == Verdict::Worse)
        .collect();
    let decided = all.iter().any(|d| d.finding.verdict != Verdict::NotDecided);
    if slower.is_empty() && decided {
        return None;
    }
    let told = |answer| Explained {
        answer,
        numbers: Vec::new(),
        evidence: Vec::new(),
        would_change: "an interface that needs no thread for a request (io_uring), several requests in flight (--depth), or a file that is not in the page cache (--cache direct)",
        findings: slower.iter().map(|d| d.finding.id.clone()).collect(),
    };
    if slower.is_empty() {
        let missing = if all.is_empty() {
            no_duel(why)
        } else {
            "whether it is slower at all is not decided: needs more blocks (--budget)".to_owned()
        };
        return Some(told(Err(missing)));
    }
    let reasons = [
        threads(why, &slower),
        page_cache(why, &slower),
        alone(why, &slower),
        in_turn(why, &slower),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    let answer = if reasons.is_empty() {
        Err(format!(
            "what its requests cost beside the read: {}",
            absent(why, &slower)
        ))
    } else {
        Ok(format!("{}.", reasons.join("; ")))
    };
    Some(Explained {
        numbers: costs(why, &slower),
        evidence: dearer(why, &slower).into_iter().collect(),
        ..told(answer)
    })
}

/// The names of movers, each once.
fn movers<'v>(duels: &[&Duel<'v>]) -> Vec<&'v str> {
    let names = duels.iter().map(|d| d.finding.value.as_str());
    names.unique().collect()
}

fn named(movers: &[&str]) -> String {
    let names: Vec<String> = movers.iter().map(|m| format!("`{m}`")).collect();
    phrases::list(&names)
}

fn ids<'v>(duels: &[&Duel<'v>], of: impl Fn(&Duel<'v>) -> &'v str) -> Vec<&'v str> {
    let mut ids: Vec<&str> = duels.iter().map(|d| of(d)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Requests that are carried out by threads: handed over and back.
fn threads(why: &Why<'_>, slower: &[Duel<'_>]) -> Option<String> {
    let survey = &why.view.input.manifest.survey;
    // One that may use threads need not do so: io_uring reads what is there by itself.
    let by_threads = |d: &&Duel<'_>| {
        let facts = survey.mover(&d.finding.value);
        let switches = estimates(why, &[&d.finding.cell], SWITCHES);
        facts.is_some_and(|m| m.in_flight == InFlight::SeveralByThreads)
            && switches.is_some_and(|(least, _)| least >= HANDED_OVER)
    };
    let own: Vec<&Duel<'_>> = slower.iter().filter(by_threads).collect();
    let (_, told) = estimates(why, &ids(&own, |d| &d.finding.cell), SWITCHES)?;
    let (_, instead) = estimates(why, &ids(&own, |d| &d.finding.baseline), SWITCHES)?;
    Some(format!(
        "threads of the process carry out the requests of {}, so that each is handed over and back: {told} context switches a request instead of {instead} in {}",
        named(&movers(&own)),
        phrases::count(own.len(), "cell")
    ))
}

/// Requests that the page cache serves at once: nothing is waited for that could be hidden.
fn page_cache(why: &Why<'_>, slower: &[Duel<'_>]) -> Option<String> {
    let hits = |d: &&Duel<'_>| matches!(d.cell.cache, Cache::Warm | Cache::Memory);
    let own: Vec<&Duel<'_>> = slower.iter().filter(hits).collect();
    if own.is_empty() {
        return None;
    }
    let dear: Vec<Ratio> = own.iter().filter_map(|d| ratio_in(why, d, CPU)).collect();
    if dear.is_empty() {
        return None;
    }
    let (_, took) = estimates(why, &ids(&own, |d| &d.finding.baseline), TIME)?;
    Some(format!(
        "{} no request waits for the disk (`{}` has one in {took}), so that there is nothing to hide behind others, and what {} add to it comes on top: {} the CPU time of a request",
        from(own[0].cell.cache),
        own[0].finding.baseline_value,
        named(&movers(&own)),
        hull(&dear)
    ))
}

/// One request in flight on a path on which several do help.
fn alone(why: &Why<'_>, slower: &[Duel<'_>]) -> Option<String> {
    let on_disk =
        |d: &&Duel<'_>| d.cell.depth == 1 && matches!(d.cell.cache, Cache::Cold | Cache::Direct);
    let own: Vec<&Duel<'_>> = slower.iter().filter(on_disk).collect();
    let gains: Vec<(&str, Ratio)> = own
        .iter()
        .filter_map(|d| Some((d.finding.value.as_str(), deeper(why, &d.finding.cell)?)))
        .filter(|(_, gain)| gain.low >= OVERLAP)
        .collect();
    if gains.is_empty() {
        return None;
    }
    let mut names: Vec<&str> = gains.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let gains: Vec<Ratio> = gains.into_iter().map(|(_, gain)| gain).collect();
    Some(format!(
        "with one request in flight nothing overlaps, and what the interface adds buys nothing: with the most in flight the throughput of {} becomes {}",
        named(&names),
        hull(&gains)
    ))
}

/// Several in flight that do not overlap after all.
fn in_turn(why: &Why<'_>, slower: &[Duel<'_>]) -> Option<String> {
    let deep =
        |d: &&Duel<'_>| d.cell.depth > 1 && matches!(d.cell.cache, Cache::Cold | Cache::Direct);
    let own: Vec<&Duel<'_>> = slower.iter().filter(deep).collect();
    let gains: Vec<(&Duel<'_>, Ratio)> = own
        .iter()
        .filter_map(|d| Some((*d, deeper(why, &d.finding.cell)?)))
        .filter(|(_, gain)| gain.high < OVERLAP)
        .collect();
    if gains.is_empty() {
        return None;
    }
    let duels: Vec<&Duel<'_>> = gains.iter().map(|(d, _)| *d).collect();
    let gains: Vec<Ratio> = gains.iter().map(|(_, gain)| *gain).collect();
    Some(format!(
        "more requests in flight do not help {}: with the most its throughput becomes {}, so that its requests to one file go one after the other",
        named(&movers(&duels)),
        hull(&gains)
    ))
}

/// The throughput of a cell's mover with most requests in flight over that with one, all else
/// alike.
fn deeper(why: &Why<'_>, id: &str) -> Option<Ratio> {
    let cell = find(why, id)?;
    let group = cell.cell.id_without(&[Axis::Depth]);
    let own = why.view.measured();
    let mut alike: Vec<&CellTrials<'_>> = own
        .filter(|c| c.cell.id_without(&[Axis::Depth]) == group)
        .collect();
    alike.sort_by_key(|c| c.cell.depth);
    let (one, most) = (alike.first()?, alike.last()?);
    let apart = one.cell.depth == 1 && most.cell.depth > 1;
    let pairing = Pairing {
        axis: Axis::Depth,
        baseline: one,
        other: most,
    };
    apart
        .then(|| Ratio::of(&pairing.log_ratios(SPEED)))
        .flatten()
}

fn find<'v>(why: &Why<'v>, id: &str) -> Option<&'v CellTrials<'v>> {
    why.view.measured().find(|c| c.id == id)
}

/// A metric of the asynchronous mover over that of the other.
fn ratio_in(why: &Why<'_>, duel: &Duel<'_>, metric: Metric) -> Option<Ratio> {
    let pairing = Pairing {
        axis: Axis::Mover,
        baseline: find(why, &duel.finding.baseline)?,
        other: find(why, &duel.finding.cell)?,
    };
    Ratio::of(&pairing.log_ratios(metric))
}

/// What a request costs each mover that is slower, and the one it is slower than.
fn costs(why: &Why<'_>, slower: &[Duel<'_>]) -> Vec<String> {
    let all: Vec<&Duel<'_>> = slower.iter().collect();
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    let mut add = |mover: &str, id| match rows.iter_mut().find(|(m, _)| m == mover) {
        Some((_, ids)) => ids.push(id),
        None => rows.push((mover.to_owned(), vec![id])),
    };
    for duel in &all {
        add(&duel.finding.baseline_value, duel.finding.baseline.as_str());
    }
    for duel in &all {
        add(&duel.finding.value, duel.finding.cell.as_str());
    }
    let told = rows.iter_mut().filter_map(|(mover, ids)| {
        ids.sort_unstable();
        ids.dedup();
        let parts = [SWITCHES, CALLS, CPU].into_iter().filter_map(|metric| {
            let (_, told) = estimates(why, ids, metric)?;
            Some(format!("{} {told}", phrases::metric(metric)))
        });
        let parts: Vec<String> = parts.collect();
        let cells = phrases::count(ids.len(), "cell");
        (!parts.is_empty()).then(|| format!("`{mover}` in {cells}: {}", parts.join("; ")))
    });
    told.take(MOST_ROWS).collect()
}

/// In how many of the slower cells a request takes more CPU time.
fn dearer(why: &Why<'_>, slower: &[Duel<'_>]) -> Option<String> {
    let ratios: Vec<Ratio> = slower
        .iter()
        .filter_map(|d| ratio_in(why, d, CPU))
        .collect();
    let dear = ratios.iter().filter(|r| r.low > 1.0).count();
    let most = ratios.iter().map(|r| r.value).fold(0.0, f64::max);
    (!ratios.is_empty()).then(|| {
        format!(
            "a request takes more CPU time in {dear} of {} in which it is slower, up to {}×",
            phrases::count(ratios.len(), "cell"),
            units::number(most)
        )
    })
}

/// Why the costs of a request are not known.
fn absent(why: &Why<'_>, slower: &[Duel<'_>]) -> String {
    let ids = |id: &str| slower.iter().any(|d| d.finding.cell == id);
    let mut cells = why.view.cells.iter().filter(|c| ids(&c.id));
    let told = cells.find_map(|c| {
        let why = [SWITCHES, CPU].iter().find_map(|m| c.absent.get(m));
        why.map(|w| w.trim_end_matches('.').to_owned())
    });
    told.unwrap_or_else(|| {
        "needs cells of the page cache, of one request in flight and of several (--cache, --depth)"
            .to_owned()
    })
}

//! What `sendfile` and its kin save beside reading into memory, and when they do not.

use bytecost_spec::{Axis, Cache, Cell, Measure, Metric, Side, units};
use itertools::Itertools as _;

use super::asynchronous::from;
use super::ranges::{hull, span_of};
use super::{Explained, MOST_ROWS, Why};
use crate::crossovers::Ratio;
use crate::grid;
use crate::pairing::{Pairing, pairings};
use crate::phrases;
use crate::result::{Finding, Verdict};

/// Ways that read into memory and write from there, each with those that spare that; the first of
/// these is the one that the answer speaks of.
const WAYS: [(&str, &[&str]); 3] = [
    (
        "read-write",
        &[
            "sendfile",
            "splice",
            "uring-splice",
            "sendfile-cork",
            "mmap-send",
        ],
    ),
    ("java-stream", &["java-transfer-to"]),
    ("read-null", &["sendfile-null"]),
];

const MIB: f64 = (1 << 20) as f64;
const CALLS: Metric = sender(Measure::CallsPerMessage);
const CPU: Metric = sender(Measure::CpuSPerGb);
/// Of a message, which is a whole file.
const TIME: Metric = Metric::both(Measure::MsPerMessage);
/// The same turned round, where a study compares this.
const SPEED: Metric = Metric::both(Measure::ThroughputGbitPerS);

const fn sender(measure: Measure) -> Metric {
    Metric {
        measure,
        side: Side::Sender,
    }
}

/// A way that leaves the bytes in the kernel against one that reads them into memory.
type Versus<'v> = Pairing<'v, 'v>;

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let planned = |mover: &str| why.view.trials.moving().any(|c| c.cell.mover == mover);
    let ways: Vec<(&str, &str)> = WAYS
        .iter()
        .filter(|(copying, _)| planned(copying))
        .filter_map(|(copying, others)| Some((*copying, *others.iter().find(|m| planned(m))?)))
        .collect();
    let (copying, saving) = *ways.first()?;
    let measured = ways.iter().find_map(|(copying, saving)| {
        let found = versus(why, copying, saving);
        (!found.is_empty()).then_some((*copying, *saving, found))
    });
    let told = |answer| Explained {
        answer,
        numbers: numbers(why),
        evidence: Vec::new(),
        would_change: "a larger block for the way that reads and writes (--block), larger files (--size), a path on which the receiver is not what both wait for, or the other state of the page cache (--cache warm,cold)",
        findings: Vec::new(),
    };
    let Some((copying, saving, found)) = measured else {
        return Some(told(Err(nothing(why, copying, saving))));
    };
    let mut findings = Vec::new();
    for versus in &found {
        findings.extend(finding(why, versus, TIME).map(|f| f.id.clone()));
        findings.extend(finding(why, versus, CPU).map(|f| f.id.clone()));
    }
    let evidence = [cold(why, &found), stalled(why, &found)];
    let told = Explained {
        evidence: evidence.into_iter().flatten().collect(),
        findings,
        ..told(answer(why, copying, saving, &found))
    };
    Some(told)
}

/// Every pair of cells of the two with enough blocks.
fn versus<'v>(why: &Why<'v>, copying: &str, saving: &str) -> Vec<Versus<'v>> {
    let study = &why.view.input.manifest.study;
    let all = pairings(study, why.view.trials, Axis::Mover, copying);
    all.into_iter()
        .filter(|p| p.other.cell.mover == saving && ratio(p, TIME).is_some())
        .collect()
}

fn ratio(versus: &Versus<'_>, metric: Metric) -> Option<Ratio> {
    Ratio::of(&versus.log_ratios(metric))
}

/// The time for a file over that of the other way.
fn time(versus: &Versus<'_>) -> Option<Ratio> {
    ratio(versus, TIME)
}

fn finding<'v>(why: &Why<'v>, versus: &Versus<'_>, metric: Metric) -> Option<&'v Finding> {
    let of = |wanted: Metric| {
        why.view.findings.iter().find(|f| {
            f.metric == wanted && f.baseline == versus.baseline.id && f.cell == versus.other.id
        })
    };
    of(metric).or_else(|| (metric == TIME).then(|| of(SPEED)).flatten())
}

/// The verdict of the run where it compares the two in that metric, of which less is better; else
/// what the interval alone says.
fn verdict(why: &Why<'_>, versus: &Versus<'_>, metric: Metric) -> Option<Verdict> {
    if let Some(finding) = finding(why, versus, metric) {
        return Some(finding.verdict);
    }
    let r = ratio(versus, metric)?;
    let bound = 1.0 + why.view.input.manifest.study.smallest_effect;
    Some(if r.low >= 1.0 / bound && r.high <= bound {
        Verdict::NoDifferenceThatMatters
    } else if r.high < 1.0 {
        Verdict::Better
    } else if r.low > 1.0 {
        Verdict::Worse
    } else {
        Verdict::NotDecided
    })
}

fn answer(
    why: &Why<'_>,
    copying: &str,
    saving: &str,
    found: &[Versus<'_>],
) -> Result<String, String> {
    let verdicts = |metric: Metric| -> Vec<(&Versus<'_>, Verdict)> {
        let of = |v| Some((v, verdict(why, v, metric)?));
        found.iter().filter_map(of).collect()
    };
    let (mut times, cpu) = (verdicts(TIME), verdicts(CPU));
    // What waits for a timer says nothing of the ways.
    times.retain(|(v, _)| !waits(why, v));
    if times
        .iter()
        .chain(&cpu)
        .all(|(_, v)| *v == Verdict::NotDecided)
    {
        return Err(format!(
            "whether `{saving}` saves time or CPU time beside `{copying}` is not decided in any of {}: needs more blocks (--budget)",
            phrases::count(found.len(), "cell")
        ));
    }
    let such = |of: &[(&Versus<'_>, Verdict)],
                wanted: Verdict,
                value: fn(&Versus<'_>) -> Option<Ratio>| {
        let own = of.iter().filter(|(_, v)| *v == wanted);
        own.filter_map(|(v, _)| value(v)).collect::<Vec<Ratio>>()
    };
    let mut saved: Vec<String> = calls(why, found).into_iter().collect();
    let less = such(&cpu, Verdict::Better, |v| ratio(v, CPU));
    if !less.is_empty() {
        saved.push(format!(
            "CPU time of the sender: {} for each byte in {}",
            hull(&less),
            among(less.len(), cpu.len())
        ));
    }
    let faster = such(&times, Verdict::Better, time);
    if !faster.is_empty() {
        saved.push(format!(
            "time: {} for each file in {}",
            hull(&faster),
            among(faster.len(), times.len())
        ));
    }
    let first = if saved.is_empty() {
        format!("`{saving}` saves nothing beside `{copying}` here")
    } else {
        format!("beside `{copying}`, `{saving}` saves {}", saved.join("; "))
    };
    Ok(format!("{first}. {}", not(why, &times, &cpu)))
}

/// Where it saves no time, and where no CPU time.
fn not(why: &Why<'_>, times: &[(&Versus<'_>, Verdict)], cpu: &[(&Versus<'_>, Verdict)]) -> String {
    let mut told = Vec::new();
    for (noun, of, value) in [
        ("time", times, time as fn(&Versus<'_>) -> Option<Ratio>),
        ("CPU time", cpu, |v| ratio(v, CPU)),
    ] {
        let idle: Vec<&Versus<'_>> = of
            .iter()
            .filter(|(_, v)| matches!(v, Verdict::Worse | Verdict::NoDifferenceThatMatters))
            .map(|(v, _)| *v)
            .collect();
        let ratios: Vec<Ratio> = idle.iter().filter_map(|v| value(v)).collect();
        if !idle.is_empty() {
            told.push(format!(
                "no {noun} {}: {} of that of the other",
                places(why, &idle),
                hull(&ratios)
            ));
        }
    }
    let open = times.iter().filter(|(_, v)| *v == Verdict::NotDecided);
    let open = match open.count() {
        0 => String::new(),
        n => format!(
            " Whether it saves time is not decided in {}.",
            among(n, times.len())
        ),
    };
    let untold = if times.is_empty() {
        " Of time nothing can be said."
    } else {
        ""
    };
    let told = if told.is_empty() {
        "No place was measured in which it is shown to save nothing.".to_owned()
    } else {
        format!("It saves {}.", told.join("; "))
    };
    told + untold + &open
}

/// Whether one of the two waits for the timer of delayed acknowledgements.
fn waits(why: &Why<'_>, versus: &Versus<'_>) -> bool {
    why.view.stalls.any([&versus.baseline.id, &versus.other.id])
}

/// How many pairs are left aside for that.
fn stalled(why: &Why<'_>, found: &[Versus<'_>]) -> Option<String> {
    let n = found.iter().filter(|v| waits(why, v)).count();
    (n > 0).then(|| {
        format!(
            "in {} one of the two waits for a delayed acknowledgement (Nagle's algorithm), which is no cost of copying, so that their times are not compared: needs cells with --nodelay on",
            among(n, found.len())
        )
    })
}

/// Where some pairs are: one by its place, several by what they have in common.
fn places(why: &Why<'_>, pairs: &[&Versus<'_>]) -> String {
    if let [one] = pairs {
        return place(why, one, &[]);
    }
    let caches = pairs.iter().map(|p| from(p.other.cell.cache)).unique();
    let caches: Vec<String> = caches.map(str::to_owned).collect();
    format!(
        "in {} {}",
        phrases::count(pairs.len(), "cell"),
        phrases::list(&caches)
    )
}

/// The circumstances of a pair, but for some axes.
fn place(why: &Why<'_>, versus: &Versus<'_>, but: &[Axis]) -> String {
    let held: Vec<Axis> = why
        .varied
        .iter()
        .copied()
        .filter(|a| ![Axis::Mover, Axis::Cache].contains(a) && !but.contains(a))
        .collect();
    let rest = phrases::joined_circumstances(&grid::coordinates(versus.other.cell, &held));
    format!("{}{rest}", from(versus.other.cell.cache))
}

fn among(n: usize, all: usize) -> String {
    if n == all {
        phrases::count(n, "cell")
    } else {
        format!("{n} of {}", phrases::count(all, "cell"))
    }
}

/// System calls of the sender for each MiB, of both ways.
fn calls(why: &Why<'_>, found: &[Versus<'_>]) -> Option<String> {
    let per_mib = |id: &str| {
        let cell = why.view.cells.iter().find(|c| c.id == id)?;
        let calls = cell.estimates.get(&CALLS)?.value;
        Some(calls * MIB / cell.cell.size_bytes.max(1) as f64)
    };
    let span = |values: Vec<f64>| -> Option<(f64, f64, String)> {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        let [from, to] = [least, most].map(units::number);
        let told = if from == to {
            from
        } else {
            format!("{from} to {to}")
        };
        Some((least, most, told))
    };
    let before = found.iter().filter_map(|v| per_mib(&v.baseline.id));
    let after = found.iter().filter_map(|v| per_mib(&v.other.id));
    let (least, _, before) = span(before.collect())?;
    let (_, most, after) = span(after.collect())?;
    (most < least).then(|| format!("system calls: {after} for each MiB instead of {before}"))
}

/// Each way that was measured against the one it stands beside: time for a file, the sender's
/// CPU time and its calls.
fn numbers(why: &Why<'_>) -> Vec<String> {
    let mut rows = Vec::new();
    for (copying, others) in WAYS {
        for saving in others {
            let found = versus(why, copying, saving);
            for (noun, value) in [
                ("time for a file", time as fn(&Versus<'_>) -> Option<Ratio>),
                ("CPU time of the sender", |v| ratio(v, CPU)),
            ] {
                let told: Vec<String> = found
                    .iter()
                    .filter_map(|v| {
                        let r = value(v)?;
                        let ratio = phrases::ratio(r.value, r.low, r.high);
                        Some(format!(
                            "{ratio} {}{}",
                            place(why, v, &[]),
                            ms(why, v, noun)
                        ))
                    })
                    .collect();
                if !told.is_empty() {
                    rows.push(format!(
                        "`{saving}` against `{copying}`, {noun}: {}",
                        span_of(&told)
                    ));
                }
            }
        }
    }
    rows.truncate(MOST_ROWS);
    rows
}

/// The times of both for a file: `, 153 against 748 ms`.
fn ms(why: &Why<'_>, versus: &Versus<'_>, noun: &str) -> String {
    let ms = |id: &str| {
        let cell = why.view.cells.iter().find(|c| c.id == id)?;
        Some(cell.estimates.get(&TIME)?.value)
    };
    match (noun, ms(&versus.other.id), ms(&versus.baseline.id)) {
        ("time for a file", Some(own), Some(other)) => format!(
            ", {} against {} ms",
            units::number(own),
            units::number(other)
        ),
        _ => String::new(),
    }
}

/// What it takes to tell the cold page cache, where none was measured.
fn cold(why: &Why<'_>, found: &[Versus<'_>]) -> Option<String> {
    let is_cold = |v: &&Versus<'_>| v.other.cell.cache == Cache::Cold;
    if found.iter().any(|v| is_cold(&v)) {
        return None;
    }
    // What one mover was refused says nothing of the others.
    let ours = |mover: &str| {
        let mut pairs = found.iter().flat_map(|v| [v.baseline, v.other]);
        pairs.any(|c| c.cell.mover == mover)
    };
    let mut refusals = why.view.input.refusals.iter();
    let refused = refusals.find_map(|r| {
        let cell = Cell::from_id(&r.what)?;
        (cell.cache == Cache::Cold && ours(&cell.mover)).then_some((cell.mover, &r.why))
    });
    Some(refused.map_or_else(
        || "the cold page cache was not measured: needs cells with --cache cold".to_owned(),
        |(mover, why)| {
            format!(
                "`{mover}` with a cold page cache was not measured: {}",
                why.trim_end_matches('.')
            )
        },
    ))
}

/// Why the two cannot be held against each other.
fn nothing(why: &Why<'_>, copying: &str, saving: &str) -> String {
    for mover in [copying, saving] {
        if why.cells(mover).next().is_none() {
            return format!("no cell with mover `{mover}` was measured");
        }
    }
    format!(
        "no two cells that differ in `{copying}` and `{saving}` alone have three blocks in common: needs more blocks (--budget)"
    )
}

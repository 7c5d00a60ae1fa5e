//! `noise`: what one trial differs from the next by, and where that is from: the process, the window,
//! the block, the order, the machine. From runs of `bytecost run` and their logs.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use bytecost_spec::{Counter, Reading, Record, Sample, SideReadings};
use bytecost_store::Root;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench::{Bench, Context, Found, Told};
use crate::kept::{self, Kept, Ran};
use crate::ours::read;
use crate::result::{Row, Target};

mod components;
mod told;

pub const BENCH: Bench = Bench {
    name: "noise",
    question: "What does one trial differ from the next by, and where is that from?",
    target: "none: figures for who plans a run",
    by_name_alone: true,
    run,
};

const STUDY: &str = include_str!("../studies/noise.toml");
/// Where the study has the pinned cells; the bench has them on the CPUs that it may use.
const PINNED: &str = "0:1";
const FREE: &str = "free";
/// What runs differ in: the length of the window in ms, and whether CPUs are kept awake.
const KINDS: [Kind; 4] = [Kind::as_left(10), USUAL, Kind::as_left(160), AWAKE];
/// That of most studies, which others are compared with.
const USUAL: Kind = Kind::as_left(40);
const AWAKE: Kind = Kind {
    awake: true,
    ..USUAL
};
/// Runs of each kind, unless the variable BENCH_NOISE_ROUNDS says otherwise.
const ROUNDS: u64 = 6;

/// One trial, as far as the bench looks at it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Trial {
    /// Its cell by mover and size, and its placement.
    cell: String,
    is_free: bool,
    block: u32,
    attempt: u32,
    /// Start within the run.
    at_ms: f64,
    /// CPU time of both ends per byte that arrived, s/GB.
    cost: f64,
    /// Core-to-core latency between its ends, before and after; 0 where that was not read.
    core_to_core_ns: [u64; 2],
    /// The cost in each eighth of the window, where both sides have all of them.
    eighths: Vec<f64>,
}

/// How a run's trials are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Kind {
    window_ms: u64,
    awake: bool,
}

impl Kind {
    const fn as_left(window_ms: u64) -> Kind {
        let awake = false;
        Kind { window_ms, awake }
    }

    fn name(self) -> String {
        match self.awake {
            true => "awake".to_owned(),
            false => format!("{} ms", self.window_ms),
        }
    }
}

/// The trials of one run, in the order in which they were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    kind: Kind,
    trials: Vec<Trial>,
}

fn run(context: &Context) -> Result<Told> {
    let program = kept::target()?.join("release/bytecost");
    if !program.is_file() {
        return Ok(Told::Missing(
            "bytecost is not built: make bench-noise".to_owned(),
        ));
    }
    let log = Kept::at("noise/noise.jsonl")?;
    let build = kept::build(&program)?;
    let mut runs = Vec::new();
    for round in 0..kept::number("BENCH_NOISE_ROUNDS", ROUNDS)? {
        for place in 0..KINDS.len() as u64 {
            // Each kind comes first and last about as often.
            let kind = KINDS[((round + place) % KINDS.len() as u64) as usize];
            let key = json!({ "round": round, "kind": kind, "build": build });
            let line = log.or(&key, || {
                let run = one(&program, context.cpus, round, kind)?;
                Ok(serde_json::to_value(run)?)
            })?;
            runs.push(serde_json::from_value(line)?);
        }
    }
    Ok(Told::Found(found(&runs, &log)))
}

/// One run of this kind.
fn one(program: &Path, cpus: (u32, u32), round: u64, kind: Kind) -> Result<Run> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    let pinned = format!("{}:{}", cpus.0, cpus.1);
    file.write_all(STUDY.replace(PINNED, &pinned).as_bytes())?;
    let path = file.path().to_str().context("the path is no text")?;
    let Kind { window_ms, awake } = kind;
    let seed = (round * 1000 + window_ms + u64::from(awake)).to_string();
    let window = format!("{window_ms}ms");
    let words = [
        "--background",
        if awake { "awake" } else { "idle" },
        "--evidence",
        "none",
        "--seed",
        &seed,
        "--window",
        &window,
        path,
    ];
    let ran = Ran::new(program, &words)?;
    let records = Root::at(ran.root.path()).open(&ran.id)?.records()?.records;
    let mut trials: Vec<Trial> = records
        .iter()
        .filter_map(|record| match record {
            Record::Sample(sample) => trial(sample),
            _ => None,
        })
        .collect();
    trials.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    // Of a block that was made again, since others used the machine, the last attempt counts.
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for trial in &trials {
        let attempt = last.entry(trial.block).or_default();
        *attempt = trial.attempt.max(*attempt);
    }
    trials.retain(|t| last[&t.block] == t.attempt);
    Ok(Run { kind, trials })
}

/// What a sample says; none of one without the readings.
fn trial(sample: &Sample) -> Option<Trial> {
    let receiver = sample.receiver.as_ref()?;
    let cpu_ns = |side| read(side, Counter::CpuNs).ok();
    let cost =
        (cpu_ns(&sample.sender)? + cpu_ns(receiver)?) / read(receiver, Counter::Bytes).ok()?;
    Some(Trial {
        cell: named(&sample.cell)?,
        is_free: sample.cell.split('/').any(|part| part == FREE),
        block: sample.trial.block,
        attempt: sample.trial.attempt,
        at_ms: sample.started_ms as f64,
        cost: (cost.is_finite() && cost > 0.0).then_some(cost)?,
        core_to_core_ns: [Counter::CoreToCoreBeforeNs, Counter::CoreToCoreAfterNs].map(|counter| {
            let read = sample.machine.get(&counter);
            read.and_then(Reading::measured).unwrap_or(0)
        }),
        eighths: eighths(&sample.sender, receiver).unwrap_or_default(),
    })
}

/// Mover and size of a cell's id.
fn named(cell: &str) -> Option<String> {
    let mut parts = cell.split('/').skip(2);
    let (mover, size) = (parts.next()?, parts.nth(1)?);
    Some(format!("{mover} {size}"))
}

fn eighths(sender: &SideReadings, receiver: &SideReadings) -> Option<Vec<f64>> {
    let (sent, received) = (sender.sub_windows.as_ref()?, receiver.sub_windows.as_ref()?);
    let costs = sent
        .cpu_ns
        .iter()
        .zip(&received.cpu_ns)
        .zip(&received.amount);
    let costs: Vec<f64> = costs
        .map(|((a, b), bytes)| (a + b) as f64 / *bytes as f64)
        .collect();
    costs.iter().all(|c| c.is_finite()).then_some(costs)
}

fn found(runs: &[Run], log: &Kept) -> Found {
    let mut notes = vec![format!(
        "Runs are kept in {}: what is there is not run again.",
        log.path().display()
    )];
    notes.extend(told::components(runs, &KINDS));
    notes.extend(told::cells(runs));
    notes.extend(told::latencies(runs, &KINDS));
    notes.extend(told::distances(runs, &KINDS));
    let costs = told::headlines(runs).into_iter();
    let economy = told::economy(runs, &KINDS).into_iter();
    let rows = costs
        .map(|(what, log_ratio)| Row::new(what, log_ratio, Target::Shown))
        .chain(economy.map(|(what, value)| Row::once(what, value, Target::Shown)));
    Found {
        rows: rows.collect(),
        notes,
        ..Found::default()
    }
}

//! A run that nobody measured, with the shape of a large one: so many cells and blocks, all
//! counters, planted differences between movers, and the noise of a seed.

use std::path::Path;

use anyhow::{Result, ensure};
use base64::Engine as _;
use bytecost_engine::{MOVERS, Mover, RECEIVERS};
use bytecost_lab::flow;
use bytecost_spec::cell::Pattern;
use bytecost_spec::reading::{COUNTERS, Scope};
use bytecost_spec::sample::{FlowReading, Truth};
use bytecost_spec::{
    Cell, Counter, Host, Manifest, Reading, Readings, Record, Refusal, Sample, SideReadings, Study,
    Support, Survey, Transport, TrialKey,
};
use bytecost_stats::Generator;
use bytecost_store::Root;
use hdrhistogram::serialization::{Serializer, V2Serializer};

/// Cells of the run, the `null` mover's included.
pub const CELLS: usize = 50;
/// Its blocks.
pub const BLOCKS: u32 = 20;
const STARTED: &str = "2026-01-01T00:00:00Z";
const WINDOW_NS: f64 = 1e8;
const NO_HARDWARE: &str = "this CPU shows no hardware counters to the machine";

/// 35 cells that stream and 14 of requests and responses; with that of `null` they are [`CELLS`].
const STUDY: &str = r#"
name = "synthetic"
title = "A run that nobody measured"
question = "How long do the reports of a large run take?"
prediction = "Less than a second."
smallest-effect = "5%"
precision = "3%"
budget = "1h"
warmup = "20ms"
window = "100ms"
blocks-least = 8
blocks-most = 20

[axes]
mover = ["send"]

[[tier]]
title = "movers over size"
[tier.axes]
mover = ["send", "send-fields", "sendmsg", "send-zerocopy", "sendfile"]
size = ["256", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB", "1MiB"]

[[tier]]
title = "waiting for an answer"
[tier.axes]
pattern = ["request-response"]
mover = ["send", "sendmsg"]
size = ["256", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB", "1MiB"]

[[compare]]
axis = "mover"
baseline = "send"
metrics = ["cpu_s_per_gb", "throughput_gbit_per_s", "latency_us_p50"]

[[figure]]
title = "CPU time per byte, both sides"
x = "size"
y = "cpu_s_per_gb"
series = "mover"

[[figure]]
title = "Throughput"
x = "size"
y = "throughput_gbit_per_s"
series = "mover"

[[figure]]
title = "Latency"
x = "size"
y = "latency_us_p50"
series = "mover"
"#;

/// Makes the run under `root` and returns its name.
pub fn write(root: &Path, cells: &[Cell], seed: u64) -> Result<String> {
    ensure!(cells.len() == CELLS, "{} cells, not {CELLS}", cells.len());
    let mut run = Root::at(root).create_fresh(manifest(seed)?)?;
    let mut generator = Generator::new(seed);
    for block in 0..BLOCKS {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        generator.shuffle(&mut order);
        for i in order {
            let trial = TrialKey::first(block, i as u32);
            run.append(&Record::Sample(sample(trial, &cells[i], &mut generator)?))?;
        }
    }
    run.end(STARTED.to_owned(), None)?;
    Ok(run.manifest().id.clone())
}

/// The manifest: this version's tables, a machine on which all of them work.
pub fn manifest(seed: u64) -> Result<Manifest> {
    let support = |name: &str, transport| Support {
        name: name.to_owned(),
        transport,
        refused: None,
    };
    let over_all = |names: &[&str]| -> Vec<Support> {
        Transport::WITHIN
            .iter()
            .flat_map(|t| names.iter().map(|n| support(n, *t)))
            .collect()
    };
    let movers: Vec<&str> = MOVERS.iter().map(|m| m.name).collect();
    let receivers: Vec<&str> = RECEIVERS.iter().map(|r| r.name).collect();
    let mut manifest = Manifest {
        bytecost_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: STARTED.to_owned(),
        seed,
        command: vec!["bytecost".to_owned(), "run".to_owned()],
        host: Host {
            kernel: "synthetic".to_owned(),
            architecture: "x86_64".to_owned(),
            cpu_model: "synthetic".to_owned(),
            cpus_allowed: vec![0, 1],
            memory_bytes: 8 << 30,
            memlock_exempt: true,
            nofile_limit: 1 << 20,
            congestion_default: Some("cubic".to_owned()),
            congestion_available: vec!["cubic".to_owned()],
            ..Host::default()
        },
        survey: Survey {
            mover_facts: MOVERS.iter().map(|m| m.facts.owned()).collect(),
            receiver_facts: RECEIVERS.iter().map(|r| r.facts.owned()).collect(),
            movers: over_all(&movers),
            receivers: over_all(&receivers),
            congestion_controls: vec!["cubic".to_owned()],
            counters_refused: [Counter::Cycles, Counter::Instructions]
                .map(|c| Refusal {
                    subject: c,
                    why: NO_HARDWARE.to_owned(),
                })
                .into(),
            ..Survey::default()
        },
        ..Manifest::new(Study::parse(STUDY)?)
    };
    let Manifest {
        study,
        host,
        survey,
        ..
    } = &manifest;
    let here = bytecost_plan::SurveyedHost { host, survey };
    manifest.plan = bytecost_plan::plan(study, here, None, seed, None)?;
    Ok(manifest)
}

/// The cells of the study, `null` first, as the planner makes them: the floor is the first cell
/// moved by `null`.
pub fn cells() -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = Study::parse(STUDY)?
        .cells()
        .into_iter()
        .map(|(_, cell)| cell)
        .collect();
    let floor = Cell {
        mover: "null".to_owned(),
        ..cells[0].clone()
    };
    cells.insert(0, floor);
    Ok(cells)
}

/// CPU time of one side in ns per byte, planted: a cost of each message and one of each byte.
fn planted_ns_per_byte(cell: &Cell) -> f64 {
    let (message_ns, byte_ns) = match cell.mover.as_str() {
        "null" => (3.0, 0.0),
        "send-fields" => (2400.0, 0.060),
        "sendmsg" => (500.0, 0.062),
        "send-zerocopy" => (1500.0, 0.080),
        "sendfile" => (700.0, 0.020),
        _ => (300.0, 0.060),
    };
    message_ns / cell.size_bytes as f64 + byte_ns
}

fn sample(trial: TrialKey, cell: &Cell, generator: &mut Generator) -> Result<Sample> {
    let has_peer = Mover::named(&cell.mover).is_some_and(|m| m.has_peer());
    let noise = (0.03 * generator.normal()).exp();
    let room_bytes = (WINDOW_NS / (planted_ns_per_byte(cell) * noise)).max(1.0) as u64;
    let messages = room_bytes / cell.size_bytes;
    let bytes = messages * cell.size_bytes;
    let started_ms = u64::from(trial.block) * CELLS as u64 * 145 + u64::from(trial.cell) * 145;
    let histogram = match cell.pattern {
        Pattern::Stream => None,
        Pattern::RequestResponse => Some(round_trips(generator)?),
    };
    Ok(Sample {
        trial,
        cell: cell.id(),
        started_ms,
        trial_ms: 145,
        sender: side(cell, messages, generator),
        receiver: has_peer.then(|| side(cell, messages, generator)),
        machine: machine(generator),
        truth: has_peer.then(|| Truth {
            sent_bytes: bytes,
            received_bytes: bytes,
            compared_bytes: messages * 8,
            checked: "content".to_owned(),
        }),
        latency_ns_histogram: histogram,
        ..Sample::default()
    })
}

fn side(cell: &Cell, messages: u64, generator: &mut Generator) -> SideReadings {
    let bytes = messages * cell.size_bytes;
    let mut readings = Readings::new();
    for row in COUNTERS.iter().filter(|row| row.scope == Scope::Side) {
        let reading = match row.counter {
            Counter::Bytes => Reading::Measured(bytes),
            Counter::Messages | Counter::Calls => Reading::Measured(messages),
            Counter::ElapsedNs => Reading::Measured(WINDOW_NS as u64),
            Counter::CpuNs | Counter::TaskClockNs | Counter::SystemNs => {
                let busy = 0.9 + 0.05 * generator.unit();
                Reading::Measured((WINDOW_NS * busy) as u64)
            }
            Counter::Cycles
            | Counter::Instructions
            | Counter::L1dLoadMisses
            | Counter::LlcLoadMisses
            | Counter::Branches
            | Counter::BranchMisses
            | Counter::PerfEnabledNs
            | Counter::PerfRunningNs => Reading::absent(NO_HARDWARE),
            _ => Reading::Measured(generator.below(1000) as u64),
        };
        readings.insert(row.counter, reading);
    }
    SideReadings {
        readings,
        flows: vec![FlowReading {
            bytes,
            messages,
            elapsed_ns: WINDOW_NS as u64,
        }],
        ..SideReadings::default()
    }
}

fn machine(generator: &mut Generator) -> Readings {
    let busy = WINDOW_NS * (1.9 + 0.05 * generator.unit());
    [
        (Counter::MachineElapsedNs, WINDOW_NS as u64),
        (Counter::MachineCpus, 2),
        (Counter::MachineBusyNs, busy as u64),
        (Counter::MachineBusyResolutionNs, 1_000_000),
        (Counter::MachineSoftirqNs, 10_000_000),
        (Counter::MachineStealNs, 0),
    ]
    .into_iter()
    .map(|(counter, n)| (counter, Reading::Measured(n)))
    .collect()
}

/// A histogram of round-trip times, encoded as endpoints send it.
fn round_trips(generator: &mut Generator) -> Result<String> {
    let mut histogram = flow::histogram();
    for _ in 0..1000 {
        let ns = 20_000.0 * (0.4 * generator.normal()).exp();
        histogram.saturating_record(ns as u64);
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planner_makes_the_same_cells() {
        let plan = manifest(1).unwrap().plan;
        let cells = cells().unwrap();
        assert_eq!(plan.cells.len(), CELLS);
        assert_eq!(plan.cells, cells);
        assert_eq!(plan.refused, []);
        assert_eq!(plan.left_out, []);
    }

    #[test]
    fn the_run_is_whole_and_the_same_for_a_seed() {
        let records = |seed| {
            let root = tempfile::tempdir().unwrap();
            let id = write(root.path(), &cells().unwrap(), seed).unwrap();
            let run = Root::at(root.path()).open(&id).unwrap();
            run.records().unwrap().records
        };
        let one = records(1);
        assert_eq!(one.len(), CELLS * BLOCKS as usize);
        assert_eq!(one, records(1));
        assert_ne!(one, records(2));
    }
}

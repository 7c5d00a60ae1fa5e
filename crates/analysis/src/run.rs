//! The run and the study in a few facts.

use std::collections::BTreeMap;

use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Manifest, Route, Sample};

use crate::findings::half_width;
use crate::grid;
use crate::result::{Finding, Input, RunFacts, StudyFacts};
use crate::trials::Trials;

/// The axes that mean something where there is a file and no other end.
const OF_FILES: &[Axis] = &[
    Axis::Mover,
    Axis::Size,
    Axis::Threads,
    Axis::Ring,
    Axis::Placement,
    Axis::Block,
    Axis::Depth,
    Axis::Cache,
    Axis::Access,
    Axis::MemNode,
    Axis::Neighbour,
    Axis::Class,
    Axis::Cgroup,
];

/// The axes that mean something to a CPU at work.
const OF_WORK: &[Axis] = &[
    Axis::Mover,
    Axis::Size,
    Axis::Threads,
    Axis::Placement,
    Axis::MemNode,
    Axis::Neighbour,
    Axis::HugePages,
    Axis::Class,
    Axis::Cgroup,
];

/// The axes that mean something to two threads that take turns.
const OF_PINGS: &[Axis] = &[
    Axis::Mover,
    Axis::Threads,
    Axis::Placement,
    Axis::MemNode,
    Axis::Neighbour,
    Axis::Class,
    Axis::Cgroup,
];

/// The axes that mean nothing where there is none.
const ONLY_OF_SERVERS: &[Axis] = &[
    Axis::Server,
    Axis::Service,
    Axis::Connections,
    Axis::Idle,
    Axis::Connect,
    Axis::Rate,
    Axis::Think,
    Axis::Perf,
];

/// The axes that mean something where there is a server.
const OF_SERVERS: &[Axis] = &[
    Axis::Transport,
    Axis::Size,
    Axis::Threads,
    Axis::Congestion,
    Axis::Placement,
    Axis::Depth,
    Axis::Server,
    Axis::Service,
    Axis::Connections,
    Axis::Idle,
    Axis::Connect,
    Axis::Rate,
    Axis::Think,
    Axis::Perf,
];

pub(crate) fn study_facts(manifest: &Manifest, trials: &Trials<'_>) -> StudyFacts {
    let study = &manifest.study;
    // The cells that move nothing stand beside the question, unless nothing else is asked.
    let some = trials.moving().next().is_some();
    let cells = || {
        let chosen = trials.cells.iter().filter(|c| !some || !c.idle);
        chosen.map(|c| c.cell)
    };
    let survey = &manifest.survey;
    let all = |is: fn(Route) -> bool| {
        cells().all(|c| survey.mover(&c.mover).is_some_and(|m| is(m.route)))
    };
    let needs_no_peer = |route: Route| route.is_of_files() || route == Route::MemoryToMemory;
    let of_servers = cells().all(bytecost_spec::Cell::is_served);
    let meaningful = match (all(needs_no_peer), all(Route::is_work)) {
        _ if of_servers => Some(OF_SERVERS),
        (true, _) => Some(OF_FILES),
        (_, true) => Some(OF_WORK),
        _ if all(Route::is_ping) => Some(OF_PINGS),
        _ => None,
    };
    let by_blocks = cells().any(|c| {
        let facts = survey.mover(&c.mover);
        facts.is_some_and(|m| m.route.goes_by_blocks())
    });
    let varied = grid::varied(cells());
    let constants = cells().next().map_or_else(Vec::new, |first| {
        AXES.iter()
            .filter(|row| !varied.contains(&row.axis))
            .filter(|row| meaningful.is_none_or(|axes| axes.contains(&row.axis)))
            .filter(|row| meaningful.is_none() || by_blocks || row.axis != Axis::Block)
            .filter(|row| of_servers || !ONLY_OF_SERVERS.contains(&row.axis))
            .map(|row| (row.axis, first.value(row.axis)))
            .collect()
    });
    StudyFacts {
        name: study.name.clone(),
        design: study.design.clone(),
        title: study.title.clone(),
        question: study.question.clone(),
        prediction: study.prediction.clone(),
        smallest_effect: study.smallest_effect,
        precision: study.precision,
        level: crate::confidence::LEVEL,
        warmup_ms: study.warmup_ms,
        window_ms: study.window_ms,
        constants,
        varied,
    }
}

pub(crate) fn run_facts(input: &Input<'_>, trials: &Trials<'_>, findings: &[Finding]) -> RunFacts {
    let manifest = input.manifest;
    let samples = || input.samples.iter();
    let starts = samples()
        .map(|s| s.started_ms)
        .chain(input.failures.iter().map(|f| f.started_ms));
    let ends = samples()
        .map(|s| s.started_ms.saturating_add(s.trial_ms))
        .chain(input.failures.iter().map(|f| f.started_ms));
    let measured_ms = match (starts.min(), ends.max()) {
        (Some(first), Some(last)) => last.saturating_sub(first),
        _ => 0,
    };
    let blocks = trials
        .cells
        .iter()
        .filter(|c| !c.by_block.is_empty())
        .map(|c| c.by_block.len())
        .min()
        .unwrap_or(0);
    let stands = input.blocks.iter().filter(|b| b.repeated_because.is_none());
    let stands: BTreeMap<u32, u32> = stands.map(|b| (b.block, b.attempt)).collect();
    let is_repeated = |s: &&Sample| {
        let stands = stands.get(&s.trial.block);
        s.repeated_because.is_some() || stands.is_some_and(|attempt| *attempt != s.trial.attempt)
    };
    RunFacts {
        id: manifest.id.clone(),
        started: manifest.started.clone(),
        bytecost_version: manifest.bytecost_version.clone(),
        command: manifest.command.clone(),
        seed: manifest.seed,
        measured_s: measured_ms as f64 / 1e3,
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        trials: input.samples.len(),
        repeated: samples().filter(is_repeated).count(),
        failed: input.failures.len(),
        widest_interval: findings
            .iter()
            .filter(|f| f.primary)
            .map(half_width)
            .max_by(f64::total_cmp),
        notes: input.notes.to_vec(),
        files: manifest.survey.files.as_ref().map(|f| match &f.user_file {
            Some(path) => format!("the file {path}, on {}", f.file_system),
            None => format!("test files in {}, on {}", f.dir, f.file_system),
        }),
        java: manifest.survey.java.clone(),
        places: crate::places::sentences(trials),
        ended_early: input.ended_early.map(str::to_owned),
    }
}

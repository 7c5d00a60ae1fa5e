//! A small machine in memory: cells whose true costs are known, and samples of them with noise.

use base64::Engine as _;
use bytecost_analysis::{Analysis, CellResult, Finding, Input, LeftOut, analyse};
use bytecost_report::{CaveatText, DisturbanceText, ExplanationText, explanations};
use bytecost_spec::evidence::{EvidenceAsked, Means, TrialEvidence};
use bytecost_spec::host::CpuCache;
use bytecost_spec::manifest::{RoundNoise, RoundVariance};
use bytecost_spec::sample::{Block, FlowReading, Truth};
use bytecost_spec::survey::{MoverFacts, Release, Route, Survey, WorkKind};
use bytecost_spec::{
    Cell, Counter, Failure, Manifest, Metric, Pattern, Reading, Readings, RefusedCell, Sample,
    SideReadings, Study, TrialKey,
};
use bytecost_stats::Generator;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

#[derive(Default)]
pub struct World {
    pub manifest: Manifest,
    pub cells: Vec<Cell>,
    pub refused: Vec<RefusedCell>,
    pub left_out: Vec<LeftOut>,
    pub samples: Vec<Sample>,
    pub failures: Vec<Failure>,
    pub blocks: Vec<Block>,
    pub evidence: Vec<TrialEvidence>,
    pub notes: Vec<String>,
    pub ended_early: Option<String>,
    pub damage: Option<String>,
}

#[derive(Clone, Copy)]
pub struct True {
    pub sender_ns_per_byte: f64,
    pub receiver_ns_per_byte: f64,
    pub gbit_per_s: f64,
    pub latency_us: f64,
    pub copied: Option<f64>,
}

impl True {
    pub fn costs(sender_ns_per_byte: f64) -> True {
        True {
            sender_ns_per_byte,
            receiver_ns_per_byte: 0.1,
            // A sender that is busy for four fifths of the time does not wait for its receiver.
            gbit_per_s: 6.4 / sender_ns_per_byte,
            latency_us: 10.0,
            copied: None,
        }
    }

    /// Both sides cost so many times what is usual.
    pub fn both(times: f64) -> True {
        True {
            receiver_ns_per_byte: 0.1 * times,
            ..True::costs(0.2 * times)
        }
    }

    pub fn at_rate(self, gbit_per_s: f64) -> True {
        True { gbit_per_s, ..self }
    }

    pub fn late(self, latency_us: f64) -> True {
        True { latency_us, ..self }
    }

    /// With the share of its completions that are flagged as copied.
    pub fn copied(self, copied: impl Into<Option<f64>>) -> True {
        True {
            copied: copied.into(),
            ..self
        }
    }
}

#[derive(Clone, Copy)]
pub enum At {
    Sender,
    Machine,
    Peer,
}

pub fn all(_: &Cell) -> bool {
    true
}

pub fn by_mover(mover: &'static str) -> impl Fn(&Cell) -> bool + Copy {
    move |cell| cell.mover == mover
}

pub fn at(mover: &'static str, size_bytes: u64) -> impl Fn(&Cell) -> bool + Copy {
    move |cell| cell.mover == mover && cell.size_bytes == size_bytes
}

#[track_caller]
pub fn says(text: impl AsRef<str>, parts: impl IntoIterator<Item = impl AsRef<str>>) {
    let text = text.as_ref();
    for part in parts {
        let part = part.as_ref();
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

#[track_caller]
pub fn begins(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(text.starts_with(part), "not `{part}`: {text}");
}

#[track_caller]
pub fn ends(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(text.ends_with(part), "not `{part}`: {text}");
}

#[track_caller]
pub fn one<T: std::fmt::Debug>(list: &[T]) -> &T {
    assert_eq!(list.len(), 1, "{list:#?}");
    &list[0]
}

pub fn put(readings: &mut Readings, counter: Counter, value: u64) {
    readings.insert(counter, Reading::Measured(value));
}

pub fn scale(readings: &mut Readings, counter: Counter, times: f64) {
    let read = readings.get_mut(&counter).expect("a reading");
    *read = Reading::Measured((times * read.measured().expect("a number") as f64) as u64);
}

pub fn scale_cpu_time(sample: &mut Sample, times: f64) {
    for side in sample.sides_mut() {
        scale(&mut side.readings, Counter::CpuNs, times);
    }
}

/// A cache of CPU 0.
pub fn cache(level: u32, size_bytes: u64) -> CpuCache {
    CpuCache {
        level,
        kind: "Unified".to_owned(),
        size_bytes,
        shared_by: vec![0],
    }
}

pub trait Found {
    fn of_mover(&self, mover: &str) -> &CellResult;
    fn of_id(&self, id: &str) -> &CellResult;
    fn of_cell(&self, metric: Metric, id: &str) -> &Finding;
    fn answer(&self, key: &str) -> String;
}

impl Found for Analysis {
    #[track_caller]
    fn of_mover(&self, mover: &str) -> &CellResult {
        let mut cells = self.cells.iter();
        cells.find(|c| c.cell.mover == mover).expect("a cell")
    }

    #[track_caller]
    fn of_id(&self, id: &str) -> &CellResult {
        self.cells.iter().find(|c| c.id == id).expect("a cell")
    }

    #[track_caller]
    fn of_cell(&self, metric: Metric, id: &str) -> &Finding {
        let own = |f: &&Finding| f.metric == metric && f.cell == id;
        self.findings.iter().find(own).expect("a finding")
    }

    #[track_caller]
    fn answer(&self, key: &str) -> String {
        let found = question(self, key).unwrap_or_else(|| panic!("{key} is not asked"));
        let missing = found.missing;
        found.answer.unwrap_or_else(|| panic!("{missing:?}"))
    }
}

/// The text of a study of that name with these axes, comparisons and figures, where all else makes
/// no difference.
macro_rules! study {
    ($name:literal, $asks:literal) => {
        concat!(
            "name = \"",
            $name,
            "\"\n",
            r#"title = "Made up"
question = "Which is best?"
prediction = "It depends."
smallest-effect = "5%"
precision = "3%"
budget = "10m"
warmup = "10ms"
window = "100ms"
blocks-least = 6
blocks-most = 40
"#,
            $asks
        )
    };
}
pub(crate) use study;

pub const STUDY: &str = r#"
name = "send-copies"
title = "How to send"
question = "From what message size does it pay to skip a copy?"
prediction = "sendfile wins from 16 KiB"
smallest-effect = "3%"
precision = "5%"
budget = "10m"
warmup = "50ms"
window = "100ms"
blocks-least = 6
blocks-most = 40

[axes]
mover = ["null", "send", "writev", "send-zerocopy", "sendfile"]
size = ["256", "4KiB", "64KiB", "1MiB"]

[[compare]]
axis = "mover"
baseline = "send"
metrics = ["cpu_s_per_gb", "throughput_gbit_per_s"]

[[figure]]
title = "CPU time per byte"
x = "size"
y = "cpu_s_per_gb"
series = "mover"

[[figure]]
title = "Latency over threads"
x = "threads"
y = "latency_us_p50"
series = "mover"
"#;

pub fn with_axes(axes: &str) -> String {
    STUDY.replace("mover = [", &format!("{axes}\nmover = ["))
}

/// The usual study of these axes in place of its own.
pub fn study_of(axes: &str) -> String {
    let start = STUDY.find("mover = [").expect("axes");
    let end = STUDY.find("\n\n[[compare]]").expect("a comparison");
    STUDY.replace(&STUDY[start..end], axes)
}

pub const MOVERS: &str = r#"mover = ["send", "send-zerocopy", "sendfile"]
size = ["4KiB", "64KiB"]"#;

pub fn quiet() -> World {
    run(MOVERS, |_| True::costs(0.2))
}

pub fn run(axes: &str, truth: impl Fn(&Cell) -> True) -> World {
    let mut world = World::new(&study_of(axes)).run(1, 12, 0.003, truth);
    let sendfile = facts("sendfile", Release::Never, true);
    world.manifest.survey.mover_facts.push(sendfile);
    world
}

/// The quiet run with something wrong.
pub fn planted(plant: impl Fn(&mut World)) -> World {
    let mut world = quiet();
    plant(&mut world);
    world
}

/// The caveats of that name, in words.
pub fn found(world: &World, kind: &str) -> Vec<CaveatText> {
    let caveats = bytecost_report::caveats(&world.analyse());
    caveats.into_iter().filter(|d| d.kind == kind).collect()
}

/// The caveat arises once, touches so many cells, and its evidence says this.
#[track_caller]
pub fn fires(world: &World, kind: &str, cells: usize, evidence: &str) -> CaveatText {
    let found = found(world, kind);
    let caveat = one(&found);
    assert_eq!(caveat.cells.len(), cells, "{caveat:#?}");
    says(&caveat.evidence, [evidence]);
    caveat.clone()
}

/// The disturbances of a run, in words.
pub fn disturbances(world: &World) -> Vec<DisturbanceText> {
    bytecost_report::disturbances(&world.analyse())
}

#[track_caller]
pub fn silent(world: &World, kind: &str) {
    let found = found(world, kind);
    assert!(found.is_empty(), "{found:#?}");
}

pub fn facts(name: &str, release: Release, has_peer: bool) -> MoverFacts {
    MoverFacts {
        name: name.to_owned(),
        release,
        route: if has_peer {
            Route::MemoryToSocket
        } else {
            Route::Nowhere
        },
        descriptors_per_flow: 1,
        ..MoverFacts::default()
    }
}

/// The facts of a mover with this route that gets its buffers back at once.
pub fn row(name: &str, route: Route) -> MoverFacts {
    let work = match name {
        "work-integer" | "work-float" => WorkKind::Registers,
        "work-chase" => WorkKind::Chain,
        "wake-up" => WorkKind::Beats,
        _ => WorkKind::Memory,
    };
    MoverFacts {
        route,
        work,
        ..facts(name, Release::AtReturn, route.has_peer())
    }
}

/// A question in the words of a report; none where the run is not asked it.
pub fn question(analysis: &Analysis, key: &str) -> Option<ExplanationText> {
    let mut all = explanations(analysis).into_iter();
    all.find(|e| serde_json::to_value(e.key).expect("JSON") == *key)
}

/// The explanation of a question, whose answer has these words, in whole sentences.
#[track_caller]
pub fn answered(analysis: &Analysis, key: &str, words: &[&str]) -> ExplanationText {
    let found = question(analysis, key).unwrap_or_else(|| panic!("{key} is not asked"));
    let answer = analysis.answer(key);
    says(&answer, words);
    assert!(
        found.missing.is_none() && found.would_change.is_some(),
        "{found:#?}"
    );
    assert!(answer.ends_with('.') && !answer.contains('\n'), "{answer}");
    found
}

/// A question without an answer, and a short clause with these words about what is missing.
#[track_caller]
pub fn missing(analysis: &Analysis, key: &str, words: &[&str]) -> ExplanationText {
    let found = question(analysis, key).unwrap_or_else(|| panic!("{key} is not asked"));
    let said = found
        .missing
        .as_deref()
        .unwrap_or_else(|| panic!("{found:#?}"));
    says(said, words);
    assert!(
        found.answer.is_none() && found.would_change.is_none(),
        "{found:#?}"
    );
    assert!(said.len() < 250 && !said.contains('\n'), "{said}");
    found
}

/// The deviation of ratios between rounds, as if it were well known of each comparison.
pub fn round_noise(deviation: f64) -> RoundNoise {
    let assumed = RoundVariance {
        variance: deviation * deviation,
        degrees: 1000.0,
    };
    RoundNoise {
        assumed,
        ..RoundNoise::ASSUMED
    }
}

impl World {
    /// A study with all of its cells and no samples yet.
    pub fn new(study: &str) -> World {
        let study = Study::parse(study).expect("a study");
        let cells = study.cells().into_iter().map(|(_, cell)| cell).collect();
        let survey = Survey {
            mover_facts: vec![
                facts("null", Release::AtReturn, false),
                facts("send", Release::AtReturn, true),
                facts("send-zerocopy", Release::AtCompletion, true),
            ],
            ..Survey::default()
        };
        World {
            manifest: Manifest {
                format: 1,
                id: "quiet-otter".to_owned(),
                bytecost_version: "0.1.0".to_owned(),
                started: "2026-11-21T03:00:00Z".to_owned(),
                seed: 7,
                command: vec!["bytecost".to_owned(), "run".to_owned()],
                survey,
                rounds: round_noise(0.0),
                ..Manifest::new(study)
            },
            cells,
            ..World::default()
        }
    }

    /// The same, in which movers of these names go these ways, and no others are known.
    pub fn of_rows(study: &str, rows: &[(&str, Route)]) -> World {
        let mut world = World::new(study);
        world.manifest.survey.mover_facts =
            rows.iter().map(|(name, route)| row(name, *route)).collect();
        world
    }

    /// Leaves out the other end of all but the loop, which has none.
    pub fn alone(mut self) -> World {
        self.change(|c| c.mover != "null", |sample| sample.receiver = None);
        self
    }

    /// Runs every cell once in each block; `noise` is the deviation of the logarithms within a
    /// block, and the machine drifts with it as an AR(1) series of 0.9.
    pub fn run(
        mut self,
        seed: u64,
        blocks: u32,
        noise: f64,
        truth: impl Fn(&Cell) -> True,
    ) -> World {
        let mut g = Generator::new(seed);
        let mut drift = 0.0;
        for block in 0..blocks {
            self.blocks.push(Block {
                block,
                elapsed_ns: 10_000_000_000,
                ..Block::default()
            });
            let mut order: Vec<usize> = (0..self.cells.len()).collect();
            g.shuffle(&mut order);
            for place in order {
                drift = 0.9 * drift + noise * g.normal();
                let key = TrialKey::first(block, place as u32);
                let factor = (drift + noise * g.normal()).exp();
                let cell = &self.cells[place];
                let started_ms = 200 * self.samples.len() as u64;
                let sample = sample(cell, key, started_ms, truth(cell), factor, &mut g);
                self.samples.push(sample);
            }
        }
        self
    }

    pub fn analyse(&self) -> Analysis {
        analyse(self.input())
    }

    pub fn input(&self) -> Input<'_> {
        Input {
            refused: &self.refused,
            left_out: &self.left_out,
            failures: &self.failures,
            blocks: &self.blocks,
            evidence: &self.evidence,
            notes: &self.notes,
            ended_early: self.ended_early.as_deref(),
            damage: self.damage.as_deref(),
            ..Input::of(&self.manifest, &self.cells, &self.samples)
        }
    }

    pub fn id(&self, mover: &str, size_bytes: u64) -> String {
        self.cells[self.place(mover, size_bytes)].id()
    }

    /// Writes readings into every sample of the cells that are asked for.
    pub fn put<const N: usize>(
        &mut self,
        which: impl Fn(&Cell) -> bool,
        at: At,
        readings: [(Counter, u64); N],
    ) {
        self.change(which, |s| {
            let of = match at {
                At::Sender => &mut s.sender.readings,
                At::Machine => &mut s.machine,
                At::Peer => &mut s.peer_machine,
            };
            of.extend(readings.map(|(counter, value)| (counter, Reading::Measured(value))));
        });
    }

    /// Lets every sender's reading be absent for that reason.
    pub fn hide(&mut self, counter: Counter, why: &str) {
        let hide = |s: &mut Sample| s.sender.readings.insert(counter, Reading::absent(why));
        self.each(|s| drop(hide(s)));
    }

    /// Lets somebody have asked for evidence by these means.
    pub fn ask(&mut self, means: &[Means]) {
        let asked = means.iter().map(|means| EvidenceAsked {
            means: *means,
            refused: None,
            unasked: false,
        });
        self.manifest.evidence = asked.collect();
    }

    pub fn place(&self, mover: &str, size_bytes: u64) -> usize {
        let own = |c: &Cell| c.mover == mover && c.size_bytes == size_bytes;
        self.cells
            .iter()
            .position(own)
            .expect("a cell of the study")
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let rename = |name: &mut String| *name = name.replace(from, to);
        self.cells.iter_mut().for_each(|c| rename(&mut c.mover));
        self.samples.iter_mut().for_each(|s| rename(&mut s.cell));
        let facts = self.manifest.survey.mover_facts.iter_mut();
        facts.for_each(|row| rename(&mut row.name));
    }

    pub fn each(&mut self, mut change: impl FnMut(&mut Sample)) {
        self.by_cell(|_, sample| change(sample));
    }

    /// Lets the first attempt at a cell fail in that block: for a moment, where a flow stood still.
    pub fn fail(&mut self, block: u32, cell: &str, reason: &str) {
        let place = self.cells.iter().position(|c| c.id() == cell);
        self.failures.push(Failure {
            trial: TrialKey::first(block, place.map_or(u32::MAX, |place| place as u32)),
            cell: cell.to_owned(),
            started_ms: 0,
            reason: reason.to_owned(),
            stood_still_ns: reason.starts_with(Failure::STOOD_STILL).then_some(1),
            wrong_bytes: false,
            for_evidence: false,
        });
    }

    /// Lets the first attempt at a cell fail in that block, as its bytes were wrong.
    pub fn fail_with_wrong_bytes(&mut self, block: u32, cell: &str) {
        self.fail(
            block,
            cell,
            "receiver: what arrived is not what was sent: byte 7 of the stream is wrong",
        );
        self.failures.last_mut().expect("one").wrong_bytes = true;
    }

    pub fn evidence_of(&self, cell: usize) -> TrialEvidence {
        TrialEvidence {
            trial: TrialKey::first(0, cell as u32),
            cell: self.cells[cell].id(),
            sent_bytes: 1 << 20,
            sent_messages: 1000,
            trial_ms: 500,
            elapsed_ns: 400_000_000,
            ..TrialEvidence::default()
        }
    }

    pub fn keep(&mut self, is_kept: impl Fn(&Cell) -> bool) {
        self.cells.retain(is_kept);
        let ids: Vec<String> = self.cells.iter().map(Cell::id).collect();
        self.samples.retain(|s| ids.contains(&s.cell));
        for sample in &mut self.samples {
            let place = ids.iter().position(|id| *id == sample.cell);
            sample.trial.cell = place.expect("a cell that is kept") as u32;
        }
    }

    pub fn change(&mut self, which: impl Fn(&Cell) -> bool, mut change: impl FnMut(&mut Sample)) {
        self.by_cell(|cell, sample| {
            if which(cell) {
                change(sample);
            }
        });
    }

    /// Changes every sample by what its cell is.
    pub fn by_cell(&mut self, mut change: impl FnMut(&Cell, &mut Sample)) {
        for sample in &mut self.samples {
            change(&self.cells[sample.trial.cell as usize], sample);
        }
    }
}

const WINDOW_NS: f64 = 1e8;

fn measured(list: &[(Counter, f64)]) -> Readings {
    list.iter()
        .map(|(counter, value)| (*counter, Reading::Measured(value.round() as u64)))
        .collect()
}

fn side(cell: &Cell, bytes: f64, cpu_ns: f64) -> SideReadings {
    let messages = bytes / cell.size_bytes as f64;
    let mut readings = measured(&[
        (Counter::Bytes, bytes),
        (Counter::Messages, messages),
        (Counter::Calls, messages),
        (Counter::ElapsedNs, WINDOW_NS),
        (Counter::CpuNs, cpu_ns),
        (Counter::UserNs, 0.1 * cpu_ns),
        (Counter::SystemNs, 0.9 * cpu_ns),
        (Counter::ContextSwitchesVoluntary, 10.0),
        (Counter::ContextSwitchesInvoluntary, 2.0),
        (Counter::PageFaultsMinor, 0.0),
        (Counter::PageFaultsMajor, 0.0),
        (Counter::Migrations, 0.0),
    ]);
    for counter in [Counter::Cycles, Counter::Instructions] {
        readings.insert(counter, Reading::absent("no hardware counters"));
    }
    let flows = f64::from(cell.threads);
    let flow = FlowReading {
        bytes: (bytes / flows) as u64,
        messages: (messages / flows) as u64,
        elapsed_ns: WINDOW_NS as u64,
    };
    SideReadings {
        readings,
        flows: vec![flow; cell.threads as usize],
        ..SideReadings::default()
    }
}

fn sample(
    cell: &Cell,
    trial: TrialKey,
    started_ms: u64,
    truth: True,
    factor: f64,
    g: &mut Generator,
) -> Sample {
    let null = cell.mover == "null";
    let bytes = if null {
        cell.size_bytes as f64 * WINDOW_NS / (4.0 * factor)
    } else {
        truth.gbit_per_s * WINDOW_NS / 8.0 / factor
    };
    let sender_ns = truth.sender_ns_per_byte * factor * bytes;
    let receiver_ns = truth.receiver_ns_per_byte * factor * bytes;
    let mut sender = side(cell, bytes, sender_ns);
    if let Some(share) = truth.copied {
        let completions = measured(&[
            (Counter::Completions, 10_000.0),
            (Counter::CompletionsCopied, 10_000.0 * share),
        ]);
        sender.readings.extend(completions);
    }
    let busy = sender_ns + if null { 0.0 } else { receiver_ns };
    Sample {
        trial,
        cell: cell.id(),
        started_ms,
        trial_ms: 180,
        sender,
        receiver: (!null).then(|| side(cell, bytes, receiver_ns)),
        machine: measured(&[
            (Counter::MachineElapsedNs, WINDOW_NS),
            (Counter::MachineCpus, 2.0),
            (Counter::MachineBusyNs, busy + 0.01 * WINDOW_NS),
            (Counter::MachineBusyResolutionNs, 1000.0),
            (Counter::MachineStealNs, 0.0),
        ]),
        truth: (!null).then(|| Truth {
            sent_bytes: bytes as u64,
            received_bytes: bytes as u64,
            compared_bytes: bytes as u64,
            checked: "content".to_owned(),
        }),
        // A thousand latencies around a median, with a tail.
        latency_ns_histogram: (cell.pattern == Pattern::RequestResponse).then(|| {
            let median_us = truth.latency_us * factor;
            latencies((0..1000).map(|_| median_us * (0.1 * g.normal()).exp()))
        }),
        ..Sample::default()
    }
}

/// A histogram of these latencies in µs, as samples have it.
pub fn latencies(all_us: impl IntoIterator<Item = f64>) -> String {
    let mut h: Histogram<u64> = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
    for us in all_us {
        h.record((us * 1e3) as u64).expect("within the bounds");
    }
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(&h, &mut bytes)
        .expect("a vector takes everything");
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

//! Windows that are too short or not steady: planted ramps are reported, chance is not.

use std::fs;
use std::path::{Path, PathBuf};

use bytecost_spec::sample::SubWindows;
use bytecost_spec::{Cell, Counter, Pattern, Sample, SideReadings};
use bytecost_stats::Generator;

use crate::world::{self, STUDY, True, World, at, begins, fires, found, one, put, says, silent};

const EIGHTHS: usize = 8;
const WINDOW_NS: f64 = 1e8;

/// Gives both sides a course whose rate and cost change by so much from the first quarter to the
/// last, each eighth with noise of its own.
fn course(sample: &mut Sample, g: &mut Generator, noise: f64, rate: f64, cost: f64) {
    let of = |side: &mut SideReadings, draws: &mut Generator| {
        let mut sub = SubWindows::default();
        for i in 0..EIGHTHS {
            let place = (i as f64 - 3.5) / 6.0;
            let amount = 1e6 * (1.0 + rate * place) * (noise * draws.normal()).exp();
            sub.amount.push(amount as u64);
            sub.elapsed_ns.push((WINDOW_NS / 8.0) as u64);
            let ns = amount * 0.4 * (1.0 + cost * place) * (noise * draws.normal()).exp();
            sub.cpu_ns.push(ns as u64);
        }
        side.sub_windows = Some(sub);
    };
    of(&mut sample.sender, g);
    if let Some(receiver) = &mut sample.receiver {
        of(receiver, g);
    }
}

fn with_courses(planted: impl Fn(&Cell) -> (f64, f64)) -> World {
    let mut world = usual(16);
    let mut g = Generator::new(5);
    world.by_cell(|cell, sample| {
        let (rate, cost) = planted(cell);
        course(sample, &mut g, 0.1, rate, cost);
    });
    world
}

/// The run in which the rate and the cost of `sendfile` at 4 KiB alone change by so much.
fn with_course(rate: f64, cost: f64) -> World {
    let is_sendfile = at("sendfile", 4096);
    with_courses(move |c| {
        if is_sendfile(c) {
            (rate, cost)
        } else {
            (0.0, 0.0)
        }
    })
}

#[test]
fn a_planted_ramp_is_reported_of_its_cell_with_its_size() {
    for rate in [0.3, -0.3] {
        let world = with_course(rate, 0.0);
        let found = found(&world, "not-steady");
        let caveat = one(&found);
        assert_eq!(caveat.cells, [world.id("sendfile", 4096)]);
        begins(&caveat.text, "The rate of these cells");
        let words = caveat.evidence.strip_prefix("changed by ").unwrap();
        let percent: f64 = words.split(' ').next().unwrap().parse().unwrap();
        assert!((percent - 100.0 * rate).abs() < 4.0, "{caveat:#?}");
    }
}

#[test]
fn a_planted_change_of_cost_is_reported_apart_from_one_of_the_rate() {
    let found = found(&with_course(0.0, 0.3), "not-steady");
    begins(&one(&found).text, "The CPU time of these cells");
    says(&one(&found).evidence, ["+"]);
}

#[test]
fn a_ramp_that_all_cells_have_is_reported_of_all() {
    let found = found(&with_courses(|_| (0.05, 0.0)), "not-steady");
    says(&one(&found).text, ["all cells together"]);
}

/// A run of the usual study, in which every cell costs the same.
fn usual(blocks: u32) -> World {
    World::new(STUDY).run(1, blocks, 0.003, |_| True::costs(0.2))
}

#[test]
fn steady_windows_small_changes_and_samples_without_a_course_are_passed_over() {
    silent(&with_courses(|_| (0.0, 0.0)), "not-steady");
    // Below the study's smallest effect, 3 %.
    silent(&with_courses(|_| (0.02, 0.02)), "not-steady");
    silent(&usual(16), "not-steady");
}

/// One thread that shares a CPU: it runs in turns, and sees an edge when it runs next.
struct Shared {
    /// Begin and end of each turn, in ns.
    turns: Vec<(f64, f64)>,
}

impl Shared {
    /// So many threads take turns of some 3 ms on one CPU, at random and each at least once in a
    /// while, for the window and as long before and after it.
    fn threads(count: usize, g: &mut Generator) -> Vec<Shared> {
        let mut all: Vec<Shared> = (0..count).map(|_| Shared { turns: Vec::new() }).collect();
        let mut now = -WINDOW_NS;
        let mut order: Vec<usize> = (0..count).collect();
        while now < 2.0 * WINDOW_NS {
            g.shuffle(&mut order);
            for &thread in &order {
                let ns = -3e6 * (1.0 - g.unit()).ln();
                all[thread].turns.push((now, now + ns));
                now += ns;
            }
        }
        all
    }

    /// When it first runs at or after then.
    fn runs(&self, at: f64) -> f64 {
        let turn = self.turns.iter().find(|(_, end)| *end > at);
        turn.map_or(at, |(begin, _)| begin.max(at))
    }

    /// For how long it ran in between.
    fn ran(&self, from: f64, to: f64) -> f64 {
        let within = |(a, b): &(f64, f64)| (b.min(to) - a.max(from)).max(0.0);
        self.turns.iter().map(within).sum()
    }
}

/// The course of 16 threads on two CPUs, with a rate that changes by so much.
fn shared_course(g: &mut Generator, ramp: f64) -> SubWindows {
    let mut sum = [[0.0; 3]; EIGHTHS];
    let threads: Vec<Shared> = (0..2).flat_map(|_| Shared::threads(8, g)).collect();
    for thread in &threads {
        let edge = |i: usize| thread.runs(WINDOW_NS * i as f64 / EIGHTHS as f64);
        for (i, eighth) in sum.iter_mut().enumerate() {
            let (from, to) = (edge(i), edge(i + 1));
            let ran = thread.ran(from, to);
            let place = ((from + to) / 2.0 / WINDOW_NS - 0.5) / 0.75;
            let speed = (1.0 + ramp * place) * (0.2 * g.normal()).exp();
            eighth[0] += ran * speed;
            eighth[1] += (to - from) / threads.len() as f64;
            eighth[2] += ran;
        }
    }
    let of = |n: usize| sum.iter().map(|s| s[n] as u64).collect();
    SubWindows {
        amount: of(0),
        elapsed_ns: of(1),
        cpu_ns: of(2),
    }
}

/// Reports of six such cells, of which so many say that something was not steady.
fn alarms(reports: u64, ramp: f64) -> usize {
    let axes = "mover = [\"send\", \"send-zerocopy\", \"sendfile\"]\nsize = [\"4KiB\", \"64KiB\"]";
    let mut world = World::new(&world::study_of(axes)).run(1, 12, 0.003, |_| True::costs(0.2));
    assert_eq!(world.cells.len(), 6);
    let fires = |seed| {
        let mut g = Generator::new(seed);
        for sample in &mut world.samples {
            sample.sender.sub_windows = Some(shared_course(&mut g, ramp));
        }
        !found(&world, "not-steady").is_empty()
    };
    (0..reports).map(fires).filter(|fired| *fired).count()
}

#[test]
fn threads_that_share_cpus_are_not_taken_for_a_trend_more_often_than_promised() {
    let reports = 100;
    let alarmed = alarms(reports, 0.0);
    assert!(alarmed <= 5, "{alarmed} of {reports}, at a promised 5 %");
    assert_eq!(alarms(5, 0.4), 5, "a ramp among the same noise");
}

#[test]
fn a_receive_buffer_that_grows_and_a_warm_up_without_end_are_reported() {
    let grown = |end: u64, bounded: u64| {
        let mut world = usual(12);
        world.change(at("sendfile", 4096), |s| {
            put(&mut s.machine, Counter::WarmupNs, 30_000_000);
            put(&mut s.machine, Counter::WarmupBounded, bounded);
            let receiver = &mut s.receiver.as_mut().unwrap().readings;
            put(receiver, Counter::ReceiveBufferStartBytes, 1000);
            put(receiver, Counter::ReceiveBufferBytes, end);
        });
        world
    };
    silent(&grown(1100, 0), "not-steady");
    for world in [grown(1500, 0), grown(1000, 1)] {
        let caveat = fires(&world, "not-steady", 1, "100 % of the trials");
        says(&caveat.evidence, ["a warm-up of 30 ms"]);
    }
}

#[test]
fn a_window_that_fills_buffers_is_too_short() {
    let kept = |share: f64| {
        let mut world = usual(12);
        world.change(at("sendfile", 4096), |s| {
            let sent = s.sender.readings[&Counter::Bytes].measured().unwrap() as f64;
            let receiver = &mut s.receiver.as_mut().unwrap().readings;
            put(receiver, Counter::Bytes, (sent * (1.0 - share)) as u64);
        });
        world
    };
    silent(&kept(0.01), "short-window");
    fires(&kept(0.1), "short-window", 1, "10.5 % between");
}

fn text_of(file: &Path) -> String {
    fs::read_to_string(file).expect("a study")
}

/// The most time of one message of a flow on two CPUs, in ns: 2 GB/s for each pair of CPUs, a wake-up
/// for each answer, and what a disk takes for a request.
fn message_ns(cell: &Cell) -> f64 {
    let moved = 1_000.0 + cell.size_bytes as f64 / 2.0;
    let waits = match cell.pattern {
        Pattern::RequestResponse => 20_000.0,
        Pattern::Stream => 0.0,
    };
    let own = match cell.mover.as_str() {
        "wake-up" | "wake-work" => 1e6,
        mover if mover.starts_with("work-") => 1_000.0,
        _ => moved + waits,
    };
    let of_disk = match cell.cache {
        bytecost_spec::Cache::Direct => 200_000.0 + cell.size_bytes as f64,
        _ => 0.0,
    };
    (own + of_disk / f64::from(cell.depth.max(1))) * f64::from(cell.threads)
}

/// Those cells of a study, with so long a window, whose windows are reported as too short.
fn too_short(text: &str, window_ms: Option<u64>) -> Vec<String> {
    let mut world = World::new(text);
    let window_ms = window_ms.unwrap_or(world.manifest.study.window_ms);
    let study = &world.manifest.study;
    // The rest of the grid is measured by who asks for it.
    let written = study.tiers.len() - usize::from(study.tiers.len() > 1);
    let cells = study
        .cells()
        .into_iter()
        .filter(|(tier, cell)| *tier < written && !cell.is_served());
    world.cells = cells.map(|(_, cell)| cell).collect();
    world = world.run(1, 1, 0.003, |_| True::costs(0.2));
    world.by_cell(|cell, sample| {
        let ns = window_ms as f64 * 1e6;
        let messages = ns / message_ns(cell) * f64::from(cell.threads);
        for side in sample.sides_mut() {
            // Windows come out some 50 us short.
            put(&mut side.readings, Counter::ElapsedNs, (ns - 5e4) as u64);
            put(&mut side.readings, Counter::Messages, messages as u64);
        }
        put(&mut sample.machine, Counter::MachineElapsedNs, ns as u64);
    });
    let caveats = found(&world, "short-window").into_iter();
    caveats.flat_map(|d| d.cells).collect()
}

#[test]
fn no_study_has_windows_that_it_calls_too_short_itself() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies"));
    let entries = fs::read_dir(folder).expect("studies");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a file").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    assert!(files.len() >= 15, "{files:?}");
    for file in &files {
        let found = too_short(&text_of(file), None);
        assert_eq!(found, [""; 0], "{}", file.display());
    }
    let short = too_short(&text_of(&folder.join("pa02-a.toml")), Some(10));
    assert!(!short.is_empty(), "the rule still fires");
}

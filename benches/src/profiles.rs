//! `profile`: the cost of profiling for a program of 100,000 calls a second, and predictions of a profile
//! against the savings of the other way.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use bytecost_spec::units;
use bytecost_sys::process;
use serde_json::Value;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::peer::built_program;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "profile",
    question: "What does profiling cost, and does another way save what it predicts?",
    target: "a program of 100,000 calls a second takes at most 5 % longer; a predicted interval of at most 20 points holds the saving in three of four programs",
    by_name_alone: true,
    run,
};

/// A program by its present way and by the other one, and what measures both.
struct Pair {
    now: &'static str,
    instead: &'static str,
    count: &'static str,
    /// The length of the file, as long as the study's.
    mib: &'static str,
    study: &'static [&'static str],
}

const PAIRS: &[Pair] = &[
    Pair {
        now: "file-to-socket-by-copies",
        instead: "file-to-socket-by-sendfile",
        count: "200",
        mib: "4",
        study: &[
            "send-copies",
            "--mover",
            "read-write,sendfile",
            "--size",
            "64KiB",
        ],
    },
    Pair {
        now: "file-to-file-by-copies",
        instead: "file-to-file-in-kernel",
        count: "100",
        mib: "16",
        study: &[
            "file-copy",
            "--mover",
            "read-write-file,copy_file_range",
            "--block",
            "64KiB",
        ],
    },
    Pair {
        now: "small-writes-in-a-row",
        instead: "small-writes-by-eight",
        count: "60000",
        mib: "4",
        study: &[
            "send-copies",
            "--mover",
            "send-fields,sendmsg",
            "--size",
            "1KiB",
        ],
    },
    Pair {
        now: "small-sequential-reads",
        instead: "large-sequential-reads",
        count: "6",
        mib: "256",
        study: &[
            "file-read",
            "--mover",
            "read",
            "--size",
            "4KiB,64KiB",
            "--cache",
            "warm",
        ],
    },
];
/// The environment variable by which a program has the address of the sink.
const SINK: &str = "PATTERN_SINK";
/// The environment variable by which a program has the length of its file.
const MIB: &str = "PATTERN_MIB";
const STUDY_BUDGET: &str = "40s";
/// The widest interval that says something.
const WIDEST: f64 = 0.2;
/// Of the programs so many must save what is predicted.
const HELD: f64 = 3.0;

fn run(context: &Context) -> Result<BenchOutcome> {
    let (Some(bytecost), Some(program)) = (
        built_program("bytecost"),
        built_program("examples/pattern_program"),
    ) else {
        return Ok(BenchOutcome::NotRun(
            "bytecost and pattern_program are not built: make bench-profile".to_owned(),
        ));
    };
    if !rustix::process::geteuid().is_root() {
        return Ok(BenchOutcome::NotRun(
            "calls are counted by root alone".to_owned(),
        ));
    }
    let runs = tempfile::tempdir()?;
    let sink = Sink::start(&program)?;
    let programs = Programs {
        bytecost: &bytecost,
        patterns: &program,
        sink: &sink.address,
        runs: runs.path(),
    };
    let mut found = BenchResults::default();
    cost(context, &programs, &mut found)?;
    let mut held = 0;
    for pair in PAIRS {
        held += u32::from(predicted(context, pair, &programs, &mut found)?);
    }
    let target = Target::AtLeast(HELD);
    found.rows.push(Row::once(
        "savings within their prediction, of 4",
        f64::from(held),
        target,
    ));
    Ok(BenchOutcome::Ran(found))
}

/// The programs of the bench, the address of the sink, and the directory of runs.
struct Programs<'p> {
    bytecost: &'p Path,
    patterns: &'p Path,
    sink: &'p str,
    runs: &'p Path,
}

impl Programs<'_> {
    /// `bytecost profile` with options, up to the command that follows.
    fn profile(&self, options: &[&str]) -> Command {
        let mut profile = Command::new(self.bytecost);
        profile.arg("profile").args(options);
        profile.arg("--runs-dir").arg(self.runs).arg("--");
        profile
    }
}

/// A process that reads what the programs send, so that its CPU time is not theirs.
struct Sink {
    process: Child,
    address: String,
}

impl Sink {
    fn start(program: &Path) -> Result<Sink> {
        let mut command = Command::new(program);
        command.arg("sink").stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut address = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut address)?;
        }
        Ok(Sink {
            process,
            address: address.trim().to_owned(),
        })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // One that has ended already is no fault.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The time of a program of many calls, profiled and not.
fn cost(context: &Context, programs: &Programs<'_>, found: &mut BenchResults) -> Result<()> {
    const CALLS: f64 = 200_000.0;
    let mut alone = Command::new(programs.patterns);
    alone.arg("steady-calls");
    let mut profiled = programs.profile(&[]);
    profiled.arg(programs.patterns).arg("steady-calls");
    let subjects = vec![
        Subject::new("profiled", || seconds(&mut profiled)),
        Subject::new("alone", || seconds(&mut alone)),
    ];
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    found.notes.push(format!(
        "alone it makes {} calls a second",
        units::number(CALLS / blocks.typical(1, |s| *s))
    ));
    let ratio = blocks.log_ratio(0, 1, |s| *s);
    found.rows.push(Row::new(
        "profiled over alone, time",
        ratio,
        Target::AtMost(1.05),
    ));
    found.failures.extend(blocks.failures);
    Ok(())
}

/// Returns true if the other way saves what a profile of the present one predicts.
fn predicted(
    context: &Context,
    pair: &Pair,
    programs: &Programs<'_>,
    found: &mut BenchResults,
) -> Result<bool> {
    let measured = Command::new(programs.bytecost)
        .arg("run")
        .args(pair.study)
        .args(["--budget", STUDY_BUDGET, "--quiet", "--runs-dir"])
        .arg(programs.runs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(
        measured.code().is_some_and(|code| code < 2),
        "{:?}: {measured}",
        pair.study
    );
    let mut profile = programs.profile(&["--json"]);
    let profiled = profile
        .env(SINK, programs.sink)
        .env(MIB, pair.mib)
        .arg(programs.patterns)
        .args([pair.now, pair.count])
        .output()?;
    let text = String::from_utf8_lossy(&profiled.stderr);
    let json: Value = serde_json::from_str(&text).with_context(|| text.clone().into_owned())?;
    let advice = json["advice"].as_array().into_iter().flatten();
    let mut savings = advice.filter_map(|advice| advice["prediction"].get("saves"));
    let Some(saves) = savings.next() else {
        found.notes.push(format!(
            "{}: nothing is predicted: {}",
            pair.now, json["advice"]
        ));
        return Ok(false);
    };
    let [low, high] = ["low", "high"].map(|end| saves[end].as_f64().unwrap_or(f64::NAN));
    let cpu = |name: &'static str| {
        move || {
            let mut program = Command::new(programs.patterns);
            program.env(SINK, programs.sink).env(MIB, pair.mib);
            cpu_seconds(program.args([name, pair.count]))
        }
    };
    let subjects = vec![
        Subject::new(pair.instead, cpu(pair.instead)),
        Subject::new(pair.now, cpu(pair.now)),
    ];
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let ratio = blocks.log_ratio(0, 1, |s| *s);
    let saved = ratio.map_or(f64::NAN, |ratio| 1.0 - ratio.value.exp());
    let is_held = low <= saved && saved <= high && high - low <= WIDEST;
    found.notes.push(format!(
        "{} to {}: predicted {} to {} of its CPU time, saved {}{}",
        pair.now,
        pair.instead,
        units::percent(low),
        units::percent(high),
        units::percent(saved),
        if is_held { "" } else { ": not held" },
    ));
    found.failures.extend(blocks.failures);
    Ok(is_held)
}

/// The time in seconds that a program measures and prints.
fn seconds(command: &mut Command) -> Result<f64> {
    let ended = command.stderr(Stdio::null()).output()?;
    ensure!(ended.status.success(), "{}", ended.status);
    Ok(String::from_utf8_lossy(&ended.stdout).trim().parse()?)
}

/// CPU time of a command.
fn cpu_seconds(command: &mut Command) -> Result<f64> {
    let before = process::children_usage()?;
    ensure!(command.status()?.success(), "it failed");
    let after = process::children_usage()?;
    let ns = after.user_ns + after.system_ns - before.user_ns - before.system_ns;
    Ok(ns as f64 / 1e9)
}

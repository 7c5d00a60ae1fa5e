//! `fio`: small reads of a file in a random order, past the page cache.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytecost_engine::file;
use bytecost_lab::files::Files;
use bytecost_spec::{Axis, Cell, Counter, Sample, units};
use serde_json::Value;
use tempfile::TempDir;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::ours::{self, Ours};
use crate::peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "fio",
    question: "Do `uring-read`, `libaio` and `pread` read 4 KiB at random past the page cache as often as fio, for no more CPU time?",
    target: "requests a second at least as many, CPU time a request no higher",
    by_name_alone: false,
    run,
};

const SIZE: &str = "4KiB";
const FILE_BYTES: u64 = 256 << 20;

/// A mover, the number of its requests in flight, and the engine of fio that makes the same calls.
const WAYS: [(&str, u32, &str); 3] = [
    ("uring-read", 32, "io_uring"),
    ("libaio", 32, "libaio"),
    ("pread", 1, "psync"),
];

/// The rate of reads and the CPU time of one, measured in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reads {
    per_s: f64,
    cpu_us: f64,
}

fn run(context: &Context) -> Result<BenchOutcome> {
    let version = match peer::version("fio", "fio") {
        Ok(version) => version,
        Err(why) => return Ok(BenchOutcome::NotRun(why)),
    };
    let places = [std::env::temp_dir(), std::env::current_dir()?];
    let Some((directory, path)) = places.iter().find_map(|dir| large_file(dir).ok()) else {
        return Ok(BenchOutcome::NotRun(format!(
            "no file of {} that O_DIRECT reads can be made in {} or {}: set TMPDIR to a directory on a disk",
            units::bytes_in_words(FILE_BYTES),
            places[0].display(),
            places[1].display()
        )));
    };
    let mut found = BenchResults {
        notes: vec![
            format!("Peer: {version}"),
            format!(
                "One file of {} for both, in {}",
                units::bytes_in_words(FILE_BYTES),
                directory
                    .path()
                    .parent()
                    .unwrap_or(Path::new("/"))
                    .display()
            ),
        ],
        ..BenchResults::default()
    };
    for (mover, depth, engine) in WAYS {
        one_way(context, &path, (mover, depth, engine), &mut found)?;
    }
    Ok(BenchOutcome::Ran(found))
}

/// A file on a disk, written in full, that can be read past the page cache.
fn large_file(dir: &Path) -> Result<(TempDir, PathBuf)> {
    let directory = tempfile::tempdir_in(dir)?;
    let path = directory.path().join("read-at-random");
    let mut file = File::create(&path)?;
    let mut piece = vec![0; 1 << 20];
    for at in (0..FILE_BYTES).step_by(piece.len()) {
        file::content().fill(at, &mut piece);
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    file::direct_bytes(&path).context("O_DIRECT is refused")?;
    Ok((directory, path))
}

fn one_way(
    context: &Context,
    path: &Path,
    (mover, depth, engine): (&str, u32, &str),
    found: &mut BenchResults,
) -> Result<()> {
    let cell = cell(context, mover, depth)?;
    let files = Files::new(std::env::temp_dir(), Some(path.to_owned()));
    let ours = RefCell::new(Ours::new(context.window)?.with_files(files));
    let mut subjects = vec![
        Subject::new(mover, || reads_of_trial(&ours.borrow_mut().trial(&cell)?)),
        Subject::new("fio", || theirs(context, path, engine, depth, false)),
    ];
    if depth > 1 {
        subjects.push(Subject::new("fio in batches", || {
            theirs(context, path, engine, depth, true)
        }));
    }
    let peers = subjects.len();
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let head = format!("{mover} × {depth}");
    for peer in 1..peers {
        let (name, at_least, at_most) = match peer {
            1 => (String::new(), Target::AtLeast(1.0), Target::AtMost(1.0)),
            _ => (", batches".to_owned(), Target::Shown, Target::Shown),
        };
        found.rows.push(Row::new(
            format!("{head}{name}: requests/s"),
            blocks.log_ratio(0, peer, |r| r.per_s),
            at_least,
        ));
        found.rows.push(Row::new(
            format!("{head}{name}: CPU each"),
            blocks.log_ratio(0, peer, |r| r.cpu_us),
            at_most,
        ));
    }
    let names = [mover, "fio", "fio in batches"];
    for (i, name) in names.iter().enumerate().take(peers) {
        found.notes.push(format!(
            "{head}, {name}: {} requests a second, {} µs of CPU each",
            units::number(blocks.typical(i, |r| r.per_s)),
            units::number(blocks.typical(i, |r| r.cpu_us)),
        ));
    }
    found.others.extend(ours.borrow().others());
    found.failures.extend(blocks.failures);
    Ok(())
}

fn cell(context: &Context, mover: &str, depth: u32) -> Result<Cell> {
    let (sender, receiver) = context.cpus;
    ours::cell(&[
        (Axis::Mover, mover),
        (Axis::Size, SIZE),
        (Axis::Depth, &depth.to_string()),
        (Axis::Cache, "direct"),
        (Axis::Access, "random"),
        (Axis::Ring, &units::bytes(FILE_BYTES)),
        (Axis::Placement, &format!("{sender}:{receiver}")),
    ])
}

fn reads_of_trial(sample: &Sample) -> Result<Reads> {
    let read = |counter| ours::read(&sample.sender, counter);
    let requests = read(Counter::Messages)?;
    Ok(Reads {
        per_s: requests / read(Counter::ElapsedNs)? * 1e9,
        cpu_us: read(Counter::CpuNs)? / requests / 1e3,
    })
}

/// One run of fio. By default it submits and completes one request at a time; with `batches`, as many
/// as there are.
fn theirs(
    context: &Context,
    path: &Path,
    engine: &str,
    depth: u32,
    batches: bool,
) -> Result<Reads> {
    let duration = Duration::from_millis(context.window.as_millis() as u64);
    let mut command = peer::piped("fio");
    command
        .args(["--name=reads", "--rw=randread", "--direct=1", "--readonly"])
        .args(["--invalidate=0", "--time_based", "--randrepeat=0"])
        .args(["--output-format=json", "--eta=never"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--bs={}", units::parse_bytes(SIZE).unwrap_or(4096)))
        .arg(format!("--size={FILE_BYTES}"))
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={}ms", duration.as_millis()));
    if batches {
        command
            .arg(format!("--iodepth_batch_submit={depth}"))
            .arg("--iodepth_batch_complete_min=1")
            .arg(format!("--iodepth_batch_complete_max={depth}"));
    }
    let fio = peer::start(&mut command, context.cpus.0)?;
    parse(&fio.finish(duration + Duration::from_secs(20))?)
}

/// Reads its JSON: the CPU time of its job, as a percentage of the job's time, over its requests.
fn parse(output: &str) -> Result<Reads> {
    // fio may print lines above its JSON.
    let from = output.find('{').unwrap_or(0);
    let report: Value =
        serde_json::from_str(&output[from..]).context("fio did not answer in JSON")?;
    let job = report.pointer("/jobs/0").context("fio reported no job")?;
    let number = |path: &str| {
        let number = job.pointer(path).and_then(Value::as_f64);
        number.with_context(|| format!("fio's answer has no {path}"))
    };
    let error = number("/error")?;
    anyhow::ensure!(error == 0.0, "fio ended with error {error}");
    let requests = number("/read/total_ios")?;
    anyhow::ensure!(requests > 0.0, "fio read nothing");
    let percent = number("/usr_cpu")? + number("/sys_cpu")?;
    Ok(Reads {
        per_s: number("/read/iops")?,
        cpu_us: percent / 100.0 * number("/job_runtime")? * 1e3 / requests,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_answer_is_read_in_our_units() {
        let said = r#"note: something
            {"jobs": [{"error": 0, "job_runtime": 1000, "usr_cpu": 10.0, "sys_cpu": 30.0,
             "read": {"iops": 50000.5, "total_ios": 50000}}]}"#;
        assert_eq!(
            parse(said).unwrap(),
            Reads {
                per_s: 50_000.5,
                cpu_us: 8.0,
            }
        );
    }

    #[test]
    fn output_without_a_result_is_an_error() {
        let check = |said: &str, says: &str| {
            let why = parse(said).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        };
        check("fio: failed", "JSON");
        check("{}", "no job");
        check(r#"{"jobs": [{"error": 5}]}"#, "error 5");
        check(r#"{"jobs": [{"error": 0}]}"#, "/read/total_ios");
        check(
            r#"{"jobs": [{"error": 0, "read": {"total_ios": 0}}]}"#,
            "read nothing",
        );
    }

    #[test]
    fn each_way_is_a_mover_that_has_so_many_requests_in_flight() {
        for (mover, depth, _) in WAYS {
            let row = bytecost_engine::Mover::named(mover).unwrap();
            let several = row.in_flight != bytecost_engine::InFlight::One;
            assert_eq!(several, depth > 1, "{mover}");
        }
    }
}

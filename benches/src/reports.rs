//! `reports`: time and memory of the analysis and all reports of a large run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytecost_spec::units;
use bytecost_stats::median;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::peer::built_program;
use crate::result::{Row, Target};
use crate::synthetic;

pub const BENCH: Bench = Bench {
    name: "reports",
    question: "How long do the reports of 50 cells × 20 blocks take, in how much memory; and `list`?",
    target: "under 1 s, under 100 MB; `list` under 300 ms",
    by_name_alone: false,
    run,
};

/// Files that `bytecost report` writes next to the samples.
const REPORTS: [&str; 4] = ["report.html", "report.md", "findings.json", "samples.csv"];
const MEGABYTE: f64 = 1e6;

fn run(context: &Context) -> Result<BenchOutcome> {
    let program = match built_program("bytecost") {
        Some(program) => program,
        None => {
            return Ok(BenchOutcome::NotRun(
                "bytecost is not built: cargo build --release".to_owned(),
            ));
        }
    };
    let root = tempfile::tempdir()?;
    let id = synthetic::write(root.path(), &synthetic::cells()?, context.seed)?;
    let report = || {
        let mut command = Command::new(&program);
        command
            .args(["report", &id, "--runs-dir"])
            .arg(root.path())
            .current_dir(root.path());
        command
    };
    // A first run brings programs and files into the page cache, and is not timed.
    seconds(&mut report())?;
    let written = written(&root.path().join(&id))?;
    let subjects = vec![
        Subject::new("report", || seconds(&mut report())),
        Subject::new("list", || seconds(Command::new(&program).arg("list"))),
    ];
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let peaks: Vec<u64> = (0..3)
        .map(|_| peak_memory_bytes(&mut report(), |_| ()))
        .collect::<Result<_>>()?;
    let peak = peaks.iter().max().copied().unwrap_or(0) as f64 / MEGABYTE;
    let middle = |of| median(&blocks.values(of, |s| *s)).unwrap_or(f64::NAN);
    Ok(BenchOutcome::Ran(BenchResults {
        rows: vec![
            Row::new(
                "report of 50 cells × 20 blocks, s",
                blocks.log_value(0, |s| *s),
                Target::AtMost(1.0),
            ),
            Row::once("report: peak memory, MB", peak, Target::AtMost(100.0)),
            Row::new(
                "list, ms",
                blocks.log_value(1, |s| s * 1e3),
                Target::AtMost(300.0),
            ),
        ],
        notes: vec![
            written,
            format!(
                "Medians: report {} s, list {} ms; start and end of the process included.",
                units::number(middle(0)),
                units::number(middle(1) * 1e3)
            ),
            "Peak memory is VmHWM, looked at each ms in three runs of their own.".to_owned(),
        ],
        failures: blocks.failures,
        ..BenchResults::default()
    }))
}

/// Checks that every report was written, and gives their sizes in a line.
fn written(run: &Path) -> Result<String> {
    let mut sizes = Vec::new();
    for name in REPORTS {
        let bytes = fs::metadata(run.join(name))
            .with_context(|| format!("{name} was not written"))?
            .len();
        ensure!(bytes > 0, "{name} is empty");
        sizes.push(format!("{name} {} kB", bytes.div_ceil(1000)));
    }
    let trials = fs::read_to_string(run.join("samples.csv"))?.lines().count() - 1;
    let wanted = synthetic::CELLS * synthetic::BLOCKS as usize;
    ensure!(
        trials == wanted,
        "samples.csv has {trials} trials, not {wanted}"
    );
    Ok(format!("Written: {}", sizes.join(", ")))
}

fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
}

/// The time of a command from its start to its end.
fn seconds(command: &mut Command) -> Result<f64> {
    let began = Instant::now();
    let out = quiet(command).spawn()?.wait_with_output()?;
    let took = began.elapsed().as_secs_f64();
    ensure!(
        out.status.success(),
        "{}: {}",
        out.status,
        String::from_utf8_lossy(&out.stderr).trim()
    );
    Ok(took)
}

/// The most memory that a command held, by looking while it runs: proc_pid_status(5), VmHWM. What
/// it might take in its last ms is missed. `seen` is given the most so far after each look.
fn peak_memory_bytes(command: &mut Command, mut seen: impl FnMut(u64)) -> Result<u64> {
    let mut child = quiet(command).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        if let Some(bytes) = fs::read_to_string(&status)
            .ok()
            .and_then(|t| high_water(&t))
        {
            peak = peak.max(bytes);
        }
        seen(peak);
        match child.try_wait()? {
            Some(ended) if ended.success() && peak > 0 => return Ok(peak),
            Some(ended) => bail!("{ended}, memory {peak}"),
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        assert_eq!(
            high_water("Name:\tx\nVmPeak:\t  9000 kB\nVmHWM:\t    2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(high_water("Name:\tx\n"), None);
    }

    #[test]
    fn a_command_that_fails_is_not_timed() {
        assert!(seconds(Command::new("sh").args(["-c", "exit 0"])).is_ok());
        let error = seconds(Command::new("sh").args(["-c", "echo why >&2; exit 4"]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("why") && error.contains('4'), "{error}");
    }

    #[test]
    fn memory_is_that_of_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let end = dir.path().join("end");
        let mut waiting = Command::new("sh");
        waiting.args(["-c", r#"until [ -e "$0" ]; do sleep 0.01; done"#]);
        let end_once_seen = |peak: u64| {
            if peak >= 100_000 {
                fs::write(&end, "").unwrap();
            }
        };
        let peak = peak_memory_bytes(waiting.arg(&end), end_once_seen).unwrap();
        assert!((100_000..100_000_000).contains(&peak), "{peak}");
    }
}

//! `build`: how long a clean release build takes, and where the time goes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "build",
    question: "How much CPU time does a clean `cargo build --release` take?",
    target: "at most 6 CPU minutes",
    by_name_alone: true,
    run,
};

/// The directory of the workspace that this program was built from.
pub const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Number of crates in the list.
const LISTED: usize = 10;

/// The build of one crate, as cargo times it.
#[derive(Clone, Debug, PartialEq)]
struct Unit {
    number: u64,
    name: String,
    began: f64,
    seconds: f64,
    /// Seconds until other crates can use its declarations, and the units that wait for that.
    declared: (f64, Vec<u64>),
    /// The units that wait for its end.
    built: Vec<u64>,
}

fn run(_: &Context) -> Result<BenchOutcome> {
    let version = match peer::version("cargo", "cargo") {
        Ok(version) => version,
        Err(why) => return Ok(BenchOutcome::NotRun(why)),
    };
    let cargo = |words: &[&str]| -> Result<f64> {
        let began = Instant::now();
        let out = Command::new("cargo")
            .args(words)
            .current_dir(WORKSPACE)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()?;
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "cargo {}: {errors}", words.join(" "));
        Ok(began.elapsed().as_secs_f64())
    };
    // Downloading is not building.
    cargo(&["fetch", "--locked"])?;
    let target = tempfile::tempdir()?;
    let directory = target.path().to_str().context("the path is no text")?;
    let before = children_cpu_minutes()?;
    let took = cargo(&[
        "build",
        "--release",
        "--locked",
        "--offline",
        "--timings",
        "--target-dir",
        directory,
    ])?;
    let cpu_minutes = children_cpu_minutes()? - before;
    let mut notes = vec![version, "Sources were fetched before.".to_owned()];
    match timings(target.path()) {
        Ok(units) => {
            notes.push(path(&units));
            notes.extend(slowest(units));
        }
        Err(e) => notes.push(format!("Where the time goes cannot be read: {e:#}")),
    }
    Ok(BenchOutcome::Ran(BenchResults {
        rows: vec![
            Row::once(
                "clean cargo build --release, CPU minutes",
                cpu_minutes,
                Target::AtMost(6.0),
            ),
            Row::once("clean cargo build --release, s", took, Target::Shown),
        ],
        notes,
        ..BenchResults::default()
    }))
}

/// CPU time of all children that ended, and of theirs (proc_pid_stat(5), cutime and cstime).
fn children_cpu_minutes() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, field 2, may hold blanks.
    let (_, from_state) = stat
        .rsplit_once(") ")
        .context("/proc/self/stat has no name")?;
    let times = from_state.split(' ').skip(13).take(2);
    let ticks: u64 = times.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    let ticks_per_minute = 60 * rustix::param::clock_ticks_per_second();
    Ok(ticks as f64 / ticks_per_minute as f64)
}

fn timings(target: &Path) -> Result<Vec<Unit>> {
    let page = fs::read_to_string(target.join("cargo-timings/cargo-timing.html"))?;
    units(&page)
}

/// The table of units in cargo's page of timings.
fn units(page: &str) -> Result<Vec<Unit>> {
    const START: &str = "const UNIT_DATA = ";
    let at = page.find(START).context("the page has no UNIT_DATA")? + START.len();
    let mut values = serde_json::Deserializer::from_str(&page[at..]).into_iter::<Value>();
    let table = values.next().context("UNIT_DATA is empty")??;
    let rows = table.as_array().context("UNIT_DATA is no list")?;
    rows.iter()
        .map(|row| {
            let name = row["name"].as_str().context("a unit has no name")?;
            let what = row["target"].as_str().unwrap_or_default();
            let seconds = row["duration"].as_f64().context("a unit has no duration")?;
            let numbers = |field: &str| -> Vec<u64> {
                let list = row[field].as_array().into_iter().flatten();
                list.filter_map(Value::as_u64).collect()
            };
            Ok(Unit {
                number: row["i"].as_u64().context("a unit has no number")?,
                name: format!("{name}{what}"),
                began: row["start"].as_f64().unwrap_or(0.0),
                seconds,
                declared: (
                    declared_after(row).unwrap_or(seconds),
                    numbers("unblocked_rmeta_units"),
                ),
                built: numbers("unblocked_units"),
            })
        })
        .collect()
}

/// Seconds until other units can use the declarations of this one.
fn declared_after(row: &Value) -> Option<f64> {
    let sections = row["sections"].as_array()?;
    let frontend = sections.iter().find(|s| s[0] == "frontend")?;
    frontend[1]["end"].as_f64()
}

/// The critical path: before each unit the one that it waited for last.
fn path(units: &[Unit]) -> String {
    let ended = |u: &Unit| u.began + u.seconds;
    let mut steps = Vec::new();
    let mut at = (0..units.len()).max_by(|a, b| ended(&units[*a]).total_cmp(&ended(&units[*b])));
    // When the unit at hand let the next one begin, or the build end.
    let mut let_on = at.map_or(0.0, |unit| ended(&units[unit]));
    while let Some(unit) = at.filter(|_| steps.len() < units.len()) {
        let number = units[unit].number;
        let before = units.iter().enumerate().filter_map(|(i, u)| {
            let (declared, waiting) = &u.declared;
            let lets = match (waiting.contains(&number), u.built.contains(&number)) {
                (_, true) => Some(ended(u)),
                (true, false) => Some(u.began + declared),
                (false, false) => None,
            };
            lets.map(|seconds| (i, seconds))
        });
        let last = before.max_by(|a, b| a.1.total_cmp(&b.1));
        let until = last.map_or(0.0, |(_, seconds)| seconds);
        steps.push(format!("{} {:.1} s", units[unit].name, let_on - until));
        let_on = until;
        at = last.map(|(i, _)| i);
    }
    steps.reverse();
    format!("The end waited for {}.", steps.join(", "))
}

/// The slowest units in lines, and the sums of ours and of all.
fn slowest(mut units: Vec<Unit>) -> Vec<String> {
    let sum: f64 = units.iter().map(|u| u.seconds).sum();
    let all = units.len();
    units.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let our_units = units.iter().filter(|u| u.name.starts_with("bytecost"));
    let ours: f64 = our_units.map(|u| u.seconds).sum();
    let mut lines = vec![format!(
        "{all} units took {sum:.0} s, one after the other, and ours {ours:.0} s of it:"
    )];
    lines.extend(
        units
            .iter()
            .take(LISTED)
            .map(|u| format!("{:6.1} s  {}", u.seconds, u.name)),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_timings_is_read() {
        let page = r#"<script>
            const UNIT_DATA = [
              {"i": 0, "name": "libc", "version": "0.2", "target": "", "start": 0, "duration": 1.25,
               "unblocked_units": [], "unblocked_rmeta_units": [2],
               "sections": [["frontend", {"start": 0, "end": 1.0}]]},
              {"i": 1, "name": "clap", "version": "4", "target": " build script", "start": 0, "duration": 3.5,
               "unblocked_units": [], "unblocked_rmeta_units": [], "sections": null},
              {"i": 2, "name": "bytecost-sys", "version": "1", "target": "", "start": 1, "duration": 4,
               "unblocked_units": [], "unblocked_rmeta_units": [], "sections": null}
            ];
            const CONCURRENCY_DATA = [];"#;
        let units_read = units(page).unwrap();
        assert_eq!(
            path(&units_read),
            "The end waited for libc 1.0 s, bytecost-sys 4.0 s."
        );
        let lines = slowest(units_read);
        assert_eq!(
            lines,
            [
                "3 units took 9 s, one after the other, and ours 4 s of it:",
                "   4.0 s  bytecost-sys",
                "   3.5 s  clap build script",
                "   1.2 s  libc",
            ]
        );
        assert!(units("<html>").is_err());
    }
}

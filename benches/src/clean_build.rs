//! `build`: how long a clean release build takes, and where the time goes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::bench::{Bench, Context, Found, Told};
use crate::peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "build",
    question: "How long does a clean `cargo build --release` take?",
    target: "under 180 s on two cores",
    by_name_alone: true,
    run,
};

/// The directory of the workspace that this program was built from.
pub const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// How many crates are listed.
const LISTED: usize = 10;

/// How long one crate took.
#[derive(Clone, Debug, PartialEq)]
struct Unit {
    name: String,
    seconds: f64,
}

fn run(_: &Context) -> Result<Told> {
    let version = match peer::version("cargo", "cargo") {
        Ok(version) => version,
        Err(why) => return Ok(Told::Missing(why)),
    };
    let cargo = |words: &[&str]| -> Result<f64> {
        let began = Instant::now();
        let out = Command::new("cargo")
            .args(words)
            .current_dir(WORKSPACE)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()?;
        let told = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "cargo {}: {told}", words.join(" "));
        Ok(began.elapsed().as_secs_f64())
    };
    // Downloading is not building.
    cargo(&["fetch", "--locked"])?;
    let target = tempfile::tempdir()?;
    let directory = target.path().to_str().context("the path is no text")?;
    let took = cargo(&[
        "build",
        "--release",
        "--locked",
        "--offline",
        "--timings",
        "--target-dir",
        directory,
    ])?;
    let mut notes = vec![version, "Sources were fetched before.".to_owned()];
    match timings(target.path()) {
        Ok(units) => notes.extend(slowest(units)),
        Err(e) => notes.push(format!("Where the time goes cannot be read: {e:#}")),
    }
    Ok(Told::Found(Found {
        rows: vec![Row::once(
            "clean cargo build --release, s",
            took,
            Target::AtMost(180.0),
        )],
        notes,
        ..Found::default()
    }))
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
    let rows = values.next().context("UNIT_DATA is empty")??;
    let rows = rows.as_array().context("UNIT_DATA is no list")?;
    rows.iter()
        .map(|row| {
            let name = row["name"].as_str().context("a unit has no name")?;
            let what = row["target"].as_str().unwrap_or_default();
            Ok(Unit {
                name: format!("{name}{what}"),
                seconds: row["duration"].as_f64().context("a unit has no duration")?,
            })
        })
        .collect()
}

/// The slowest units in lines, and the sum of all.
fn slowest(mut units: Vec<Unit>) -> Vec<String> {
    let sum: f64 = units.iter().map(|u| u.seconds).sum();
    let all = units.len();
    units.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut lines = vec![format!("{all} units took {sum:.0} s, one after the other:")];
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
              {"i": 0, "name": "libc", "version": "0.2", "target": "", "duration": 1.25},
              {"i": 1, "name": "clap", "version": "4", "target": " build script", "duration": 3.5}
            ];
            const CONCURRENCY_DATA = [];"#;
        let lines = slowest(units(page).unwrap());
        assert_eq!(
            lines,
            [
                "2 units took 5 s, one after the other:",
                "   3.5 s  clap build script",
                "   1.2 s  libc",
            ]
        );
        assert!(units("<html>").is_err());
    }
}

//! `sharp`: what a default run decides of its primary comparisons, by the build of a commit before and
//! by this one, in turns. `benches/sharp.toml` has the comparisons and the goals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::bench::{Bench, Context, Found, Told};
use crate::clean_build::WORKSPACE;
use crate::kept::{self, Kept, Ran};

mod goals;
mod list;
mod outcome;

use goals::Reached;
use list::{List, Part};
use outcome::Outcome;

pub const BENCH: Bench = Bench {
    name: "sharp",
    question: "What does a default run decide, before and after?",
    target: "what sharp.toml asks of each study",
    by_name_alone: true,
    run,
};

/// The builds that take turns.
const ARMS: [&str; 2] = ["before", "after"];

fn run(_: &Context) -> Result<Told> {
    let list = List::read()?;
    let parts = list.chosen(std::env::var("BENCH_SHARP_PART").ok().as_deref())?;
    let after = kept::target()?.join("release/bytecost");
    if !after.is_file() {
        return Ok(Told::Missing(
            "bytecost is not built: make bench-sharp".to_owned(),
        ));
    }
    let before = before(&list.before)?;
    let arms = [
        (before.as_path(), list.before.clone()),
        (&after, kept::build(&after)?),
    ];
    let most = kept::number("BENCH_SHARP_RUNS", u64::MAX)?;
    let log = Kept::at("sharp/sharp.jsonl")?;
    let mut found = Found {
        notes: vec![
            format!(
                "Runs are kept in {}: what is there is not run again.",
                log.path().display()
            ),
            String::new(),
            goals::head(),
        ],
        ..Found::default()
    };
    for part in parts {
        let mut outcomes: [Vec<Outcome>; 2] = Default::default();
        for run in 1..=part.runs.min(most) {
            // Who is first changes from run to run, so that neither always follows the other.
            let order = if run % 2 == 1 { [0, 1] } else { [1, 0] };
            for arm in order {
                let (program, build) = &arms[arm];
                let words = words(part, run);
                let key = json!({
                    "part": part.study, "arm": ARMS[arm], "run": run, "build": build, "words": words.join(" "),
                });
                let line = log.or(&key, || one(program, &words))?;
                let outcome = Outcome::read(&line, part)
                    .with_context(|| format!("{}, {}, run {run}", part.study, ARMS[arm]))?;
                outcomes[arm].push(outcome);
            }
        }
        if outcomes.iter().all(Vec::is_empty) {
            continue;
        }
        let effects = outcome::effects(outcomes.iter().flatten());
        for (arm, outcomes) in ARMS.iter().zip(&outcomes) {
            let reached = Reached::of(part, outcomes, &effects);
            found.notes.push(reached.line(part, arm));
            if *arm == "after" {
                found.rows.extend(reached.rows(part));
            }
        }
        for (arm, outcomes) in ARMS.iter().zip(&outcomes) {
            let said = outcomes.last().map(|o| o.first.as_str());
            found
                .notes
                .push(format!("  {arm} says: {}", said.unwrap_or("nothing")));
        }
    }
    Ok(Told::Found(found))
}

/// The words of a part's command, as a user would give them.
fn words(part: &Part, seed: u64) -> Vec<String> {
    let mut words = vec![part.study.clone(), "--seed".to_owned(), seed.to_string()];
    if let Some(budget) = &part.budget {
        words.extend(["--budget".to_owned(), budget.clone()]);
    }
    words.extend(part.arguments.iter().cloned());
    words
}

/// One run: of its findings.json what may be asked of it.
fn one(program: &Path, words: &[String]) -> Result<Value> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = Ran::new(program, &words)?;
    let all = ran.findings()?;
    Ok(json!({ "seconds": ran.seconds, "findings": outcome::kept(&all) }))
}

/// The build before: of the files of its commit, made in the target directory, once.
fn before(commit: &str) -> Result<PathBuf> {
    ensure!(
        commit.chars().all(|c| c.is_ascii_alphanumeric()),
        "`{commit}` is no commit"
    );
    let place = kept::target()?.join("sharp");
    let program = place.join(format!("bytecost-{commit}"));
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&place)?;
    println!("  building {commit}, which takes some minutes");
    let began = Instant::now();
    let made = tempfile::Builder::new()
        .prefix("build-")
        .tempdir_in(&place)?;
    let files = made.path().join("files");
    fs::create_dir(&files)?;
    let mut git = Command::new("git")
        .args(["archive", commit])
        .current_dir(WORKSPACE)
        .stdout(Stdio::piped())
        .spawn()
        .context("git does not start")?;
    let archive = git.stdout.take().context("no output of git")?;
    let unpacked = Command::new("tar")
        .args(["-x", "-C"])
        .arg(&files)
        .stdin(archive)
        .status()?;
    if !(git.wait()?.success() && unpacked.success()) {
        bail!("git does not have the commit {commit}, which is the build before");
    }
    let target = made.path().join("target");
    let out = Command::new("cargo")
        .args(["build", "--release", "--locked", "-p", "bytecost"])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&files)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    ensure!(
        out.status.success(),
        "{commit} does not build: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    fs::rename(target.join("release/bytecost"), &program)?;
    println!("  built in {:.0} s", began.elapsed().as_secs_f64());
    Ok(program)
}

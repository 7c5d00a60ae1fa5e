//! What benches of whole runs keep: a line of JSON for each, appended as soon as it is over, so that
//! a call that was stopped is continued and nothing is run twice.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use bytecost_spec::RoundSummary;
use bytecost_store::History;
use serde_json::Value;

/// The file of lines. What tells one from the others (kind, seed, build) is its key: an object, all
/// of whose members a line has.
pub struct Kept {
    path: PathBuf,
}

impl Kept {
    /// The file of this name in the target directory that this program was built into.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub fn at(name: &str) -> Result<Kept> {
        Kept::of(target()?.join(name))
    }

    pub(crate) fn of(path: PathBuf) -> Result<Kept> {
        fs::create_dir_all(path.parent().context("a directory")?)?;
        Ok(Kept { path })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All whole lines that have all of this key. One that was cut short is a run that is done again.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn lines(&self, key: &Value) -> Result<Vec<Value>> {
        if !self.path.is_file() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&self.path)?;
        let lines = text
            .lines()
            .filter_map(|l| serde_json::from_str::<Value>(l).ok());
        Ok(lines
            .filter(|line| members(key).all(|(name, value)| line[name] == *value))
            .collect())
    }

    /// The line with this key: what an earlier call has kept, else what `make` gives, kept.
    ///
    /// # Errors
    /// Whatever stops it, and the file cannot be written.
    pub fn or(&self, key: &Value, make: impl FnOnce() -> Result<Value>) -> Result<Value> {
        if let Some(line) = self.lines(key)?.pop() {
            return Ok(line);
        }
        let mut line = make()?;
        for (name, value) in members(key) {
            line[name.as_str()] = value.clone();
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)?;
        // The line begins on its own, whatever a call that was stopped has left.
        write!(file, "\n{line}")?;
        file.sync_data()?;
        let told = members(key).filter(|(name, _)| *name != "build");
        let told: Vec<String> = told.map(|(n, v)| format!("{n} {v}")).collect();
        println!("  {}", told.join(", ").replace('"', ""));
        Ok(line)
    }
}

/// Seconds since 1970.
///
/// # Errors
/// The clock is set before that.
pub fn now_s() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// Waits until so long after an earlier start, of this boot or another one: rounds of one bench lie
/// apart.
///
/// # Errors
/// As [`now_s`].
pub fn wait_since(started_s: Option<u64>, apart: Duration) -> Result<()> {
    let Some(started_s) = started_s else {
        return Ok(());
    };
    let left = (started_s + apart.as_secs()).saturating_sub(now_s()?);
    // A clock that was set back is waited for no longer than this.
    let left = left.min(apart.as_secs());
    if left > 0 {
        println!(
            "  waiting {left} s: rounds begin {} s apart",
            apart.as_secs()
        );
        thread::sleep(Duration::from_secs(left));
    }
    Ok(())
}

fn members(key: &Value) -> impl Iterator<Item = (&String, &Value)> {
    key.as_object().into_iter().flatten()
}

/// The target directory that this program was built into.
///
/// # Errors
/// There is none.
pub fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("a target directory")?;
    Ok(target.to_owned())
}

/// A number from the environment, else this one.
///
/// # Errors
/// It is no number.
pub fn number(variable: &str, usual: u64) -> Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{variable} is `{text}`: a number")),
        Err(_) => Ok(usual),
    }
}

/// What tells a build of a program from another.
///
/// # Errors
/// It is not there.
pub fn build(program: &Path) -> Result<String> {
    let built = fs::metadata(program)?;
    let since = built.modified()?.duration_since(UNIX_EPOCH)?;
    Ok(format!("{}-{}", built.len(), since.as_millis()))
}

/// One run of bytecost.
pub struct Ran {
    /// Its directory of runs; gone with this value.
    pub root: tempfile::TempDir,
    /// The name of the run in it.
    pub id: String,
}

impl Ran {
    /// `bytecost run` with these words, in a directory of its own, and with the history of rounds in
    /// this directory, which it extends: never with that of the user.
    ///
    /// # Errors
    /// It failed, other than in single trials, and what it said.
    pub fn new(program: &Path, words: &[&str], state: &Path) -> Result<Ran> {
        let root = tempfile::tempdir()?;
        let output = Command::new(program)
            .env("XDG_STATE_HOME", state)
            .args(["run", "--quiet"])
            .args(words)
            .arg("--runs-dir")
            .arg(root.path())
            .stdin(Stdio::null())
            .output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        // 1 is a run in which single trials failed, and which has its reports.
        ensure!(
            matches!(output.status.code(), Some(0 | 1)),
            "bytecost run {}: {told}",
            words.join(" ")
        );
        let mut runs = fs::read_dir(root.path())?.filter_map(|entry| entry.ok());
        let run = runs
            .find(|e| e.path().join("findings.json").is_file())
            .with_context(|| format!("no findings: {told}"))?;
        let id = run.file_name().into_string();
        Ok(Ran {
            id: id.ok().context("the run's name is no text")?,
            root,
        })
    }

    /// What it added to the history.
    ///
    /// # Errors
    /// It added no round.
    pub fn round(&self, state: &Path) -> Result<RoundSummary> {
        let known = History::at(state.join("bytecost")).known()?.rounds;
        let own = known.into_iter().find(|round| round.run == self.id);
        own.context("the run added no round to its history: has this machine no /etc/machine-id?")
    }

    /// Its findings.json.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn findings(&self) -> Result<Value> {
        let path = self.root.path().join(&self.id).join("findings.json");
        Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_kept_is_not_made_again_and_a_line_that_was_cut_is() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::of(dir.path().join("a/kept.jsonl")).unwrap();
        let one = json!({ "kind": "planted", "seed": 1, "build": "a" });
        assert_eq!(kept.lines(&one).unwrap(), Vec::<Value>::new());
        fs::write(kept.path(), "{\"kind\":\"planted\",\"seed\":1,\"find").unwrap();
        let made = kept.or(&one, || Ok(json!({ "found": 7 }))).unwrap();
        assert_eq!(made["found"], 7);
        let again = kept.or(&one, || panic!("it is there")).unwrap();
        assert_eq!(again, made);
        for other in [
            json!({ "kind": "planted", "seed": 2, "build": "a" }),
            json!({ "kind": "equal", "seed": 1, "build": "a" }),
            json!({ "kind": "planted", "seed": 1, "build": "b" }),
        ] {
            assert_eq!(kept.lines(&other).unwrap().len(), 0, "{other:?}");
        }
        assert!(
            kept.or(&json!({ "seed": 3 }), || anyhow::bail!("no"))
                .is_err()
        );
        assert_eq!(kept.lines(&json!({ "seed": 3 })).unwrap().len(), 0);
    }
}

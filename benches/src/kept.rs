//! Results of benches of whole runs, which take hours: one line of JSON for each run, appended as soon
//! as it is over, so that a bench that was stopped continues where it was.

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

/// A file of JSON lines. A line is found by its key (kind, seed, build): an object, all of whose
/// members the line has.
pub struct Kept {
    path: PathBuf,
}

impl Kept {
    /// The file of this name in the target directory that this program was built into.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub fn at(name: &str) -> Result<Kept> {
        Kept::from_path(target()?.join(name))
    }

    pub(crate) fn from_path(path: PathBuf) -> Result<Kept> {
        fs::create_dir_all(path.parent().context("a directory")?)?;
        Ok(Kept { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lines with this key. One that was cut short is no line, so that its run is made again.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn lines(&self, key: &Value) -> Result<Vec<Value>> {
        if !self.path.is_file() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&self.path)?;
        Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|line| members(key).all(|(name, value)| line[name] == *value))
            .collect())
    }

    /// The line with this key. If the file has none, it is made and appended.
    ///
    /// # Errors
    /// Those of `make`, and a file that cannot be written.
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
        // The end of line comes first, since a call that was stopped may have left half a line.
        write!(file, "\n{line}")?;
        file.sync_data()?;
        let shown_key: Vec<String> = members(key)
            .filter(|(name, _)| *name != "build")
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        println!("  {}", shown_key.join(", ").replace('"', ""));
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

/// Waits until `apart` after an earlier start, of this boot or another one, as rounds of a bench need.
///
/// # Errors
/// Those of [`now_s`].
pub fn wait_since(started_s: Option<u64>, apart: Duration) -> Result<()> {
    let Some(started_s) = started_s else {
        return Ok(());
    };
    // The bound matters if the clock was set back.
    let left = (started_s + apart.as_secs())
        .saturating_sub(now_s()?)
        .min(apart.as_secs());
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
/// A program that is not in a target directory.
pub fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("a target directory")?;
    Ok(target.to_owned())
}

/// The number in a variable of the environment, or the default if it is not set.
///
/// # Errors
/// A text that is no number.
pub fn number(variable: &str, default: u64) -> Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{variable} is `{text}`: a number")),
        Err(_) => Ok(default),
    }
}

/// An identifier of the build of a program: its size in bytes and its time in ms.
///
/// # Errors
/// A file that does not exist.
pub fn build(program: &Path) -> Result<String> {
    let file = fs::metadata(program)?;
    let modified = file.modified()?.duration_since(UNIX_EPOCH)?;
    Ok(format!("{}-{}", file.len(), modified.as_millis()))
}

/// One run of bytecost in a directory of its own.
pub struct Ran {
    /// Its directory of runs, which is removed when this value is dropped.
    pub root: tempfile::TempDir,
    /// The name of the run in it.
    pub id: String,
}

impl Ran {
    /// Runs `bytecost run` with these words. The history of rounds is the one in the directory
    /// `state`, never that of the user.
    ///
    /// # Errors
    /// A run that failed, other than in single trials, with its standard error.
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
        let errors = String::from_utf8_lossy(&output.stderr);
        // The status is 1 if single trials failed, and then there are reports.
        ensure!(
            matches!(output.status.code(), Some(0 | 1)),
            "bytecost run {}: {errors}",
            words.join(" ")
        );
        let run = fs::read_dir(root.path())?
            .filter_map(|entry| entry.ok())
            .find(|e| e.path().join("findings.json").is_file())
            .with_context(|| format!("no findings: {errors}"))?;
        let id = run.file_name().into_string();
        Ok(Ran {
            id: id.ok().context("the run's name is no text")?,
            root,
        })
    }

    /// The round that it added to the history.
    ///
    /// # Errors
    /// A history without it, as on machines that have no id.
    pub fn round(&self, state: &Path) -> Result<RoundSummary> {
        let rounds = History::at(state.join("bytecost")).known()?.rounds;
        rounds
            .into_iter()
            .find(|round| round.run == self.id)
            .context("the run added no round to its history: has this machine no /etc/machine-id?")
    }

    /// Its findings.json.
    ///
    /// # Errors
    /// A file that cannot be read.
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
    fn a_stored_result_is_not_made_again_but_a_cut_line_is() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::from_path(dir.path().join("a/kept.jsonl")).unwrap();
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

//! The history of rounds: summaries of earlier rounds on a machine, in a directory private to its user.
//!
//! It is a file of JSON lines, oldest round first, written atomically each time. A link, a file of another
//! user or a line that is no round is reported and never changed.

use std::path::{Path, PathBuf};

use bytecost_spec::RoundSummary;

use crate::error::StoreError;
use crate::folder::Folder;

/// Name of the file.
const ROUNDS: &str = "rounds.jsonl";
/// The most rounds, and the most bytes of the file; the oldest rounds are dropped.
const MOST_ROUNDS: usize = 100;
const MOST_BYTES: usize = 8 << 20;

/// The history in a directory, which need not exist yet.
#[derive(Clone, Debug)]
pub struct History {
    directory: PathBuf,
}

/// The content of a history, oldest round first.
#[derive(Debug, Default)]
pub struct KnownRounds {
    /// The rounds that could be read.
    pub rounds: Vec<RoundSummary>,
    /// The first line that is no round; none if all are.
    pub damage: Option<StoreError>,
}

impl History {
    /// The history in this directory.
    pub fn at(directory: impl Into<PathBuf>) -> History {
        History {
            directory: directory.into(),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads all rounds; creates nothing.
    ///
    /// # Errors
    /// [`StoreError::OfAnother`] for a directory or file of another user.
    pub fn known(&self) -> Result<KnownRounds, StoreError> {
        match Folder::open_own(&self.directory)? {
            Some(folder) => read(&folder),
            None => Ok(KnownRounds::default()),
        }
    }

    /// Adds the rounds of one run, in place of those that the history has of it.
    ///
    /// # Errors
    /// [`StoreError::OfAnother`]; [`StoreError::BrokenHistory`] for a line that is no round;
    /// [`StoreError::Locked`] if another process writes for long. The history is then unchanged.
    pub fn add(&self, rounds: Vec<RoundSummary>) -> Result<(), StoreError> {
        let Some(first) = rounds.first() else {
            return Ok(());
        };
        let folder = Folder::make_private(&self.directory)?;
        folder.lock()?;
        let KnownRounds {
            rounds: mut kept,
            damage,
        } = read(&folder)?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        kept.retain(|round| {
            let machines = [round, first].map(|r| &r.conditions.machine.machine_id_hash);
            round.run != first.run || machines[0] != machines[1]
        });
        kept.extend(rounds);
        folder.write(ROUNDS, &newest(&kept)?.concat())
    }
}

/// The lines of the newest rounds, as many as fit.
fn newest(rounds: &[RoundSummary]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut lines = Vec::new();
    let mut bytes = 0;
    for round in rounds.iter().rev().take(MOST_ROUNDS) {
        let mut line = serde_json::to_vec(round)
            .map_err(|why| StoreError::io("write", Path::new(ROUNDS), why))?;
        line.push(b'\n');
        bytes += line.len();
        if bytes > MOST_BYTES {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    Ok(lines)
}

fn read(folder: &Folder) -> Result<KnownRounds, StoreError> {
    let bytes = (folder.read_own(ROUNDS, MOST_BYTES as u64)?).unwrap_or_default();
    let mut known = KnownRounds::default();
    let lines = bytes.split(|b| *b == b'\n').enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(round) => known.rounds.push(round),
            Err(_) => {
                let path = folder.path().join(ROUNDS);
                known
                    .damage
                    .get_or_insert(StoreError::BrokenHistory(path, number + 1));
            }
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use bytecost_spec::round::MachineKernel;
    use bytecost_spec::{Metric, RoundComparison, RoundConditions};

    fn round(run: &str, machine: &str, comparisons: usize) -> RoundSummary {
        let comparison = |i| RoundComparison {
            metric: "cpu_s_per_gb".parse::<Metric>().unwrap(),
            baseline: "a".repeat(100),
            cell: format!("b{i}"),
            log_ratio: 0.1 + i as f64 / 7.0,
            variance: 1e-4 / 3.0,
            degrees: 6.4,
            blocks: 9,
        };
        RoundSummary {
            run: run.to_owned(),
            round: 0,
            started: "2026-11-21T10:00:00Z".to_owned(),
            conditions: RoundConditions {
                machine: MachineKernel {
                    machine_id_hash: machine.to_owned(),
                    kernel: "6.1.0".to_owned(),
                },
                cpus_allowed: vec![0, 1],
                peer: None,
                warmup_ms: 5,
                window_ms: 40,
                design: None,
            },
            foreign_cpus: 0.02,
            comparisons: (0..comparisons).map(comparison).collect(),
        }
    }

    fn names(history: &History) -> Vec<String> {
        let rounds = history.known().unwrap().rounds.into_iter();
        rounds.map(|round| round.run).collect()
    }

    #[test]
    fn rounds_are_read_back_from_a_directory_private_to_its_user() {
        let dir = tempfile::tempdir().unwrap();
        let history = History::at(dir.path().join("state/bytecost"));
        assert!(names(&history).is_empty());
        assert!(!dir.path().join("state").exists(), "reading makes nothing");
        let rounds = vec![round("one", "m", 3), round("one", "m", 2)];
        history.add(rounds.clone()).unwrap();
        assert_eq!(history.known().unwrap().rounds, rounds);
        let mode = fs::metadata(history.directory()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_run_that_is_resumed_replaces_its_own_rounds_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let history = History::at(dir.path().join("bytecost"));
        for (run, machine) in [("one", "m"), ("one", "other"), ("two", "m"), ("one", "m")] {
            history.add(vec![round(run, machine, 1)]).unwrap();
        }
        assert_eq!(names(&history), ["one", "two", "one"]);
        history.add(Vec::new()).unwrap();
        assert_eq!(names(&history).len(), 3);
    }

    // Invariant 8.
    #[test]
    fn the_oldest_rounds_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let history = History::at(dir.path().join("bytecost"));
        for run in 0..MOST_ROUNDS + 3 {
            history.add(vec![round(&run.to_string(), "m", 1)]).unwrap();
        }
        let names = names(&history);
        assert_eq!((names.len(), &*names[0]), (MOST_ROUNDS, "3"));
        let large = (0..60).map(|i| round(&i.to_string(), "m", 1_000));
        let lines = newest(&large.collect::<Vec<_>>()).unwrap();
        let bytes: usize = lines.iter().map(Vec::len).sum();
        assert!(bytes <= MOST_BYTES && (10..60).contains(&lines.len()));
    }

    #[test]
    fn a_damaged_line_is_skipped_and_the_file_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let history = History::at(dir.path().join("bytecost"));
        history.add(vec![round("one", "m", 1)]).unwrap();
        let path = history.directory().join(ROUNDS);
        let damaged = [&fs::read(&path).unwrap()[..], b"{\"run\":\"two\"\n"].concat();
        fs::write(&path, &damaged).unwrap();
        let known = history.known().unwrap();
        assert_eq!(known.rounds.len(), 1);
        let damage = known.damage.unwrap().to_string();
        assert!(damage.contains("line 2"), "{damage}");
        assert!(history.add(vec![round("three", "m", 1)]).is_err());
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let own = History::at(dir.path().join("own"));
        own.add(vec![round("one", "m", 1)]).unwrap();
        let linked = History::at(dir.path().join("linked"));
        symlink(own.directory(), linked.directory()).unwrap();
        assert!(linked.known().is_err());
        assert!(linked.add(vec![round("two", "m", 1)]).is_err());
        let other = History::at(dir.path().join("other"));
        fs::create_dir(other.directory()).unwrap();
        let target = own.directory().join(ROUNDS);
        symlink(&target, other.directory().join(ROUNDS)).unwrap();
        assert!(other.known().is_err());
        assert!(other.add(vec![round("two", "m", 1)]).is_err());
        assert_eq!(names(&own), ["one"]);
    }

    #[test]
    fn a_directory_or_file_of_another_user_is_not_changed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let history = History::at(dir.path().join("bytecost"));
        history.add(vec![round("one", "m", 1)]).unwrap();
        let path = history.directory().join(ROUNDS);
        let before = fs::read(&path).unwrap();
        for theirs in [&path, history.directory()] {
            chown(theirs, Some(12_345), None).unwrap();
            let refused = history.known().unwrap_err();
            assert!(matches!(refused, StoreError::OfAnother(..)), "{refused}");
            assert!(history.add(vec![round("two", "m", 1)]).is_err());
            chown(theirs, Some(0), None).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

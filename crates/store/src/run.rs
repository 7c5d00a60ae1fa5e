//! The directory of one run: its manifest, its log and its ending.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use bytecost_spec::manifest::{FORMAT, Leg};
use bytecost_spec::{Manifest, Plan, Record, units};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::folder::{Folder, check_id, lock};
use crate::log::{self, Loaded, Log};

const MOST_MANIFEST_BYTES: u64 = 16 << 20;

const MANIFEST: &str = "manifest.json";
const SAMPLES: &str = "samples.jsonl";
const ENDED: &str = "ended.json";

/// The end of a run: its time and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Time of the end, RFC 3339, UTC.
    pub ended: String,
    /// The reason why it ended early; none if it is complete.
    pub early: Option<String>,
    /// Number of records in its log at that time; none if the log was missing.
    pub records: Option<u64>,
}

/// The directory of one run. Anyone reads it; the one process that holds its lock appends to it.
#[derive(Debug)]
pub struct Run {
    folder: Folder,
    manifest: Manifest,
    log: Option<Log>,
}

impl Run {
    /// Creates the directory of a new run with its manifest and an empty log, and locks it.
    pub(crate) fn create(root: &Folder, manifest: &Manifest) -> Result<Run, StoreError> {
        let folder = root.make_folder(&manifest.id)?;
        let made = Run::fill(root, folder, manifest);
        if made.is_err()
            && let Ok(unfinished) = root.folder(&manifest.id)
        {
            for name in [MANIFEST, SAMPLES] {
                let _ = unfinished.remove(name);
            }
            root.remove_folder(&manifest.id);
        }
        made
    }

    fn fill(root: &Folder, folder: Folder, manifest: &Manifest) -> Result<Run, StoreError> {
        write_manifest(&folder, manifest)?;
        let mut run = Run {
            folder,
            manifest: manifest.clone(),
            log: None,
        };
        run.resume()?;
        (run.folder.sync().and_then(|()| root.sync()))
            .map_err(|why| StoreError::io("create", run.dir(), why))?;
        Ok(run)
    }

    pub(crate) fn open(folder: Folder) -> Result<Run, StoreError> {
        let manifest = read_manifest(&folder)?;
        Ok(Run {
            folder,
            manifest,
            log: None,
        })
    }

    /// The path of the directory.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Returns true if the directories of both runs have the same owner.
    pub fn has_owner_of(&self, other: &Run) -> bool {
        let owner = self.folder.owner();
        owner.is_some() && owner == other.folder.owner()
    }

    /// The manifest as it was written at the start, with the legs and rounds that have begun since, and
    /// with the orders of blocks that a longer budget pays for.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Locks the run and opens its log for appending: an incomplete last line is cut off, and the run no
    /// longer counts as ended. The lock (flock(2) on the log, which child processes do not inherit) is
    /// held as long as this value lives. A new run already holds it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process holds the lock.
    pub fn resume(&mut self) -> Result<(), StoreError> {
        if self.log.is_some() {
            return Ok(());
        }
        let file = self.folder.log(SAMPLES)?;
        lock(&file, self.dir())?;
        // After the end of the run its verdicts could be seen. That is recorded before the run no longer
        // counts as ended, so that a crash in between records a look too many, never one too few.
        if self.ending()?.is_some() {
            let begun = self.blocks_begun()?;
            self.change_manifest(|manifest| manifest.looks.extend(begun))?;
        }
        self.folder.remove(ENDED)?;
        self.log = Some(Log::resume(file, &self.dir().join(SAMPLES))?);
        Ok(())
    }

    /// Records in the manifest, atomically, that a new leg begins with the next record. After an error none
    /// has begun. Locks the run if it is not locked.
    pub fn begin_leg(&mut self, leg: Leg) -> Result<(), StoreError> {
        self.resume()?;
        self.change_manifest(|manifest| manifest.legs.push(leg))
    }

    /// Replaces the plan in the manifest, atomically, by one that has more blocks. After an error it is
    /// unchanged. Locks the run if it is not locked.
    pub fn plan_more(&mut self, plan: Plan) -> Result<(), StoreError> {
        self.resume()?;
        if plan == self.manifest.plan {
            return Ok(());
        }
        self.change_manifest(|manifest| manifest.plan = plan)
    }

    /// Records in the manifest, atomically, that a round begins with this block, before any of it is
    /// measured. After an error it is unchanged. Locks the run if it is not locked.
    pub fn begin_round(&mut self, first_block: u32) -> Result<(), StoreError> {
        self.resume()?;
        self.change_manifest(|manifest| {
            // The first round of several is recorded together with the second one.
            if manifest.round_blocks.is_empty() {
                manifest.round_blocks.push(0);
            }
            manifest.round_blocks.push(first_block);
        })
    }

    /// One more than the last block with a timed trial; none if there is no such trial. Errors are those of
    /// [`Run::records`].
    pub fn blocks_begun(&self) -> Result<Option<u32>, StoreError> {
        let records = self.records()?.records;
        let timed = records.iter().filter(|r| !matches!(r, Record::Evidence(_)));
        Ok(timed.filter_map(|r| Some(r.trial()?.block + 1)).max())
    }

    fn change_manifest(&mut self, change: impl FnOnce(&mut Manifest)) -> Result<(), StoreError> {
        let mut manifest = self.manifest.clone();
        change(&mut manifest);
        write_manifest(&self.folder, &manifest)?;
        self.manifest = manifest;
        Ok(())
    }

    /// The records that are missing from the log since the run ended, in words; none if none is missing, or
    /// if their number is unknown.
    pub fn damage(&self) -> Result<Option<String>, StoreError> {
        let had = self.ending()?.and_then(|ending| ending.records);
        Ok(match (self.count()?, had) {
            (None, _) => Some(format!("{SAMPLES} is missing")),
            (Some(has), Some(had)) if has < had => Some(format!(
                "{} of its {had} records are missing from {SAMPLES}",
                had - has
            )),
            _ => None,
        })
    }

    /// Number of complete lines in the log; none if there is no log.
    pub(crate) fn count(&self) -> Result<Option<u64>, StoreError> {
        (self.samples()?.map(log::count).transpose())
            .map_err(|why| StoreError::io("read", &self.dir().join(SAMPLES), why))
    }

    /// Returns true while a process holds the run's lock.
    pub fn is_locked(&self) -> bool {
        self.folder.file(SAMPLES).is_ok_and(|file| {
            let locked = file.map(|f| flock(f, FlockOperation::NonBlockingLockShared));
            locked == Some(Err(Errno::WOULDBLOCK))
        })
    }

    /// Appends one record and hands it to the kernel, so that it survives this process. Locks the run if it
    /// is not locked. After an error the log is unchanged.
    pub fn append(&mut self, record: &Record) -> Result<(), StoreError> {
        self.resume()?;
        self.log.as_mut().map_or(Ok(()), |log| log.append(record))
    }

    /// Writes all appended records to the disk (fdatasync(2)), so that they survive the machine.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.log.as_mut().map_or(Ok(()), Log::sync)
    }

    /// All records, in the order in which they were appended; none if the log is missing. An incomplete last
    /// line is left out and counted.
    ///
    /// # Errors
    /// [`StoreError::BrokenLine`] for a complete line that is no record.
    pub fn records(&self) -> Result<Loaded, StoreError> {
        let Some(file) = self.samples()? else {
            return Ok(Loaded::default());
        };
        let path = self.dir().join(SAMPLES);
        log::read(BufReader::with_capacity(1 << 18, file), &path)
    }

    /// The log, if there is one, with its length checked.
    fn samples(&self) -> Result<Option<File>, StoreError> {
        let file = self.folder.file(SAMPLES)?;
        let path = self.dir().join(SAMPLES);
        if let Some(file) = &file {
            log::check_length(file, &path)?;
        }
        Ok(file)
    }

    /// Writes all records to the disk, then the end of the run: its time, RFC 3339 in UTC, and the reason
    /// why it is early.
    pub fn end(&mut self, ended: String, early: Option<String>) -> Result<(), StoreError> {
        self.sync()?;
        let records = self.count()?;
        let ending = Ending {
            ended,
            early,
            records,
        };
        self.folder.write_json(ENDED, serde_json::to_vec(&ending))
    }

    /// The end of the run; none while it continues, or if it was killed.
    pub fn ending(&self) -> Result<Option<Ending>, StoreError> {
        read_json(&self.folder, ENDED)
    }

    /// A directory in the run's, created if it does not exist. A link is refused.
    pub fn folder(&self, name: &str) -> Result<Folder, StoreError> {
        match self.folder.make_folder(name) {
            Err(StoreError::Exists(_)) => self.folder.folder(name),
            made => made,
        }
    }

    /// Writes a report next to the samples, atomically: an existing file of that name is replaced, and after
    /// an error it is unchanged.
    ///
    /// # Errors
    /// [`StoreError::BadOutput`] for a name that is no plain file name, or one of the run's own files.
    pub fn write_output(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        let is_own = [MANIFEST, SAMPLES, ENDED].contains(&name);
        let is_plain = (1..=128).contains(&name.len())
            && !name.starts_with('.')
            && !name.contains(['/', '\0', '\n']);
        if is_own || !is_plain {
            return Err(StoreError::BadOutput(name.to_owned()));
        }
        self.folder.write(name, bytes)?;
        Ok(self.dir().join(name))
    }
}

fn write_manifest(folder: &Folder, manifest: &Manifest) -> Result<(), StoreError> {
    let json = serde_json::to_vec_pretty(manifest);
    folder.write_json(MANIFEST, json.map(|json| [json, vec![b'\n']].concat()))
}

fn read_json<T: DeserializeOwned>(folder: &Folder, name: &str) -> Result<Option<T>, StoreError> {
    let bytes = folder.read(name, MOST_MANIFEST_BYTES)?;
    bytes.map(|json| parse(folder, name, &json)).transpose()
}

fn parse<T: DeserializeOwned>(folder: &Folder, name: &str, json: &[u8]) -> Result<T, StoreError> {
    let path = || folder.path().join(name);
    serde_json::from_slice(json).map_err(|why| StoreError::Unreadable(path(), why.to_string()))
}

fn read_manifest(folder: &Folder) -> Result<Manifest, StoreError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let dir = folder.path();
    let json = (folder.read(MANIFEST, MOST_MANIFEST_BYTES)?)
        .ok_or_else(|| StoreError::NoManifest(dir.to_owned()))?;
    let Format { format } = parse(folder, MANIFEST, &json)?;
    if format != u64::from(FORMAT) {
        return Err(StoreError::OtherFormat(dir.to_owned(), format));
    }
    let manifest: Manifest = parse(folder, MANIFEST, &json)?;
    // Both are part of commands that are printed for the reader to copy.
    if check_id(&manifest.id).is_err() || !units::is_name(&manifest.study.name) {
        let why = "its id or the name of its study is no name: letters, digits, `-`, `_`";
        return Err(StoreError::Unreadable(dir.join(MANIFEST), why.to_owned()));
    }
    if !manifest.plan.is_consistent() {
        let why = "its plan orders cells that it does not have";
        return Err(StoreError::Unreadable(dir.join(MANIFEST), why.to_owned()));
    }
    (manifest.study.check_counts())
        .map_err(|why| StoreError::Unreadable(dir.join(MANIFEST), why.to_string()))?;
    Ok(manifest)
}

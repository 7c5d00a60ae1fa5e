//! One run directory.

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

/// When and why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// When, RFC 3339, UTC.
    pub ended: String,
    /// Why before its time; none where it is complete.
    pub early: Option<String>,
    /// Records that its log had then; none where its log was missing.
    pub records: Option<u64>,
}

/// One run directory: read by anyone, appended to by the one process that holds its lock.
#[derive(Debug)]
pub struct Run {
    folder: Folder,
    manifest: Manifest,
    log: Option<Log>,
}

impl Run {
    /// Makes a new directory for a run, with its manifest and an empty log, and takes its lock.
    pub(crate) fn create(root: &Folder, manifest: &Manifest) -> Result<Run, StoreError> {
        let folder = root.make_folder(&manifest.id)?;
        let made = Run::fill(root, folder, manifest);
        if made.is_err()
            && let Ok(folder) = root.folder(&manifest.id)
        {
            for name in [MANIFEST, SAMPLES] {
                let _ = folder.remove(name);
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
        let synced = run.folder.sync().and_then(|()| root.sync());
        synced.map_err(|why| StoreError::io("create", run.dir(), why))?;
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

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Returns true where one user owns the directories of both runs.
    pub fn has_owner_of(&self, other: &Run) -> bool {
        let owner = self.folder.owner();
        owner.is_some() && owner == other.folder.owner()
    }

    /// The manifest, as it was written at the start, with the legs and rounds that were begun since, and
    /// the orders of blocks that a longer budget pays for.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Takes the lock and makes the log ready to be appended to: an incomplete last line is cut
    /// off, and the run no longer counts as ended. The lock (flock(2) on the log, which child
    /// processes do not inherit) lasts as long as this value. A new run holds it already.
    ///
    /// # Errors
    /// [`StoreError::Locked`] where another process holds it.
    pub fn resume(&mut self) -> Result<(), StoreError> {
        if self.log.is_some() {
            return Ok(());
        }
        let file = self.folder.log(SAMPLES)?;
        lock(&file, self.dir())?;
        // The run had ended: its verdicts could be seen. That is noted before it no longer counts
        // as ended, so that a crash in between notes a look too many, never one too few.
        if self.ending()?.is_some() {
            let begun = self.blocks_begun()?;
            self.note(|manifest| manifest.looks.extend(begun))?;
        }
        self.folder.remove(ENDED)?;
        self.log = Some(Log::resume(file, &self.dir().join(SAMPLES))?);
        Ok(())
    }

    /// Notes in the manifest, in one step, that what is appended from now on is of another leg.
    /// After an error none was begun. Takes the lock first where [`Run::resume`] has not.
    pub fn begin_leg(&mut self, leg: Leg) -> Result<(), StoreError> {
        self.resume()?;
        self.note(|manifest| manifest.legs.push(leg))
    }

    /// Replaces the plan in the manifest by one that goes on behind it, in one step. After an error it
    /// is as it was. Takes the lock first where [`Run::resume`] has not.
    pub fn plan_more(&mut self, plan: Plan) -> Result<(), StoreError> {
        self.resume()?;
        if plan == self.manifest.plan {
            return Ok(());
        }
        self.note(|manifest| manifest.plan = plan)
    }

    /// Notes in the manifest, in one step, that a round begins with this block, before any of it is
    /// measured. After an error it is as it was. Takes the lock first where [`Run::resume`] has not.
    pub fn begin_round(&mut self, first_block: u32) -> Result<(), StoreError> {
        self.resume()?;
        self.note(|manifest| {
            // Before the second round there is one without a note.
            if manifest.round_blocks.is_empty() {
                manifest.round_blocks.push(0);
            }
            manifest.round_blocks.push(first_block);
        })
    }

    /// How many blocks have a timed trial, those before them included; none where there is none. Errors
    /// are those of [`Run::records`].
    pub fn blocks_begun(&self) -> Result<Option<u32>, StoreError> {
        let records = self.records()?.records;
        let timed = records.iter().filter(|r| !matches!(r, Record::Evidence(_)));
        Ok(timed.filter_map(|r| Some(r.trial()?.block + 1)).max())
    }

    fn note(&mut self, change: impl FnOnce(&mut Manifest)) -> Result<(), StoreError> {
        let mut manifest = self.manifest.clone();
        change(&mut manifest);
        write_manifest(&self.folder, &manifest)?;
        self.manifest = manifest;
        Ok(())
    }

    /// What its log lacks of the records that it had when the run ended; none where it lacks
    /// none, or where nothing is known of their number.
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

    /// Whole lines of its log; none where there is no log.
    pub(crate) fn count(&self) -> Result<Option<u64>, StoreError> {
        let counted = self.samples()?.map(log::count).transpose();
        counted.map_err(|why| StoreError::io("read", &self.dir().join(SAMPLES), why))
    }

    /// Whether a process appends to the run now.
    pub fn is_locked(&self) -> bool {
        self.folder.file(SAMPLES).is_ok_and(|file| {
            let locked = file.map(|f| flock(f, FlockOperation::NonBlockingLockShared));
            locked == Some(Err(Errno::WOULDBLOCK))
        })
    }

    /// Appends one record and hands it to the kernel, so that it outlives this process. Takes the
    /// lock first where [`Run::resume`] has not. After an error the log is as it was.
    pub fn append(&mut self, record: &Record) -> Result<(), StoreError> {
        self.resume()?;
        self.log.as_mut().map_or(Ok(()), |log| log.append(record))
    }

    /// Makes all that was appended last on the disk (fdatasync(2)): it outlives the machine.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.log.as_mut().map_or(Ok(()), Log::sync)
    }

    /// All records, in the order in which they were appended, none of a missing log; an incomplete
    /// last line is left out and told.
    ///
    /// # Errors
    /// [`StoreError::BrokenLine`] where a whole line is no record.
    pub fn records(&self) -> Result<Loaded, StoreError> {
        let Some(file) = self.samples()? else {
            return Ok(Loaded::default());
        };
        let path = self.dir().join(SAMPLES);
        log::read(BufReader::with_capacity(1 << 18, file), &path)
    }

    /// Its log, where there is one; it is not longer than a log can be.
    fn samples(&self) -> Result<Option<File>, StoreError> {
        let file = self.folder.file(SAMPLES)?;
        let path = self.dir().join(SAMPLES);
        if let Some(file) = &file {
            log::check_length(file, &path)?;
        }
        Ok(file)
    }

    /// Notes when the run ended, RFC 3339 in UTC, and why before its time, after what was appended
    /// is on the disk.
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

    /// When and why the run ended; none where it goes on, or was killed.
    pub fn ending(&self) -> Result<Option<Ending>, StoreError> {
        read_json(&self.folder, ENDED)
    }

    /// The directory of that name in the run's, made where it is not there. It is no link.
    pub fn folder(&self, name: &str) -> Result<Folder, StoreError> {
        match self.folder.make_folder(name) {
            Err(StoreError::Exists(_)) => self.folder.folder(name),
            made => made,
        }
    }

    /// Writes a report beside the samples, whole or not at all: a file of that name is replaced at
    /// once, and after an error it is as it was.
    ///
    /// # Errors
    /// [`StoreError::BadOutput`] for a name that is no plain file name or one of the run's own.
    pub fn write_output(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        let own = [MANIFEST, SAMPLES, ENDED].contains(&name);
        let plain = (1..=128).contains(&name.len())
            && !name.starts_with('.')
            && !name.contains(['/', '\0', '\n']);
        if own || !plain {
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
    bytes.map(|json| parsed(folder, name, &json)).transpose()
}

fn parsed<T: DeserializeOwned>(folder: &Folder, name: &str, json: &[u8]) -> Result<T, StoreError> {
    let path = || folder.path().join(name);
    serde_json::from_slice(json).map_err(|why| StoreError::Unreadable(path(), why.to_string()))
}

fn read_manifest(folder: &Folder) -> Result<Manifest, StoreError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let dir = folder.path();
    let json = folder.read(MANIFEST, MOST_MANIFEST_BYTES)?;
    let json = json.ok_or_else(|| StoreError::NoManifest(dir.to_owned()))?;
    let Format { format } = parsed(folder, MANIFEST, &json)?;
    if format != u64::from(FORMAT) {
        return Err(StoreError::OtherFormat(dir.to_owned(), format));
    }
    let manifest: Manifest = parsed(folder, MANIFEST, &json)?;
    // Both stand in commands that are printed for the reader to copy.
    if check_id(&manifest.id).is_err() || !units::is_name(&manifest.study.name) {
        let why = "its id or the name of its study is no name: letters, digits, `-`, `_`";
        return Err(StoreError::Unreadable(dir.join(MANIFEST), why.to_owned()));
    }
    if !manifest.plan.is_consistent() {
        let why = "its plan orders cells that it does not have";
        return Err(StoreError::Unreadable(dir.join(MANIFEST), why.to_owned()));
    }
    let fits = manifest.study.check_counts();
    fits.map_err(|why| StoreError::Unreadable(dir.join(MANIFEST), why.to_string()))?;
    Ok(manifest)
}

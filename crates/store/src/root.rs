//! The directory under which runs live.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytecost_spec::Manifest;

use crate::error::StoreError;
use crate::folder::Folder;
use crate::id;
use crate::run::{self, Run};

/// How many runs may start in the same second.
const MOST_TWINS: u32 = 1000;

/// The directory under which runs live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
}

/// A directory in the list of runs.
#[derive(Debug)]
pub struct RunSummary {
    /// Its name under the root.
    pub id: String,
    /// What it holds, or why that cannot be read.
    pub facts: Result<RunProgress, StoreError>,
}

/// A run in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// Its start, RFC 3339, UTC.
    pub started: String,
    /// Name of its study.
    pub study: String,
    /// Whole lines of its log.
    pub records: u64,
    /// How it stands.
    pub state: State,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A process appends to it now.
    Running,
    /// It ended as planned.
    Complete,
    /// It ended before its time, for this reason; it can be resumed.
    EndedEarly(String),
    /// It was killed; it can be resumed.
    Killed,
    /// Its log lacks records that were in it; resuming it measures them again.
    Damaged(String),
}

impl Root {
    /// The root at that path, which need not be there yet.
    pub fn at(path: impl Into<PathBuf>) -> Root {
        Root { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory of a new run, named by its manifest, with an empty log, and takes its
    /// lock. After an error nothing of it is left.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::BadId`], [`StoreError::Full`], or what the system
    /// refused.
    pub fn create(&self, manifest: &Manifest) -> Result<Run, StoreError> {
        id::check(&manifest.id)?;
        Run::create(&Folder::make(&self.path)?, manifest)
    }

    /// The same for a run that has no name yet: it is [`crate::id`] of its study and start, with
    /// `-2`, `-3` … behind it where that is taken.
    ///
    /// # Errors
    /// As [`Root::create`].
    pub fn create_fresh(&self, mut manifest: Manifest) -> Result<Run, StoreError> {
        let base = id(&manifest.study.name, &manifest.started)?;
        manifest.id.clone_from(&base);
        for twin in 2..=MOST_TWINS {
            match self.create(&manifest) {
                Err(StoreError::Exists(_)) => manifest.id = format!("{base}-{twin}"),
                other => return other,
            }
        }
        self.create(&manifest)
    }

    /// Opens a run by its name under the root, or by the path of its directory.
    ///
    /// # Errors
    /// [`StoreError::NoRun`], [`StoreError::NoManifest`], [`StoreError::Newer`],
    /// [`StoreError::Unreadable`], or what the system refused.
    pub fn open(&self, id_or_path: &str) -> Result<Run, StoreError> {
        let mut candidates = Vec::new();
        if id::check(id_or_path).is_ok() {
            candidates.push(self.path.join(id_or_path));
        }
        if !id_or_path.is_empty() {
            candidates.push(PathBuf::from(id_or_path));
        }
        match candidates.into_iter().find(|dir| dir.is_dir()) {
            Some(dir) => Run::open(Folder::open(&dir)?),
            None => Err(StoreError::NoRun {
                what: id_or_path.to_owned(),
                root: self.path.clone(),
            }),
        }
    }

    /// All runs under the root as [`Root::names`] has them, each with what its files say, which
    /// takes a look at every line. One that cannot be read is listed with its error.
    ///
    /// # Errors
    /// What the system refused when the root was listed.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let summary = |id: String| {
            let folder = Folder::open(&self.path.join(&id));
            let facts = folder.and_then(|folder| facts(&folder));
            RunSummary { id, facts }
        };
        Ok(self.names()?.into_iter().map(summary).collect())
    }

    /// The names of all runs under the root, in their order, which is that of their starts. None
    /// is opened. A root that is missing has none.
    ///
    /// # Errors
    /// What the system refused when the root was listed.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let fail = |why| StoreError::io("list", &self.path, why);
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(fail(why)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fail)?;
            let id = entry.file_name().to_string_lossy().into_owned();
            let looks_like_a_run = entry.path().is_dir() && !id.starts_with('.');
            if looks_like_a_run {
                names.push(id);
            }
        }
        names.sort_by_key(|name| natural(name));
        Ok(names)
    }

    /// Removes the temporary files that killed processes left in the directories of runs, and
    /// says which. Those of a process that is still writing stay.
    pub fn remove_leftovers(&self) -> Vec<PathBuf> {
        let Ok(root) = Folder::open(&self.path) else {
            return Vec::new();
        };
        let names = root.names().unwrap_or_default();
        let folders = names.iter().filter_map(|name| root.folder(name).ok());
        folders.flat_map(|folder| folder.sweep()).collect()
    }
}

/// Sorts `x`, `x-2`, `x-10` as they were made.
fn natural(id: &str) -> (String, u32) {
    match id.rsplit_once('-') {
        Some((base, twin)) if !twin.starts_with('0') && twin.len() < 5 => match twin.parse() {
            Ok(n) => (base.to_owned(), n),
            Err(_) => (id.to_owned(), 0),
        },
        _ => (id.to_owned(), 0),
    }
}

fn facts(dir: &Folder) -> Result<RunProgress, StoreError> {
    let manifest = run::read_manifest(dir)?;
    let records = run::count(dir)?.unwrap_or(0);
    let state = if run::is_locked(dir) {
        State::Running
    } else if let Some(why) = run::damage(dir)? {
        State::Damaged(why)
    } else {
        match run::read_ending(dir)? {
            Some(ending) => ending.early.map_or(State::Complete, State::EndedEarly),
            None => State::Killed,
        }
    };
    Ok(RunProgress {
        started: manifest.started,
        study: manifest.study.name,
        records,
        state,
    })
}

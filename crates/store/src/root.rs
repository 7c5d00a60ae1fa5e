//! The directory under which runs live.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytecost_spec::{Manifest, RunProgress};

use crate::error::StoreError;
use crate::folder::{Folder, check_id};
use crate::run::Run;

/// The file that makes a directory that of a profile.
const PROFILE: &str = "profile.json";
/// How many runs may start in the same second.
const MOST_TWINS: u32 = 1000;

/// The directory under which runs live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
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
    /// [`StoreError::Exists`], [`StoreError::BadId`].
    pub fn create(&self, manifest: &Manifest) -> Result<Run, StoreError> {
        check_id(&manifest.id)?;
        Run::create(&Folder::make(&self.path)?, manifest)
    }

    /// The same for a run that has no name yet: it is of its start to the second and its study,
    /// `20261121-141503-send-copies`, so that names sort by time, with `-2`, `-3` … behind it where
    /// that is taken.
    pub fn create_fresh(&self, mut manifest: Manifest) -> Result<Run, StoreError> {
        let base = fresh_name(&manifest.started, &manifest.study.name);
        manifest.id.clone_from(&base);
        for twin in 2..=MOST_TWINS {
            match self.create(&manifest) {
                Err(StoreError::Exists(_)) => manifest.id = format!("{base}-{twin}"),
                other => return other,
            }
        }
        self.create(&manifest)
    }

    /// Makes a directory for a profile, named as [`Root::create_fresh`] names runs, and writes its
    /// files.
    pub fn keep_profile(
        &self,
        started: &str,
        files: &[(&str, &[u8])],
    ) -> Result<PathBuf, StoreError> {
        let root = Folder::make(&self.path)?;
        let base = fresh_name(started, "profile");
        for twin in 1..=MOST_TWINS {
            let name = if twin == 1 {
                base.clone()
            } else {
                format!("{base}-{twin}")
            };
            match root.make_folder(&name) {
                Err(StoreError::Exists(_)) => {}
                folder => {
                    let folder = folder?;
                    for (name, bytes) in files {
                        folder.write(name, bytes)?;
                    }
                    return Ok(folder.path().to_owned());
                }
            }
        }
        Err(StoreError::Exists(self.path.join(base)))
    }

    /// The text of a profile by its name under the root, or by the path of its directory or file; none
    /// where there is no profile of that name.
    pub fn profile(&self, id_or_path: &str) -> Result<Option<String>, StoreError> {
        let path = Path::new(id_or_path);
        let mut candidates = [
            self.path.join(id_or_path).join(PROFILE),
            path.join(PROFILE),
            path.to_owned(),
        ]
        .into_iter()
        .filter(|file| file.file_name().is_some_and(|name| name == PROFILE));
        match candidates.find(|file| file.is_file()) {
            Some(file) => {
                let text = fs::read_to_string(&file);
                text.map(Some)
                    .map_err(|why| StoreError::io("read", &file, why))
            }
            None => Ok(None),
        }
    }

    /// Opens a run by its name under the root, or by the path of its directory.
    ///
    /// # Errors
    /// [`StoreError::NoRun`], `NoManifest`, `OtherFormat` or `BadId`.
    pub fn open(&self, id_or_path: &str) -> Result<Run, StoreError> {
        Run::open(self.folder(id_or_path)?)
    }

    /// The same for who continues the run: root reads nothing of a directory that others can change.
    ///
    /// # Errors
    /// Those of [`Root::open`], and [`StoreError::OfAnother`].
    pub fn open_to_change(&self, id_or_path: &str) -> Result<Run, StoreError> {
        let folder = self.folder(id_or_path)?;
        folder.check_owner()?;
        Run::open(folder)
    }

    fn folder(&self, id_or_path: &str) -> Result<Folder, StoreError> {
        let is_id = check_id(id_or_path).is_ok();
        let by_id = is_id.then(|| self.path.join(id_or_path));
        let mut candidates = by_id.into_iter().chain([PathBuf::from(id_or_path)]);
        match candidates.find(|dir| dir.is_dir()) {
            Some(dir) => Folder::open(&dir),
            None => Err(StoreError::NoRun(id_or_path.to_owned(), self.path.clone())),
        }
    }

    /// All runs under the root as [`Root::names`] has them, each with what its files say, which
    /// takes a look at every line, or why it cannot be read.
    pub fn runs(&self) -> Result<Vec<RunProgress>, StoreError> {
        let progress = |id: String| {
            let run = Folder::open(&self.path.join(&id)).and_then(Run::open);
            let found = run.and_then(|run| progress(&id, &run));
            found.unwrap_or_else(|why| RunProgress {
                id,
                state: format!("unreadable: {why}"),
                ..RunProgress::default()
            })
        };
        Ok(self.names()?.into_iter().map(progress).collect())
    }

    /// The names of all runs under the root, in their order, which is that of their starts; profiles
    /// are none. None is opened. A root that is missing has none.
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
            let path = entry.path();
            if path.is_dir() && !id.starts_with('.') && !path.join(PROFILE).is_file() {
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

/// `20261121-141503-send-copies` of a start in RFC 3339 and what was measured.
fn fresh_name(started: &str, measured: &str) -> String {
    let digits = started.chars().filter(char::is_ascii_digit);
    let digits: String = digits.take(14).collect();
    let (date, time) = digits.split_at_checked(8).unwrap_or_default();
    format!("{date}-{time}-{measured}")
}

/// Sorts `x`, `x-2`, `x-10` as they were made.
fn natural(id: &str) -> (String, u32) {
    let is_twin = |(_, twin): &(&str, &str)| !twin.starts_with('0') && twin.len() < 5;
    let twin = id.rsplit_once('-').filter(is_twin);
    let twin = twin.and_then(|(base, twin)| Some((base.to_owned(), twin.parse().ok()?)));
    twin.unwrap_or_else(|| (id.to_owned(), 0))
}

fn progress(id: &str, run: &Run) -> Result<RunProgress, StoreError> {
    let state = if run.is_locked() {
        "running".to_owned()
    } else if let Some(why) = run.damage()? {
        format!("damaged: {why}; --resume measures them again")
    } else {
        match run.ending()?.map(|ending| ending.early) {
            Some(None) => "complete".to_owned(),
            Some(Some(why)) => format!("ended early: {why}"),
            None => "killed; --resume continues it".to_owned(),
        }
    };
    Ok(RunProgress {
        id: id.to_owned(),
        started: run.manifest().started.clone(),
        study: run.manifest().study.name.clone(),
        records: run.count()?.unwrap_or(0),
        state,
    })
}

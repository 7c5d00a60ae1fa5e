//! The directory of all runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytecost_spec::{Manifest, RunProgress};

use crate::error::StoreError;
use crate::folder::{Folder, check_id};
use crate::run::Run;

/// Name of the file by which a directory is that of a profile.
const PROFILE: &str = "profile.json";
/// The most runs with the same study that start in the same second.
const MOST_TWINS: u32 = 1000;

/// The directory of all runs, `bytecost-runs` by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// The root at that path, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Root {
        Root { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory of a new run, named by its manifest, with an empty log, and locks it. After an
    /// error nothing is left of it.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::BadId`].
    pub fn create(&self, manifest: &Manifest) -> Result<Run, StoreError> {
        check_id(&manifest.id)?;
        Run::create(&Folder::make(&self.path)?, manifest)
    }

    /// Creates the directory of a new run, and names it for the second of its start and its study:
    /// `20261121-141503-send-copies`, so that names sort by time. `-2`, `-3` … follow if the name is
    /// taken.
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

    /// Creates a directory for a profile, named as by [`Root::create_fresh`], and writes its files.
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
                    for (file, bytes) in files {
                        folder.write(file, bytes)?;
                    }
                    return Ok(folder.path().to_owned());
                }
            }
        }
        Err(StoreError::Exists(self.path.join(base)))
    }

    /// The text of a profile by its name below the root, or by the path of its directory or file; none if
    /// there is no such profile.
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
            Some(file) => fs::read_to_string(&file)
                .map(Some)
                .map_err(|why| StoreError::io("read", &file, why)),

            None => Ok(None),
        }
    }

    /// Opens a run by its name below the root, or by the path of its directory.
    ///
    /// # Errors
    /// [`StoreError::NoRun`], `NoManifest`, `OtherFormat` or `BadId`.
    pub fn open(&self, id_or_path: &str) -> Result<Run, StoreError> {
        Run::open(self.folder(id_or_path)?)
    }

    /// Opens a run to continue it: root does not read a directory that another user can change.
    ///
    /// # Errors
    /// Those of [`Root::open`], and [`StoreError::OfAnother`].
    pub fn open_to_change(&self, id_or_path: &str) -> Result<Run, StoreError> {
        let folder = self.folder(id_or_path)?;
        folder.check_owner()?;
        Run::open(folder)
    }

    fn folder(&self, id_or_path: &str) -> Result<Folder, StoreError> {
        let by_id = (check_id(id_or_path).is_ok()).then(|| self.path.join(id_or_path));
        let mut candidates = by_id.into_iter().chain([PathBuf::from(id_or_path)]);
        match candidates.find(|dir| dir.is_dir()) {
            Some(dir) => Folder::open(&dir),
            None => Err(StoreError::NoRun(id_or_path.to_owned(), self.path.clone())),
        }
    }

    /// The progress of all runs below the root, in the order of [`Root::names`], or why a run cannot be read.
    /// Reads each log to count its lines.
    pub fn runs(&self) -> Result<Vec<RunProgress>, StoreError> {
        let progress = |id: String| {
            (Folder::open(&self.path.join(&id)).and_then(Run::open))
                .and_then(|run| progress(&id, &run))
                .unwrap_or_else(|why| RunProgress {
                    id,
                    state: format!("unreadable: {why}"),
                    ..RunProgress::default()
                })
        };
        Ok(self.names()?.into_iter().map(progress).collect())
    }

    /// The names of all runs below the root, in the order of their starts, without profiles. No run is
    /// opened. A missing root has none.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        self.folders(|path| !path.join(PROFILE).is_file())
    }

    /// The names of all profiles below the root, in the order of their starts.
    pub fn profiles(&self) -> Result<Vec<String>, StoreError> {
        self.folders(|path| path.join(PROFILE).is_file())
    }

    fn folders(&self, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<String>, StoreError> {
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
            if path.is_dir() && !id.starts_with('.') && is_wanted(&path) {
                names.push(id);
            }
        }
        names.sort_by_key(|name| natural(name));
        Ok(names)
    }

    /// Removes the temporary files of killed processes in the directories of runs, and returns their paths.
    /// Those of a process that is still writing stay.
    pub fn remove_leftovers(&self) -> Vec<PathBuf> {
        let Ok(root) = Folder::open(&self.path) else {
            return Vec::new();
        };
        let names = root.names().unwrap_or_default();
        (names.iter().filter_map(|name| root.folder(name).ok()))
            .flat_map(|folder| folder.sweep())
            .collect()
    }
}

/// The name of a new run: `20261121-141503-send-copies` for a start in RFC 3339 and a study.
fn fresh_name(started: &str, study: &str) -> String {
    let digits: String = (started.chars().filter(char::is_ascii_digit))
        .take(14)
        .collect();
    let (date, time) = digits.split_at_checked(8).unwrap_or_default();
    format!("{date}-{time}-{study}")
}

/// The sort key by which `x`, `x-2` and `x-10` are in the order in which they were created.
fn natural(id: &str) -> (String, u32) {
    (id.rsplit_once('-'))
        .filter(|(_, number)| !number.starts_with('0') && number.len() < 5)
        .and_then(|(base, number)| Some((base.to_owned(), number.parse().ok()?)))
        .unwrap_or_else(|| (id.to_owned(), 0))
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

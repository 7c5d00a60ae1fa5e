//! Movers of files that work here, found by trials, not by reading a version.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover, Route, file};
use bytecost_spec::survey::{FileSupport, FileSurvey};
use bytecost_spec::{Cache, Cell, Ring};

use crate::file_task::FileTask;
use crate::files::{self, Files};
use crate::helpers::Helpers;
use crate::local_host::LocalHost;
use crate::short_trials::{ShortTrials, Surveyor};
use crate::side_by_side;

/// A request that every file system takes past the page cache, where it takes any.
const SIZE_BYTES: u64 = 4 << 10;
/// The mover whose file shows if files become cold here.
const PLAIN: &str = "pread";
/// The longest time until a file is cold where any is.
const COOLING: Duration = Duration::from_millis(300);

/// Tries every mover of files in every state of the page cache by a trial with checked requests; an
/// error is one of the directory or the user's file.
pub fn survey(surveyor: &Surveyor<'_>, files: &mut Files) -> io::Result<FileSurvey> {
    let dir = files.dir().to_owned();
    let user = files.user().map(|path| path.to_owned());
    let user_file_bytes = user.as_deref().map(user_bytes).transpose()?;
    let at = user.as_deref().unwrap_or(&dir);
    let mut found = FileSurvey {
        dir: dir.display().to_string(),
        file_system: file::file_system(at)?,
        device: rustix::fs::stat(at).ok().map(|s| s.st_dev),
        free_bytes: file::free_bytes(&dir)?,
        user_file: user.as_ref().map(|path| path.display().to_string()),
        user_file_bytes,
        ..FileSurvey::default()
    };
    let cold = cell(Cache::Cold, PLAIN, user_file_bytes);
    let of_disk = match user {
        Some(path) => FileTask {
            path,
            own: false,
            target: None,
        },
        None => files.prepare(&cold)?.ok_or(io::ErrorKind::NotFound)?,
    };
    found.direct_bytes = file::direct_bytes(&of_disk.path);
    let requests = FileRequests {
        surveyor,
        user_file_bytes,
        not_cold: not_cold_reason(&cold, &of_disk),
    };
    // Each state has files of its own, since another would undo it.
    let of_state = |cache: &Cache| requests.rows(files.others(), *cache, None);
    found.movers = side_by_side::each(Cache::ALL, of_state).concat();
    Ok(found)
}

/// Tries the movers that [`survey()`] leaves out, those that have another program do their work.
pub fn helped(surveyor: &Surveyor<'_>, files: &Files, helpers: &Helpers) -> Vec<FileSupport> {
    let user_file_bytes = files.user().and_then(|path| user_bytes(path).ok());
    let cold = cell(Cache::Cold, PLAIN, user_file_bytes);
    let mut others = files.others();
    let task = others.prepare(&cold).ok().flatten();
    let requests = FileRequests {
        surveyor,
        user_file_bytes,
        not_cold: task.and_then(|task| not_cold_reason(&cold, &task)),
    };
    let of_state = |cache: &Cache| requests.rows(files.others(), *cache, Some(helpers));
    Cache::ALL.iter().flat_map(of_state).collect()
}

/// The reason why a file stays in the page cache that is to be cold; none if it becomes cold, or cannot be
/// opened.
fn not_cold_reason(cell: &Cell, task: &FileTask) -> Option<String> {
    let plain = Mover::named(&cell.mover)?;
    let work = files::open(cell, plain, task, 0).ok()?;
    let cooled = files::prepare_pages(cell, &work, COOLING);
    cooled.err().map(|e| e.to_string())
}

/// The requests by which movers of files are tried.
struct FileRequests<'s> {
    surveyor: &'s Surveyor<'s>,
    /// The length of the user's file, where there is one.
    user_file_bytes: Option<u64>,
    /// The reason why no file becomes cold here, whichever mover it is for.
    not_cold: Option<String>,
}

impl FileRequests<'_> {
    /// Tries the movers in a state of the page cache: with helpers those that need them, else the others.
    fn rows(&self, files: Files, cache: Cache, helpers: Option<&Helpers>) -> Vec<FileSupport> {
        let java = helpers.map(|helpers| helpers.java.as_ref()).transpose();
        let mut trials = self.surveyor.series(LocalHost {
            files,
            compiled: java.ok().flatten().cloned(),
            ..LocalHost::default()
        });
        let tried = |m: &&Mover| is_tried(m, cache) && m.is_helped() == helpers.is_some();
        let row = |mover: &Mover| FileSupport {
            name: mover.name.to_owned(),
            cache,
            refused: match java {
                Err(why) => Some(why.clone()),
                Ok(_) => self.refused(&mut trials, mover, cache),
            },
        };
        MOVERS.iter().filter(tried).map(row).collect()
    }

    fn refused(&self, trials: &mut ShortTrials<'_>, mover: &Mover, cache: Cache) -> Option<String> {
        let cell = cell(cache, mover.name, self.user_file_bytes);
        if let (Cache::Cold, Some(why)) = (cache, &self.not_cold) {
            let unprepared = trials.bed.local.files.prepare(&cell).err();
            return Some(unprepared.map_or_else(|| why.clone(), |e| e.to_string()));
        }
        trials.attempt(&cell).err()
    }
}

/// Returns true if a mover is tried in a state of the page cache. One that sends is tried with the
/// transports too, and cannot bypass the page cache.
fn is_tried(mover: &Mover, cache: Cache) -> bool {
    let sends = mover.route == Route::FileToSocket && matches!(cache, Cache::Warm | Cache::Cold);
    mover.route.is_of_files() || sends
}

/// The length of a user's file in bytes; an error has its name.
pub fn user_bytes(path: &Path) -> io::Result<u64> {
    let opened = file::open(path, file::Opening::default())?;
    let bytes = file::len(&opened)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    if bytes == 0 {
        let why = format!(
            "{}: the file is empty, there is nothing to read",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(bytes)
}

/// The cell of a mover's trial. A user's file is read in one piece, however short it is.
fn cell(cache: Cache, mover: &str, user_file_bytes: Option<u64>) -> Cell {
    Cell {
        cache,
        congestion: "default".to_owned(),
        mover: mover.to_owned(),
        size_bytes: user_file_bytes.map_or(SIZE_BYTES, |bytes| bytes.min(SIZE_BYTES)),
        ring: user_file_bytes.map_or(Ring::Bytes(4 * SIZE_BYTES), |_| Ring::Message),
        depth: 2,
        ..Cell::default()
    }
}

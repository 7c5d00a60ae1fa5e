//! The files of a run: made once, by the coordinator, and opened anew by each endpoint.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytecost_engine::file::{self, Opening, TestFile};
use bytecost_engine::{BlockOrder, FileWork, Mover, Route};
use bytecost_spec::{Cache, Cell};

use crate::file_task::FileTask;
use crate::page_cache;

/// The longest time of a call on a file without progress: a busy disk is slow to sync.
pub(crate) const DISK_TIMEOUT: Duration = Duration::from_secs(60);

/// The use of a file. One that is to stay in the page cache is never dropped, and none that is read is
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    is_on_disk: bool,
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Cached,
    Dropped,
    Written,
    /// The second file of a cell that has two.
    Target,
}

impl Kind {
    fn source(cell: &Cell, route: Route) -> Kind {
        let purpose = match (cell.cache, route) {
            (_, Route::MemoryToFile) => Purpose::Written,
            (Cache::Memory | Cache::Warm, _) => Purpose::Cached,
            (Cache::Cold | Cache::Direct, _) => Purpose::Dropped,
        };
        Kind {
            is_on_disk: cell.cache != Cache::Memory,
            purpose,
        }
    }

    fn target(cell: &Cell, route: Route) -> Option<Kind> {
        (route == Route::FileToFile).then_some(Kind {
            is_on_disk: cell.cache != Cache::Memory,
            purpose: Purpose::Target,
        })
    }
}

/// The files of a run. They have no names, so that they are gone with this or its process.
#[derive(Debug)]
pub struct Files {
    dir: PathBuf,
    user: Option<PathBuf>,
    made: BTreeMap<Kind, TestFile>,
}

impl Default for Files {
    fn default() -> Files {
        Files::new(std::env::temp_dir(), None)
    }
}

impl Files {
    /// Files in a directory, made when they are needed; with `user`, that user's file is read.
    pub fn new(dir: PathBuf, user: Option<PathBuf>) -> Files {
        Files {
            dir,
            user,
            made: BTreeMap::new(),
        }
    }

    /// New files of the same directory and user, none of them made yet.
    pub(crate) fn others(&self) -> Files {
        Files::new(self.dir.clone(), self.user.clone())
    }

    /// The directory of bytecost's own files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file of the user's.
    pub fn user(&self) -> Option<&Path> {
        self.user.as_deref()
    }

    /// Checks that the disk has room for the files of these cells, statvfs(3), before any is made. Else
    /// `StorageFull` with the needed and the free bytes.
    pub fn check_room<'c>(&self, cells: impl IntoIterator<Item = &'c Cell>) -> io::Result<()> {
        let mut most: BTreeMap<Kind, u64> = BTreeMap::new();
        for cell in cells {
            let Some(route) = route(cell) else { continue };
            let source =
                (self.user.is_none() || !route.reads_a_file()).then(|| Kind::source(cell, route));
            let kinds = source.into_iter().chain(Kind::target(cell, route));
            for kind in kinds.filter(|kind| kind.is_on_disk) {
                let len = most.entry(kind).or_default();
                *len = (*len).max(len_bytes(cell, route));
            }
        }
        let has = |kind| self.made.get(kind).map_or(0, TestFile::len);
        let needed = most.iter().map(|(kind, len)| len.saturating_sub(has(kind)));
        match needed.sum() {
            0 => Ok(()),
            needed => file::has_room(&self.dir, needed),
        }
    }

    /// The file of a cell's trials, as long as it needs; none for a cell without. A user's is not
    /// written to.
    pub fn prepare(&mut self, cell: &Cell) -> io::Result<Option<FileTask>> {
        let Some(route) = route(cell) else {
            return Ok(None);
        };
        if self.user.is_some() {
            if !route.reads_a_file() {
                return Err(refused("a file given with --file is never written to"));
            }
            if cell.cache == Cache::Memory {
                return Err(refused(
                    "a file given with --file is not a memory file: choose --cache warm, cold or direct",
                ));
            }
        }
        let mut target = None;
        if let Some(kind) = Kind::target(cell, route) {
            let file = self.file(kind)?;
            file.reserve(len_bytes(cell, route))?;
            target = Some(file.path());
        }
        let (path, own) = match &self.user {
            Some(path) => (path.clone(), false),
            None => {
                let file = self.file(Kind::source(cell, route))?;
                file.grow(len_bytes(cell, route))?;
                (file.path(), true)
            }
        };
        Ok(Some(FileTask { path, own, target }))
    }

    /// One of bytecost's own files, empty where it was not there yet.
    fn file(&mut self, kind: Kind) -> io::Result<&mut TestFile> {
        Ok(match self.made.entry(kind) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => free.insert(if kind.is_on_disk {
                TestFile::in_dir(&self.dir)?
            } else {
                TestFile::in_memory()?
            }),
        })
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn route(cell: &Cell) -> Option<Route> {
    let route = Mover::named(&cell.mover)?.route;
    (route.is_of_files() || route == Route::FileToSocket).then_some(route)
}

/// Requests or messages of one pass of a flow, which repeats a ring of its own.
fn slots(cell: &Cell, route: Route) -> u64 {
    match route {
        Route::FileToSocket => cell.ring_slots(),
        _ => cell.file_slots(),
    }
}

/// The offset and the length of one flow's part of the file, in bytes.
pub fn part(cell: &Cell, mover: &Mover, flow: u32) -> (u64, u64) {
    let start = u64::from(flow) * stride_bytes(cell, mover.route);
    (start, slots(cell, mover.route) * cell.size_bytes)
}

/// The distance between two flows' parts, in bytes. Where one part is dropped from the cache, no folio and
/// no read-ahead lies in two.
fn stride_bytes(cell: &Cell, route: Route) -> u64 {
    let part = slots(cell, route) * cell.size_bytes;
    if cell.cache == Cache::Cold && cell.threads > 1 {
        part.next_multiple_of(file::FOLIO_MOST) + file::FOLIO_MOST
    } else {
        part
    }
}

/// Bytes of the file that all flows of a cell go through.
fn len_bytes(cell: &Cell, route: Route) -> u64 {
    let before = stride_bytes(cell, route) * u64::from(cell.threads.saturating_sub(1));
    before + slots(cell, route) * cell.size_bytes
}

/// Opens one flow's part of the file as the cell asks, open(2), unless the file is too short.
pub fn open(cell: &Cell, mover: &Mover, task: &FileTask, flow: u32) -> io::Result<FileWork> {
    let how = Opening {
        write: mover.route == Route::MemoryToFile,
        direct: cell.cache == Cache::Direct,
    };
    let file = file::open(&task.path, how)?;
    let blocks = slots(cell, mover.route);
    let (has, needs) = (file::len(&file)?, len_bytes(cell, mover.route));
    if blocks == 0 || has < needs {
        return Err(refused(&format!(
            "the file has {has} bytes, which is too short: {} flows of {} bytes a request go through {}; choose a smaller --ring, --size or --threads",
            cell.threads, cell.size_bytes, cell.ring
        )));
    }
    let target = (task.target.as_ref())
        .map(|at| file::open(at, Opening { write: true, ..how }))
        .transpose()?;
    let (start, seed) = (part(cell, mover, flow).0, 0x5bd1_e995 + u64::from(flow));
    Ok(FileWork {
        file,
        order: BlockOrder::new(cell.access, start, blocks, cell.size_bytes, seed),
        depth: cell.depth as usize,
        block: usize::try_from(cell.block_bytes).map_err(|_| io::ErrorKind::InvalidInput)?,
        target,
    })
}

/// Brings the flow's part of the file into the cache state of the cell, and blanks a second file. Waits
/// at most `timeout` for sockets of earlier trials that hold pages of a file that is to be cold.
pub fn prepare_pages(cell: &Cell, work: &FileWork, timeout: Duration) -> io::Result<()> {
    let (offset, len) = work.order.part();
    if let Some(target) = &work.target {
        file::blank(target, offset, len)?;
    }
    match cell.cache {
        Cache::Warm => file::warm(&work.file, offset, len),
        Cache::Cold => page_cache::cool(&work.file, offset, len, timeout),
        Cache::Memory | Cache::Direct => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::Axis;

    fn cell(values: &[(Axis, &str)]) -> Cell {
        Cell::default().with(values).unwrap()
    }

    fn reading(cache: &str, ring: &str, threads: &str) -> Cell {
        cell(&[
            (Axis::Mover, "pread"),
            (Axis::Size, "4KiB"),
            (Axis::Cache, cache),
            (Axis::Ring, ring),
            (Axis::Threads, threads),
        ])
    }

    #[test]
    fn flows_have_parts_of_their_own_and_cold_ones_share_no_folio() {
        let pread = Mover::named("pread").unwrap();
        for cache in ["warm", "direct", "cold"] {
            let cell = reading(cache, "192KiB", "3");
            let parts: Vec<_> = (0..cell.threads)
                .map(|flow| part(&cell, pread, flow))
                .collect();
            assert!(parts.iter().all(|(_, len)| *len == 64 << 10), "{parts:?}");
            for pair in parts.windows(2) {
                let [(start, len), (next, _)] = pair else {
                    panic!("{pair:?}")
                };
                assert!(start + len <= *next, "{cache}: {parts:?}");
                let last_folio = (start + len - 1) / file::FOLIO_MOST;
                let are_apart = last_folio < next / file::FOLIO_MOST;
                assert_eq!(are_apart, cache == "cold", "{cache}: {parts:?}");
            }
        }
    }

    #[test]
    fn a_file_is_made_once_for_a_purpose_and_grows() {
        let mut files = Files::default();
        let mut len_of = |cell: &Cell| {
            let task = files.prepare(cell).unwrap().unwrap();
            let opened = file::open(&task.path, Opening::default()).unwrap();
            (task.path, file::len(&opened).unwrap())
        };
        let (memory, made_bytes) = len_of(&reading("memory", "64KiB", "1"));
        assert_eq!(made_bytes, 64 << 10);
        let (grown, grown_bytes) = len_of(&reading("memory", "128KiB", "2"));
        assert_eq!((&grown, grown_bytes), (&memory, 128 << 10));
        let (kept, kept_bytes) = len_of(&reading("memory", "64KiB", "1"));
        assert_eq!(
            (&kept, kept_bytes),
            (&memory, 128 << 10),
            "it does not shrink"
        );
        let (warm, _) = len_of(&reading("warm", "64KiB", "1"));
        let (cold, _) = len_of(&reading("cold", "64KiB", "1"));
        let (written, _) = len_of(&cell(&[
            (Axis::Mover, "pwrite"),
            (Axis::Cache, "warm"),
            (Axis::Ring, "64KiB"),
            (Axis::Size, "4KiB"),
        ]));
        let paths = [&memory, &warm, &cold, &written];
        let unique: std::collections::BTreeSet<_> = paths.iter().collect();
        assert_eq!(unique.len(), paths.len(), "what is read is not written");
        assert_eq!(files.prepare(&Cell::default()).unwrap(), None);
    }

    #[test]
    fn room_is_asked_for_what_is_not_there_yet_on_the_disk_alone() {
        let files = Files::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")), None);
        let free = file::free_bytes(files.dir()).unwrap();
        // Each flow sends 4 GiB.
        let flows = u32::try_from((free >> 32) + 2).unwrap();
        let sending = |cache| Cell {
            threads: flows,
            ..cell(&[
                (Axis::Mover, "sendfile"),
                (Axis::Cache, cache),
                (Axis::Size, "4KiB"),
                (Axis::Ring, "4GiB"),
            ])
        };
        let refused = files.check_room(&[sending("warm")]);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
        for cell in [
            sending("memory"),
            reading("warm", "64KiB", "1"),
            Cell::default(),
        ] {
            files.check_room(&[cell]).unwrap();
        }
        let dir = files.dir().to_owned();
        let of_user = Files::new(dir.clone(), Some(dir.join("Cargo.toml")));
        of_user.check_room(&[sending("warm")]).unwrap();
    }

    #[test]
    fn a_file_that_is_shorter_than_its_flows_need_is_refused_with_the_remedy() {
        let mut files = Files::default();
        let short = reading("memory", "64KiB", "1");
        let task = files.prepare(&short).unwrap().unwrap();
        let pread = Mover::named("pread").unwrap();
        open(&short, pread, &task, 0).unwrap();
        let why = open(&reading("memory", "128KiB", "1"), pread, &task, 0).unwrap_err();
        let why = why.to_string();
        assert!(
            why.contains("65536 bytes") && why.contains("--ring"),
            "{why}"
        );
    }
}

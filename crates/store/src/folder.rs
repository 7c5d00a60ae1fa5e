//! A directory by its descriptor, with files that are written atomically: complete, or not at all.
//!
//! Files are created and opened in that very directory even if its path changes meanwhile, and no
//! link in it is followed. Root writes to no directory of another user; under sudo, what root creates
//! belongs to the user who called it (sudo(8), SUDO_UID and SUDO_GID).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, fchown, flock,
    fstat, fsync, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::error::StoreError;

const ATTEMPTS: u32 = 16;
const SUFFIX: &str = ".tmp";
const MOST_ID_BYTES: usize = 128;

/// An open directory: all files of runs are created, read and replaced through one.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens the directory at a path; only the path itself may be a link.
    pub fn open(path: &Path) -> Result<Folder, StoreError> {
        Folder::open_at(CWD, path, path.to_owned(), OFlags::empty())
    }

    /// Opens the directory at a path, and creates it with all its parents if it does not exist.
    pub fn make(path: &Path) -> Result<Folder, StoreError> {
        if !path.is_dir()
            && let (Some(parent), Some(name)) = (path.parent(), path.file_name())
        {
            let above = if parent.as_os_str().is_empty() {
                Folder::open_at(CWD, Path::new("."), path.to_owned(), OFlags::empty())?
            } else {
                Folder::make(parent)?
            };
            return above.make_in(name, path, 0o777, OFlags::empty());
        }
        Folder::open(path)
    }

    /// Opens or creates a directory for its user, or for the caller of sudo, alone; parents that are
    /// created are private too. [`StoreError::OfAnother`] if another user owns an existing one.
    pub(crate) fn make_private(path: &Path) -> Result<Folder, StoreError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Folder::open(path);
        };
        let above = if parent.is_dir() {
            Folder::open(parent)?
        } else {
            Folder::make_private(parent)?
        };
        above.check_owner()?;
        let folder = above.make_in(name, path, 0o700, OFlags::NOFOLLOW)?;
        folder.refuse_unless(is_own)?;
        Ok(folder)
    }

    /// Opens a directory that the user or the caller of sudo owns; none if it does not exist. A link is
    /// refused, and [`StoreError::OfAnother`] is the error for another owner.
    pub(crate) fn open_own(path: &Path) -> Result<Option<Folder>, StoreError> {
        match Folder::open_at(CWD, path, path.to_owned(), OFlags::NOFOLLOW) {
            Ok(folder) => {
                folder.refuse_unless(is_own)?;
                Ok(Some(folder))
            }
            Err(StoreError::Io { why, .. }) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Opens a directory in this one, and creates it if it does not exist.
    fn make_in(
        &self,
        name: &OsStr,
        path: &Path,
        mode: u32,
        flags: OFlags,
    ) -> Result<Folder, StoreError> {
        let made = mkdirat(&self.fd, name, Mode::from(mode));
        // Another process may have created it meanwhile.
        if made != Err(Errno::EXIST) {
            made.map_err(|why| StoreError::io("create", path, why))?;
        }
        let folder = Folder::open_at(self.fd.as_fd(), name, path.to_owned(), flags)?;
        if made.is_ok() {
            give_to_caller(&folder.fd).map_err(|why| StoreError::io("create", path, why))?;
        }
        Ok(folder)
    }

    fn open_at(
        dir: BorrowedFd<'_>,
        name: impl AsRef<Path>,
        path: PathBuf,
        flags: OFlags,
    ) -> Result<Folder, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | flags;
        match openat(dir, name.as_ref(), flags, Mode::empty()) {
            Ok(fd) => Ok(Folder { fd, path }),
            Err(why) => Err(StoreError::io("open", &path, why)),
        }
    }

    /// Opens a directory in this one; a link is refused.
    pub(crate) fn folder(&self, name: &str) -> Result<Folder, StoreError> {
        let path = self.path.join(name);
        Folder::open_at(self.fd.as_fd(), name, path, OFlags::NOFOLLOW)
    }

    /// Creates a directory in this one; [`StoreError::Exists`] if the name is taken.
    pub(crate) fn make_folder(&self, name: &str) -> Result<Folder, StoreError> {
        self.check_owner()?;
        let path = self.path.join(name);
        mkdirat(&self.fd, name, Mode::from(0o777)).map_err(|why| match why {
            Errno::EXIST => StoreError::Exists(path.clone()),
            _ => StoreError::io("create", &path, why),
        })?;
        let folder = self.folder(name)?;
        give_to_caller(&folder.fd).map_err(|why| StoreError::io("create", &path, why))?;
        Ok(folder)
    }

    /// Its path when it was opened, for messages and for readers.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// User id of its owner; none if the kernel does not report it.
    pub(crate) fn owner(&self) -> Option<u32> {
        fstat(&self.fd).ok().map(|stat| stat.st_uid)
    }

    /// Refuses, for root, a directory in which another user can change what root writes.
    pub(crate) fn check_owner(&self) -> Result<(), StoreError> {
        let caller = caller().map(|(uid, _)| uid);
        self.refuse_unless(|stat| is_trusted(stat, rustix::process::geteuid(), caller))
    }

    fn refuse_unless(&self, is_allowed: impl Fn(&Stat) -> bool) -> Result<(), StoreError> {
        let stat = fstat(&self.fd).map_err(|why| StoreError::io("look at", &self.path, why))?;
        if is_allowed(&stat) {
            Ok(())
        } else {
            Err(StoreError::OfAnother(self.path.clone(), stat.st_uid))
        }
    }

    /// Writes a file atomically: to a temporary file in the same directory, to the disk, then renamed.
    /// After an error an earlier file of that name is unchanged, and nothing new is left.
    ///
    /// Temporary files of killed writers are removed at the same time. A writer locks its own
    /// (flock(2)) until it ends, so that the file of a living one is never removed.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_owner()?;
        let path = self.path.join(name);
        let fail = |why| StoreError::io("write", &path, why);
        self.sweep();
        let (mut file, temporary) = self.temporary(name).map_err(fail)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(renameat(&self.fd, &*temporary, &self.fd, name)?))
            .and_then(|()| self.sync());
        written.map_err(|why| {
            let _ = unlinkat(&self.fd, &*temporary, AtFlags::empty());
            fail(why)
        })
    }

    /// Returns true for a name that [`Folder::write_through`] must write to: a device, a pipe, or a link
    /// that may be followed. Root follows links that root made.
    pub fn leads_through(&self, name: &OsStr) -> bool {
        let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => is_followed(&stat, rustix::process::geteuid()),
            kind => kind != FileType::RegularFile,
        })
    }

    /// Writes to an existing file, device or pipe in place. It is checked when it is already open: root
    /// does not write to a file of another user that has replaced it meanwhile.
    pub fn write_through(&self, name: &OsStr, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_owner()?;
        let path = self.path.join(name);
        let fail = |why: io::Error| StoreError::io("write", &path, why);
        let user = rustix::process::geteuid();
        // Only root can replace root's own link: the directory is trusted.
        let entry = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let links = if entry.is_ok_and(|stat| is_followed(&stat, user)) {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW
        };
        let flags = links | OFlags::WRONLY | OFlags::CREATE | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd =
            openat(&self.fd, name, flags, Mode::from(0o666)).map_err(|why| fail(why.into()))?;
        let mut file = File::from(fd);
        let stat = fstat(&file).map_err(|why| fail(why.into()))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            if !may_append(&stat, user) {
                return Err(StoreError::OfAnother(path, stat.st_uid));
            }
            file.set_len(0).map_err(fail)?;
        }
        file.write_all(bytes).map_err(fail)
    }

    /// Writes serialised JSON atomically; an error of serialisation is one of writing.
    pub(crate) fn write_json(
        &self,
        name: &str,
        json: serde_json::Result<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let bytes = json.map_err(|why| StoreError::io("write", &self.path.join(name), why))?;
        self.write(name, &bytes)
    }

    /// Locks the directory against other writers for as long as this value lives.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process holds the lock for long.
    pub(crate) fn lock(&self) -> Result<(), StoreError> {
        lock(&self.fd, &self.path)
    }

    /// Writes created and renamed entries to the disk (fsync).
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.fd)?)
    }

    /// Opens a file for reading; none if it does not exist. Anything but a regular file is refused.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, StoreError> {
        // A pipe would wait for a writer.
        self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Opens a file for reading and appending, and creates it if it does not exist.
    pub(crate) fn log(&self, name: &str) -> Result<File, StoreError> {
        self.check_owner()?;
        let path = self.path.join(name);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match openat(&self.fd, name, new, Mode::from(0o666)) {
            Ok(fd) => {
                give_to_caller(&fd).map_err(|why| StoreError::io("create", &path, why))?;
                return Ok(File::from(fd));
            }
            Err(Errno::EXIST) => {}
            Err(why) => return Err(StoreError::io("create", &path, why)),
        }
        let file = (self.open_file(name, flags)?)
            .ok_or_else(|| StoreError::io("open", &path, io::ErrorKind::NotFound))?;
        let stat = fstat(&file).map_err(|why| StoreError::io("look at", &path, why))?;
        if may_append(&stat, rustix::process::geteuid()) {
            Ok(file)
        } else {
            Err(StoreError::OfAnother(path, stat.st_uid))
        }
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<Option<File>, StoreError> {
        let path = self.path.join(name);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::from(0o666)) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(StoreError::NoFile(path)),
            Err(why) => return Err(StoreError::io("open", &path, why)),
        };
        let stat = fstat(&fd).map_err(|why| StoreError::io("open", &path, why))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(File::from(fd))),
            _ => Err(StoreError::NoFile(path)),
        }
    }

    /// The content of a file of at most `most` bytes; none if it does not exist.
    pub(crate) fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_if(name, most, |_| true)
    }

    /// The content of a file that the user or the caller of sudo owns; [`StoreError::OfAnother`] is the
    /// error for another owner.
    pub(crate) fn read_own(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_if(name, most, is_own)
    }

    fn read_if(
        &self,
        name: &str,
        most: u64,
        is_allowed: fn(&Stat) -> bool,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path.join(name);
        let Some(file) = self.file(name)? else {
            return Ok(None);
        };
        let stat = fstat(&file).map_err(|why| StoreError::io("look at", &path, why))?;
        if !is_allowed(&stat) {
            return Err(StoreError::OfAnother(path, stat.st_uid));
        }
        let mut bytes = Vec::new();
        file.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|why| StoreError::io("read", &path, why))?;
        if bytes.len() as u64 > most {
            Err(StoreError::TooLarge(path, most))
        } else {
            Ok(Some(bytes))
        }
    }

    /// Removes a file; a missing one is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(why) => Err(StoreError::io("remove", &self.path.join(name), why)),
        }
    }

    /// Removes an empty directory in this one; errors are ignored.
    pub(crate) fn remove_folder(&self, name: &str) {
        let _ = unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }

    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes the temporary files of processes that have ended, and returns their paths.
    pub(crate) fn sweep(&self) -> Vec<PathBuf> {
        let mut names = self.names().unwrap_or_default();
        names.retain(|name| {
            let file = is_temporary(name).then(|| self.file(name));
            let Some(Ok(Some(file))) = file else {
                return false;
            };
            let is_dead = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            is_dead && self.remove(name).is_ok()
        });
        names.iter().map(|name| self.path.join(name)).collect()
    }

    /// Creates and locks a temporary file for a file of this name.
    fn temporary(&self, name: &str) -> io::Result<(File, String)> {
        let mut last = io::Error::other("no free name for a temporary file");
        for attempt in 0..ATTEMPTS {
            let temporary = format!(".{name}.{}.{attempt}{SUFFIX}", std::process::id());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = match openat(&self.fd, &*temporary, flags, Mode::from(0o666)) {
                Ok(fd) => File::from(fd),
                Err(why @ Errno::EXIST) => {
                    last = why.into();
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            // Another process may have removed the file before it was locked.
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if locked && fstat(&file)?.st_nlink > 0 {
                give_to_caller(&file)?;
                return Ok((file, temporary));
            }
        }
        Err(last)
    }
}

/// Takes an exclusive lock (flock(2)) on a file or directory of this path, with several attempts, since
/// [`Folder::sweep`] and [`super::Run::is_locked`] of another process hold it for a moment.
pub(crate) fn lock(file: impl AsFd, path: &Path) -> Result<(), StoreError> {
    const ATTEMPTS: u32 = 5;
    for attempt in 1..=ATTEMPTS {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if attempt < ATTEMPTS => {
                thread::sleep(Duration::from_millis(10))
            }
            Err(Errno::WOULDBLOCK) => break,
            Err(why) => return Err(StoreError::io("lock", path, why)),
        }
    }
    Err(StoreError::Locked(path.to_owned()))
}

/// Checks the rules of a run's name. A name becomes part of a path, so this comes before any use of it.
pub(crate) fn check_id(id: &str) -> Result<(), StoreError> {
    let fits = (1..=MOST_ID_BYTES).contains(&id.len())
        && !id.starts_with(['.', '-'])
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if fits {
        Ok(())
    } else {
        Err(StoreError::BadId(id.to_owned()))
    }
}

/// User and group of the caller of sudo(8); none for a process that is not root's.
pub fn caller() -> Option<(Uid, Gid)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
    rustix::process::geteuid()
        .is_root()
        .then(|| (Uid::from_raw(uid), Gid::from_raw(gid)))
}

/// Makes the caller of sudo, if there is one, the owner of a new file or directory.
fn give_to_caller(made: impl AsFd) -> io::Result<()> {
    match caller() {
        Some((uid, gid)) => Ok(fchown(made, Some(uid), Some(gid))?),
        None => Ok(()),
    }
}

/// Returns true if the process's user or the caller of sudo is the owner.
fn is_own(stat: &Stat) -> bool {
    let owner = Uid::from_raw(stat.st_uid);
    owner == rustix::process::geteuid() || caller().is_some_and(|(uid, _)| owner == uid)
}

/// Returns true if a user may append to an existing file: root only to one of its own or the caller's
/// that has no other name, since the caller may have linked another file here.
fn may_append(stat: &Stat, user: Uid) -> bool {
    !user.is_root() || is_own(stat) && stat.st_nlink == 1
}

/// Returns true for a link that a user may follow: root follows its own links alone.
fn is_followed(stat: &Stat, user: Uid) -> bool {
    let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    is_link && (!user.is_root() || stat.st_uid == 0)
}

/// Returns true if only the process's user, root or the caller of sudo can change entries of a directory.
/// For a user other than root that is always so: their files are at their own risk.
fn is_trusted(stat: &Stat, user: Uid, caller: Option<Uid>) -> bool {
    let owner = Uid::from_raw(stat.st_uid);
    let mode = Mode::from_raw_mode(stat.st_mode);
    let open_to_all = mode.contains(Mode::WOTH) && !mode.contains(Mode::SVTX);
    !user.is_root() || (owner.is_root() || Some(owner) == caller) && !open_to_all
}

/// Returns true for the name of a temporary file: `.NAME.PID.ATTEMPT.tmp`.
fn is_temporary(name: &str) -> bool {
    let is_number = |word: Option<&str>| word.is_some_and(|w| w.parse::<u32>().is_ok());
    let Some(stem) = name.strip_prefix('.').and_then(|n| n.strip_suffix(SUFFIX)) else {
        return false;
    };
    let mut words = stem.rsplitn(3, '.');
    is_number(words.next()) && is_number(words.next()) && words.next().is_some()
}

#[cfg(test)]
mod tests;

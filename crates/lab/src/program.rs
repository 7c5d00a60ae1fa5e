//! The program that plays the endpoints, the same for a whole run even if its file is replaced.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytecost_spec::units;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use rustix::fs::{MemfdFlags, memfd_create};

const OWN: &str = "/proc/self/exe";
/// The bits of a file's mode with which others than its owner and group may read and run it.
const READ_AND_RUN: u32 = 0o005;

/// A program that is held open, and started from there: a rebuild in mid-run changes nothing.
#[derive(Clone, Debug)]
pub struct Program {
    held: Arc<File>,
    path: PathBuf,
}

impl Program {
    /// The program that this process runs; needs /proc.
    pub fn own() -> io::Result<Program> {
        Program::held(OWN.as_ref(), std::env::current_exe()?)
    }

    /// The program at that path.
    pub fn at(path: &Path) -> io::Result<Program> {
        Program::held(path, path.to_owned())
    }

    fn held(from: &Path, path: PathBuf) -> io::Result<Program> {
        let held = File::open(from)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        Ok(Program {
            held: Arc::new(held),
            path,
        })
    }

    /// The same program, or a copy by memfd_create(2) where not every user may run it.
    pub fn for_all(self) -> io::Result<Program> {
        if self.held.metadata()?.mode() & READ_AND_RUN == READ_AND_RUN {
            return Ok(self);
        }
        let copy = File::from(memfd_create("bytecost", MemfdFlags::CLOEXEC)?);
        io::copy(&mut &*self.held, &mut &copy)?;
        copy.set_permissions(Permissions::from_mode(0o500 | READ_AND_RUN))?;
        // A file that is open for writing cannot be run.
        let held = File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?;
        Ok(Program {
            held: Arc::new(held),
            ..self
        })
    }

    /// Its path when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The command that starts it under its path's name. It closes the descriptor, so that scripts fail.
    pub fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.held.as_raw_fd()));
        command.arg0(&self.path);
        command
    }
}

/// The build of the program that this process runs.
pub fn own_build() -> io::Result<String> {
    build(&File::open(OWN)?)
}

/// The GNU build id in hexadecimal digits; where the linker writes none, the file's size and time.
fn build(file: &File) -> io::Result<String> {
    if let Some(id) = build_id(file) {
        return Ok(id);
    }
    let about = file.metadata()?;
    let (bytes, s, ns) = (about.len(), about.mtime(), about.mtime_nsec());
    Ok(format!("{bytes} bytes of {s}.{ns:09}"))
}

/// The note of that type, elf(5), of 64 bits as on this machine; none of any other file.
fn build_id(file: &File) -> Option<String> {
    let read = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&read).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, &read).ok()? {
        let Ok(Some(mut notes)) = segment.notes(endian, &read) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            let is_id = note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID;
            if is_id && !note.desc().is_empty() {
                return Some(units::hexadecimal(note.desc()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn copied(from: impl AsRef<Path>, to: &Path) {
        // By a process of its own: what any process has open for writing is not executed.
        let done = Command::new("cp").args([from.as_ref(), to]).status();
        assert!(done.unwrap().success());
    }

    #[test]
    fn a_program_is_known_by_its_build_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        copied(std::env::current_exe().unwrap(), &one);
        copied("/usr/bin/yes", &other);
        let [one, other] = [one, other].map(|path| File::open(path).unwrap());
        let (own, id) = (own_build().unwrap(), build_id(&one));
        if let Some(id) = &id {
            let is_hex = id.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(is_hex && id.len() >= 16 && *id == own, "{own} {id}");
        }
        assert_ne!(own, build(&other).unwrap());
        assert_eq!(id, build_id(&File::open(OWN).unwrap()));
    }

    #[test]
    fn what_has_no_build_id_is_known_by_its_size_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        let mut builds = Vec::new();
        for text in ["#!/bin/sh\n", "#!/bin/sh\n\n", "\x7fELF\x02"] {
            std::fs::write(&path, text).unwrap();
            builds.push(build(&File::open(&path).unwrap()).unwrap());
        }
        assert!(builds[0].starts_with("10 bytes of "), "{builds:?}");
        builds.dedup();
        assert_eq!(builds.len(), 3);
        assert!(Program::at(&dir.path().join("none")).is_err());
    }

    #[test]
    fn what_is_held_is_started_though_another_lies_at_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["bytecost", "other"].map(|name| dir.path().join(name));
        copied("/bin/true", &path);
        copied("/bin/false", &other);
        let held = Program::at(&path).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let mut again = Command::new(&path);
        let status = again.stdin(Stdio::null()).status().unwrap();
        assert!(!status.success());
        assert!(held.command().status().unwrap().success());
        std::fs::set_permissions(&path, Permissions::from_mode(0o500)).unwrap();
        let of_owner = File::open(&path).unwrap();
        let program = Program::at(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(held.command().status().unwrap().success());
        let copy = program.for_all().unwrap();
        assert_eq!(build(&copy.held).unwrap(), build(&of_owner).unwrap());
    }
}

//! The program that plays the endpoints, held open, so that it stays the same for a whole run
//! whatever becomes of the file at its path.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};

/// The program of this process.
const OWN: &str = "/proc/self/exe";
/// The longest table of program headers that is read, and the longest notes, in bytes: several
/// times what linkers write.
const MOST_BYTES: u64 = 64 << 10;
/// Program header and note that hold a build id, elf(5): PT_NOTE and NT_GNU_BUILD_ID.
const PT_NOTE: u64 = 4;
const NT_GNU_BUILD_ID: u64 = 3;
/// The bits of a file's mode with which others than its owner and group may read and run it.
const READ_AND_RUN: u32 = 0o005;

/// A program that is held open. It is started from the descriptor, so that a rebuild in mid-run
/// changes nothing.
#[derive(Debug)]
pub struct Program {
    held: File,
    path: PathBuf,
    /// Its build, which its endpoints must tell.
    pub build: String,
}

impl Program {
    /// The program that this process runs.
    ///
    /// # Errors
    /// That it cannot be opened, for example for want of /proc.
    pub fn own() -> io::Result<Program> {
        Program::held(OWN.as_ref(), std::env::current_exe()?)
    }

    /// The program at that path.
    ///
    /// # Errors
    /// What open(2) answers.
    pub fn at(path: &Path) -> io::Result<Program> {
        Program::held(path, path.to_owned())
    }

    fn held(from: &Path, path: PathBuf) -> io::Result<Program> {
        let told = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let held = File::open(from).map_err(told)?;
        Ok(Program {
            build: build(&held).map_err(told)?,
            held,
            path,
        })
    }

    /// The same program as every user may run it: where none but its owner may, a copy in memory.
    ///
    /// # Errors
    /// What memfd_create(2) answers, or that there is no room for the copy.
    pub fn for_all(self) -> io::Result<Program> {
        if self.held.metadata()?.mode() & READ_AND_RUN == READ_AND_RUN {
            return Ok(self);
        }
        let copy = File::from(memfd_create("bytecost", MemfdFlags::CLOEXEC)?);
        io::copy(&mut &self.held, &mut &copy)?;
        copy.set_permissions(Permissions::from_mode(0o500 | READ_AND_RUN))?;
        // What somebody may write is not run.
        let held = File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?;
        Ok(Program { held, ..self })
    }

    /// Where it lay when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What starts it, under the name of its path. The descriptor closes as it begins, which a
    /// script would not survive; this is for programs alone.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.held.as_raw_fd()));
        command.arg0(&self.path);
        command
    }
}

/// The build of the program that this process runs.
///
/// # Errors
/// As [`Program::own`].
pub fn own_build() -> io::Result<String> {
    build(&File::open(OWN)?)
}

/// What is said where the two sides of a trial are not of one build.
pub(crate) fn another_build(who: &str, theirs: &str, own: &str) -> String {
    format!(
        "the {who} is another build of bytecost ({theirs}) than this one ({own}): start the run again, with one program"
    )
}

/// The GNU build id, in hexadecimal digits. A linker that writes none leaves the size and the time
/// of the file to know it by.
fn build(file: &File) -> io::Result<String> {
    if let Some(id) = build_id(file) {
        return Ok(id);
    }
    let about = file.metadata()?;
    Ok(format!(
        "{} bytes of {}.{:09}",
        about.len(),
        about.mtime(),
        about.mtime_nsec()
    ))
}

/// The note of that type among the program headers, elf(5): of 64 bits, in this machine's order,
/// which is what this machine runs. None of any other file.
fn build_id(file: &File) -> Option<String> {
    let header = read(file, 0, 64)?;
    if !header.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let (at, size, count) = (
        number(&header, 32, 8)?,
        number(&header, 54, 2)?,
        number(&header, 56, 2)?,
    );
    let table = read(file, at, size.checked_mul(count)?)?;
    let entries = table.chunks_exact(usize::try_from(size).ok().filter(|n| *n > 0)?);
    let notes = entries.filter(|e| number(e, 0, 4) == Some(PT_NOTE));
    let mut found = notes.filter_map(|e| {
        let notes = read(file, number(e, 8, 8)?, number(e, 32, 8)?)?;
        in_notes(&notes)
    });
    found.next()
}

/// The build id among notes: lengths of name and content, type, and both, each filled up to four
/// bytes.
fn in_notes(mut notes: &[u8]) -> Option<String> {
    loop {
        let lengths = [number(notes, 0, 4)?, number(notes, 4, 4)?];
        let kind = number(notes, 8, 4)?;
        let [name, content] = lengths.map(|n| n as usize);
        let from = 12 + name.next_multiple_of(4);
        let bytes = notes.get(from..from + content)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" && content > 0 {
            return Some(bytes.iter().map(|b| format!("{b:02x}")).collect());
        }
        notes = notes.get(from + content.next_multiple_of(4)..)?;
    }
}

/// So many bytes of a file; none where it has fewer, or they are too many.
fn read(file: &File, at: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut read = vec![
        0;
        usize::try_from(bytes)
            .ok()
            .filter(|_| bytes <= MOST_BYTES)?
    ];
    file.read_exact_at(&mut read, at).ok()?;
    Some(read)
}

/// A number of up to eight bytes in this machine's order.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    let add = |sum: u64, b: &u8| sum << 8 | u64::from(*b);
    Some(match cfg!(target_endian = "little") {
        true => bytes.iter().rev().fold(0, add),
        false => bytes.iter().fold(0, add),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn copied(from: impl AsRef<Path>, to: &Path) {
        // By a process of its own: what any process has open for writing is not executed.
        let done = Command::new("cp")
            .arg(from.as_ref())
            .arg(to)
            .status()
            .unwrap();
        assert!(done.success());
    }

    #[test]
    fn a_program_is_known_by_its_build_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        copied(std::env::current_exe().unwrap(), &one);
        copied("/usr/bin/yes", &other);
        let (own, [one, other]) = (
            Program::own().unwrap(),
            [one, other].map(|p| Program::at(&p)),
        );
        assert_eq!(own.build, own_build().unwrap());
        if build_id(&own.held).is_some() {
            let is_hex = own.build.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(is_hex && own.build.len() >= 16, "{}", own.build);
            assert_eq!(own.build, Program::own().unwrap().build);
        }
        assert_ne!(own.build, other.unwrap().build);
        assert_eq!(build_id(&one.unwrap().held), build_id(&own.held));
    }

    #[test]
    fn what_has_no_build_id_is_known_by_its_size_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        let mut builds = Vec::new();
        for text in ["#!/bin/sh\n", "#!/bin/sh\n\n", "\x7fELF\x02"] {
            std::fs::write(&path, text).unwrap();
            builds.push(Program::at(&path).unwrap().build);
        }
        assert!(builds[0].starts_with("10 bytes of "), "{builds:?}");
        builds.dedup();
        assert_eq!(builds.len(), 3);
        assert!(Program::at(&dir.path().join("none")).is_err());
    }

    #[test]
    fn notes_of_any_bytes_are_an_id_or_none() {
        let note = |kind: u32, content: &[u8]| {
            let mut note = Vec::new();
            for n in [4, content.len() as u32, kind] {
                note.extend(n.to_ne_bytes());
            }
            note.extend(b"GNU\0");
            note.extend(content);
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let two = [note(1, b"abcde"), note(3, &[0xab, 0, 1])].concat();
        assert_eq!(in_notes(&two).as_deref(), Some("ab0001"));
        for cut in 0..two.len() - 1 {
            assert_eq!(in_notes(&two[..cut]), None, "{cut}");
        }
        assert_eq!(in_notes(&[0xff; 64]), None);
        assert_eq!(in_notes(&[0; 64]), None);
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
        std::fs::remove_file(&path).unwrap();
        assert!(held.command().status().unwrap().success());
    }
}

//! This program, put on a host that has none of the same build. It lies in a private directory, which
//! goes with the shell that starts it there, and with the agent that runs from it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;

use super::command::PeerCommand;

/// The beginning of the private directory's name.
const DIRECTORY: &str = "bytecost-copy.";
const NAME: &str = "bytecost";
/// Takes a program of `$1` bytes from the beginning of stdin, and runs it as the agent with the rest.
/// Whatever ends this shell takes the directory away.
const RUN: &str = r#"umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/bytecost-copy.XXXXXX") || exit
trap 'rm -rf "$d"' EXIT; trap 'exit 1' HUP INT TERM PIPE
head -c "$1" > "$d/bytecost" && [ $(wc -c < "$d/bytecost") = "$1" ] && chmod 700 "$d/bytecost" && "$d/bytecost" agent"#;
/// The longest time for the copy of the program.
pub(super) const COPIED_WITHIN: Duration = Duration::from_secs(120);
/// A directory that was made so long ago belongs to no copy that is under way, and no agent.
const STALE_AFTER: Duration = Duration::from_secs(600);
const MAX_ENTRIES: usize = 1 << 16;

/// The program, and the command that takes it from stdin and runs it as the agent.
pub(super) fn agent(command: &PeerCommand) -> io::Result<(Command, File)> {
    let program = File::open("/proc/self/exe")?;
    let bytes = program.metadata()?.len().to_string();
    Ok((command.run(&["sh", "-c", RUN, "sh", &bytes]), program))
}

/// Takes away the own program where it is such a copy: it is held open, and is gone with who runs.
pub(super) fn remove_own() {
    let own = std::env::current_exe().unwrap_or_default();
    if let Some(directory) = own.parent()
        && own.file_name().is_some_and(|name| name == NAME)
        && is_copys(directory)
    {
        let _ = fs::remove_file(&own);
        let _ = fs::remove_dir(directory);
    }
}

fn is_copys(directory: &Path) -> bool {
    let name = directory.file_name();
    name.is_some_and(|name| name.to_string_lossy().starts_with(DIRECTORY))
}

/// Removes copies of this user that a killed shell left in a directory of temporary files; each with the
/// outcome.
pub(crate) fn remove_leftovers(temporary: &Path) -> Vec<(PathBuf, io::Result<bool>)> {
    let entries = fs::read_dir(temporary).into_iter().flatten().flatten();
    entries
        .take(MAX_ENTRIES)
        .map(|entry| entry.path())
        .filter(|path| is_copys(path) && is_stale(path))
        .map(|path| {
            let removed = fs::remove_dir_all(&path).map(|()| true);
            (path, removed)
        })
        .collect()
}

/// Returns true for a directory of this user that nobody uses any more.
fn is_stale(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        let age = found.modified().ok().and_then(|at| at.elapsed().ok());
        found.is_dir()
            && found.uid() == geteuid().as_raw()
            && age.is_some_and(|age| age >= STALE_AFTER)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Stdio;
    use std::time::SystemTime;

    use bytecost_sys::child_end;

    // Invariant 9.
    #[test]
    fn a_copy_goes_when_its_coordinator_ends_before_the_whole_is_there() {
        let temporary = tempfile::tempdir().unwrap();
        let prefix = format!("env TMPDIR={}", temporary.path().display());
        let command = PeerCommand::parse(&prefix, NAME).unwrap();
        let (mut agent, mut program) = agent(&command).unwrap();
        let mut child = agent.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // More than the pipe has room for, so that the shell reads by then.
        io::copy(&mut (&mut program).take(1 << 20), &mut stdin).unwrap();
        let count = || fs::read_dir(temporary.path()).unwrap().count();
        assert_eq!(count(), 1);
        drop(stdin);
        let end = child_end::wait_or_kill(&mut child, Duration::from_secs(60)).unwrap();
        assert!(!end.was_killed && !end.status.success(), "{end:?}");
        assert_eq!(count(), 0);
    }

    // Invariant 9.
    #[test]
    fn a_copy_that_was_left_is_removed_when_no_copy_can_be_under_way() {
        let temporary = tempfile::tempdir().unwrap();
        let make = |name: &str, is_old: bool| {
            let path = temporary.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(NAME), "in part").unwrap();
            let ago = if is_old {
                2 * STALE_AFTER
            } else {
                Duration::ZERO
            };
            let opened = File::open(&path).unwrap();
            opened.set_modified(SystemTime::now() - ago).unwrap();
            path
        };
        let left = make("bytecost-copy.a1", true);
        let kept = [make("bytecost-copy.b2", false), make("another.c3", true)];
        std::os::unix::fs::symlink(&kept[1], temporary.path().join("bytecost-copy.d4")).unwrap();
        let removed = remove_leftovers(temporary.path());
        assert!(
            matches!(&removed[..], [(path, Ok(true))] if *path == left),
            "{removed:?}"
        );
        assert!(!left.exists() && kept.iter().all(|path| path.join(NAME).exists()));
    }
}

//! Calls that a machine refuses to the side of a trial, in words with the remedy.

use std::io;

use bytecost_engine::Mover;
use bytecost_engine::statement::Requirement;
use bytecost_host::{Roots, limits};
use bytecost_spec::Cache;
use rustix::io::Errno;

use crate::protocol::Task;

/// The error of a task's side with the refused call in words, where these are known; any other one as it
/// is.
pub(crate) fn in_words(error: io::Error, task: &Task) -> io::Error {
    let mover = Mover::named(&task.cell.mover).filter(|_| !task.cell.is_served());
    let sends_from_disk = task.here.file.is_some() && task.cell.cache != Cache::Memory;
    let is_of_files = mover.is_some_and(|m| m.route.is_of_files() || sends_from_disk);
    let locks_memory = mover.is_some_and(|m| m.states.needs.contains(&Requirement::Uring));
    let words = Errno::from_io_error(&error)
        .and_then(|errno| words(errno, &error, is_of_files, locks_memory));
    match words {
        Some(words) => io::Error::new(error.kind(), words),
        None => error,
    }
}

fn words(errno: Errno, error: &io::Error, is_of_files: bool, locks_memory: bool) -> Option<String> {
    Some(match errno {
        Errno::OPNOTSUPP if is_of_files => {
            "this file system does not support it (EOPNOTSUPP)".to_owned()
        }
        Errno::OPNOTSUPP => "this socket does not support it (EOPNOTSUPP)".to_owned(),
        Errno::XDEV if is_of_files => "the two files lie on file systems that it does not copy between (EXDEV): choose a directory on the file's own with --dir".to_owned(),
        Errno::NOSYS => "this kernel does not have it (ENOSYS)".to_owned(),
        Errno::PERM | Errno::ACCESS => format!(
            "not permitted on this machine ({error}): check kernel.io_uring_disabled and the container's system call filter"
        ),
        Errno::NOMEM
            if locks_memory && limits::process_memory_limits(&Roots::real()).is_empty() =>
        {
            format!("{error}: RLIMIT_MEMLOCK is too small, raise it (`ulimit -l`)")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ConnectionSetup, ContentCheck, LocalSettings, Role};
    use bytecost_spec::Cell;

    fn task(mover: &str) -> Task {
        Task {
            role: Role::Sender,
            cell: Cell {
                mover: mover.to_owned(),
                ..Cell::default()
            },
            connection: ConnectionSetup::None,
            keys: Vec::new(),
            check: ContentCheck::Full,
            min_messages: 0,
            timeout_ms: 0,
            here: LocalSettings::default(),
        }
    }

    #[test]
    fn a_forbidden_call_is_reported_with_its_limit() {
        for (mover, errno, word) in [
            ("uring-read", Errno::PERM, "kernel.io_uring_disabled"),
            ("send", Errno::ACCESS, "system call filter"),
            ("pread", Errno::NOSYS, "does not have it"),
            ("uring-send-zc", Errno::NOMEM, "ulimit -l"),
            ("send-zerocopy", Errno::OPNOTSUPP, "socket"),
            ("preadv2", Errno::OPNOTSUPP, "file system"),
            ("copy_file_range", Errno::XDEV, "--dir"),
        ] {
            let why = in_words(errno.into(), &task(mover)).to_string();
            assert!(why.contains(word), "{mover}: {why}");
        }
    }

    #[test]
    fn an_error_that_has_words_or_a_remedy_elsewhere_stays_as_it_is() {
        for (mover, errno) in [
            ("send", Errno::NOMEM),
            ("send", Errno::MFILE),
            ("send", Errno::XDEV),
        ] {
            let same = in_words(errno.into(), &task(mover));
            assert_eq!(Errno::from_io_error(&same), Some(errno));
        }
        let said = in_words(io::Error::other("no ring"), &task("uring-read"));
        assert_eq!(said.to_string(), "no ring");
    }
}

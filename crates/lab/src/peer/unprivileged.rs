//! An agent without the rights of root.

use std::io;
use std::os::unix::process::CommandExt;

use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid, setrlimit};

use super::copy::remove_own;
use crate::program::Program;

/// The number of the user and the group `nobody`.
const NOBODY: u32 = 65534;

/// Restarts root's program without rights: as `caller`, who is not root, else as nobody. Returns for
/// other users, and where the user cannot be changed, as in a container without other users. An error
/// where that user cannot run the program.
pub fn give_up_root(caller: Option<(Uid, Gid)>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let program = Program::own()?.for_all()?;
    remove_own();
    // Root's memory may be locked without a bound, which trials need.
    let unbound = Rlimit {
        current: None,
        maximum: None,
    };
    let _ = setrlimit(Resource::Memlock, unbound);
    let (user, group) = caller
        .map(|(user, group)| (user.as_raw(), group.as_raw()))
        .filter(|(user, group)| *user > 0 && *group > 0)
        .unwrap_or((NOBODY, NOBODY));
    let mut command = program.command();
    command.args(std::env::args_os().skip(1));
    // Supplementary groups are dropped too.
    let failed = command.uid(user).gid(group).exec();
    if let Some(Errno::PERM | Errno::INVAL) = Errno::from_io_error(&failed)
        && geteuid().is_root()
    {
        return Ok(());
    }
    let why = format!(
        "{} as user {user}: {failed}: have the peer's command name another user than root",
        program.path().display()
    );
    Err(io::Error::new(failed.kind(), why))
}

//! The processes that a mount of `/proc` shows. It may be of another PID namespace, or hide the
//! processes of other users, proc(5).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FOREIGN: &str = "/proc is that of another PID namespace, so its numbers name other processes: mount one of this namespace (`unshare --pid --fork --mount-proc`)";
const HIDDEN: &str = "/proc hides the processes of other users (hidepid): run as root, or in the group that its mount option `gid` names";

/// Returns true unless `proc` is of another PID namespace than this process: there the same number
/// names another process.
pub fn is_ours(proc: &Path) -> bool {
    let self_link = proc.join("self");
    match fs::read_link(&self_link) {
        Ok(link) => link.to_str() == Some(&std::process::id().to_string()),
        // The kernel's `self` is a link: this is a recorded tree of files.
        Err(why) if why.kind() == io::ErrorKind::InvalidInput => true,
        // Without the link nothing is mounted, and nothing can be read by a number. A link that cannot
        // be read is of a namespace in which this process is not.
        Err(_) => self_link.symlink_metadata().is_err(),
    }
}

/// The reason why `proc` does not show processes of other users; none if it shows them.
pub fn hides_others(proc: &Path) -> Option<&'static str> {
    // Wherever the mount option hides processes, process 1 belongs to another user.
    let is_readable = |process: &str| fs::read(proc.join(process).join("stat")).is_ok();
    if !is_ours(proc) {
        Some(FOREIGN)
    } else if is_readable("self") && !is_readable("1") {
        Some(HIDDEN)
    } else {
        None
    }
}

/// The directory of a process in `/proc`; none if `/proc` is of another PID namespace.
pub fn directory(pid: u32) -> Option<PathBuf> {
    let proc = Path::new("/proc");
    is_ours(proc).then(|| proc.join(pid.to_string()))
}

/// The directory of this process in `/proc` by its number there, under which other processes with the
/// same `/proc` find it.
pub fn own_directory() -> PathBuf {
    let number =
        fs::read_link("/proc/self").unwrap_or_else(|_| std::process::id().to_string().into());
    Path::new("/proc").join(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn numbers_of_another_namespace_and_hidden_processes_are_recognised() {
        let name = format!("bytecost-proc-view-{}", std::process::id());
        let proc = &std::env::temp_dir().join(name);
        fs::create_dir(proc).unwrap();
        assert!(
            is_ours(proc) && hides_others(proc).is_none(),
            "nothing is mounted"
        );
        let own = std::process::id();
        let put = |process: u32| {
            let dir = proc.join(process.to_string());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("stat"), "").unwrap();
        };
        put(own);
        symlink(own.to_string(), proc.join("self")).unwrap();
        assert_eq!(hides_others(proc), Some(HIDDEN));
        put(1);
        assert_eq!(hides_others(proc), None);
        fs::remove_file(proc.join("self")).unwrap();
        symlink("1", proc.join("self")).unwrap();
        assert!(!is_ours(proc));
        assert_eq!(hides_others(proc), Some(FOREIGN));
        fs::remove_dir_all(proc).unwrap();
        assert!(is_ours(Path::new("/proc")));
        assert_eq!(directory(own), Some(own_directory()));
    }
}

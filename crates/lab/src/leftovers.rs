//! Processes, links, control groups and copies that a killed run may have left on the machine.
//!
//! Processes and links should never be found: endpoints, namespaces and links die with their coordinator
//! (prctl(2), PR_SET_PDEATHSIG). Control groups and copies outlive a killed run.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bytecost_engine::java::ENDPOINT_PROPERTY;
use bytecost_host::Roots;
use bytecost_sys::proc_view;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::groups;
use crate::netlink::Netlink;
use crate::peer;
use crate::transports::veth::NAMES;

/// The most processes that are looked at.
const MOST_PROCESSES: usize = 1 << 20;

/// The most generations of processes of one endpoint: the endpoint, its server, and the server's children.
const MOST_GENERATIONS: usize = 3;

/// A thing that a killed run left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// A sentence: that it was removed, or the reason why it is still there.
    pub summary: String,
    /// True if it is gone now.
    pub gone: bool,
}

/// Removes endpoints without their coordinator, Java machines without their endpoint, veth links in
/// this process's network, control groups of runs that are gone, and copies of this program for runs of
/// another host. Those of other users or PID namespaces are left alone.
pub fn remove() -> Vec<Leftover> {
    let ended = orphans().into_iter().filter_map(|(pid, what)| {
        let gone = format!("ended process {pid}, {what}");
        let left = format!("process {pid} is {what} and cannot be ended");
        leftover(kill(pid), gone, left)
    });
    let removed = |removed, what: String| {
        let left = format!("{what} is left and cannot be removed");
        leftover(removed, format!("removed {what}"), left)
    };
    let links = NAMES.into_iter();
    let unlinked = links.filter_map(|name| removed(unlink(name), format!("the link {name}")));
    let mut left: Vec<Leftover> = ended.chain(unlinked).collect();
    // After the processes, which may be in them.
    for (dir, done) in groups::remove_leftovers(&Roots::real()) {
        left.extend(removed(
            done,
            format!("the control group {}", dir.display()),
        ));
    }
    for (dir, done) in peer::remove_leftovers(&std::env::temp_dir()) {
        left.extend(removed(done, format!("the copy {}", dir.display())));
    }
    left
}

/// The leftover by the outcome of its removal; none if it was gone before.
fn leftover(removed: io::Result<bool>, gone: String, left: String) -> Option<Leftover> {
    let (summary, gone) = match removed {
        Ok(true) => (gone, true),
        Ok(false) => return None,
        Err(e) => (format!("{left}: {e}"), false),
    };
    Some(Leftover { summary, gone })
}

/// The orphans among this user's processes, with their descriptions. An orphan is an endpoint or a Java
/// machine whose starter, a process of bytecost, has ended.
fn orphans() -> Vec<(u32, &'static str)> {
    // In another PID namespace a number would name some other process.
    let proc = Some(Path::new("/proc")).filter(|proc| proc_view::is_ours(proc));
    proc.and_then(|proc| fs::read_dir(proc).ok())
        .into_iter()
        .flatten()
        .take(MOST_PROCESSES)
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, orphan_description(&entry.path())?))
        })
        .collect()
}

/// The description of an orphan; none for any other process.
fn orphan_description(process: &Path) -> Option<&'static str> {
    let (starter, description) = recorded_starter(process)?;
    let is_ours =
        fs::metadata(process).is_ok_and(|m| m.uid() == rustix::process::geteuid().as_raw());
    // The recorded number has a meaning only in the same PID namespace.
    let namespace = |path: &Path| fs::read_link(path.join("ns/pid")).ok();
    let is_here = namespace(process).is_some_and(|n| namespace(Path::new("/proc/self")) == Some(n));
    let has_other = || present_starter(process, starter).is_some_and(|pid| pid != starter);
    let is_orphan = is_ours && is_here && has_other();
    is_orphan.then_some(description)
}

/// The nearest ancestor of a process that has another recorded starter, or none: `starter` itself while it
/// lives. The servers of an endpoint and their children have the endpoint's command line.
fn present_starter(process: &Path, starter: u32) -> Option<u32> {
    let mut ancestor = parent(process)?;
    for _ in 0..MOST_GENERATIONS {
        let dir = Path::new("/proc").join(ancestor.to_string());
        if recorded_starter(&dir).is_none_or(|(recorded, _)| recorded != starter) {
            break;
        }
        ancestor = parent(&dir)?;
    }
    Some(ancestor)
}

/// The starter that the command line of a process of bytecost names, and the description of that process
/// if the starter is gone; none for other processes.
fn recorded_starter(process: &Path) -> Option<(u32, &'static str)> {
    let line = fs::read(process.join("cmdline")).ok()?;
    let words: Vec<&[u8]> = line.strip_suffix(b"\0")?.split(|b| *b == 0).collect();
    let mark = ENDPOINT_PROPERTY.as_bytes();
    let of_java = words.iter().find_map(|word| word.strip_prefix(mark));
    let (program, starter, description) = match (&words[..], of_java) {
        ([_, b"endpoint", pid, ..], _) => {
            ("bytecost", *pid, "an endpoint whose coordinator is gone")
        }
        (_, Some(endpoint)) => ("java", endpoint, "a Java machine whose endpoint is gone"),
        _ => return None,
    };
    let exe = fs::read_link(process.join("exe")).ok()?;
    let name = exe.file_name()?.to_str()?;
    // The name of a program that was replaced since has this ending.
    let is_program = name.trim_end_matches(" (deleted)") == program;
    let pid = std::str::from_utf8(starter).ok()?.parse().ok()?;
    is_program.then_some((pid, description))
}

fn parent(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// Ends an orphan; false if it is gone.
fn kill(pid: u32) -> io::Result<bool> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let held = match pidfd_open(raw.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty()) {
        Ok(held) => held,
        Err(Errno::SRCH) => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    // The pid may have been given to another process before the descriptor referred to it.
    if orphan_description(&Path::new("/proc").join(pid.to_string())).is_none() {
        return Ok(false);
    }
    match pidfd_send_signal(&held, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Removes the veth link of that name from this process's network; false if there is none.
fn unlink(name: &str) -> io::Result<bool> {
    let mut netlink = Netlink::open()?;
    match netlink.link(name)? {
        Some(link) if link.is_veth => netlink.remove(link.index).map(|()| true),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::{Lack, skipped};
    use bytecost_sys::network::Network;

    #[test]
    fn a_link_of_ours_is_removed_and_another_one_stays() {
        let Ok(network) = Network::new() else {
            assert!(!rustix::process::geteuid().is_root());
            return skipped(Lack::Right, "namespaces need root");
        };
        let all = || -> io::Result<()> {
            let mut netlink = Netlink::open()?;
            netlink.add_veth(NAMES[0], "other0", &network, 1500)?;
            netlink.add_veth("other1", "other2", &network, 1500)?;
            assert!(unlink(NAMES[0])?);
            assert!(!unlink(NAMES[0])?, "there is none any more");
            assert_eq!(netlink.link("other0")?, None, "it went with its end");
            assert!(netlink.link("other1")?.is_some());
            Ok(())
        };
        network.within(all).unwrap().unwrap();
    }

    #[test]
    fn only_processes_of_bytecost_have_a_recorded_starter() {
        assert_eq!(recorded_starter(Path::new("/proc/self")), None);
        assert_eq!(orphan_description(Path::new("/proc/1")), None);
        let parent_id = std::os::unix::process::parent_id();
        assert_eq!(parent(Path::new("/proc/self")), Some(parent_id));
    }

    #[test]
    fn a_thing_that_cannot_be_removed_is_reported_as_left() {
        let check = |removed, expected: Option<(&str, bool)>| {
            let [gone, left] = ["removed it", "it is left"].map(str::to_owned);
            let found = leftover(removed, gone, left).map(|l| (l.summary, l.gone));
            assert_eq!(
                found,
                expected.map(|(summary, is_gone)| (summary.to_owned(), is_gone))
            );
        };
        check(Ok(false), None);
        check(Ok(true), Some(("removed it", true)));
        let refused = io::Error::other("no");
        check(Err(refused), Some(("it is left: no", false)));
    }
}

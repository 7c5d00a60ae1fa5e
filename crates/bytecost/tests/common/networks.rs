//! Network namespaces, as they are seen from outside, and runs that make some.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Place, endpoints_of, until};

/// The end of the command line of a run that lasts until it is ended.
const LONG: &str = "--mover null,send --size 4KiB --budget 60s --precision 0.1% --window 300ms --warmup 5ms --quiet";

/// The network that a process is in, as the kernel names it: `net:[4026531840]`.
pub fn network(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}

pub fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// The endpoint of a run that is in a network of its own, once there is one.
pub fn apart(coordinator: u32) -> Option<u32> {
    let own = network(Path::new("/proc/self"));
    let is_apart = |pid: &u32| {
        let there = network(&process(*pid));
        there.is_some() && there != own
    };
    endpoints_of(coordinator).into_iter().find(is_apart)
}

/// The result of work in the network of a process; none where the process is gone by then.
pub fn within<T: Send + 'static>(pid: u32, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let there = File::open(process(pid).join("ns/net")).ok()?;
    let work = move || {
        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        work()
    };
    Some(thread::spawn(work).join().unwrap())
}

/// Returns true if any process is in one of these networks, or holds one by a descriptor or a mount:
/// that is all that can keep a network, see namespaces(7).
pub fn is_held(networks: &BTreeSet<PathBuf>) -> bool {
    let is_one = |link: Option<PathBuf>| link.is_some_and(|l| networks.contains(&l));
    let mounted = |process: &Path| {
        let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        networks
            .iter()
            .any(|n| mounts.contains(n.to_str().unwrap()))
    };
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let process = entry.path();
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
        is_one(network(&process))
            || descriptors
                .flatten()
                .any(|d| is_one(fs::read_link(d.path()).ok()))
            || mounted(&process)
    })
}

/// Ends a run by a signal while a trial is under way in as many networks of its own, and sees to it
/// that these go with it, and all that is in them. The trial's two endpoints, and the run itself,
/// must be as `are_right` says. The place with the trials that it measured.
pub fn ended_by(
    signal: Signal,
    words: &str,
    count: usize,
    are_right: impl Fn(&[u32]) -> bool,
) -> Place {
    let place = Place::new();
    let mut run = place.start(&mut place.bytecost(format!("run {words} {LONG}")));
    let coordinator = run.pid();
    let own = network(Path::new("/proc/self")).unwrap();
    let seen = RefCell::new(BTreeSet::new());
    run.until("a trial of two ends", || {
        let ends = endpoints_of(coordinator);
        let networks: BTreeSet<PathBuf> =
            ends.iter().filter_map(|e| network(&process(*e))).collect();
        let are_apart = ends.len() == 2 && networks.len() == count && !networks.contains(&own);
        seen.replace(networks);
        place.lines() >= 1 && are_apart && are_right(&[&ends[..], &[coordinator]].concat())
    });
    let networks = seen.into_inner();
    assert!(is_held(&networks));
    assert_eq!(network(&process(coordinator)), Some(own));
    let expected = (signal != Signal::KILL).then_some(1);
    assert_eq!(run.ended_by(signal).status, expected);
    // Nothing else keeps the networks alive.
    until("the end of the networks", Duration::from_secs(30), || {
        !is_held(&networks)
    });
    assert_eq!(endpoints_of(coordinator), [0_u32; 0]);
    let links = fs::read_to_string("/proc/net/dev").unwrap();
    assert!(!links.contains("bytecost"), "{links}");
    place
}

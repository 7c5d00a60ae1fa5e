//! Where a control group can be made, cgroups(7): version 1, version 2 or both side by side.

use std::path::PathBuf;

use crate::roots::Roots;

/// The most mounts and levels that are looked at.
const MOST_MOUNTS: usize = 4096;
const MOST_LEVELS: usize = 64;

/// What a group is asked to bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Quota and weight.
    Cpu,
    /// Which CPUs.
    Cpuset,
}

impl Controller {
    /// Its name, in either version.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Cpuset => "cpuset",
        }
    }
}

/// Which interface a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for a controller or a few.
    V1,
    /// One for all.
    V2,
}

/// A group below which another one can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its interface.
    pub version: Version,
    /// Its directory, below the root of the caller's `/sys`.
    pub dir: PathBuf,
    /// Which of the controllers that were asked for it has.
    pub controllers: Vec<Controller>,
}

struct Mount {
    version: Version,
    controllers: Vec<String>,
    /// The group that is seen as its root.
    root: String,
    /// Below `/sys`.
    at: String,
    writable: bool,
}

/// Where a group with these controllers is to be made: one parent of version 2, or one a hierarchy
/// of version 1. Nothing is tried. Else why there is none, and what to do about it.
pub fn parents(roots: &Roots, wanted: &[Controller]) -> Result<Vec<Parent>, String> {
    let own = roots.proc("self/cgroup")?;
    let mounts = mounts(roots)?;
    if mounts.is_empty() {
        return Err(
            "no control groups are mounted below /sys: mount cgroup2 at /sys/fs/cgroup".to_owned(),
        );
    }
    let mut parents: Vec<Parent> = Vec::new();
    let mut of_v2: Vec<Controller> = Vec::new();
    for &controller in wanted {
        let in_v1 = |m: &&Mount| m.controllers.iter().any(|c| c == controller.name());
        let Some(mount) = mounts.iter().find(in_v1) else {
            of_v2.push(controller);
            continue;
        };
        writable(mount)?;
        let dir = own_dir(roots, mount, &own, Some(controller));
        let dir = roots.sys.join(dir);
        match parents.iter_mut().find(|p| p.dir == dir) {
            Some(parent) => parent.controllers.push(controller),
            None => parents.push(Parent {
                version: Version::V1,
                dir,
                controllers: vec![controller],
            }),
        }
    }
    if !of_v2.is_empty() {
        parents.push(parent_v2(roots, &mounts, &own, of_v2)?);
    }
    Ok(parents)
}

/// Where groups can lie, one a mounted hierarchy, below the root of the caller's `/sys`.
pub fn hierarchies(roots: &Roots) -> Vec<PathBuf> {
    let has = |m: &Mount| {
        let named = |c: &String| c == "cpu" || c == "cpuset";
        m.version == Version::V2 || m.controllers.iter().any(named)
    };
    let mounts = mounts(roots).unwrap_or_default();
    let dirs = mounts.iter().filter(|m| has(m) && m.writable);
    dirs.map(|m| roots.sys.join(&m.at)).collect()
}

/// Real-time budget in µs a period; none without groups (CONFIG_RT_GROUP_SCHED, version 1 alone).
pub fn realtime_us(roots: &Roots) -> Option<i64> {
    let own = roots.proc("self/cgroup").ok()?;
    let mounts = mounts(roots).ok()?;
    let of_cpu = |m: &&Mount| m.controllers.iter().any(|c| c == "cpu");
    let mount = mounts.iter().find(of_cpu)?;
    let dir = own_dir(roots, mount, &own, Some(Controller::Cpu));
    roots.sys_as(&format!("{dir}/cpu.rt_runtime_us"))
}

fn writable(mount: &Mount) -> Result<(), String> {
    if mount.writable {
        return Ok(());
    }
    Err(format!(
        "control groups are mounted read-only at /sys/{}: run outside of the container, or start it with writable ones",
        mount.at
    ))
}

fn parent_v2(
    roots: &Roots,
    mounts: &[Mount],
    own: &str,
    wanted: Vec<Controller>,
) -> Result<Parent, String> {
    let names: Vec<&str> = wanted.iter().map(|c| c.name()).collect();
    let names = names.join(" and ");
    let Some(mount) = mounts.iter().find(|m| m.version == Version::V2) else {
        return Err(format!(
            "no control groups with the controller {names} are mounted below /sys"
        ));
    };
    writable(mount)?;
    let has = |dir: &str, file: &str| {
        let text = roots.sys(&format!("{dir}/{file}")).unwrap_or_default();
        let there: Vec<&str> = text.split_whitespace().collect();
        wanted.iter().all(|c| there.contains(&c.name()))
    };
    let mut dir = own_dir(roots, mount, own, None);
    for _ in 0..MOST_LEVELS {
        if has(&dir, "cgroup.subtree_control") {
            return Ok(Parent {
                version: Version::V2,
                dir: roots.sys.join(&dir),
                controllers: wanted,
            });
        }
        match dir.rsplit_once('/') {
            Some((up, _)) if up.len() >= mount.at.len() => dir = up.to_owned(),
            _ => break,
        }
    }
    let at = &mount.at;
    Err(if has(at, "cgroup.controllers") {
        let switch: Vec<String> = wanted.iter().map(|c| format!("+{}", c.name())).collect();
        format!(
            "controller {names} is not enabled for groups below /sys/{at}: as root: `echo \"{}\" > /sys/{at}/cgroup.subtree_control`",
            switch.join(" ")
        )
    } else {
        format!(
            "controller {names} is not available in /sys/{at} (cgroup.controllers): it is not delegated to this container, or the kernel was built without it"
        )
    })
}

/// The controllers (none in version 2) and the path of each group of a process, cgroups(7).
pub(crate) fn groups(of_process: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = of_process.lines();
    lines.filter_map(|line| line.split_once(':')?.1.split_once(':'))
}

/// What is read of each group around this process with a controller, from its own up to the root of
/// what it sees, by its directory below `/sys`; or why its groups are not known.
pub(crate) fn around<T>(
    roots: &Roots,
    controller: &str,
    read: impl Fn(Version, &str) -> Option<T>,
) -> Result<Vec<T>, String> {
    let own = roots.proc("self/cgroup")?;
    let mut all = Vec::new();
    for (controllers, path) in groups(&own) {
        let (version, mounts) = if controllers.is_empty() {
            let mounts = ["fs/cgroup".to_owned(), "fs/cgroup/unified".to_owned()];
            (Version::V2, mounts)
        } else if controllers.split(',').any(|c| c == controller) {
            let named = format!("fs/cgroup/{controllers}");
            (Version::V1, [named, format!("fs/cgroup/{controller}")])
        } else {
            continue;
        };
        // One may be a link to the other.
        let found = mounts.iter().filter(|m| !m.contains("..")).map(|mount| {
            let dirs = levels(path).into_iter().map(|dir| format!("{mount}{dir}"));
            dirs.filter_map(|dir| read(version, &dir)).collect()
        });
        let found: Option<Vec<T>> = found.into_iter().find(|found: &Vec<_>| !found.is_empty());
        all.extend(found.unwrap_or_default());
    }
    Ok(all)
}

/// `/a/b` gives `/a/b`, `/a` and the root; a path that leads out of the mount the root alone.
fn levels(path: &str) -> Vec<String> {
    let mut levels = vec![String::new()];
    if path.split('/').any(|part| part == "..") {
        return levels;
    }
    for part in path.split('/').filter(|p| !p.is_empty()).take(MOST_LEVELS) {
        let parent = levels.last().cloned().unwrap_or_default();
        levels.push(format!("{parent}/{part}"));
    }
    levels.reverse();
    levels
}

/// The directory of this process's group, as far as it is seen; else that of the mount.
fn own_dir(roots: &Roots, mount: &Mount, own: &str, controller: Option<Controller>) -> String {
    let path = groups(own).find_map(|(of, path)| {
        let is_it = match controller {
            Some(controller) => of.split(',').any(|c| c == controller.name()),
            None => of.is_empty(),
        };
        is_it.then_some(path)
    });
    let path = path.unwrap_or_default().trim_end_matches('/');
    let below = match mount.root.as_str() {
        "/" => path,
        root => path.strip_prefix(root).unwrap_or_default(),
    };
    let dir = format!("{}{below}", mount.at);
    let is_there = !below.split('/').any(|part| part == "..") && roots.sys.join(&dir).is_dir();
    if is_there { dir } else { mount.at.clone() }
}

/// The hierarchies that are mounted below `/sys`, proc_pid_mountinfo(5).
fn mounts(roots: &Roots) -> Result<Vec<Mount>, String> {
    let text = roots.proc("self/mountinfo")?;
    Ok(text.lines().take(MOST_MOUNTS).filter_map(mount).collect())
}

fn mount(line: &str) -> Option<Mount> {
    let (seen, kind) = line.split_once(" - ")?;
    let mut seen = seen.split(' ').skip(3);
    let (root, at, options) = (seen.next()?, seen.next()?, seen.next()?);
    let mut kind = kind.split(' ');
    let (name, _, special) = (kind.next()?, kind.next()?, kind.next()?);
    let version = match name {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let has = |options: &str, what: &str| options.split(',').any(|o| o == what);
    Some(Mount {
        version,
        controllers: match version {
            Version::V1 => special.split(',').map(str::to_owned).collect(),
            Version::V2 => Vec::new(),
        },
        root: root.to_owned(),
        at: at.strip_prefix("/sys/")?.trim_end_matches('/').to_owned(),
        writable: !has(options, "ro") && !has(special, "ro"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::put;

    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_CPU: &str =
        "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";
    const V1_CPUSET: &str =
        "32 23 0:28 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n";
    const HYBRID: &str = "33 23 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    /// A machine with these mounts, this process's group, and these files in /sys/fs/cgroup.
    fn machine(mounts: &str, own: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let (dir, roots) =
            crate::tests::machine(&[("proc/self/mountinfo", mounts), ("proc/self/cgroup", own)]);
        for (path, text) in files {
            put(dir.path(), &format!("sys/fs/cgroup/{path}"), text);
        }
        (dir, roots)
    }

    /// Directories below /sys/fs/cgroup, or what the refusal must say.
    fn check(
        (dir, roots): &(tempfile::TempDir, Roots),
        wanted: &[Controller],
        expected: Result<&[(Version, &str)], &str>,
    ) {
        let top = dir.path().join("sys/fs/cgroup");
        match (parents(roots, wanted), expected) {
            (Ok(found), Ok(expected)) => {
                let found = found.iter().map(|p| (p.version, p.dir.clone()));
                let expected = expected.iter().map(|(v, dir)| (*v, top.join(dir)));
                assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            }
            (Err(why), Err(needle)) => assert!(why.contains(needle), "{why}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    use Controller::{Cpu, Cpuset};

    #[test]
    fn a_path_is_walked_up_to_the_root() {
        assert_eq!(levels("/"), [""]);
        assert_eq!(levels("/a/b"), ["/a/b", "/a", ""]);
        assert_eq!(levels("/../../x"), [""]);
        assert_eq!(levels(&"/x".repeat(1000)).len(), MOST_LEVELS + 1);
    }

    #[test]
    fn in_version_2_it_is_the_nearest_group_whose_children_have_the_controllers() {
        let place = machine(
            V2,
            "0::/user.slice/session-1.scope\n",
            &[
                ("cgroup.controllers", "cpuset cpu io"),
                ("cgroup.subtree_control", "cpu memory"),
                ("user.slice/cgroup.subtree_control", "cpu"),
                ("user.slice/session-1.scope/cgroup.subtree_control", ""),
            ],
        );
        check(&place, &[Cpu], Ok(&[(Version::V2, "user.slice")]));
        check(&place, &[Cpu, Cpuset], Err("echo \"+cpu +cpuset\" >"));
        check(&place, &[Cpuset], Err("is not enabled for groups below"));
    }

    #[test]
    fn in_version_1_each_controller_has_a_hierarchy_of_its_own() {
        let own = "5:cpuset:/\n4:cpu,cpuacct:/machine/a\n0::/\n";
        let files = [
            ("cpu,cpuacct/machine/a/cpu.shares", "1024"),
            ("cpu,cpuacct/machine/a/cpu.rt_runtime_us", "0"),
            ("cpuset/cpuset.cpus", "0-1"),
        ];
        let place = machine(&format!("{V1_CPU}{V1_CPUSET}{HYBRID}"), own, &files);
        let (cpu, cpuset) = (
            (Version::V1, "cpu,cpuacct/machine/a"),
            (Version::V1, "cpuset"),
        );
        check(&place, &[Cpu], Ok(&[cpu]));
        check(&place, &[Cpu, Cpuset], Ok(&[cpu, cpuset]));
        assert_eq!(realtime_us(&place.1), Some(0));
        assert_eq!(hierarchies(&place.1).len(), 3);
        // A container sees its own group as the root of the mount.
        let own = "4:cpu,cpuacct:/docker/b\n";
        let place = machine(V1_CPU, own, &[("cpu,cpuacct/cpu.shares", "1024")]);
        check(&place, &[Cpu], Ok(&[(Version::V1, "cpu,cpuacct")]));
        check(&place, &[Cpuset], Err("controller cpuset"));
    }

    #[test]
    fn side_by_side_a_controller_is_where_it_is_mounted() {
        let files = [
            ("unified/cgroup.controllers", "cpuset"),
            ("unified/cgroup.subtree_control", "cpuset"),
            ("cpu,cpuacct/cpu.shares", "1024"),
        ];
        let own = "4:cpu,cpuacct:/\n0::/\n";
        let place = machine(&format!("{HYBRID}{V1_CPU}"), own, &files);
        let both = [(Version::V1, "cpu,cpuacct"), (Version::V2, "unified")];
        check(&place, &[Cpu, Cpuset], Ok(&both));
        assert_eq!(realtime_us(&place.1), None);
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_its_reason() {
        let none = machine("1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", &[]);
        check(&none, &[Cpu], Err("no control groups are mounted"));
        let read_only = machine(&V2.replace("rw,nosuid", "ro,nosuid"), "0::/\n", &[]);
        check(
            &read_only,
            &[Cpu],
            Err("mounted read-only at /sys/fs/cgroup"),
        );
        assert_eq!(hierarchies(&read_only.1).len(), 0);
        let bare = machine(V2, "0::/\n", &[("cgroup.controllers", "pids")]);
        check(&bare, &[Cpu], Err("is not delegated to this container"));
        let nothing = (
            tempfile::tempdir().unwrap(),
            Roots::under(std::path::Path::new("/nowhere")),
        );
        check(&nothing, &[Cpu], Err("/proc/self/cgroup is not there"));
    }
}

//! Control groups, cgroups(7), in version 1, version 2 or both: the groups of this process, and those
//! below which it can make a new one. Nothing is written here.

use std::path::PathBuf;

use crate::roots::Roots;

/// The most lines of mountinfo that are read.
const MOST_MOUNTS: usize = 4096;
/// The most levels between a group and the root of its hierarchy.
const MOST_LEVELS: usize = 64;

/// A controller that a group for trials needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// CPU time: quota and weight.
    Cpu,
    /// The set of CPUs on which its threads run.
    Cpuset,
}

impl Controller {
    /// Its name, which is the same in both versions.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Cpuset => "cpuset",
        }
    }
}

/// The interface of a group: its directory layout and the names of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Several hierarchies, each with one or a few controllers.
    V1,
    /// One hierarchy with all controllers.
    V2,
}

/// An existing group below which a new group with some of the wanted controllers can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its interface.
    pub version: Version,
    /// Its directory, below the root of the caller's `/sys`.
    pub dir: PathBuf,
    /// The wanted controllers that a group below it has.
    pub controllers: Vec<Controller>,
}

/// A mounted hierarchy, a line of /proc/self/mountinfo.
struct Mount {
    version: Version,
    /// The controllers of version 1; none in version 2.
    controllers: Vec<String>,
    /// The group at the top of the mount.
    root: String,
    /// The mount point, below `/sys`.
    mount_point: String,
    writable: bool,
}

/// The parents of a new group with these controllers: one in version 2, or one for each hierarchy of
/// version 1. Write permission is not tried.
///
/// # Errors
/// The reason why there is none, with the remedy.
pub fn parents(roots: &Roots, wanted: &[Controller]) -> Result<Vec<Parent>, String> {
    let own_groups = roots.proc("self/cgroup")?;
    let mounts = mounts(roots)?;
    if mounts.is_empty() {
        return Err(
            "no control groups are mounted below /sys: mount cgroup2 at /sys/fs/cgroup".to_owned(),
        );
    }
    let mut parents: Vec<Parent> = Vec::new();
    let mut not_in_v1: Vec<Controller> = Vec::new();
    for &controller in wanted {
        let is_v1_mount = |m: &&Mount| m.controllers.iter().any(|c| c == controller.name());
        let Some(mount) = mounts.iter().find(is_v1_mount) else {
            not_in_v1.push(controller);
            continue;
        };
        check_writable(mount)?;
        let dir = roots
            .sys
            .join(group_dir(roots, mount, &own_groups, Some(controller)));
        match parents.iter_mut().find(|p| p.dir == dir) {
            Some(parent) => parent.controllers.push(controller),
            None => parents.push(Parent {
                version: Version::V1,
                dir,
                controllers: vec![controller],
            }),
        }
    }
    if !not_in_v1.is_empty() {
        parents.push(parent_v2(roots, &mounts, &own_groups, not_in_v1)?);
    }
    Ok(parents)
}

/// The mount points of writable hierarchies that may have the controllers cpu and cpuset, in the caller's
/// `/sys`.
pub fn hierarchies(roots: &Roots) -> Vec<PathBuf> {
    let is_wanted = |m: &Mount| {
        m.version == Version::V2 || m.controllers.iter().any(|c| c == "cpu" || c == "cpuset")
    };
    (mounts(roots).unwrap_or_default().iter())
        .filter(|m| is_wanted(m) && m.writable)
        .map(|m| roots.sys.join(&m.mount_point))
        .collect()
}

/// The real-time budget of this process's group, in µs for each period; none unless the kernel schedules
/// real-time groups (CONFIG_RT_GROUP_SCHED, in version 1 alone).
pub fn realtime_us(roots: &Roots) -> Option<i64> {
    let own_groups = roots.proc("self/cgroup").ok()?;
    let mounts = mounts(roots).ok()?;
    let mount = (mounts.iter()).find(|m| m.controllers.iter().any(|c| c == "cpu"))?;
    let dir = group_dir(roots, mount, &own_groups, Some(Controller::Cpu));
    roots.sys_as(&format!("{dir}/cpu.rt_runtime_us"))
}

fn check_writable(mount: &Mount) -> Result<(), String> {
    if mount.writable {
        return Ok(());
    }
    Err(format!(
        "control groups are mounted read-only at /sys/{}: run outside of the container, or start it with writable ones",
        mount.mount_point
    ))
}

/// The nearest group, from this process's group up, whose children have the controllers.
fn parent_v2(
    roots: &Roots,
    mounts: &[Mount],
    own_groups: &str,
    wanted: Vec<Controller>,
) -> Result<Parent, String> {
    let names = (wanted.iter().map(|c| c.name()))
        .collect::<Vec<_>>()
        .join(" and ");
    let Some(mount) = mounts.iter().find(|m| m.version == Version::V2) else {
        return Err(format!(
            "no control groups with the controller {names} are mounted below /sys"
        ));
    };
    check_writable(mount)?;
    let has = |dir: &str, file: &str| {
        let text = roots.sys(&format!("{dir}/{file}")).unwrap_or_default();
        let available: Vec<&str> = text.split_whitespace().collect();
        wanted.iter().all(|c| available.contains(&c.name()))
    };
    let mut dir = group_dir(roots, mount, own_groups, None);
    for _ in 0..MOST_LEVELS {
        if has(&dir, "cgroup.subtree_control") {
            return Ok(Parent {
                version: Version::V2,
                dir: roots.sys.join(&dir),
                controllers: wanted,
            });
        }
        match dir.rsplit_once('/') {
            Some((parent, _)) if parent.len() >= mount.mount_point.len() => dir = parent.to_owned(),
            _ => break,
        }
    }
    let top = &mount.mount_point;
    Err(if has(top, "cgroup.controllers") {
        let enabled: Vec<String> = wanted.iter().map(|c| format!("+{}", c.name())).collect();
        format!(
            "controller {names} is not enabled for groups below /sys/{top}: as root: `echo \"{}\" > /sys/{top}/cgroup.subtree_control`",
            enabled.join(" ")
        )
    } else {
        format!(
            "controller {names} is not available in /sys/{top} (cgroup.controllers): it is not delegated to this container, or the kernel was built without it"
        )
    })
}

/// The controllers (empty in version 2) and the path of each group in the text of a
/// /proc/PID/cgroup, cgroups(7).
fn groups(cgroup: &str) -> impl Iterator<Item = (&str, &str)> {
    (cgroup.lines()).filter_map(|line| line.split_once(':')?.1.split_once(':'))
}

/// The values of `read` for this process's group with a controller and for each visible ancestor, from the
/// group up. `read` gets the directory of a group below `/sys`.
///
/// # Errors
/// The reason why /proc/self/cgroup cannot be read.
pub(crate) fn read_ancestors<T>(
    roots: &Roots,
    controller: &str,
    read: impl Fn(Version, &str) -> Option<T>,
) -> Result<Vec<T>, String> {
    let own_groups = roots.proc("self/cgroup")?;
    let mut values = Vec::new();
    for (controllers, path) in groups(&own_groups) {
        let (version, mounts) = if controllers.is_empty() {
            let mounts = ["fs/cgroup".to_owned(), "fs/cgroup/unified".to_owned()];
            (Version::V2, mounts)
        } else if controllers.split(',').any(|c| c == controller) {
            let mounts = [controllers, controller].map(|name| format!("fs/cgroup/{name}"));
            (Version::V1, mounts)
        } else {
            continue;
        };
        // One mount may be a link to the other, so that only the first one with values counts.
        let mount_values: Option<Vec<T>> = (mounts.iter())
            .filter(|mount| !mount.contains(".."))
            .map(|mount| {
                let dirs = levels(path).into_iter().map(|dir| format!("{mount}{dir}"));
                dirs.filter_map(|dir| read(version, &dir)).collect()
            })
            .find(|of_mount: &Vec<_>| !of_mount.is_empty());
        values.extend(mount_values.unwrap_or_default());
    }
    Ok(values)
}

/// The path of a group and those of its ancestors: `/a/b`, `/a` and the root (empty). The root alone for a
/// path that leads out of the mount.
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

/// The directory of this process's group in a hierarchy; the mount point if the group is not visible.
fn group_dir(
    roots: &Roots,
    mount: &Mount,
    own_groups: &str,
    controller: Option<Controller>,
) -> String {
    let has = |controllers: &str| match controller {
        Some(controller) => controllers.split(',').any(|c| c == controller.name()),
        None => controllers.is_empty(),
    };
    let path = groups(own_groups)
        .find_map(|(controllers, path)| has(controllers).then_some(path))
        .unwrap_or_default()
        .trim_end_matches('/');
    let below = match mount.root.as_str() {
        "/" => path,
        root => path.strip_prefix(root).unwrap_or_default(),
    };
    let dir = format!("{}{below}", mount.mount_point);
    let is_visible = !below.split('/').any(|part| part == "..") && roots.sys.join(&dir).is_dir();
    if is_visible {
        dir
    } else {
        mount.mount_point.clone()
    }
}

/// The hierarchies that are mounted below `/sys`, proc_pid_mountinfo(5).
fn mounts(roots: &Roots) -> Result<Vec<Mount>, String> {
    let text = roots.proc("self/mountinfo")?;
    Ok(text.lines().take(MOST_MOUNTS).filter_map(mount).collect())
}

/// A hierarchy by its line of mountinfo; none for a mount of something else, or not below `/sys`.
fn mount(line: &str) -> Option<Mount> {
    let (per_mount, file_system) = line.split_once(" - ")?;
    let mut fields = per_mount.split(' ').skip(3);
    let (root, mount_point, options) = (fields.next()?, fields.next()?, fields.next()?);
    let mut parts = file_system.split(' ');
    let (kind, _source, super_options) = (parts.next()?, parts.next()?, parts.next()?);
    let version = match kind {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let is_read_only = |list: &str| list.split(',').any(|option| option == "ro");
    Some(Mount {
        version,
        controllers: match version {
            Version::V1 => super_options.split(',').map(str::to_owned).collect(),
            Version::V2 => Vec::new(),
        },
        root: root.to_owned(),
        mount_point: (mount_point.strip_prefix("/sys/")?)
            .trim_end_matches('/')
            .to_owned(),
        writable: !is_read_only(options) && !is_read_only(super_options),
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

    /// Compares the parents with directories below /sys/fs/cgroup, or the refusal with a part of it.
    fn check(
        (dir, roots): &(tempfile::TempDir, Roots),
        wanted: &[Controller],
        expected: Result<&[(Version, &str)], &str>,
    ) {
        let top = dir.path().join("sys/fs/cgroup");
        match (parents(roots, wanted), expected) {
            (Ok(found), Ok(names)) => {
                let dirs: Vec<_> = found.into_iter().map(|p| (p.version, p.dir)).collect();
                let expected_dirs: Vec<_> =
                    names.iter().map(|(v, name)| (*v, top.join(name))).collect();
                assert_eq!(dirs, expected_dirs);
            }
            (Err(why), Err(needle)) => assert!(why.contains(needle), "{why}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    use Controller::{Cpu, Cpuset};

    #[test]
    fn the_levels_of_a_path_end_at_the_root() {
        assert_eq!(levels("/"), [""]);
        assert_eq!(levels("/a/b"), ["/a/b", "/a", ""]);
        assert_eq!(levels("/../../x"), [""]);
        assert_eq!(levels(&"/x".repeat(1000)).len(), MOST_LEVELS + 1);
    }

    #[test]
    fn in_version_2_the_parent_is_the_nearest_group_whose_children_have_the_controllers() {
        let tree = machine(
            V2,
            "0::/user.slice/session-1.scope\n",
            &[
                ("cgroup.controllers", "cpuset cpu io"),
                ("cgroup.subtree_control", "cpu memory"),
                ("user.slice/cgroup.subtree_control", "cpu"),
                ("user.slice/session-1.scope/cgroup.subtree_control", ""),
            ],
        );
        check(&tree, &[Cpu], Ok(&[(Version::V2, "user.slice")]));
        check(&tree, &[Cpu, Cpuset], Err("echo \"+cpu +cpuset\" >"));
        check(&tree, &[Cpuset], Err("is not enabled for groups below"));
    }

    #[test]
    fn in_version_1_each_controller_has_a_hierarchy_of_its_own() {
        let own = "5:cpuset:/\n4:cpu,cpuacct:/machine/a\n0::/\n";
        let files = [
            ("cpu,cpuacct/machine/a/cpu.shares", "1024"),
            ("cpu,cpuacct/machine/a/cpu.rt_runtime_us", "0"),
            ("cpuset/cpuset.cpus", "0-1"),
        ];
        let tree = machine(&format!("{V1_CPU}{V1_CPUSET}{HYBRID}"), own, &files);
        let (cpu, cpuset) = (
            (Version::V1, "cpu,cpuacct/machine/a"),
            (Version::V1, "cpuset"),
        );
        check(&tree, &[Cpu], Ok(&[cpu]));
        check(&tree, &[Cpu, Cpuset], Ok(&[cpu, cpuset]));
        assert_eq!(realtime_us(&tree.1), Some(0));
        assert_eq!(hierarchies(&tree.1).len(), 3);
        // A container sees its own group as the root of the mount.
        let in_docker = "4:cpu,cpuacct:/docker/b\n";
        let container = machine(V1_CPU, in_docker, &[("cpu,cpuacct/cpu.shares", "1024")]);
        check(&container, &[Cpu], Ok(&[(Version::V1, "cpu,cpuacct")]));
        check(&container, &[Cpuset], Err("controller cpuset"));
    }

    #[test]
    fn with_both_versions_a_controller_is_where_it_is_mounted() {
        let files = [
            ("unified/cgroup.controllers", "cpuset"),
            ("unified/cgroup.subtree_control", "cpuset"),
            ("cpu,cpuacct/cpu.shares", "1024"),
        ];
        let own = "4:cpu,cpuacct:/\n0::/\n";
        let tree = machine(&format!("{HYBRID}{V1_CPU}"), own, &files);
        let both = [(Version::V1, "cpu,cpuacct"), (Version::V2, "unified")];
        check(&tree, &[Cpu, Cpuset], Ok(&both));
        assert_eq!(realtime_us(&tree.1), None);
    }

    #[test]
    fn a_missing_controller_or_hierarchy_is_refused_with_its_reason() {
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

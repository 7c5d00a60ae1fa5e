use std::os::unix::fs::symlink;

use super::*;

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const V1: &str = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

/// A machine with these mounts, on which this process is known.
fn machine(mounts: &str) -> (tempfile::TempDir, Roots) {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("proc/self/mountinfo", mounts);
    put("proc/self/cgroup", "2:cpuset:/\n1:cpu:/\n0::/\n");
    put("sys/fs/cgroup/cgroup.subtree_control", "cpu cpuset");
    put("sys/fs/cgroup/cpu/cpu.shares", "1024");
    put("sys/fs/cgroup/cpuset/cpuset.mems", "0-1\n");
    let pid = std::process::id();
    let words: Vec<String> = (3..23).map(|n| n.to_string()).collect();
    put(
        &format!("proc/{pid}/stat"),
        &format!("{pid} (a ) b) {}", words.join(" ")),
    );
    fs::create_dir_all(dir.path().join("proc/self/ns")).unwrap();
    symlink("pid:[4026531836]", dir.path().join("proc/self/ns/pid")).unwrap();
    let roots = Roots::under(dir.path());
    (dir, roots)
}

/// The files of a group on a machine, each as `file=text`, and the first root.
fn written(mounts: &str, asked: &str) -> Vec<String> {
    let (dir, roots) = machine(mounts);
    let group = ControlGroups::make(&roots, &asked.parse().unwrap(), &[3, 4])
        .unwrap()
        .unwrap();
    let mut all = Vec::new();
    for made in &group.dirs {
        let kind = made.parent().unwrap().strip_prefix(dir.path()).unwrap();
        for entry in fs::read_dir(made).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap();
            let path = kind.join(entry.file_name());
            all.push(format!("{}={text}", path.display()));
        }
        assert!(Owner::from_name(made.file_name().unwrap().to_str().unwrap()).is_some());
    }
    assert_eq!(group.procs_files().len(), group.dirs.len());
    all.sort();
    all
}

#[test]
fn a_group_is_given_what_was_asked_in_the_words_of_its_version() {
    let all = "max=50%+weight=10+cpuset=0,1,2";
    assert_eq!(
        written(V2, all),
        [
            "sys/fs/cgroup/cpu.max=50000 100000",
            "sys/fs/cgroup/cpu.weight=10",
            "sys/fs/cgroup/cpuset.cpus=0-2",
        ]
    );
    assert_eq!(
        written(V1, all),
        [
            "sys/fs/cgroup/cpu/cpu.cfs_period_us=100000",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us=50000",
            "sys/fs/cgroup/cpu/cpu.shares=102",
            "sys/fs/cgroup/cpuset/cpuset.cpus=0-2",
            "sys/fs/cgroup/cpuset/cpuset.mems=0-1",
        ]
    );
    assert_eq!(written(V2, "cpuset"), ["sys/fs/cgroup/cpuset.cpus=3"]);
    let (_dir, roots) = machine(V2);
    assert!(
        ControlGroups::make(&roots, &Cgroup::default(), &[])
            .unwrap()
            .is_none()
    );
}

#[test]
fn throttling_is_read_in_the_unit_of_the_version() {
    let check = |text: &str, version, ns: Option<u64>| {
        let throttled = throttled(text, version);
        assert_eq!(throttled.map(|t| t.throttled_ns), ns, "{text}");
    };
    let counts = "nr_periods 40\nnr_throttled 7\n";
    let v1 = format!("{counts}throttled_time 5000\n");
    let v2 = format!("usage_usec 9\n{counts}throttled_usec 5\nnr_bursts 0\n");
    check(&v1, Version::V1, Some(5000));
    check(&v2, Version::V2, Some(5000));
    check(&v1, Version::V2, None);
    check("usage_usec 9\n", Version::V2, None);
    check(&v2.replace("40", "x"), Version::V2, None);
    let (from, to) = (throttled(&v1, Version::V1), throttled(&v2, Version::V2));
    let from = Ok(Throttled {
        periods: 30,
        ..from.unwrap()
    });
    let readings = Throttled::between(&from, &Ok(to.unwrap()));
    assert_eq!(readings[&Counter::CgroupPeriods], Reading::Measured(10));
    assert_eq!(readings[&Counter::CgroupThrottledNs], Reading::Measured(0));
    let gone = Throttled::between(&from, &Err("it is gone".to_owned()));
    assert_eq!(gone[&Counter::CgroupPeriods], Reading::absent("it is gone"));
}

// Invariant 9.
#[test]
fn groups_of_the_dead_go_and_those_of_the_living_and_of_others_stay() {
    let (dir, roots) = machine(&format!("{V1}{V2}"));
    let me = std::process::id();
    let groups = [
        (format!("cpu/bytecost-4026531836-{me}-22-0"), true),
        // The number has gone to another process since.
        (format!("cpu/bytecost-4026531836-{me}-21-0"), false),
        ("cpuset/a/b/bytecost-4026531836-999999999-1-3".into(), false),
        // Its number means nothing here.
        ("cpu/bytecost-1-999999999-1-0".into(), true),
        ("cpu/bytecost-x".into(), true),
        ("cpu/bytecost-4026531836-1-1".into(), true),
        ("other-4026531836-999999999-1-0".into(), true),
    ];
    let at = |path: &str| dir.path().join("sys/fs/cgroup").join(path);
    for (path, _) in &groups {
        fs::create_dir_all(at(path)).unwrap();
    }
    let removed = remove_leftovers(&roots);
    let all_gone = removed.iter().all(|(_, r)| matches!(r, Ok(true)));
    assert!(all_gone && removed.len() == 2, "{removed:?}");
    for (path, stays) in &groups {
        assert_eq!(at(path).exists(), *stays, "{path}");
    }
    assert!(remove_leftovers(&roots).is_empty());
}

#[test]
fn a_refused_group_is_reported_and_leaves_nothing() {
    let (dir, roots) = machine(V1);
    let asked: Cgroup = "weight=5+cpuset".parse().unwrap();
    fs::remove_file(dir.path().join("sys/fs/cgroup/cpuset/cpuset.mems")).unwrap();
    let why = ControlGroups::make(&roots, &asked, &[0]).unwrap_err();
    assert!(why.contains("cpuset.mems cannot be read"), "{why}");
    let mut left = fs::read_dir(dir.path().join("sys/fs/cgroup/cpuset")).unwrap();
    assert!(left.next().is_none());
    let lost = Roots::under(Path::new("/nowhere"));
    assert!(ControlGroups::make(&lost, &asked, &[0]).is_err());
    let read_only = io::ErrorKind::ReadOnlyFilesystem.into();
    let denied = failure("made", Path::new("x"), &read_only);
    assert!(denied.contains("outside of the container"), "{denied}");
}

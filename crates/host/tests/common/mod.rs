//! Recorded machines, unpacked into a temporary directory.
//!
//! A tree is a text: `path: content` for a file of one line, `path:` and lines indented by four
//! blanks for one of several, `#` for a comment. A list in braces stands for each of its
//! numbers: `cpu{0-1,8}/level: 1` are three files.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

use bytecost_host::{Probes, Roots, read};
use bytecost_spec::host::Check;
use bytecost_spec::{Host, cpulist};

pub const MACHINES: &[(&str, &str)] = &[
    ("vm", include_str!("../trees/vm.tree")),
    ("laptop", include_str!("../trees/laptop.tree")),
    ("server", include_str!("../trees/server.tree")),
    ("arm", include_str!("../trees/arm.tree")),
    ("container", include_str!("../trees/container.tree")),
];

/// Machines of which only the topology is recorded.
pub const TOPOLOGIES: &[(&str, &str)] = &[
    ("epyc", include_str!("../trees/epyc.tree")),
    ("kunpeng", include_str!("../trees/kunpeng.tree")),
    ("phone", include_str!("../trees/phone.tree")),
];

pub type Tree = BTreeMap<String, Vec<u8>>;

/// The files of a recorded machine.
pub fn tree(machine: &str) -> Tree {
    let mut machines = MACHINES.iter().chain(TOPOLOGIES);
    let (_, text) = machines.find(|(name, _)| *name == machine).unwrap();
    let mut tree = Tree::new();
    // The files that the indented lines belong to.
    let mut open: Option<Vec<String>> = None;
    for line in text.lines() {
        let inner = line.strip_prefix("    ").or(line.is_empty().then_some(""));
        if let (Some(inner), Some(paths)) = (inner, &open) {
            for path in paths {
                let content = tree.get_mut(path).unwrap();
                content.extend(inner.as_bytes());
                content.push(b'\n');
            }
        } else if !line.starts_with('#') {
            let (pattern, content) = line.split_once(':').unwrap_or_else(|| panic!("{line}"));
            let paths = expand(pattern);
            for path in &paths {
                let content = match content.trim() {
                    "" => Vec::new(),
                    one => format!("{one}\n").into_bytes(),
                };
                assert!(tree.insert(path.clone(), content).is_none(), "{path} twice");
            }
            open = content.is_empty().then_some(paths);
        }
    }
    tree
}

/// The paths that a path with lists in braces stands for.
fn expand(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (list, after) = rest.split_once('}').unwrap();
    let numbers = cpulist::parse(list).unwrap();
    let each = |n: &u32| expand(&format!("{before}{n}{after}"));
    numbers.iter().flat_map(each).collect()
}

/// A tree in a directory, where single files can be changed and changed back.
pub struct Unpacked {
    dir: tempfile::TempDir,
    tree: Tree,
}

impl Unpacked {
    pub fn new(tree: Tree) -> Unpacked {
        // Hundreds of small files: in memory where that is possible.
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let unpacked = Unpacked { dir, tree };
        for (path, content) in &unpacked.tree {
            unpacked.put(path, Some(content));
        }
        unpacked
    }

    /// Reads the machine with these files changed, or gone where there is no content.
    pub fn read(&self, changes: &[(String, Option<Vec<u8>>)], probes: &Probes) -> Host {
        for (path, content) in changes {
            self.put(path, content.as_deref());
        }
        let host = read(&Roots::under(self.dir.path()), probes);
        for (path, _) in changes {
            self.put(path, self.tree.get(path).map(Vec::as_slice));
        }
        host
    }

    fn put(&self, path: &str, content: Option<&[u8]>) {
        let path = self.dir.path().join(path);
        match content {
            Some(content) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            None => drop(fs::remove_file(path)),
        }
    }
}

/// Probes that have all failed, or have poor results.
pub fn probes() -> Probes {
    Probes {
        hardware_counters: Err("refused".to_owned()),
        io_uring: Err("refused".to_owned()),
        clock_resolution_ns: 4_000_000,
        timer_overshoot_ns: 1_000_000,
        cpu_clock: Default::default(),
        obstacles: Vec::new(),
        unseen: Vec::new(),
        congestion_controls: vec!["reno".to_owned(), "cubic".to_owned()],
    }
}

pub fn unpacked(machine: &str) -> Unpacked {
    Unpacked::new(tree(machine))
}

/// The facts of a recorded machine, which are read once.
pub fn host(machine: &str) -> Host {
    static HOSTS: Mutex<BTreeMap<String, Host>> = Mutex::new(BTreeMap::new());
    let mut hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    let read = || unpacked(machine).read(&[], &probes());
    hosts.entry(machine.to_owned()).or_insert_with(read).clone()
}

pub fn check<'a>(host: &'a Host, name: &str) -> &'a Check {
    let found = host.checks.iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("no check `{name}`"))
}

/// A file with another content, for [`Unpacked::read`].
pub fn change(path: &str, content: &str) -> (String, Option<Vec<u8>>) {
    (path.to_owned(), Some(content.as_bytes().to_vec()))
}

/// The columns of a row of a table, ` | ` between two.
pub fn columns<const N: usize>(row: &str) -> [&str; N] {
    let columns: Vec<&str> = row.trim().split(" | ").collect();
    columns.try_into().unwrap_or_else(|_| panic!("{row}"))
}

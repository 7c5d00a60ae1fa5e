//! Whose work a process does: its own, or that of whoever has started it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytecost_spec::evidence::Party;

use super::Parties;

/// How far back it is looked: a child of a server that is a child of its endpoint is the third.
const MOST_GENERATIONS: usize = 4;
/// The most starts that are kept of one window.
const MOST_STARTS: usize = 1 << 18;

/// Who has started whom, as far as that was seen or `/proc` still tells.
#[derive(Debug)]
pub(super) struct Families {
    root: PathBuf,
    /// The parent of each process; none of those that have none or are gone.
    parents: BTreeMap<u32, Option<u32>>,
}

impl Families {
    pub(super) fn new(root: &Path) -> Families {
        Families {
            root: root.to_owned(),
            parents: BTreeMap::new(),
        }
    }

    /// Forgets all: numbers of processes are used again.
    pub(super) fn clear(&mut self) {
        self.parents.clear();
    }

    /// A process was started.
    pub(super) fn started(&mut self, pid: u32, parent: u32) {
        if self.parents.len() < MOST_STARTS {
            self.parents.insert(pid, Some(parent));
        }
    }

    /// For whom a process works.
    pub(super) fn party(&mut self, pid: u32, parties: Parties) -> Party {
        let mut one = pid;
        for _ in 0..MOST_GENERATIONS {
            if one == parties.sender {
                return Party::Sender;
            }
            if Some(one) == parties.receiver {
                return Party::Receiver;
            }
            match self.parent(one) {
                Some(parent) => one = parent,
                None => break,
            }
        }
        Party::Rest
    }

    fn parent(&mut self, pid: u32) -> Option<u32> {
        if pid <= 1 {
            return None;
        }
        let root = &self.root;
        *self.parents.entry(pid).or_insert_with(|| {
            let stat = root.join("proc").join(pid.to_string()).join("stat");
            parent_in(&std::fs::read_to_string(stat).ok()?)
        })
    }
}

/// The fourth field of `/proc/PID/stat`, proc_pid_stat(5). The second, a name in brackets, may hold
/// anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn who_was_started_by_a_party_works_for_it() {
        let root = tempfile::tempdir().unwrap();
        for (pid, parent) in [(11, 10), (12, 11), (30, 1), (90, 99), (99, 90)] {
            let place = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&place).unwrap();
            let text = format!("{pid} (a) strange) name) S {parent} 1 1 0 -1\n");
            fs::write(place.join("stat"), text).unwrap();
        }
        let mut families = Families::new(root.path());
        // It has ended since.
        families.started(50, 20);
        families.started(51, 50);
        let parties = Parties {
            sender: 10,
            receiver: Some(20),
        };
        let mut check = |pid, expected| assert_eq!(families.party(pid, parties), expected, "{pid}");
        check(10, Party::Sender);
        check(11, Party::Sender);
        check(12, Party::Sender);
        check(20, Party::Receiver);
        check(50, Party::Receiver);
        check(51, Party::Receiver);
        check(30, Party::Rest);
        check(77, Party::Rest);
        check(90, Party::Rest);
        check(0, Party::Rest);
        families.clear();
        assert_eq!(families.party(50, parties), Party::Rest);
    }

    #[test]
    fn a_line_that_tells_no_parent_is_none() {
        let check = |text, expected| assert_eq!(parent_in(text), expected, "{text}");
        check("7 (sh) S 3 7", Some(3));
        check("7 (sh) S", None);
        check("7 (sh) S x", None);
        check("7 sh S 3", None);
        check("", None);
    }
}

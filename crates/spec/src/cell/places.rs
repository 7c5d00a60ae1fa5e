//! Places on the machine: CPUs of threads, by number or by their distance, and of the background load.

use std::fmt;
use std::str::FromStr;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::cpulist;

choice! {
    /// The distance of two CPUs, by what they share. The machine's topology gives the CPUs.
    pub enum Nearness {
        /// One logical CPU for both.
        #[default]
        SameCpu,
        /// Two hardware threads of one core.
        SmtSibling,
        /// Two cores that share a cache.
        SameCache,
        /// Two cores of one node that share no cache.
        CrossCache,
        /// Two cores on different nodes.
        CrossNode,
    }
}

impl Nearness {
    /// Description for lists of placements.
    pub fn summary(self) -> &'static str {
        match self {
            Nearness::SameCpu => "both ends on one logical CPU",
            Nearness::SmtSibling => "on two hardware threads of one core",
            Nearness::SameCache => "on two cores that share a cache",
            Nearness::CrossCache => "on two cores of one node that share no cache",
            Nearness::CrossNode => "on two NUMA nodes",
        }
    }

    fn from_name(text: &str) -> Option<Nearness> {
        Nearness::ALL.iter().copied().find(|n| n.name() == text)
    }

    fn quoted_names() -> String {
        let mut names = Nearness::ALL.iter().map(|n| format!("`{}`", n.name()));
        names.join(", ")
    }
}

/// The CPUs that the two ends run on. Flow `i` takes the `i`-th CPU of each list, modulo its length;
/// flows without a peer take from both lists in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The scheduler decides.
    #[default]
    Free,
    /// Pinned.
    Cpus {
        /// CPUs of the sender's threads; never empty.
        sender: Vec<u32>,
        /// CPUs of the receiver's threads; never empty.
        receiver: Vec<u32>,
    },
    /// Every thread may run on each of these CPUs.
    Within {
        /// The CPUs; never empty.
        cpus: Vec<u32>,
    },
    /// Pinned, each flow to a pair of CPUs at this distance.
    Near(Nearness),
    /// Pinned, each flow to the nearest two cores; to two threads of a core, or to one CPU, if the
    /// machine has no other.
    Pinned,
    /// All pairs of CPUs, or some of each distance. The plan replaces it by cells with `A:B`, so that
    /// no cell of a plan has it.
    Pairs,
}

/// The name of [`Placement::Pinned`].
pub const PINNED: &str = "pinned";

/// The name of [`Placement::Pairs`].
pub const PAIRS: &str = "pairs";

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Free => f.write_str("free"),
            Placement::Cpus { sender, receiver } => {
                write!(
                    f,
                    "{}:{}",
                    cpulist::write_in_order(sender),
                    cpulist::write_in_order(receiver)
                )
            }
            Placement::Within { cpus } => f.write_str(&cpulist::write_in_order(cpus)),
            Placement::Near(nearness) => f.write_str(nearness.name()),
            Placement::Pinned => f.write_str(PINNED),
            Placement::Pairs => f.write_str(PAIRS),
        }
    }
}

impl FromStr for Placement {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "free" => return Ok(Placement::Free),
            PINNED => return Ok(Placement::Pinned),
            PAIRS => return Ok(Placement::Pairs),
            _ => {}
        }
        if let Some(nearness) = Nearness::from_name(text) {
            return Ok(Placement::Near(nearness));
        }
        let wrong = || {
            Invalid(format!(
                "placement `{text}`: write `free`, `pinned`, {}, `pairs`, or CPUs as SENDER:RECEIVER or as a list for both, for example 0:1, 0,2:1,3 or 0-3",
                Nearness::quoted_names()
            ))
        };
        let cpus = |list| cpulist::parse_in_order(list).ok_or_else(wrong);
        match text.split_once(':') {
            Some((sender, receiver)) => Ok(Placement::Cpus {
                sender: cpus(sender)?,
                receiver: cpus(receiver)?,
            }),
            None => Ok(Placement::Within { cpus: cpus(text)? }),
        }
    }
}

choice! {
    /// The work of a background load.
    pub enum LoadKind {
        /// Nothing.
        #[default]
        Idle,
        /// Arithmetic in registers.
        Spin,
        /// Reading and writing memory in order, more of it than the caches hold.
        Stream,
        /// Following pointers through memory, more of it than the caches hold.
        Chase,
        /// Pauses in a loop in the class SCHED_IDLE: takes no time from others, and keeps CPUs that the
        /// trial leaves idle from a sleep state.
        Awake,
    }
}

/// The CPUs that a background load runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LoadPosition {
    /// Where the scheduler puts it.
    #[default]
    Free,
    /// At this distance from the CPU of the sender's first thread.
    Near(Nearness),
    /// One thread on each CPU that the process may use.
    All,
    /// One thread on each of these CPUs; never empty.
    Cpus(Vec<u32>),
}

/// A background load, which keeps CPUs busy during a trial: `spin`, `chase@smt-sibling`,
/// `stream@2,3`. It is a process of bytecost's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CompetingLoad {
    /// Its work.
    pub noise: LoadKind,
    /// Its CPUs.
    pub spot: LoadPosition,
}

impl CompetingLoad {
    /// Returns true if there is no background load.
    pub fn is_idle(&self) -> bool {
        self.noise == LoadKind::Idle
    }

    /// Returns true if it takes no CPU time from the trial.
    pub fn takes_no_time(&self) -> bool {
        matches!(self.noise, LoadKind::Idle | LoadKind::Awake)
    }
}

impl fmt::Display for CompetingLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noise.name())?;
        match &self.spot {
            LoadPosition::Free => Ok(()),
            LoadPosition::All if self.noise == LoadKind::Awake => Ok(()),
            LoadPosition::Near(nearness) => write!(f, "@{}", nearness.name()),
            LoadPosition::All => f.write_str("@all"),
            LoadPosition::Cpus(cpus) => write!(f, "@{}", cpulist::write_in_order(cpus)),
        }
    }
}

impl FromStr for CompetingLoad {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid(format!(
                "background load `{text}`: write `idle`, `awake`, or `spin`, `stream` or `chase`, alone or with a place, for example spin@smt-sibling or spin@2,3; places are {}, relative to the sender's CPU, `all`, and lists of CPUs",
                Nearness::quoted_names()
            ))
        };
        let (noise, place) = match text.split_once('@') {
            Some((noise, place)) => (noise, Some(place)),
            None => (text, None),
        };
        let noise = (LoadKind::ALL.iter().copied())
            .find(|n| n.name() == noise)
            .ok_or_else(wrong)?;
        let spot = match place {
            None | Some("free") if noise == LoadKind::Awake => LoadPosition::All,
            None => LoadPosition::Free,
            Some(_) if noise == LoadKind::Idle => return Err(wrong()),
            Some("free") => LoadPosition::Free,
            Some("all") => LoadPosition::All,
            Some(place) => match Nearness::from_name(place) {
                Some(nearness) => LoadPosition::Near(nearness),
                None => LoadPosition::Cpus(cpulist::parse_in_order(place).ok_or_else(wrong)?),
            },
        };
        Ok(CompetingLoad { noise, spot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_names_pairs_and_lists() {
        let cpus = |sender: &[u32], receiver: &[u32]| Placement::Cpus {
            sender: sender.to_vec(),
            receiver: receiver.to_vec(),
        };
        let within = |list: &[u32]| Placement::Within {
            cpus: list.to_vec(),
        };
        let near = (Nearness::ALL.iter()).map(|n| (n.name(), n.name(), Placement::Near(*n)));
        let others = [
            ("free", "free", Placement::Free),
            ("pairs", "pairs", Placement::Pairs),
            ("pinned", "pinned", Placement::Pinned),
            ("0:1", "0:1", cpus(&[0], &[1])),
            ("0, 2:1,1", "0,2:1,1", cpus(&[0, 2], &[1, 1])),
            ("0-2:8", "0,1,2:8", cpus(&[0, 1, 2], &[8])),
            ("3", "3", within(&[3])),
            ("4-5,0", "4,5,0", within(&[4, 5, 0])),
        ];
        for (text, written, expected) in others.into_iter().chain(near) {
            let read: Placement = text.parse().unwrap();
            assert_eq!(read, expected, "{text}");
            assert_eq!(read.to_string(), written);
            assert_eq!(written.parse(), Ok(expected));
        }
        for wrong in ["", ":", "0:", "left", "2-1", "8192", "0-512", "-1", "0:1:2"] {
            let error = wrong.parse::<Placement>().unwrap_err().to_string();
            assert!(error.contains("SENDER:RECEIVER"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_background_load_is_a_kind_of_work_and_a_place() {
        for (text, noise, spot) in [
            ("idle", LoadKind::Idle, LoadPosition::Free),
            ("spin", LoadKind::Spin, LoadPosition::Free),
            (
                "chase@smt-sibling",
                LoadKind::Chase,
                LoadPosition::Near(Nearness::SmtSibling),
            ),
            (
                "stream@2,3",
                LoadKind::Stream,
                LoadPosition::Cpus(vec![2, 3]),
            ),
            ("spin@all", LoadKind::Spin, LoadPosition::All),
            ("awake", LoadKind::Awake, LoadPosition::All),
            ("awake@0", LoadKind::Awake, LoadPosition::Cpus(vec![0])),
        ] {
            let neighbour = CompetingLoad { noise, spot };
            assert_eq!(text.parse().as_ref(), Ok(&neighbour));
            assert_eq!(neighbour.to_string(), text);
        }
        let everywhere: CompetingLoad = "awake@all".parse().unwrap();
        assert_eq!(everywhere.to_string(), "awake");
        for wrong in ["", "idle@0", "spin@", "spin@left", "@0", "spin@1@2", "rest"] {
            let error = wrong.parse::<CompetingLoad>().unwrap_err().to_string();
            assert!(error.contains("spin@smt-sibling"), "{wrong}: {error}");
        }
    }
}

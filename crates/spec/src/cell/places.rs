//! Where threads run and memory lies: CPUs by number or by how near they are to each other, a
//! neighbour beside the trial, a node for its memory.

use std::fmt;
use std::str::FromStr;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::Invalid;

/// One more than the largest number of a CPU or a node; Linux has at most 8,192 CPUs.
pub const MOST_CPUS: u32 = 8192;
/// The most CPUs that a list names: as many as there can be flows, twice.
const MOST_LISTED: usize = 512;

choice! {
    /// How near two CPUs are to each other. Which ones that are is the machine's to say.
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
    /// What it means, for lists.
    pub fn summary(self) -> &'static str {
        match self {
            Nearness::SameCpu => "both ends on one logical CPU",
            Nearness::SmtSibling => "on two hardware threads of one core",
            Nearness::SameCache => "on two cores that share a cache",
            Nearness::CrossCache => "on two cores of one node that share no cache",
            Nearness::CrossNode => "on two NUMA nodes",
        }
    }

    fn named(text: &str) -> Option<Nearness> {
        Nearness::ALL.iter().copied().find(|n| n.name() == text)
    }

    fn names() -> String {
        let mut names = Nearness::ALL.iter().map(|n| format!("`{}`", n.name()));
        names.join(", ")
    }
}

/// Which CPUs the two ends run on. Flow `i` takes the `i`-th of each list, going round; where
/// there is no other end, flows take from both lists in turn.
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
    /// Pinned, each flow to a pair of CPUs that are so near to each other.
    Near(Nearness),
    /// Pinned, each flow to the nearest two cores; to two threads of one, or to one CPU, where there
    /// are no others.
    Pinned,
    /// Stands for several: `A:B` for all pairs of CPUs, or for some of each distance. No cell of a
    /// plan has it.
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
                write!(f, "{}:{}", written(sender), written(receiver))
            }
            Placement::Within { cpus } => f.write_str(&written(cpus)),
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
        if let Some(nearness) = Nearness::named(text) {
            return Ok(Placement::Near(nearness));
        }
        let wrong = || {
            Invalid(format!(
                "placement `{text}`: write `free`, `pinned`, {}, `pairs`, or CPUs as SENDER:RECEIVER or as a list for both, for example 0:1, 0,2:1,3 or 0-3",
                Nearness::names()
            ))
        };
        let list = |part| list(part).ok_or_else(wrong);
        match text.split_once(':') {
            Some((sender, receiver)) => Ok(Placement::Cpus {
                sender: list(sender)?,
                receiver: list(receiver)?,
            }),
            None => Ok(Placement::Within { cpus: list(text)? }),
        }
    }
}

choice! {
    /// What keeps a CPU busy beside a trial.
    pub enum Noise {
        /// Nothing.
        #[default]
        Idle,
        /// Arithmetic in registers.
        Spin,
        /// Reading and writing memory in order, more of it than the caches hold.
        Stream,
        /// Following pointers through memory, more of it than the caches hold.
        Chase,
        /// Nothing that takes time from others: a loop of pauses in the class SCHED_IDLE, so that no
        /// CPU falls asleep where the trial has nothing for it to do.
        Awake,
    }
}

/// Where a neighbour runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Spot {
    /// Where the scheduler puts it.
    #[default]
    Free,
    /// So near to the CPU of the sender's first thread.
    Near(Nearness),
    /// One thread on each CPU that may be used.
    All,
    /// One thread on each of these CPUs; never empty.
    Cpus(Vec<u32>),
}

/// A process of the lab's own that keeps CPUs busy beside a trial: `spin`, `chase@smt-sibling`,
/// `stream@2,3`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// What it does.
    pub noise: Noise,
    /// Where.
    pub spot: Spot,
}

impl Neighbour {
    /// Whether there is none.
    pub fn is_idle(&self) -> bool {
        self.noise == Noise::Idle
    }

    /// Whether a trial has all the time of its CPUs beside it.
    pub fn takes_no_time(&self) -> bool {
        matches!(self.noise, Noise::Idle | Noise::Awake)
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noise.name())?;
        match &self.spot {
            Spot::Free => Ok(()),
            Spot::All if self.noise == Noise::Awake => Ok(()),
            Spot::Near(nearness) => write!(f, "@{}", nearness.name()),
            Spot::All => f.write_str("@all"),
            Spot::Cpus(cpus) => write!(f, "@{}", written(cpus)),
        }
    }
}

impl FromStr for Neighbour {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid(format!(
                "background load `{text}`: write `idle`, `awake`, or `spin`, `stream` or `chase`, alone or with a place, for example spin@smt-sibling or spin@2,3; places are {}, relative to the sender's CPU, `all`, and lists of CPUs",
                Nearness::names()
            ))
        };
        let (noise, place) = match text.split_once('@') {
            Some((noise, place)) => (noise, Some(place)),
            None => (text, None),
        };
        let noise = (Noise::ALL.iter().copied())
            .find(|n| n.name() == noise)
            .ok_or_else(wrong)?;
        let spot = match place {
            None | Some("free") if noise == Noise::Awake => Spot::All,
            None => Spot::Free,
            Some(_) if noise == Noise::Idle => return Err(wrong()),
            Some("free") => Spot::Free,
            Some("all") => Spot::All,
            Some(place) => match Nearness::named(place) {
                Some(nearness) => Spot::Near(nearness),
                None => Spot::Cpus(list(place).ok_or_else(wrong)?),
            },
        };
        Ok(Neighbour { noise, spot })
    }
}

/// Numbers and ranges in their order: `0,2` or `0-3,8`. None where it is no list or too long.
pub(super) fn list(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| text.trim().parse().ok().filter(|n: &u32| *n < MOST_CPUS);
    let mut cpus: Vec<u32> = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return None;
        }
        // A CPU that is named twice in `A:B` lists is two flows on it, in their order.
        cpus.extend((first..=last).take(MOST_LISTED + 1));
        if cpus.len() > MOST_LISTED {
            return None;
        }
    }
    Some(cpus)
}

pub(super) fn written(cpus: &[u32]) -> String {
    cpus.iter().join(",")
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
        let within = |cpus: &[u32]| Placement::Within {
            cpus: cpus.to_vec(),
        };
        let near = Nearness::ALL.iter();
        let near = near.map(|n| (n.name(), n.name(), Placement::Near(*n)));
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
    fn neighbours_are_a_noise_and_a_place() {
        for (text, noise, spot) in [
            ("idle", Noise::Idle, Spot::Free),
            ("spin", Noise::Spin, Spot::Free),
            (
                "chase@smt-sibling",
                Noise::Chase,
                Spot::Near(Nearness::SmtSibling),
            ),
            ("stream@2,3", Noise::Stream, Spot::Cpus(vec![2, 3])),
            ("spin@all", Noise::Spin, Spot::All),
            ("awake", Noise::Awake, Spot::All),
            ("awake@0", Noise::Awake, Spot::Cpus(vec![0])),
        ] {
            let neighbour = Neighbour { noise, spot };
            assert_eq!(text.parse().as_ref(), Ok(&neighbour));
            assert_eq!(neighbour.to_string(), text);
        }
        let all: Neighbour = "awake@all".parse().unwrap();
        assert_eq!(all.to_string(), "awake");
        for wrong in ["", "idle@0", "spin@", "spin@left", "@0", "spin@1@2", "rest"] {
            let error = wrong.parse::<Neighbour>().unwrap_err().to_string();
            assert!(error.contains("spin@smt-sibling"), "{wrong}: {error}");
        }
    }
}

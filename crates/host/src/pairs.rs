//! Pairs of CPUs that tell what distance costs: all, or on large machines those of a few CPUs with
//! each kind of distance among them. Pure, as [`crate::placement`]: one machine always gives the
//! same answer.

use bytecost_spec::host::{Cpu, Distance};
use bytecost_spec::{Host, Placement, Value};

use crate::placement::usable;

/// The most CPUs whose pairs are measured: 36 pairs.
pub const MOST_CPUS: usize = 8;

/// What a new kind of distance counts against another pair of one that is there already.
const NEW: u64 = 1000;

/// CPUs and their pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The CPUs, by number; never empty.
    pub cpus: Vec<u32>,
    /// How many there are to choose from.
    pub usable: usize,
    /// Every two of them once, and each with itself: from near to far, the lower number first.
    pub pairs: Vec<(u32, u32)>,
}

impl Pairs {
    /// The pairs as values of the axis `placement`.
    pub fn placements(&self) -> Vec<Value> {
        self.pairs
            .iter()
            .map(|pair| Value::Word(written(*pair)))
            .collect()
    }

    /// What others are held against: the nearest two CPUs, or the one CPU where there is no other.
    pub fn nearest(&self) -> Value {
        let two = self.pairs.iter().find(|(a, b)| a != b);
        let pair = two.or(self.pairs.first()).copied();
        Value::Word(pair.map_or_else(String::new, written))
    }

    /// What a reader must know where not all CPUs are among them; none where they are.
    pub fn note(&self, host: &Host) -> Option<String> {
        if self.cpus.len() == self.usable {
            return None;
        }
        let mut told: Vec<Distance> = Vec::new();
        let mut examples = Vec::new();
        for &(a, b) in self.pairs.iter().filter(|(a, b)| a != b) {
            let class = host.distance(a, b).class();
            if !told.contains(&class) {
                told.push(class);
                examples.push(format!("{} ({})", written((a, b)), shares(host, a, b)));
            }
        }
        let list: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
        Some(format!(
            "pairs: CPUs {} stand for all {}, so that each kind of distance is among their pairs: {}; name others with --placement, as in {}",
            list.join(", "),
            self.usable,
            examples.join(", "),
            self.nearest()
        ))
    }
}

fn shares(host: &Host, a: u32, b: u32) -> String {
    let shared = host.shared(a, b);
    match shared.strip_prefix("nothing: ") {
        Some(nodes) => nodes.to_owned(),
        None => format!("share {shared}"),
    }
}

fn written((a, b): (u32, u32)) -> String {
    let placement = Placement::Cpus {
        sender: vec![a],
        receiver: vec![b],
    };
    placement.to_string()
}

/// The pairs of at most [`MOST_CPUS`] usable CPUs: first the first of the fastest kind, then each
/// that brings the most new classes of distance ([`Distance::class`]), then rare ones, then the
/// lowest place.
///
/// # Errors
/// That the kernel tells no CPUs.
pub fn choose(host: &Host) -> Result<Pairs, String> {
    let all = usable(host);
    let mut left: Vec<(&Cpu, Vec<Distance>)> = all.iter().map(|c| (*c, Vec::new())).collect();
    let mut cpus: Vec<u32> = Vec::new();
    let mut there: Vec<Distance> = Vec::new();
    while !left.is_empty() && cpus.len() < MOST_CPUS {
        let best = (0..left.len()).max_by_key(|at| {
            let worth = worth(&left[*at].1, &there);
            (worth, std::cmp::Reverse(*at))
        });
        let (next, distances) = left.remove(best.unwrap_or(0));
        there.extend(distances);
        cpus.push(next.cpu);
        for (cpu, distances) in &mut left {
            distances.push(host.distance(next.cpu, cpu.cpu));
        }
    }
    if cpus.is_empty() {
        return Err(
            "placement pairs: the kernel does not report the CPUs: name them, as in 0:1".to_owned(),
        );
    }
    cpus.sort_unstable();
    let from = |(i, a): (usize, &u32)| cpus[i..].iter().map(|b| (*a, *b)).collect::<Vec<_>>();
    let mut pairs: Vec<(u32, u32)> = cpus.iter().enumerate().flat_map(from).collect();
    pairs.sort_by_cached_key(|(a, b)| (host.distance(*a, *b).class(), *a, *b));
    Ok(Pairs {
        usable: all.len(),
        pairs,
        cpus,
    })
}

/// New classes of distance, and how rare all of them are among those that are there.
fn worth(distances: &[Distance], there: &[Distance]) -> (usize, u64) {
    let mut known: Vec<Distance> = there.iter().map(Distance::class).collect();
    let before = known.len();
    let mut rarity = 0;
    for (i, distance) in distances.iter().enumerate() {
        let class = distance.class();
        if !known.contains(&class) {
            known.push(class);
        }
        let like = there.iter().chain(&distances[..i]);
        rarity += NEW / (1 + like.filter(|d| *d == distance).count() as u64);
    }
    (known.len() - before, rarity)
}

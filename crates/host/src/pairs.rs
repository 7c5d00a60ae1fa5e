//! Pairs of CPUs for a measurement of what distance costs: all pairs, or on large machines those of a
//! few CPUs that have each class of distance among them. A pure function of the [`Host`].

use bytecost_spec::host::{Cpu, Distance};
use bytecost_spec::{Host, Placement, Value};

use crate::placement::usable;

/// The most CPUs whose pairs are measured: 36 pairs.
pub const MOST_CPUS: usize = 8;

/// The rarity of a distance that no chosen pair has; that of one which n pairs have is the (n + 1)th
/// part.
const MAX_RARITY: u64 = 1000;

/// The chosen CPUs, and each pair of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The chosen CPUs in ascending order; never empty.
    pub cpus: Vec<u32>,
    /// The number of CPUs that this process may use, from which they were chosen.
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

    /// The baseline of the axis: the nearest two CPUs, or the one CPU where there is no other.
    pub fn nearest(&self) -> Value {
        let two = self.pairs.iter().find(|(a, b)| a != b);
        let pair = two.or(self.pairs.first()).copied();
        Value::Word(pair.map_or_else(String::new, written))
    }

    /// A note that the chosen CPUs stand for all, with an example of each class of distance; none
    /// where all CPUs are chosen.
    pub fn note(&self, host: &Host) -> Option<String> {
        if self.cpus.len() == self.usable {
            return None;
        }
        let mut classes: Vec<Distance> = Vec::new();
        let mut examples = Vec::new();
        for &(a, b) in self.pairs.iter().filter(|(a, b)| a != b) {
            let class = host.distance(a, b).class();
            if !classes.contains(&class) {
                classes.push(class);
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

/// The parts of the machine that two CPUs share, as a clause.
fn shares(host: &Host, a: u32, b: u32) -> String {
    let shared = host.shared(a, b);
    match shared.strip_prefix("nothing: ") {
        Some(nodes) => nodes.to_owned(),
        None => format!("share {shared}"),
    }
}

/// A pair as `--placement` takes it: `0:1`.
fn written((a, b): (u32, u32)) -> String {
    let placement = Placement::Cpus {
        sender: vec![a],
        receiver: vec![b],
    };
    placement.to_string()
}

/// The pairs of at most [`MOST_CPUS`] usable CPUs. The first CPU is the lowest of the fastest kind;
/// each further one is that with the most new classes of distance ([`Distance::class`]) to those
/// before it, then that with the rarest distances, then the lowest.
///
/// # Errors
/// The kernel does not report the CPUs.
pub fn choose(host: &Host) -> Result<Pairs, String> {
    let usable = usable(host);
    // Each with its distances to the chosen CPUs.
    let mut candidates: Vec<(&Cpu, Vec<Distance>)> =
        usable.iter().map(|c| (*c, Vec::new())).collect();
    let mut cpus: Vec<u32> = Vec::new();
    let mut covered: Vec<Distance> = Vec::new();
    while !candidates.is_empty() && cpus.len() < MOST_CPUS {
        let best = (0..candidates.len()).max_by_key(|index| {
            let novelty = novelty(&candidates[*index].1, &covered);
            (novelty, std::cmp::Reverse(*index))
        });
        let (next, distances) = candidates.remove(best.unwrap_or(0));
        covered.extend(distances);
        cpus.push(next.cpu);
        for (cpu, to_chosen) in &mut candidates {
            to_chosen.push(host.distance(next.cpu, cpu.cpu));
        }
    }
    if cpus.is_empty() {
        return Err(
            "the kernel does not report the CPUs for placement pairs: name them, as in 0:1"
                .to_owned(),
        );
    }
    cpus.sort_unstable();
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (i, a) in cpus.iter().enumerate() {
        pairs.extend(cpus[i..].iter().map(|b| (*a, *b)));
    }
    pairs.sort_by_cached_key(|(a, b)| (host.distance(*a, *b).class(), *a, *b));
    Ok(Pairs {
        usable: usable.len(),
        pairs,
        cpus,
    })
}

/// The number of classes of distance that are not covered yet, and the sum of the rarities of all
/// distances.
fn novelty(distances: &[Distance], covered: &[Distance]) -> (usize, u64) {
    let mut known: Vec<Distance> = covered.iter().map(Distance::class).collect();
    let before = known.len();
    let mut rarity = 0;
    for (i, distance) in distances.iter().enumerate() {
        let class = distance.class();
        if !known.contains(&class) {
            known.push(class);
        }
        let equal = (covered.iter().chain(&distances[..i])).filter(|d| *d == distance);
        rarity += MAX_RARITY / (1 + equal.count() as u64);
    }
    (known.len() - before, rarity)
}

//! Where the cost of an access steps up over the working set, held against the caches that the
//! kernel reports.

use std::collections::BTreeSet;

use bytecost_spec::host::CpuCache;
use bytecost_spec::units::{bytes_in_words, number};
use bytecost_spec::{HugePages, Measure, Metric};

use super::{Explained, Why};
use crate::phrases;

const CHASE: &str = "work-chase";
const METRIC: Metric = Metric::both(Measure::CpuNsPerMessage);
/// A rise of so much between two sizes, with intervals apart, is a step.
const RISE: f64 = 1.25;

/// What an access costs with a working set.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: u64,
    ns: f64,
    low: f64,
    high: f64,
}

/// A rise over one or several sizes.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: Point,
    to: Point,
}

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let asked = |c: &bytecost_spec::Cell| c.mover == CHASE && c.neighbour.is_idle();
    let planned = why.view.trials.moving().filter(|c| asked(c.cell));
    let sizes: BTreeSet<(HugePages, u64)> = planned
        .map(|c| (c.cell.huge_pages, c.cell.size_bytes))
        .collect();
    let of = |pages: &HugePages| sizes.iter().filter(|(p, _)| p == pages).count();
    let kinds: Vec<HugePages> = [HugePages::Auto, HugePages::Off, HugePages::On]
        .into_iter()
        .filter(|pages| of(pages) >= 3)
        .collect();
    if kinds.is_empty() {
        return None;
    }
    let caches = caches(why);
    let (mut answers, mut numbers, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
    for pages in kinds.iter().copied() {
        // Where there is one kind of pages alone, it is not worth a word.
        let of_pages = match (kinds.len() > 1).then_some(pages) {
            None => "",
            Some(HugePages::Auto) => "in the system's pages, ",
            Some(HugePages::Off) => "in small pages, ",
            Some(HugePages::On) => "in huge pages, ",
        };
        let points = points(why, pages);
        let steps = steps(&points);
        answers.push(answer(&points, &steps, &caches).map(|told| format!("{of_pages}{told}")));
        numbers.extend(
            steps
                .iter()
                .map(|s| format!("{of_pages}{}", told(s, &caches))),
        );
        evidence.extend(points.iter().map(|p| {
            format!(
                "{of_pages}{}: {} ns (95 % interval {} to {})",
                bytes_in_words(p.bytes),
                number(p.ns),
                number(p.low),
                number(p.high)
            )
        }));
    }
    let missing = answers.iter().find_map(|a| a.as_ref().err().cloned());
    let known: Vec<String> = answers.into_iter().flatten().collect();
    Some(Explained {
        answer: match missing {
            Some(missing) if known.is_empty() => Err(missing),
            _ => Ok(known
                .iter()
                .map(|told| phrases::capital(told))
                .collect::<Vec<_>>()
                .join(" ")),
        },
        numbers,
        evidence,
        would_change: "huge pages (--huge-pages on), which take most misses of the translation buffers away, other sizes between those that were measured, and a quiet machine",
        findings: Vec::new(),
    })
}

/// One a size, of the first placement that was measured, by rising size.
fn points(why: &Why<'_>, pages: HugePages) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for cell in why
        .cells(CHASE)
        .filter(|c| c.cell.neighbour.is_idle() && c.cell.threads == 1)
        .filter(|c| c.cell.huge_pages == pages)
    {
        let Some(e) = cell.estimates.get(&METRIC) else {
            continue;
        };
        let (Some(low), Some(high)) = (e.low, e.high) else {
            continue;
        };
        let bytes = cell.cell.size_bytes;
        if points.iter().all(|p| p.bytes != bytes) {
            points.push(Point {
                bytes,
                ns: e.value,
                low,
                high,
            });
        }
    }
    points.sort_by_key(|p| p.bytes);
    points
}

/// Rises that follow each other are one.
fn steps(points: &[Point]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if to.ns < RISE * from.ns || to.low <= from.high {
            continue;
        }
        match steps.last_mut() {
            Some(last) if last.to.bytes == from.bytes => last.to = to,
            _ => steps.push(Step { from, to }),
        }
    }
    steps
}

/// The caches of data, one a level, by rising size.
fn caches<'w>(why: &Why<'w>) -> Vec<&'w CpuCache> {
    let all = &why.view.input.manifest.host.caches;
    let mut caches: Vec<&CpuCache> = Vec::new();
    for cache in all.iter().filter(|c| c.kind != "Instruction") {
        if caches.iter().all(|c| c.level != cache.level) {
            caches.push(cache);
        }
    }
    caches.sort_by_key(|c| c.size_bytes);
    caches
}

/// Whether a step begins below twice a cache and ends above half of it.
fn is_of(step: &Step, cache: &CpuCache) -> bool {
    step.from.bytes < cache.size_bytes.saturating_mul(2) && step.to.bytes > cache.size_bytes / 2
}

fn told(step: &Step, caches: &[&CpuCache]) -> String {
    let of: Vec<String> = (caches.iter())
        .filter(|c| is_of(step, c))
        .map(|c| format!("L{} of {}", c.level, bytes_in_words(c.size_bytes)))
        .collect();
    let of = if of.is_empty() {
        "no cache that the kernel reports is of that size".to_owned()
    } else {
        format!("where the kernel reports the {}", of.join(" and the "))
    };
    format!(
        "from {} to {} an access goes from {} to {} ns: {of}",
        bytes_in_words(step.from.bytes),
        bytes_in_words(step.to.bytes),
        number(step.from.ns),
        number(step.to.ns)
    )
}

fn answer(points: &[Point], steps: &[Step], caches: &[&CpuCache]) -> Result<String, String> {
    if points.len() < 3 {
        return Err("needs work-chase at three sizes or more, in three blocks each".to_owned());
    }
    if caches.is_empty() {
        return Ok(format!(
            "{} found; the kernel reports no caches to hold them against.",
            phrases::count(steps.len(), "step")
        ));
    }
    let (least, most) = (points[0].bytes, points[points.len() - 1].bytes);
    let mut parts = Vec::new();
    for cache in caches {
        let name = format!("L{} of {}", cache.level, bytes_in_words(cache.size_bytes));
        let seen = steps.iter().find(|s| is_of(s, cache));
        parts.push(match seen {
            Some(step) => format!(
                "{name}: found between {} and {}",
                bytes_in_words(step.from.bytes),
                bytes_in_words(step.to.bytes)
            ),
            None if cache.size_bytes < least || cache.size_bytes.saturating_mul(2) > most => {
                format!("{name}: beyond the sizes that were measured")
            }
            None => format!("{name}: no step is seen"),
        });
    }
    let other = steps
        .iter()
        .filter(|s| caches.iter().all(|c| !is_of(s, c)))
        .count();
    if other > 0 {
        parts.push(format!(
            "{} where no cache is reported",
            phrases::count(other, "step")
        ));
    }
    Ok(format!("{}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kib: u64, ns: f64) -> Point {
        Point {
            bytes: kib << 10,
            ns,
            low: ns * 0.95,
            high: ns * 1.05,
        }
    }

    fn cache(level: u32, kib: u64) -> CpuCache {
        CpuCache {
            level,
            kind: "Unified".into(),
            size_bytes: kib << 10,
            shared_by: vec![0],
        }
    }

    #[test]
    fn steps_are_found_and_named_for_the_caches() {
        let points = [
            (4, 1.2),
            (16, 1.2),
            (64, 4.0),
            (256, 4.2),
            (1024, 9.0),
            (4096, 14.0),
            (16384, 15.0),
            (65536, 90.0),
        ]
        .map(|(kib, ns)| point(kib, ns));
        let steps = steps(&points);
        let ends: Vec<(u64, u64)> = steps
            .iter()
            .map(|s| (s.from.bytes >> 10, s.to.bytes >> 10))
            .collect();
        assert_eq!(ends, [(16, 64), (256, 4096), (16384, 65536)]);
        let (l1, l2, l3) = (cache(1, 32), cache(2, 512), cache(3, 32768));
        let all = answer(&points, &steps, &[&l1, &l2, &l3]).unwrap();
        assert_eq!(
            all,
            "L1 of 32 KiB: found between 16 KiB and 64 KiB; L2 of 512 KiB: found between 256 KiB and 4 MiB; L3 of 32 MiB: found between 16 MiB and 64 MiB."
        );
        let big = cache(3, 262_144);
        let some = answer(&points, &steps, &[&l1, &big]).unwrap();
        assert!(some.ends_with("L3 of 256 MiB: beyond the sizes that were measured; 2 steps where no cache is reported."), "{some}");
        assert!(told(&steps[2], &[&l1]).contains("no cache that the kernel reports"));
    }

    #[test]
    fn what_intervals_allow_to_be_level_is_no_step() {
        let mut points = [(16, 4.0), (32, 5.2), (64, 5.3)].map(|(kib, ns)| point(kib, ns));
        assert_eq!(steps(&points).len(), 1);
        points[1].low = 4.1;
        assert_eq!(steps(&points).len(), 0);
        let l2 = cache(2, 24);
        assert!(
            answer(&points, &[], &[&l2])
                .unwrap()
                .contains("no step is seen")
        );
        assert!(answer(&points[..2], &[], &[&l2]).is_err());
        assert!(answer(&points, &[], &[]).unwrap().contains("no caches"));
    }
}

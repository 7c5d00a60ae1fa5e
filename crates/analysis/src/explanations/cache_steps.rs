//! Where an access's cost steps up over the working set, next to the caches that the kernel shows.

use bytecost_spec::host::CpuCache;
use bytecost_spec::survey::WorkKind;
use bytecost_spec::units::{bytes_in_words, number};
use bytecost_spec::{HugePages, Measure, Metric};
use itertools::Itertools as _;

use super::asked::MeasuredWay;
use super::{Answered, Answers, Explained, Question};
use crate::phrases;

pub(super) const QUESTION: Question = Question {
    key: "cache-steps",
    text: "Where does an access become more expensive, and is that where the kernel reports the caches?",
    asks: |run| !kinds(run).is_empty(),
    answers: Answers::Own(ask),
    would_change: "huge pages (--huge-pages on), which take most misses of the translation buffers away, other sizes between those that were measured, and a quiet machine",
};

const METRIC: Metric = Metric::both(Measure::CpuNsPerMessage);
/// A rise of so much between two sizes, with intervals apart, is a step.
const RISE: f64 = 1.25;
/// The fewest sizes over which steps are looked for.
const FEWEST_SIZES: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: u64,
    ns: f64,
    low: f64,
    high: f64,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    from: Point,
    to: Point,
}

/// Work in which each access waits for the one before it, alone on its CPU.
fn waits_for_each(way: MeasuredWay<'_>) -> bool {
    way.works(WorkKind::Chain) && way.cell().neighbour.is_idle()
}

/// The kinds of pages in which it is planned over enough working sets.
fn kinds(run: &Explained<'_>) -> Vec<HugePages> {
    let planned = run.trials.moving().filter(|c| waits_for_each(run.way(c)));
    let sizes = planned.map(|c| (c.cell.huge_pages, c.cell.size_bytes));
    let number = sizes.unique().map(|(pages, _)| pages).counts();
    let all = [HugePages::Auto, HugePages::Off, HugePages::On].into_iter();
    let several = |pages: &HugePages| number.get(pages).is_some_and(|n| *n >= FEWEST_SIZES);
    all.filter(several).collect()
}

fn ask(run: &Explained<'_>) -> Option<Answered> {
    let kinds = kinds(run);
    let caches = caches(run);
    let mut found = Answered::of(Ok(String::new()));
    let mut answers = Vec::new();
    for pages in &kinds {
        // Where there is one kind of pages alone, it is not worth a word.
        let of_pages = match (kinds.len() > 1).then_some(pages) {
            None => "",
            Some(HugePages::Auto) => "in the system's pages, ",
            Some(HugePages::Off) => "in small pages, ",
            Some(HugePages::On) => "in huge pages, ",
        };
        let points = points(run, *pages);
        let steps = steps(&points);
        let said = answer(&points, &steps, &caches);
        answers.push(said.map(|said| phrases::capital(&format!("{of_pages}{said}"))));
        let told = |s: &Step| format!("{of_pages}{}", told(s, &caches));
        found.numbers.extend(steps.iter().map(told));
        found.evidence.extend(points.iter().map(|p| {
            let [ns, low, high] = [p.ns, p.low, p.high].map(number);
            let size = bytes_in_words(p.bytes);
            format!("{of_pages}{size}: {ns} ns (95 % interval {low} to {high})")
        }));
    }
    let (known, missing): (Vec<String>, Vec<&'static str>) = answers.into_iter().partition_result();
    found.answer = match (known.is_empty(), missing.first()) {
        (true, Some(missing)) => Err((*missing).to_owned()),
        _ => Ok(known.join(" ")),
    };
    Some(found)
}

/// One a size, of the first placement that was measured, by rising size.
fn points(run: &Explained<'_>, pages: HugePages) -> Vec<Point> {
    let own = run.measured().filter(|c| {
        waits_for_each(run.way(c)) && c.cell.threads == 1 && c.cell.huge_pages == pages
    });
    let points = own.filter_map(|c| {
        let e = run.result(&c.id)?.estimates.get(&METRIC)?;
        Some(Point {
            bytes: c.cell.size_bytes,
            ns: e.value,
            low: e.low?,
            high: e.high?,
        })
    });
    let points = points.unique_by(|p| p.bytes);
    points.sorted_by_key(|p| p.bytes).collect()
}

fn steps(points: &[Point]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (from, to) in points.iter().copied().tuple_windows() {
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

fn caches<'w>(run: &Explained<'w>) -> Vec<&'w CpuCache> {
    let all = run.input.manifest.host.caches.iter();
    let of_data = all.filter(|c| c.kind != "Instruction");
    let of_data = of_data.unique_by(|c| c.level);
    of_data.sorted_by_key(|c| c.size_bytes).collect()
}

/// Whether a step begins below twice a cache and ends above half of it.
fn is_of(step: &Step, cache: &CpuCache) -> bool {
    step.from.bytes < cache.size_bytes.saturating_mul(2) && step.to.bytes > cache.size_bytes / 2
}

fn named(cache: &CpuCache) -> String {
    format!("L{} of {}", cache.level, bytes_in_words(cache.size_bytes))
}

fn told(step: &Step, caches: &[&CpuCache]) -> String {
    let mut of = caches.iter().filter(|c| is_of(step, c)).map(|c| named(c));
    let of = match of.join(" and the ") {
        none if none.is_empty() => "no cache that the kernel reports is of that size".to_owned(),
        some => format!("where the kernel reports the {some}"),
    };
    let ends = [step.from, step.to];
    let [from, to] = ends.map(|p| bytes_in_words(p.bytes));
    let [less, more] = ends.map(|p| number(p.ns));
    format!("from {from} to {to} an access goes from {less} to {more} ns: {of}")
}

fn answer(points: &[Point], steps: &[Step], caches: &[&CpuCache]) -> Result<String, &'static str> {
    if points.len() < FEWEST_SIZES {
        return Err("needs such work at three sizes or more");
    }
    let (least, most) = (points[0].bytes, points[points.len() - 1].bytes);
    let of_cache = |cache: &&CpuCache| {
        let size = cache.size_bytes;
        let said = match steps.iter().find(|s| is_of(s, cache)) {
            Some(step) => {
                let [from, to] = [step.from, step.to].map(|p| bytes_in_words(p.bytes));
                format!("found between {from} and {to}")
            }
            None if size < least || size.saturating_mul(2) > most => {
                "beyond the sizes that were measured".to_owned()
            }
            None => "no step is seen".to_owned(),
        };
        format!("{}: {said}", named(cache))
    };
    let mut parts: Vec<String> = caches.iter().map(of_cache).collect();
    let is_other = |s: &&Step| !caches.iter().any(|c| is_of(s, c));
    let others = steps.iter().filter(is_other).count();
    if others > 0 || parts.is_empty() {
        let steps = phrases::count(others, "step");
        parts.push(format!("{steps} where no cache is reported"));
    }
    Ok(format!("{}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_that_follow_each_other_are_one_and_what_intervals_allow_to_be_level_is_none() {
        let point = |(kib, ns): (u64, f64)| Point {
            bytes: kib << 10,
            ns,
            low: ns * 0.95,
            high: ns * 1.05,
        };
        let costs = [1.2, 1.2, 4.0, 4.2, 9.0, 14.0];
        let mut points: Vec<Point> = [4, 16, 64, 256, 1024, 4096]
            .into_iter()
            .zip(costs)
            .map(point)
            .collect();
        let ends = |points: &[Point]| -> Vec<(u64, u64)> {
            let all = steps(points).into_iter();
            all.map(|s| (s.from.bytes >> 10, s.to.bytes >> 10))
                .collect()
        };
        assert_eq!(ends(&points), [(16, 64), (256, 4096)]);
        points[2].low = 1.2;
        assert_eq!(ends(&points), [(256, 4096)]);
        assert!(told(&steps(&points)[0], &[]).contains("no cache that the kernel reports"));
        let answered = answer(&points, &steps(&points), &[]).unwrap();
        assert_eq!(answered, "1 step where no cache is reported.");
        assert!(answer(&points[..2], &[], &[]).is_err());
    }
}

//! What the distance between two CPUs costs two threads that take turns, from near to far.

use bytecost_spec::units::{bytes_in_words, number};
use bytecost_spec::{Axis, Cell, Host, Measure, Metric, Nearness, Placement};
use itertools::Itertools as _;

use crate::grid;
use crate::grouping::grouped;
use crate::phrases;
use crate::result::{Estimate, Gap, MatrixData, PairPoint, Point};
use crate::stages::Judged;

const METRIC: Metric = Metric::both(Measure::RoundTripNs);

/// One for each way and choice of the other axes with two pairs or more, of which one was measured.
pub(crate) fn all(run: &Judged<'_>) -> Vec<MatrixData> {
    let host = &run.input.manifest.host;
    let is_other = |a: &&Axis| !matches!(a, Axis::Placement | Axis::Mover);
    let pairs = asked(run).into_iter().filter_map(|(cell, point)| {
        let (from, to) = pair(&cell)?;
        let pair = PairPoint {
            from,
            to,
            nearness: host.distance(from, to).nearness,
            shared: shared(host, from, to),
            point,
        };
        Some((cell.id_without(&[Axis::Placement]), (cell, pair)))
    });
    let measured = |(_, p): &(Cell, PairPoint)| p.point.measured().is_some();
    let groups = grouped(pairs).into_iter().map(|(_, pairs)| pairs);
    let groups = groups.filter(|pairs| pairs.len() > 1 && pairs.iter().any(measured));
    let matrix = |pairs: Vec<(Cell, PairPoint)>| {
        let first = &pairs[0].0;
        let others = run.varied().iter().filter(is_other);
        let (mover, panel) = (first.mover.clone(), grid::coordinates(first, others));
        let far = |p: &PairPoint| (host.distance(p.from, p.to).class(), p.from, p.to);
        let pairs = pairs.into_iter().map(|(_, pair)| pair);
        let pairs = pairs.sorted_by_cached_key(far).collect_vec();
        let cpus = pairs.iter().flat_map(|p| [p.from, p.to]);
        MatrixData {
            mover,
            panel,
            metric: METRIC,
            cpus: cpus.sorted_unstable().dedup().collect(),
            words: sentences(&pairs, host),
            pairs,
        }
    };
    groups.map(matrix).collect()
}

/// The cells in which two threads take turns, in the order of the plan; then what is refused.
fn asked(run: &Judged<'_>) -> Vec<(Cell, Point)> {
    let pings = run.trials.moving().filter(|c| c.route.is_ping());
    let planned = pings.filter_map(|trials| {
        let result = run.result(&trials.id)?;
        Some((trials.cell.clone(), run.point(result, METRIC)))
    });
    let survey = &run.input.manifest.survey;
    let refused = run.input.refused.iter().filter_map(|refused| {
        let is_ping = survey.mover(&refused.cell.mover)?.route.is_ping();
        is_ping.then(|| {
            (
                refused.cell.clone(),
                Point::Gap(Gap::Refused(refused.why.clone())),
            )
        })
    });
    planned.chain(refused).collect()
}

fn pair(cell: &Cell) -> Option<(u32, u32)> {
    let Placement::Cpus { sender, receiver } = &cell.placement else {
        return None;
    };
    match (&sender[..], &receiver[..]) {
        ([from], [to]) => Some((*from, *to)),
        _ => None,
    }
}

/// What two CPUs have in common, as a place: `same CPU`, `same L3 of 32 MiB`, `nodes 0 and 1`.
fn shared(host: &Host, a: u32, b: u32) -> String {
    let distance = host.distance(a, b);
    match (distance.nearness, host.common_cache(a, b), distance.nodes) {
        (Some(Nearness::SameCpu), _, _) => "same CPU".to_owned(),
        (Some(Nearness::SmtSibling), _, _) => "same core".to_owned(),
        (Some(Nearness::SameCache), Some(cache), _) => {
            let size = bytes_in_words(cache.size_bytes);
            format!("same L{} of {size}", cache.level)
        }
        (_, _, Some((a, b))) => format!("nodes {a} and {b}"),
        (Some(Nearness::CrossCache), _, _) => "no cache in common".to_owned(),
        _ => "what they share is not told".to_owned(),
    }
}

fn sentences(pairs: &[PairPoint], host: &Host) -> Vec<String> {
    // Kinds of distance with what was measured at them, from near to far.
    let classes = grouped(pairs.iter().filter_map(|pair| {
        let estimate = *pair.point.measured()?;
        Some((host.distance(pair.from, pair.to).class(), (pair, estimate)))
    }));
    let all = classes.iter().flat_map(|(_, pairs)| pairs);
    let all = all.sorted_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let all = all.collect_vec();
    let (Some((near, least)), Some((far, most))) = (all.first(), all.last()) else {
        return Vec::new();
    };
    if all.len() == 1 {
        return vec![format!("{} takes {}.", place(near), told(least))];
    }
    let apart = match (least.high, most.low) {
        (Some(high), Some(low)) if high < low => {
            format!("{:.1}× as long", most.value / least.value)
        }
        _ => "which the intervals do not tell apart".to_owned(),
    };
    let mut sentences = vec![format!(
        "Quickest is {} with {}, slowest {} with {}, {apart}.",
        place(near),
        told(least),
        place(far),
        told(most)
    )];
    if classes.len() > 1 {
        let each = classes.iter().map(|(_, pairs)| class_told(pairs));
        sentences.push(format!("From near to far: {}.", each.format("; ")));
    }
    sentences
}

/// `same L3 of 32 MiB 9.03 µs`, over several pairs `… 8.90 to 9.20 µs over 3 pairs`.
fn class_told(pairs: &[(&PairPoint, Estimate)]) -> String {
    let values = pairs.iter().map(|(_, e)| e.value).collect_vec();
    let first = pairs.first().map_or("", |(pair, _)| pair.shared.as_str());
    let alike = pairs.iter().all(|(pair, _)| pair.shared == first);
    // Caches of several sizes, or several nodes, are of one kind all the same.
    let name = match alike {
        true => first,
        false => first.split(" of ").next().unwrap_or(first),
    };
    let name = match pairs.first().map(|(pair, _)| pair.nearness) {
        Some(Some(Nearness::CrossNode)) if !alike => "other nodes",
        _ => name,
    };
    let over = match pairs.len() {
        1 => String::new(),
        several => format!(" over {several} pairs"),
    };
    format!("{name} {}{over}", phrases::span(&values, time))
}

fn place(pair: &PairPoint) -> String {
    match pair.from == pair.to {
        true => format!("CPU {} with itself", pair.from),
        false => format!("{}:{} ({})", pair.from, pair.to, pair.shared),
    }
}

fn told(estimate: &Estimate) -> String {
    let value = time(estimate.value);
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => {
            format!("{value} (95 % interval {} to {})", time(low), time(high))
        }
        _ => value,
    }
}

/// Nanoseconds, or microseconds from one on.
fn time(ns: f64) -> String {
    match ns < 1000.0 {
        true => format!("{} ns", number(ns)),
        false => format!("{} µs", number(ns / 1000.0)),
    }
}

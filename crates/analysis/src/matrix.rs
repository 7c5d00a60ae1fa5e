//! What the distance between two CPUs costs: pairs of CPUs, from near to far, by each way in
//! which two threads take turns.

use bytecost_spec::host::Distance;
use bytecost_spec::units::{bytes_in_words, number};
use bytecost_spec::{Axis, Cell, Host, Measure, Metric, Nearness, Placement};

use crate::grid;
use crate::grouping::grouped;
use crate::phrases;
use crate::result::{CellResult, Estimate, Input, MatrixData, PairPoint, Point};
use crate::trials::Trials;

const METRIC: Metric = Metric::both(Measure::RoundTripNs);

/// One for each way and each choice of the other axes that were asked over two pairs or more, of
/// which one was measured.
pub(crate) fn all(
    input: &Input<'_>,
    trials: &Trials<'_>,
    cells: &[CellResult],
    varied: &[Axis],
) -> Vec<MatrixData> {
    let host = &input.manifest.host;
    let others: Vec<Axis> = (varied.iter().copied())
        .filter(|a| !matches!(a, Axis::Placement | Axis::Mover))
        .collect();
    let mut groups: Vec<(String, MatrixData)> = Vec::new();
    for (cell, point) in asked(input, trials, cells) {
        let Some((from, to)) = pair(&cell) else {
            continue;
        };
        let name = cell.id_without(&[Axis::Placement]);
        let at = match groups.iter().position(|(there, _)| *there == name) {
            Some(at) => at,
            None => {
                let data = MatrixData {
                    mover: cell.mover.clone(),
                    panel: grid::coordinates(&cell, &others),
                    metric: METRIC,
                    cpus: Vec::new(),
                    pairs: Vec::new(),
                    words: Vec::new(),
                };
                groups.push((name, data));
                groups.len() - 1
            }
        };
        let distance = host.distance(from, to);
        groups[at].1.pairs.push(PairPoint {
            from,
            to,
            nearness: distance.nearness,
            shared: shared(host, from, to),
            point,
        });
    }
    let groups = groups.into_iter().map(|(_, data)| finished(data, host));
    let measured = |p: &PairPoint| matches!(p.point, Point::Measured(_));
    groups
        .filter(|data| data.pairs.len() > 1 && data.pairs.iter().any(measured))
        .collect()
}

fn finished(mut data: MatrixData, host: &Host) -> MatrixData {
    let far = |p: &PairPoint| (host.distance(p.from, p.to).class(), p.from, p.to);
    data.pairs.sort_by_cached_key(far);
    data.cpus = data.pairs.iter().flat_map(|p| [p.from, p.to]).collect();
    data.cpus.sort_unstable();
    data.cpus.dedup();
    data.words = sentences(&data, host);
    data
}

/// The cells of the run in which two threads take turns, in the order of the plan, and behind
/// them those that cannot be had.
fn asked(input: &Input<'_>, trials: &Trials<'_>, cells: &[CellResult]) -> Vec<(Cell, Point)> {
    let planned = trials.moving().filter(|c| c.route.is_ping()).map(|trials| {
        let found = cells.iter().find(|c| c.id == trials.id);
        let estimate = found.and_then(|c| c.estimates.get(&METRIC));
        let absent = found.and_then(|c| c.absent.get(&METRIC).cloned());
        let failed = trials.failures.last();
        let point = match (estimate, absent, failed) {
            (Some(estimate), _, _) => Point::Measured(*estimate),
            (None, Some(why), _) => Point::Gap(why),
            (None, None, Some(failure)) => Point::Gap(format!("failed: {}", failure.reason)),
            (None, None, None) => Point::Gap(input.ended_early.map_or_else(
                || "no trial reached it".to_owned(),
                |why| format!("the run ended before its turn: {why}"),
            )),
        };
        (trials.cell.clone(), point)
    });
    let survey = &input.manifest.survey;
    let refused = input.refusals.iter().filter_map(|refusal| {
        let cell = Cell::from_id(&refusal.what)?;
        let is_ping = survey.mover(&cell.mover)?.route.is_ping();
        is_ping.then(|| (cell, Point::Gap(refusal.why.clone())))
    });
    planned.chain(refused).collect()
}

fn pair(cell: &Cell) -> Option<(u32, u32)> {
    match &cell.placement {
        Placement::Cpus { sender, receiver } => match (&sender[..], &receiver[..]) {
            ([from], [to]) => Some((*from, *to)),
            _ => None,
        },
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
            format!(
                "same L{} of {}",
                cache.level,
                bytes_in_words(cache.size_bytes)
            )
        }
        (_, _, Some((a, b))) => format!("nodes {a} and {b}"),
        (Some(Nearness::CrossCache), _, _) => "no cache in common".to_owned(),
        _ => "what they share is not told".to_owned(),
    }
}

/// Kinds of distance with what was measured at them, from near to far.
fn classes<'d>(
    data: &'d MatrixData,
    host: &Host,
) -> Vec<(Distance, Vec<(&'d PairPoint, Estimate)>)> {
    grouped(data.pairs.iter().filter_map(|pair| match pair.point {
        Point::Measured(estimate) => {
            Some((host.distance(pair.from, pair.to).class(), (pair, estimate)))
        }
        Point::Gap(_) => None,
    }))
}

/// The nearest and the farthest pair, and what each kind of distance takes.
fn sentences(data: &MatrixData, host: &Host) -> Vec<String> {
    let classes = classes(data, host);
    let mut all: Vec<&(&PairPoint, Estimate)> = classes.iter().flat_map(|(_, p)| p).collect();
    all.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
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
        let each: Vec<String> = classes.iter().map(|(_, pairs)| class_told(pairs)).collect();
        sentences.push(format!("From near to far: {}.", each.join("; ")));
    }
    sentences
}

/// `same L3 of 32 MiB 9.03 µs`, over several pairs `… 8.90 to 9.20 µs over 3 pairs`.
fn class_told(pairs: &[(&PairPoint, Estimate)]) -> String {
    let values = || pairs.iter().map(|(_, e)| e.value);
    let (least, most) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let first = pairs.first().map_or("", |(pair, _)| pair.shared.as_str());
    let alike = pairs.iter().all(|(pair, _)| pair.shared == first);
    // Caches of several sizes, or several nodes, are of one kind all the same.
    let name = if alike {
        first
    } else {
        first.split(" of ").next().unwrap_or(first)
    };
    let name = match pairs.first().map(|(pair, _)| pair.nearness) {
        Some(Some(Nearness::CrossNode)) if !alike => "other nodes",
        _ => name,
    };
    let count = phrases::count(pairs.len(), "pair");
    match (time(least), time(most)) {
        (only, _) if pairs.len() == 1 => format!("{name} {only}"),
        (least, most) if least == most => format!("{name} {least} over {count}"),
        (least, most) => format!("{name} {least} to {most} over {count}"),
    }
}

fn place(pair: &PairPoint) -> String {
    match pair.from == pair.to {
        true => format!("CPU {} with itself", pair.from),
        false => format!("{}:{} ({})", pair.from, pair.to, pair.shared),
    }
}

fn told(estimate: &Estimate) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!(
            "{} (95 % interval {} to {})",
            time(estimate.value),
            time(low),
            time(high)
        ),
        _ => time(estimate.value),
    }
}

/// Nanoseconds, or microseconds from one on.
fn time(ns: f64) -> String {
    match ns < 1000.0 {
        true => format!("{} ns", number(ns)),
        false => format!("{} µs", number(ns / 1000.0)),
    }
}

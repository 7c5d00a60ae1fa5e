//! Round-trip times of two threads that take turns, over pairs of CPUs from near to far.

use bytecost_spec::{Axis, Cell, Host, Measure, Metric, Nearness, Placement};
use itertools::Itertools as _;

use crate::grid;
use crate::grouping::grouped;
use crate::result::{Gap, MatrixData, PairPoint, Point, SharedHardware};
use crate::stages::Measured;

const METRIC: Metric = Metric::both(Measure::RoundTripNs);

/// A cell in which two threads take turns on two CPUs, or one that is refused.
struct Ping {
    cell: Cell,
    from: u32,
    to: u32,
    point: Point,
}

/// A matrix for each mover and choice of the other axes with two pairs or more, of which at least one
/// was measured.
pub(crate) fn all(run: &Measured<'_>) -> Vec<MatrixData> {
    let pings = pings(run).map(|ping| (ping.cell.id_without(&[Axis::Placement]), ping));
    grouped(pings)
        .into_iter()
        .map(|(_, pings)| pings)
        .filter(|pings| pings.len() > 1 && pings.iter().any(|p| p.point.measured().is_some()))
        .map(|pings| matrix(run, pings))
        .collect()
}

/// The cells in which two threads take turns, in the order of the plan; then those that are refused.
fn pings(run: &Measured<'_>) -> impl Iterator<Item = Ping> {
    let planned = run
        .trials
        .moving()
        .filter(|c| c.route.is_ping())
        .filter_map(move |trials| {
            let result = run.result(&trials.id)?;
            Some((trials.cell.clone(), run.point(result, METRIC)))
        });
    let survey = &run.input.manifest.survey;
    let refused = run.input.refused.iter().filter_map(move |refused| {
        let is_ping = survey.mover(&refused.cell.mover)?.route.is_ping();
        let gap = || Point::Gap(Gap::Refused(refused.why.clone()));
        is_ping.then(|| (refused.cell.clone(), gap()))
    });
    planned.chain(refused).filter_map(|(cell, point)| {
        let Placement::Cpus { sender, receiver } = &cell.placement else {
            return None;
        };
        let ([from], [to]) = (&sender[..], &receiver[..]) else {
            return None;
        };
        let (from, to) = (*from, *to);
        Some(Ping {
            cell,
            from,
            to,
            point,
        })
    })
}

fn matrix(run: &Measured<'_>, mut pings: Vec<Ping>) -> MatrixData {
    let host = &run.input.manifest.host;
    let class = |ping: &Ping| host.distance(ping.from, ping.to).class();
    let others = run
        .study
        .varied
        .iter()
        .filter(|a| !matches!(a, Axis::Placement | Axis::Mover));
    let first = &pings[0].cell;
    let (mover, panel) = (first.mover.clone(), grid::coordinates(first, others));
    pings.sort_by_cached_key(|ping| (class(ping), ping.from, ping.to));
    let classes = pings.iter().map(class).dedup().collect_vec();
    let cpus = pings.iter().flat_map(|p| [p.from, p.to]);
    MatrixData {
        mover,
        panel,
        metric: METRIC,
        cpus: cpus.sorted_unstable().dedup().collect(),
        pairs: pings
            .into_iter()
            .map(|ping| PairPoint {
                from: ping.from,
                to: ping.to,
                nearness: host.distance(ping.from, ping.to).nearness,
                class: classes.iter().position(|c| *c == class(&ping)).unwrap_or(0),
                shared: shared_hardware(host, ping.from, ping.to),
                point: ping.point,
            })
            .collect(),
    }
}

fn shared_hardware(host: &Host, a: u32, b: u32) -> SharedHardware {
    let distance = host.distance(a, b);
    match (distance.nearness, host.common_cache(a, b), distance.nodes) {
        (Some(Nearness::SameCpu), _, _) => SharedHardware::Cpu,
        (Some(Nearness::SmtSibling), _, _) => SharedHardware::Core,
        (Some(Nearness::SameCache), Some(cache), _) => SharedHardware::Cache {
            level: cache.level,
            size_bytes: cache.size_bytes,
        },
        (_, _, Some((a, b))) => SharedHardware::Nodes(a, b),
        (Some(Nearness::CrossCache), _, _) => SharedHardware::NoCache,
        _ => SharedHardware::Unknown,
    }
}

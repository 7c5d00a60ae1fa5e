//! Obstacles on the path are named, and metrics that they set have no verdict.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;
use bytecost_spec::survey::Route;
use bytecost_spec::{Axis, Cell, Counter, Measure, Metric};

use crate::world::{At, MOVERS, True, World, all, begins, fires, quiet, run, says, silent};

#[test]
fn alike_rates_of_unlike_movers_are_reported() {
    let unlike = |rate: fn(&Cell) -> f64| {
        run(MOVERS, move |c| {
            let cost = match c.mover.as_str() {
                "send" => 0.2,
                "send-zerocopy" => 0.4,
                _ => 0.1,
            };
            True::costs(cost).at_rate(rate(c))
        })
    };
    let world = unlike(|_| 0.9);
    let caveat = fires(&world, "same-rate", 6, "6 cells: ");
    begins(&caveat.text, "In 6 cells");
    let apart = unlike(|c| if c.mover == "send" { 30.0 } else { 40.0 });
    silent(&apart, "same-rate");
    // At each size something else holds it.
    let by_size = unlike(|c| if c.size_bytes == 4096 { 0.5 } else { 0.9 });
    fires(&by_size, "same-rate", 6, "3 cells: ");
    // Costs may be far apart between sizes alone.
    let by_cost = |rate: fn(&Cell) -> f64| {
        run(MOVERS, move |c| {
            let cost = if c.size_bytes == 4096 { 0.4 } else { 0.2 };
            True::costs(cost).at_rate(rate(c))
        })
    };
    fires(&by_cost(|_| 0.9), "same-rate", 6, "6 cells: ");
    let follows = by_cost(|c| if c.size_bytes == 4096 { 0.5 } else { 0.9 });
    silent(&follows, "same-rate");
    // All alike in everything: there is nothing that the rate hides.
    silent(&quiet(), "same-rate");
    // As under a quota: where rates follow costs, nothing else holds them.
    let quota = run(MOVERS, |c| {
        True::costs(if c.mover == "send" { 0.2 } else { 0.1 })
    });
    silent(&quota, "same-rate");
}

#[test]
fn movers_of_files_and_of_memory_are_one_group() {
    let mut world = run(MOVERS, |c| {
        let cost = match c.mover.as_str() {
            "send" => 0.2,
            "send-zerocopy" => 0.25,
            _ => 0.1,
        };
        True::costs(cost).at_rate(2.0)
    });
    let movers = &mut world.manifest.survey.mover_facts;
    movers.last_mut().expect("sendfile").route = Route::FileToSocket;
    for cell in world.cells.iter_mut().filter(|c| c.mover == "sendfile") {
        cell.set(Axis::Cache, "warm").unwrap();
        cell.set(Axis::Block, "64KiB").unwrap();
    }
    world.by_cell(|cell, sample| sample.cell = cell.id());
    fires(&world, "same-rate", 6, "6 cells: ");
}

fn stands_in_the_way(world: &mut World, kind: CircumstanceKind, found: &str, limits: bool) {
    world.each(|s| {
        s.obstacles.push(Obstacle {
            kind,
            place: "lo".to_owned(),
            found: found.to_owned(),
            limits,
        });
    });
}

/// Findings of throughput: all, and those without a verdict since something withholds it.
fn throughputs(world: &World) -> (usize, usize) {
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    let analysis = world.analyse();
    let of = analysis.findings.iter().filter(|f| f.metric == throughput);
    let withheld = of.clone().filter(|f| f.withheld.is_some());
    (of.count(), withheld.count())
}

#[test]
fn a_discipline_that_limits_is_named_and_nothing_is_said_of_rates() {
    let truth = |c: &Cell| True::costs(if c.mover == "send" { 0.2 } else { 0.19 }).at_rate(2.0);
    let mut world = run(MOVERS, truth);
    silent(&world, "path-limit");
    assert_eq!(throughputs(&world), (4, 0));
    stands_in_the_way(
        &mut world,
        CircumstanceKind::Qdisc,
        "tbf, 2.00 Gbit/s",
        true,
    );
    let caveat = fires(&world, "path-limit", 6, "after 72 trials");
    let text = "A queueing discipline limits lo: tbf, 2.00 Gbit/s.";
    begins(&caveat.text, text);
    silent(&world, "path-cost");
    assert_eq!(throughputs(&world), (4, 4));
}

#[test]
fn what_makes_packets_cost_more_is_named_once() {
    let mut world = quiet();
    silent(&world, "path-cost");
    let mtu = "MTU 1500, usually 65536";
    stands_in_the_way(&mut world, CircumstanceKind::Mtu, mtu, false);
    stands_in_the_way(&mut world, CircumstanceKind::Qdisc, "pfifo", false);
    let caveat = fires(&world, "path-cost", 6, "after 72 trials");
    says(
        &caveat.text,
        [
            "MTU 1500, usually 65536 on lo",
            "queueing discipline pfifo on lo",
        ],
    );
    silent(&world, "path-limit");
}

#[test]
fn a_quota_around_the_run_is_named_by_what_it_counted() {
    let mut world = quiet();
    let throttled = |limited: &mut World, periods: u64, ns: u64| {
        let periods = (Counter::QuotaThrottledPeriods, periods);
        let read = [periods, (Counter::QuotaThrottledNs, ns)];
        limited.put(all, At::Machine, read);
    };
    world.manifest.host.obstacles = vec![Obstacle {
        kind: CircumstanceKind::Quota,
        place: "/sys/fs/cgroup/a".to_owned(),
        found: "1.00 CPUs: 100 ms in each 100 ms".to_owned(),
        limits: true,
    }];
    // A quota that was never used up stopped nothing.
    throttled(&mut world, 0, 0);
    silent(&world, "quota-around");
    throttled(&mut world, 1, 40_000_000);
    let caveat = fires(&world, "quota-around", 6, "used up in 72 periods");
    says(
        &caveat.evidence,
        [
            "held back for 2.88 s in 13.0 s",
            "100 ms at /sys/fs/cgroup/a",
        ],
    );
    let (all, withheld) = throughputs(&world);
    assert_eq!(all, withheld);
    // Nor did one that stopped something for a moment.
    throttled(&mut world, 1, 100_000);
    silent(&world, "quota-around");
}

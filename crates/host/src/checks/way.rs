//! Checks of what is in the way of packets over loopback.

use bytecost_spec::host::{Obstacle, ObstacleKind};

use super::{CheckInput, Told};

pub(super) fn loopback(seen: &CheckInput<'_>) -> Told {
    let is_of_device = |o: &&Obstacle| !is_filter(o) && o.kind != ObstacleKind::Quota;
    told(
        seen,
        is_of_device,
        "as a kernel makes it: MTU 65536, no queueing discipline, all offloads on",
        "nothing on the device limits rates or costs CPU time",
    )
}

pub(super) fn filters(seen: &CheckInput<'_>) -> Told {
    let good = "no rules, and no connection is tracked";
    let free = "packets pass without being looked at";
    let told = told(seen, |o| is_filter(o), good, free);
    match seen.probes.unseen.as_slice() {
        [] => told,
        unseen => Told {
            found: match told.remedy {
                Some(_) => format!("{}; not known: {}", told.found, unseen.join("; ")),
                None => format!("not known: {}", unseen.join("; ")),
            },
            level: told.level.max(bytecost_spec::host::Level::Note),
            means: "what filters packets costs every mover CPU time for each packet".to_owned(),
            ..told
        },
    }
}

fn is_filter(obstacle: &Obstacle) -> bool {
    matches!(obstacle.kind, ObstacleKind::Filter | ObstacleKind::Tracking)
}

fn told(seen: &CheckInput<'_>, which: impl Fn(&&Obstacle) -> bool, good: &str, free: &str) -> Told {
    let all: Vec<&Obstacle> = seen.probes.obstacles.iter().filter(which).collect();
    let Some(first) = all.iter().max_by_key(|o| o.limits) else {
        return Told::good(good, free);
    };
    let found: Vec<&str> = all.iter().map(|o| o.found.as_str()).collect();
    let means = match first.limits {
        true => "rates and latencies over loopback are its own, not those of the movers",
        false => "each packet costs more CPU time than usual, for all movers alike",
    };
    Told::warning(found.join("; "), means).remedy(first.kind.remedy())
}

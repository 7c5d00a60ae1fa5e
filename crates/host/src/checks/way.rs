//! Checks of what is in the way of packets over loopback.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;

use super::{CheckInput, Told};

pub(super) fn loopback(seen: &CheckInput<'_>) -> Told {
    let good = "as a kernel makes it: MTU 65536, no queueing discipline, all offloads on";
    let free = "nothing on the device limits rates or costs CPU time";
    told(seen, |kind| place(kind) == Place::Device, good, free)
}

pub(super) fn filters(seen: &CheckInput<'_>) -> Told {
    let good = "no rules, and no connection is tracked";
    let free = "packets pass without being looked at";
    let told = told(seen, |kind| place(kind) == Place::Rules, good, free);
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

pub(super) fn socket_memory(seen: &CheckInput<'_>) -> Told {
    let good = "tcp_wmem, tcp_rmem and net.core as a kernel sets them, or larger";
    let free = "buffers of sockets grow as far as usual";
    told(seen, |kind| place(kind) == Place::Sockets, good, free)
}

/// The check that shows an obstacle of a kind.
#[derive(PartialEq)]
enum Place {
    Device,
    Rules,
    Sockets,
    Elsewhere,
}

fn place(kind: CircumstanceKind) -> Place {
    match kind {
        CircumstanceKind::Quota => Place::Elsewhere,
        CircumstanceKind::Filter | CircumstanceKind::Tracking => Place::Rules,
        CircumstanceKind::SocketMemory => Place::Sockets,
        _ => Place::Device,
    }
}

fn told(
    seen: &CheckInput<'_>,
    is_shown: impl Fn(CircumstanceKind) -> bool,
    good: &str,
    free: &str,
) -> Told {
    let obstacles = seen.probes.obstacles.iter();
    let shown: Vec<&Obstacle> = obstacles.filter(|o| is_shown(o.kind)).collect();
    let Some(first) = shown.iter().max_by_key(|o| o.limits) else {
        return Told::good(good, free);
    };
    let found: Vec<&str> = shown.iter().map(|o| o.found.as_str()).collect();
    let told = Told::disturbed(first.kind, found.join("; ")).remedy(first.remedy());
    match first.limits {
        true => Told {
            means: "rates and latencies over loopback are its own, not those of the movers"
                .to_owned(),
            ..told
        },
        false => told,
    }
}

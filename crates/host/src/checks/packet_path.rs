//! Checks of the path of packets over loopback: the device, packet filters, bounds of buffers.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;

use super::{Assessment, CheckInput};

pub(super) fn loopback(input: &CheckInput<'_>) -> Assessment {
    let good = "as a kernel makes it: MTU 65536, no queueing discipline, all offloads on";
    let means = "nothing on the device limits rates or costs CPU time";
    obstacles(input, Subject::Device).unwrap_or_else(|| Assessment::good(good, means))
}

pub(super) fn filters(input: &CheckInput<'_>) -> Assessment {
    let good = "no rules, and no connection is tracked";
    let if_none = "packets pass without being looked at";
    let obstacles = obstacles(input, Subject::Filters);
    let unseen = input.probes.unseen.join("; ");
    if unseen.is_empty() {
        return obstacles.unwrap_or_else(|| Assessment::good(good, if_none));
    }
    let means = "what filters packets costs every mover CPU time for each packet".to_owned();
    match obstacles {
        Some(warning) => Assessment {
            found: format!("{}; not known: {unseen}", warning.found),
            means,
            ..warning
        },
        None => Assessment::unknown(unseen, means),
    }
}

pub(super) fn socket_memory(input: &CheckInput<'_>) -> Assessment {
    let good = "tcp_wmem, tcp_rmem and net.core as a kernel sets them, or larger";
    let means = "buffers of sockets grow as far as usual";
    obstacles(input, Subject::SocketBuffers).unwrap_or_else(|| Assessment::good(good, means))
}

/// The part of the path that an obstacle of the probes belongs to. Each has one check.
#[derive(PartialEq)]
enum Subject {
    Device,
    Filters,
    SocketBuffers,
    /// A check of another file shows it.
    Other,
}

impl Subject {
    fn from_kind(kind: CircumstanceKind) -> Subject {
        match kind {
            CircumstanceKind::Quota => Subject::Other,
            CircumstanceKind::Filter | CircumstanceKind::Tracking => Subject::Filters,
            CircumstanceKind::SocketMemory => Subject::SocketBuffers,
            _ => Subject::Device,
        }
    }
}

/// A warning of all obstacles of a subject, with the remedy of one that limits rates if there is
/// such a one; none without obstacles.
fn obstacles(input: &CheckInput<'_>, subject: Subject) -> Option<Assessment> {
    let obstacles: Vec<&Obstacle> = (input.probes.obstacles.iter())
        .filter(|obstacle| Subject::from_kind(obstacle.kind) == subject)
        .collect();
    let worst = obstacles.iter().max_by_key(|obstacle| obstacle.limits)?;
    let found: Vec<&str> = obstacles.iter().map(|o| o.found.as_str()).collect();
    let mut warning = Assessment::disturbed(worst.kind, found.join("; ")).remedy(worst.remedy());
    if worst.limits {
        warning.means =
            "rates and latencies over loopback are its own, not those of the movers".to_owned();
    }
    Some(warning)
}

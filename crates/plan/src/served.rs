//! Refusals of cells with a server and many clients.

use bytecost_spec::{Cell, Survey, Transport};

use crate::host_sides::{DESCRIPTORS_BESIDES, HostSides};

/// Processes and threads of the machine and of the trial in addition to one for each connection.
const TASKS_BESIDES: u64 = 256;
/// Descriptors in addition to those of the load: new connections may come before the server has seen the
/// end of old ones.
const ROOM: u64 = 256;
/// Memory of a thread or process that serves one connection, in bytes: stacks, page tables, kernel
/// structures.
const TASK_BYTES: u64 = 128 << 10;

/// The reason why a server and its load are not available on a host that runs these sides; none if they are.
pub(crate) fn refused(
    cell: &Cell,
    memory_bytes: u64,
    survey: &Survey,
    sides: HostSides,
) -> Option<String> {
    let load = &cell.serving;
    let name = load.server.as_deref().unwrap_or_default();
    let Some(server) = survey.server(name) else {
        return Some(format!("server `{name}` was not tried"));
    };
    let all = load.all_connections();
    let bound = (server.bound.as_ref())
        .filter(|(most, _)| all > *most)
        .map(|(most, why)| format!("{name} serves at most {most} connections: {why}"));
    let serves = |why: Option<String>| why.filter(|_| sides.receives());
    let task_each = server.task_per_connection && sides.receives();
    let filter = (survey.serving.as_ref())
        .and_then(|s| s.filter_refused.clone())
        .filter(|_| cell.transport == Transport::Peer);
    serves(server.refused.clone())
        .or(serves(filter))
        .or_else(|| conduct(cell, server.in_turn))
        .or(serves(bound))
        .or_else(|| limits(cell, survey, sides, task_each))
        .or_else(|| {
            let needed = all * TASK_BYTES;
            let short = task_each && memory_bytes > 0 && needed > memory_bytes / 2;
            short.then(|| {
                format!(
                    "memory: {all} tasks of `{name}` take about {} MiB, more than half of this machine's: choose fewer --connections",
                    needed >> 20
                )
            })
        })
}

/// The refusal of connections and requests that the server's model or the load generator cannot have.
fn conduct(cell: &Cell, in_turn: bool) -> Option<String> {
    let load = &cell.serving;
    let name = load.server.as_deref().unwrap_or_default();
    let kept = load.connect == bytecost_spec::Connect::Kept;
    if !matches!(cell.transport, Transport::Loopback | Transport::Peer) {
        return Some(format!(
            "servers are measured over loopback and to another host alone, not over {}: leave --transport out",
            cell.transport.name()
        ));
    }
    if in_turn && load.idle > 0 {
        return Some(format!(
            "{name} serves one connection to its end before the next, so that one that is only there holds up all others for ever: choose --idle 0"
        ));
    }
    if in_turn && kept && load.connections > 1 {
        return Some(format!(
            "{name} serves one connection to its end before the next, so that of several that are kept all but one wait for ever: choose --connect new, or --connections 1"
        ));
    }
    if cell.threads > load.connections {
        return Some(format!(
            "{} threads of clients for {} connections: choose fewer --threads, since each connection is one thread's",
            cell.threads, load.connections
        ));
    }
    let waits = load.rate_per_s.is_none() && load.think_ns == 0;
    (cell.depth > 1 && !(kept && waits)).then(|| {
        "several requests on their way at once need connections that are kept and a closed loop without thinking: choose --depth 1".to_owned()
    })
}

/// The refusal of more connections than the limits of descriptors, ports and tasks.
fn limits(cell: &Cell, survey: &Survey, sides: HostSides, task_each: bool) -> Option<String> {
    let limits = survey.serving.as_ref()?.limits.as_ref()?;
    let all = cell.serving.all_connections();
    let needed = all + ROOM + DESCRIPTORS_BESIDES;
    if needed > limits.descriptors {
        return Some(format!(
            "RLIMIT_NOFILE: a server of {all} connections needs {needed} open files, and {} are allowed at most: raise the hard limit with `ulimit -Hn {needed}` as root (LimitNOFILE={needed} for a service), or choose fewer --connections",
            limits.descriptors
        ));
    }
    if sides.sends() && all > limits.ports {
        return Some(format!(
            "{all} connections need a port each on the clients' side, and net.ipv4.ip_local_port_range leaves {}: widen it as root, or choose fewer --connections",
            limits.ports
        ));
    }
    let tasks = all + TASKS_BESIDES;
    (task_each && tasks > limits.tasks).then(|| {
        format!(
            "{all} connections need a thread or process each, and {} allows {}: raise it, choose fewer --connections, or a server with one thread for all",
            limits.tasks_by, limits.tasks
        )
    })
}

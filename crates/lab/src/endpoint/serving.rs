//! The two sides of a cell with a server: one process that serves, one that asks.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytecost_engine::services::ServiceSetup;
use bytecost_engine::{Server, Service};
use bytecost_spec::Cell;
use bytecost_sys::process;

use crate::flow_setup::unknown;
use crate::greeters::FlowKey;
use crate::load::{GREETED_FROM, Load, LoadSpan, RequestPace};
use crate::protocol::{Schedule, Task};

pub(super) mod asking;
pub(super) mod served;

/// Time over which connections are opened, in ns for each: so that a server's queue of those who
/// want to be let in does not overflow, and a connection wait a second to try again. Those that are
/// greeted need none.
const RAMP_NS: u64 = 20_000;

/// Clients that wait to be greeted at one time: half of the shortest queue that a kernel gives a
/// server of ours (net.core.somaxconn, 128 before Linux 5.4). One at a time would have `poll` go
/// through all connections for each that comes.
const GREETED_AT_ONCE: u32 = 64;
/// Time for each connection beside the warm-up, so that all that ask at once have been answered
/// when the window opens: where no round is timed, so that nobody knows how long one takes.
const ROUND: Duration = Duration::from_micros(20);
/// Rounds of all connections that a window has time for at least, where they are many. The first
/// round, which is the one that is timed, takes longer than any later one: all ask at once.
const ROUNDS_LEAST: u32 = 1;

/// The rows that a cell names.
fn rows(cell: &Cell) -> io::Result<(&'static Server, &'static Service, ServiceSetup)> {
    let load = &cell.serving;
    let name = load.server.as_deref().unwrap_or_default();
    let server = Server::named(name).ok_or_else(|| unknown("server", name))?;
    let service = Service::named(&load.service).ok_or_else(|| unknown("service", &load.service))?;
    let size = usize::try_from(cell.size_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok((server, service, ServiceSetup::of(size)))
}

fn congestion(cell: &Cell) -> Option<&str> {
    Some(cell.congestion.as_str()).filter(|name| *name != "default")
}

/// Holds the process, and all that it starts, to its side's CPUs, if it has any.
fn hold(task: &Task) -> io::Result<()> {
    let mut cpus = task.pins.concat();
    cpus.sort_unstable();
    cpus.dedup();
    match cpus.as_slice() {
        [] => Ok(()),
        cpus => process::set_affinity(cpus),
    }
}

fn load(task: &Task, address: SocketAddr, schedule: Schedule) -> io::Result<Load> {
    let cell = &task.cell;
    let (server, service, asking) = rows(cell)?;
    let asked = &cell.serving;
    let once = Load::once(address, service, asking);
    let warmup = Duration::from_nanos(schedule.window_from_ns - schedule.begin_ns);
    let window = Duration::from_nanos(schedule.window_to_ns - schedule.window_from_ns);
    let mut load = Load {
        connections: asked.connections,
        idle: asked.idle,
        pace: match asked.rate_per_s {
            None => RequestPace::Closed {
                think: Duration::from_nanos(asked.think_ns),
            },
            Some(rate) => RequestPace::Open { per_s: rate as f64 },
        },
        arrivals: asked.arrivals,
        seed: task.keys.first().map_or(0, FlowKey::seed),
        kept: asked.connect == bytecost_spec::Connect::Kept,
        depth: cell.depth,
        span: LoadSpan::Time { warmup, window },
        patience: Duration::from_millis(task.patience_ms),
        threads: cell.threads,
        congestion: congestion(cell).map(str::to_owned),
        // Its thread or process is started before the window opens.
        greeted_from: match server.task_per_connection {
            true => 1,
            false => GREETED_FROM,
        },
        greeted_at_once: GREETED_AT_ONCE,
        rounds_least: ROUNDS_LEAST,
        ..once
    };
    if !load.takes_round() {
        load.span = LoadSpan::Time {
            warmup: warmup + ROUND * asked.connections,
            window,
        };
    }
    let ramped = match load.greets() {
        true => u64::from(asked.idle),
        false => asked.all_connections(),
    };
    load.ramp = Duration::from_nanos(RAMP_NS * ramped);
    Ok(load)
}

//! The engine's servers and the load that they get, made ready as a cell asks.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::servers::{self, Limits, ServerTally};
use bytecost_engine::services::ServiceSetup;
use bytecost_engine::{Server, Service};
use bytecost_meter::{MOST_THREADS, early_reading_ns};
use bytecost_spec::{Cell, Connect};
use bytecost_sys::process;

use crate::flow_setup::unknown;
use crate::load::{CONFIRMED_FROM, Load, LoadSpan, Pace};

/// Room for connections besides the load's: new ones may come before the ends of old ones are seen.
const ROOM: u64 = 256;
/// The fewest threads of a model with a fixed number of them.
const WORKERS_LEAST: usize = 2;
/// The shortest queue that a kernel gives a server of ours by itself (before Linux 5.4). One
/// connection confirmed at a time would have `poll` go through all connections each time.
const USUAL_QUEUE: u32 = 128;
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";
/// The fewest rounds of a window with many connections. The first takes longest: all send at once.
const ROUNDS_LEAST: u32 = 1;

pub(crate) struct ServedService {
    pub(crate) server: &'static Server,
    pub(crate) service: &'static Service,
    pub(crate) setup: ServiceSetup,
}

impl ServedService {
    /// Looks up both by their names; `InvalidInput` where one is unknown.
    pub(crate) fn find(cell: &Cell) -> io::Result<ServedService> {
        let serving = &cell.serving;
        let name = serving.server.as_deref().unwrap_or_default();
        let size = usize::try_from(cell.size_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(ServedService {
            server: Server::named(name).ok_or_else(|| unknown("server", name))?,
            service: Service::named(&serving.service)
                .ok_or_else(|| unknown("service", &serving.service))?,
            setup: ServiceSetup::new(size),
        })
    }
}

/// Serves a cell's load until the stop descriptor is hung up.
pub(crate) fn serve(cell: &Cell, listener: OwnedFd, stop: OwnedFd) -> io::Result<ServerTally> {
    let served = ServedService::find(cell)?;
    let room = usize::try_from(descriptors(cell)).unwrap_or(usize::MAX);
    let bound = (served.server.bound).map_or(usize::MAX, |(most, _)| most as usize);
    (served.server.serve)(servers::ServerSetup {
        listener,
        stop,
        service: served.service,
        serving: served.setup,
        workers: process::affinity()?.len().max(WORKERS_LEAST),
        limits: Limits {
            connections: room.min(bound),
            ..Limits::default()
        },
    })
}

/// The most connections that a server of a cell has at one time.
pub(crate) fn descriptors(cell: &Cell) -> u64 {
    cell.serving.all_connections().saturating_add(ROOM)
}

/// The load of a cell, of one request for each connection.
pub(crate) fn load(cell: &Cell, address: SocketAddr, timeout: Duration) -> io::Result<Load> {
    let served = ServedService::find(cell)?;
    let serving = &cell.serving;
    let queue = listen_queue();
    Ok(Load {
        connections: serving.connections,
        idle: serving.idle,
        pace: match serving.rate_per_s {
            None => Pace::Closed {
                think: Duration::from_nanos(serving.think_ns),
            },
            Some(rate) => Pace::Open { per_s: rate as f64 },
        },
        arrivals: serving.arrivals,
        kept: serving.connect == Connect::Kept,
        depth: cell.depth,
        span: LoadSpan::Requests(1),
        timeout,
        threads: cell.threads,
        congestion: congestion(cell).map(str::to_owned),
        // Its thread or process is started before the window opens.
        confirmed_from: if served.server.task_per_connection {
            1
        } else if queue < USUAL_QUEUE {
            queue.max(1)
        } else {
            CONFIRMED_FROM
        },
        confirmed_at_once: (queue / 2).max(1),
        rounds_least: ROUNDS_LEAST,
        ..Load::once(address, served.service, served.setup)
    })
}

/// The length of a server's queue of new connections, which net.core.somaxconn bounds.
fn listen_queue() -> u32 {
    let limit = fs::read_to_string(SOMAXCONN)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(USUAL_QUEUE).min(USUAL_QUEUE)
}

/// The congestion control that a cell names; none leaves the system's.
pub(crate) fn congestion(cell: &Cell) -> Option<&str> {
    Some(cell.congestion.as_str()).filter(|name| *name != "default")
}

/// The time that the look at the process tree of a cell's server takes before its window opens.
pub(crate) fn early_reading_time(cell: &Cell) -> Duration {
    let server = cell.serving.server.as_deref().and_then(Server::named);
    let read_early = server.map_or(0, |server| max_read_early(server, cell));
    Duration::from_nanos(early_reading_ns(read_early))
}

/// The most threads or processes of a server that are read one by one before its window opens;
/// 0 of a server that has none for each connection.
pub(crate) fn max_read_early(server: &Server, cell: &Cell) -> u64 {
    let connections = cell.serving.all_connections();
    if !server.task_per_connection {
        0
    } else if server.needs_lone_thread {
        connections
    } else {
        connections.min(MOST_THREADS as u64)
    }
}

//! Servers that work on this host, found by trials, and their bounds.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytecost_engine::{SERVERS, SERVICES, Server, servers};
use bytecost_host::Roots;
use bytecost_spec::Cell;
use bytecost_spec::survey::{ServerFacts, ServerSurvey, ServingLimits};
use bytecost_sys::tcp;
use rustix::process::{Resource, getrlimit};

use crate::load;
use crate::local_host::LocalHost;
use crate::short_trials::Surveyor;
use crate::side_by_side;

const SIZE_BYTES: u64 = 64;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Tries every server by a trial with one connection, whose response is checked.
pub fn survey(surveyor: &Surveyor<'_>) -> ServerSurvey {
    ServerSurvey {
        servers: side_by_side::each(SERVERS, |server| tried(surveyor, server)),
        services: SERVICES.iter().map(|s| s.facts.owned()).collect(),
        limits: serving_limits(),
        generator: Some(match load::no_ring_here() {
            None => load::LoadInterface::Uring.name().to_owned(),
            Some(why) => format!("{}: no ring ({why})", load::LoadInterface::Epoll.name()),
        }),
        filter_refused: filter().err().map(|e| format!(
            "packet filters: {e} (SO_ATTACH_FILTER), and a server that another host reaches keeps strangers away by one: permit it to this user (the container's system call filter, security modules, net.core.optmem_max), or swap the hosts' roles by --reverse"
        )),
    }
}

/// Attaches the longest packet filter that a server of a trial has.
fn filter() -> io::Result<()> {
    let (listener, _) = servers::listen((Ipv4Addr::LOCALHOST, 0).into(), TIMEOUT)?;
    tcp::admit_only(listener, Ipv6Addr::LOCALHOST.into())
}

fn tried(surveyor: &Surveyor<'_>, server: &Server) -> ServerFacts {
    let mut cell = Cell {
        size_bytes: SIZE_BYTES,
        congestion: "default".to_owned(),
        ..Cell::default()
    };
    cell.serving.server = Some(server.name.to_owned());
    cell.serving.connections = 1;
    let refused = surveyor.series(LocalHost::default()).attempt(&cell).err();
    ServerFacts {
        refused: refused.map(|why| format!("server `{}`: {why}", server.name)),
        ..server.facts.owned()
    }
}

/// Bounds of connections and threads; none where `/proc` does not have them.
fn serving_limits() -> Option<ServingLimits> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ports = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ports.next()?.ok()?, ports.next()?.ok()?);
    let tasks = bytecost_host::limits::thread_limit(&Roots::real())?;
    Some(ServingLimits {
        descriptors: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        tasks: tasks.limit,
        tasks_by: tasks.name,
        ports: (last + 1).saturating_sub(first) * load::SOURCE_ADDRESSES,
    })
}

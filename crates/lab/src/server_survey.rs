//! Servers that work on this host, found by one request of a trial's load to each, and their bounds.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use bytecost_engine::{SERVERS, SERVICES, Server, servers};
use bytecost_host::Roots;
use bytecost_spec::Cell;
use bytecost_spec::survey::{ServerFacts, ServerSurvey, ServingLimits};
use bytecost_sys::tcp;
use rustix::process::{Resource, getrlimit};

use crate::limits::{self, retried_without_memory};
use crate::load;
use crate::server_setup;
use crate::side_by_side;
use crate::survey::reason;

const SIZE_BYTES: u64 = 64;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Tries every server once. One that forks needs its own process, and is taken to work.
pub fn survey() -> ServerSurvey {
    ServerSurvey {
        servers: side_by_side::each(SERVERS, tried),
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

fn tried(server: &Server) -> ServerFacts {
    let is_tried = !server.needs_lone_thread;
    let refused = is_tried
        .then(|| retried_without_memory(|| attempt(server)).err())
        .flatten();
    ServerFacts {
        refused: refused.map(|e| format!("server `{}`: {}", server.name, reason(&e))),
        ..server.facts.owned()
    }
}

/// Serves one request of a trial's load.
fn attempt(server: &Server) -> io::Result<()> {
    let mut cell = Cell {
        size_bytes: SIZE_BYTES,
        congestion: "default".to_owned(),
        ..Cell::default()
    };
    cell.serving.server = Some(server.name.to_owned());
    cell.serving.connections = 1;
    let (listener, address) = servers::listen((Ipv4Addr::LOCALHOST, 0).into(), TIMEOUT)?;
    let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let load = server_setup::load(&cell, address, TIMEOUT)?;
    thread::scope(|scope| {
        let serving = limits::start(scope, || server_setup::serve(&cell, listener, stopped))?;
        let outcome = load.run(&AtomicBool::new(false), &|_| ());
        drop(stop);
        // The server's own error says more than a missing response.
        serving.join().map_err(|_| io::ErrorKind::Other)??;
        match outcome? {
            served if served.answers == 1 => Ok(()),
            failed => Err(io::Error::other(format!(
                "no response to a request: {:?}",
                failed.errors.by_kind()
            ))),
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_tried_and_what_bounds_them_is_known() {
        let survey = survey();
        assert_eq!(survey.servers.len(), SERVERS.len());
        assert_eq!(survey.services.len(), SERVICES.len());
        for server in &survey.servers {
            // io_uring may be closed here; all others are of every kernel.
            let works = server.refused.is_none() || server.name == "uring";
            assert!(works, "{server:?}");
        }
        assert_eq!(survey.filter_refused.is_some(), filter().is_err());
        let limits = survey.limits.unwrap();
        assert!(limits.descriptors > 64 && limits.tasks > 64 && limits.ports > 64);
        assert!(!limits.tasks_by.is_empty());
        let generator = survey.generator.unwrap();
        let is_known = generator == "io_uring" || generator.starts_with("epoll: no ring (");
        assert!(is_known, "{generator}");
    }
}

//! What works of servers on this host, found by asking each once, and what bounds them.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use bytecost_engine::servers::{self, Limits, ServerSetup};
use bytecost_engine::services::ServiceSetup;
use bytecost_engine::{SERVERS, SERVICES, Server, Service};
use bytecost_spec::survey::{ServerFacts, ServerSurvey, ServingLimits};
use rustix::process::{Resource, getrlimit};

use crate::load::{self, ask};
use crate::side_by_side;
use crate::survey::reason;

const SIZE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// Tries every server once. One that forks needs its own process, and is taken to work.
pub fn survey() -> ServerSurvey {
    ServerSurvey {
        servers: side_by_side::each(SERVERS, tried),
        services: SERVICES.iter().map(|s| s.facts.owned()).collect(),
        limits: limits(),
        generator: Some(match load::no_ring_here() {
            None => load::LoadInterface::Uring.name().to_owned(),
            Some(why) => format!("{}: no ring ({why})", load::LoadInterface::Epoll.name()),
        }),
    }
}

fn tried(server: &Server) -> ServerFacts {
    let is_tried = !server.needs_lone_thread;
    let refused = is_tried.then(|| attempt(server).err()).flatten();
    ServerFacts {
        refused: refused.map(|e| format!("server `{}`: {}", server.name, reason(&e))),
        ..server.facts.owned()
    }
}

fn attempt(server: &Server) -> io::Result<()> {
    let echo = Service::named("echo").ok_or(io::ErrorKind::NotFound)?;
    let serving = ServiceSetup::of(SIZE);
    let (listener, address) = servers::listen((Ipv4Addr::LOCALHOST, 0).into())?;
    let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let setup = ServerSetup {
        listener,
        stop: stopped,
        service: echo,
        serving: serving.clone(),
        workers: 1,
        limits: Limits {
            connections: 8,
            patience: PATIENCE,
            ..Limits::default()
        },
    };
    let serve = server.serve;
    thread::scope(|scope| {
        let served = thread::Builder::new().spawn_scoped(scope, move || serve(setup))?;
        let asked = ask(address, echo, &serving, PATIENCE);
        drop(stop);
        // Why it does not serve says more than that it does not answer.
        served.join().map_err(|_| io::ErrorKind::Other)??;
        asked.map(drop)
    })
}

/// None where `/proc` does not tell.
fn limits() -> Option<ServingLimits> {
    let ports = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ports = ports.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ports.next()?.ok()?, ports.next()?.ok()?);
    let (tasks_by, tasks) = tasks()?;
    Some(ServingLimits {
        descriptors: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        tasks,
        tasks_by,
        ports: (last + 1).saturating_sub(first) * load::SOURCES,
    })
}

/// The least of all limits of threads and processes, with its name.
fn tasks() -> Option<(String, u64)> {
    let of_system = ["threads-max", "pid_max"].map(|name| {
        let number = number(&format!("/proc/sys/kernel/{name}"))?;
        Some((format!("kernel.{name}"), number))
    });
    // Root is not held to RLIMIT_NPROC.
    let of_user = getrlimit(Resource::Nproc)
        .current
        .filter(|_| !rustix::process::geteuid().is_root())
        .map(|n| ("RLIMIT_NPROC (ulimit -u)".to_owned(), n));
    let limits = of_system.into_iter().flatten().chain(of_user);
    limits.chain(of_group()).min_by_key(|(_, n)| *n)
}

/// The limit of this process's control group, version 2 or 1.
fn of_group() -> Option<(String, u64)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let files = groups.lines().filter_map(|line| {
        let (head, path) = line.rsplit_once(':')?;
        match head {
            "0:" => Some(format!("/sys/fs/cgroup{path}/pids.max")),
            _ if head.ends_with(":pids") => Some(format!("/sys/fs/cgroup/pids{path}/pids.max")),
            _ => None,
        }
    });
    let limits =
        files.filter_map(|file| Some((format!("the control group ({file})"), number(&file)?)));
    limits.min_by_key(|(_, n)| *n)
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
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
        let limits = survey.limits.unwrap();
        assert!(limits.descriptors > 64 && limits.tasks > 64 && limits.ports > 64);
        assert!(!limits.tasks_by.is_empty());
        let generator = survey.generator.unwrap();
        let is_told = generator == "io_uring" || generator.starts_with("epoll: no ring (");
        assert!(is_told, "{generator}");
    }
}

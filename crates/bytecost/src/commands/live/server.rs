//! `bytecost live server`: a live server, with the concurrency model of choice.

use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result};
use bytecost_engine::servers::{self, Limits, Server};
use bytecost_engine::services::{self, Service};
use bytecost_engine::{SERVERS, SERVICES};
use bytecost_host::{Roots, limits};
use bytecost_lab::descriptors;
use bytecost_report::service;
use bytecost_spec::units;
use itertools::Itertools as _;

use super::check_listen;
use crate::args::{ServedService, ServiceArgs};
use crate::commands::{note, printed};
use crate::failure::{Exit, bad_input, check_time, unknown};
use crate::{pinning, signals};

/// The size of a message where none is chosen.
const SIZE_BYTES: u64 = 64;
/// For how long one look at the processes serves the requests that follow.
const TABLE_KEPT: Duration = Duration::from_millis(10);
/// What strangers are given where nothing else is chosen: connections of one address, and the time
/// between the requests of each.
const EACH_ADDRESS: usize = 256;
const IDLE: Duration = Duration::from_secs(60);
/// How long a response may take in all, however slowly it is received.
const RESPONSE: Duration = Duration::from_secs(60);
/// What the kernel may keep of a connection's responses, in bytes: by itself it takes up to
/// net.ipv4.tcp_wmem's 4 MiB, and some hundred slow clients would use up what all of TCP may have.
const SEND_BUFFER: usize = 128 << 10;
/// What a client's time may be.
pub(super) const PATIENCE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

/// Serves until Ctrl-C, which is its proper end: status 0.
pub fn run(served: ServedService) -> Result<Exit> {
    let (service, args) = (served.service, &served.args);
    check_listen(args.listen, &args.allow)?;
    let model = chosen(args)?;
    let serving = serving(service, args.size)?;
    check_time("patience", args.patience, PATIENCE)?;
    if let Some(idle) = args.idle_timeout {
        check_time("idle-timeout", idle, PATIENCE)?;
    }
    if let Some(list) = &args.cpu {
        pinning::pin(list)?;
    }
    let connections = room(model, service, &serving, args)?;
    let (listener, address) =
        servers::listen(SocketAddr::from((args.listen, args.port)), args.patience).map_err(
            |e| match e.kind() {
                io::ErrorKind::AddrInUse
                | io::ErrorKind::AddrNotAvailable
                | io::ErrorKind::PermissionDenied => bad_input(e),
                _ => bad_input(format!("cannot listen at {}: {e}", args.listen)),
            },
        )?;
    let stop = signals::stop_pipe()?;
    let cpus = available_parallelism().map_or(1, |n| n.get());
    tell(model, service, &serving, address);
    let tally = (model.serve)(servers::ServerSetup {
        listener,
        stop,
        service,
        serving,
        workers: args.workers.map_or(cpus, |n| n as usize),
        limits: bounds(args, connections),
    })
    .with_context(|| format!("`{}` cannot serve here", model.name))?;
    printed(&match args.json {
        true => service::tally_json(model.name, service.name, &tally),
        false => service::tally(model.name, service.name, &tally),
    })
}

fn bounds(args: &ServiceArgs, connections: usize) -> Limits {
    let has_strangers = !args.listen.is_loopback();
    let each_address = args.per_address.map(|most| most as usize);
    Limits {
        connections,
        patience: args.patience,
        idle: args.idle_timeout.or(has_strangers.then_some(IDLE)),
        response: Some(RESPONSE),
        allow: args.allow.clone(),
        each_address: each_address.or(has_strangers.then_some(EACH_ADDRESS)),
        send_buffer: Some(SEND_BUFFER),
        ..Limits::default()
    }
}

/// The model that was named, and only options that it has.
fn chosen(args: &ServiceArgs) -> Result<&'static Server> {
    let model = Server::named(&args.model)
        .ok_or_else(|| unknown("model", &args.model, SERVERS.iter().map(|s| s.name)))?;
    if args.workers.is_some() && !model.takes_workers {
        let takes = SERVERS.iter().filter(|s| s.takes_workers);
        let takes = takes.map(|s| s.name).join(", ");
        return Err(bad_input(format!(
            "model `{}` has no fixed number of threads: leave --workers out, or choose {takes}",
            model.name
        )));
    }
    Ok(model)
}

pub(super) fn named(name: &str) -> Result<&'static Service> {
    Service::named(name).ok_or_else(|| unknown("service", name, SERVICES.iter().map(|s| s.name)))
}

/// What both ends of a service are made from.
pub(super) fn serving(service: &Service, size: Option<u64>) -> Result<services::ServiceSetup> {
    if service.sizes.is_none() && size.is_some() {
        return Err(bad_input(format!(
            "{} has no --size, since its responses have a length of their own: leave it out",
            service.name
        )));
    }
    let size = usize::try_from(size.unwrap_or(SIZE_BYTES)).unwrap_or(usize::MAX);
    service.check_size(size).map_err(bad_input)?;
    Ok(services::ServiceSetup {
        size,
        roots: Roots::real(),
        kept_for: TABLE_KEPT,
    })
}

/// How many connections are served at one time, with memory for the responses that all of them may
/// leave unreceived, and descriptors for so many.
fn room(
    model: &Server,
    service: &Service,
    serving: &services::ServiceSetup,
    args: &ServiceArgs,
) -> Result<usize> {
    let each = service.most_unsent(serving.size) as u64;
    let memory = limits::available_memory(&serving.roots).unwrap_or(u64::MAX) / 2;
    let fit = (memory / each.max(1)).max(1);
    if let Some(wanted) = args.connections {
        if u64::from(wanted) > fit {
            return Err(bad_input(format!(
                "--connections {wanted} may keep {} of responses each, more than half of the available memory: choose at most {fit}, or a smaller --size",
                units::bytes_in_words(each)
            )));
        }
        if let Some(why) = model.refuses(wanted as usize) {
            return Err(bad_input(why));
        }
        descriptors::make_room(wanted.into()).map_err(bad_input)?;
        return Ok(wanted as usize);
    }
    let most = Limits::default().connections.min(fit as usize);
    let room = descriptors::make_most_room(most as u64).map_err(bad_input)?;
    Ok(usize::try_from(room).unwrap_or(most))
}

/// Says where it listens, and what a newcomer should know.
fn tell(model: &Server, service: &Service, serving: &services::ServiceSetup, address: SocketAddr) {
    if let Some(caution) = model.caution {
        note(format!("`{}`: {caution}", model.name));
    }
    if let Some((most, reason)) = model.bound {
        note(format!(
            "`{}` serves at most {most} connections, further ones are closed: {reason}",
            model.name
        ));
    }
    let mut words = format!("{address} {}", service.name);
    if service.sizes.is_some() {
        words.push_str(&format!(" --size {}", units::bytes(serving.size as u64)));
    }
    note(format!(
        "listening at {address}; load it with `bytecost live load {words}`, end with Ctrl-C"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    #[test]
    fn strangers_have_bounds_that_loopback_has_only_if_asked() {
        let check = |words: &[&str], idle_s: Option<u64>, each_address| {
            let command = ServiceArgs::augment_args(clap::Command::new("server"));
            let words = ["server"].iter().chain(words);
            let args = ServiceArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
            let limits = bounds(&args, 7);
            let idle = idle_s.map(Duration::from_secs);
            assert_eq!((limits.idle, limits.each_address), (idle, each_address));
        };
        check(&[], None, None);
        check(&["--listen", "::1"], None, None);
        check(&["--listen", "0.0.0.0"], Some(60), Some(256));
        let asked = ["--per-address", "9", "--idle-timeout", "5s"];
        check(&asked, Some(5), Some(9));
        check(
            &[&asked[..], &["--listen", "::"]].concat(),
            Some(5),
            Some(9),
        );
    }
}

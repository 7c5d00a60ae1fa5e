//! `bytecost live server`: a service on a port, with the concurrency model of choice.

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
use super::join::{LENGTH, MAX_LENGTH_OF_OTHERS, check_max_rate};
use crate::args::{ServedService, ServiceArgs};
use crate::commands::{note, printed};
use crate::failure::{Exit, bad_input, check_time, unknown};
use crate::{pinning, signals};

/// Default of `--size`.
const SIZE_BYTES: u64 = 64;
/// Time for which a table of processes is sent again, instead of reading /proc for each request.
const TABLE_LIFETIME: Duration = Duration::from_millis(10);
/// Default of `--per-address` for clients of other machines.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 256;
/// Default of `--idle-timeout` for clients of other machines.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum duration of a response, however slowly the client receives it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Send buffer of a connection, in bytes. The kernel's own maximum is 4 MiB (net.ipv4.tcp_wmem), with
/// which some hundred slow clients would use up the memory that all of TCP may have (tcp_mem).
const SEND_BUFFER: usize = 128 << 10;
/// Bounds of `--patience` and `--idle-timeout`.
pub(super) const PATIENCE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

/// Serves until Ctrl-C, which ends it with status 0.
pub fn run(served: ServedService) -> Result<Exit> {
    let (service, args) = (served.service, &served.args);
    check_listen(args.listen, &args.allow)?;
    let model = chosen(args)?;
    let serving = serving(service, args.size)?;
    check_time("patience", args.patience, PATIENCE)?;
    if let Some(idle) = args.idle_timeout {
        check_time("idle-timeout", idle, PATIENCE)?;
    }
    if let Some(most) = args.max_duration {
        check_time("--max-duration", most, LENGTH)?;
    }
    check_max_rate(args.max_rate)?;
    if let Some(list) = &args.cpu {
        pinning::pin(list)?;
    }
    let connections = max_connections(model, service, &serving, args)?;
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
    announce(model, service, &serving, address);
    let tally = (model.serve)(servers::ServerSetup {
        listener,
        stop,
        service,
        serving,
        workers: args.workers.map_or(cpus, |n| n as usize),
        limits: limits_of(args, connections),
    })
    .with_context(|| format!("`{}` cannot serve here", model.name))?;
    printed(&if args.json {
        service::tally_json(model.name, service.name, &tally)
    } else {
        service::tally(model.name, service.name, &tally)
    })
}

/// The limits of the options, with stricter defaults if other machines can connect.
fn limits_of(args: &ServiceArgs, connections: usize) -> Limits {
    let is_open_to_others = !args.listen.is_loopback();
    let per_address = args.per_address.map(|max| max as usize);
    Limits {
        connections,
        patience: args.patience,
        idle: (args.idle_timeout).or(is_open_to_others.then_some(IDLE_TIMEOUT)),
        lifetime: (args.max_duration).or(is_open_to_others.then_some(MAX_LENGTH_OF_OTHERS)),
        max_bytes_per_s: (args.max_rate).map(|rate| (rate / connections.max(1) as u64).max(1)),
        response: Some(RESPONSE_TIMEOUT),
        allow: args.allow.clone(),
        each_address: per_address.or(is_open_to_others.then_some(MAX_CONNECTIONS_PER_ADDRESS)),
        send_buffer: Some(SEND_BUFFER),
        ..Limits::default()
    }
}

/// The model of the command line.
///
/// # Errors
/// An option that the model does not have.
fn chosen(args: &ServiceArgs) -> Result<&'static Server> {
    let model = Server::named(&args.model)
        .ok_or_else(|| unknown("model", &args.model, SERVERS.iter().map(|s| s.name)))?;
    if args.workers.is_some() && !model.takes_workers {
        let choices = SERVERS
            .iter()
            .filter(|s| s.takes_workers)
            .map(|s| s.name)
            .join(", ");
        return Err(bad_input(format!(
            "model `{}` has no fixed number of threads: leave --workers out, or choose {choices}",
            model.name
        )));
    }
    Ok(model)
}

pub(super) fn named(name: &str) -> Result<&'static Service> {
    Service::named(name).ok_or_else(|| unknown("service", name, SERVICES.iter().map(|s| s.name)))
}

/// The settings of a service that its server and its clients must have in common.
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
        kept_for: TABLE_LIFETIME,
    })
}

/// The number of connections that are served at one time: of the option, or as many as there are
/// descriptors, and memory for responses that clients do not receive.
///
/// # Errors
/// More connections in the option than there are descriptors or memory for.
fn max_connections(
    model: &Server,
    service: &Service,
    serving: &services::ServiceSetup,
    args: &ServiceArgs,
) -> Result<usize> {
    let unsent_bytes = service.most_unsent_bytes(serving.size) as u64;
    let memory = limits::available_memory(&serving.roots).unwrap_or(u64::MAX) / 2;
    let max_by_memory = (memory / unsent_bytes.max(1)).max(1);
    if let Some(wanted) = args.connections {
        if u64::from(wanted) > max_by_memory {
            return Err(bad_input(format!(
                "--connections {wanted} may keep {} of responses each, more than half of the available memory: choose at most {max_by_memory}, or a smaller --size",
                units::bytes_in_words(unsent_bytes)
            )));
        }
        if let Some(why) = model.refuses(wanted as usize) {
            return Err(bad_input(why));
        }
        descriptors::make_room(wanted.into()).map_err(bad_input)?;
        return Ok(wanted as usize);
    }
    let max = Limits::default().connections.min(max_by_memory as usize);
    let max_by_descriptors = descriptors::make_most_room(max as u64).map_err(bad_input)?;
    Ok(usize::try_from(max_by_descriptors).unwrap_or(max))
}

/// Prints the cautions of the model, the address, and a command that loads the server.
fn announce(
    model: &Server,
    service: &Service,
    serving: &services::ServiceSetup,
    address: SocketAddr,
) {
    if let Some(caution) = model.caution {
        note(format!("`{}`: {caution}", model.name));
    }
    if let Some((max, reason)) = model.bound {
        note(format!(
            "`{}` serves at most {max} connections, further ones are closed: {reason}",
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

    fn limits(options: &[&str]) -> Limits {
        let command = ServiceArgs::augment_args(clap::Command::new("server"));
        let words = ["server"].iter().chain(options);
        let args = ServiceArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
        limits_of(&args, 7)
    }

    #[test]
    fn clients_of_other_machines_have_limits_that_loopback_has_only_by_option() {
        let check =
            |options: &[&str], idle_s: Option<u64>, lifetime_s: Option<u64>, each_address| {
                let limits = limits(options);
                let [idle, lifetime] = [idle_s, lifetime_s].map(|s| s.map(Duration::from_secs));
                assert_eq!((limits.idle, limits.lifetime), (idle, lifetime));
                assert_eq!(limits.each_address, each_address);
            };
        check(&[], None, None, None);
        check(&["--listen", "::1"], None, None, None);
        check(&["--listen", "0.0.0.0"], Some(60), Some(60), Some(256));
        let options = "--per-address 9 --idle-timeout 5s --max-duration 2h";
        let options: Vec<&str> = options.split(' ').collect();
        check(&options, Some(5), Some(7200), Some(9));
        let options = [&options[..], &["--listen", "::"]].concat();
        check(&options, Some(5), Some(7200), Some(9));
    }

    #[test]
    fn connections_share_the_rate() {
        assert_eq!(limits(&[]).max_bytes_per_s, None);
        let options = ["--max-rate", "70KiB", "--connections", "7"];
        assert_eq!(limits(&options).max_bytes_per_s, Some(10 << 10));
    }
}

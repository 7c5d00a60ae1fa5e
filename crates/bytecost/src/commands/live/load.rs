//! `bytecost live load`: one request to a server, and a load on it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, anyhow};
use bytecost_engine::services::{Service, top};
use bytecost_lab::descriptors;
use bytecost_lab::live::PORT;
use bytecost_lab::load::{self, Load, LoadOutcome, LoadSpan};
use bytecost_report::service;
use bytecost_spec::service::{Asked, Asking, GeneratorCost, Latencies, Pace, Process, Response};
use bytecost_spec::{Arrivals, units};

use super::numeric_address;
use super::server::{PATIENCE, named, serving};
use crate::args::LoadArgs;
use crate::commands::print;
use crate::failure::{Exit, bad_input, check_time};
use crate::{pinning, signals, terminal};

/// Bound of each time option: duration, warm-up, think time, ramp.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);
/// Lower bound of `--duration`.
const MIN_DURATION: Duration = Duration::from_millis(1);
/// Time limit of a connection to `localhost` that tries which of its addresses has the server.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

/// Sends one request and prints the response, and then loads the server. The status is 1 if a request
/// failed, or if Ctrl-C ended the load early.
pub fn run(args: &LoadArgs) -> Result<Exit> {
    let load = load_of(args)?;
    if let Some(list) = &args.cpu {
        pinning::pin(list)?;
    }
    descriptors::make_room(load.descriptors()).map_err(bad_input)?;
    let description = description(&load);
    let first = load::ask(load.address, load.service, &load.asking, load.timeout)
        .map_err(|e| first_request_failed(&load, e))?;
    let response = response(load.service, &first);
    // From here on Ctrl-C ends the load; before, it ends the command.
    let stop = signals::stop_flag()?;
    print(&if args.json {
        service::answer_json(&description, &response)
    } else {
        service::answer(&description, &response, terminal::style()) + "\n"
    })?;
    let outcome = load.run(&stop, &|_| ())?;
    let interrupted = stop.load(std::sync::atomic::Ordering::Relaxed);
    let results = results(description, &outcome, interrupted);
    print(&if args.json {
        service::asked_json(&results)
    } else {
        service::asked(&results, terminal::style())
    })?;
    if interrupted {
        return Ok(Exit::Interrupted);
    }
    let has_failed =
        results.errors_in_all() > 0 || results.unanswered > 0 || results.server_gone_s.is_some();
    Ok(Exit::from_success(!has_failed))
}

fn load_of(args: &LoadArgs) -> Result<Load> {
    let service = named(&args.service)?;
    let service_setup = serving(service, args.size)?;
    let mut load = Load::once(server_address(args)?, service, service_setup);
    check_time("patience", args.patience, PATIENCE)?;
    for (option, time) in [
        ("duration", args.duration),
        ("warmup", args.warmup),
        ("think", args.think),
        ("ramp", args.ramp),
    ] {
        check_time(option, time.unwrap_or_default(), ..=MAX_TIME)?;
    }
    if let Some(window) = args.duration {
        check_time("duration", window, MIN_DURATION..)?;
    }
    load.connections = args.connections;
    load.idle = args.idle;
    load.kept = !args.new_connections;
    load.depth = args.depth;
    load.threads = args.threads;
    load.ends_with_server = true;
    load.timeout = args.patience;
    load.ramp = args.ramp.unwrap_or_default();
    load.pace = match args.rate {
        Some(per_s) => Pace::Open { per_s },
        None => Pace::Closed {
            think: args.think.unwrap_or_default(),
        },
    };
    load.arrivals = args.arrivals.unwrap_or(Arrivals::Poisson);
    load.seed = RandomState::new().build_hasher().finish();
    load.span = match args.duration {
        Some(window) => LoadSpan::Time {
            warmup: args.warmup.unwrap_or_default(),
            window,
        },
        None => LoadSpan::Requests(args.requests.unwrap_or(1)),
    };
    load.check().map_err(bad_input)?;
    Ok(load)
}

/// The address of the server. `localhost` is 127.0.0.1, or ::1 if a server listens there alone.
fn server_address(args: &LoadArgs) -> Result<SocketAddr> {
    let text = args.address.as_str();
    if text != "localhost" && !text.starts_with("localhost:") {
        return address(text, args.port);
    }
    let at = |ip| address(&text.replacen("localhost", ip, 1), args.port);
    let (v4, v6) = (at("127.0.0.1")?, at("[::1]")?);
    let listens = |server: &SocketAddr| TcpStream::connect_timeout(server, CONNECT_LIMIT).is_ok();
    Ok(if !listens(&v4) && listens(&v6) {
        v6
    } else {
        v4
    })
}

/// Parses an IP address with or without a port. Names are not resolved.
fn address(text: &str, port: Option<u16>) -> Result<SocketAddr> {
    let (ip, port_in_text) = numeric_address(text).ok_or_else(|| {
        bad_input(format!(
            "`{}` is no IP address: write one such as 127.0.0.1 or 192.0.2.7:{PORT}; names are not looked up",
            units::one_line(text)
        ))
    })?;
    match (port_in_text, port) {
        (Some(one), Some(other)) if one != other => Err(bad_input(format!(
            "address `{text}` has a port, and --port names another: give one of them"
        ))),
        _ => Ok(SocketAddr::new(ip, port_in_text.or(port).unwrap_or(PORT))),
    }
}

/// The error of the first request, with a remedy if no server listens.
fn first_request_failed(load: &Load, error: io::Error) -> anyhow::Error {
    let (address, name) = (load.address, load.service.name);
    match error.kind() {
        io::ErrorKind::ConnectionRefused => anyhow!(
            "nobody listens at {address}: start `bytecost live server {name} --port {}` there first",
            address.port()
        ),
        io::ErrorKind::TimedOut => anyhow!("{error}"),
        io::ErrorKind::InvalidData => anyhow!("{address}: {error}"),
        _ => anyhow!("no response from {address}: {error}"),
    }
}

/// The content of a response, which has been checked already: processes of `top`, a length of others.
fn response(service: &Service, bytes: &[u8]) -> Response {
    if service.name != top::SERVICE.name {
        return Response::Content {
            bytes: bytes.len() as u64,
        };
    }
    let processes = top::entries(bytes).flatten().map(|entry| Process {
        name: String::from_utf8_lossy(entry.name).into_owned(),
        pid: entry.pid,
        user_s: entry.user_hundredths as f64 / 100.0,
        kernel_s: entry.kernel_hundredths as f64 / 100.0,
    });
    Response::Busiest(processes.collect())
}

/// The load as reports describe it.
fn description(load: &Load) -> Asking {
    Asking {
        address: load.address.to_string(),
        service: load.service.name.to_owned(),
        size_bytes: load.service.sizes.map(|_| load.asking.size as u64),
        connections: load.connections,
        idle: load.idle,
        kept: load.kept,
        depth: load.depth,
        threads: load.threads,
        pace: load.pace,
        arrivals: load.arrivals,
    }
}

/// The results of a load, in the units of reports.
fn results(description: Asking, outcome: &LoadOutcome, interrupted: bool) -> Asked {
    let us = |ns: u64| ns as f64 / 1e3;
    let histogram = &outcome.latency_ns;
    let at = |quantile| us(histogram.value_at_quantile(quantile));
    let late = &outcome.generator.late_ns;
    Asked {
        asking: description,
        elapsed_s: outcome.window_ns as f64 / 1e9,
        answers: outcome.answers,
        answers_per_s: outcome.answers_per_s(),
        unanswered: outcome.unanswered,
        latency: (!histogram.is_empty()).then(|| Latencies {
            count: histogram.len(),
            us_p50: at(0.5),
            us_p90: at(0.9),
            us_p99: at(0.99),
            us_p999: at(0.999),
            us_max: us(histogram.max()),
        }),
        errors: outcome.errors.by_kind().to_vec(),
        opened: outcome.opened,
        fairness: outcome.fairness(),
        generator: GeneratorCost {
            busy_share: outcome.generator.busy_share,
            cpu_s: outcome.generator.cpu_ns as f64 / 1e9,
            late_us_p99: (!late.is_empty()).then(|| us(late.value_at_quantile(0.99))),
            limit: outcome.generator_limit().map(|l| l.to_string()),
            way: outcome.generator.way.name(),
            no_ring: outcome.generator.no_ring.clone(),
        },
        interrupted,
        server_gone_s: outcome.server_gone_ns.map(|ns| ns as f64 / 1e9),
    }
}

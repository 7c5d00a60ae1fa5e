//! `bytecost serve`: the sending side by hand. With the name of a service it is a server, which
//! `service.rs` runs.

use std::io;
use std::net::SocketAddr;

use anyhow::Result;
use bytecost_engine::{MOVERS, Mover, SERVICES};
use bytecost_lab::hand::{Serve, serve};
use bytecost_plan::exact;
use bytecost_spec::{Axis, Cell, Transport, units};

use super::live::{Live, one_value_each};
use crate::args::{NOT_BY_HAND, ServeArgs};
use crate::failure::{Exit, bad_input};
use crate::{known, signals};

/// Serves until Ctrl-C, which is its proper end: status 0.
pub fn run(args: ServeArgs) -> Result<Exit> {
    if let Some(offer) = &args.offer {
        return match &offer.known {
            Some((service, args)) => super::service::run(service, args),
            None => Err(unknown(&offer.service)),
        };
    }
    let mut cell = chosen(&args)?;
    let (host, mut survey) = super::look_around(&[Transport::Loopback]);
    super::look_at_helped(&mut survey, &[Transport::Loopback], [&cell]);
    if let Some(why) = bytecost_plan::refused(&cell, &host, &survey) {
        return Err(bad_input(why));
    }
    cell.placement = exact(&cell.placement, &host).map_err(bad_input)?;
    let address = SocketAddr::new(args.listen, args.port);
    let stop = signals::stop_flag()?;
    let mut live = Live::new(args.output, &stop);
    let served = serve(&Serve { cell, address }, &stop, &mut |event| {
        live.show(event);
    })
    .map_err(|e| not_listening(&e, address))?;
    live.served(&served);
    live.end()?;
    Ok(Exit::Done)
}

/// Why there is no such service, or not so.
fn unknown(word: &str) -> anyhow::Error {
    let services: Vec<&str> = SERVICES.iter().map(|s| s.name).collect();
    if services.contains(&word) {
        return bad_input(format!(
            "service `{word}` comes before its options, and has none of those for messages: `bytecost serve {word} --help` lists them"
        ));
    }
    bad_input(format!(
        "service `{}` is not known: choose from {}, or leave it out to send messages, as chosen with --mover, --size and the other options",
        units::one_line(word),
        services.join(", ")
    ))
}

/// What to send, and how.
fn chosen(args: &ServeArgs) -> Result<Cell> {
    let mut cell = Cell::default();
    for (axis, value) in one_value_each(&args.axes.0)? {
        cell.set(axis, &value).map_err(bad_input)?;
        let is_loopback = axis == Axis::Transport && cell.transport == Transport::Loopback;
        if NOT_BY_HAND.contains(&axis) && !is_loopback {
            return Err(bad_input(format!(
                "--{} {value} is not to be had by hand, where messages go over TCP: `bytecost run` has it",
                axis.name()
            )));
        }
    }
    if Mover::named(&cell.mover).is_some_and(|m| !m.has_peer()) {
        let movers: Vec<&str> = MOVERS
            .iter()
            .filter(|m| m.has_peer())
            .map(|m| m.name)
            .collect();
        return Err(bad_input(format!(
            "mover `{}` sends nothing: choose from {}",
            cell.mover,
            movers.join(", ")
        )));
    }
    known::check_cell(&cell).map_err(bad_input)?;
    Ok(cell)
}

fn not_listening(error: &io::Error, address: SocketAddr) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => bad_input(format!(
            "port {} is in use: choose another with --port, or 0 for a free one",
            address.port()
        )),
        io::ErrorKind::AddrNotAvailable => bad_input(format!(
            "{} is no address of this machine: choose another with --listen",
            address.ip()
        )),
        io::ErrorKind::PermissionDenied => bad_input(format!(
            "port {} needs root: choose one from 1024 with --port",
            address.port()
        )),
        _ => bad_input(format!("cannot listen at {address}: {error}")),
    }
}

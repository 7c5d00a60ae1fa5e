//! `bytecost live send`: the sending side of a live session.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Result;
use bytecost_engine::{MOVERS, Mover};
use bytecost_lab::hand::{Admission, Serve, serve};
use bytecost_plan::{exact, instead_of_default};
use bytecost_spec::{Axis, Cell, Transport};
use itertools::Itertools as _;

use super::{Live, check_listen, one_value_each, session_key};
use crate::args::{AdmissionArgs, NOT_LIVE, SendArgs, applies_live};
use crate::commands::{look_around, look_at_helped};
use crate::failure::{Exit, bad_input, check_time};
use crate::{known, signals};

/// The slowest that a session may be made, in bytes a second.
const LEAST_RATE: u64 = 1024;
/// The longest session of a stranger.
const OF_STRANGERS: Duration = Duration::from_secs(60);
const LONGEST: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3600);

/// Serves until Ctrl-C, which is its proper end: status 0.
pub fn run(args: SendArgs) -> Result<Exit> {
    let mut cell = chosen(&args)?;
    let access = access(args.listen, &args.access)?;
    let (host, mut survey) = look_around(&[Transport::Loopback]);
    look_at_helped(&mut survey, &[Transport::Loopback], [&cell]);
    let is_named = one_value_each(&args.axes)?
        .iter()
        .any(|(axis, _)| *axis == Axis::Congestion);
    let instead = instead_of_default(&[(&host, &survey)]).filter(|_| !is_named);
    cell.congestion = instead.unwrap_or(cell.congestion);
    if let Some(why) = bytecost_plan::refused(&cell, &host, &survey) {
        return Err(bad_input(why));
    }
    cell.placement = exact(&cell.placement, &host).map_err(bad_input)?;
    let address = SocketAddr::new(args.listen, args.port);
    let stop = signals::stop_flag()?;
    let mut live = Live::new(args.output, &stop);
    live.key = args.access.key_file;
    let what = Serve {
        cell,
        address,
        access,
    };
    let served = serve(&what, &stop, &mut |event| live.show(event))
        .map_err(|e| not_listening(&e, address))?;
    live.served(&served);
    live.end()?;
    Ok(Exit::Done)
}

/// Who may open a session, and what it is granted.
fn access(listen: IpAddr, args: &AdmissionArgs) -> Result<Admission> {
    let may = args.key_file.is_some() || args.insecure;
    check_listen(
        listen,
        may,
        "give --key-file (`bytecost key FILE` makes one), or --insecure where you trust the network",
    )?;
    if let Some(longest) = args.max_duration {
        check_time("--max-duration", longest, LONGEST)?;
    }
    if args.max_rate.is_some_and(|rate| rate < LEAST_RATE) {
        return Err(bad_input(format!(
            "--max-rate `{}` is out of bounds: at least {LEAST_RATE} bytes a second",
            args.max_rate.unwrap_or_default()
        )));
    }
    let of_strangers = Some(OF_STRANGERS).filter(|_| args.insecure && !listen.is_loopback());
    Ok(Admission {
        key: session_key(args.key_file.as_deref())?,
        allow: args.allow.clone(),
        max_duration: args.max_duration.or(of_strangers),
        max_bytes_per_s: args.max_rate,
    })
}

fn chosen(args: &SendArgs) -> Result<Cell> {
    let mut cell = Cell::default();
    let asked = one_value_each(&args.axes)?;
    for (axis, value) in &asked {
        cell.set(*axis, value).map_err(bad_input)?;
        let is_loopback = *axis == Axis::Transport && cell.transport == Transport::Loopback;
        if NOT_LIVE.contains(axis) && !is_loopback {
            return Err(bad_input(format!(
                "--{axis} {value} is not supported by live sessions, which send over TCP: use `bytecost run`"
            )));
        }
    }
    known::tables().check(&cell).map_err(bad_input)?;
    let mover = Mover::named(&cell.mover).filter(|mover| mover.has_peer());
    let Some(mover) = mover else {
        let movers = MOVERS.iter().filter(|m| m.has_peer());
        let movers = movers.map(|m| m.name).join(", ");
        return Err(bad_input(format!(
            "mover `{}` sends nothing: choose from {movers}",
            cell.mover
        )));
    };
    let is_unused = |axis: &Axis| {
        let is_live = NOT_LIVE.contains(axis) || applies_live(*axis, mover);
        !is_live && cell.value(*axis) != axis.row().default
    };
    if let Some((axis, value)) = asked.iter().find(|(axis, _)| is_unused(axis)) {
        return Err(bad_input(format!(
            "--{axis} {value} does not apply to `{}` in a live session: it is for {}; leave it out",
            mover.name,
            axis.row().applies_to.words
        )));
    }
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

//! How `live send` and `live receive` find each other: both the same.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Result;
use bytecost_lab::live::{self, LiveError, LiveSetup, PORT, START_PATIENCE};
use bytecost_spec::live::SessionEnd;
use bytecost_spec::{Cell, Side, units};

use super::{Screen, check_listen, numeric_address};
use crate::args::{JoinArgs, OutputArgs};
use crate::failure::{Exit, bad_input, check_time};
use crate::signals;

/// Bounds of the length of a session.
const LENGTH: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3600);
/// Longest session where other machines can connect.
const OF_OTHERS: Duration = Duration::from_secs(60);
/// The slowest that a session may be made, in bytes a second: a flow must move within a minute.
const LEAST_RATE: u64 = 64 << 10;

/// Where a side listens or connects: several addresses where a name has several.
#[derive(Debug)]
pub(super) enum Join {
    Listen(Vec<SocketAddr>),
    Connect(Vec<SocketAddr>),
}

impl Join {
    /// As the options say, else the sender listens and the receiver connects.
    pub(super) fn new(side: Side, args: &JoinArgs) -> Result<Join> {
        let join = match (&args.listen, &args.connect) {
            (Some(text), _) => Join::Listen(addresses(text)?),
            (None, Some(text)) => Join::Connect(addresses(text)?),
            (None, None) => {
                let default = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))];
                match side {
                    Side::Receiver if args.allow.is_empty() => Join::Connect(default),
                    _ => Join::Listen(default),
                }
            }
        };
        match &join {
            Join::Listen(addresses) => {
                for address in addresses {
                    check_listen(address.ip(), &args.allow)?;
                }
            }
            Join::Connect(addresses) => {
                if addresses.iter().any(|address| address.port() == 0) {
                    return Err(bad_input(
                        "--connect needs the port at which the other side listens, not 0",
                    ));
                }
            }
        }
        Ok(join)
    }

    fn is_open_to_others(&self) -> bool {
        match self {
            Join::Listen(addresses) => addresses.iter().any(|a| !a.ip().is_loopback()),
            Join::Connect(_) => false,
        }
    }
}

/// Addresses of an IP address or a name, with or without a port.
fn addresses(text: &str) -> Result<Vec<SocketAddr>> {
    if let Some((ip, port)) = numeric_address(text) {
        return Ok(vec![SocketAddr::new(ip, port.unwrap_or(PORT))]);
    }
    let named = match text.contains(':') {
        true => text.to_socket_addrs(),
        false => (text, PORT).to_socket_addrs(),
    };
    let why = match named.map(Vec::from_iter) {
        Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
        Ok(_) => "the name has no address".to_owned(),
        Err(e) => e.to_string(),
    };
    Err(bad_input(format!(
        "`{}` is no address that this machine knows ({why}): write one such as 127.0.0.1, [::1]:{PORT} or db7:{PORT}",
        units::one_line(text)
    )))
}

/// The longest session, and how it ends then.
fn longest(join: &Join, args: &JoinArgs) -> Result<Option<(Duration, SessionEnd)>> {
    if let Some(duration) = args.duration {
        check_time("--duration", duration, LENGTH)?;
    }
    if let Some(most) = args.max_duration {
        check_time("--max-duration", most, LENGTH)?;
    }
    let of_others = Some(OF_OTHERS).filter(|_| join.is_open_to_others());
    let limit = args.max_duration.or(of_others).map(|most| {
        let why = format!("--max-duration {} is over", units::duration(most));
        (most, SessionEnd::Limit(why))
    });
    let wanted = args.duration.map(|duration| (duration, SessionEnd::Here));
    Ok(wanted
        .into_iter()
        .chain(limit)
        .min_by_key(|(most, _)| *most))
}

/// Has sessions as one side. Status 0 where they ended as they should, or, of a side that listens,
/// where it was stopped.
pub(super) fn run(
    side: Side,
    cell: Cell,
    knows_size: bool,
    join: &Join,
    args: &JoinArgs,
    output: OutputArgs,
) -> Result<Exit> {
    if let Some(rate) = args.max_rate.filter(|rate| *rate < LEAST_RATE) {
        return Err(bad_input(format!(
            "--max-rate `{rate}` is out of bounds: at least {LEAST_RATE} bytes a second"
        )));
    }
    let setup = LiveSetup {
        side,
        cell,
        knows_size,
        longest: longest(join, args)?,
        max_bytes_per_s: args.max_rate,
        start_patience: START_PATIENCE,
    };
    let stop = signals::stop_flag()?;
    let mut screen = Screen::new(output, side, &stop);
    let went_well = match join {
        Join::Listen(at) => {
            let served = live::listen(&setup, at, &args.allow, &stop, &mut |e| screen.show(e));
            screen.served(&served.map_err(|e| not_listening(&e, at))?);
            true
        }
        Join::Connect(to) => match live::connect(&setup, to, &stop, &mut |e| screen.show(e)) {
            Ok(totals) => {
                screen.totals(&totals);
                !matches!(totals.end, SessionEnd::Failed(_))
            }
            Err(LiveError::Interrupted) => true,
            Err(LiveError::Mismatch(why)) => return Err(bad_input(why)),
            Err(LiveError::Failed(e)) => return Err(e.into()),
        },
    };
    screen.end()?;
    Ok(Exit::of(went_well))
}

fn not_listening(error: &io::Error, addresses: &[SocketAddr]) -> anyhow::Error {
    let Some(address) = addresses.last() else {
        return bad_input(error);
    };
    let (ip, port) = (address.ip(), address.port());
    bad_input(match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "port {port} is in use: choose another with --listen {ip}:PORT, or 0 for a free one"
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("{ip} is no address of this machine: choose another with --listen")
        }
        io::ErrorKind::PermissionDenied => {
            format!("port {port} needs root: choose one from 1024 with --listen")
        }
        _ => format!("cannot listen at {address}: {error}"),
    })
}

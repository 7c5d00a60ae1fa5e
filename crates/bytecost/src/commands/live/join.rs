//! The sessions of `live send` and `live receive`, either of which may listen or connect.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Result;
use bytecost_lab::live::{self, LiveError, LiveSetup, PORT, START_TIMEOUT};
use bytecost_spec::live::SessionEnd;
use bytecost_spec::{Cell, Side, units};

use super::{Screen, check_listen, numeric_address};
use crate::args::{JoinArgs, OutputArgs};
use crate::failure::{Exit, bad_input, check_time};
use crate::signals;

/// Bounds of the length of a session.
pub(super) const LENGTH: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3600);
/// Longest session if other machines can connect.
pub(super) const MAX_LENGTH_OF_OTHERS: Duration = Duration::from_secs(60);
/// Lowest `--max-rate`, in bytes a second: at less a flow would not move a message within a minute.
const MIN_RATE: u64 = 64 << 10;

/// The addresses at which a side listens or connects: several if a name has several.
#[derive(Debug)]
pub(super) enum Join {
    Listen(Vec<SocketAddr>),
    Connect(Vec<SocketAddr>),
}

impl Join {
    /// The addresses of the options; without them the sender listens and the receiver connects.
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

/// Resolves an IP address or a name, with or without a port.
fn addresses(text: &str) -> Result<Vec<SocketAddr>> {
    if let Some((ip, port)) = numeric_address(text) {
        return Ok(vec![SocketAddr::new(ip, port.unwrap_or(PORT))]);
    }
    let resolved = if text.contains(':') {
        text.to_socket_addrs()
    } else {
        (text, PORT).to_socket_addrs()
    };
    let why = match resolved.map(Vec::from_iter) {
        Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
        Ok(_) => "the name has no address".to_owned(),
        Err(e) => e.to_string(),
    };
    Err(bad_input(format!(
        "`{}` is no address that this machine knows ({why}): write one such as 127.0.0.1, [::1]:{PORT} or db7:{PORT}",
        units::one_line(text)
    )))
}

/// The duration after which a session ends, with the reason; none if only Ctrl-C ends it.
fn longest(join: &Join, args: &JoinArgs) -> Result<Option<(Duration, SessionEnd)>> {
    if let Some(duration) = args.duration {
        check_time("--duration", duration, LENGTH)?;
    }
    if let Some(most) = args.max_duration {
        check_time("--max-duration", most, LENGTH)?;
    }
    let max_of_others = join.is_open_to_others().then_some(MAX_LENGTH_OF_OTHERS);
    let limit = args.max_duration.or(max_of_others).map(|max| {
        let why = format!("--max-duration {} is over", units::duration(max));
        (max, SessionEnd::Limit(why))
    });
    let wanted = args.duration.map(|duration| (duration, SessionEnd::Here));
    Ok(wanted
        .into_iter()
        .chain(limit)
        .min_by_key(|(duration, _)| *duration))
}

/// Checks the value of `--max-rate`.
pub(super) fn check_max_rate(rate: Option<u64>) -> Result<()> {
    match rate.filter(|rate| *rate < MIN_RATE) {
        Some(rate) => Err(bad_input(format!(
            "--max-rate `{rate}` is out of bounds: at least {MIN_RATE} bytes a second"
        ))),
        None => Ok(()),
    }
}

/// Runs sessions as one side: one if it connects, one after another until Ctrl-C if it listens. The
/// status is that of success unless a session failed.
pub(super) fn run(
    side: Side,
    cell: Cell,
    knows_size: bool,
    join: &Join,
    args: &JoinArgs,
    output: OutputArgs,
) -> Result<Exit> {
    check_max_rate(args.max_rate)?;
    let setup = LiveSetup {
        side,
        cell,
        knows_size,
        longest: longest(join, args)?,
        max_bytes_per_s: args.max_rate,
        start_timeout: START_TIMEOUT,
    };
    let stop = signals::stop_flag()?;
    let mut screen = Screen::new(output, side, &stop);
    let all_succeeded = match join {
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
    screen.finish()?;
    Ok(Exit::from_success(all_succeeded))
}

/// The error of a side that cannot listen, with a remedy for each cause that the user can mend.
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

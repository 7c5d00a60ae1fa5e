//! `bytecost live receive`: the receiving side of a live session.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use bytecost_engine::RECEIVERS;
use bytecost_lab::hand::{CLIENT_AXES, Drive, PORT, SessionError, drive};
use bytecost_spec::hand::SessionEnd;
use bytecost_spec::{Axis, Cell, units};

use super::{Live, one_value_each, session_key};
use crate::args::ReceiveArgs;
use crate::failure::{Exit, bad_input, check_time, unknown};
use crate::{machine, signals};

const LEAST: Duration = Duration::from_millis(1);

/// Receives until its time is over, until Ctrl-C, or until the server ends: status 0 for each.
pub fn run(args: ReceiveArgs) -> Result<Exit> {
    let what = Drive {
        address: address(&args.address, args.port)?,
        wishes: wishes(&args)?,
        key: session_key(args.key_file.as_deref())?,
        duration: args.duration,
    };
    if let Some(duration) = args.duration {
        check_time("duration", duration, LEAST..)?;
    }
    let stop = signals::stop_flag()?;
    let mut live = Live::new(args.output, &stop);
    let summary = match drive(&what, &stop, &mut |event| live.show(event)) {
        Ok(summary) => summary,
        Err(SessionError::Interrupted) => return Ok(Exit::Done),
        Err(SessionError::Refused(why)) => return Err(bad_input(why)),
        Err(SessionError::Failed(e)) => return Err(e.into()),
    };
    live.summary(&summary);
    live.end()?;
    Ok(match summary.end {
        SessionEnd::Failed(_) => Exit::SomeFailed,
        SessionEnd::Here | SessionEnd::There | SessionEnd::Limit(_) => Exit::Done,
    })
}

fn wishes(args: &ReceiveArgs) -> Result<Vec<(Axis, String)>> {
    let mut wishes = one_value_each(&args.axes)?;
    let mut cell = Cell::default();
    for (axis, value) in &wishes {
        if !CLIENT_AXES.contains(axis) {
            return Err(bad_input(format!(
                "--{} is an option of `bytecost live send`, the sending side",
                axis.name()
            )));
        }
        cell.set(*axis, value).map_err(bad_input)?;
    }
    if !RECEIVERS.iter().any(|r| r.name == cell.receiver) {
        let names = RECEIVERS.iter().map(|r| r.name);
        return Err(unknown("receiver", &cell.receiver, names));
    }
    if let Some((_, value)) = wishes.iter_mut().find(|(a, _)| *a == Axis::Placement) {
        let exact = bytecost_plan::exact(&cell.placement, &machine::host().0);
        *value = exact.map_err(bad_input)?.to_string();
    }
    Ok(wishes)
}

/// Where the server is: nothing is looked up.
pub(super) fn address(text: &str, port: Option<u16>) -> Result<SocketAddr> {
    if let Ok(whole) = text.parse::<SocketAddr>() {
        return match port.is_none_or(|port| port == whole.port()) {
            true => Ok(whole),
            false => Err(bad_input(format!(
                "address `{text}` has a port, and --port names another: give one of them"
            ))),
        };
    }
    let ip = match text {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => text.parse(),
    };
    let ip = ip.map_err(|_| {
        bad_input(format!(
            "`{}` is no IP address: write one such as 127.0.0.1 or 192.0.2.7:{PORT}; names are not looked up",
            units::one_line(text)
        ))
    })?;
    Ok(SocketAddr::new(ip, port.unwrap_or(PORT)))
}

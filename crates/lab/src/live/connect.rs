//! The side that connects: its flows one after the other, then one session.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::live::Totals;
use bytecost_spec::{Cell, units};
use bytecost_sys::clock;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::greeting::{GREETING_BYTES, Greeting};
use super::session::Running;
use super::{LiveError, LiveEvent, LiveSetup, POLL_INTERVAL, TIMEOUT};
use crate::deadline::{DeadlineReader, after, await_event};
use crate::endpoint::explain;
use crate::transports;

/// The longest attempt where there are several addresses.
const TRY: Duration = Duration::from_secs(1);

/// Connects to the first of these addresses that accepts, and has one session, whose errors are in its
/// totals.
///
/// # Errors
/// [`LiveError`] where the session does not begin.
pub fn connect(
    setup: &LiveSetup,
    addresses: &[SocketAddr],
    stop: &AtomicBool,
    events: &mut dyn FnMut(LiveEvent),
) -> Result<Totals, LiveError> {
    let (address, first) = first_connection(setup, addresses, stop, events)?;
    let own = setup.greeting();
    let other = greet(&first, own, address, stop)?;
    let setup = setup
        .agreed(own, other)
        .map_err(|why| LiveError::Mismatch(format!("{address}: {why}")))?;
    let mut flows = vec![first];
    for flow in 1..setup.cell.threads {
        let until_ns = after(TIMEOUT);
        let socket = try_connect(&setup.cell, address, until_ns, stop)
            .map_err(|e| unreachable_at(address, e))?;
        let own = Greeting {
            flow: flow as u8,
            ..own
        };
        let found = greet(&socket, own, address, stop)?;
        let is_next = found.flow == own.flow && found.kind == other.kind;
        if !is_next {
            let why = format!("{address} took flow {flow} for another one");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why).into());
        }
        flows.push(socket);
    }
    let running = Running::start(setup, 1, address.to_string(), flows, stop, || {})?;
    Ok(running.run(events, |_| {}))
}

/// Tries all addresses again and again: the other side may be about to listen.
fn first_connection(
    setup: &LiveSetup,
    addresses: &[SocketAddr],
    stop: &AtomicBool,
    events: &mut dyn FnMut(LiveEvent),
) -> Result<(SocketAddr, OwnedFd), LiveError> {
    let until_ns = after(setup.start_timeout);
    let mut has_reported = false;
    loop {
        let mut failed = None;
        for address in addresses {
            let each_ns = if addresses.len() > 1 {
                after(TRY)
            } else {
                until_ns
            };
            match try_connect(&setup.cell, *address, each_ns.min(until_ns), stop) {
                Ok(socket) => return Ok((*address, socket)),
                Err(e) => failed = failed.or(Some((*address, e))),
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LiveError::Interrupted);
            }
        }
        let none = || {
            (
                SocketAddr::from(([0; 4], 0)),
                io::ErrorKind::InvalidInput.into(),
            )
        };
        let (address, error) = failed.unwrap_or_else(none);
        if clock::monotonic_ns() >= until_ns || !may_come(&error) {
            return Err(unreachable_at(address, error).into());
        }
        if !has_reported {
            events(LiveEvent::Retrying(address, setup.start_timeout));
            has_reported = true;
        }
        clock::sleep_until_ns(after(POLL_INTERVAL));
    }
}

/// Returns true if the same call may succeed a moment later.
fn may_come(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable | TimedOut
    )
}

/// Connects with the options of a cell. Ctrl-C ends also a connection to nowhere.
fn try_connect(
    cell: &Cell,
    address: SocketAddr,
    until_ns: u64,
    stop: &AtomicBool,
) -> io::Result<OwnedFd> {
    let socket = transports::tcp_socket(cell, address)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            await_event(&socket, PollFlags::OUT, until_ns, Some(stop))?;
            sockopt::socket_error(&socket)??;
        }
        Err(e) => return Err(e.into()),
    }
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

fn unreachable_at(address: SocketAddr, error: io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "nothing listens at {address}: start the other side there with --listen, within {}",
            units::duration(super::START_TIMEOUT)
        ),
        io::ErrorKind::TimedOut => format!(
            "no response from {address}: is the address right, and does a firewall allow the port?"
        ),
        _ => format!("{address}: {}", explain(&error)),
    };
    io::Error::new(error.kind(), why)
}

/// Writes this end's eight bytes and reads those of the other one.
fn greet(
    socket: &OwnedFd,
    own: Greeting,
    address: SocketAddr,
    stop: &AtomicBool,
) -> Result<Greeting, LiveError> {
    let mut stream = DeadlineReader {
        from: socket.as_fd(),
        until_ns: after(TIMEOUT),
        stop: Some(stop),
    };
    let mut bytes = [0; GREETING_BYTES];
    let exchanged = stream
        .write_all(&own.to_bytes())
        .and_then(|()| stream.read_exact(&mut bytes));
    match exchanged {
        Ok(()) => {
            Greeting::from_bytes(bytes).map_err(|e| LiveError::Mismatch(format!("{address}: {e}")))
        }
        Err(_) if stop.load(Ordering::Relaxed) => Err(LiveError::Interrupted),
        Err(e) if e.kind() == io::ErrorKind::TimedOut => {
            let why = format!("no response in time from {address}: is it `bytecost live`?");
            Err(io::Error::new(e.kind(), why).into())
        }
        Err(_) => {
            // No broken pipe, which would mean that the reader of the output is gone.
            let why = format!(
                "{address} closed the connection: is it `bytecost live`, and does its --allow name this address?"
            );
            Err(io::Error::new(io::ErrorKind::ConnectionAborted, why).into())
        }
    }
}

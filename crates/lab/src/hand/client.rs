//! The receiving side: one session with a server.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_engine::Receiver;
use bytecost_spec::hand::{Begun, SessionEnd, SessionPart, Summary};
use bytecost_spec::{Axis, Cell, Nodelay, Pattern, Side, units};
use bytecost_sys::clock;

use super::flow_threads::FlowThreads;
use super::greeting::{self, SessionWord};
use super::session::Session;
use super::session_key::Cipher;
use super::wire::{Control, after, connect};
use super::{Drive, PATIENCE, PREPARATION, SessionError, SessionEvent};
use crate::delivery_check::lost;
use crate::endpoint::explain;
use crate::greeters::FlowKey;
use crate::protocol::DeadlineReader;
use crate::transports::{self, Socket};

/// The most memory of all flows' buffers, in bytes: a server may name their sizes.
const MOST_BUFFER_BYTES: u64 = 1 << 30;

/// Receives in one session, until `stop`, the end of its time, or the server's end;
/// [`SessionError`] when it did not come about. What goes wrong within it is in its summary.
pub fn drive(
    what: &Drive,
    stop: &AtomicBool,
    events: &mut dyn FnMut(SessionEvent),
) -> Result<Summary, SessionError> {
    let (control, begun, keys) = greeted(what, stop)?;
    let cell = &begun.cell;
    let mut sockets = Vec::with_capacity(cell.threads as usize);
    let of_sockets = transports::of_receiver(cell);
    for key in keys {
        let socket = connect(&of_sockets, what.address, stop)?;
        key.say(&socket).map_err(closed)?;
        sockets.push(socket);
    }
    let told = |e: io::Error| io::Error::new(e.kind(), explain(&e));
    let flow_threads = FlowThreads::start(Side::Receiver, cell, sockets).map_err(told)?;
    let mut session = Session::new(begun, control, flow_threads, stop);
    session.most = what.duration.map(|most| (most, SessionEnd::Here));
    carried(session, events)
}

fn greeted(
    what: &Drive,
    stop: &AtomicBool,
) -> Result<(Control, Begun, Vec<FlowKey>), SessionError> {
    let plain = Cell {
        nodelay: Nodelay::On,
        congestion: "default".to_owned(),
        ..Cell::default()
    };
    let control = opened(what, connect(&plain, what.address, stop)?, stop)?;
    let wishes = what.wishes.iter();
    let hello = SessionWord::Hello {
        version: greeting::VERSION,
        // Where this side's threads run is no business of the server's.
        wishes: (wishes.filter(|(axis, _)| *axis != Axis::Placement))
            .cloned()
            .collect(),
    };
    control.say(&hello).map_err(closed)?;
    let SessionWord::Welcome {
        version: greeting::VERSION,
        session,
        keys,
        cell,
    } = answer(&control, after(PATIENCE), stop)?
    else {
        return Err(nonsense());
    };
    let cell = granted(&cell, &what.wishes).map_err(SessionError::Refused)?;
    if keys.len() != cell.threads as usize {
        return Err(nonsense());
    }
    let begun = Begun {
        session,
        own: Side::Receiver,
        peer: what.address.to_string(),
        completes: super::completes(&cell),
        cell,
    };
    Ok((control, begun, keys))
}

fn opened(what: &Drive, socket: OwnedFd, stop: &AtomicBool) -> Result<Control, SessionError> {
    let opening = greeting::opening(greeting::VERSION, what.key.is_some());
    Socket(&socket).write_all(&opening).map_err(closed)?;
    let from = DeadlineReader {
        from: socket.as_fd(),
        until_ns: after(PATIENCE),
        stop: Some(stop),
    };
    let cipher = match &what.key {
        None => Ok(Cipher::default()),
        Some(key) => key.greet(false, from, Socket(&socket)),
    };
    match cipher {
        Ok(cipher) => Ok(Control { socket, cipher }),
        Err(_) if stop.load(Ordering::Relaxed) => Err(SessionError::Interrupted),
        Err(_) => Err(SessionError::Refused(format!(
            "the program at {} did not prove that it has the key of --key-file: does it have the same one, and is it `bytecost live send`?",
            what.address
        ))),
    }
}

/// What the server sends, as this side wishes it, where that is within reason.
fn granted(cell: &str, wishes: &[(Axis, String)]) -> Result<Cell, String> {
    let mut cell = Cell::from_id(cell).ok_or(
        "the server sends what this bytecost does not know: use the same version on both ends",
    )?;
    for (axis, value) in wishes {
        cell.set(*axis, value).map_err(|e| e.to_string())?;
    }
    let answers = match cell.pattern {
        Pattern::Ask => cell.answer_bytes(),
        Pattern::Stream => 0,
    };
    let each = cell.read_bytes().saturating_add(answers);
    let needed = each.saturating_mul(cell.threads.into());
    if needed > MOST_BUFFER_BYTES {
        return Err(format!(
            "buffers of {} would be needed, more than {}: choose a smaller --read-size or fewer --threads",
            units::bytes_in_words(needed),
            units::bytes_in_words(MOST_BUFFER_BYTES)
        ));
    }
    if Receiver::named(&cell.receiver).is_none() {
        return Err(format!(
            "receiver `{}`, which the server names, is not known here: choose one with --receiver",
            cell.receiver
        ));
    }
    Ok(cell)
}

/// The server's next word, a refusal aside.
fn answer(
    control: &Control,
    until_ns: u64,
    stop: &AtomicBool,
) -> Result<SessionWord, SessionError> {
    Err(match control.hear(until_ns, Some(stop)) {
        Ok(SessionWord::Refused { reason }) => {
            SessionError::Refused(format!("the server says: {}", units::one_line(&reason)))
        }
        Ok(word) => return Ok(word),
        Err(_) if stop.load(Ordering::Relaxed) => SessionError::Interrupted,
        Err(e) => match e.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied => nonsense(),
            io::ErrorKind::TimedOut => {
                failed(e.kind(), "no response in time: is it `bytecost live send`?")
            }
            _ => closed(e),
        },
    })
}

/// No broken pipe before a session: that is what a reader of this side's output leaves behind.
fn closed(_: io::Error) -> SessionError {
    let why = "the connection was closed: is it `bytecost live send`, and is the machine too busy?";
    failed(io::ErrorKind::ConnectionAborted, why)
}

fn nonsense() -> SessionError {
    let why = "the program that listens there is not `bytecost live send` of this version";
    failed(io::ErrorKind::InvalidData, why)
}

fn failed(kind: io::ErrorKind, why: &str) -> SessionError {
    SessionError::Failed(io::Error::new(kind, why))
}

fn carried(
    mut session: Session<'_>,
    events: &mut dyn FnMut(SessionEvent),
) -> Result<Summary, SessionError> {
    let until_ns = after(PREPARATION);
    let flow_threads = &mut session.flow_threads;
    while !flow_threads.is_ready() && !flow_threads.has_ended() && clock::monotonic_ns() < until_ns
    {
        if session.stop.load(Ordering::Relaxed) {
            return Err(SessionError::Interrupted);
        }
        clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000);
    }
    if flow_threads.has_ended() {
        let (_, failed) = flow_threads.end_by(clock::monotonic_ns());
        let unknown = || io::Error::other("a flow ended before it began");
        return Err(failed.unwrap_or_else(unknown).into());
    }
    let SessionWord::Go = answer(&session.control, until_ns, session.stop)? else {
        return Err(nonsense());
    };
    events(SessionEvent::Began(Box::new(session.begun.clone())));
    let end = session.watch(events, |_| {});
    if end == SessionEnd::Here {
        let _ = session.control.say(&SessionWord::Stop);
    }
    let (mut own, failed) = session.end_flows(&end);
    own.failed = failed;
    let peer = session.last_words(&own, &end, events, |_| {});
    let wrong = || wrong(&session, &own, peer.as_ref(), &end);
    let limit = peer.as_ref().and_then(|peer| peer.limit.as_ref());
    let end = match (own.failed.clone().or_else(wrong), &end, limit) {
        (Some(why), ..) => SessionEnd::Failed(why),
        (None, SessionEnd::There, Some(why)) => SessionEnd::Limit(units::one_line(why)),
        _ => end,
    };
    Ok(Summary {
        begun: session.begun,
        end,
        own,
        peer,
    })
}

/// What is wrong with what has arrived, if anything is: it must be what was sent.
fn wrong(
    session: &Session<'_>,
    own: &SessionPart,
    peer: Option<&SessionPart>,
    end: &SessionEnd,
) -> Option<String> {
    let receiver = Receiver::named(&session.begun.cell.receiver);
    let sees_content = receiver.is_some_and(|r| r.sees_content);
    let flows = &own.whole.side.flows;
    let received: u64 = flows.iter().map(|f| f.bytes).sum();
    if sees_content && received > 0 && own.compared_bytes == 0 {
        return Some("the content was not compared".to_owned());
    }
    let Some(peer) = peer else {
        return (*end == SessionEnd::There).then(|| session.gone().to_owned());
    };
    if let Some(why) = &peer.failed {
        return Some(format!("the server says: {}", units::one_line(why)));
    }
    if own.cut || peer.cut {
        return None;
    }
    let sent = &peer.whole.side.flows;
    let (all, came) = (sent.len(), flows.len());
    if all != came {
        return Some(format!("{all} flows were sent, {came} arrived"));
    }
    lost(sent.iter().zip(flows).map(|(s, f)| (s.bytes, f.bytes)))
}

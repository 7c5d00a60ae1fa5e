//! What works on this host, found by moving one message, not by reading a version.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytecost_engine::{Checker, MOVERS, Move, Mover, Offer, RECEIVERS, Receiver, Setup};
use bytecost_meter::{Meter, ThreadMeter};
use bytecost_spec::cell::{LINK_MTU_BYTES, Reaping};
use bytecost_spec::{Axis, Cell, Host, Support, Survey, Transport};
use rustix::net::sockopt;

use crate::protocol::Role;
use crate::transports;
use crate::transports::veth::Pair;
use crate::transports::wire::responder::{Responder, Rules};
use crate::transports::wire::{FAR_END, Wire};

const SIZE: usize = 4096;
const SLOTS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(2);

/// Tries every mover and every receiver over these transports, each with one small message that
/// is checked byte by byte. What is not tried has no row, so that nothing is claimed of it.
///
/// The namespaces of [`Transport::Veth`] and [`Transport::Wire`] are made once for all of its attempts, and not at all
/// where they are not among the transports.
#[must_use]
pub fn survey(host: &Host, transports: &[Transport]) -> Survey {
    let mut survey = Survey {
        mover_facts: MOVERS.iter().map(Mover::facts).collect(),
        receiver_facts: RECEIVERS.iter().map(Receiver::facts).collect(),
        congestion_controls: host
            .congestion_available
            .iter()
            .filter(|name| can_set(name))
            .cloned()
            .collect(),
        counters_refused: ThreadMeter::open().refused(),
        ..Survey::default()
    };
    for &transport in transports {
        let place = Place::of(transport);
        for mover in MOVERS.iter().filter(|m| !m.route.is_of_files()) {
            let refused = attempt(mover, &RECEIVERS[0], &place);
            survey.movers.push(Support {
                name: mover.name.to_owned(),
                transport,
                refused,
            });
        }
        for receiver in RECEIVERS {
            let refused = attempt(&MOVERS[1], receiver, &place)
                .or_else(|| nothing_to_choose(receiver, transport));
            survey.receivers.push(Support {
                name: receiver.name.to_owned(),
                transport,
                refused,
            });
        }
    }
    survey
}

/// Where nobody receives, one name stands for all.
fn nothing_to_choose(receiver: &Receiver, transport: Transport) -> Option<String> {
    let stands = transport.has_receiver() || receiver.name == Cell::default().receiver;
    (!stands).then(|| "nobody receives there, so there is nothing to choose".to_owned())
}

fn can_set(name: &str) -> bool {
    let mut cell = Cell::default();
    cell.set(Axis::Congestion, name).is_ok() && transports::listen(&cell, None).is_ok()
}

/// Where one message is moved.
enum Place {
    /// Both ends are where this process is.
    Here(Transport),
    /// Each end is in a namespace of its own.
    Apart(Pair),
    /// To nobody.
    Away(Wire),
    /// Nowhere, and why.
    Nowhere(String),
}

impl Place {
    fn of(transport: Transport) -> Place {
        match transport {
            Transport::Loopback | Transport::Unix => Place::Here(transport),
            Transport::Veth => match Pair::new(LINK_MTU_BYTES) {
                Ok(pair) => Place::Apart(pair),
                Err(e) => Place::Nowhere(e.to_string()),
            },
            Transport::Wire => match Wire::new(LINK_MTU_BYTES) {
                Ok(wire) => Place::Away(wire),
                Err(e) => Place::Nowhere(e.to_string()),
            },
        }
    }

    /// A connection: the sender's end, then the receiver's.
    fn connect(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (listener, sender) = match self {
            Place::Here(transport) => {
                let cell = cell(*transport);
                let listener = transports::listen(&cell, None)?;
                let sender = transports::connect(&cell, &listener.address())?;
                (listener, sender)
            }
            Place::Apart(pair) => {
                let cell = cell(Transport::Veth);
                let listener = pair
                    .of(Role::Receiver)
                    .within(|| transports::listen(&cell, None))??;
                let at = listener.address();
                let sender = pair
                    .of(Role::Sender)
                    .within(|| transports::connect(&cell, &at))??;
                (listener, sender)
            }
            Place::Away(_) => return Err(io::ErrorKind::Unsupported.into()),
            Place::Nowhere(why) => return Err(io::Error::other(why.clone())),
        };
        Ok((sender, listener.accept(PATIENCE)?))
    }
}

fn cell(transport: Transport) -> Cell {
    Cell {
        transport,
        // The system's own: which ones can be set is asked elsewhere.
        congestion: "default".to_owned(),
        ..Cell::default()
    }
}

/// Why the two do not work there; none where they do.
fn attempt(mover: &Mover, receiver: &Receiver, place: &Place) -> Option<String> {
    if !mover.has_peer() {
        return None;
    }
    let moved = match place {
        Place::Away(wire) => one_message_away(mover, wire),
        _ => one_message(mover, receiver, place),
    };
    moved.err().map(|e| reason(&e))
}

pub(crate) fn reason(error: &io::Error) -> String {
    use rustix::io::Errno;
    let Some(errno) = error.raw_os_error().map(Errno::from_raw_os_error) else {
        return error.to_string();
    };
    match errno {
        Errno::OPNOTSUPP => "this socket does not support it (EOPNOTSUPP)".to_owned(),
        Errno::NOSYS => "this kernel does not have it (ENOSYS)".to_owned(),
        Errno::PERM | Errno::ACCESS => format!(
            "not permitted here ({error}): look at kernel.io_uring_disabled and the container's system call filter"
        ),
        Errno::NOMEM => format!("{error}: RLIMIT_MEMLOCK is too small, raise it (`ulimit -l`)"),
        _ => error.to_string(),
    }
}

fn one_message(mover: &Mover, receiver: &Receiver, place: &Place) -> io::Result<()> {
    let (sender, taker) = place.connect()?;
    transports::set_patience(&sender, PATIENCE)?;
    transports::set_patience(&taker, PATIENCE)?;
    sockopt::set_socket_recv_buffer_size(&taker, 16 * SIZE)?;
    let setup = setup(sender);
    let pattern = setup.pattern(false);
    let mut taker = (receiver.open)(taker, 2 * SIZE)?;
    taker.expect(SIZE);
    let mut mover = (mover.open)(setup)?;
    offered(&mut *mover)?;
    let mut checker = Checker::new(pattern, true);
    while checker.offset() < SIZE as u64 {
        let got = taker.take()?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        checker.check(&*taker, got)?;
    }
    released(&mut *mover)
}

fn setup(sender: OwnedFd) -> Setup {
    Setup {
        socket: Some(sender),
        file: None,
        size: SIZE,
        fields: 8,
        slots: SLOTS,
        flow: 0,
        fresh: false,
        refill: false,
        reaping: Reaping::Full,
        patience: PATIENCE,
    }
}

fn offered(mover: &mut dyn Move) -> io::Result<()> {
    if mover.offer()? == Offer::Full {
        return Err(io::Error::other("the first message was not taken"));
    }
    mover.flush()
}

fn released(mover: &mut dyn Move) -> io::Result<()> {
    let tally = mover.tally();
    if tally.held > tally.released {
        mover.reap(1)?;
    }
    Ok(())
}

/// Over a wire what arrives is counted, and nobody sees it.
fn one_message_away(mover: &Mover, wire: &Wire) -> io::Result<()> {
    let [tun, map] = wire.descriptors().map(|fd| fd.try_clone_to_owned());
    let rules = Rules {
        mtu_bytes: wire.mtu_bytes(),
        acknowledge_bytes: SIZE as u64,
        flows_most: 1,
    };
    let mut far = Responder::new(tun?, map?, rules)?;
    let sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let moved = wire.network().within(|| {
                let sender = transports::connect(&cell(Transport::Wire), &FAR_END.to_string())?;
                transports::set_patience(&sender, PATIENCE)?;
                let mut mover = (mover.open)(setup(sender))?;
                offered(&mut *mover)?;
                released(&mut *mover)
            });
            sent.store(true, Ordering::Relaxed);
            moved?
        });
        // Every wait of the sender's has an end.
        while !sent.load(Ordering::Relaxed) {
            far.look()?;
        }
        sending
            .join()
            .map_err(|_| io::Error::other("the sender panicked"))?
    })?;
    match far.seen().map(|s| s.bytes).sum::<u64>() {
        bytes if bytes == SIZE as u64 => Ok(()),
        bytes => Err(io::Error::other(format!("{bytes} of {SIZE} bytes came"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_survey_has_every_row_and_says_why_what_does_not_work() {
        let survey = survey(&Host::default(), Transport::ALL);
        let movers = MOVERS.iter().filter(|m| !m.route.is_of_files()).count();
        assert_eq!(survey.movers.len(), movers * Transport::ALL.len());
        assert_eq!(
            survey.receivers.len(),
            RECEIVERS.len() * Transport::ALL.len()
        );
        assert_eq!(survey.mover_refused("send", Transport::Loopback), None);
        assert_eq!(survey.mover_refused("send", Transport::Unix), None);
        let why = survey
            .mover_refused("send-zerocopy", Transport::Unix)
            .unwrap();
        assert!(why.contains("EOPNOTSUPP"), "{why}");
        let why = survey
            .receiver_refused("recv-discard", Transport::Unix)
            .unwrap();
        assert!(why.contains("TCP only"), "{why}");
    }

    #[test]
    fn veth_and_wire_work_for_root_and_are_refused_with_their_remedy_otherwise() {
        for transport in [Transport::Veth, Transport::Wire] {
            let survey = survey(&Host::default(), &[transport]);
            let refused = survey.mover_refused("send", transport);
            if rustix::process::geteuid().is_root() {
                assert_eq!(refused, None);
                assert_eq!(survey.receiver_refused("recv", transport), None);
                let other = survey.receiver_refused("recvmsg", transport);
                assert_eq!(other.is_none(), transport.has_receiver());
                continue;
            }
            let why = refused.unwrap();
            assert!(why.contains("sudo bytecost"), "{why}");
            let all = survey.movers.iter().filter(|m| m.name != "null");
            assert!(
                all.chain(&survey.receivers)
                    .all(|row| row.refused.as_ref() == Some(&why))
            );
        }
    }

    #[test]
    fn what_is_not_asked_for_is_not_tried() {
        let survey = survey(&Host::default(), &[Transport::Unix]);
        assert!(survey.movers.iter().all(|m| m.transport == Transport::Unix));
        let why = survey.mover_refused("send", Transport::Veth).unwrap();
        assert!(why.contains("was not tried over veth"), "{why}");
    }
}

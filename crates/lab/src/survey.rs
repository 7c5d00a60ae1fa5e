//! Movers and receivers that work on this host, found by moving one message, not by reading a version.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use bytecost_engine::java::{self, Compiled, START_PATIENCE};
use bytecost_engine::{Checker, FileWork, MOVERS, Mover, PayloadPattern, RECEIVERS, Receiver};
use bytecost_host::{Roots, limits};
use bytecost_meter::ThreadMeter;
use bytecost_spec::cell::{Device, Ring};
use bytecost_spec::{Axis, Cell, Host, Support, Survey, Transport};

use crate::edges::LoopBody;
use crate::files::DISK_TIMEOUT;
use crate::flow::{Intake, Stream, drain};
use crate::flow_setup::{MoverSetup, content, mover_of, open_receiver};
use crate::limits::retried_without_memory;
use crate::networks::{NetworkPath, Networks};
use crate::protocol::Role;
use crate::side_by_side;
use crate::transports;
use crate::transports::wire::{FAR_END, Wire};

mod links;

pub use links::links;

/// Bytes of the message.
const SIZE_BYTES: u64 = 4096;
const TIMEOUT: Duration = Duration::from_secs(10);
/// The refusal of movers that start another program.
const NO_HELPERS: &str = "movers that start another program are not supported over this transport";

/// Tries every mover and receiver over these transports with one small message, checked byte by
/// byte; not movers of files and those that start a program ([`helped`]), nor the CPU's clock
/// ([`crate::cpu_clock::test`]). What [`Transport::Veth`] and wire need is made once for all, if at
/// all.
pub fn survey(host: &Host, transports: &[Transport]) -> Survey {
    let mut survey = Survey {
        mover_facts: MOVERS.iter().map(|m| m.surveyed()).collect(),
        receiver_facts: RECEIVERS.iter().map(|r| r.facts.owned()).collect(),
        congestion_controls: congestion_controls(&host.congestion_available),
        counters_refused: ThreadMeter::open().refused(),
        ..Survey::default()
    };
    for (movers, receivers) in side_by_side::each(transports, |t| over(*t)) {
        survey.movers.extend(movers);
        survey.receivers.extend(receivers);
    }
    survey
}

/// Those among these congestion controls that a socket of this process can be given.
pub fn congestion_controls(available: &[String]) -> Vec<String> {
    let can_set = |name: &&String| {
        let mut cell = Cell::default();
        cell.set(Axis::Congestion, name).is_ok() && transports::listen(&cell, None).is_ok()
    };
    available.iter().filter(can_set).cloned().collect()
}

fn over(transport: Transport) -> (Vec<Support>, Vec<Support>) {
    let mut networks = Networks::default();
    let place = Place::new(transport, &mut networks);
    let row = |name, refused| support(name, transport, refused);
    let apart = |m: &&Mover| m.route.is_of_files() || m.route.is_of_cpus() || m.is_helped();
    let movers = (MOVERS.iter())
        .filter(|m| !apart(m))
        .map(|m| row(m.name, attempt(m, &RECEIVERS[0], &place, None)));
    let plain = Mover::named("send");
    let receivers = RECEIVERS.iter().map(|receiver| {
        let refused = plain
            .and_then(|send| attempt(send, receiver, &place, None))
            .or_else(|| nothing_to_choose(receiver, transport));
        row(receiver.name, refused)
    });
    (movers.collect(), receivers.collect())
}

fn support(name: &str, transport: Transport, refused: Option<String>) -> Support {
    Support {
        name: name.to_owned(),
        transport,
        refused,
    }
}

/// The movers that have another program do their work.
fn helped_movers() -> impl Iterator<Item = &'static Mover> {
    MOVERS.iter().filter(|m| m.is_helped())
}

/// The programs that do the work of helped movers, ready to be started, or the reason why they are not.
#[derive(Debug)]
pub struct Helpers {
    java: Result<Compiled, String>,
}

impl Helpers {
    /// Finds and compiles them, which takes a second or more.
    pub fn ready() -> Helpers {
        let compiled = java::find().and_then(|java| Compiled::new(&java, START_PATIENCE));
        Helpers {
            java: compiled.map_err(|e| e.to_string()),
        }
    }

    /// The version of Java that is found; none where there is none that works.
    pub fn java_version(&self) -> Option<&str> {
        self.java.as_ref().ok().map(Compiled::version)
    }

    pub(crate) fn java(&self) -> io::Result<PathBuf> {
        match &self.java {
            Ok(compiled) => Ok(compiled.path()),
            Err(why) => Err(io::Error::other(why.clone())),
        }
    }
}

/// Tries the movers that [`survey()`] leaves out, those that have another program do their work.
pub fn helped(helpers: &Helpers, transports: &[Transport]) -> Vec<Support> {
    let (mut found, mut networks) = (Vec::new(), Networks::default());
    for &transport in transports {
        let place = Place::new(transport, &mut networks);
        found.extend(helped_movers().map(|mover| {
            let refused = attempt(mover, &RECEIVERS[0], &place, Some(helpers));
            support(mover.name, transport, refused)
        }));
    }
    found
}

/// Starts one helped mover, over the transport that asks most of it; else the reason why they do not
/// work.
pub fn one_helped() -> Result<(), String> {
    java::find().map_err(|e| e.to_string())?;
    let cell = Cell {
        mover: "java-transfer-to".to_owned(),
        ..cell(Transport::Unix)
    };
    one_message_apart(&cell, None, None).map_err(|e| reason(&e))
}

/// The rows of [`helped`] where one of them stands for all that work, as [`one_helped`] found it,
/// over transports on which `send` was found to work. Refused though Java is there, each is tried.
pub fn helped_as_one(one: Result<(), String>, survey: &Survey) -> Vec<Support> {
    let is_tried = |t: &&Transport| survey.movers.iter().any(|row| row.transport == **t);
    let transports = Transport::WITHIN.iter().filter(is_tried).copied();
    if one.is_err() && java::find().is_ok() {
        return helped(&Helpers::ready(), &transports.collect::<Vec<_>>());
    }
    let rows = transports.flat_map(|transport| {
        let refused = if transport.is_wire() {
            Some(NO_HELPERS.to_owned())
        } else {
            (one.clone().err()).or_else(|| survey.mover_refused("send", transport))
        };
        helped_movers().map(move |mover| support(mover.name, transport, refused.clone()))
    });
    rows.collect()
}

/// A transport with the network that is made for it, or the reason why it cannot be made.
struct Place<'n> {
    transport: Transport,
    path: io::Result<NetworkPath<'n>>,
}

impl Place<'_> {
    /// Makes the network of a transport. A wire may have either device, which makes no difference here.
    fn new(transport: Transport, networks: &mut Networks) -> Place<'_> {
        if transport == Transport::Peer {
            let path = Err(io::Error::other("name the other host with --peer"));
            return Place { transport, path };
        }
        let usual = cell(transport);
        let other = Cell {
            device: Device::Veth,
            ..usual.clone()
        };
        let serves = networks.between(&usual).is_ok() || networks.between(&other).is_err();
        let path = networks.between(if serves { &usual } else { &other });
        Place { transport, path }
    }

    fn path(&self) -> io::Result<NetworkPath<'_>> {
        let path = self.path.as_ref().copied();
        path.map_err(|e| io::Error::new(e.kind(), e.to_string()))
    }

    /// A connection: the sender's end, then the receiver's.
    fn connect(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (path, cell) = (self.path()?, cell(self.transport));
        let listener = path.within(Role::Receiver, || transports::listen(&cell, None))??;
        let connect = || transports::connect(&cell, &listener.address(), TIMEOUT);
        let sender = path.within(Role::Sender, connect)??;
        Ok((sender, listener.accept(TIMEOUT)?))
    }
}

fn attempt(
    mover: &Mover,
    receiver: &Receiver,
    place: &Place<'_>,
    helpers: Option<&Helpers>,
) -> Option<String> {
    if !mover.has_peer() {
        return None;
    }
    let cell = Cell {
        mover: mover.name.to_owned(),
        receiver: receiver.name.to_owned(),
        ..cell(place.transport)
    };
    let once = |java: Option<PathBuf>| match place.path()? {
        NetworkPath::Wire(_) if java.is_some() => Err(io::Error::other(NO_HELPERS)),
        NetworkPath::Wire(wire) => one_message_over_wire(&cell, wire),
        _ => one_message(&cell, place, None, java),
    };
    let tried = || helpers.map(Helpers::java).transpose().and_then(&once);
    let refused = retried_without_memory(tried).err();
    refused.map(|e| reason(&e))
}

/// Moves one message of a cell through a network of its own; of a file, with its content, where that is
/// known.
pub(crate) fn one_message_apart(
    cell: &Cell,
    file: Option<(FileWork, Option<PayloadPattern>)>,
    java: Option<PathBuf>,
) -> io::Result<()> {
    let mut networks = Networks::default();
    one_message(cell, &Place::new(cell.transport, &mut networks), file, java)
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
            "not permitted on this machine ({error}): check kernel.io_uring_disabled and the container's system call filter"
        ),
        Errno::NOMEM if !limits::process_memory_limits(&Roots::real()).is_empty() => {
            limits::memory_refusal(&Roots::real())
        }
        Errno::NOMEM => format!("{error}: RLIMIT_MEMLOCK is too small, raise it (`ulimit -l`)"),
        _ => error.to_string(),
    }
}

/// Moves one message by the ends of a trial of this cell, and checks every byte of it.
fn one_message(
    cell: &Cell,
    place: &Place<'_>,
    file: Option<(FileWork, Option<PayloadPattern>)>,
    java: Option<PathBuf>,
) -> io::Result<()> {
    let (sender, receiver) = place.connect()?;
    let timeout = match (&file, mover_of(cell)?.is_helped()) {
        (Some(_), _) => DISK_TIMEOUT,
        (None, true) => START_PATIENCE,
        (None, false) => TIMEOUT,
    };
    transports::set_timeout(&sender, timeout)?;
    transports::set_timeout(&receiver, timeout)?;
    let (file, known) = file.map_or_else(
        || (None, Some(content(cell, 0, false))),
        |(file, known)| (Some(file), known),
    );
    let mut receiver = open_receiver(cell, receiver)?;
    let mut intake = Intake {
        receiver: &mut *receiver,
        checker: known.map_or_else(Checker::counting_only, |known| Checker::new(known, true)),
        size_bytes: cell.size_bytes,
        answers: None,
    };
    let mover_setup = MoverSetup {
        file,
        java: java.as_deref(),
        ..MoverSetup::new(cell, Some(sender), timeout)
    };
    let mut mover = mover_setup.open()?;
    Stream(&mut *mover).step()?;
    mover.flush()?;
    while intake.tally().bytes < cell.size_bytes {
        if !intake.pull()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    drain(&mut *mover)
}

/// The refusal of a receiver, other than the default one, over a transport without a receiver.
fn nothing_to_choose(receiver: &Receiver, transport: Transport) -> Option<String> {
    let stands = transport.has_receiver() || receiver.name == Cell::default().receiver;
    (!stands).then(|| "there is no receiver over this transport".to_owned())
}

/// Sends the one message of a cell, and compares the counted bytes with it.
fn one_message_over_wire(cell: &Cell, wire: &Wire) -> io::Result<()> {
    let mut far = wire.responder(cell.size_bytes, 1)?;
    // Each wait of the sender has a bound.
    wire.answered(&mut far, || {
        let socket = transports::connect(cell, &FAR_END.to_string(), TIMEOUT)?;
        let mut mover = MoverSetup::new(cell, Some(socket), TIMEOUT).open()?;
        Stream(&mut *mover).step()?;
        drain(&mut *mover)
    })??;
    // The last poll may have been before the flow was opened.
    far.poll()?;
    match far.seen().next().unwrap_or_default().bytes {
        bytes if bytes == cell.size_bytes => Ok(()),
        bytes => Err(io::Error::other(format!(
            "{bytes} of {} bytes came",
            cell.size_bytes
        ))),
    }
}

/// A cell whose trials would move such a message.
fn cell(transport: Transport) -> Cell {
    Cell {
        transport,
        // The system's own: the others are tried elsewhere.
        congestion: "default".to_owned(),
        size_bytes: SIZE_BYTES,
        fields: 8,
        ring: Ring::Bytes(4 * SIZE_BYTES),
        ..Cell::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::geteuid;

    // Invariant 5.
    #[test]
    fn the_survey_has_every_row_and_says_why_what_does_not_work() {
        let survey = survey(&Host::default(), Transport::WITHIN);
        let apart = |m: &&Mover| m.route.is_of_files() || m.route.is_of_cpus() || m.is_helped();
        let (movers, all) = (MOVERS.iter().filter(|m| !apart(m)), Transport::WITHIN.len());
        assert_eq!(survey.movers.len(), movers.count() * all);
        assert_eq!(survey.receivers.len(), RECEIVERS.len() * all);
        assert_eq!(survey.mover_refused("send", Transport::Loopback), None);
        assert_eq!(survey.mover_refused("send", Transport::Unix), None);
        let of_mover = survey.mover_refused("send-zerocopy", Transport::Unix);
        assert!(
            of_mover.as_ref().unwrap().contains("EOPNOTSUPP"),
            "{of_mover:?}"
        );
        let of_receiver = survey.receiver_refused("recv-discard", Transport::Unix);
        assert!(
            of_receiver.as_ref().unwrap().contains("TCP only"),
            "{of_receiver:?}"
        );
    }

    #[test]
    fn movers_that_start_a_program_are_tried_apart_or_refused_with_what_it_lacks() {
        let places = [Transport::Loopback, Transport::Unix];
        let helpers = Helpers::ready();
        let found = helped(&helpers, &places);
        assert_eq!(found.len(), helped_movers().count() * places.len());
        match &helpers.java {
            Ok(_) => assert!(found.iter().all(|row| row.refused.is_none()), "{found:?}"),
            Err(why) => assert!(why.contains("JDK"), "{why}"),
        }
        let none = Helpers {
            java: Err("there is no java".to_owned()),
        };
        let without_java = helped(&none, &places);
        let refused = |row: &Support| row.refused.as_deref() == Some("there is no java");
        assert!(without_java.iter().all(refused), "{without_java:?}");
    }

    #[test]
    fn java_that_is_started_once_stands_for_all_that_are_tried() {
        let survey = survey(&Host::default(), Transport::WITHIN);
        let tried = helped(&Helpers::ready(), Transport::WITHIN);
        // Without root the reason over wire is that of its network.
        let is_compared = |row: &Support| !row.transport.is_wire() || geteuid().is_root();
        let mut found = helped_as_one(one_helped(), &survey);
        found.retain(is_compared);
        assert!(
            tried.iter().filter(|row| is_compared(row)).eq(&found),
            "{found:?}"
        );
        let none = helped_as_one(Err("no java".to_owned()), &survey);
        assert_eq!(none.len(), tried.len());
    }

    #[test]
    fn veth_and_wire_work_for_root_and_are_refused_with_their_remedy_otherwise() {
        for transport in [Transport::Veth, Transport::Wire] {
            let survey = survey(&Host::default(), &[transport]);
            let refused = survey.mover_refused("send", transport);
            if geteuid().is_root() {
                assert_eq!(refused, None);
                assert_eq!(survey.receiver_refused("recv", transport), None);
                let other = survey.receiver_refused("recvmsg", transport);
                assert_eq!(other.is_none(), transport.has_receiver());
                continue;
            }
            let why = refused.unwrap();
            assert!(why.contains("sudo bytecost"), "{why}");
            let has_peer = |m: &&Support| Mover::named(&m.name).unwrap().has_peer();
            let movers = survey.movers.iter().filter(has_peer);
            for row in movers.chain(&survey.receivers) {
                assert_eq!(
                    row.refused.as_ref(),
                    Some(&why),
                    "{row:?} over {transport:?}"
                );
            }
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

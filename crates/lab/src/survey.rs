//! Movers and receivers that work on this host, found by trials, not by reading a version.

use bytecost_engine::{MOVERS, Mover, RECEIVERS, java};
use bytecost_meter::ThreadMeter;
use bytecost_spec::cell::{Device, Ring};
use bytecost_spec::{Axis, Cell, Host, Support, Survey, Transport};

use crate::helpers::Helpers;
use crate::local_host::LocalHost;
use crate::short_trials::{ShortTrials, Surveyor};
use crate::side_by_side;
use crate::transports;

mod links;

pub use links::links;

/// Bytes of a message.
const SIZE_BYTES: u64 = 4096;
/// The mover of all trials in which the mover makes no difference.
const PLAIN: &str = "send";
/// The refusal of movers that start another program.
const NO_HELPERS: &str = "movers that start another program are not supported over this transport";

/// Tries every mover and receiver over these transports by a trial that checks every byte; not movers
/// of files and those that start a program ([`helped`]), nor the CPU's clock
/// ([`crate::cpu_clock::test`]).
pub fn survey(surveyor: &Surveyor<'_>, host: &Host, transports: &[Transport]) -> Survey {
    let mut survey = Survey {
        mover_facts: MOVERS.iter().map(|m| m.surveyed()).collect(),
        receiver_facts: RECEIVERS.iter().map(|r| r.facts.owned()).collect(),
        congestion_controls: congestion_controls(&host.congestion_available),
        counters_refused: ThreadMeter::open().refused(),
        ..Survey::default()
    };
    for (movers, receivers) in side_by_side::each(transports, |t| over(surveyor, *t)) {
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

fn over(surveyor: &Surveyor<'_>, transport: Transport) -> (Vec<Support>, Vec<Support>) {
    let mut path = TestedPath::new(surveyor.series(LocalHost::default()), transport);
    let row = |name, refused| support(name, transport, refused);
    let apart = |m: &&Mover| m.route.is_of_files() || m.route.is_of_cpus() || m.is_helped();
    let movers: Vec<Support> = MOVERS
        .iter()
        .filter(|m| !apart(m))
        .map(|m| {
            let tried = m
                .has_peer()
                .then(|| path.refused(m.name, RECEIVERS[0].name));
            row(m.name, tried.flatten())
        })
        .collect();
    // The plain mover to the first receiver was among them.
    let plain = movers.iter().find(|tried| tried.name == PLAIN);
    let plain_refused = plain.and_then(|tried| tried.refused.clone());
    let receivers = RECEIVERS.iter().enumerate().map(|(n, receiver)| {
        let refused = if plain_refused.is_some() || n == 0 {
            plain_refused.clone()
        } else if !transport.has_receiver() {
            Some("there is no receiver over this transport".to_owned())
        } else {
            path.refused(PLAIN, receiver.name)
        };
        row(receiver.name, refused)
    });
    (movers, receivers.collect())
}

fn support(name: &str, transport: Transport, refused: Option<String>) -> Support {
    Support {
        name: name.to_owned(),
        transport,
        refused,
    }
}

/// Tries the movers that [`survey()`] leaves out, those that have another program do their work.
pub fn helped(
    surveyor: &Surveyor<'_>,
    helpers: &Helpers,
    transports: &[Transport],
) -> Vec<Support> {
    let over = |transport: &Transport| match &helpers.java {
        Err(why) => helped_rows(*transport, |_| Some(why.clone())),
        Ok(_) if transport.is_wire() => helped_rows(*transport, |_| Some(NO_HELPERS.to_owned())),
        Ok(compiled) => {
            let local = LocalHost {
                compiled: Some(compiled.clone()),
                ..LocalHost::default()
            };
            let mut path = TestedPath::new(surveyor.series(local), *transport);
            helped_rows(*transport, |mover| {
                path.refused(mover.name, RECEIVERS[0].name)
            })
        }
    };
    transports.iter().flat_map(over).collect()
}

/// A row for each mover that has another program do its work, with the reason if it is refused.
fn helped_rows(
    transport: Transport,
    mut refused: impl FnMut(&Mover) -> Option<String>,
) -> Vec<Support> {
    let movers = MOVERS.iter().filter(|m| m.is_helped());
    movers
        .map(|mover| support(mover.name, transport, refused(mover)))
        .collect()
}

/// Tries one helped mover, over the transport that asks most of it; else the reason why they do not work.
pub fn one_helped(surveyor: &Surveyor<'_>) -> Result<(), String> {
    java::find().map_err(|e| e.to_string())?;
    let local = LocalHost {
        starts_from_source: true,
        ..LocalHost::default()
    };
    let mut path = TestedPath::new(surveyor.series(local), Transport::Unix);
    let refused = path.refused("java-transfer-to", RECEIVERS[0].name);
    refused.map_or(Ok(()), Err)
}

/// The rows of [`helped`] where one of them stands for all that work, as [`one_helped`] found it,
/// over transports on which `send` was found to work. Refused though Java is there, each is tried.
pub fn helped_as_one(
    surveyor: &Surveyor<'_>,
    one: Result<(), String>,
    survey: &Survey,
) -> Vec<Support> {
    let is_tried = |t: &&Transport| survey.movers.iter().any(|row| row.transport == **t);
    let transports = Transport::WITHIN.iter().filter(is_tried).copied();
    if one.is_err() && java::find().is_ok() {
        return helped(surveyor, &Helpers::ready(), &transports.collect::<Vec<_>>());
    }
    let rows = transports.flat_map(|transport| {
        let refused = if transport.is_wire() {
            Some(NO_HELPERS.to_owned())
        } else {
            (one.clone().err()).or_else(|| survey.mover_refused(PLAIN, transport))
        };
        helped_rows(transport, |_| refused.clone())
    });
    rows.collect()
}

/// A transport, with the series of trials over it.
struct TestedPath<'s> {
    trials: ShortTrials<'s>,
    /// The cell of its trials, but for mover and receiver.
    cell: Cell,
}

impl<'s> TestedPath<'s> {
    /// Makes the network of a transport. A wire may have either device, which makes no difference here.
    fn new(mut trials: ShortTrials<'s>, transport: Transport) -> TestedPath<'s> {
        let usual = cell(transport);
        let other = Cell {
            device: Device::Veth,
            ..usual.clone()
        };
        let networks = &mut trials.bed.networks;
        let is_usual = networks.between(&usual).is_ok() || networks.between(&other).is_err();
        TestedPath {
            trials,
            cell: if is_usual { usual } else { other },
        }
    }

    /// The reason why a trial of this mover with this receiver fails, if it does.
    fn refused(&mut self, mover: &str, receiver: &str) -> Option<String> {
        let cell = Cell {
            mover: mover.to_owned(),
            receiver: receiver.to_owned(),
            ..self.cell.clone()
        };
        self.trials.attempt(&cell).err()
    }
}

/// A cell with such messages.
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

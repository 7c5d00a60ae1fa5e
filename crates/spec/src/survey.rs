//! What works on a host, found by trying, and what does not, with the reason.

use serde::{Deserialize, Serialize};

use crate::axis::{Axis, Value};
use crate::cell::{Cache, Cell, Cgroup, Class, Device, Invalid, Transport};
use crate::{Counter, units};

mod cpu_clock;
mod facts;
mod unit_costs;

pub use cpu_clock::{ClockVerdict, CounterTrial, CpuClock};
pub use facts::{
    Condition, InFlight, MoverFacts, ReceiverFacts, Release, Route, ServerFacts, ServiceFacts,
    WorkKind,
};
pub use unit_costs::{CostTrial, PRICED, Priced, PricedRow, UnitCost};

/// The counters that a thread reads from the CPU.
const HARDWARE: [Counter; 6] = [
    Counter::Cycles,
    Counter::Instructions,
    Counter::L1dLoadMisses,
    Counter::LlcLoadMisses,
    Counter::Branches,
    Counter::BranchMisses,
];

/// A reading that cannot be had here. Data, drawn as a gap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// What cannot be had: a counter, a setting of a card.
    pub what: String,
    /// Why, and what to do about it where something can be done.
    pub why: String,
}

/// Cells of the study that this run did not measure, though it could have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// What they are, in words: `threads 2, 4, 8`.
    pub what: String,
    /// The values that they have and no measured cell has, by axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(Axis, Vec<Value>)>,
    /// How many.
    pub cells: usize,
    /// Why, and the option that brings them in.
    pub why: String,
}

/// One mover on a file in one state of the page cache, as this host's file system answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSupport {
    /// Name in the engine's table.
    pub name: String,
    /// Where the file's pages are.
    pub cache: Cache,
    /// None where it works; else the reason.
    pub refused: Option<String>,
}

/// The place where files lie, and what works there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSurvey {
    /// The directory of bytecost's own files.
    pub dir: String,
    /// Number of the device that the files lie on, as stat(2) tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u64>,
    /// What file system that is: `ext4`.
    pub file_system: String,
    /// What an unprivileged process may still write there, in bytes.
    pub free_bytes: u64,
    /// What lengths and offsets must divide by where the page cache is passed by (O_DIRECT), in
    /// bytes; none where the file system cannot do that.
    pub direct_bytes: Option<u64>,
    /// A file of the user's to read in the place of bytecost's own.
    pub user_file: Option<String>,
    /// Its length in bytes.
    pub user_file_bytes: Option<u64>,
    /// Each mover of files, in each state of the page cache.
    pub movers: Vec<FileSupport>,
}

/// One mover or receiver over one transport, as the kernel of this host answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Support {
    /// Name in the engine's table.
    pub name: String,
    /// Over which transport.
    pub transport: Transport,
    /// None where it works; else the reason.
    pub refused: Option<String>,
}

/// A transport on a device, as the kernel of this host answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkSupport {
    /// The transport.
    pub transport: Transport,
    /// What it was made of, where that can be chosen.
    pub device: Device,
    /// The most that the kernel hands its device in one packet, in bytes; none where it does not
    /// say (before Linux 5.19), or there is no such device.
    pub segment_bytes_most: Option<u32>,
    /// None where it can be made; else the reason.
    pub refused: Option<String>,
}

/// What bounds the number of connections on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServingLimits {
    /// Descriptors that a process may open: the hard limit.
    pub descriptors: u64,
    /// Threads and processes that may be started: the least of all limits.
    pub tasks: u64,
    /// Which limit that is.
    pub tasks_by: String,
    /// Ports from which connections to one server can be opened, of all the addresses that its
    /// clients take together.
    pub ports: u64,
}

/// What is known of servers on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerSurvey {
    /// The table of servers.
    pub servers: Vec<ServerFacts>,
    /// The table of services.
    pub services: Vec<ServiceFacts>,
    /// What bounds connections; none where that is not known.
    pub limits: Option<ServingLimits>,
    /// How the load generator reaches the kernel: `io_uring`, or `epoll` with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// Why a server that another host reaches cannot be kept to its load alone; none where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_refused: Option<String>,
}

/// A class and a control group together, as the kernel of this host answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IsolationSupport {
    /// The class.
    pub class: Class,
    /// What the group is given.
    pub cgroup: Cgroup,
    /// None where both can be had; else the reason.
    pub refused: Option<String>,
}

/// What works on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Survey {
    /// The table of movers.
    pub mover_facts: Vec<MoverFacts>,
    /// The table of receivers.
    pub receiver_facts: Vec<ReceiverFacts>,
    /// Each mover over each transport.
    pub movers: Vec<Support>,
    /// Each receiver over each transport.
    pub receivers: Vec<Support>,
    /// Congestion controls that a socket could be given.
    pub congestion_controls: Vec<String>,
    /// Counters that cannot be had here, with the reason.
    pub counters_refused: Vec<Refusal>,
    /// Where files lie and what works there, where the study asks for files.
    pub files: Option<FileSurvey>,
    /// The version of Java, where movers need one and it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub java: Option<String>,
    /// What works of servers, where the study asks for any.
    pub serving: Option<ServerSurvey>,
    /// Why memory cannot be had in huge pages, where that was tried and found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_pages_refused: Option<String>,
    /// Classes and control groups that the study asks for, each as it was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub isolation: Vec<IsolationSupport>,
    /// Links that the study has made for its run, each as it was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSupport>,
    /// What the CPU clock of a thread counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_clock: Option<CpuClock>,
    /// Trials that show what reading hardware counters costs, where the study reads any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters_cost: Vec<CounterTrial>,
    /// What one event of each kind costs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unit_costs: Vec<UnitCost>,
}

impl Survey {
    /// The facts of a server.
    pub fn server(&self, name: &str) -> Option<&ServerFacts> {
        let serving = self.serving.as_ref()?;
        serving.servers.iter().find(|s| s.name == name)
    }

    /// Compares a cell's names and fields with the tables: fails for an unknown mover, receiver,
    /// server or service, a size that the service does not take, or a message that does not divide
    /// into its fields where the mover needs that.
    pub fn check(&self, cell: &Cell) -> Result<(), Invalid> {
        self.check_name(Axis::Mover, &cell.mover)?;
        self.check_name(Axis::Receiver, &cell.receiver)?;
        if let Some(server) = &cell.serving.server {
            return self.check_served(cell, server);
        }
        let uses_fields = self.mover(&cell.mover).is_some_and(|m| m.uses_fields);
        if uses_fields && !cell.size_bytes.is_multiple_of(u64::from(cell.fields)) {
            return Err(Invalid(format!(
                "size {} does not divide into {} fields, which mover `{}` sends: choose a size that is a multiple of {}, or other --fields",
                cell.size_bytes, cell.fields, cell.mover, cell.fields
            )));
        }
        Ok(())
    }

    /// Fails for a mover, receiver, server or service that is in no table; other axes have no names
    /// of tables.
    pub fn check_name(&self, axis: Axis, name: &str) -> Result<(), Invalid> {
        let serving = self.serving.iter();
        let known: Vec<&str> = match axis {
            Axis::Mover => self.mover_facts.iter().map(|m| &*m.name).collect(),
            Axis::Receiver => self.receiver_facts.iter().map(|r| &*r.name).collect(),
            Axis::Server => {
                let servers = serving.flat_map(|s| &s.servers).map(|s| &*s.name);
                std::iter::once("none").chain(servers).collect()
            }
            Axis::Service => serving
                .flat_map(|s| &s.services)
                .map(|s| &*s.name)
                .collect(),
            _ => return Ok(()),
        };
        if known.contains(&name) {
            return Ok(());
        }
        let known = known.into_iter();
        Err(Invalid(units::unknown(axis.name(), name, known)))
    }

    fn check_served(&self, cell: &Cell, server: &str) -> Result<(), Invalid> {
        let asked = cell.serving.service.as_str();
        self.check_name(Axis::Server, server)?;
        self.check_name(Axis::Service, asked)?;
        let mut services = self.serving.iter().flat_map(|s| &s.services);
        let Some(service) = services.find(|s| s.name == asked) else {
            return Ok(());
        };
        match service.sizes {
            Some((least, most)) if !(least..=most).contains(&cell.size_bytes) => {
                let [size, least, most] = [cell.size_bytes, least, most].map(units::bytes);
                let why = format!("is out of bounds for service `{asked}`: from {least} to {most}");
                Err(Invalid(format!("size {size} {why}")))
            }
            _ => Ok(()),
        }
    }

    /// Why a mover does not work over a transport; none where it does.
    pub fn mover_refused(&self, name: &str, transport: Transport) -> Option<String> {
        refused(&self.movers, name, transport)
    }

    /// Why a receiver does not work over a transport; none where it does.
    pub fn receiver_refused(&self, name: &str, transport: Transport) -> Option<String> {
        refused(&self.receivers, name, transport)
    }

    /// Why a mover of files does not work in a state of the page cache; none where it does.
    pub fn file_refused(&self, name: &str, cache: Cache) -> Option<String> {
        let Some(files) = &self.files else {
            return Some("files were not tried".to_owned());
        };
        match (files.movers.iter()).find(|r| r.name == name && r.cache == cache) {
            Some(row) => row.refused.clone(),
            None => Some(format!(
                "`{name}` was not tried with cache {}",
                cache.name()
            )),
        }
    }

    /// Why a class and a control group cannot be had; none where they can, or are the usual ones.
    pub fn isolation_refused(&self, class: Class, cgroup: &Cgroup) -> Option<String> {
        if class == Class::default() && cgroup.is_none() {
            return None;
        }
        let mut rows = self.isolation.iter();
        match rows.find(|r| r.class == class && r.cgroup == *cgroup) {
            Some(row) => row.refused.clone(),
            None => Some("it was not tried".to_owned()),
        }
    }

    /// The link that a cell lies on, where it was tried.
    pub fn link(&self, cell: &Cell) -> Option<&LinkSupport> {
        let same = |l: &&LinkSupport| l.transport == cell.transport && l.device == cell.device;
        self.links.iter().find(same)
    }

    /// Why a counter cannot be read here; none where it can.
    pub fn counter_refused(&self, counter: Counter) -> Option<&str> {
        let mut refused = self.counters_refused.iter();
        let found = refused.find(|r| r.what == counter.name())?;
        Some(&found.why)
    }

    /// Why no hardware counter at all can be read here; none where one can.
    pub fn no_hardware(&self) -> Option<&str> {
        let any = HARDWARE.iter().any(|c| self.counter_refused(*c).is_none());
        self.counter_refused(HARDWARE[0]).filter(|_| !any)
    }

    /// The facts of a mover.
    pub fn mover(&self, name: &str) -> Option<&MoverFacts> {
        self.mover_facts.iter().find(|m| m.name == name)
    }

    /// The facts of a receiver.
    pub fn receiver(&self, name: &str) -> Option<&ReceiverFacts> {
        self.receiver_facts.iter().find(|r| r.name == name)
    }
}

fn refused(rows: &[Support], name: &str, transport: Transport) -> Option<String> {
    // Sockets of TCP can do the same, wherever the other end is.
    let transport = match transport {
        Transport::Peer => Transport::Loopback,
        within => within,
    };
    let mut rows = rows.iter();
    match rows.find(|r| r.name == name && r.transport == transport) {
        Some(row) => row.refused.clone(),
        None => Some(format!("`{name}` was not tried over {}", transport.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hardware_counter_is_some() {
        let check = |counters: &[Counter], expected: Option<&str>| {
            let refused = counters.iter().map(|c| Refusal {
                what: c.name().to_owned(),
                why: format!("no {}", c.name()),
            });
            let survey = Survey {
                counters_refused: refused.collect(),
                ..Survey::default()
            };
            assert_eq!(survey.no_hardware(), expected);
        };
        check(&HARDWARE, Some("no cycles"));
        check(&HARDWARE[..5], None);
        check(&HARDWARE[1..], None);
    }
}

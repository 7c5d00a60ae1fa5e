//! A survey: the features that work on a host, found by trying them, and the reasons for the others.

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

/// The hardware counters that a thread reads from the CPU.
const HARDWARE: [Counter; 6] = [
    Counter::Cycles,
    Counter::Instructions,
    Counter::L1dLoadMisses,
    Counter::LlcLoadMisses,
    Counter::Branches,
    Counter::BranchMisses,
];

/// A reading that is not available on this host. It is data, drawn as a gap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Refused{S}"))]
pub struct Refusal<S> {
    /// The missing thing: a counter, a setting of a card.
    #[serde(rename = "what")]
    pub subject: S,
    /// The reason, and the remedy where there is one.
    pub why: String,
}

/// Cells of the study that a run does not measure, although the host could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The cells in words: `threads 2, 4, 8`.
    pub what: String,
    /// The values of these cells that no measured cell has, by axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(Axis, Vec<Value>)>,
    /// Number of cells.
    pub cells: usize,
    /// The reason, and the option that includes them.
    pub why: String,
}

/// The result of trying a mover of files in one state of the page cache on this host's file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSupport {
    /// Name of the mover in the engine's table.
    pub name: String,
    /// State of the file's pages.
    pub cache: Cache,
    /// The reason why it does not work; none if it works.
    pub refused: Option<String>,
}

/// The directory of files and the features of its file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSurvey {
    /// The directory of bytecost's own files.
    pub dir: String,
    /// Number of the device with the files, as stat(2) reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u64>,
    /// Type of the file system: `ext4`.
    pub file_system: String,
    /// Bytes that an unprivileged process may still write there.
    pub free_bytes: u64,
    /// Alignment of lengths and offsets with O_DIRECT, in bytes; none where the file system does not
    /// support it.
    pub direct_bytes: Option<u64>,
    /// A file of the user's that is read instead of bytecost's own.
    pub user_file: Option<String>,
    /// Its length in bytes.
    pub user_file_bytes: Option<u64>,
    /// Results for each mover of files in each state of the page cache.
    pub movers: Vec<FileSupport>,
}

/// The result of trying a mover or receiver over one transport on this host's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Support {
    /// Name of the mover or receiver in the engine's table.
    pub name: String,
    /// The transport.
    pub transport: Transport,
    /// The reason why it does not work; none if it works.
    pub refused: Option<String>,
}

/// The result of making a transport with one device on this host's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkSupport {
    /// The transport.
    pub transport: Transport,
    /// The device, where a transport has several.
    pub device: Device,
    /// The most that the kernel hands the device in one packet, in bytes; none if the kernel does not
    /// report it (before Linux 5.19) or there is no such device.
    pub segment_bytes_most: Option<u32>,
    /// The reason why it cannot be made; none if it can.
    pub refused: Option<String>,
}

/// The limits of the number of connections on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServingLimits {
    /// Descriptors that a process may open: the hard limit.
    pub descriptors: u64,
    /// Number of threads and processes that may be started: the least of all limits.
    pub tasks: u64,
    /// Name of that limit.
    pub tasks_by: String,
    /// Number of ports from which connections to one server can be opened, over all addresses of its
    /// clients.
    pub ports: u64,
}

/// The servers and services of the engine, and the limits of a host for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerSurvey {
    /// The table of servers.
    pub servers: Vec<ServerFacts>,
    /// The table of services.
    pub services: Vec<ServiceFacts>,
    /// Limits of connections; none if they are unknown.
    pub limits: Option<ServingLimits>,
    /// Interface of the load generator to the kernel: `io_uring`, or `epoll` with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// The reason why a server in reach of another host cannot be restricted to its clients; none if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_refused: Option<String>,
}

/// The result of trying a scheduler class with a control group on this host's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IsolationSupport {
    /// The class.
    pub class: Class,
    /// The limits of the group.
    pub cgroup: Cgroup,
    /// The reason why the two are not available together; none if they are.
    pub refused: Option<String>,
}

/// The features that work on a host, with the engine's tables as they were at that time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Survey {
    /// The table of movers.
    pub mover_facts: Vec<MoverFacts>,
    /// The table of receivers.
    pub receiver_facts: Vec<ReceiverFacts>,
    /// Results for each mover over each transport.
    pub movers: Vec<Support>,
    /// Results for each receiver over each transport.
    pub receivers: Vec<Support>,
    /// Congestion controls that a socket can have.
    pub congestion_controls: Vec<String>,
    /// Counters that are not available, with the reason.
    pub counters_refused: Vec<Refusal<Counter>>,
    /// Features of the file system, if the study has movers of files.
    pub files: Option<FileSurvey>,
    /// Version of Java, if movers need it and it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub java: Option<String>,
    /// Features for servers, if the study has servers.
    pub serving: Option<ServerSurvey>,
    /// The reason why huge pages are not available; none if they are, or were not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_pages_refused: Option<String>,
    /// Results for the scheduler classes and control groups of the study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub isolation: Vec<IsolationSupport>,
    /// Results for the links that are made for the study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSupport>,
    /// The CPU clock of a thread compared with elapsed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_clock: Option<CpuClock>,
    /// Trials with and without hardware counters, which show their cost, if the study reads any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters_cost: Vec<CounterTrial>,
    /// CPU time of single events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unit_costs: Vec<UnitCost>,
}

impl Survey {
    /// The table row of a server.
    pub fn server(&self, name: &str) -> Option<&ServerFacts> {
        let serving = self.serving.as_ref()?;
        serving.servers.iter().find(|s| s.name == name)
    }

    /// Compares a cell with the tables: fails for an unknown mover, receiver, server or service, a size
    /// that the service does not have, or a message that cannot be divided into its fields although the
    /// mover sends fields.
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

    /// Fails for a mover, receiver, server or service that no table has. Values of other axes are not
    /// names of rows.
    pub fn check_name(&self, axis: Axis, name: &str) -> Result<(), Invalid> {
        let serving = self.serving.iter();
        let names: Vec<&str> = match axis {
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
        if names.contains(&name) {
            return Ok(());
        }
        Err(Invalid(units::unknown(
            axis.name(),
            name,
            names.into_iter(),
        )))
    }

    fn check_served(&self, cell: &Cell, server: &str) -> Result<(), Invalid> {
        let name = cell.serving.service.as_str();
        self.check_name(Axis::Server, server)?;
        self.check_name(Axis::Service, name)?;
        let mut services = self.serving.iter().flat_map(|s| &s.services);
        let Some(service) = services.find(|s| s.name == name) else {
            return Ok(());
        };
        match service.sizes {
            Some((least, most)) if !(least..=most).contains(&cell.size_bytes) => {
                let [size, least, most] = [cell.size_bytes, least, most].map(units::bytes);
                let why = format!("is out of bounds for service `{name}`: from {least} to {most}");
                Err(Invalid(format!("size {size} {why}")))
            }
            _ => Ok(()),
        }
    }

    /// The reason why a mover does not work over a transport; none if it works.
    pub fn mover_refused(&self, name: &str, transport: Transport) -> Option<String> {
        refused(&self.movers, name, transport)
    }

    /// The reason why a receiver does not work over a transport; none if it works.
    pub fn receiver_refused(&self, name: &str, transport: Transport) -> Option<String> {
        refused(&self.receivers, name, transport)
    }

    /// The reason why a mover of files does not work in a state of the page cache; none if it works.
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

    /// The reason why a class and a control group are not available; none if they are, or are the defaults.
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

    /// The result for the link that a cell needs, if it was tried.
    pub fn link(&self, cell: &Cell) -> Option<&LinkSupport> {
        (self.links.iter())
            .find(|link| link.transport == cell.transport && link.device == cell.device)
    }

    /// The reason why a counter is not available; none if it is.
    pub fn counter_refused(&self, counter: Counter) -> Option<&str> {
        (self.counters_refused.iter())
            .find(|refusal| refusal.subject == counter)
            .map(|refusal| refusal.why.as_str())
    }

    /// The reason why no hardware counter at all is available; none if one is.
    pub fn no_hardware(&self) -> Option<&str> {
        let has_any = HARDWARE.iter().any(|c| self.counter_refused(*c).is_none());
        self.counter_refused(HARDWARE[0]).filter(|_| !has_any)
    }

    /// The table row of a mover.
    pub fn mover(&self, name: &str) -> Option<&MoverFacts> {
        self.mover_facts.iter().find(|m| m.name == name)
    }

    /// The table row of a receiver.
    pub fn receiver(&self, name: &str) -> Option<&ReceiverFacts> {
        self.receiver_facts.iter().find(|r| r.name == name)
    }
}

/// The reason in a row of a table of results, or that there is no such row.
fn refused(rows: &[Support], name: &str, transport: Transport) -> Option<String> {
    // TCP sockets have the same features, wherever the other end is.
    let transport = match transport {
        Transport::Peer => Transport::Loopback,
        within => within,
    };
    let tried = (rows.iter()).find(|row| row.name == name && row.transport == transport);
    match tried {
        Some(row) => row.refused.clone(),
        None => Some(format!("`{name}` was not tried over {}", transport.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_counters_are_refused_only_if_all_are() {
        let check = |counters: &[Counter], expected: Option<&str>| {
            let refused = counters.iter().map(|&subject| Refusal {
                subject,
                why: format!("no {}", subject.name()),
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

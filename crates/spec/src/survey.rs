//! What works on a host, found by trying, and what does not, with the reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cell::{Cache, Cgroup, Class, Transport};

mod cpu_clock;
mod links;

pub use cpu_clock::{ClockVerdict, CounterTrial, CpuClock};
pub use links::LinkSupport;

/// A cell or a reading that cannot be had here. Data, drawn as a gap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// What cannot be had: a cell's id, a mover over a transport, a counter.
    pub what: String,
    /// Why, and what to do about it where something can be done.
    pub why: String,
}

/// Cells of the study that this run did not measure, though it could have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// What they are, in words: `threads 2, 4, 8`.
    pub what: String,
    /// How many.
    pub cells: usize,
    /// Why, and the option that brings them in.
    pub why: String,
}

/// Whether a mover is done with a buffer, and when. Decides what may be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// The buffer is the caller's again when the call returns.
    AtReturn,
    /// It is the caller's again when the kernel says so.
    AtCompletion,
    /// Nothing ever says so: it may be read until the peer has read it.
    Never,
}

/// The two ends of a mover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Nothing is moved.
    #[default]
    Nowhere,
    /// From memory to memory, without the kernel: there is no peer.
    MemoryToMemory,
    /// From memory to a socket.
    MemoryToSocket,
    /// From a file to a socket.
    FileToSocket,
    /// From a file to memory: there is no peer.
    FileToMemory,
    /// From memory to a file: there is no peer.
    MemoryToFile,
    /// Nothing is moved: a CPU works, on memory or in registers.
    Work,
    /// Between two threads that take turns and sleep meanwhile.
    PingPong,
    /// Between two threads that take turns and spin meanwhile, so that each needs a CPU.
    PingPongSpinning,
    /// From a file to `/dev/null`, which throws it away: there is no peer.
    FileToNull,
    /// From a file to another: there is no peer.
    FileToFile,
}

impl Route {
    /// Whether the mover works on a file and has no peer.
    #[must_use]
    pub fn is_of_files(self) -> bool {
        matches!(
            self,
            Route::FileToMemory | Route::MemoryToFile | Route::FileToNull | Route::FileToFile
        )
    }

    /// Whether the mover reads a file, so that it may be one of the user's.
    #[must_use]
    pub fn reads_a_file(self) -> bool {
        self == Route::FileToSocket || self.is_of_files() && self != Route::MemoryToFile
    }

    /// Whether a request is made of calls of a block each.
    #[must_use]
    pub fn goes_by_blocks(self) -> bool {
        matches!(self, Route::FileToNull | Route::FileToFile)
    }

    /// Whether a CPU works and nothing is moved.
    #[must_use]
    pub fn is_work(self) -> bool {
        self == Route::Work
    }

    /// Whether two threads of one process take turns.
    #[must_use]
    pub fn is_ping(self) -> bool {
        matches!(self, Route::PingPong | Route::PingPongSpinning)
    }

    /// Whether it is about CPUs alone: they work, or take turns. Nothing is moved over a path.
    #[must_use]
    pub fn is_of_cpus(self) -> bool {
        self.is_work() || self.is_ping()
    }

    /// Whether there is another end that takes in what is moved.
    #[must_use]
    pub fn has_peer(self) -> bool {
        matches!(self, Route::MemoryToSocket | Route::FileToSocket)
    }
}

/// How many requests a mover can have in flight, and who carries them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InFlight {
    /// One after the other, by the thread that asks.
    #[default]
    One,
    /// Several, by the thread that asks or by a device.
    Several,
    /// Several, also by threads that work for the process: its CPU time is the mover's.
    SeveralByThreads,
    /// One after the other, by a process that the mover starts: its CPU time is the mover's too.
    OneByProcess,
}

/// One mover on a file in one state of the page cache, as this host's file system answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSupport {
    /// Name in the engine's table.
    pub name: String,
    /// Where the file's pages are.
    pub cache: Cache,
    /// None where it works; else the reason.
    pub refused: Option<String>,
}

/// The place where files lie, and what works there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSurvey {
    /// The directory of bytecost's own files.
    pub dir: String,
    /// Number of the device that the files lie on, as stat(2) tells it; runs of old do not.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Support {
    /// Name in the engine's table.
    pub name: String,
    /// Over which transport.
    pub transport: Transport,
    /// None where it works; else the reason.
    pub refused: Option<String>,
}

/// A row of the engine's table of movers, as others need to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoverFacts {
    /// Its name.
    pub name: String,
    /// What it does, in one sentence.
    pub summary: String,
    /// When its buffers may be used again.
    pub release: Release,
    /// Whether the message must divide into the fields.
    pub uses_fields: bool,
    /// Whether it has a peer at all (`null` and movers of files have none).
    pub has_peer: bool,
    /// From where to where; surveys of old have it at its default.
    #[serde(default)]
    pub route: Route,
    /// How many requests it can have in flight.
    #[serde(default)]
    pub in_flight: InFlight,
    /// Payload memory that it locks for good, as a multiple of the ring (0 or 1).
    pub locks_rings: u32,
    /// File descriptors of one flow on the sending side.
    pub descriptors_per_flow: u32,
    /// Whether it sends from memory that can be filled before each message.
    #[serde(default)]
    pub can_refill: bool,
    /// Whether it can use a buffer again although its completion was not taken.
    #[serde(default)]
    pub leaves_completions: bool,
    /// A known weakness that every report must tell, if any.
    pub caution: Option<String>,
}

impl MoverFacts {
    /// Whether it moves nothing at all, so that it tells what the loop costs.
    #[must_use]
    pub fn moves_nothing(&self) -> bool {
        !self.has_peer && self.route == Route::Nowhere
    }

    /// Whether it brings a file through memory of its own, piece by piece, so that the axis
    /// `block` means something to it.
    #[must_use]
    pub fn goes_in_blocks(&self) -> bool {
        self.route == Route::FileToSocket && self.release == Release::AtReturn
    }

    /// Whether it sends from a file that the cell chooses: from one in memory, or from one in
    /// the page cache or on the disk.
    #[must_use]
    pub fn sends_a_file(&self) -> bool {
        self.route == Route::FileToSocket
    }
}

/// A row of the engine's table of receivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverFacts {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// Whether it sees the payload, so that its content can be checked.
    pub sees_content: bool,
}

/// A row of the engine's table of servers, as others need to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFacts {
    /// Its name.
    pub name: String,
    /// How it serves many connections, in one sentence.
    pub summary: String,
    /// The most connections that it can hold, and why, where something but limits bounds them.
    pub bound: Option<(u64, String)>,
    /// Whether it serves one connection to its end before it looks at the next.
    pub in_turn: bool,
    /// Whether it has a thread or a process for each connection.
    pub task_per_connection: bool,
    /// What every report must tell, if anything.
    pub caution: Option<String>,
    /// None where it works here; else the reason.
    pub refused: Option<String>,
}

/// A row of the engine's table of services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceFacts {
    /// Its name.
    pub name: String,
    /// What it answers.
    pub summary: String,
    /// The sizes that it takes in bytes, least and most; none where it takes none.
    pub sizes: Option<(u64, u64)>,
}

/// What bounds the number of connections on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSurvey {
    /// The table of servers.
    pub servers: Vec<ServerFacts>,
    /// The table of services.
    pub services: Vec<ServiceFacts>,
    /// What bounds connections; none where that is not known.
    pub limits: Option<ServingLimits>,
    /// How the load generator reaches the kernel: `io_uring`, or `epoll` with the reason. Surveys
    /// of old do not tell; it was epoll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
}

/// A class and a control group together, as the kernel of this host answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IsolationSupport {
    /// The class.
    pub class: Class,
    /// What the group is given.
    pub cgroup: Cgroup,
    /// None where both can be had; else the reason.
    pub refused: Option<String>,
}

/// What works on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    #[serde(default)]
    pub files: Option<FileSurvey>,
    /// The version of Java, where movers need one and it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub java: Option<String>,
    /// What works of servers, where the study asks for any.
    #[serde(default)]
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
    /// What the CPU clock of a thread counts; runs of old did not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_clock: Option<CpuClock>,
    /// Trials that show what reading hardware counters costs, where the study reads any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters_cost: Vec<CounterTrial>,
}

impl Survey {
    /// The facts of a server.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&ServerFacts> {
        let serving = self.serving.as_ref()?;
        serving.servers.iter().find(|s| s.name == name)
    }

    /// Why a mover does not work over a transport; none where it does.
    #[must_use]
    pub fn mover_refused(&self, name: &str, transport: Transport) -> Option<String> {
        refused(&self.movers, name, transport)
    }

    /// Why a receiver does not work over a transport; none where it does.
    #[must_use]
    pub fn receiver_refused(&self, name: &str, transport: Transport) -> Option<String> {
        refused(&self.receivers, name, transport)
    }

    /// Why a mover of files does not work in a state of the page cache; none where it does.
    #[must_use]
    pub fn file_refused(&self, name: &str, cache: Cache) -> Option<String> {
        let Some(files) = &self.files else {
            return Some("files were not tried".to_owned());
        };
        match files
            .movers
            .iter()
            .find(|r| r.name == name && r.cache == cache)
        {
            Some(row) => row.refused.clone(),
            None => Some(format!(
                "`{name}` was not tried with cache {}",
                cache.name()
            )),
        }
    }

    /// Why a class and a control group cannot be had; none where they can, or are the usual ones.
    #[must_use]
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

    /// The facts of a mover.
    #[must_use]
    pub fn mover(&self, name: &str) -> Option<&MoverFacts> {
        self.mover_facts.iter().find(|m| m.name == name)
    }

    /// The facts of a receiver.
    #[must_use]
    pub fn receiver(&self, name: &str) -> Option<&ReceiverFacts> {
        self.receiver_facts.iter().find(|r| r.name == name)
    }
}

fn refused(rows: &[Support], name: &str, transport: Transport) -> Option<String> {
    match rows
        .iter()
        .find(|r| r.name == name && r.transport == transport)
    {
        Some(row) => row.refused.clone(),
        None => Some(format!("`{name}` was not tried over {}", transport.name())),
    }
}

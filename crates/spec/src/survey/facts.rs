//! Rows of the engine's tables, with string literals there and with owned strings here.

use serde::{Deserialize, Serialize};

macro_rules! owned_words {
    ($($facts:ident)*) => {$(
        impl $facts<&str> {
            /// The row with owned strings. It is converted through JSON, which has every field.
            pub fn owned(&self) -> $facts {
                let written = serde_json::to_value(self).and_then(serde_json::from_value);
                written.expect("what is written is read")
            }
        }
    )*};
}

owned_words! { MoverFacts ReceiverFacts ServerFacts ServiceFacts }

/// The time at which a sender may write to a buffer again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// When the call returns.
    #[default]
    AtReturn,
    /// When the kernel reports the completion.
    AtCompletion,
    /// Never: the kernel may read the buffer until the peer has read it, and reports nothing.
    Never,
}

/// The source and the destination of a mover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Returns true if the mover works on a file and has no peer.
    pub fn is_of_files(self) -> bool {
        matches!(
            self,
            Route::FileToMemory | Route::MemoryToFile | Route::FileToNull | Route::FileToFile
        )
    }

    /// Returns true if the mover reads a file, which may then be one of the user's.
    pub fn reads_a_file(self) -> bool {
        self == Route::FileToSocket || self.is_of_files() && self != Route::MemoryToFile
    }

    /// Returns true if a request consists of several calls of one block each.
    pub fn goes_by_blocks(self) -> bool {
        matches!(self, Route::FileToNull | Route::FileToFile)
    }

    /// Returns true if a CPU computes and nothing is moved.
    pub fn is_work(self) -> bool {
        self == Route::Work
    }

    /// Returns true if two threads of one process take turns.
    pub fn is_ping(self) -> bool {
        matches!(self, Route::PingPong | Route::PingPongSpinning)
    }

    /// Returns true for work and for turns of threads: nothing is moved over a path.
    pub fn is_of_cpus(self) -> bool {
        self.is_work() || self.is_ping()
    }

    /// Returns true if a peer receives the bytes.
    pub fn has_peer(self) -> bool {
        matches!(self, Route::MemoryToSocket | Route::FileToSocket)
    }
}

/// The number of requests that a mover can have in flight, and the threads that process them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InFlight {
    /// One, by the thread that makes the request.
    #[default]
    One,
    /// Several, by the thread that makes the request or by a device.
    Several,
    /// Several, also by other threads of the process, whose CPU time is the mover's.
    SeveralByThreads,
    /// One, by a process that the mover starts, whose CPU time is the mover's.
    OneByProcess,
}

/// A condition for the use of a mover, receiver or server, for advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Buffers are never written again.
    NeverWrittenAgain,
    /// Buffers are not written until the kernel has reported the completion.
    NotWrittenUntilCompletion,
    /// One byte of each page is enough: no data are delivered.
    OneByteOfEachPage,
    /// No byte of the data is needed: they are discarded without a copy.
    NoDataNeeded,
    /// The kernel is at least of this version.
    Linux(u32, u32),
    /// The program is in Java.
    Java,
    /// The process may raise its own priority: root, or CAP_SYS_NICE.
    Privilege,
    /// io_uring may be used, which containers and hardened systems often forbid.
    Uring,
    /// A CPU may be kept busy by a thread of the kernel that polls.
    PollingCpu,
    /// Each side may keep a CPU busy while it waits.
    SpinningCpus,
    /// Both files are on one file system.
    OneFileSystem,
    /// No other program needs the CPUs to which the threads are pinned.
    CpusAlone,
    /// The receiving program sets the option again before each read.
    ReceiverAsksAgain,
    /// All descriptors of the process are below this number.
    DescriptorsBelow(u32),
    /// No connection is idle: idle ones cost as much as busy ones.
    NoneIdle,
    /// All connections are busy, since no idle ones were measured.
    IdleNotMeasured,
    /// There may be a thread for each connection.
    ThreadEach,
    /// There may be a process for each connection.
    ProcessEach,
    /// One client is served at a time, and the others wait until it disconnects.
    OneClientAtATime,
}

impl Condition {
    fn linux((major, minor): (u32, u32)) -> Condition {
        Condition::Linux(major, minor)
    }
}

/// The resource that a mover of work uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// Memory.
    #[default]
    Memory,
    /// Memory, with each access dependent on the one before.
    Chain,
    /// Registers: only another user of the core can slow it.
    Registers,
    /// A timer: the thread sleeps, and is woken at each beat.
    Beats,
}

/// The row of a mover: its name and its properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoverFacts<T = String> {
    /// Its name: the system call and its flags.
    pub name: T,
    /// Description in one sentence.
    pub summary: T,
    /// Time at which its buffers may be written again.
    pub release: Release,
    /// True if a message is sent from several pieces of memory, and must be divisible into them.
    pub uses_fields: bool,
    /// Source and destination.
    pub route: Route,
    /// Number of requests that it can have in flight, and the threads that process them.
    pub in_flight: InFlight,
    /// Resource that it uses, if it only works.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub work: WorkKind,
    /// Payload memory that it locks for the whole trial, as a multiple of the ring (0 or 1).
    pub locks_rings: u32,
    /// File descriptors of one flow on the sending side.
    pub descriptors_per_flow: u32,
    /// True if it can reuse a buffer whose completion was not read.
    pub leaves_completions: bool,
    /// The oldest Linux that it needs; none if every supported one has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_linux: Option<(u32, u32)>,
    /// True if it uses io_uring.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub uses_uring: bool,
    /// A condition of its use that does not follow from the other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// A known weakness that every report must state, if any.
    pub caution: Option<T>,
    /// True if the weakness does not exist for requests with O_DIRECT.
    pub caution_spares_direct: bool,
}

impl<T> MoverFacts<T> {
    /// All conditions of its use. There is none about a file's pages: a program that sends a file does
    /// not write to it at the same time.
    pub fn conditions(&self) -> Vec<Condition> {
        let release = match self.release {
            Release::AtCompletion => Some(Condition::NotWrittenUntilCompletion),
            Release::Never => Some(Condition::NeverWrittenAgain),
            Release::AtReturn => None,
        };
        let is_spinning = self.route == Route::PingPongSpinning;
        let conditions = [
            release.filter(|_| self.route == Route::MemoryToSocket),
            self.condition,
            self.is_helped().then_some(Condition::Java),
            is_spinning.then_some(Condition::SpinningCpus),
            self.uses_uring.then_some(Condition::Uring),
            self.needs_linux.map(Condition::linux),
        ];
        conditions.into_iter().flatten().collect()
    }

    /// Returns true if a peer receives the bytes.
    pub fn has_peer(&self) -> bool {
        self.route.has_peer()
    }

    /// Returns true if it moves nothing, so that it measures the cost of the loop.
    pub fn moves_nothing(&self) -> bool {
        self.route == Route::Nowhere
    }

    /// Returns true if it starts a program that does the work.
    pub fn is_helped(&self) -> bool {
        self.in_flight == InFlight::OneByProcess
    }

    /// Returns true if its payload can be rewritten before each message, which detects a buffer that is
    /// reused too early.
    pub fn can_refill(&self) -> bool {
        self.route == Route::MemoryToSocket && self.release != Release::Never
    }

    /// Returns true if it sends a file, whose cache state the cell chooses.
    pub fn sends_a_file(&self) -> bool {
        self.route == Route::FileToSocket
    }
}

/// The row of a receiver: its name and its properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceiverFacts<T = String> {
    /// Its name: the system call and its flags.
    pub name: T,
    /// Description in one sentence.
    pub summary: T,
    /// True if it reads the payload, so that its content can be checked.
    pub sees_content: bool,
}

/// The row of a server: its name and its properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerFacts<T = String> {
    /// The name of the model.
    pub name: T,
    /// Description in one sentence.
    pub summary: T,
    /// The most connections that it can hold, with the reason, if anything but the host's limits bounds them.
    pub bound: Option<(u64, T)>,
    /// True if it serves one connection to its end before it accepts the next.
    pub in_turn: bool,
    /// True if it has a thread or a process for each connection.
    pub task_per_connection: bool,
    /// True if its process may have no other threads.
    pub needs_lone_thread: bool,
    /// True if the number of its threads can be chosen.
    pub takes_workers: bool,
    /// True if it scans all connections each time that one of them is ready.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub scans_all: bool,
    /// The number that all descriptors of its process must be below, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors_below: Option<u32>,
    /// True if it uses io_uring.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub uses_uring: bool,
    /// The oldest Linux that it needs; none if every supported one has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_linux: Option<(u32, u32)>,
    /// A known weakness that every report must state, if any.
    pub caution: Option<T>,
    /// The reason why it does not work here; none if it works.
    pub refused: Option<T>,
}

impl<T> ServerFacts<T> {
    /// All conditions of its use.
    pub fn conditions(&self) -> Vec<Condition> {
        let each = if self.needs_lone_thread {
            Condition::ProcessEach
        } else {
            Condition::ThreadEach
        };
        let conditions = [
            self.in_turn.then_some(Condition::OneClientAtATime),
            self.task_per_connection.then_some(each),
            self.descriptors_below.map(Condition::DescriptorsBelow),
            self.scans_all.then_some(Condition::NoneIdle),
            self.uses_uring.then_some(Condition::Uring),
            self.needs_linux.map(Condition::linux),
        ];
        conditions.into_iter().flatten().collect()
    }
}

/// The row of a service: its name and its sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceFacts<T = String> {
    /// Its name.
    pub name: T,
    /// Description of its response, in one sentence.
    pub summary: T,
    /// The least and the greatest size, in bytes; none if its responses have no size of choice.
    pub sizes: Option<(u64, u64)>,
}

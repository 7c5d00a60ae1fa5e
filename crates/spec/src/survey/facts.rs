//! What the engine's tables say of their rows: there with words compiled in, here with their own.

use serde::{Deserialize, Serialize};

macro_rules! owned_words {
    ($($facts:ident)*) => {$(
        impl $facts<&str> {
            /// The same with words of its own. Both kinds are written alike, so that none is left
            /// out.
            pub fn owned(&self) -> $facts {
                let written = serde_json::to_value(self).and_then(serde_json::from_value);
                written.expect("what is written is read")
            }
        }
    )*};
}

owned_words! { MoverFacts ReceiverFacts ServerFacts ServiceFacts }

/// Whether a mover is done with a buffer, and when. Decides what may be rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// The buffer is the caller's again when the call returns.
    #[default]
    AtReturn,
    /// It is the caller's again when the kernel says so.
    AtCompletion,
    /// Nothing ever says so: it may be read until the peer has read it.
    Never,
}

/// The two ends of a mover.
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
    /// Whether the mover works on a file and has no peer.
    pub fn is_of_files(self) -> bool {
        matches!(
            self,
            Route::FileToMemory | Route::MemoryToFile | Route::FileToNull | Route::FileToFile
        )
    }

    /// Whether the mover reads a file, so that it may be one of the user's.
    pub fn reads_a_file(self) -> bool {
        self == Route::FileToSocket || self.is_of_files() && self != Route::MemoryToFile
    }

    /// Whether a request is made of calls of a block each.
    pub fn goes_by_blocks(self) -> bool {
        matches!(self, Route::FileToNull | Route::FileToFile)
    }

    /// Whether a CPU works and nothing is moved.
    pub fn is_work(self) -> bool {
        self == Route::Work
    }

    /// Whether two threads of one process take turns.
    pub fn is_ping(self) -> bool {
        matches!(self, Route::PingPong | Route::PingPongSpinning)
    }

    /// Whether it is about CPUs alone: they work, or take turns. Nothing is moved over a path.
    pub fn is_of_cpus(self) -> bool {
        self.is_work() || self.is_ping()
    }

    /// Whether there is another end that takes in what is moved.
    pub fn has_peer(self) -> bool {
        matches!(self, Route::MemoryToSocket | Route::FileToSocket)
    }
}

/// How many requests a mover can have in flight, and who carries them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// What must hold so that a way can be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Its buffers are never written again.
    NeverWrittenAgain,
    /// Its buffers are not written until the kernel has said that it is done with them.
    NotWrittenUntilCompletion,
    /// One byte of each page is enough: no data are delivered.
    OneByteOfEachPage,
    /// Nobody needs a byte of the data: they are thrown away uncopied.
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
    /// Nothing else needs the CPUs to which the threads are pinned.
    CpusAlone,
    /// The receiving program asks for it again before each read.
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
    /// One client is served at a time, and the others wait until it goes.
    OneClientAtATime,
}

impl Condition {
    fn linux((major, minor): (u32, u32)) -> Condition {
        Condition::Linux(major, minor)
    }
}

/// What a mover of work does with its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// It goes through memory.
    #[default]
    Memory,
    /// It goes through memory, and each access waits for the one before it.
    Chain,
    /// It computes in registers: only another user of its core can slow it.
    Registers,
    /// It sleeps, and wakes up at each beat.
    Beats,
}

/// What is known of a mover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoverFacts<T = String> {
    /// Its name: the system call and its flags.
    pub name: T,
    /// What it does, in one sentence.
    pub summary: T,
    /// When its buffers may be used again.
    pub release: Release,
    /// Whether a message is sent from several pieces of memory, so that it must divide into them.
    pub uses_fields: bool,
    /// From where to where.
    pub route: Route,
    /// How many requests it can have in flight, and who carries them out.
    pub in_flight: InFlight,
    /// What it does where it only works.
    #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
    pub work: WorkKind,
    /// Payload memory that it locks for good, as a multiple of the ring (0 or 1).
    pub locks_rings: u32,
    /// File descriptors of one flow on the sending side.
    pub descriptors_per_flow: u32,
    /// Whether it can use a buffer again although its completion was not taken.
    pub leaves_completions: bool,
    /// The Linux that it needs at least, where not every one will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_linux: Option<(u32, u32)>,
    /// Whether it works through io_uring.
    #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
    pub uses_uring: bool,
    /// A condition of its use that follows from nothing else here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// A known weakness that every report must tell, if any.
    pub caution: Option<T>,
    /// Whether that is none where requests pass the page cache (O_DIRECT).
    pub caution_spares_direct: bool,
}

impl<T> MoverFacts<T> {
    /// All that must hold to use it. Of a file's pages nothing: who sends a file does not write to
    /// it meanwhile.
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

    /// Whether it has a peer.
    pub fn has_peer(&self) -> bool {
        self.route.has_peer()
    }

    /// Whether it moves nothing at all, so that it tells what the loop costs.
    pub fn moves_nothing(&self) -> bool {
        self.route == Route::Nowhere
    }

    /// Whether it starts a program that does the work.
    pub fn is_helped(&self) -> bool {
        self.in_flight == InFlight::OneByProcess
    }

    /// Whether it sends from memory that can be filled anew, so that a buffer used too early shows.
    pub fn can_refill(&self) -> bool {
        self.route == Route::MemoryToSocket && self.release != Release::Never
    }

    /// Whether it sends a file that the cell chooses, in memory, in the page cache or on the disk.
    pub fn sends_a_file(&self) -> bool {
        self.route == Route::FileToSocket
    }
}

/// What is known of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceiverFacts<T = String> {
    /// Its name: the system call and its flags.
    pub name: T,
    /// What it does, in one sentence.
    pub summary: T,
    /// Whether it sees the payload, so that its content can be checked.
    pub sees_content: bool,
}

/// What is known of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerFacts<T = String> {
    /// The name of the model.
    pub name: T,
    /// How it serves many connections, in one sentence.
    pub summary: T,
    /// The most connections that it can hold, and why, where something but limits bounds them.
    pub bound: Option<(u64, T)>,
    /// Whether it serves one connection to its end before it looks at the next, so that others
    /// wait for as long as that one stays.
    pub in_turn: bool,
    /// Whether it has a thread or a process for each connection.
    pub task_per_connection: bool,
    /// Whether the process that it runs in may have no other threads.
    pub needs_lone_thread: bool,
    /// Whether the number of its threads is chosen.
    pub takes_workers: bool,
    /// Whether it goes through all connections each time that one of them is ready.
    #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
    pub scans_all: bool,
    /// The number below which all descriptors of its process must be, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors_below: Option<u32>,
    /// Whether it works through io_uring.
    #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
    pub uses_uring: bool,
    /// The Linux that it needs at least, where not every one will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_linux: Option<(u32, u32)>,
    /// What every report must tell, if anything.
    pub caution: Option<T>,
    /// None where it works here; else the reason.
    pub refused: Option<T>,
}

impl<T> ServerFacts<T> {
    /// All that must hold to use it.
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

/// What is known of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceFacts<T = String> {
    /// Its name.
    pub name: T,
    /// What it answers, in one sentence.
    pub summary: T,
    /// The sizes that it takes in bytes, least and most; none where it takes none.
    pub sizes: Option<(u64, u64)>,
}

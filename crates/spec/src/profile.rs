//! A profile of a running program: the calls that moved its bytes, with their time and copies.

use serde::{Deserialize, Serialize};

use crate::Reading;
use crate::evidence::Kind;

words! {
    /// The type of an open descriptor.
    pub enum DescriptorKind {
        /// A regular file.
        File,
        /// A block device.
        Block,
        /// A character device.
        Device,
        /// A pipe or FIFO.
        Pipe,
        /// A TCP socket.
        Tcp,
        /// A UDP socket.
        Udp,
        /// A Unix socket.
        Unix,
        /// A socket of another family or type.
        Socket,
        /// A directory.
        Directory,
        /// An anonymous file: epoll, eventfd, timerfd, io_uring.
        Other,
    }
}

words! {
    /// The place of the other end of a socket or pipe.
    pub enum OtherEnd {
        /// This machine.
        Local,
        /// Another host, container or virtual machine.
        Network,
    }
}

words! {
    /// A flag of a call that changes what it costs.
    pub enum CallFlag {
        /// MSG_ZEROCOPY.
        ZeroCopy,
        /// MSG_MORE or SPLICE_F_MORE.
        More,
        /// MSG_DONTWAIT.
        DontWait,
        /// MSG_ERRQUEUE.
        ErrorQueue,
    }
}

/// An open descriptor, as far as it matters for what a call costs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// Its type.
    pub kind: DescriptorKind,
    /// The place of its other end; none of a file, and of a socket that is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_end: Option<OtherEnd>,
    /// The file system of a file, the numbers (`1:3`) of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// True for a file of at least 1 MiB when it was first used.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub is_large: bool,
    /// True if it was opened with O_DIRECT.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub is_direct: bool,
}

/// Calls that failed, by error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FailedCalls {
    /// EAGAIN: nothing to read, or no room to write.
    pub again: u64,
    /// EINVAL: splice(2) and sendfile(2) refuse descriptors with it.
    pub invalid: u64,
    /// ENOBUFS: no more memory may be locked for MSG_ZEROCOPY.
    pub no_buffers: u64,
    /// All other errors.
    pub other: u64,
}

impl FailedCalls {
    /// All failed calls.
    pub fn total(&self) -> u64 {
        self.again + self.invalid + self.no_buffers + self.other
    }
}

/// Zero-copy messages of a way, by their notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Notifications {
    /// Messages whose notification the program read.
    pub read: u64,
    /// Of these, messages that the kernel copied after all (SO_EE_CODE_ZEROCOPY_COPIED).
    pub copied: u64,
    /// Messages sent when every earlier one of the socket had been notified.
    pub one_at_a_time: u64,
}

/// All calls of one system call, or requests of one io_uring opcode, between the same types of
/// descriptor with the same flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// The system call (`sendmsg`), or the opcode (`IORING_OP_SEND`).
    pub call: String,
    /// Source of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Descriptor>,
    /// Destination of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Descriptor>,
    /// Flags that all of them had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<CallFlag>,
    /// Calls that returned, failed ones included.
    pub calls: u64,
    /// Bytes that they returned.
    pub bytes: u64,
    /// Time from entry to return; of a request from submission to completion.
    pub elapsed_ns: u64,
    /// CPU time of the calls, with their entry and return and with interrupts that came in them, without
    /// what counting added; none of requests, whose time is in `io_uring_enter` and in the kernel's
    /// workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Bytes copied between user memory and the kernel.
    pub copied_bytes: Reading,
    /// Calls by power of two of the bytes (of a wait: events) that they returned; the first is 1.
    pub lengths: Vec<u64>,
    /// Calls that failed.
    pub failed: FailedCalls,
    /// Calls that wrote within 20 µs after another of this way on the same descriptor, with no read
    /// between.
    pub follows: u64,
    /// Bytes of these.
    pub follow_bytes: u64,
    /// Reads that returned 35 to 80 ms after the last of two or more writes in a row on the same
    /// socket: as long as a delayed acknowledgement takes.
    pub delayed_reads: u64,
    /// The sum of these waits.
    pub delayed_ns: u64,
    /// Reads that began where the one before on the same descriptor had ended.
    pub sequential: u64,
    /// Zero-copy messages.
    pub notifications: Notifications,
}

/// Calls that wrote exactly what their thread had read just before from another descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CopyLoop {
    /// Position of the reading way.
    pub read: usize,
    /// Position of the writing way.
    pub write: usize,
    /// Calls that wrote.
    pub calls: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
}

/// Bytes that each way had moved at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Time since the beginning.
    pub at_ms: u64,
    /// By position of the way; ways that were first seen later are left out.
    pub bytes: Vec<u64>,
}

/// Samples of the CPUs that found a process of the profile at one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkSamples {
    /// The kind of work.
    pub kind: Kind,
    /// Samples, of about one a millisecond of a CPU's time.
    pub samples: u64,
}

/// The I/O counters of processes in `/proc`, which need no privilege beyond their owner's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcessIo {
    /// Bytes that calls of the read family returned (rchar, proc_pid_io(5)).
    pub read_bytes: u64,
    /// Bytes that calls of the write family returned (wchar).
    pub written_bytes: u64,
    /// Calls of the read family (syscr).
    pub read_calls: u64,
    /// Calls of the write family (syscw).
    pub write_calls: u64,
    /// Bytes that were fetched from storage (read_bytes).
    pub storage_read_bytes: u64,
    /// Bytes that are to be written to storage (write_bytes).
    pub storage_written_bytes: u64,
}

/// A profile: all ways in which a program moved bytes while it was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The version of bytecost.
    pub bytecost: String,
    /// The kernel's release.
    pub kernel: String,
    /// The name of the program, or the command that was started.
    pub program: String,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// Duration of the observation.
    pub elapsed_ns: u64,
    /// CPU time of its processes in that time, without what counting added.
    pub cpu_ns: u64,
    /// Number of its processes: those at the beginning, and all that were started since.
    pub processes: u64,
    /// Calls by their way; none where only `/proc` could be read.
    pub ways: Vec<Way>,
    /// Pairs of reads and writes.
    pub copy_loops: Vec<CopyLoop>,
    /// Its CPU time by kind of work, most first: samples of all CPUs that found one of its processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<WorkSamples>,
    /// Why there are no samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_absent: Option<String>,
    /// Bytes of files mapped by page faults (one fault maps several pages).
    pub mapped_bytes: Reading,
    /// Page faults in user code.
    pub faults: Reading,
    /// Counters of `/proc`; none where the calls themselves were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_io: Option<ProcessIo>,
    /// The reason why calls were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// All calls, those between sampled slices of time included.
    pub calls: u64,
    /// Calls in slices of time that were left out; numbers of ways are scaled for them.
    pub skipped_calls: u64,
    /// Calls that were lost, since a table was full.
    pub lost_calls: u64,
    /// Calls of 32-bit programs, which are not counted.
    pub compat_calls: u64,
    /// CPU time that counting added, about.
    pub own_cost_ns: u64,
    /// Bytes over time.
    pub moments: Vec<Moment>,
}

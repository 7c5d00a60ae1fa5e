//! The messages between the coordinator and an endpoint: length, then JSON.
//!
//! A frame is a little-endian `u32` and so many bytes. The length is compared with
//! [`MAX_FRAME_BYTES`] before anything is allocated.

use std::error::Error;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::ops::{Not, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use bytecost_spec::evidence::{Copied, CopyMeans, CpuAccounts, EventCount, Footprint, TimeByKind};
use bytecost_spec::host::{CpuCache, Obstacle};
use bytecost_spec::sample::OtherProcess;
use bytecost_spec::survey::{ClockVerdict, UnitCost};
use bytecost_spec::{Cell, Held, LoadKind, PacketSocket, Readings, SideReadings};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::file_task::FileTask;
use crate::flow_key::FlowKey;
use crate::groups::ThrottlingAccount;
use crate::meters::Meters;
pub use crate::role::Role;
pub use crate::trial_error::TrialFailure;
use crate::trial_processes::TrialProcesses;

/// The longest frame that is read or written.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
/// Bytes that say how long a frame's body is.
pub(crate) const LENGTH_BYTES: usize = 4;
/// Descriptors that are handed over at once.
pub(crate) const DESCRIPTORS: usize = 2;

/// The part of the payload that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentCheck {
    /// The first word of each piece that arrives: for timed trials.
    Quick,
    /// Every byte, and each message is written anew: for the conformance test.
    Full,
}

/// The endpoint's part in making the connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ConnectionSetup {
    /// There is no other side.
    #[serde(rename = "nobody")]
    None,
    /// It accepts them.
    #[serde(rename = "listens")]
    Listen {
        /// The address to listen at; none is where the transport does.
        at: Option<IpAddr>,
        /// The TCP port; none takes a free one.
        port: Option<u16>,
        /// Server: the only address that connections may come from; none accepts all of them.
        from: Option<IpAddr>,
    },
    /// It connects to the address of the other side, as in [`FromEndpoint::Listening`].
    #[serde(rename = "connects")]
    Connect(String),
}

/// The task of an endpoint: one side of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its side.
    pub role: Role,
    /// The cell.
    pub cell: Cell,
    /// Its part in making the connections.
    #[serde(rename = "meets")]
    pub connection: ConnectionSetup,
    /// The key that the connection of each flow sends first, so that no stranger is taken for the peer.
    pub keys: Vec<FlowKey>,
    /// The part of the payload that is checked.
    pub check: ContentCheck,
    /// Sender: messages that each flow sends at least, whatever the schedule says.
    pub min_messages: u64,
    /// The longest time of a call without progress, in ms.
    #[serde(rename = "patience_ms")]
    pub timeout_ms: u64,
    /// Settings of its host alone.
    pub here: LocalSettings,
}

/// Settings that are never sent to the other host: CPUs, paths, means of reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSettings {
    /// CPUs of its flows, each a set: flow `i` has the `i`-th, modulo their number; empty leaves them free.
    pub pins: Vec<Vec<u32>>,
    /// The file, for a mover that works on one.
    pub file: Option<FileTask>,
    /// The compiled Java program, for a mover that starts it.
    pub java: Option<PathBuf>,
    /// Caches in which the first flow's footprint is measured, nearest first; none in a timed trial.
    pub probed: Vec<CpuCache>,
    /// The `cgroup.procs` of its control groups, which it enters before it starts any thread.
    pub cgroup_procs: Vec<PathBuf>,
    /// The counters to read, and the means.
    pub meters: Meters,
    /// True if the process waits for another task once this one is done.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub stays: bool,
}

impl LocalSettings {
    /// The part that the other host gets: if there is a file, and if it is one of ours.
    pub(crate) fn elsewhere(&self) -> LocalSettings {
        LocalSettings {
            file: self.file.as_ref().map(|f| FileTask::elsewhere(f.own)),
            ..LocalSettings::default()
        }
    }
}

/// The task of a background load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundTask {
    /// The work that keeps it busy.
    pub noise: LoadKind,
    /// A thread on each of these CPUs; empty is one thread where the scheduler puts it.
    pub cpus: Vec<u32>,
    /// Memory that it works on, in bytes, where it uses any.
    pub memory_bytes: u64,
    /// The node to take that from.
    pub mem_node: Option<u32>,
    /// The time at which it ends by itself, in ns of CLOCK_MONOTONIC, also without an order to stop.
    pub until_ns: u64,
}

/// The task of an observer: its host, as far as all trials have it in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObserverTask {
    /// The CPUs whose frequency is read, and that are sampled.
    pub cpus: Vec<u32>,
}

/// A question to an observer about its host, between trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostQuestion {
    /// The CPU time of others since the last such question, or since its start.
    OthersUse,
    /// The reason why this evidence cannot be collected; none if its instruments are open now.
    EvidenceRefusal(WantedEvidence),
    /// The CPU time of one event of each kind, read by threads' clocks of this kind.
    UnitCosts(ClockVerdict),
    /// Do others run now, so that the cost of no event can be measured without them?
    DoOthersRun,
}

/// The answer to such a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostAnswer {
    /// To [`HostQuestion::OthersUse`].
    OthersUse(OthersUse),
    /// To [`HostQuestion::EvidenceRefusal`].
    EvidenceRefusal(Option<String>),
    /// To [`HostQuestion::UnitCosts`].
    UnitCosts(Vec<UnitCost>),
    /// To [`HostQuestion::DoOthersRun`].
    DoOthersRun(bool),
}

/// The evidence that an observer collects of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedEvidence {
    /// The directory that has /proc and /sys.
    pub root: PathBuf,
    /// True if the CPUs are sampled.
    pub time: bool,
    /// The means by which copies may be counted, of which the strongest is taken; empty if they are not.
    pub copies: Vec<CopyMeans>,
    /// True if events are counted, and the CPUs' time is accounted for.
    pub events: bool,
}

/// A trial as the observer of one host sees it. The agent fills in what is of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedTrial {
    /// The number by which answers to the orders of this trial are known.
    pub(crate) number: u64,
    /// The cell.
    pub(crate) cell: Cell,
    /// Its processes on this host.
    pub(crate) processes: TrialProcesses,
    /// The CPUs of both ends, between which the latency is read; none unless they are two of this host.
    pub(crate) cpu_pair: Option<[u32; 2]>,
    /// The throttling of its control group; none without a quota.
    pub(crate) throttling: Option<ThrottlingAccount>,
    /// The network cards that its packets go by.
    pub(crate) cards: Vec<String>,
    /// True if the throttling of all trials since the last such one is reported with this one.
    pub(crate) reports_quotas: bool,
    /// The evidence to collect; none of a timed trial.
    pub(crate) evidence: WantedEvidence,
}

impl ObservedTrial {
    /// The part that the other host gets.
    pub(crate) fn elsewhere(&self) -> ObservedTrial {
        ObservedTrial {
            number: self.number,
            reports_quotas: self.reports_quotas,
            ..ObservedTrial::default()
        }
    }
}

/// The times of a trial, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Bytes begin to move.
    pub begin_ns: u64,
    /// The window opens.
    pub window_from_ns: u64,
    /// The window closes. Senders continue until the order to stop.
    pub window_to_ns: u64,
    /// The warm-up lasts until connections have stopped growing, at most until then: each side
    /// answers [`FromEndpoint::Warm`], and a second schedule says when the window is.
    pub steady_by_ns: Option<u64>,
}

impl Schedule {
    /// The schedule of a window without a warm-up.
    pub(crate) fn of_window(window_ns: Range<u64>) -> Schedule {
        Schedule {
            begin_ns: window_ns.start,
            window_from_ns: window_ns.start,
            window_to_ns: window_ns.end,
            steady_by_ns: None,
        }
    }
}

/// Coordinator to endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToEndpoint {
    /// Get ready.
    Prepare(Box<Task>),
    /// Keep CPUs busy until [`ToEndpoint::Stop`].
    #[serde(rename = "disturb")]
    Background(BackgroundTask),
    /// Observe this host, trial after trial.
    Observe(ObserverTask),
    /// Observer: prepare for a trial, and forget the one before. Answered by [`ObserverStage::Ready`].
    Trial(Box<ObservedTrial>),
    /// Go by this schedule.
    Go(Schedule),
    /// Sender of passes: open the window. Observer: it opens; answered by [`ObserverStage::Open`].
    Open,
    /// Observer: all windows are closed. Answered by [`ObserverStage::Closed`].
    Close,
    /// Sender, and receiver of passes: finish what is under way. All windows are closed.
    /// Background load: end. Observer: report the trial; answered by [`ObserverStage::Over`].
    Stop,
    /// Observer: answer. Answered by [`FromEndpoint::Answer`].
    Ask(HostQuestion),
}

/// Endpoint to coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromEndpoint {
    /// Receiver or server: connect here.
    Listening {
        /// `127.0.0.1:PORT`, or an abstract Unix name.
        address: String,
        /// Server: the process that serves, which is a child of the endpoint's.
        process: Option<u32>,
    },
    /// All connections stand and all threads wait.
    Ready,
    /// Background load: all threads are busy, each held there.
    Busy(Vec<Held>),
    /// Client: everyone is connected, with the window to come, in ns of CLOCK_MONOTONIC.
    Connected(Range<u64>),
    /// With passes: the warm-up is over for all threads. Those of a sender wait for [`ToEndpoint::Open`].
    Opening,
    /// The warm-up is over: true if the side's connections have stopped growing, false if its time was over.
    Warm(bool),
    /// All threads have closed their windows.
    Closed,
    /// Observer: it has come so far with the trial of that number.
    Observed {
        /// The number of the trial.
        trial: u64,
        /// The last thing that was observed.
        stage: ObserverStage,
    },
    /// Observer: the answer to a question.
    Answer(HostAnswer),
    /// The trial is over.
    Done(Box<Done>),
    /// It failed.
    Failed(TrialFailure),
}

/// The result of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// Readings of the window.
    pub side: SideReadings,
    /// Payload bytes of each flow over the whole trial.
    pub total_bytes: Vec<u64>,
    /// Bytes whose content was compared.
    pub compared_bytes: u64,
    /// Round-trip times: HdrHistogram V2, base64.
    pub latency_ns_histogram: Option<String>,
    /// The first flow's footprint in the caches, where that was measured.
    pub footprint: Option<Footprint>,
    /// Connections that were closed since they were not the other side's.
    pub strangers: u64,
    /// Server: connections and requests from its start to its end. Client: those that it made.
    pub traffic: Traffic,
}

/// The stages of a trial for an observer, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObserverStage {
    /// Its processes are known.
    Ready,
    /// With passes: the opening edge is read.
    Open,
    /// The closing edge is read, and the network after it.
    Closed,
    /// All readings are there.
    Over(Box<HostReadings>),
}

/// Readings of a host around the window of a trial, with the circumstances of the trial there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostReadings {
    /// Readings of its machine and its networks.
    pub machine: Readings,
    /// Circumstances of the packets on their way, and of the processes.
    pub obstacles: Vec<Obstacle>,
    /// Sockets of other programs that get the packets.
    pub packet_sockets: Vec<PacketSocket>,
    /// The evidence that was wanted.
    pub evidence: HostEvidence,
}

/// Evidence of a trial that an observer collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostEvidence {
    /// CPU time by kind of work within the window, from samples.
    pub time: Option<TimeByKind>,
    /// Copies of all bytes of the trial, at each place that is counted.
    pub copied: Vec<Copied>,
    /// As in [`bytecost_spec::evidence::CopiedBytes::gaps`].
    pub gaps: Vec<String>,
    /// Events within the window.
    pub counts: Vec<EventCount>,
    /// CPU time of every process within the window.
    pub accounts: Option<CpuAccounts>,
}

/// The CPU time between two moments of processes that are not of bytecost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OthersUse {
    /// CPU time of other programs, in ns.
    pub(crate) others_ns: u64,
    /// Those of them that used the most.
    pub(crate) others: Vec<OtherProcess>,
    /// CPU time of kernel threads, in ns.
    pub(crate) kernel_threads_ns: u64,
}

/// Connections and requests of a server's whole trial, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Connections accepted, or begun.
    pub connections: u64,
    /// Requests answered, or made.
    pub requests: u64,
}

/// Writes one frame.
///
/// # Errors
/// `InvalidInput` when it would be longer than [`MAX_FRAME_BYTES`], else those of writing.
pub fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    if body.len() > MAX_FRAME_BYTES {
        let why = "the message is too long";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&body);
    to.write_all(&frame)
}

/// Reads one frame.
///
/// # Errors
/// `UnexpectedEof` when the other end is gone, `InvalidData` for a length above
/// [`MAX_FRAME_BYTES`] or a message that is none, else those of reading.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut head = [0; LENGTH_BYTES];
    from.read_exact(&mut head)?;
    let mut body = vec![0; length(head, MAX_FRAME_BYTES)?];
    from.read_exact(&mut body)?;
    parsed(&body)
}

/// The message that a frame's bytes are; `InvalidData` for bytes that are none.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(invalid)
}

fn invalid(why: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The length of a frame's body, which begins with these bytes; `InvalidData` above `most`.
pub(crate) fn length(head: [u8; LENGTH_BYTES], most: usize) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    if length > most {
        Err(invalid(format!(
            "a frame of {length} bytes is longer than allowed"
        )))
    } else {
        Ok(length)
    }
}

/// Hands descriptors over a socket, unix(7), with one byte of their own.
pub(crate) fn send_descriptors(
    to: impl AsFd,
    descriptors: [BorrowedFd<'_>; DESCRIPTORS],
) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the descriptors of [`send_descriptors`], where they are next on the socket; `InvalidData` for
/// anything else.
pub(crate) fn receive_descriptors(from: impl AsFd) -> io::Result<[OwnedFd; DESCRIPTORS]> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let mut taken = Vec::with_capacity(DESCRIPTORS);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            taken.extend(descriptors);
        }
    }
    let why = "the descriptors that belong to the order did not come";
    taken.try_into().map_err(|_| invalid(why))
}

/// Reads the schedule, which must be the next order.
pub(crate) fn read_schedule(from: &mut impl Read) -> io::Result<Schedule> {
    match read(from)? {
        ToEndpoint::Go(schedule) => Ok(schedule),
        _ => Err(unexpected_order()),
    }
}

/// Reads an order, which must be the next one.
pub(crate) fn read_order(from: &mut impl Read, order: &ToEndpoint) -> io::Result<()> {
    let received: ToEndpoint = read(from)?;
    (received == *order)
        .then_some(())
        .ok_or_else(unexpected_order)
}

/// The error of an order that does not come now.
pub(crate) fn unexpected_order() -> io::Error {
    invalid("protocol error: unexpected message from the coordinator")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Invariant 8.
    #[test]
    fn a_length_is_bounded_before_anything_is_allocated() {
        // The other one is short, and no message.
        for frame in [&u32::MAX.to_le_bytes()[..], b"\x02\0\0\0[]"] {
            let error = read::<FromEndpoint>(&mut &*frame).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn descriptors_come_as_they_were_handed_over_or_not_at_all() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        write(&mut &ours, &ToEndpoint::Stop).unwrap();
        send_descriptors(&ours, [reader.as_fd(), writer.as_fd()]).unwrap();
        write(&mut &ours, &ToEndpoint::Stop).unwrap();
        assert_eq!(read::<ToEndpoint>(&mut &theirs).unwrap(), ToEndpoint::Stop);
        let [received, _writer] = receive_descriptors(&theirs).unwrap();
        writer.write_all(b"the same").unwrap();
        let mut said = [0; 8];
        rustix::io::read(&received, &mut said).unwrap();
        assert_eq!(&said, b"the same");
        let none = receive_descriptors(&theirs).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidData);
    }
}

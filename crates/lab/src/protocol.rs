//! What the coordinator and an endpoint say to each other: length, then JSON.
//!
//! A frame is a little-endian `u32` and so many bytes. The length is held against
//! [`MAX_FRAME_BYTES`] before anything is allocated.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use bytecost_spec::evidence::Footprint;
use bytecost_spec::host::CpuCache;
use bytecost_spec::{Cell, Held, Noise, SideReadings};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::files::FileTask;
use crate::flow_key::FlowKey;
use crate::meters::Meters;

/// The longest frame that is read or written.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
/// Bytes that say how long a frame's body is.
pub const LENGTH_BYTES: usize = 4;
/// Descriptors that are handed over at once: see [`hand_over`].
pub const HANDED_OVER: usize = 2;

/// Which side an endpoint plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It sends.
    Sender,
    /// It receives.
    Receiver,
    /// It keeps CPUs busy beside the trial.
    Neighbour,
    /// It serves.
    Server,
    /// It asks the server.
    Client,
}

impl Role {
    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Sender => "sender",
            Role::Receiver => "receiver",
            Role::Neighbour => "background load",
            Role::Server => "server",
            Role::Client => "load generator",
        }
    }
}

/// How much of the payload is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentCheck {
    /// The first word of each piece that arrives: for timed trials.
    Quick,
    /// Every byte, and each message is written anew: for the conformance test.
    Full,
}

/// How an endpoint meets the other side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Meets {
    /// There is none.
    Nobody,
    /// It takes the connections.
    Listens {
        /// The address to listen at; none is where the transport does.
        at: Option<IpAddr>,
        /// The TCP port; none takes a free one.
        port: Option<u16>,
        /// Server: the only address that connections may come from; none lets every one in that
        /// reaches it.
        #[serde(default)]
        from: Option<IpAddr>,
    },
    /// It makes them.
    Connects {
        /// Where the other side listens, as [`FromEndpoint::Listening`] says.
        to: String,
    },
}

impl Meets {
    /// Where the other side listens, if this one connects.
    pub fn address(&self) -> Option<&str> {
        match self {
            Meets::Connects { to } => Some(to),
            Meets::Nobody | Meets::Listens { .. } => None,
        }
    }
}

/// What an endpoint is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its side.
    pub role: Role,
    /// The cell.
    pub cell: Cell,
    /// How it meets the other side.
    pub meets: Meets,
    /// What the connection of each flow says first, so that no stranger is taken for the peer.
    pub keys: Vec<FlowKey>,
    /// How much is checked.
    pub check: ContentCheck,
    /// Sender: messages that each flow sends at least, whatever the schedule says.
    pub messages_least: u64,
    /// How long a call may go without progress, in ms.
    pub patience_ms: u64,
    /// CPUs of its flows, each a set: flow `i` takes the `i`-th, going round; empty leaves them free.
    #[serde(default)]
    pub pins: Vec<Vec<u32>>,
    /// The file, for a mover that works on one.
    #[serde(default)]
    pub file: Option<FileTask>,
    /// Where the Java program lies compiled, for a mover that starts it.
    #[serde(default)]
    pub java: Option<PathBuf>,
    /// Caches in which the first flow's footprint is looked at, nearest first; none is a timed
    /// trial.
    #[serde(default)]
    pub probed: Vec<CpuCache>,
    /// What takes it into its control groups, before it starts any thread.
    #[serde(default)]
    pub doors: Vec<PathBuf>,
    /// What is read, and by which means.
    pub meters: Meters,
}

/// What a neighbour is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disturb {
    /// What keeps it busy.
    pub noise: Noise,
    /// A thread on each of these CPUs; empty is one thread where the scheduler puts it.
    pub cpus: Vec<u32>,
    /// Memory that it works on, in bytes, where it uses any.
    pub memory_bytes: u64,
    /// The node to take that from.
    pub mem_node: Option<u32>,
    /// When it ends by itself, in ns of CLOCK_MONOTONIC, whatever becomes of the order to stop.
    pub until_ns: u64,
}

/// When what happens, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Bytes begin to move.
    pub begin_ns: u64,
    /// The window opens.
    pub window_from_ns: u64,
    /// The window closes. Senders go on until they are told to stop.
    pub window_to_ns: u64,
    /// The warm-up lasts until connections have stopped growing, at most until then: each side
    /// answers [`FromEndpoint::Warm`], and a second schedule says when the window is.
    #[serde(default)]
    pub steady_by_ns: Option<u64>,
}

/// Coordinator to endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToEndpoint {
    /// The first of all: what the coordinator is.
    Hello {
        /// The build that it wants the endpoint to be.
        build: String,
    },
    /// Get ready.
    Prepare(Box<Task>),
    /// Keep CPUs busy until [`ToEndpoint::Stop`].
    Disturb(Disturb),
    /// Go by this schedule.
    Go(Schedule),
    /// Sender of passes: open the window.
    Open,
    /// Sender, and receiver of passes: finish what is under way. All windows are closed.
    /// Neighbour: end.
    Stop,
}

/// Endpoint to coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromEndpoint {
    /// The first of all: what the endpoint is.
    Hello {
        /// Its build.
        build: String,
    },
    /// Receiver or server: connect here.
    Listening {
        /// `127.0.0.1:PORT`, or an abstract Unix name.
        address: String,
        /// Server: the process that serves, which is a child of the endpoint's.
        #[serde(default)]
        process: Option<u32>,
    },
    /// All connections stand and all threads wait.
    Ready,
    /// Neighbour: all threads are busy.
    Busy {
        /// Where each is held.
        held: Vec<Held>,
    },
    /// Client: everyone is connected, and the window is to be from here to there, in ns of
    /// CLOCK_MONOTONIC.
    Connected {
        /// The window opens.
        opens_ns: u64,
        /// The window closes.
        closes_ns: u64,
    },
    /// Of passes: the warm-up is over for all threads. Those of a sender wait for [`ToEndpoint::Open`].
    Opening,
    /// The warm-up is over.
    Warm {
        /// Whether the side's connections have stopped growing; else its time was over.
        steady: bool,
    },
    /// All threads have closed their windows.
    Closed,
    /// The trial is over.
    Done(Box<Done>),
    /// It went wrong.
    Failed {
        /// What, and what to do.
        reason: String,
    },
}

/// What an endpoint brings back.
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
    /// What the first flow displaced from the caches, where that was looked at.
    #[serde(default)]
    pub footprint: Option<Footprint>,
    /// Connections that were turned away since they were not the other side's.
    #[serde(default)]
    pub strangers: u64,
}

/// Writes one frame.
///
/// # Errors
/// `InvalidInput` when it would be longer than [`MAX_FRAME_BYTES`], else what writing answers.
pub fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    write_bytes(to, &serde_json::to_vec(message)?, MAX_FRAME_BYTES)
}

/// Writes one frame of these bytes, of which there may be `most`.
///
/// # Errors
/// As [`write()`].
pub fn write_bytes(to: &mut impl Write, body: &[u8], most: usize) -> io::Result<()> {
    if body.len() > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the message is too long",
        ));
    }
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(body);
    to.write_all(&frame)
}

/// Reads one frame.
///
/// # Errors
/// `UnexpectedEof` when the other end is gone, `InvalidData` for a length above
/// [`MAX_FRAME_BYTES`] or a message that is none, else what reading answers.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    parsed(&read_bytes(from, MAX_FRAME_BYTES)?)
}

/// The message that a frame's bytes are.
///
/// # Errors
/// `InvalidData` for bytes that are none.
pub fn parsed<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Reads one frame of at most `most` bytes, whatever they are: fewer for peers that are to be
/// trusted less.
///
/// # Errors
/// As [`read`], but for the message.
pub fn read_bytes(from: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut len = [0; LENGTH_BYTES];
    from.read_exact(&mut len)?;
    let mut body = vec![0; length(len, most)?];
    from.read_exact(&mut body)?;
    Ok(body)
}

/// The length of a frame's body, which begins with these bytes and may have `most`.
///
/// # Errors
/// `InvalidData` where it is longer.
pub fn length(said: [u8; LENGTH_BYTES], most: usize) -> io::Result<usize> {
    let length = u32::from_le_bytes(said) as usize;
    match length > most {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes is longer than allowed"),
        )),
        false => Ok(length),
    }
}

/// Hands descriptors over a socket, unix(7), with one byte of their own.
///
/// # Errors
/// What sendmsg(2) answers.
pub fn hand_over(to: impl AsFd, descriptors: [BorrowedFd<'_>; HANDED_OVER]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_OVER))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes what [`hand_over`] gives, where it is next on the socket.
///
/// # Errors
/// `InvalidData` for anything but so many descriptors, else what recvmsg(2) answers.
pub fn taken_over(from: impl AsFd) -> io::Result<[OwnedFd; HANDED_OVER]> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_OVER))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let mut taken = Vec::with_capacity(HANDED_OVER);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            taken.extend(descriptors);
        }
    }
    taken.try_into().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the descriptors that belong to the order did not come",
        )
    })
}

/// That the coordinator said what does not come now.
pub(crate) fn out_of_turn() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "protocol error: unexpected message from the coordinator",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let order = ToEndpoint::Prepare(Box::new(Task {
            role: Role::Sender,
            cell: Cell::default(),
            meets: Meets::Connects {
                to: "127.0.0.1:1".into(),
            },
            keys: FlowKey::several(2).unwrap(),
            check: ContentCheck::Full,
            messages_least: 3,
            patience_ms: 5000,
            pins: vec![vec![0, 2], vec![1]],
            java: None,
            probed: vec![CpuCache {
                level: 1,
                kind: "Data".into(),
                size_bytes: 32768,
                shared_by: vec![0],
            }],
            doors: vec!["/sys/fs/cgroup/a/cgroup.procs".into()],
            meters: Meters::default(),
            file: Some(FileTask {
                path: "/proc/1/fd/3".into(),
                own: true,
                target: Some("/proc/1/fd/4".into()),
            }),
        }));
        let mut bytes = Vec::new();
        write(&mut bytes, &order).unwrap();
        write(&mut bytes, &FromEndpoint::Ready).unwrap();
        let mut from = &bytes[..];
        assert_eq!(read::<ToEndpoint>(&mut from).unwrap(), order);
        assert_eq!(
            read::<FromEndpoint>(&mut from).unwrap(),
            FromEndpoint::Ready
        );
        assert_eq!(
            read::<FromEndpoint>(&mut from).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

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
        hand_over(&ours, [reader.as_fd(), writer.as_fd()]).unwrap();
        write(&mut &ours, &ToEndpoint::Stop).unwrap();
        assert_eq!(read::<ToEndpoint>(&mut &theirs).unwrap(), ToEndpoint::Stop);
        let [reader, _writer] = taken_over(&theirs).unwrap();
        writer.write_all(b"the same").unwrap();
        let mut said = [0; 8];
        rustix::io::read(&reader, &mut said).unwrap();
        assert_eq!(&said, b"the same");
        let none = taken_over(&theirs).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidData);
    }
}

//! `bytecost live send` and `bytecost live receive`: two programs, joined by data connections alone.
//!
//! A flow is a connection. Each of its ends begins with eight bytes ([`greeting`]), and the rest is
//! the payload. The sender decides how many flows there are. A session begins when all of them stand,
//! and ends with their ends: a side that ends it sends FIN on each, and the other one follows.
//! A program that listens has one session at a time, since two would measure each other.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_spec::live::{Activity, Session, SessionEnd, Totals};
use bytecost_spec::survey::Release;
use bytecost_spec::{Axis, Cell, Side, units};

use self::greeting::Greeting;

mod accept_queue;
mod connect;
mod flow_counters;
mod flow_threads;
mod flows;
pub mod greeting;
mod listen;
mod session;

pub use connect::connect;
pub use listen::listen;

/// The port of both programs where none is given.
pub const PORT: u16 = 7420;

/// Options of messages that are the receiver's.
pub const RECEIVER_AXES: &[Axis] = &[
    Axis::Receiver,
    Axis::ReadSize,
    Axis::Quickack,
    Axis::SocketBuffer,
    Axis::Placement,
    Axis::Size,
    Axis::Fields,
    Axis::Response,
];

/// The longest wait of the two sides for each other, and for the next flow of a session.
pub const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time for the other side's greeting.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time of a flow without a byte: one of both sides may be slow on purpose.
const FLOW_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest preparation of memory and threads.
const PREPARATION: Duration = Duration::from_secs(60);
/// The longest time for the ends of flows before they are cut off.
const GRACE: Duration = Duration::from_secs(2);
/// The same for a receiver whose sender ends the session: all that is on the way is to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// The longest wait of a connection for the end of the session before it.
const TURN: Duration = Duration::from_secs(1);
/// The time between checks of the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The most memory of all flows' buffers of a receiver, in bytes: a sender may have many flows.
const MOST_BUFFER_BYTES: u64 = 1 << 30;

/// The settings of one side.
#[derive(Clone, Debug)]
pub struct LiveSetup {
    /// Sender or receiver.
    pub side: Side,
    /// Options of this side; how many flows there are is the sender's.
    pub cell: Cell,
    /// True if the size of messages is known, as a sender always does.
    pub knows_size: bool,
    /// The longest session, and the end that it has then.
    pub longest: Option<(Duration, SessionEnd)>,
    /// The most bytes in a second, all flows of a session together.
    pub max_bytes_per_s: Option<u64>,
    /// [`START_TIMEOUT`], or what a test has for it.
    pub start_timeout: Duration,
}

/// Event of a program that is live.
#[derive(Clone, Debug)]
pub enum LiveEvent {
    /// It listens there.
    Listening(SocketAddr),
    /// Nothing listens there yet, and it tries again for that long.
    Retrying(SocketAddr, Duration),
    /// A connection was closed that did not become part of a session: who, and why.
    TurnedAway(String),
    /// Bytes begin to move.
    Began(Box<Session>),
    /// A second of a session is over: its number, from 1, and what the flows did in it.
    Second(u64, Box<Activity>),
    /// A session is over.
    Ended(Box<Totals>),
}

/// The reason why a session did not begin.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The stop flag was set.
    #[error("interrupted")]
    Interrupted,
    /// The two sides do not fit each other.
    #[error("{0}")]
    Mismatch(String),
    /// An error of the network or of this machine.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

impl LiveSetup {
    fn greeting(&self) -> Greeting {
        Greeting::new(self.side, &self.cell, self.knows_size)
    }

    fn most_bytes_per_s_of_a_flow(&self) -> Option<u64> {
        let flows = u64::from(self.cell.threads);
        self.max_bytes_per_s.map(|most| (most / flows).max(1))
    }

    fn sends(&self) -> bool {
        self.side != Side::Receiver
    }

    /// This side's setup of a session whose first flow has begun with these greetings.
    ///
    /// # Errors
    /// The reason why there can be no such session, in one line.
    fn agreed(&self, own: Greeting, other: Greeting) -> Result<LiveSetup, String> {
        if let Some(why) = own.mismatch(other) {
            return Err(why.to_owned());
        }
        let mut setup = self.clone();
        if !self.sends() {
            setup.cell.threads = u32::from(other.last_flow) + 1;
            setup.cell.pattern = other.pattern();
            let needed = setup.cell.read_bytes() * u64::from(setup.cell.threads);
            if needed > MOST_BUFFER_BYTES {
                return Err(format!(
                    "{} flows would need {} of buffers, more than {}: choose a smaller --read-size for the receiver or fewer --threads for the sender",
                    setup.cell.threads,
                    units::bytes_in_words(needed),
                    units::bytes_in_words(MOST_BUFFER_BYTES)
                ));
            }
        }
        Ok(setup)
    }
}

/// True if the kernel reports of each buffer of the cell's mover whether it was copied.
fn completes(cell: &Cell) -> bool {
    Mover::named(&cell.mover).is_some_and(|m| m.release == Release::AtCompletion)
}

/// True if the other end has sent FIN, and all that it sent before has been read.
fn has_ended(socket: &OwnedFd) -> bool {
    use rustix::net::RecvFlags;
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(socket, &mut [0; 1], flags), Ok((0, _)))
}

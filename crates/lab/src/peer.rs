//! The other host of a run on two. A command that the user names runs `bytecost agent` there, and
//! its standard input and output are the channel: [`link::PeerLink`] is this end of it, [`agent`]
//! the other. Of each trial one side plays there, and to the coordinator its endpoint looks like
//! one of this host.
//!
//! No clock is compared across hosts. What names a moment says what the clock of its sender shows,
//! and means the same time from when it is heard.

pub mod agent;
mod channel;
mod command;
mod copy;
mod fits;
pub mod link;
mod probe;
mod remote_end;

pub use channel::reread;
pub use command::{PeerCommand, PeerError, PeerOptions};
pub use link::PeerLink;
pub(crate) use remote_end::RemoteEnd;

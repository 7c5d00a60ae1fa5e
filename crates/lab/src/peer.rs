//! The other host of a run on two. A command of the user's runs `bytecost agent` there, with the
//! channel on its stdin and stdout between [`link::PeerLink`] and [`agent`]. One side of each trial
//! plays there, and its endpoint looks to the coordinator like one of this host.
//!
//! No clock is compared across hosts: a moment comes with its sender's time, and counts from then.

pub mod agent;
mod command;
mod copy;
mod fits;
pub mod link;
mod probe;

pub use crate::peer_channel::reread;
pub use command::{PeerCommand, PeerError, PeerOptions};
pub(crate) use copy::remove_leftovers;
pub use link::PeerLink;

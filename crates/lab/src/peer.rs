//! The other host of a run on two. A command of the user's runs `bytecost agent` there, with the
//! channel on its stdin and stdout between [`PeerLink`] and [`agent`]. One side of each trial
//! plays there, and its endpoint looks to the coordinator like one of this host.
//!
//! No clock is compared across hosts: a moment comes with its sender's time, and counts from then.

pub mod agent;
mod channel;
mod command;
mod copy;
mod data_path;
mod fits;
mod joined_command;
mod known_addresses;
mod link;
mod probe;
mod sides;
mod started_endpoint;
mod unprivileged;

pub use crate::peer_channel::reread;
pub use command::{PeerCommand, PeerError, PeerOptions};
pub(crate) use copy::remove_leftovers;
pub use link::PeerLink;
pub use unprivileged::give_up_root;

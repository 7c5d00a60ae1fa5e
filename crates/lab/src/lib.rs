//! Carries out a plan: fresh endpoint processes for each trial, the timed window, the events.
//!
//! The only crate that holds both movers and meters. It stores nothing and prints nothing: what
//! happens goes out as [`event::Event`]s.

mod beside;
mod classes;
mod cold;
mod conduct;
pub mod connection;
mod counters_cost;
pub mod cpu_clock;
pub mod descriptors;
pub mod endpoint;
mod ends;
pub mod event;
pub mod exchange;
pub mod file_survey;
pub mod files;
pub mod flow;
pub mod gate;
mod groups;
pub mod hand;
mod hold;
pub mod isolation_survey;
pub mod leftovers;
pub mod load;
pub mod marks;
pub mod meters;
mod netlink;
mod networks;
pub mod obstacles;
mod parts;
pub mod passes;
pub mod program;
pub mod protocol;
mod quotas;
pub mod requests;
pub mod server_survey;
pub mod survey;
pub mod transports;
pub mod trial;
mod truth;
pub mod wakes;
mod watch;
mod window;

pub use event::Event;
pub use trial::{Lab, Outcome};
pub use watch::Watch;

//! Carries out a plan: fresh endpoint processes for each trial, the timed window, the events.
//!
//! The only crate that holds both movers and meters. It stores nothing and prints nothing: what
//! happens goes out as [`event::Event`]s.

mod classes;
mod connection;
mod coordinator_stop;
pub mod cpu_clock;
mod delivery_check;
pub mod descriptors;
pub mod edges;
pub mod endpoint;
mod endpoint_process;
pub mod event;
mod file_part;
pub mod file_survey;
pub mod file_task;
pub mod files;
pub mod flow;
mod flow_acceptor;
pub mod flow_key;
mod flow_setup;
mod groups;
mod host_window;
mod instruments;
pub mod isolation_survey;
mod lab;
#[cfg(test)]
#[path = "../../../tests/lack.rs"]
mod lack;
pub mod leftovers;
pub mod limits;
pub mod live;
pub mod load;
mod local_host;
pub mod loopback_exchange;
pub mod marks;
pub mod meters;
mod neighbour_process;
mod netlink;
mod networks;
pub mod obstacles;
mod page_cache;
pub mod pass_loops;
pub mod passes;
pub mod peer;
mod peer_channel;
pub mod phase;
pub mod program;
pub mod protocol;
mod quotas;
mod repeats;
pub mod requests;
mod role;
mod run_clock;
mod server_setup;
pub mod server_survey;
pub mod settings;
mod side_by_side;
mod socket;
mod stall;
pub mod survey;
mod testbed;
mod thread_binding;
pub mod transports;
mod trial;
mod trial_error;
mod trial_output;
mod trial_processes;
pub mod unit_costs;
pub mod wakes;
mod warmup;
mod watch;
mod window;
mod window_lengths;

pub use event::Event;
pub use lab::{Lab, TrialOutcome};
pub use watch::Watch;

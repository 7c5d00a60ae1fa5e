//! Carries out a plan: fresh endpoint processes for each trial, the timed window, the events.
//!
//! The only crate that holds both movers and meters. It stores nothing and prints nothing: what
//! happens goes out as [`event::Event`]s.

mod classes;
mod connection;
mod coordinator_stop;
mod counters_cost;
pub mod cpu_clock;
mod delivery_check;
pub mod descriptors;
pub mod edges;
pub mod endpoint;
mod endpoint_process;
pub mod event;
mod evidence_trials;
pub mod file_survey;
pub mod files;
pub mod flow;
mod flow_key;
mod flow_setup;
pub mod greeters;
mod groups;
pub mod isolation_survey;
#[cfg(test)]
#[path = "../../../tests/lack.rs"]
mod lack;
pub mod leftovers;
pub mod limits;
pub mod live;
pub mod load;
pub mod loopback_exchange;
pub mod marks;
pub mod meters;
mod neighbour_process;
mod netlink;
mod networks;
pub mod obstacles;
mod page_cache;
pub mod passes;
pub mod peer;
pub mod phase;
pub mod program;
pub mod protocol;
mod quotas;
pub mod requests;
pub mod server_survey;
mod side_by_side;
mod socket;
mod stall;
pub mod survey;
mod thread_binding;
pub mod transports;
pub mod trial;
mod trial_output;
pub mod unit_costs;
pub mod wakes;
mod watch;
mod whole_machine;
mod window;

pub use event::Event;
pub use trial::{Lab, TrialOutcome};
pub use watch::Watch;

//! Makes the trials of a plan: two fresh processes move bytes, and a timed window of them is measured.
//!
//! In the order of the data: a [`Lab`] with its [`settings::Settings`] makes blocks of trials. A trial
//! starts an endpoint for each side and gives it a [`protocol::Task`]. The endpoints connect over one of
//! the [`transports`], move bytes by a loop ([`edges::by_gate`]), and send back [`protocol::Done`]. Each
//! trial goes out as an [`Event`]. A [`Watch`] is the evidence that the observer of the host collects of
//! further trials, [`survey`] and its kin find out what works here, and [`peer`], [`live`] and [`load`]
//! use the same parts over a network.
//!
//! The only crate that holds both movers and meters. It never stores, analyses or prints, and nothing
//! comes back through an event. Start reading at `edges.rs`, then `trial.rs`, `endpoint.rs`, `lab.rs`.

mod background_process;
mod call_refusal;
mod classes;
mod connection;
mod coordinator_stop;
pub mod cpu_clock;
mod deadline;
mod delivery_check;
pub mod descriptors;
pub mod edges;
pub mod endpoint;
mod endpoint_process;
pub mod event;
mod evidence_meters;
mod file_part;
pub mod file_survey;
pub mod file_task;
pub mod files;
pub mod flow;
mod flow_acceptor;
pub mod flow_key;
mod flow_setup;
mod groups;
pub mod helpers;
pub mod host_questions;
mod host_window;
mod instruments;
pub mod isolation_survey;
mod lab;
#[cfg(test)]
#[path = "../../../tests/lack.rs"]
mod lack;
pub mod leftovers;
pub mod limits;
mod listen_queue;
pub mod live;
pub mod load;
mod local_host;
mod loopback_exchange;
pub mod marks;
pub mod meters;
mod netlink;
mod networks;
mod observers;
pub mod obstacles;
mod page_cache;
pub mod pass_loops;
pub mod passes;
mod path_meters;
pub mod peer;
mod peer_channel;
pub mod phase;
mod pinned_trial;
pub mod program;
pub mod protocol;
mod quotas;
pub mod requests;
mod role;
mod run_clock;
mod server_setup;
pub mod server_survey;
pub mod settings;
pub mod short_trials;
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
mod unit_costs;
pub mod wakes;
mod warmup;
mod watch;
mod window;
mod window_lengths;

#[doc(inline)]
pub use event::Event;
pub use lab::{EvidenceTrial, Lab, TrialOutcome};
pub use watch::Watch;

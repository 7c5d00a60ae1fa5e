//! The plan of a run: its cells, and their order in each block.
//!
//! In the order of the data flow: [`check_asked`] and [`refused`] reject axes and cells that make no
//! sense on a host; [`plan()`] turns a study, a host, a survey and a seed into a
//! [`Plan`](bytecost_spec::Plan): it normalises the study's cells, removes those that the host refuses,
//! pays for the others from the budget tier by tier, and orders each block by the seed. [`policy`] decides
//! after each block what comes next, [`evidence_left`] chooses the trials for evidence after the last one,
//! and [`Pins`] are the CPUs of a cell.
//!
//! The crate is pure: the same input always gives the same plan. It never measures, and never chooses a
//! cell by a result of the same run. Start with `plan.rs`.

mod asked;
mod budget;
mod candidates;
mod evidence_trials;
mod groups;
mod host_sides;
mod link;
mod order;
mod pins;
mod plan;
pub mod policy;
mod power;
mod refusal;
mod served;
mod surveyed_host;
#[cfg(test)]
mod tests;
mod twins;

pub use asked::{check_asked, named};
pub use candidates::congestion_substitute;
pub use evidence_trials::{PlannedEvidence, compared_cells, evidence_left};
pub use pins::{Pins, exact};
pub use plan::{order_blocks, plan};
pub use refusal::refused;
pub use surveyed_host::SurveyedHost;

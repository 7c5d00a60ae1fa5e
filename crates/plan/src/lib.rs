//! Study, host and survey to an ordered plan; pure.
//!
//! [`plan()`] spreads the study out into cells, takes away those that this host refuses, pays for the
//! rest from the budget tier by tier, and fixes the order of every block by a seed. The same study,
//! host, survey and seed always give the same plan; the manifest of a run holds it.

mod asked;
mod budget;
mod candidates;
mod groups;
mod link;
mod order;
mod pins;
mod plan;
pub mod policy;
mod power;
mod refusal;
mod seat;
mod served;
#[cfg(test)]
mod tests;
mod twins;

pub use asked::{check_asked, named};
pub use candidates::instead_of_default;
pub use pins::{Pins, exact};
pub use plan::{order_blocks, plan};
pub use refusal::refused;

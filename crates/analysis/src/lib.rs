//! From samples to findings and doubts: pure, so that any run can be judged again anywhere.
//!
//! [`analyse`] takes all that is known of a run as values and gives back an [`Analysis`], which
//! holds everything that a report says. [`progress`] is the same arithmetic while a run goes on.

pub mod result;

pub use result::*;

//! What the kernel really did while messages were moved: evidence for the reasons of a finding.
//!
//! It reads and counts; it moves no byte and judges nothing.

pub mod attribution;
pub mod symbols;
pub mod time;

pub use time::TimeSampler;

//! The tests of this crate in one program, a file a subject.

mod common;
mod doctor;
mod garbage;
mod machines;
mod pairs;
mod placement;

//! The tests of this crate in one program, a file a subject.

mod audit;
mod ceiling;
mod explain;
mod fixture;
mod footprint;
mod heat;
mod hosts;
mod layout;
mod layout_runs;
mod live;
mod overview;
mod pictures;
mod result;
mod samples;
mod schema;
mod service;
mod stack;
mod tables;

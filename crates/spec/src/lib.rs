//! The vocabulary of bytecost: what a study asks, what a cell is, what a trial reads.
//!
//! Values only. Nothing here opens a file, asks the clock or prints; the same input always gives
//! the same output.

#[macro_use]
mod rows;

pub mod axis;
pub mod cell;
pub mod circumstance;
pub mod claim;
pub mod cpulist;
pub mod evidence;
pub mod host;
pub mod live;
pub mod manifest;
pub mod metric;
pub mod peer;
pub mod profile;
pub mod published;
pub mod reading;
mod record;
mod refused;
pub mod round;
mod run_progress;
pub mod sample;
pub mod service;
pub mod study;
pub mod survey;
pub mod table;
pub mod units;
mod usual;

pub use axis::{Axis, Value};
pub use cell::{
    Access, Answer, Arrivals, Cache, Cell, Cgroup, Class, Connect, HugePages, Invalid, Nearness,
    Neighbour, Nodelay, Noise, Pattern, Payload, Placement, ReadSize, Reaping, Ring, Serving, Spot,
    Transport,
};
pub use circumstance::CircumstanceKind;
pub use claim::Claim;
pub use host::Host;
pub use manifest::{Manifest, Plan};
pub use metric::{Better, Measure, Metric, Side, Unit};
pub use peer::{NetworkCard, PeerHost, PeerSide};
pub use published::{Published, PublishedCell};
pub use reading::{Counter, Reading, Readings};
pub use record::Record;
pub use refused::{RefusedCell, RefusedCells, by_reason};
pub use round::{RoundComparison, RoundConditions, RoundSummary};
pub use run_progress::RunProgress;
pub use sample::{Failure, Held, PacketSocket, Sample, SideReadings, TrialKey};
pub use study::{Study, StudyError};
pub use survey::{LeftOut, Refusal, Route, Support, Survey};
pub use table::Table;

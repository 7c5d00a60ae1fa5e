//! The vocabulary of bytecost: the types that all other crates exchange and store.
//!
//! In the order of the data flow: a [`Study`] is a question with its axes; [`Axis`], [`Value`] and
//! [`Cell`] are what it varies; a [`Host`] and a [`Survey`] describe the machine and what works on it;
//! a [`Manifest`] is a study with its [`Plan`]; a [`Record`] is a line of the log, mostly a [`Sample`]
//! with the [`Reading`] of each [`Counter`]; a [`Metric`] is computed from samples. [`Claim`] and
//! [`Published`] are for comparisons with publications.
//!
//! Nothing here opens a file, reads a clock or prints: the same input always gives the same output.
//! Start with `src/axis/table.rs`, where a row defines an axis, and `studies/send-copies.toml` at the root of
//! the workspace, which names some of these axes; then read [`study`], [`manifest`] and [`sample`].

#[macro_use]
mod rows;

pub mod axis;
pub mod cell;
pub mod circumstance;
pub mod claim;
pub mod cpulist;
mod defaults;
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
mod toml_reader;
pub mod units;

#[doc(inline)]
pub use axis::{Axis, Value};
#[doc(inline)]
pub use cell::{
    Access, Answer, Arrivals, Cache, Cell, Cgroup, Class, CompetingLoad, Connect, HugePages,
    Invalid, LoadKind, LoadPosition, Nearness, Nodelay, Pattern, Payload, Placement, ReadSize,
    Reaping, Ring, Serving, Transport,
};
#[doc(inline)]
pub use circumstance::CircumstanceKind;
#[doc(inline)]
pub use claim::Claim;
#[doc(inline)]
pub use host::Host;
#[doc(inline)]
pub use manifest::{Manifest, Plan};
#[doc(inline)]
pub use metric::{Better, Measure, Metric, Side, Unit};
#[doc(inline)]
pub use peer::{CardSetting, NetworkCard, PeerHost, PeerSide};
#[doc(inline)]
pub use published::{Published, PublishedCell};
#[doc(inline)]
pub use reading::{Counter, Reading, Readings};
pub use record::Record;
pub use refused::{RefusedCell, RefusedCells, by_reason};
#[doc(inline)]
pub use round::{RoundComparison, RoundConditions, RoundSummary};
pub use run_progress::RunProgress;
#[doc(inline)]
pub use sample::{Failure, Held, PacketSocket, Sample, SideReadings, TrialKey};
#[doc(inline)]
pub use study::Study;
#[doc(inline)]
pub use survey::{LeftOut, Refusal, Route, Support, Survey};
#[doc(inline)]
pub use table::Table;
pub use toml_reader::TomlError;

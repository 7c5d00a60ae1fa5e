//! Ways to do the work: movers that send a message, receivers that take it in, servers that
//! answer many clients.
//!
//! Nothing here measures, reads a clock or prints. [`movers::MOVERS`], [`receivers::RECEIVERS`],
//! [`servers::SERVERS`] and [`services::SERVICES`] are the tables from which everything else
//! takes its names.

pub mod corked;
pub mod file;
pub mod java;
pub mod movers;
pub mod pattern;
pub mod payload;
pub mod ping;
pub mod quick_ack;
pub mod receivers;
pub mod servers;
pub mod services;
mod setup;
pub mod statement;
pub mod walk;
pub mod work;

pub use corked::Corked;
pub use movers::{FileWork, InFlight, MOVERS, Move, Mover, Offer, Route, Setup, Tally};
pub use pattern::{Checker, Pattern};
pub use quick_ack::QuickAck;
pub use receivers::{RECEIVERS, Receiver, Take};
pub use servers::{SERVERS, Server};
pub use services::{SERVICES, Service};
pub use walk::Walk;
pub use work::Work;

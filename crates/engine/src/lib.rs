//! Ways to do the work: movers that send a message, receivers that take it in, servers that
//! answer many clients.
//!
//! Nothing here measures, reads a clock or prints. [`movers::MOVERS`], [`receivers::RECEIVERS`],
//! [`servers::SERVERS`] and [`services::SERVICES`] are the tables from which everything else
//! takes its names.

mod corked;
pub mod file;
pub mod java;
mod mover;
pub mod movers;
pub mod pattern;
pub mod payload;
mod ping;
mod quick_ack;
mod receiver;
pub mod receivers;
mod server;
pub mod servers;
mod service;
pub mod services;
mod setup;
pub mod statement;
mod tally;
mod walk;
pub mod work;

pub use corked::Corked;
pub use mover::{Helper, InFlight, Move, MoveFile, Mover, Offer, Open, Route};
pub use movers::MOVERS;
pub use pattern::{Checker, PayloadPattern};
pub use quick_ack::QuickAck;
pub use receiver::{Receiver, Take};
pub use receivers::RECEIVERS;
pub use servers::{SERVERS, Server};
pub use services::{SERVICES, Service};
pub use setup::{FileWork, Setup};
pub use tally::Tally;
pub use walk::Walk;
pub use work::Work;

//! Movers that send a message, receivers that take it in, servers that answer many clients. Nothing
//! here measures, reads a clock or prints. [`movers::MOVERS`], [`receivers::RECEIVERS`],
//! [`servers::SERVERS`] and [`services::SERVICES`] are the tables of all names. Where nothing else
//! is said of errors, they are what the system call answers that is named.

mod corked;
pub mod file;
pub mod java;
#[cfg(test)]
#[path = "../../../tests/lack.rs"]
mod lack;
mod mover;
pub mod movers;
pub mod pattern;
pub mod payload;
mod ping;
mod quick_ack;
pub mod receivers;
pub mod servers;
pub mod services;
mod setup;
pub mod statement;
mod table;
mod tally;
mod walk;
pub mod work;

pub use corked::Corked;
pub use mover::{Helper, InFlight, Move, MoveFile, Mover, Offer, Open, Route};
pub use movers::MOVERS;
pub use pattern::{Checker, PayloadPattern};
pub use quick_ack::QuickAck;
pub use receivers::{RECEIVERS, Receiver, Take};
pub use servers::{SERVERS, Server};
pub use services::{SERVICES, Service};
pub use setup::{FileWork, Setup};
pub use tally::Tally;
pub use walk::Walk;
pub use work::Work;

//! The engines: ways to send and receive a message, to work on files and CPUs, and to serve many clients.
//!
//! In the order of the data flow: a [`Setup`] describes a flow; a [`Mover`] is a row of [`MOVERS`] that
//! opens a [`Move`], which sends messages and counts them in a [`Tally`]; a [`Receiver`] of [`RECEIVERS`]
//! opens a [`Take`], and a [`Checker`] compares the bytes with the [`PayloadPattern`]. A [`Server`] of
//! [`SERVERS`] runs a [`Service`] of [`SERVICES`]. A [`statement`] is a mover's claim about its calls.
//!
//! Nothing here measures, reads a meter or prints; lab calls it within the timed window, where it does not
//! allocate. Errors are those of the named system call unless a comment says otherwise. Start with
//! `movers.rs`, the table, and `movers/send.rs`, one of its rows.

mod block_order;
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
pub mod work;

pub use block_order::BlockOrder;
pub use corked::Corked;
pub use mover::{Helper, InFlight, Move, MoveFile, Mover, Offer, Open, Route};
#[doc(inline)]
pub use movers::MOVERS;
#[doc(inline)]
pub use pattern::{Checker, PayloadPattern, WrongBytes};
pub use quick_ack::QuickAck;
#[doc(inline)]
pub use receivers::{RECEIVERS, Receiver, Take};
#[doc(inline)]
pub use servers::{SERVERS, Server};
#[doc(inline)]
pub use services::{SERVICES, Service};
pub use setup::{FileWork, Setup};
pub use tally::Tally;
#[doc(inline)]
pub use work::Work;

//! What a cell asks of a server, where it has one: who serves what to how many.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cell, Invalid, count, name, on_or_off, one_of, switch};
use crate::axis::Axis;
use crate::units;

/// The most connections, and the most idle ones beside them.
pub const MAX_CONNECTIONS: u32 = 100_000;
/// The most requests per second of an open loop.
pub const MAX_RATE_PER_S: u64 = 100_000_000;
/// The longest time that a client thinks, in ns.
pub const MAX_THINK_NS: u64 = 1_000_000_000;
/// The word for no server at all.
pub const NO_SERVER: &str = "none";

/// How a client comes to its connection.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Connect {
    /// It has one and keeps it.
    Kept,
    /// It opens a new one for each request.
    New,
}

impl Connect {
    const ALL: &[Connect] = &[Connect::Kept, Connect::New];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Connect::Kept => "kept",
            Connect::New => "new",
        }
    }
}

/// A server and the load on it. Where there is no server, the rest means nothing.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Serving {
    /// A name of the engine's table of servers; none where bytes are moved by a mover.
    pub server: Option<String>,
    /// A name of the engine's table of services.
    pub service: String,
    /// Connections that ask.
    pub connections: u32,
    /// Connections beside them that are only there.
    pub idle: u32,
    /// Whether a connection is kept.
    pub connect: Connect,
    /// Requests per second of an open loop; none is a closed one: who has an answer asks again.
    pub rate_per_s: Option<u64>,
    /// Time between an answer and the next request of a closed loop, in ns.
    pub think_ns: u64,
    /// Whether perf events count what both sides do.
    pub perf: bool,
}

impl Default for Serving {
    fn default() -> Serving {
        Serving {
            server: None,
            service: "echo".to_owned(),
            connections: 1,
            idle: 0,
            connect: Connect::Kept,
            rate_per_s: None,
            think_ns: 0,
            perf: false,
        }
    }
}

impl Serving {
    /// The value of one of its axes, as text; none for an axis of another part of the cell.
    pub(super) fn value(&self, axis: Axis) -> Option<String> {
        Some(match axis {
            Axis::Server => self.server.clone().unwrap_or_else(|| NO_SERVER.to_owned()),
            Axis::Service => self.service.clone(),
            Axis::Connections => self.connections.to_string(),
            Axis::Idle => self.idle.to_string(),
            Axis::Connect => self.connect.name().to_owned(),
            Axis::Rate => self
                .rate_per_s
                .map_or_else(|| "closed".to_owned(), |n| n.to_string()),
            Axis::Think => match self.think_ns {
                0 => "0".to_owned(),
                ns => units::duration(Duration::from_nanos(ns)),
            },
            Axis::Perf => on_or_off(self.perf).to_owned(),
            _ => return None,
        })
    }

    /// Sets one of its axes from text.
    pub(super) fn set(&mut self, axis: Axis, text: &str) -> Result<(), Invalid> {
        match axis {
            Axis::Server => {
                self.server = match text {
                    NO_SERVER => None,
                    _ => Some(name(axis, text)?),
                }
            }
            Axis::Service => self.service = name(axis, text)?,
            Axis::Connections => self.connections = count(axis, text, MAX_CONNECTIONS)?,
            Axis::Idle => {
                self.idle = match text {
                    "0" => 0,
                    _ => count(axis, text, MAX_CONNECTIONS)?,
                }
            }
            Axis::Connect => self.connect = one_of(axis, text, Connect::ALL, |c| c.name())?,
            Axis::Rate => self.rate_per_s = rate(text)?,
            Axis::Think => self.think_ns = think_ns(text)?,
            Axis::Perf => self.perf = switch(axis, text)?,
            _ => {}
        }
        Ok(())
    }

    /// Connections of both kinds.
    #[must_use]
    pub fn all_connections(&self) -> u64 {
        u64::from(self.connections) + u64::from(self.idle)
    }
}

impl Cell {
    /// Whether a server is asked by many clients, instead of bytes moved by a mover.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.serving.server.is_some()
    }
}

fn rate(text: &str) -> Result<Option<u64>, Invalid> {
    if text == "closed" {
        return Ok(None);
    }
    match text.parse() {
        Ok(n) if (1..=MAX_RATE_PER_S).contains(&n) => Ok(Some(n)),
        _ => Err(Invalid(format!(
            "rate `{text}` is out of bounds: `closed`, or requests per second from 1 to {MAX_RATE_PER_S}"
        ))),
    }
}

fn think_ns(text: &str) -> Result<u64, Invalid> {
    if text == "0" {
        return Ok(0);
    }
    let time = units::parse_duration(text).map_err(|e| Invalid(format!("think: {e}")))?;
    u64::try_from(time.as_micros())
        .ok()
        .and_then(|us| us.checked_mul(1000))
        .filter(|ns| *ns <= MAX_THINK_NS)
        .ok_or_else(|| Invalid(format!("think `{text}` is out of bounds: from 0 to 1s")))
}

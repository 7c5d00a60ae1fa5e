//! The sides of a trial.

use serde::{Deserialize, Serialize};

/// The side that an endpoint plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It sends.
    Sender,
    /// It receives.
    Receiver,
    /// It keeps CPUs busy beside the trial.
    #[serde(rename = "neighbour")]
    Background,
    /// It serves.
    Server,
    /// It generates the load of the server.
    Client,
    /// It reads its host around the windows of trials, and has no side in them.
    Observer,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Sender => "sender",
            Role::Receiver => "receiver",
            Role::Background => "background load",
            Role::Server => "server",
            Role::Client => "load generator",
            Role::Observer => "observer",
        }
    }
}

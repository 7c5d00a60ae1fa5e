//! Processes of a trial on this host, by which others read its machine.

use std::path::PathBuf;

use bytecost_sys::proc_view;
use serde::{Deserialize, Serialize};

use crate::role::Role;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SideProcess {
    pub(crate) role: Role,
    pub(crate) pid: u32,
}

/// The side that the other one connects to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListeningSide {
    pub(crate) role: Role,
    pub(crate) address: String,
    /// The process of a server, which is a child of its endpoint's; none on the other host.
    pub(crate) server: Option<u32>,
}

/// The processes of a trial on this host, in the order of its sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrialProcesses {
    pub(crate) sides: Vec<SideProcess>,
    /// None for a side without another.
    pub(crate) listening: Option<ListeningSide>,
    /// The process of the background load, where there is one.
    pub(crate) background: Option<u32>,
}

impl TrialProcesses {
    /// The process of a role; none where that side plays on the other host, or there is no such side.
    pub(crate) fn pid(&self, role: Role) -> Option<u32> {
        let side = self.sides.iter().find(|side| side.role == role)?;
        Some(side.pid)
    }

    /// The first directories of its sides in /proc, proc(5); none for a process that has ended.
    pub(crate) fn directories(&self, count: usize) -> Vec<Option<PathBuf>> {
        let sides = self.sides.iter().take(count);
        sides.map(|side| proc_view::directory(side.pid)).collect()
    }
}

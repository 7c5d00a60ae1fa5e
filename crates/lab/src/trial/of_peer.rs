//! A lab with another host: that of the coordinator, which reaches it, and that of the agent there,
//! which plays what it is told.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_host::Roots;
use bytecost_plan::Pins;
use bytecost_spec::{Cell, Transport};

use super::Lab;
use crate::endpoint_process::{Endpoint, TrialError};
use crate::files::FileTask;
use crate::groups::ControlGroups;
use crate::peer::PeerLink;
use crate::protocol::{Role, Task};
use crate::whole_machine::WholeMachine;

impl Lab {
    /// With another host, where one side of each cell plays whose transport leads there.
    pub fn with_peer(mut self, peer: PeerLink) -> Lab {
        self.peer = Some(peer);
        self
    }

    /// Why the other host is lost for good, if it is. A block is then interrupted.
    pub fn lost_peer(&self) -> Option<&str> {
        self.peer_lost.as_deref()
    }

    /// The way to the other host, for a cell that goes by it.
    pub(super) fn link(&self, cell: &Cell) -> Option<&PeerLink> {
        (self.peer.as_ref()).filter(|_| cell.transport == Transport::Peer)
    }

    /// Why nobody can watch a cell from here, where that is so: evidence is of the sender.
    pub(crate) fn unwatched(&self, cell: &Cell) -> Option<String> {
        let link = self.link(cell)?;
        let is_there = cell.is_served() || link.plays(Role::Sender);
        is_there.then(|| "evidence is of this host, and the side that it is of plays on the other: run the study there, with this host as the peer".to_owned())
    }

    /// Makes sure that the other host is there for a cell that needs it: one that was lost in an
    /// earlier trial is sought again for a while.
    pub(super) fn reach_peer(&mut self, cell: &Cell, stop: &AtomicBool) -> Result<(), TrialError> {
        if cell.transport != Transport::Peer {
            return Ok(());
        }
        let Some(peer) = &mut self.peer else {
            return Err(TrialError::Failed(
                "no other host is known: name it with --peer".to_owned(),
            ));
        };
        let Some(down) = peer.why_down() else {
            return Ok(());
        };
        match peer.reopen(stop) {
            Ok(()) => Ok(()),
            Err(e) if e.is_interruption() => Err(TrialError::Interrupted),
            Err(e) => {
                let why = format!("{down}; and it could not be reached again: {e}");
                self.peer_lost = Some(why.clone());
                Err(TrialError::Failed(why))
            }
        }
    }

    /// Starts an endpoint here.
    pub(crate) fn endpoint(&mut self, role: Role) -> Result<Endpoint, TrialError> {
        Ok(self.ahead.take(&self.settings.program, role, None)?)
    }

    /// Starts the endpoint of the next trial ahead.
    pub(crate) fn start_one_ahead(&mut self) {
        self.ahead.wanted = 1;
        self.ahead.start(&self.settings.program);
    }

    /// What a side is to do here that a coordinator on another host has told: what depends on this
    /// host is filled in here. And its control groups, which are to outlive it.
    pub(crate) fn task_here(
        &mut self,
        told: Task,
        window: Duration,
    ) -> Result<(Task, Option<ControlGroups>), TrialError> {
        self.settings.window = window;
        self.settings.check = told.check;
        // The background load is the coordinator's.
        let cell = Cell {
            neighbour: Cell::default().neighbour,
            ..told.cell.clone()
        };
        let mover = Mover::named(&cell.mover);
        let pins = Pins::of(&cell, true, &self.host).map_err(TrialError::Failed)?;
        let group = ControlGroups::make(&Roots::real(), &cell.cgroup, &self.host.cpus_allowed)
            .map_err(TrialError::Failed)?;
        let own = match told.role {
            Role::Sender => Some(self.task(&cell, mover, &pins)?),
            _ => None,
        };
        let (file, java) = own.map_or((None, None), |own| (own.file, own.java));
        let task = Task {
            // A receiver opens no file, but knows by it what comes.
            file: file.or_else(|| told.file.as_ref().map(|f| FileTask::elsewhere(f.own))),
            java,
            pins: match told.role {
                Role::Sender | Role::Server => pins.sender.clone(),
                _ => pins.receiver.clone(),
            },
            doors: match cell.is_served() {
                true => Vec::new(),
                false => group.as_ref().map(ControlGroups::doors).unwrap_or_default(),
            },
            meters: self.means.meters(&cell, &pins, window),
            ..told
        };
        Ok((task, group))
    }

    /// What is read of this whole machine at the edges of a window.
    pub(crate) fn around<'m>(&'m mut self, group: Option<&'m ControlGroups>) -> WholeMachine<'m> {
        WholeMachine {
            meter: &mut self.machine,
            clocks: &mut self.clocks,
            frequency: &self.frequency,
            has_load: false,
            group,
        }
    }
}

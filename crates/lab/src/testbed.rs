//! The means of trials: this host, the networks on it, its meters, and the other host.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_engine::Mover;
use bytecost_meter::CoreToCoreMeter;
use bytecost_plan::Pins;
use bytecost_spec::{Cell, Transport};

use crate::background_process::BackgroundProcess;
use crate::endpoint_process::{StandbyEndpoints, TIMEOUT};
use crate::files::DISK_TIMEOUT;
use crate::flow_key::FlowKey;
use crate::instruments::Instruments;
use crate::local_host::LocalHost;
use crate::networks::Networks;
use crate::peer::PeerLink;
use crate::protocol::{ConnectionSetup, ContentCheck, Role, Task};
use crate::settings::Settings;
use crate::trial_error::TrialError;

/// State that trials share, one after the other.
pub(crate) struct Testbed {
    pub(crate) settings: Settings,
    pub(crate) instruments: Instruments,
    /// The meter between the two CPUs of the cell before, where its ends had two.
    pub(crate) core_to_core: Option<CoreToCoreMeter>,
    /// The process that keeps CPUs awake beside the cell before, where it had one.
    pub(crate) background: Option<BackgroundProcess>,
    pub(crate) networks: Networks,
    pub(crate) local: LocalHost,
    pub(crate) standby: StandbyEndpoints,
    pub(crate) peer: Option<Peer>,
}

/// The other host, where one side of each cell plays whose transport leads there.
pub(crate) struct Peer {
    link: PeerLink,
    /// The reason why it is lost for good, if it is.
    lost: Option<String>,
}

impl Peer {
    pub(crate) fn new(link: PeerLink) -> Peer {
        Peer { link, lost: None }
    }

    /// The reason why it is lost for good, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// The link to a peer, for a cell that goes by it.
    pub(crate) fn link<'p>(peer: Option<&'p Peer>, cell: &Cell) -> Option<&'p PeerLink> {
        peer.filter(|_| cell.transport == Transport::Peer)
            .map(|peer| &peer.link)
    }

    /// Checks the link, and opens a lost one again.
    fn reach(&mut self, stop: &AtomicBool) -> Result<(), TrialError> {
        let Some(down) = self.link.why_down() else {
            return Ok(());
        };
        match self.link.reopen(stop) {
            Ok(()) => Ok(()),
            Err(e) if e.is_interruption() => Err(TrialError::Interrupted),
            Err(e) => {
                let why = format!("{down}; and it could not be reached again: {e}");
                self.lost = Some(why.clone());
                Err(TrialError::failed(why))
            }
        }
    }
}

impl Testbed {
    pub(crate) fn new(settings: Settings) -> Testbed {
        Testbed {
            settings,
            instruments: Instruments::default(),
            core_to_core: None,
            background: None,
            networks: Networks::default(),
            local: LocalHost::default(),
            standby: StandbyEndpoints::default(),
            peer: None,
        }
    }

    /// Ends all processes and threads that run between trials.
    pub(crate) fn end_processes(&mut self) {
        self.standby = StandbyEndpoints::default();
        self.background = None;
        self.core_to_core = None;
    }

    /// Sets the cell of the next trial, so that its processes can be started before it.
    pub(crate) fn next_is(&mut self, next: Option<&Cell>) {
        self.standby.wanted = next.map_or(0, standby_processes);
    }

    /// The reason why a cell cannot be watched from here, if it cannot: evidence is of the sender.
    pub(crate) fn unwatched(&self, cell: &Cell) -> Option<String> {
        let link = Peer::link(self.peer.as_ref(), cell)?;
        let is_there = cell.is_served() || link.plays(Role::Sender);
        is_there.then(|| "evidence is of this host, and the side that it is of plays on the other: run the study there, with this host as the peer".to_owned())
    }

    /// The CPUs of both sides and the sender's task, with a meter between the CPUs of a cell's ends,
    /// where these are two and on this host.
    pub(crate) fn prepare(
        &mut self,
        cell: &Cell,
        mover: Option<&Mover>,
        has_peer: bool,
        stop: &AtomicBool,
    ) -> Result<(Pins, Task), TrialError> {
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
        if cell.transport == Transport::Peer {
            let unknown = || TrialError::failed("no other host is known: name it with --peer");
            self.peer.as_mut().ok_or_else(unknown)?.reach(stop)?;
        }
        let pins = Pins::new(cell, has_peer, &self.local.host).map_err(TrialError::failed)?;
        let meet_here = has_peer && cell.transport != Transport::Peer;
        let ends = meet_here.then(|| pins.of_both_ends(&self.local.host));
        let pair = ends.and_then(|cpus| cpus.try_into().ok());
        if pair != self.core_to_core.as_ref().map(|meter| meter.cpus) {
            self.core_to_core = pair.and_then(CoreToCoreMeter::between);
        }
        let task = self.task(cell, mover, &pins)?;
        Ok((pins, task))
    }

    /// The sender's task, but for its address.
    fn task(&mut self, cell: &Cell, mover: Option<&Mover>, pins: &Pins) -> io::Result<Task> {
        let is_of_files = mover.is_some_and(|m| m.route.is_of_files());
        let window = self.settings.window;
        let here =
            if Peer::link(self.peer.as_ref(), cell).is_none_or(|link| !link.plays(Role::Sender)) {
                self.local.sender(cell, mover, pins, window)?
            } else {
                self.local.without_sender(cell, mover, pins, window)
            };
        let timeout = here.file.as_ref().map_or(TIMEOUT, |_| DISK_TIMEOUT);
        Ok(Task {
            role: Role::Sender,
            cell: cell.clone(),
            connection: ConnectionSetup::None,
            keys: FlowKey::several(cell.threads)?,
            check: self.settings.check,
            // A full check uses all of the ring, however slow the machine is.
            min_messages: match self.settings.check {
                ContentCheck::Quick => 0,
                ContentCheck::Full if is_of_files => 3 * cell.file_slots(),
                ContentCheck::Full => 3 * cell.ring_slots(),
            },
            timeout_ms: timeout.as_millis() as u64,
            here,
        })
    }
}

/// The number of processes that a trial begins with and that are in no network of their own.
fn standby_processes(cell: &Cell) -> usize {
    let has_peer = cell.is_served() || Mover::named(&cell.mover).is_some_and(|m| m.has_peer());
    match (has_peer, cell.transport) {
        (false, _) => 1,
        (true, Transport::Loopback | Transport::Unix) => 2,
        (true, Transport::Peer) => 1,
        (true, _) => 0,
    }
}

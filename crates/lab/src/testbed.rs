//! The resources that trials use one after the other: this host, its networks and meters, and the peer.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_engine::Mover;
use bytecost_plan::Pins;
use bytecost_spec::sample::Block;
use bytecost_spec::{Cell, Transport};

use crate::background_process::BackgroundProcess;
use crate::endpoint_process::{StandbyEndpoints, TIMEOUT};
use crate::files::DISK_TIMEOUT;
use crate::flow_key::FlowKey;
use crate::local_host::LocalHost;
use crate::networks::Networks;
use crate::observers::Observers;
use crate::peer::PeerLink;
use crate::pinned_trial::PinnedTrial;
use crate::protocol::{
    ConnectionSetup, ContentCheck, HostAnswer, HostQuestion, LocalSettings, OthersUse, Role, Task,
};
use crate::settings::Settings;
use crate::trial_error::TrialError;
use crate::watch::Watch;

/// The resources that are kept from one trial to the next.
pub(crate) struct Testbed {
    pub(crate) settings: Settings,
    pub(crate) observers: Observers,
    /// The background process of the last cell; it is kept if its load keeps CPUs awake.
    pub(crate) background: Option<BackgroundProcess>,
    pub(crate) networks: Networks,
    pub(crate) local: LocalHost,
    pub(crate) standby: StandbyEndpoints,
    pub(crate) peer: Option<Peer>,
}

/// The other host, which runs one side of each cell with the transport `peer`.
pub(crate) struct Peer {
    link: PeerLink,
    /// The reason why the host is lost for the rest of the run, if it is.
    lost: Option<String>,
}

impl Peer {
    pub(crate) fn new(link: PeerLink) -> Peer {
        Peer { link, lost: None }
    }

    /// The reason why the host is lost for the rest of the run, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// The link to a peer; none for a cell whose transport does not use it.
    pub(crate) fn link<'p>(peer: Option<&'p Peer>, cell: &Cell) -> Option<&'p PeerLink> {
        peer.filter(|_| cell.transport == Transport::Peer)
            .map(|peer| &peer.link)
    }

    /// Checks the link, and opens it again if it is down.
    fn ensure_link(&mut self, stop: &AtomicBool) -> Result<(), TrialError> {
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
            observers: Observers::default(),
            background: None,
            networks: Networks::default(),
            local: LocalHost::default(),
            standby: StandbyEndpoints::default(),
            peer: None,
        }
    }

    /// Ends the processes that run between trials. Observers stay, which sleep.
    pub(crate) fn end_processes(&mut self) {
        self.standby = StandbyEndpoints::default();
        self.background = None;
    }

    /// The block with the CPU time of others on this host since the last call. Nothing is known of them
    /// where no observer can be asked, in which case trials fail too.
    pub(crate) fn with_others_use(&mut self, block: Block, stop: &AtomicBool) -> Block {
        let used = match self.ask_observer(HostQuestion::OthersUse, stop) {
            Ok(HostAnswer::OthersUse(used)) => used,
            _ => OthersUse::default(),
        };
        Block {
            others_ns: used.others_ns,
            others: used.others,
            kernel_threads_ns: used.kernel_threads_ns,
            ..block
        }
    }

    /// Asks the observer of this host.
    pub(crate) fn ask_observer(
        &mut self,
        question: HostQuestion,
        stop: &AtomicBool,
    ) -> Result<HostAnswer, TrialError> {
        let (program, host) = (&self.settings.program, &self.local.host);
        self.observers.ask(program, host, question, stop)
    }

    /// Opens the instruments of a watch at the observer of this host, unless they are open. An error has the
    /// reason why they cannot be.
    pub(crate) fn open_instruments(
        &mut self,
        watch: &Watch,
        stop: &AtomicBool,
    ) -> Result<(), TrialError> {
        let (program, host) = (&self.settings.program, &self.local.host);
        let wanted = watch.of_observer();
        self.observers.open_instruments(program, host, wanted, stop)
    }

    /// Sets the cell of the next trial, so that its processes can be started before it.
    pub(crate) fn next_is(&mut self, next: Option<&Cell>) {
        self.standby.wanted = next.map_or(0, standby_processes);
    }

    /// The reason why this host cannot collect evidence of a cell, if it cannot: evidence is of the
    /// sender's side, or of the server's.
    pub(crate) fn no_evidence_reason(&self, cell: &Cell) -> Option<String> {
        let link = Peer::link(self.peer.as_ref(), cell)?;
        let is_on_peer = cell.is_served() || link.sides.is_there(Role::Sender);
        is_on_peer.then(|| "evidence is of this host, and the side that it is of plays on the other: run the study there, with this host as the peer".to_owned())
    }

    /// Prepares a trial: the link to the peer, the CPUs of both sides, and the sender's task.
    pub(crate) fn prepare(
        &mut self,
        cell: &Cell,
        mover: Option<&Mover>,
        stop: &AtomicBool,
    ) -> Result<(Pins, Task), TrialError> {
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
        if cell.transport == Transport::Peer {
            let unknown = || TrialError::failed("no other host is known: name it with --peer");
            self.peer.as_mut().ok_or_else(unknown)?.ensure_link(stop)?;
        }
        let has_peer = cell.is_served() || mover.is_some_and(|m| m.has_peer());
        let pins = Pins::new(cell, has_peer, &self.local.host).map_err(TrialError::failed)?;
        let task = self.task(cell, mover, &pins)?;
        Ok((pins, task))
    }

    /// The sender's task without its connection, which is set later.
    fn task(&mut self, cell: &Cell, mover: Option<&Mover>, pins: &Pins) -> io::Result<Task> {
        let is_of_files = mover.is_some_and(|m| m.route.is_of_files());
        let trial = PinnedTrial {
            cell,
            pins,
            window: self.settings.window,
        };
        let here = if Peer::link(self.peer.as_ref(), cell)
            .is_none_or(|link| !link.sides.is_there(Role::Sender))
        {
            self.local.sender(trial, mover)?
        } else {
            self.local.without_sender(trial, mover)
        };
        let timeout = here.file.as_ref().map_or(TIMEOUT, |_| DISK_TIMEOUT);
        Ok(Task {
            role: Role::Sender,
            cell: cell.clone(),
            connection: ConnectionSetup::None,
            keys: FlowKey::several(cell.threads)?,
            check: self.settings.check,
            // A full check must use all slots of the ring, however slow the machine is.
            min_messages: match self.settings.check {
                ContentCheck::Quick => 0,
                ContentCheck::Full if is_of_files => 3 * cell.file_slots(),
                ContentCheck::Full => 3 * cell.ring_slots(),
            },
            timeout_ms: timeout.as_millis() as u64,
            here: LocalSettings {
                stays: self.settings.keeps_processes(cell),
                ..here
            },
        })
    }
}

/// The number of endpoint processes that can be started before a trial: those in the host's network.
fn standby_processes(cell: &Cell) -> usize {
    let has_peer = cell.is_served() || Mover::named(&cell.mover).is_some_and(|m| m.has_peer());
    match (has_peer, cell.transport) {
        (false, _) => 1,
        (true, Transport::Loopback | Transport::Unix) => 2,
        (true, Transport::Peer) => 1,
        (true, _) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use bytecost_spec::Axis;

    fn cell(values: &[(Axis, &str)]) -> Cell {
        Cell::default().with(values).unwrap()
    }

    fn bed(check: ContentCheck) -> Testbed {
        let program = Program::own().unwrap();
        Testbed::new(Settings::of_single_trials(program, check))
    }

    fn prepared(bed: &mut Testbed, cell: &Cell) -> Result<(Pins, Task), TrialError> {
        bed.prepare(cell, Mover::named(&cell.mover), &AtomicBool::new(false))
    }

    #[test]
    fn a_full_check_goes_round_the_ring_and_a_quick_one_as_far_as_the_window_lasts() {
        let ring = cell(&[
            (Axis::Size, "4KiB"),
            (Axis::Ring, "64KiB"),
            (Axis::Threads, "2"),
        ]);
        for (check, messages) in [(ContentCheck::Full, 48), (ContentCheck::Quick, 0)] {
            let (_, task) = prepared(&mut bed(check), &ring).unwrap();
            assert_eq!((task.check, task.min_messages), (check, messages));
            assert_ne!(task.keys[0], task.keys[1], "each flow has its own key");
        }
    }

    #[test]
    fn a_call_on_a_disk_may_take_longer_than_one_on_a_socket() {
        let mut bed = bed(ContentCheck::Quick);
        let mut timeout_ms = |mover| {
            let cell = cell(&[(Axis::Mover, mover), (Axis::Cache, "memory")]);
            prepared(&mut bed, &cell).unwrap().1.timeout_ms
        };
        assert!(timeout_ms("pread") > timeout_ms("send"));
    }

    #[test]
    fn nothing_is_prepared_once_the_run_is_to_end_or_without_what_the_cell_names() {
        let mut bed = bed(ContentCheck::Quick);
        let stopped = bed.prepare(&Cell::default(), None, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(TrialError::Interrupted)));
        bed.local.host.cpus_allowed = bytecost_sys::process::affinity().unwrap();
        for (axis, value, word) in [
            (Axis::Transport, "peer", "--peer"),
            (Axis::Placement, "999:0", "999"),
        ] {
            let failed = prepared(&mut bed, &cell(&[(axis, value)])).map(|_| ());
            let why = failed.unwrap_err().to_string();
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn processes_are_started_ahead_for_ends_in_the_network_of_the_host() {
        let mut bed = bed(ContentCheck::Quick);
        for (axis, value, processes) in [
            (Axis::Transport, "loopback", 2),
            (Axis::Transport, "unix", 2),
            (Axis::Transport, "veth", 0),
            (Axis::Transport, "wire", 0),
            (Axis::Transport, "peer", 1),
            (Axis::Mover, "null", 1),
            (Axis::Server, "epoll", 2),
        ] {
            bed.next_is(Some(&cell(&[(axis, value)])));
            assert_eq!(bed.standby.wanted, processes, "{value}");
        }
        bed.next_is(None);
        assert_eq!(bed.standby.wanted, 0);
    }
}

//! The addresses of data connections, as the agent knows them: those of its host, and those of the
//! coordinator's host that connectivity checks have found.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use bytecost_spec::NetworkCard;

use super::fits::{Addresses, fits};
use super::probe::{self, ListeningCandidates, Permitted};
use crate::peer_channel::{Candidate, FromAgent, lock};
use crate::protocol::Task;

/// The addresses at which endpoints listen, and to which they connect.
pub(super) struct KnownAddresses {
    own: Vec<IpAddr>,
    partners: Arc<Mutex<Vec<IpAddr>>>,
    /// Set when connectivity checks need no response any more.
    is_path_known: Arc<AtomicBool>,
}

impl KnownAddresses {
    /// Those of this host, until checks find others.
    pub(super) fn new() -> KnownAddresses {
        KnownAddresses {
            own: probe::addresses().unwrap_or_default(),
            partners: Arc::default(),
            is_path_known: Arc::default(),
        }
    }

    /// Listens for a check, at this address, else at every one; a thread responds and reports each
    /// connection. Returns the reply with the candidates.
    pub(super) fn listen(
        &self,
        at: Option<IpAddr>,
        outgoing: &mpsc::SyncSender<FromAgent>,
    ) -> io::Result<FromAgent> {
        let addresses = at.map_or_else(|| self.own.clone(), |at| vec![at]);
        let open = ListeningCandidates::open(&addresses)?;
        if open.candidates.is_empty() {
            let why =
                "there is no address there to listen at: name one of that host's with --address";
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
        }
        let candidates = open.candidates.clone();
        let (outgoing, over) = (outgoing.clone(), Arc::clone(&self.is_path_known));
        let partners = Arc::clone(&self.partners);
        thread::Builder::new().spawn(move || {
            open.respond(&over, |index, from| {
                lock(&partners).push(from);
                let candidate = index as u32;
                let _ = outgoing.send(FromAgent::Reached { candidate, from });
            });
        })?;
        Ok(FromAgent::Listening(candidates))
    }

    /// Has a thread try the addresses of the coordinator's host, and report the path.
    pub(super) fn reach(
        &self,
        candidates: Vec<Candidate>,
        outgoing: &mpsc::SyncSender<FromAgent>,
    ) -> io::Result<()> {
        let (outgoing, partners) = (outgoing.clone(), Arc::clone(&self.partners));
        thread::Builder::new().spawn(move || {
            // The coordinator's machine may be this one.
            let reply = match probe::reach(&candidates, Permitted::OnThisMachine) {
                Some((_, path)) => {
                    lock(&partners).push(path.to);
                    FromAgent::Found(path)
                }
                None => FromAgent::Refused("none of the addresses of the host that runs the study can be reached from there: name one with --address".to_owned()),
            };
            let _ = outgoing.send(reply);
        })?;
        Ok(())
    }

    /// The network cards of the address that the path goes by; checks are over.
    pub(super) fn cards(&self, at: IpAddr) -> Vec<NetworkCard> {
        self.is_path_known.store(true, Ordering::Relaxed);
        probe::cards(at)
    }

    /// Checks a task of the coordinator for a host with so much memory; an error has the reason.
    pub(super) fn check(
        &self,
        task: &Task,
        window: Duration,
        memory_bytes: u64,
    ) -> Result<(), String> {
        let addresses = Addresses {
            own: &self.own,
            partners: &lock(&self.partners),
        };
        fits(task, window, addresses, memory_bytes)
    }
}

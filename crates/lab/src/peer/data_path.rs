//! The path of the data between two hosts, as connectivity checks find it.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytecost_host::{Roots, boot_id};
use bytecost_spec::Host;

use super::channel::Channel;
use super::command::PeerError;
use super::probe::{self, ListeningCandidates, MOST_ADDRESSES, Permitted, TRIED_WITHIN};
use super::sides::DataPath;
use crate::limits;
use crate::peer_channel::{FoundPath, FromAgent, Reply, ToAgent};

/// The longest time for an answer about addresses.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Finds the path where the other host listens, at `address` if there is one.
pub(super) fn path_there(
    channel: &Channel,
    address: Option<IpAddr>,
    host: &Host,
    stop: &AtomicBool,
) -> Result<(DataPath, FoundPath), PeerError> {
    let replies = [(Reply::Listening, 1), (Reply::Reached, MOST_ADDRESSES)];
    channel.ask(ToAgent::Listen { at: address }, &replies);
    let candidates = channel.wait_for(ANSWERED_WITHIN, stop, FromAgent::try_as_listening)?;
    let permitted = match address {
        Some(at) => Permitted::One(at),
        None if is_this_machine(host) => Permitted::OnThisMachine,
        None => Permitted::Others,
    };
    let Some((index, found)) = probe::reach(&candidates, permitted) else {
        let first = candidates.iter().take(MOST_ADDRESSES);
        let tried: Vec<String> = first.map(|c| c.at.ip().to_string()).collect();
        return Err(PeerError::of_peer(
            channel.name(),
            format!(
                "none of its addresses can be reached from here ({}): name one with --address, let it connect to this host with --data-from here, or open its ports in the firewall",
                tried.join(", ")
            ),
        ));
    };
    let here_seen = channel.wait_for(TRIED_WITHIN, stop, |message| match message {
        FromAgent::Reached { candidate, from } if candidate as usize == index => Some(from),
        _ => None,
    })?;
    let path = DataPath {
        here: found.from,
        here_seen,
        there: found.to,
        there_seen: found.to,
    };
    Ok((path, found))
}

/// Finds the path where this host listens, at `address` if there is one.
pub(super) fn path_here(
    channel: &Channel,
    address: Option<IpAddr>,
    stop: &AtomicBool,
) -> Result<(DataPath, FoundPath), PeerError> {
    let failed = |e: io::Error| PeerError::of_peer(channel.name(), e);
    let addresses = match address {
        Some(at) => vec![at],
        None => probe::addresses().map_err(failed)?,
    };
    let open = ListeningCandidates::open(&addresses).map_err(failed)?;
    let candidates = open.candidates.clone();
    channel.ask(ToAgent::Reach { candidates }, &[(Reply::Found, 1)]);
    let over = AtomicBool::new(false);
    let (found, checks) = thread::scope(|scope| -> io::Result<_> {
        let listening = limits::start(scope, || {
            let mut checks = Vec::new();
            open.respond(&over, |index, from| checks.push((index, from)));
            checks
        })?;
        let found = channel.wait_for(ANSWERED_WITHIN, stop, FromAgent::try_as_found);
        over.store(true, Ordering::Relaxed);
        Ok((found, listening.join().unwrap_or_default()))
    })
    .map_err(failed)?;
    let found = found?;
    let mut listening = open.candidates.iter();
    let index = listening.position(|candidate| candidate.at.ip() == found.to);
    let from = checks.iter().find(|(at, _)| Some(*at) == index);
    let Some((_, there_seen)) = from else {
        let why = format!("it says that it reached {}, and nobody came", found.to);
        return Err(PeerError::of_peer(channel.name(), why));
    };
    let path = DataPath {
        here: found.to,
        here_seen: found.to,
        there: found.from,
        there_seen: *there_seen,
    };
    Ok((path, found))
}

/// Returns true if a host is this machine, as in another network namespace: the boot is the same.
fn is_this_machine(host: &Host) -> bool {
    let own = boot_id(&Roots::real());
    own.is_some() && own == host.identity.boot_id
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    use bytecost_spec::host::Identity;

    use crate::peer::channel::tests::PlayedAgent;
    use crate::peer_channel::Candidate;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    /// An address of the other host as a translator of addresses shows it, RFC 5737.
    const TRANSLATED: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    static NO_STOP: AtomicBool = AtomicBool::new(false);

    /// Looks for the path to an agent that listens at loopback, and sees the coordinator elsewhere.
    fn look_there(
        address: Option<IpAddr>,
        host: &Host,
    ) -> Result<(DataPath, FoundPath), PeerError> {
        let (channel, mut agent) = PlayedAgent::greeting();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let ToAgent::Listen { at } = agent.next() else {
                    panic!("it is asked to listen");
                };
                assert_eq!(at, address);
                let open = ListeningCandidates::open(&[LOOPBACK]).unwrap();
                agent.send(&FromAgent::Listening(open.candidates.clone()));
                open.respond(&over, |index, _| {
                    agent.send(&FromAgent::Reached {
                        candidate: index as u32,
                        from: TRANSLATED,
                    });
                });
            });
            let found = path_there(&channel, address, host, &NO_STOP);
            over.store(true, Ordering::Relaxed);
            found
        })
    }

    #[test]
    fn the_path_has_the_address_of_this_host_as_the_other_one_sees_it() {
        let this_machine = Host {
            identity: Identity {
                boot_id: boot_id(&Roots::real()),
                ..Identity::default()
            },
            ..Host::default()
        };
        for (address, host) in [(Some(LOOPBACK), Host::default()), (None, this_machine)] {
            let (path, found) = look_there(address, &host).unwrap();
            let expected = DataPath {
                here: LOOPBACK,
                here_seen: TRANSLATED,
                there: LOOPBACK,
                there_seen: LOOPBACK,
            };
            assert_eq!((path, found.to), (expected, LOOPBACK));
        }
    }

    #[test]
    fn another_host_has_this_one_connect_to_no_address_of_its_own_choice() {
        for address in [None, Some(TRANSLATED)] {
            let why = look_there(address, &Host::default()).unwrap_err();
            let why = why.to_string();
            assert!(
                why.contains("can be reached from here (127.0.0.1)"),
                "{why}"
            );
        }
    }

    /// Looks for the path where this host listens at loopback, and an agent does this with the
    /// candidates.
    fn look_here(
        reach: impl FnOnce(&[Candidate]) -> FromAgent + Send,
    ) -> Result<(DataPath, FoundPath), PeerError> {
        let (channel, mut agent) = PlayedAgent::greeting();
        thread::scope(|scope| {
            scope.spawn(|| {
                let ToAgent::Reach { candidates } = agent.next() else {
                    panic!("it is asked to connect");
                };
                agent.send(&reach(&candidates));
            });
            path_here(&channel, Some(LOOPBACK), &NO_STOP)
        })
    }

    #[test]
    fn a_path_to_this_host_is_one_that_the_other_has_come_by() {
        let (path, _) = look_here(|candidates| {
            let (_, found) = probe::reach(candidates, Permitted::OnThisMachine).unwrap();
            FromAgent::Found(FoundPath {
                from: TRANSLATED,
                ..found
            })
        })
        .unwrap();
        let expected = DataPath {
            here: LOOPBACK,
            here_seen: LOOPBACK,
            there: TRANSLATED,
            there_seen: LOOPBACK,
        };
        assert_eq!(path, expected);
        let why = look_here(|candidates| {
            FromAgent::Found(FoundPath {
                to: candidates[0].at.ip(),
                from: TRANSLATED,
                round_trip_us: 1,
                path_mtu: None,
            })
        });
        let why = why.unwrap_err().to_string();
        assert!(why.contains("nobody came"), "{why}");
    }
}

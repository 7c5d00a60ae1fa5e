//! The other host of a run on two, as the coordinator reaches it.

use std::io;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use bytecost_spec::host::Obstacle;
use bytecost_spec::{NetworkCard, PeerHost};

use super::channel::Channel;
use super::command::{PeerError, PeerOptions};
use super::data_path::{ANSWERED_WITHIN, path_here, path_there};
use super::joined_command::JoinedCommand;
use super::probe;
use super::sides::{DataPath, Sides};
use crate::endpoint_process::Endpoint;
use crate::peer_channel::{FromAgent, RemoteEndpoint, Reply, ToAgent};
use crate::program;
use crate::protocol::Role;

/// The longest time for the description of the other host, with its survey.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(180);
/// The time for which a lost link is opened again, and the time between two attempts.
const REOPENED_WITHIN: Duration = Duration::from_secs(10);
const REOPEN_INTERVAL: Duration = Duration::from_millis(500);

/// The other host, reached.
#[derive(Debug)]
pub struct PeerLink {
    options: PeerOptions,
    host: PeerHost,
    pub(crate) sides: Sides,
    /// The names of the network cards of this host that the path goes by.
    pub(crate) own_card_names: Vec<String>,
    joined: JoinedCommand,
}

impl PeerLink {
    /// Starts the command, and describes the other host and finds the path to it.
    pub fn open(options: &PeerOptions, stop: &AtomicBool) -> Result<PeerLink, PeerError> {
        let build = program::own_build().map_err(|e| PeerError::new(e.to_string()))?;
        let joined = JoinedCommand::join(options, &build, stop)?;
        let (host, path) = describe(&joined.channel, options, build, stop)?;
        let own_cards = probe::cards(path.here);
        Ok(PeerLink {
            options: options.clone(),
            host,
            sides: Sides {
                there: options.side,
                data_from_here: options.data_from_here,
                path,
            },
            own_card_names: own_cards.into_iter().map(|card| card.name).collect(),
            joined,
        })
    }

    /// The description of the other host, and the path to it.
    pub fn host(&self) -> &PeerHost {
        &self.host
    }

    /// The network cards of this host that the path goes by.
    pub fn own_cards(&self) -> Vec<NetworkCard> {
        probe::cards(self.sides.path.here)
    }

    /// The circumstances on the other host, as it has read them, with its name.
    pub(crate) fn circumstances(&self, there: Vec<Obstacle>) -> Vec<Obstacle> {
        let name = &self.host.name;
        let named = there.into_iter().map(|obstacle| Obstacle {
            place: format!("{} on {name}", obstacle.place),
            ..obstacle
        });
        named.collect()
    }

    /// The reason why the link is down; none while it is not.
    pub(crate) fn why_down(&self) -> Option<String> {
        self.joined.channel.why_down()
    }

    /// Opens it anew after it was lost: for some time, and to the same host and build alone.
    pub fn reopen(&mut self, stop: &AtomicBool) -> Result<(), PeerError> {
        let until = Instant::now() + REOPENED_WITHIN;
        let link = retry(until, || PeerLink::open(&self.options, stop))?;
        check_same(&self.host, &link.host, &self.options)?;
        // The description stays that of the run.
        let host = self.host.clone();
        *self = PeerLink { host, ..link };
        Ok(())
    }

    /// An endpoint there, for a window of that length, which starts with its first order.
    pub(crate) fn start(&self, role: Role, window: Duration) -> io::Result<Endpoint> {
        let (endpoint, answers) = RemoteEndpoint::new(&self.joined.channel.state, window)?;
        Endpoint::remote(role, endpoint, answers)
    }
}

/// Waits for the description of the other host, and finds the path of the data.
fn describe(
    channel: &Channel,
    options: &PeerOptions,
    build: String,
    stop: &AtomicBool,
) -> Result<(PeerHost, DataPath), PeerError> {
    let (host, survey) =
        *channel.wait_for(DESCRIBED_WITHIN, stop, FromAgent::try_as_description)?;
    let (path, found) = if options.data_from_here {
        path_here(channel, options.address, stop)?
    } else {
        path_there(channel, options.address, &host, stop)?
    };
    channel.ask(ToAgent::Cards { at: path.there }, &[(Reply::Cards, 1)]);
    let cards = channel.wait_for(ANSWERED_WITHIN, stop, FromAgent::try_as_cards)?;
    let peer_host = PeerHost {
        name: match options.command.host() {
            Some(named) => named.to_owned(),
            None => path.there.to_string(),
        },
        program: options.command.program_name().to_owned(),
        command_digest: options.command.digest(),
        address: path.there.to_string(),
        side: options.side,
        build,
        host,
        survey,
        cards,
        round_trip_us: found.round_trip_us,
        path_mtu: found.path_mtu,
    };
    Ok((peer_host, path))
}

/// Repeats an attempt that fails, until a time; one that is interrupted is the last.
fn retry<T>(
    until: Instant,
    mut attempt: impl FnMut() -> Result<T, PeerError>,
) -> Result<T, PeerError> {
    loop {
        match attempt() {
            Err(e) if !e.is_interruption() && Instant::now() < until => {
                thread::sleep(REOPEN_INTERVAL);
            }
            ended => return ended,
        }
    }
}

/// Checks that a command leads to the host of the run.
fn check_same(run: &PeerHost, now: &PeerHost, options: &PeerOptions) -> Result<(), PeerError> {
    if now.host.identity == run.host.identity {
        Ok(())
    } else {
        let name = options.command.to_string();
        Err(PeerError::of_peer(&name, "that is another host now"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    use bytecost_spec::host::Identity;
    use bytecost_spec::{Host, PeerSide, Survey};

    use crate::peer::PeerCommand;
    use crate::peer::channel::tests::PlayedAgent;
    use crate::peer::probe::Permitted;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn options() -> PeerOptions {
        PeerOptions {
            command: PeerCommand::parse("ip netns exec b", "bytecost").unwrap(),
            address: Some(LOOPBACK),
            data_from_here: true,
            copy_program: false,
            side: PeerSide::Receiver,
        }
    }

    fn host(boot_id: &str) -> Host {
        Host {
            identity: Identity {
                boot_id: Some(boot_id.to_owned()),
                ..Identity::default()
            },
            ..Host::default()
        }
    }

    /// The description by an agent that connects to this host, and says to have booted so.
    fn described(boot_id: &str) -> (PeerHost, DataPath) {
        let (channel, mut agent) = PlayedAgent::greeting();
        let played = move || {
            assert!(matches!(agent.next(), ToAgent::Hello { .. }));
            let description = Box::new((host(boot_id), Survey::default()));
            agent.send(&FromAgent::Description(description));
            let ToAgent::Reach { candidates } = agent.next() else {
                panic!("it is asked to connect");
            };
            let (_, found) = probe::reach(&candidates, Permitted::OnThisMachine).unwrap();
            agent.send(&FromAgent::Found(found));
            assert!(matches!(agent.next(), ToAgent::Cards { at: LOOPBACK }));
            agent.send(&FromAgent::Cards(Vec::new()));
        };
        channel.send_hello("build");
        thread::scope(|scope| {
            scope.spawn(played);
            let stop = AtomicBool::new(false);
            describe(&channel, &options(), "build".to_owned(), &stop).unwrap()
        })
    }

    #[test]
    fn the_other_host_is_described_with_the_path_to_it() {
        let (described, path) = described("1");
        assert_eq!(described.host, host("1"));
        assert_eq!((&*described.name, &*described.program), ("127.0.0.1", "ip"));
        assert_eq!((path.there, path.here), (LOOPBACK, LOOPBACK));
        assert!(options().command.has_digest(&described.command_digest));
    }

    #[test]
    fn a_link_is_opened_again_to_the_same_host_alone() {
        let [run, same, other] = ["1", "1", "2"].map(|boot_id| described(boot_id).0);
        check_same(&run, &same, &options()).unwrap();
        let why = check_same(&run, &other, &options()).unwrap_err();
        assert_eq!(why.to_string(), "peer ip: that is another host now");
    }

    #[test]
    fn a_lost_link_is_opened_again_until_it_is_or_its_time_or_the_run_is_over() {
        let later = Instant::now() + Duration::from_secs(600);
        let attempts = |until, outcomes: Vec<Result<u32, PeerError>>| {
            let mut outcomes = outcomes.into_iter();
            let ended = retry(until, || outcomes.next().unwrap());
            (ended.map_err(|e| e.to_string()), outcomes.len())
        };
        let lost = || Err(PeerError::new("lost"));
        assert_eq!(attempts(later, vec![lost(), Ok(7), lost()]), (Ok(7), 1));
        let late = attempts(Instant::now(), vec![lost(), lost()]);
        assert_eq!(late, (Err("lost".to_owned()), 1));
        let stopped = attempts(later, vec![Err(PeerError::interrupted()), lost()]);
        assert_eq!(stopped, (Err("interrupted".to_owned()), 1));
    }
}

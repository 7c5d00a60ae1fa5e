//! The sides of a trial on two hosts: where each plays, and by which addresses they meet.

use std::net::{IpAddr, SocketAddr};

use bytecost_spec::PeerSide;

use crate::protocol::{ConnectionSetup, Role};
use crate::trial_error::TrialError;

/// The addresses of both hosts, each also as the other one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataPath {
    /// This host's, and the one that the other host sees in its place.
    pub(super) here: IpAddr,
    pub(super) here_seen: IpAddr,
    /// The other host's, and the one that this host sees in its place.
    pub(super) there: IpAddr,
    pub(super) there_seen: IpAddr,
}

/// The side that plays on the other host, and the addresses of both hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    pub(super) there: PeerSide,
    /// True if this host listens for the connections of streams.
    pub(super) data_from_here: bool,
    pub(super) path: DataPath,
}

impl Sides {
    /// Returns true if a side plays on the other host.
    pub(crate) fn is_there(&self, role: Role) -> bool {
        let receives = matches!(role, Role::Receiver | Role::Server);
        receives == (self.there == PeerSide::Receiver)
    }

    /// The side of a stream that listens.
    pub(crate) fn listening(&self) -> Role {
        let is_receiver_there = self.there == PeerSide::Receiver;
        if is_receiver_there != self.data_from_here {
            Role::Receiver
        } else {
            Role::Sender
        }
    }

    /// The address of a side's host, and the address of the other one as that host sees it.
    fn addresses(&self, role: Role) -> (IpAddr, IpAddr) {
        if self.is_there(role) {
            (self.path.there, self.path.here_seen)
        } else {
            (self.path.here, self.path.there_seen)
        }
    }

    pub(crate) fn listen(&self, role: Role, port: Option<u16>) -> ConnectionSetup {
        let (at, from) = self.addresses(role);
        ConnectionSetup::Listen {
            at: Some(at),
            port,
            from: Some(from),
        }
    }

    /// The address at which a side reaches the other one, of whose own address the port alone is used.
    pub(crate) fn reach(&self, role: Role, address: &str) -> Result<String, TrialError> {
        let nowhere = |_| TrialError::failed("the side on the other host listens nowhere");
        let at: SocketAddr = address.parse().map_err(nowhere)?;
        let (_, to) = self.addresses(role);
        Ok(SocketAddr::new(to, at.port()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn sides(there: PeerSide, data_from_here: bool) -> Sides {
        Sides {
            there,
            data_from_here,
            path: DataPath {
                here: address(1),
                here_seen: address(2),
                there: address(3),
                there_seen: address(4),
            },
        }
    }

    #[test]
    fn the_host_that_listens_for_a_stream_is_the_one_that_the_user_names() {
        for there in [PeerSide::Receiver, PeerSide::Sender] {
            for data_from_here in [false, true] {
                let sides = sides(there, data_from_here);
                let is_there = sides.is_there(sides.listening());
                assert_eq!(is_there, !data_from_here, "{there:?} {data_from_here}");
            }
        }
    }

    #[test]
    fn each_side_has_the_address_of_its_host_and_reaches_the_other_where_its_host_sees_it() {
        let receives = sides(PeerSide::Receiver, false);
        for (role, is_there, at, from) in [
            (Role::Receiver, true, 3, 2),
            (Role::Server, true, 3, 2),
            (Role::Sender, false, 1, 4),
            (Role::Client, false, 1, 4),
        ] {
            assert_eq!(receives.is_there(role), is_there, "{role:?}");
            let expected = ConnectionSetup::Listen {
                at: Some(address(at)),
                port: Some(7),
                from: Some(address(from)),
            };
            assert_eq!(receives.listen(role, Some(7)), expected, "{role:?}");
            let reached = receives.reach(role, "10.0.0.1:9").unwrap();
            assert_eq!(reached, format!("192.0.2.{from}:9"), "{role:?}");
        }
        assert!(receives.reach(Role::Sender, "bytecost-1-0").is_err());
    }
}

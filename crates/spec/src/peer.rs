//! The other host of a run on two: what it is, how it is reached, and which side plays there.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::survey::{Refusal, Survey};

/// Which side of a trial plays on the other host. Where a server is asked, the server is the
/// receiving side, and its clients are the sending one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PeerSide {
    /// It receives, or serves, there.
    #[default]
    Receiver,
    /// It sends, or asks, there.
    Sender,
}

/// The other host of a run on two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerHost {
    /// What it is called: the host that ssh was given, else the address.
    pub name: String,
    /// The program that the user's command starts, without its directory: `ssh`, `ip`. Of its other
    /// words, which may hold secrets, only a digest is kept.
    pub program: String,
    /// A digest of the user's command, by which a run is resumed with the same one.
    pub command_digest: String,
    /// The address at which data connections are made.
    pub address: String,
    /// Which side plays there.
    pub side: PeerSide,
    /// Build of bytecost there: the GNU build id of the program.
    pub build: String,
    /// What machine it is.
    pub host: Host,
    /// What works on it.
    pub survey: Survey,
    /// Its network cards that the way goes over.
    pub cards: Vec<NetworkCard>,
    /// Round trip of the way at the start, in µs.
    pub round_trip_us: u64,
    /// The largest packet that the way takes, in bytes (IP_MTU); none where the kernel does not
    /// tell.
    pub path_mtu: Option<u64>,
}

impl PeerHost {
    /// The way to it by the card at our end: `eth0, 10 Gbit/s, MTU 1500, round trip 0.2 ms`.
    pub fn way(&self, own_cards: &[NetworkCard]) -> String {
        let card = own_cards.first().into_iter();
        let card = card.flat_map(|card| [Some(card.name.clone()), card.speed()]);
        let round_trip_ms = self.round_trip_us as f64 / 1e3;
        let rest = [
            self.path_mtu.map(|mtu| format!("MTU {mtu}")),
            Some(format!("round trip {round_trip_ms:.2} ms")),
        ];
        card.chain(rest).flatten().join(", ")
    }
}

impl NetworkCard {
    /// Its speed in words; that of a virtual device is made up, and none.
    pub fn speed(&self) -> Option<String> {
        let mbit = self.speed_mbit_per_s.filter(|_| !self.is_virtual)?;
        Some(match mbit {
            0..1000 => format!("{mbit} Mbit/s"),
            _ => format!("{} Gbit/s", mbit as f64 / 1e3),
        })
    }

    /// The offloads that are on here and off in another card, or the other way round, and so here.
    pub fn offloads_unlike<'c>(
        &'c self,
        other: &'c NetworkCard,
    ) -> impl Iterator<Item = (&'c str, bool)> {
        let own = self.offloads.iter();
        let unlike = own.filter(|(name, on)| other.offloads.get(*name).is_some_and(|o| o != *on));
        unlike.map(|(name, on)| (name.as_str(), *on))
    }

    /// Returns true if an interrupt lands on a CPU of another node of its host than the card's.
    pub fn interrupts_afar(&self, host: &Host) -> bool {
        let node_of = |cpu: &u32| host.cpus.iter().find(|c| c.cpu == *cpu)?.node;
        self.interrupts.iter().any(|interrupt| {
            let mut nodes = interrupt.cpus.iter().filter_map(node_of);
            interrupt
                .node
                .is_some_and(|own| nodes.any(|node| node != own))
        })
    }
}

/// A network device, as sysfs and ethtool(8) tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkCard {
    /// Its name: `eth0`.
    pub name: String,
    /// Its driver; none where none is told.
    pub driver: Option<String>,
    /// Its speed in Mbit/s; none where it has none, or no link.
    pub speed_mbit_per_s: Option<u64>,
    /// Whether no hardware of this machine carries it: veth, virtio_net, a bridge, a tunnel.
    pub is_virtual: bool,
    /// Its MTU in bytes.
    pub mtu: u64,
    /// Queues for what is received.
    pub rx_queues: u32,
    /// Queues for what is sent.
    pub tx_queues: u32,
    /// Sizes of its rings; none where it tells none.
    pub rings: Option<CardRings>,
    /// Its offloads, each on or off: tso, gso, gro, lro, tx-checksum, rx-checksum, sg,
    /// tx-nocache-copy.
    pub offloads: BTreeMap<String, bool>,
    /// How long it may wait before it interrupts for what was received, in µs (rx-usecs).
    pub coalesce_rx_us: Option<u64>,
    /// Whether it chooses that itself (adaptive-rx).
    pub coalesce_adaptive: Option<bool>,
    /// Its interrupts, and where they land.
    pub interrupts: Vec<CardInterrupt>,
    /// What could not be read, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Refusal>,
}

/// Entries of a network card's rings, as they are and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardRings {
    /// For what is received.
    pub rx: u32,
    /// For what is sent.
    pub tx: u32,
    /// The most for what is received.
    pub rx_most: u32,
    /// The most for what is sent.
    pub tx_most: u32,
}

/// An interrupt of a network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardInterrupt {
    /// Its number, as in /proc/interrupts.
    pub number: u32,
    /// The CPUs that it lands on (effective_affinity_list; where that is empty smp_affinity_list).
    pub cpus: Vec<u32>,
    /// Node of the card; none where the kernel tells none.
    pub node: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> PeerHost {
        PeerHost {
            name: "db7".to_owned(),
            program: "ssh".to_owned(),
            command_digest: String::new(),
            address: "10.0.0.7".to_owned(),
            side: PeerSide::Receiver,
            build: String::new(),
            host: Host::default(),
            survey: Survey::default(),
            cards: Vec::new(),
            round_trip_us: 210,
            path_mtu: Some(1500),
        }
    }

    #[test]
    fn the_speed_of_a_virtual_device_is_none() {
        let card = |is_virtual, speed| NetworkCard {
            name: "eth0".to_owned(),
            is_virtual,
            speed_mbit_per_s: speed,
            ..NetworkCard::default()
        };
        let rest = "MTU 1500, round trip 0.21 ms";
        for (card, expected) in [
            (card(false, Some(2500)), "eth0, 2.5 Gbit/s, "),
            (card(false, Some(100)), "eth0, 100 Mbit/s, "),
            (card(true, Some(10_000)), "eth0, "),
        ] {
            assert_eq!(peer().way(&[card]), format!("{expected}{rest}"));
        }
        assert_eq!(peer().way(&[]), rest);
    }
}

//! The other host of a run on two hosts: its description, its network cards, and the path to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::survey::{Refusal, Survey};

/// The side of each trial that runs on the other host. With a server, the server is the receiving
/// side and its clients are the sending one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PeerSide {
    /// The receiver, or the server.
    #[default]
    Receiver,
    /// The sender, or the clients.
    Sender,
}

/// The other host of a run, as it described itself at the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerHost {
    /// Its name: the host that ssh was given, else the address.
    pub name: String,
    /// The program that the user's command starts, without its directory: `ssh`, `ip`. The command's
    /// arguments, which may contain secrets, are not stored.
    pub program: String,
    /// A digest of the user's command, by which a resumed run verifies that it is the same.
    pub command_digest: String,
    /// The address for data connections.
    pub address: String,
    /// The side that runs there.
    pub side: PeerSide,
    /// Build of bytecost there: the GNU build id of the program.
    pub build: String,
    /// Description of the machine.
    pub host: Host,
    /// Features that work on it.
    pub survey: Survey,
    /// Its network cards on the path.
    pub cards: Vec<NetworkCard>,
    /// Round-trip time of the path at the start, in µs.
    pub round_trip_us: u64,
    /// The largest packet on the path, in bytes (IP_MTU); none where the kernel reports none.
    pub path_mtu: Option<u64>,
}

impl NetworkCard {
    /// Its speed in words; none for a virtual device, whose speed is nominal.
    pub fn speed(&self) -> Option<String> {
        let mbit = self.speed_mbit_per_s.filter(|_| !self.is_virtual)?;
        Some(match mbit {
            0..1000 => format!("{mbit} Mbit/s"),
            _ => format!("{} Gbit/s", mbit as f64 / 1e3),
        })
    }

    /// The offloads that differ from another card's, each with its state in this card.
    pub fn offloads_unlike<'c>(
        &'c self,
        other: &'c NetworkCard,
    ) -> impl Iterator<Item = (&'c str, bool)> {
        (self.offloads.iter())
            .filter(|(name, on)| other.offloads.get(*name).is_some_and(|o| o != *on))
            .map(|(name, on)| (name.as_str(), *on))
    }

    /// Returns true if an interrupt is handled by a CPU on another NUMA node than the card's.
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

/// A network device, as sysfs and ethtool(8) describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkCard {
    /// Its name: `eth0`.
    pub name: String,
    /// Its driver; none where none is reported.
    pub driver: Option<String>,
    /// Its speed in Mbit/s; none without a link, or where none is reported.
    pub speed_mbit_per_s: Option<u64>,
    /// True if no hardware of this machine carries its packets: veth, virtio_net, a bridge, a tunnel.
    pub is_virtual: bool,
    /// Its MTU in bytes.
    pub mtu: u64,
    /// Number of receive queues.
    pub rx_queues: u32,
    /// Number of transmit queues.
    pub tx_queues: u32,
    /// Sizes of its rings; none where none are reported.
    pub rings: Option<CardRings>,
    /// Its offloads, each on or off: tso, gso, gro, lro, tx-checksum, rx-checksum, sg,
    /// tx-nocache-copy.
    pub offloads: BTreeMap<String, bool>,
    /// The longest delay of a receive interrupt, in µs (rx-usecs).
    pub coalesce_rx_us: Option<u64>,
    /// True if the card adapts that delay itself (adaptive-rx).
    pub coalesce_adaptive: Option<bool>,
    /// Its interrupts, with the CPUs that handle them.
    pub interrupts: Vec<CardInterrupt>,
    /// Settings that could not be read, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Refusal<CardSetting>>,
}

words! {
    /// A setting of a network card that may not be available.
    pub enum CardSetting {
        /// Its queues, its speed and its interrupts.
        #[serde(rename = "queues, speed and interrupts")]
        #[strum(serialize = "queues, speed and interrupts")]
        Hardware,
        /// Its offloads.
        Offloads,
        /// Its rings.
        Rings,
        /// The delays of its interrupts.
        Coalescing,
    }
}

/// The numbers of entries of a network card's rings, current and maximal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardRings {
    /// Receive ring.
    pub rx: u32,
    /// Transmit ring.
    pub tx: u32,
    /// Largest receive ring.
    pub rx_most: u32,
    /// Largest transmit ring.
    pub tx_most: u32,
}

/// An interrupt of a network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardInterrupt {
    /// Its number, as in /proc/interrupts.
    pub number: u32,
    /// The CPUs that handle it (effective_affinity_list; smp_affinity_list where that is empty).
    pub cpus: Vec<u32>,
    /// NUMA node of the card; none where the kernel reports none.
    pub node: Option<u32>,
}

//! Network cards: what sysfs, /proc/irq and the device itself say of one.

use std::io;
use std::path::Path;

use bytecost_spec::cpulist;
use bytecost_spec::peer::{CardInterrupt, CardRings, NetworkCard};
use bytecost_spec::survey::Refusal;
use bytecost_sys::ethtool::DeviceFacts;

use crate::Roots;

/// By ethtool's short names, each on where one of these features of the kernel is.
const OFFLOADS: &[(&str, &[&str])] = &[
    ("tso", &["tx-tcp-segmentation"]),
    ("gso", &["tx-generic-segmentation"]),
    ("gro", &["rx-gro"]),
    ("lro", &["rx-lro"]),
    (
        "tx-checksum",
        &["tx-checksum-ip-generic", "tx-checksum-ipv4"],
    ),
    ("rx-checksum", &["rx-checksum"]),
    ("sg", &["tx-scatter-gather"]),
    ("tx-nocache-copy", &["tx-nocache-copy"]),
];

/// Drivers of devices that no hardware of this machine carries, though some have a device in sysfs.
const VIRTUAL: &[&str] = &[
    "802.1Q VLAN Support",
    "bonding",
    "bridge",
    "dummy",
    "hv_netvsc",
    "ipvlan",
    "macvlan",
    "openvswitch",
    "team",
    "tun",
    "veth",
    "vif",
    "virtio_net",
    "vmxnet3",
    "vxlan",
    "wireguard",
];

/// A network device of the calling thread's network.
pub fn read_card(name: &str) -> NetworkCard {
    card(&Roots::real(), name, DeviceFacts::read(name))
}

/// The same from its own facts and these files, unless those are of another network's device.
pub fn card(roots: &Roots, name: &str, facts: DeviceFacts) -> NetworkCard {
    let mut absent = Vec::new();
    let dir = format!("class/net/{name}");
    let mut roots = roots;
    let nowhere = Roots::under(Path::new("/dev/null"));
    if let Err(why) = own_files(roots, &dir, &facts) {
        absent.push(refusal("queues, speed and interrupts", why));
        roots = &nowhere;
    }
    let number = |path: &str| -> Option<u64> { roots.sys_as(&format!("{dir}/{path}")) };
    let of_file = || roots.sys_link_name(&format!("{dir}/device/driver"));
    let driver = facts.driver.ok().or_else(of_file);
    let names = roots.sys_names(&format!("{dir}/queues"));
    let queues = |kind: &str| names.iter().filter(|n| n.starts_with(kind)).count() as u32;
    let mut told = |what: &str, e: io::Error| absent.push(refusal(what, e.to_string()));
    let features = facts.features.map_err(|e| told("offloads", e));
    let rings = facts.rings.map_err(|e| told("rings", e)).ok();
    let coalesce = facts.coalesce_rx.map_err(|e| told("coalescing", e)).ok();
    NetworkCard {
        name: name.to_owned(),
        is_virtual: driver.as_deref().is_some_and(|d| VIRTUAL.contains(&d))
            || !roots.has_sys(&format!("{dir}/device")),
        driver,
        speed_mbit_per_s: number("speed").filter(|s| *s > 0),
        mtu: facts.mtu.ok().or_else(|| number("mtu")).unwrap_or(0),
        rx_queues: queues("rx-"),
        tx_queues: queues("tx-"),
        rings: rings.map(|[rx, tx, rx_most, tx_most]| CardRings {
            rx,
            tx,
            rx_most,
            tx_most,
        }),
        offloads: features.map(|f| offloads(&f)).unwrap_or_default(),
        coalesce_rx_us: coalesce.map(|(us, _)| us.into()),
        coalesce_adaptive: coalesce.map(|(_, adaptive)| adaptive),
        interrupts: interrupts(roots, &dir),
        absent,
    }
}

/// Whether sysfs shows this very device; else what it shows in its place.
fn own_files(roots: &Roots, dir: &str, facts: &DeviceFacts) -> Result<(), String> {
    let shown = roots.sys(&format!("{dir}/ifindex"))?;
    match &facts.index {
        Ok(index) if shown != index.to_string() => {
            Err("/sys shows the devices of another network namespace".to_owned())
        }
        _ => Ok(()),
    }
}

fn refusal(what: &str, why: String) -> Refusal {
    Refusal {
        what: what.to_owned(),
        why,
    }
}

fn offloads(features: &[(String, bool)]) -> std::collections::BTreeMap<String, bool> {
    let found = OFFLOADS.iter().filter_map(|(short, names)| {
        let mut own = features
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .peekable();
        own.peek()?;
        Some(((*short).to_owned(), own.any(|(_, on)| *on)))
    });
    found.collect()
}

/// The interrupts of a device, or of the device that carries it, as virtio's does.
fn interrupts(roots: &Roots, dir: &str) -> Vec<CardInterrupt> {
    let places = ["device/msi_irqs", "device/../msi_irqs"];
    let numbers = places
        .map(|place| roots.sys_names(&format!("{dir}/{place}")))
        .into_iter()
        .find(|names| !names.is_empty());
    let node = roots.sys_as(&format!("{dir}/device/numa_node"));
    let mut numbers: Vec<u32> = (numbers.unwrap_or_default().iter())
        .filter_map(|n| n.parse().ok())
        .collect();
    numbers.sort_unstable();
    let cpus = |number: u32| {
        ["effective_affinity_list", "smp_affinity_list"]
            .iter()
            .filter_map(|file| roots.proc(&format!("irq/{number}/{file}")).ok())
            .filter_map(|list| cpulist::parse(&list).ok())
            .find(|cpus| !cpus.is_empty())
    };
    let each = numbers.into_iter().map(|number| CardInterrupt {
        number,
        cpus: cpus(number).unwrap_or_default(),
        node,
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, put};

    fn facts(driver: &str) -> DeviceFacts {
        let feature = |name: &str, on| (name.to_owned(), on);
        DeviceFacts {
            index: Ok(7),
            mtu: Ok(9000),
            driver: Ok(driver.to_owned()),
            features: Ok(vec![
                feature("tx-tcp-segmentation", true),
                feature("tx-checksum-ipv4", false),
                feature("tx-checksum-ip-generic", true),
                feature("rx-lro", false),
                feature("highdma", true),
            ]),
            rings: Ok([512, 256, 4096, 4096]),
            coalesce_rx: Err(io::ErrorKind::Unsupported.into()),
        }
    }

    const FILES: &[(&str, &str)] = &[
        ("sys/class/net/eth0/ifindex", "7\n"),
        ("sys/class/net/eth0/speed", "25000\n"),
        ("sys/class/net/eth0/device/numa_node", "1\n"),
        ("sys/class/net/eth0/device/msi_irqs/41", "msix\n"),
        ("sys/class/net/eth0/device/msi_irqs/9", "msix\n"),
        ("proc/irq/41/effective_affinity_list", "\n"),
        ("proc/irq/41/smp_affinity_list", "2-3\n"),
        ("proc/irq/9/effective_affinity_list", "5\n"),
        ("sys/class/net/eth0/queues/rx-0/x", ""),
        ("sys/class/net/eth0/queues/rx-1/x", ""),
        ("sys/class/net/eth0/queues/tx-0/x", ""),
    ];

    #[test]
    fn a_card_of_hardware_is_read_whole() {
        let (_dir, roots) = machine(FILES);
        let card = card(&roots, "eth0", facts("mlx5_core"));
        assert!(!card.is_virtual);
        assert_eq!(card.speed_mbit_per_s, Some(25_000));
        assert_eq!((card.mtu, card.rx_queues, card.tx_queues), (9000, 2, 1));
        let offloads = [("lro", false), ("tso", true), ("tx-checksum", true)];
        let offloads = offloads.map(|(name, on)| (name.to_owned(), on));
        assert_eq!(card.offloads, offloads.into());
        let interrupt = |number, cpus| CardInterrupt {
            number,
            cpus,
            node: Some(1),
        };
        let interrupts = [interrupt(9, vec![5]), interrupt(41, vec![2, 3])];
        assert_eq!(card.interrupts, interrupts);
        assert_eq!(card.rings.unwrap().rx, 512);
        let absent: Vec<&str> = card.absent.iter().map(|r| r.what.as_str()).collect();
        assert_eq!(absent, ["coalescing"]);
    }

    #[test]
    fn what_no_hardware_carries_is_virtual() {
        let (dir, roots) = machine(FILES);
        assert!(card(&roots, "eth0", facts("virtio_net")).is_virtual);
        put(dir.path(), "sys/class/net/veth1/ifindex", "7");
        assert!(card(&roots, "veth1", facts("new_driver")).is_virtual);
    }

    #[test]
    fn files_of_another_network_are_not_the_devices() {
        let (dir, roots) = machine(FILES);
        put(dir.path(), "sys/class/net/eth0/ifindex", "3");
        let card = card(&roots, "eth0", facts("veth"));
        assert_eq!((card.speed_mbit_per_s, card.rx_queues), (None, 0));
        assert!(card.absent[0].why.contains("another network"), "{card:?}");
    }
}

//! Network cards, read from sysfs, /proc/irq and the device itself (ethtool).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bytecost_spec::cpulist;
use bytecost_spec::peer::{CardInterrupt, CardRings, CardSetting, NetworkCard};
use bytecost_spec::survey::Refusal;
use bytecost_sys::ethtool::DeviceFacts;

use crate::Roots;

/// Offloads by ethtool's short names, with the features of the kernel that each stands for: one of
/// them is enough.
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

/// Drivers of devices without hardware of their own, though some have a device in sysfs.
const VIRTUAL_DRIVERS: &[&str] = &[
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

/// A network device of the calling thread's network namespace.
pub fn read_card(name: &str) -> NetworkCard {
    card(&Roots::real(), name, DeviceFacts::read(name))
}

/// A network device by its own facts, and by these files unless they show the device of another
/// network namespace.
fn card(roots: &Roots, name: &str, facts: DeviceFacts) -> NetworkCard {
    let mut absent = Vec::new();
    let dir = format!("class/net/{name}");
    let no_files = Roots::under(Path::new("/dev/null"));
    let roots = match same_namespace(roots, &dir, &facts) {
        Ok(()) => roots,
        Err(why) => {
            absent.push(Refusal {
                subject: CardSetting::Hardware,
                why,
            });
            &no_files
        }
    };
    let number = |path: &str| -> Option<u64> { roots.sys_as(&format!("{dir}/{path}")) };
    let driver_link = || roots.sys_link_name(&format!("{dir}/device/driver"));
    let driver = facts.driver.ok().or_else(driver_link);
    let queue_names = roots.sys_names(&format!("{dir}/queues"));
    let queues = |kind: &str| queue_names.iter().filter(|n| n.starts_with(kind)).count() as u32;
    let mut record = |subject, e: io::Error| {
        absent.push(Refusal {
            subject,
            why: e.to_string(),
        });
    };
    let features = facts.features.map_err(|e| record(CardSetting::Offloads, e));
    let rings = facts.rings.map_err(|e| record(CardSetting::Rings, e)).ok();
    let coalesce = facts
        .coalesce_rx
        .map_err(|e| record(CardSetting::Coalescing, e))
        .ok();
    NetworkCard {
        name: name.to_owned(),
        is_virtual: driver
            .as_deref()
            .is_some_and(|d| VIRTUAL_DRIVERS.contains(&d))
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

/// Ok if sysfs shows this very device.
///
/// # Errors
/// That it has no such device, or shows those of another network namespace.
fn same_namespace(roots: &Roots, dir: &str, facts: &DeviceFacts) -> Result<(), String> {
    let shown = roots.sys(&format!("{dir}/ifindex"))?;
    match &facts.index {
        Ok(index) if shown != index.to_string() => {
            Err("/sys shows the devices of another network namespace".to_owned())
        }
        _ => Ok(()),
    }
}

/// The offloads of which the device has a feature, each with its state.
fn offloads(features: &[(String, bool)]) -> BTreeMap<String, bool> {
    let mut offloads = BTreeMap::new();
    for (short, names) in OFFLOADS {
        for (_, on) in features
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
        {
            *offloads.entry((*short).to_owned()).or_default() |= on;
        }
    }
    offloads
}

/// The interrupts of a device, or of its parent device, as of virtio.
fn interrupts(roots: &Roots, dir: &str) -> Vec<CardInterrupt> {
    let mut numbers: Vec<u32> = ["device/msi_irqs", "device/../msi_irqs"]
        .map(|path| roots.sys_names(&format!("{dir}/{path}")))
        .into_iter()
        .find(|names| !names.is_empty())
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    numbers.sort_unstable();
    let node = roots.sys_as(&format!("{dir}/device/numa_node"));
    let cpus = |number: u32| {
        ["effective_affinity_list", "smp_affinity_list"]
            .iter()
            .filter_map(|file| roots.proc(&format!("irq/{number}/{file}")).ok())
            .filter_map(|list| cpulist::parse(&list).ok())
            .find(|cpus| !cpus.is_empty())
    };
    (numbers.into_iter())
        .map(|number| CardInterrupt {
            number,
            cpus: cpus(number).unwrap_or_default(),
            node,
        })
        .collect()
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
    fn every_fact_of_a_hardware_card_is_read() {
        let (_dir, roots) = machine(FILES);
        let card = card(&roots, "eth0", facts("mlx5_core"));
        assert!(!card.is_virtual);
        assert_eq!(card.speed_mbit_per_s, Some(25_000));
        assert_eq!((card.mtu, card.rx_queues, card.tx_queues), (9000, 2, 1));
        let offloads = [("lro", false), ("tso", true), ("tx-checksum", true)]
            .map(|(name, on)| (name.to_owned(), on));
        assert_eq!(card.offloads, offloads.into());
        let interrupt = |number, cpus| CardInterrupt {
            number,
            cpus,
            node: Some(1),
        };
        let interrupts = [interrupt(9, vec![5]), interrupt(41, vec![2, 3])];
        assert_eq!(card.interrupts, interrupts);
        assert_eq!(card.rings.unwrap().rx, 512);
        let absent: Vec<CardSetting> = card.absent.iter().map(|r| r.subject).collect();
        assert_eq!(absent, [CardSetting::Coalescing]);
    }

    #[test]
    fn a_device_without_hardware_is_virtual() {
        let (dir, roots) = machine(FILES);
        assert!(card(&roots, "eth0", facts("virtio_net")).is_virtual);
        put(dir.path(), "sys/class/net/veth1/ifindex", "7");
        assert!(card(&roots, "veth1", facts("new_driver")).is_virtual);
    }

    #[test]
    fn files_of_another_network_namespace_are_not_used() {
        let (dir, roots) = machine(FILES);
        put(dir.path(), "sys/class/net/eth0/ifindex", "3");
        let card = card(&roots, "eth0", facts("veth"));
        assert_eq!((card.speed_mbit_per_s, card.rx_queues), (None, 0));
        assert!(card.absent[0].why.contains("another network"), "{card:?}");
    }
}

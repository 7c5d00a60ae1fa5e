//! Packet sockets of other programs, packet(7), that get a trial's packets, and the processes that hold
//! them. Also, the huge pages of a process.
//!
//! A packet socket of all protocols gets a clone of each packet that a device sends, for which the kernel
//! first copies the payload that zero-copy sends left in the user's pages. A socket of one protocol gets
//! received packets alone. Source: `/proc/net/packet` (net/packet/af_packet.c, packet_seq_show).

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytecost_spec::PacketSocket;
use bytecost_sys::proc_view;

use crate::proc_text;

/// The protocol number of all protocols (ETH_P_ALL).
const ALL_PROTOCOLS: u32 = 0x0003;
/// The longest list that is read.
const MOST_BYTES: u64 = 1 << 20;
/// The most descriptors that are read to find the holder of a socket.
const MOST_DESCRIPTORS: usize = 200_000;

/// The list of packet sockets of one network namespace. It stays readable after the process by which it
/// was opened has ended.
#[derive(Debug)]
pub struct PacketSockets {
    list: File,
    devices: Option<File>,
}

impl PacketSockets {
    /// Opens the list of a process's namespace, by its directory in `/proc`; `NotFound` if the kernel is
    /// built without packet sockets.
    pub fn open(process: &Path) -> io::Result<PacketSockets> {
        Ok(PacketSockets {
            list: File::open(process.join("net/packet"))?,
            devices: File::open(process.join("net/igmp")).ok(),
        })
    }

    /// The sockets that get every packet of all devices, or of a device for which `is_meant` is true,
    /// with their holders by `proc`, which is `/proc` except in tests.
    pub fn find(
        &self,
        proc: &Path,
        is_meant: impl Fn(&str) -> bool,
    ) -> io::Result<Vec<PacketSocket>> {
        let list = reread(&self.list)?;
        let devices = self.devices.as_ref().and_then(|file| reread(file).ok());
        let mut found = Vec::new();
        for (index, inode) in list.lines().skip(1).filter_map(device_and_inode) {
            let device = match index {
                0 => None,
                index => Some(device_name(devices.as_deref().unwrap_or(""), index)),
            };
            if device.as_deref().is_none_or(&is_meant) {
                found.push((device, inode));
            }
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let inodes: Vec<u64> = found.iter().map(|(_, inode)| *inode).collect();
        let holders = holders(proc, &inodes);
        let sockets = found.into_iter().map(|(device, inode)| {
            let holder = holders.iter().find(|(held, _)| *held == inode);
            PacketSocket {
                device,
                holder: holder.map(|(_, name)| name.clone()),
            }
        });
        Ok(sockets.collect())
    }
}

/// The device and the inode of a running socket of all protocols; device 0 are all devices.
fn device_and_inode(line: &str) -> Option<(u32, u64)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, _, _, protocol, device, running, _, _, inode] = words[..] else {
        return None;
    };
    let gets_all = u32::from_str_radix(protocol, 16).ok()? == ALL_PROTOCOLS && running == "1";
    gets_all.then_some((device.parse().ok()?, inode.parse().ok()?))
}

/// The name of a device by its index: `/proc/net/igmp` lists the devices that have an address.
fn device_name(devices: &str, index: u32) -> String {
    let name = devices.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_device =
            !line.starts_with(char::is_whitespace) && words.next()?.parse() == Ok(index);
        is_device.then(|| words.next().map(|w| w.trim_end_matches(':').to_owned()))?
    });
    name.unwrap_or_else(|| format!("device {index}"))
}

/// The inodes that a process has open, each with the name and the id of the first such process.
fn holders(proc: &Path, inodes: &[u64]) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut left = MOST_DESCRIPTORS;
    if !proc_view::is_ours(proc) {
        return found;
    }
    let Ok(entries) = fs::read_dir(proc) else {
        return found;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(entry.path().join("fd")) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            let Some(rest) = left.checked_sub(1) else {
                return found;
            };
            left = rest;
            let Some(inode) = fs::read_link(descriptor.path()).ok().and_then(socket) else {
                continue;
            };
            if inodes.contains(&inode) && found.iter().all(|(held, _)| *held != inode) {
                let command = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                found.push((inode, format!("{} (pid {pid})", command.trim())));
            }
        }
    }
    found
}

fn socket(link: std::path::PathBuf) -> Option<u64> {
    let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

/// The bytes of a process, by its directory in `/proc`, that are in huge pages.
pub fn huge_memory(process: &Path) -> Option<u64> {
    let rollup = fs::read(process.join("smaps_rollup")).ok()?;
    let bytes = |key: &str| proc_text::bytes(&rollup, key);
    let reserved = ["Private_Hugetlb", "Shared_Hugetlb"].map(bytes);
    Some(bytes("AnonHugePages")? + reserved.into_iter().flatten().sum::<u64>())
}

fn reread(mut file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::tree;
    use std::os::unix::fs::symlink;

    const LIST: &str = "\
sk               RefCnt Type Proto  Iface R Rmem   User   Inode
0000000000000000 3      3    0003   7     1 0      0      4711
0000000000000000 3      3    0800   7     1 0      0      4712
0000000000000000 3      3    0003   0     1 0      0      4713
0000000000000000 3      3    0003   1     1 0      0      4714
0000000000000000 3      3    0003   9     0 0      0      4715
cut off
";
    const DEVICES: &str = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter
1\tlo        :     1      V3
\t\t\t\t010000E0     1 0:00000000\t\t0
7\tbytecost-wire:     1      V3
\t\t\t\t010000E0     1 0:00000000\t\t0
";

    fn machine() -> tempfile::TempDir {
        let root = tree(&[
            ("40/net/packet", LIST),
            ("40/net/igmp", DEVICES),
            ("812/comm", "tcpdump\n"),
            ("812/fd/1", ""),
            ("self/fd/1", ""),
        ]);
        symlink("socket:[4711]", root.path().join("812/fd/3")).unwrap();
        symlink("pipe:[4713]", root.path().join("812/fd/4")).unwrap();
        root
    }

    fn found(is_meant: impl Fn(&str) -> bool) -> Vec<(Option<String>, Option<String>)> {
        let root = machine();
        let sockets = PacketSockets::open(&root.path().join("40")).unwrap();
        let found = sockets.find(root.path(), is_meant).unwrap();
        found.into_iter().map(|s| (s.device, s.holder)).collect()
    }

    #[test]
    fn sockets_that_get_every_packet_of_a_device_are_found_with_their_holders() {
        let some = |text: &str| Some(text.to_owned());
        let of_wire = (some("bytecost-wire"), some("tcpdump (pid 812)"));
        assert_eq!(found(|device| device != "lo"), [of_wire, (None, None)]);
        let of_loopback = (some("lo"), None);
        assert_eq!(found(|device| device == "lo"), [(None, None), of_loopback]);
    }

    #[test]
    fn without_packet_sockets_the_list_is_not_found() {
        let root = tempfile::tempdir().unwrap();
        let missing = PacketSockets::open(&root.path().join("40"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn huge_pages_of_either_kind_are_counted() {
        let check = |text: &str, expected| {
            let root = tree(&[("smaps_rollup", text)]);
            assert_eq!(huge_memory(root.path()), expected, "{text}");
        };
        check(
            "00400000-7fff00000000 ---p 00000000 00:00 0 [rollup]\nRss: 9000 kB\nAnonHugePages:      4096 kB\nShared_Hugetlb:        0 kB\nPrivate_Hugetlb:    2048 kB\n",
            Some(6144 * 1024),
        );
        check("AnonHugePages:         0 kB\n", Some(0));
        check("Rss: 9000 kB\n", None);
    }
}

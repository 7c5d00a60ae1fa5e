//! The bounds of socket buffers that a kernel sets, and those that stand below them.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;

use crate::machine;
use crate::roots::Roots;

/// Least, usual and largest bytes of a buffer of TCP as a kernel sets them (`net/ipv4/tcp.c`,
/// tcp_init); the usual receive buffer is that of kernels before 4.20.
const OF_TCP: [(&str, [u64; 3]); 2] = [
    ("tcp_wmem", [4096, 16_384, 4 << 20]),
    ("tcp_rmem", [4096, 87_380, 6 << 20]),
];
/// Bounds of buffers of all sockets, and the least that a kernel sets (`include/net/sock.h`,
/// SK_WMEM_MAX where pointers have 32 bits).
const OF_SOCKETS: [&str; 4] = ["wmem_max", "rmem_max", "wmem_default", "rmem_default"];
const OF_SOCKETS_BYTES: u64 = 160 << 10;
/// The part of memory below which a kernel bounds a buffer of TCP; it takes one of 128 of what is
/// free at its start.
const PART_OF_MEMORY: u64 = 256;

/// The bounds below the usual ones, in the network of the calling thread.
pub fn read(roots: &Roots) -> Vec<Obstacle> {
    let most = match machine::memory(roots, "MemTotal") {
        Some(bytes) => bytes / PART_OF_MEMORY,
        None => u64::MAX,
    };
    let numbers = |path: &str| -> Option<Vec<u64>> {
        let text = roots.proc(path).ok()?;
        text.split_whitespace().map(|n| n.parse().ok()).collect()
    };
    let of_tcp = OF_TCP.iter().filter_map(|(name, usual)| {
        let found = numbers(&format!("sys/net/ipv4/{name}"))?;
        let [_, default, largest] = *found else {
            return None;
        };
        let is_below = default < usual[1] || largest < usual[2].min(most);
        let words = |numbers: &[u64]| {
            numbers
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        is_below.then(|| format!("{name} {} (usually {})", words(&found), words(usual)))
    });
    let of_sockets = OF_SOCKETS.iter().filter_map(|name| {
        let bytes = roots.proc_number(&format!("sys/net/core/{name}"))?;
        let is_below = bytes < OF_SOCKETS_BYTES;
        is_below.then(|| format!("net.core.{name} {bytes} (usually 212992)"))
    });
    let found = of_tcp.chain(of_sockets);
    let obstacle = |found| Obstacle {
        kind: CircumstanceKind::SocketMemory,
        place: "sysctl".to_owned(),
        found,
        limits: false,
    };
    found.map(obstacle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, put};

    #[test]
    fn bounds_below_the_usual_ones_are_found_and_others_are_not() {
        let (_dir, roots) = machine(&[]);
        let words = || -> Vec<String> { read(&roots).into_iter().map(|o| o.found).collect() };
        assert_eq!(words(), [""; 0], "what is not there is not small");
        let put = |path: &str, text: &str| put(&roots.proc, path, text);
        put("meminfo", "MemTotal: 8000000 kB\n");
        put("sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
        put("sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n");
        put("sys/net/core/rmem_max", "212992\n");
        put("sys/net/core/wmem_default", "4194304\n");
        assert_eq!(words(), [""; 0]);
        put("sys/net/ipv4/tcp_wmem", "4096\t16384\t16384\n");
        put("sys/net/ipv4/tcp_rmem", "4096\t4096\t33554432\n");
        put("sys/net/core/rmem_max", "4096\n");
        let expected = [
            "tcp_wmem 4096 16384 16384 (usually 4096 16384 4194304)",
            "tcp_rmem 4096 4096 33554432 (usually 4096 87380 6291456)",
            "net.core.rmem_max 4096 (usually 212992)",
        ];
        assert_eq!(words(), expected);
        // A kernel bounds them by its memory.
        put("meminfo", "MemTotal: 262144 kB\n");
        put("sys/net/ipv4/tcp_wmem", "4096\t16384\t2097152\n");
        assert_eq!(words().len(), 2);
    }
}

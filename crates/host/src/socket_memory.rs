//! Bounds of socket buffers (tcp(7), socket(7)) that were set below the kernel's defaults.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;

use crate::machine;
use crate::roots::Roots;

/// Minimum, default and maximum bytes of a TCP buffer as the kernel sets them (`net/ipv4/tcp.c`,
/// tcp_init); the default receive buffer is that of kernels before 4.20.
const TCP_BOUNDS: [(&str, [u64; 3]); 2] = [
    ("tcp_wmem", [4096, 16_384, 4 << 20]),
    ("tcp_rmem", [4096, 87_380, 6 << 20]),
];
/// Bounds of the buffers of all sockets.
const SOCKET_BOUNDS: [&str; 4] = ["wmem_max", "rmem_max", "wmem_default", "rmem_default"];
/// The smallest default of these among kernels (`include/net/sock.h`, SK_WMEM_MAX where pointers have
/// 32 bits).
const SOCKET_BOUND_BYTES: u64 = 160 << 10;
/// A kernel bounds a TCP buffer by the 128th part of the memory that is free at its start; a maximum
/// below this part of all memory was set by somebody.
const PART_OF_MEMORY: u64 = 256;

/// The bounds below the kernel's defaults, in the network namespace of the calling thread.
pub fn read(roots: &Roots) -> Vec<Obstacle> {
    let memory_bound = match machine::memory(roots, "MemTotal") {
        Some(bytes) => bytes / PART_OF_MEMORY,
        None => u64::MAX,
    };
    let numbers = |path: &str| -> Option<Vec<u64>> {
        let text = roots.proc(path).ok()?;
        text.split_whitespace().map(|n| n.parse().ok()).collect()
    };
    let of_tcp = TCP_BOUNDS.iter().filter_map(|(name, usual)| {
        let found = numbers(&format!("sys/net/ipv4/{name}"))?;
        let [_, default, largest] = *found else {
            return None;
        };
        let is_below = default < usual[1] || largest < usual[2].min(memory_bound);
        let words = |bounds: &[u64]| {
            bounds
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        is_below.then(|| format!("{name} {} (usually {})", words(&found), words(usual)))
    });
    let of_sockets = SOCKET_BOUNDS.iter().filter_map(|name| {
        let bytes = roots.proc_number(&format!("sys/net/core/{name}"))?;
        let is_below = bytes < SOCKET_BOUND_BYTES;
        is_below.then(|| format!("net.core.{name} {bytes} (usually 212992)"))
    });
    (of_tcp.chain(of_sockets))
        .map(|found| Obstacle {
            kind: CircumstanceKind::SocketMemory,
            place: "sysctl".to_owned(),
            found,
            limits: false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, put};

    #[test]
    fn bounds_below_the_defaults_are_found_and_others_are_not() {
        let (_dir, roots) = machine(&[]);
        let words = || -> Vec<String> { read(&roots).into_iter().map(|o| o.found).collect() };
        assert_eq!(words(), [""; 0], "a bound without a file is not small");
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

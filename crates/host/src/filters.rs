//! Packet filters and connection tracking, from `/proc`. It shows the tables of iptables alone: the
//! rules of nftables are read by netlink elsewhere.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;

use crate::roots::Roots;

/// The names of iptables' tables; root alone may read it.
const TABLES: &str = "thread-self/net/ip_tables_names";
/// The number of connections that the kernel tracks.
const TRACKED: &str = "sys/net/netfilter/nf_conntrack_count";

/// The filters and the tracking that packets pass, and the reasons why parts are not known.
pub fn read(roots: &Roots) -> (Vec<Obstacle>, Vec<String>) {
    let filter = |kind, found: String| Obstacle {
        kind,
        place: "netfilter".to_owned(),
        found,
        limits: false,
    };
    let mut unseen = Vec::new();
    let listed = roots.proc_if_there(TABLES).unwrap_or_else(|why| {
        unseen.push(format!("{why}: call it as root (`sudo bytecost …`)"));
        None
    });
    let names = listed.unwrap_or_default();
    let tables = names.split_whitespace().collect::<Vec<_>>().join(", ");
    // A file that is not there means that the kernel tracks none.
    let tracked = roots.proc_number(TRACKED).is_some_and(|n| n > 0);
    let found = [
        (!tables.is_empty()).then(|| {
            let found = format!("iptables with the tables {tables}");
            filter(CircumstanceKind::Filter, found)
        }),
        tracked.then(|| {
            let found = "connections are tracked".to_owned();
            filter(CircumstanceKind::Tracking, found)
        }),
    ];
    (found.into_iter().flatten().collect(), unseen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, put};
    use std::fs;

    #[test]
    fn tables_and_tracking_are_found_and_missing_files_mean_none() {
        let (_dir, roots) = machine(&[]);
        assert_eq!(read(&roots), (Vec::new(), Vec::new()));
        let put = |path: &str, text: &str| put(&roots.proc, path, text);
        put(TABLES, "");
        put(TRACKED, "0\n");
        assert_eq!(read(&roots), (Vec::new(), Vec::new()));
        put(TABLES, "nat\nfilter\n");
        put(TRACKED, "7\n");
        let (found, unseen) = read(&roots);
        let texts: Vec<&str> = found.iter().map(|o| o.found.as_str()).collect();
        let both = [
            "iptables with the tables nat, filter",
            "connections are tracked",
        ];
        assert_eq!((texts.as_slice(), unseen.len()), (&both[..], 0));
        assert!(found.iter().all(|o| !o.limits && o.place == "netfilter"));
        // A file that may not be read does not mean that there are none. A directory takes its
        // place here, since root may read all files.
        fs::remove_file(roots.proc.join(TABLES)).unwrap();
        fs::create_dir(roots.proc.join(TABLES)).unwrap();
        let (readable, unreadable) = read(&roots);
        assert_eq!((readable.len(), unreadable.len()), (1, 1));
        assert!(unreadable[0].contains("ip_tables_names") && unreadable[0].contains("sudo"));
    }
}

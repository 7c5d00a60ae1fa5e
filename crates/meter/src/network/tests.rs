use super::*;
use crate::tests::{put, tree};
use std::fs;
use tempfile::TempDir;

const NETSTAT: &str = "TcpExt: SyncookiesSent DelayedACKs DelayedACKLocked DelayedACKLost TCPAutoCorking ListenDrops TCPSynRetrans\n\
    TcpExt: 0 5 1 2 7 4 8\nIpExt: InNoRoutes DelayedACKs\nIpExt: 1 99\n";
const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\n\
    Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs InErrs\nTcp: 1 -1 1000 900 3 0\n\
    Udp: InDatagrams\nUdp: 8\n";

fn process(netstat: &str, snmp: &str) -> TempDir {
    tree(&[("net/netstat", netstat), ("net/snmp", snmp)])
}

fn write(dir: &TempDir, name: &str, text: &str) {
    put(dir.path(), &format!("net/{name}"), text);
}

fn readings(dirs: &[&TempDir], change: impl FnOnce()) -> Vec<Reading> {
    let path = |d: &&TempDir| Some(d.path().to_owned());
    let paths: Vec<_> = dirs.iter().map(path).collect();
    let meter = NetworkMeter::open(&paths);
    let start = meter.read();
    change();
    let readings = meter.difference(&start, &meter.read());
    assert!(
        readings
            .keys()
            .eq(SOURCES.map(|source| source.counter).iter())
    );
    readings.into_values().collect()
}

#[test]
fn counters_are_differences_summed_over_networks() {
    let (a, b) = (process(NETSTAT, SNMP), process(NETSTAT, SNMP));
    let change = || {
        write(
            &a,
            "netstat",
            &NETSTAT.replace("0 5 1 2 7 4 8", "9 15 9 3 7 6 9"),
        );
        write(&a, "snmp", &SNMP.replace("1000 900 3", "1100 950 4"));
        write(
            &b,
            "netstat",
            &NETSTAT.replace("0 5 1 2 7 4 8", "0 6 1 2 9 5 8"),
        );
    };
    let expected = [11, 1, 2, 50, 100, 1, 3, 1].map(Reading::Measured);
    assert_eq!(readings(&[&a, &b], change), expected);
}

#[test]
fn a_missing_counter_is_absent_with_its_reason() {
    let whole = process(NETSTAT, SNMP);
    let old = process(&NETSTAT.replace("TCPAutoCorking", "TCPSomething"), SNMP);
    let bare = process(NETSTAT, "");
    fs::remove_file(bare.path().join("net/netstat")).unwrap();
    let cut = process(&NETSTAT.replace(" 8\n", "\n"), SNMP);
    let long = process(&format!("{NETSTAT}{}", "x".repeat(MOST_BYTES)), SNMP);
    let no_file = "/proc/PID/net/netstat cannot be read";
    let zero = Reading::Measured(0);
    let check = |dirs: &[&TempDir], at: usize, expected: Reading| {
        assert_eq!(readings(dirs, || ())[at], expected);
    };
    let lacks = |file: &str, name: &str| {
        Reading::absent(format!("/proc/PID/net/{file} of this kernel has no {name}"))
    };
    check(&[&whole], 0, zero.clone());
    // An old kernel and a newer one.
    let no_corking = lacks("netstat", "TcpExt TCPAutoCorking");
    check(&[&whole, &old], 2, no_corking);
    check(&[&old], 0, zero);
    check(&[&bare, &whole], 0, Reading::absent(no_file));
    check(&[&bare], 4, lacks("snmp", "Tcp InSegs"));
    check(&[&cut], 0, lacks("netstat", "TcpExt DelayedACKs"));
    check(&[&long], 0, Reading::absent(no_file));
    let nothing = Reading::absent("nothing of this trial goes over TCP");
    check(&[], 5, nothing);
}

#[test]
fn a_counter_that_goes_backwards_is_absent() {
    let dir = process(NETSTAT, SNMP);
    let change = || write(&dir, "snmp", &SNMP.replace("1000", "999"));
    let back = Reading::absent("the kernel's counter went backwards within the window");
    assert_eq!(readings(&[&dir], change)[4], back);
}

#[test]
fn this_process_has_a_network() {
    let read = |dir: Option<PathBuf>| {
        let meter = NetworkMeter::open(&[dir]);
        let now = meter.read();
        meter.difference(&now, &now)
    };
    for (counter, reading) in read(bytecost_sys::proc_view::directory(std::process::id())) {
        assert_eq!(reading, Reading::Measured(0), "{}", counter.name());
    }
}

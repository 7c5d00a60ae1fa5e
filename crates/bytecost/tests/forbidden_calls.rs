//! System calls that a host forbids or has no room for, simulated by a filter (seccomp(2)): their
//! movers are refused with the reason, and the others are measured.

use crate::common::{BYTECOST, Ended, Lack, Place, directory_on_disk, ended, has, says, skipped};
use bytecost_analysis::Analysis;
use bytecost_spec::Cell;

/// Numbers of system calls: prctl, seccomp, io_setup.
#[cfg(target_arch = "x86_64")]
const CALLS: [u32; 3] = [157, 317, 206];
#[cfg(target_arch = "aarch64")]
const CALLS: [u32; 3] = [167, 277, 0];
/// The same on every architecture.
const IO_URING_SETUP: u32 = 425;
const EPERM: u32 = 1;
const EAGAIN: u32 = 11;

/// A filter of four instructions: the call's number, is it that one, its error, else allow it.
const FILTER: &str = r#"
my ($prctl, $seccomp, $call, $errno, @command) = @ARGV;
my $filter = pack("SCCL" x 4, 0x20, 0, 0, 0, 0x15, 0, 1, $call,
    0x06, 0, 0, 0x50000 | $errno, 0x06, 0, 0, 0x7fff0000);
my $program = pack("Sx6P", 4, $filter);
syscall($prctl + 0, 38, 1, 0, 0, 0) == 0 or die "no filter: $!";
syscall($seccomp + 0, 1, 0, $program) == 0 or die "no filter: $!";
exec @command;
"#;

/// Calls bytecost where one system call always fails; none where that cannot be simulated.
fn without(place: &Place, call: u32, errno: u32, words: &str) -> Option<Ended> {
    let numbers = [CALLS[0], CALLS[1], call, errno].map(|n| n.to_string());
    let mut perl = place.other("perl", ["-e", FILTER]);
    perl.args(numbers).arg(BYTECOST).args(words.split(' '));
    if !has("perl") {
        return None;
    }
    let end = ended(&mut perl);
    let is_missing = end.stderr.contains("no filter");
    if is_missing {
        skipped(Lack::Right, &end.stderr);
    }
    (!is_missing).then(|| end.measured())
}

fn measured(findings: &Analysis) -> impl Iterator<Item = &Cell> {
    let cells = findings.cells.iter().filter(|c| c.trials > 0);
    cells.map(|c| &c.cell)
}

#[test]
fn what_is_disabled_or_beyond_its_limit_refuses_its_movers_alone() {
    // As kernel.io_uring_disabled = 2 answers, and io_setup(2) where fs.aio-nr has reached
    // fs.aio-max-nr.
    let uring = "uring-read,uring-read-fixed,uring-sqpoll";
    let disabled = ["not permitted", "kernel.io_uring_disabled"];
    let full = ["fs.aio-max-nr", "--depth"];
    for (movers, call, errno, parts) in [
        (uring, IO_URING_SETUP, EPERM, disabled),
        ("libaio", CALLS[2], EAGAIN, full),
    ] {
        let (place, dir) = (Place::new(), directory_on_disk());
        let words = format!(
            "run file-read --ring 1MiB --size 4KiB --depth 4 --cache warm --access random --mover pread,{movers} --budget 4s --blocks 6 --window 20ms --warmup 2ms --quiet --dir {}",
            dir.path().display()
        );
        if without(&place, call, errno, &words).is_none() {
            return;
        }
        let findings = place.findings();
        for mover in movers.split(',') {
            let cells = findings.refused_cells.iter();
            let refused: Vec<_> = cells.filter(|r| r.cell.mover == mover).collect();
            assert_eq!(refused.len(), 1, "{refused:?}");
            says(&refused[0].why, &parts);
        }
        let remaining = measured(&findings).map(|c| c.mover.as_str());
        assert!(remaining.eq(["null", "pread"]));
    }
}

#[test]
fn where_io_uring_is_forbidden_clients_ask_by_epoll() {
    let place = Place::new();
    let words = "run server-models --server epoll,uring --service echo --connections 2 --connect kept --idle 0 --placement free --blocks 6 --warmup 2ms --window 20ms --budget 4s --quiet";
    if without(&place, IO_URING_SETUP, EPERM, words).is_none() {
        return;
    }
    let manifest = place.json("manifest.json");
    let generator = manifest["survey"]["serving"]["generator"].as_str().unwrap();
    assert!(
        generator.starts_with("epoll: no ring (Operation not permitted"),
        "{generator}"
    );
    let findings = place.findings();
    let servers = measured(&findings).map(|c| c.serving.server.as_deref());
    assert!(servers.eq([Some("epoll")]));
}

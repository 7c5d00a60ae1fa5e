//! Disturbances from outside stand on a run's first screen, with what they did to verdicts.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{BYTECOST, Lack, Place, ended, is_root, says, skipped};
use bytecost_analysis::Verdict;
use bytecost_report::Findings;
use bytecost_spec::Record;
use bytecost_spec::sample::{Block, Repeat};
use bytecost_sys::network::Network;
use rustix::process::Signal;

const SHORT: &str = "run --mover send,sendfile --size 64KiB,1MiB --blocks 6 --warmup 5ms --window 20ms --budget 30s --precision 0.1% --seed 7";

/// A process that does nothing but use a CPU.
struct Hog(Child);

impl Hog {
    fn start() -> Hog {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Hog(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_there(found: &Findings<'_>, kind: &str) -> bool {
    found.caveats.iter().any(|c| c.kind == kind)
}

fn is_within_a_screen(text: &str) {
    let screen = text
        .lines()
        .skip_while(|line| !line.starts_with("send-copies"));
    assert!(screen.count() <= 30, "{text}");
}

#[test]
fn with_a_busy_process_nothing_is_called_equal_and_no_amount_is_given() {
    let hog = Hog::start();
    let place = Place::new();
    let screen = place.call(SHORT).measured().stdout;
    drop(hog);
    says(&screen, &["Disturbed", "other processes"]);
    is_within_a_screen(&screen);
    let found = place.findings();
    assert!(is_there(&found, "busy-machine"), "{:#?}", found.caveats);
    assert!(!is_there(&found, "receive-window") && !is_there(&found, "books-open"));
    for finding in &found.findings {
        assert_ne!(
            finding.verdict,
            Verdict::NoDifferenceThatMatters,
            "{finding:#?}"
        );
        let has_none = finding.withheld.is_some() || finding.amount_withheld.is_some();
        assert!(has_none || !finding.is_apart(), "{finding:#?}");
    }
    // The report and the page have the same line.
    for name in ["report.md", "report.html"] {
        says(&place.read(name), &["Disturbed", "other processes"]);
    }
}

#[test]
fn one_cpu_of_several_is_in_the_first_line_and_no_window_limits_a_rate() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    let first = allowed.unwrap().trim().split([',', '-']).next().unwrap();
    let place = Place::new();
    let mut command = place.other("taskset", ["-c", first, BYTECOST]);
    let screen = ended(command.args(SHORT.split(' '))).measured().stdout;
    let found = place.findings();
    let cpus = found.host.cpus.len();
    if cpus < 2 {
        return skipped(Lack::Machine, "one CPU");
    }
    assert_eq!(found.host.cpus_allowed.len(), 1);
    says(&screen, &[&format!("1 of {cpus} CPUs"), "Disturbed"]);
    // On a busy machine the screen may have no room for it.
    let mut disturbances = found.disturbances.iter();
    assert!(
        disturbances.any(|d| d.text == "one CPU may be used"),
        "{screen}"
    );
    assert!(!screen.contains("receive window"), "{screen}");
    assert!(!is_there(&found, "receive-window"));
    is_within_a_screen(&screen);
}

#[test]
fn small_buffers_and_filters_of_tc_are_named() {
    if !is_root() {
        return;
    }
    let network = Network::new().unwrap();
    let tool = |words: &str| {
        let (program, args) = words.split_once(' ').unwrap();
        let status = Command::new(program).args(args.split(' ')).status();
        status.is_ok_and(|s| s.success())
    };
    let made = network.within(|| {
        let small = |name: &str| {
            let bounds = "4096 16384 16384";
            fs::write(format!("/proc/sys/net/ipv4/{name}"), bounds).is_ok()
        };
        small("tcp_wmem")
            && small("tcp_rmem")
            && tool("ip link set lo up")
            && tool("tc qdisc add dev lo clsact")
            && tool("tc filter add dev lo egress u32 match ip protocol 6 0xff flowid 1:1")
    });
    if !made.unwrap() {
        return skipped(Lack::Machine, "filters of tc");
    }
    let place = Place::new();
    let mut command = place.bytecost(SHORT);
    network.start_in(&mut command).unwrap();
    let screen = ended(&mut command).measured().stdout;
    says(&screen, &["Disturbed"]);
    let found = place.findings();
    // On a busy machine the screen may have no room for it.
    let mut disturbances = found.disturbances.iter();
    assert!(disturbances.any(|d| d.text.contains("clsact")), "{screen}");
    let mut caveats = found.caveats.iter();
    let caveat = caveats.find(|c| c.kind == "path-cost").expect("a caveat");
    let named = [
        "tcp_wmem 4096 16384 16384",
        "tcp_rmem 4096 16384 16384",
        "1 filter of tc at egress: u32",
    ];
    says(&caveat.text, &named);
    says(&caveat.evidence, &["SO_SNDBUF", "SO_RCVBUF"]);
}

#[test]
fn a_run_that_is_stopped_measures_that_block_again_and_says_so() {
    let place = Place::new();
    let words = "run --mover send,sendfile --size 64KiB --blocks 6 --warmup 20ms --window 200ms --repeats 4 --budget 60s --precision 0.1% --seed 7";
    let mut run = place.start(&mut place.bytecost(words));
    run.until_both_sides(&place, 0);
    // A stop between two of its waits is not seen.
    for _ in 0..3 {
        run.send(Signal::STOP);
        sleep(Duration::from_millis(600));
        run.send(Signal::CONT);
        sleep(Duration::from_millis(100));
    }
    let screen = run.end().measured().stdout;
    says(&screen, &["Disturbed"]);
    let records = place.records();
    let ends: Vec<&Block> = records
        .iter()
        .filter_map(|record| match record {
            Record::Block(block) => Some(block),
            _ => None,
        })
        .collect();
    let stopped: Vec<_> = ends.iter().filter(|b| b.stopped_ns > 0).collect();
    assert!(!stopped.is_empty() && stopped.len() <= 3, "{stopped:#?}");
    for block in stopped {
        let why = block.repeated_because.as_ref();
        assert!(matches!(why, Some(Repeat::Stopped { .. })), "{block:#?}");
        let is_again = |b: &Block| b.block == block.block && b.attempt > block.attempt;
        assert!(ends.iter().any(|b| is_again(b) && b.stopped_ns == 0));
    }
    // On a busy machine the screen may have no room for it.
    let found = place.findings();
    let mut disturbances = found.disturbances.iter();
    let said = |text: &str| text.starts_with("the run was stopped for");
    assert!(disturbances.any(|d| said(&d.text)), "{screen}");
    assert!(is_there(&found, "suspended"));
    says(&place.read("report.md"), &["bytecost was stopped, or"]);
}

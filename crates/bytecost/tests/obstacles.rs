//! What stands in the way of a run is named, and nothing is said of the rates that it sets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{BYTECOST, Lack, Place, ended, is_root, says, skipped};
use bytecost_analysis::Analysis;
use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;
use bytecost_spec::{Counter, Measure, Metric, Reading, Sample, Side};
use bytecost_sys::network::Network;

const SHORT: &str = "run --mover send,sendfile,vmsplice --size 64KiB,1MiB --blocks 6 --warmup 5ms --window 20ms --budget 30s --precision 0.1% --seed 7 --quiet";

fn tool(words: &str) -> bool {
    let mut words = words.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).status();
    status.is_ok_and(|s| s.success())
}

/// Asserts that a run withholds throughput, and gives the evidence of its caveat of this kind.
#[track_caller]
fn named(found: &Analysis, kind: &str) -> String {
    let about = |s: &&str| s.to_lowercase().contains("throughput") && !s.contains("no verdict");
    let mut told = found.answers.iter().map(|a| a.sentence.as_str());
    assert_eq!(told.find(about), None);
    let mut caveats = found.caveats.iter();
    let caveat = caveats.find(|c| c.kind == kind).expect("a caveat");
    format!("{}\n{}", caveat.text, caveat.evidence)
}

#[test]
fn a_token_bucket_on_loopback_is_named_and_nothing_is_said_of_throughput() {
    if !is_root() {
        return;
    }
    let network = Network::new().unwrap();
    let bucket = "tc qdisc add dev lo root tbf rate 400mbit burst 256kb latency 50ms";
    let made = network.within(|| tool("ip link set lo up") && tool(bucket));
    if !made.unwrap() {
        return skipped(Lack::Machine, "a token bucket");
    }
    let place = Place::new();
    let mut command = place.bytecost(SHORT);
    network.start_in(&mut command).unwrap();
    ended(&mut command).measured();
    let obstacle = [Obstacle {
        kind: CircumstanceKind::Qdisc,
        place: "lo".to_owned(),
        found: "tbf, 400 Mbit/s".to_owned(),
        limits: true,
    }];
    let found = place.findings();
    assert_eq!(found.host.obstacles, obstacle);
    let mut of_path = place.samples();
    of_path.retain(|(_, sample)| sample.receiver.is_some());
    assert!(!of_path.is_empty());
    assert!(of_path.iter().all(|(_, s)| s.obstacles == obstacle));
    says(
        &named(&found, "path-limit"),
        &["limits lo: tbf, 400 Mbit/s"],
    );
    assert!(found.findings.iter().any(|f| f.withheld.is_some()));
}

/// A token bucket has a timer send what it held back, so that packets are received on whichever CPU
/// the timer fires on.
#[test]
fn behind_a_token_bucket_interrupts_on_idle_cpus_are_a_part_of_the_cost() {
    if !is_root() {
        return;
    }
    let network = Network::new().unwrap();
    let bucket = "tc qdisc add dev lo root tbf rate 2gbit burst 1mb latency 50ms";
    let made = network.within(|| tool("ip link set lo up") && tool(bucket));
    if !made.unwrap() {
        return skipped(Lack::Machine, "a token bucket");
    }
    let place = Place::new();
    let words = SHORT.replace("send,sendfile,vmsplice", "send,send-zerocopy");
    let mut command = place.bytecost(words.replace("--window 20ms", "--window 100ms"));
    network.start_in(&mut command).unwrap();
    ended(&mut command).measured();
    for (_, sample) in place.samples() {
        let of = |counter| sample.machine[&counter].measured();
        let threads = [Counter::SoftirqThreadsNs, Counter::KernelThreadsNs].map(of);
        let [softirq, kernel] = threads;
        assert!(softirq.is_none() || softirq <= kernel, "{threads:?}");
    }
    let found = place.findings();
    if found.books.iter().any(|b| b.interrupts.is_none()) {
        return skipped(Lack::Right, "an account of all tasks");
    }
    assert!(!found.books.is_empty());
    for books in &found.books {
        assert!(books.interrupts_charged, "{books:?}");
        let sum: f64 = books.lines.iter().map(|line| line.share).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        let mut cells = found.cells.iter();
        let cell = cells.find(|c| c.id == books.cell).unwrap();
        let metric = |side| Metric::of(Measure::CpuSPerGb, side);
        let sides = [Side::Both, Side::Sender, Side::Receiver].map(metric);
        let [both, sender, receiver] = sides.map(|metric| cell.estimates[&metric].value);
        let charged = books.interrupts.unwrap().value.max(0.0);
        // Each is a trimmed mean of its own.
        let added = both / (sender + receiver) / (1.0 + charged);
        assert!((added - 1.0).abs() < 0.1, "{added} {charged}");
    }
    let mut caveats = found.caveats.iter();
    let caveat = caveats.find(|c| c.kind == "idle-interrupts").unwrap();
    assert_eq!(caveat.cells.len(), found.books.len());
}

/// A control group with a quota. Its name is that of a group of this process's, so that the next
/// run removes it where this process is killed.
struct Quota(PathBuf);

impl Quota {
    fn new(quota_us: u32) -> Option<Quota> {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
        let is_other = |c: char| !c.is_ascii_digit();
        let namespace = namespace.to_str().unwrap().trim_matches(is_other);
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        let start = behind_name.split_whitespace().nth(19).unwrap();
        let name = format!("bytecost-{namespace}-{}-{start}-9000", std::process::id());
        let dir = PathBuf::from("/sys/fs/cgroup/cpu").join(name);
        if !is_root() {
            return None;
        }
        if fs::create_dir(&dir).is_err() {
            skipped(Lack::Machine, "a control group of version 1");
            return None;
        }
        fs::write(dir.join("cpu.cfs_period_us"), "100000").unwrap();
        fs::write(dir.join("cpu.cfs_quota_us"), quota_us.to_string()).unwrap();
        Some(Quota(dir))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_around_the_run_is_named_where_it_is_used_up() {
    // Half of a CPU for two ends, which each want one.
    let Some(quota) = Quota::new(50_000) else {
        return;
    };
    let place = Place::new();
    let door = quota.0.join("cgroup.procs");
    let script = format!("echo $$ > {} && exec \"$0\" \"$@\"", door.display());
    let mut command = place.other("sh", ["-c", &script, BYTECOST]);
    command.args(SHORT.replace("20ms", "60ms").split(' '));
    ended(&mut command).measured();
    let periods = |(_, sample): &(_, Sample)| {
        let reading = sample.machine.get(&Counter::QuotaThrottledPeriods);
        reading.and_then(Reading::measured)
    };
    let periods: u64 = place.samples().iter().filter_map(periods).sum();
    assert!(periods > 0);
    says(
        &named(&place.findings(), "quota-around"),
        &[
            &format!("used up in {periods} periods"),
            "0.500 CPUs: 50.0 ms in each 100 ms",
            quota.0.to_str().unwrap(),
        ],
    );
}

#[test]
fn a_loopback_device_that_is_down_is_named_with_its_remedy() {
    if !is_root() {
        return;
    }
    let network = Network::new().unwrap();
    let place = Place::new();
    let mut command = place.bytecost(SHORT);
    network.start_in(&mut command).unwrap();
    ended(&mut command).refused(&["`lo` is down", "ip link set lo up"]);
}

#[test]
fn processes_of_a_foreign_proc_are_not_visible_and_nothing_is_said_of_them() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let mut unshare = place.other("unshare", ["--pid", "--fork", "--kill-child", BYTECOST]);
    let words = "run --mover send,sendfile --size 64KiB --blocks 6 --warmup 5ms --window 20ms --budget 3s --quiet --evidence none --runs-dir";
    let output = unshare.args(words.split(' ')).arg(place.runs()).output();
    let output = output.unwrap();
    let [screen, errors] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
    if errors.contains("unshare:") {
        return skipped(Lack::Right, errors);
    }
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    says(&words, &["other processes are not visible", "sendfile"]);
    assert!(!words.contains("stop other programs that start"), "{words}");
}

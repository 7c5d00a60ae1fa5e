//! Obstacles in the way of a run are named, and nothing is said of the rates that they set.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{BYTECOST, Lack, Place, ended, is_root, says, skipped};
use crate::live_common::Server;
use bytecost_analysis::Situation;
use bytecost_report::Findings;
use bytecost_spec::CircumstanceKind;
use bytecost_spec::evidence::CountedEvent;
use bytecost_spec::host::Obstacle;
use bytecost_spec::{Counter, Measure, Metric, Reading, Record, Sample, Side};
use bytecost_sys::network::Network;
use rustix::process::Signal;

const SHORT: &str = "run --mover send,sendfile --size 64KiB --blocks 6 --warmup 5ms --window 20ms --budget 30s --precision 0.1% --seed 7 --quiet";

fn tool(words: &str) -> bool {
    let (program, args) = words.split_once(' ').unwrap();
    let status = Command::new(program).args(args.split(' ')).status();
    status.is_ok_and(|s| s.success())
}

/// Asserts that a run withholds throughput, and gives the evidence of its caveat of this kind.
#[track_caller]
fn named(found: &Findings<'_>, kind: &str) -> String {
    let about = |s: &&Situation| s.metric.measure == Measure::ThroughputGbitPerS;
    let of_it = found.advice.situations.iter().filter(about);
    let mut decided = of_it.filter(|s| !s.uses.is_empty() || !s.avoid.is_empty());
    assert_eq!(decided.next(), None);
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
    let words = SHORT.replace("send,sendfile", "send,send-zerocopy");
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
        // Each share has five digits in the file.
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
        let mut cells = found.cells.iter();
        let cell = cells.find(|c| c.id == books.cell).unwrap();
        let cpu_of = |side| Metric::new(Measure::CpuSPerGb, side);
        let sides = [Side::Both, Side::Sender, Side::Receiver].map(cpu_of);
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
        let link = fs::read_link("/proc/self/ns/pid").unwrap();
        let is_other = |c: char| !c.is_ascii_digit();
        let namespace = link.to_str().unwrap().trim_matches(is_other);
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
    let options = "run --mover send,sendfile --size 64KiB --blocks 6 --warmup 5ms --window 20ms --budget 3s --quiet --evidence none --runs-dir";
    unshare.args(options.split(' ')).arg(place.runs());
    let output = unshare.output().unwrap();
    let [screen, errors] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
    if errors.contains("unshare:") {
        return skipped(Lack::Right, errors);
    }
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    says(&words, &["other processes are not visible", "sendfile"]);
    assert!(!words.contains("stop other programs that start"), "{words}");
}

/// A command in a network of its own whose loopback is up, after the kernel was set so; none without
/// the rights.
fn in_network(place: &Place, settings: &[(&str, &str)], words: &str) -> Option<Command> {
    let network = is_root().then(|| Network::new().unwrap())?;
    let set = |(name, value): &(&str, &str)| fs::write(format!("/proc/sys/net/{name}"), value);
    let made =
        network.within(|| tool("ip link set lo up") && settings.iter().all(|s| set(s).is_ok()));
    if !made.unwrap() {
        skipped(Lack::Tool, "ip, or a setting of a network");
        return None;
    }
    let mut command = place.bytecost(words);
    network.start_in(&mut command).unwrap();
    Some(command)
}

#[test]
fn a_queue_that_overflows_is_named_and_costs_one_trial_more_than_the_budget_at_most() {
    let short_queue = [("core/somaxconn", "4"), ("ipv4/tcp_syncookies", "0")];
    let words = "run --server epoll --connections 300 --connect new --budget 1s --evidence none";
    let place = Place::new();
    let Some(mut run) = in_network(&place, &short_queue, words) else {
        return;
    };
    let end = ended(&mut run);
    assert_eq!(end.status, Some(1), "{}", end.stderr);
    let why = "queue of new connections (net.core.somaxconn) overflowed";
    says(&end.flat(), &[why, "sysctl -w net.core.somaxconn=4096"]);
    assert_eq!(end.stderr.matches(why).count(), 1, "{}", end.stderr);
}

#[test]
fn ports_that_run_out_are_named_with_their_setting() {
    // The listener has it, and the other side none.
    let ports = [("ipv4/ip_local_port_range", "40000 40000")];
    let place = Place::new();
    let words = "run --mover send,sendfile --size 4KiB --budget 2s --evidence none";
    let Some(mut run) = in_network(&place, &ports, words) else {
        return;
    };
    let setting = "no port is left (net.ipv4.ip_local_port_range): as root: `sysctl -w";
    ended(&mut run).refused(&[setting]);
    let mut doctor = in_network(&place, &ports, "doctor").unwrap();
    says(
        &ended(&mut doctor).flat(),
        &["ports: 1 (net.ipv4.ip_local_port_range)"],
    );
}

#[test]
fn a_budget_that_will_not_hold_is_reported_after_the_first_block() {
    let words = "run --mover send,sendfile --size 4KiB --window 100ms --blocks 16 --budget 1s --evidence none";
    let place = Place::new();
    let mut run = place.start(&mut place.bytecost(words));
    // In time: nothing but the first blocks has been measured by then.
    run.until_output("the budget", |_, err| {
        err.contains("the budget of 1s does not suffice")
    });
    let early = run.err();
    assert!(!early.contains("block 4"), "{early}");
    run.interrupted();
}

#[test]
fn a_host_with_ipv6_alone_serves_its_load() {
    let Some(network) = is_root().then(|| Network::new().unwrap()) else {
        return;
    };
    let set = || tool("ip link set lo up") && tool("ip addr del 127.0.0.1/8 dev lo");
    let has_ipv6 = || TcpListener::bind(("::1", 0)).is_ok();
    if !network.within(|| set() && has_ipv6()).unwrap() {
        return skipped(Lack::Machine, "IPv6 on loopback");
    }
    let within = |place: &Place, words: &str| {
        let mut command = place.bytecost(words);
        network.start_in(&mut command).unwrap();
        command
    };
    let place = Place::new();
    let words = ["no address of this machine", "::1"];
    ended(&mut within(&place, "live server fixed --port 0")).refused(&words);
    let server = place.start(&mut within(
        &place,
        "live server fixed --listen ::1 --port 0",
    ));
    let server = Server::of(server);
    let load = format!(
        "live load localhost:{} fixed --connections 2 --duration 300ms",
        server.port
    );
    let other = Place::new();
    ended(&mut within(&other, &load)).succeeded();
    server.running.ended_by(Signal::INT);
}

/// The kernel's clock in BPF is the host's: what cannot be joined to ours is absent with that reason.
#[test]
fn in_a_time_namespace_no_account_is_false() {
    let words = "--time --monotonic 1000000 --fork --kill-child";
    if !is_root() || !tool(&format!("unshare {words} true")) {
        return skipped(Lack::Right, "a time namespace");
    }
    let place = Place::new();
    let mut unshare = place.other("unshare", words.split(' '));
    let run = "run --mover send,sendfile --size 64KiB --blocks 6 --warmup 5ms --window 20ms --budget 4s --quiet --evidence copies,counts,time --runs-dir";
    let run = unshare.arg(BYTECOST).args(run.split(' ')).arg(place.runs());
    ended(run).measured();
    let mut watched = 0;
    for record in place.records() {
        let Record::Evidence(found) = record else {
            continue;
        };
        watched += 1;
        let accounts = found.accounts.as_ref();
        let is_absent = accounts.is_none_or(|a| a.lines.is_empty() && a.refused.is_some());
        assert!(is_absent, "{found:?}");
        let mut calls = (found.counts.iter()).filter(|c| c.event == CountedEvent::SystemCalls);
        // Each message of a sender counts once, for every reader of the counter.
        assert!(calls.all(|c| c.count.measured() != Some(0)), "{found:?}");
    }
    assert!(watched > 0);
}

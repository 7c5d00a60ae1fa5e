//! What stands in the way of a run is named, and nothing is said of the rates that it sets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::networks::within;
use crate::common::{Ended, PATIENCE, Place, ended, endpoints_of, is_root, records, says};
use bytecost_spec::host::{Obstacle, ObstacleKind};
use bytecost_spec::{Counter, Manifest, Reading, Sample};
use bytecost_sys::network::Network;
use rustix::process::{Signal, geteuid};
use serde_json::Value;

const SHORT: &str = "run --mover send,sendfile,vmsplice --size 64KiB,1MiB --blocks 6 --warmup 5ms --window 20ms --budget 30s --precision 0.1% --seed 7 --quiet";
/// What names something in the way.
const KINDS: [&str; 3] = ["path-limit", "path-cost", "quota-around"];

/// What a run left.
struct Told {
    findings: Vec<Value>,
    caveats: Vec<Value>,
    answers: Vec<String>,
    samples: Vec<Sample>,
    host: Vec<Obstacle>,
}

impl Told {
    fn of(place: &Place, end: Ended) -> Told {
        end.measured();
        let findings = place.json("findings.json");
        let list = |name: &str| findings[name].as_array().unwrap().clone();
        let answers = list("answers").into_iter();
        let manifest: Manifest = serde_json::from_value(place.json("manifest.json")).unwrap();
        Told {
            caveats: list("caveats"),
            findings: list("findings"),
            answers: answers
                .map(|a| a["sentence"].as_str().unwrap().to_owned())
                .collect(),
            samples: place.samples().into_iter().map(|(_, s)| s).collect(),
            host: manifest.host.obstacles,
        }
    }

    /// The texts of the caveats about something in the way, by their kind.
    fn in_the_way(&self) -> Vec<(&str, &str)> {
        let told = self.caveats.iter().map(|d| {
            let text = |name: &str| d[name].as_str().unwrap();
            (text("kind"), text("text"))
        });
        told.filter(|(kind, _)| KINDS.contains(kind)).collect()
    }

    /// The sentences of the answer that compare throughput.
    fn of_throughput(&self) -> Vec<&str> {
        let all = self.answers.iter().map(String::as_str);
        let about = |s: &&str| s.to_lowercase().contains("throughput");
        all.filter(|s| about(s) && !s.contains("no verdict"))
            .collect()
    }
}

fn tool(words: &str) -> bool {
    let mut words = words.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).status();
    status.is_ok_and(|s| s.success())
}

/// A run in a new network, in which these commands were carried out first; none, and the reason
/// printed, where that cannot be had.
fn after(commands: &[&str]) -> Option<Told> {
    if !geteuid().is_root() {
        eprintln!("skipped: a network of its own needs root");
        return None;
    }
    let network = Network::new().unwrap();
    let all = || tool("ip link set lo up") && commands.iter().all(|c| tool(c));
    if !network.within(all).unwrap() {
        eprintln!("skipped: {commands:?} cannot be had here");
        return None;
    }
    let place = Place::new();
    let mut command = place.bytecost(SHORT);
    network.start_in(&mut command).unwrap();
    Some(Told::of(&place, ended(&mut command)))
}

#[test]
fn a_token_bucket_on_loopback_is_named_and_nothing_is_said_of_throughput() {
    let bucket = "tc qdisc add dev lo root tbf rate 400mbit burst 256kb latency 50ms";
    let Some(told) = after(&[bucket]) else { return };
    let obstacle = Obstacle {
        kind: ObstacleKind::Qdisc,
        place: "lo".to_owned(),
        found: "tbf, 400 Mbit/s".to_owned(),
        limits: true,
    };
    assert_eq!(told.host, std::slice::from_ref(&obstacle));
    let of_path = told.samples.iter().filter(|s| s.receiver.is_some());
    assert!(of_path.clone().count() > 0);
    assert!(of_path.clone().all(|s| s.obstacles == [obstacle.clone()]));
    let [("path-limit", text)] = told.in_the_way()[..] else {
        panic!("{:?}", told.in_the_way())
    };
    says(text, &["limits lo: tbf, 400 Mbit/s"]);
    assert_eq!(told.of_throughput(), [""; 0], "{:#?}", told.answers);
    let withheld = told.findings.iter().any(|f| f["withheld"].is_string());
    assert!(withheld, "{:#?}", told.answers);
}

#[test]
fn a_small_mtu_of_loopback_is_named() {
    let Some(told) = after(&["ip link set lo mtu 1500"]) else {
        return;
    };
    let [("path-cost", text)] = told.in_the_way()[..] else {
        panic!("{:?}", told.in_the_way())
    };
    says(text, &["MTU 1500, usually 65536 on lo"]);
}

#[test]
fn nothing_is_named_in_a_new_network() {
    let Some(told) = after(&[]) else { return };
    let around = told.host.iter().any(|o| o.kind == ObstacleKind::Quota);
    let found = told.in_the_way();
    assert!(
        found
            .iter()
            .all(|(kind, _)| around && *kind == "quota-around"),
        "{found:?}"
    );
}

#[test]
fn a_token_bucket_on_a_path_of_the_runs_own_is_named() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --transport veth --mover send,sendfile --size 64KiB --blocks 1000 --precision 0.1% --window 80ms --warmup 5ms --budget 200s --quiet";
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    let done = std::cell::Cell::new(false);
    run.until("a bucket on its path", || {
        let bucket =
            "tc qdisc replace dev bytecost0 root tbf rate 300mbit burst 256kb latency 50ms";
        let mut ends = endpoints_of(coordinator).into_iter();
        done.set(
            done.get()
                || place.lines() >= 2 && ends.any(|end| within(end, || tool(bucket)) == Some(true)),
        );
        done.get()
    });
    let log = place.run().join("samples.jsonl");
    run.until("trials that tell of it", || {
        let text = fs::read_to_string(&log).unwrap();
        ["/send/", "/sendfile/"].iter().all(|mover| {
            let tells = |l: &str| l.contains(mover) && l.contains("tbf, 300 Mbit/s");
            text.lines().any(tells)
        })
    });
    run.send(Signal::INT);
    let end = run.end(PATIENCE);
    assert_eq!(end.status, Some(130));
    let named = "A queueing discipline limits bytecost0: tbf, 300 Mbit/s.";
    says(&place.read("findings.json"), &[named]);
    assert!(records(&place.run())[0]["sample"]["obstacles"].is_null());
}

/// A control group with a quota. Its name is that of a group of this process's, so that the next
/// run removes it where this process is killed.
struct Quota(PathBuf);

impl Quota {
    fn new(quota_us: u32) -> Option<Quota> {
        let parent = PathBuf::from("/sys/fs/cgroup/cpu");
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
        let namespace = namespace
            .to_str()
            .unwrap()
            .trim_matches(|c: char| !c.is_ascii_digit());
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .nth(19)
            .unwrap();
        let name = format!("bytecost-{namespace}-{}-{start}-9000", std::process::id());
        let dir = parent.join(name);
        if !geteuid().is_root() || fs::create_dir(&dir).is_err() {
            eprintln!("skipped: no control group of version 1 can be made here");
            return None;
        }
        fs::write(dir.join("cpu.cfs_period_us"), "100000").unwrap();
        fs::write(dir.join("cpu.cfs_quota_us"), quota_us.to_string()).unwrap();
        Some(Quota(dir))
    }

    /// A run within.
    fn run(&self) -> Told {
        let place = Place::new();
        let mut command = place.other("sh", ["-c"]);
        let door = self.0.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$0\" \"$@\"", door.display());
        let words = SHORT.replace("20ms", "60ms");
        command
            .arg(script)
            .arg(crate::common::BYTECOST)
            .args(words.split(' '));
        Told::of(&place, ended(&mut command))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn throttled_periods(told: &Told) -> u64 {
    let of = |s: &Sample| {
        s.machine
            .get(&Counter::QuotaThrottledPeriods)
            .and_then(Reading::measured)
    };
    told.samples.iter().filter_map(of).sum()
}

#[test]
fn a_quota_around_the_run_is_named_where_it_is_used_up() {
    // Half of a CPU for two ends, which each want one.
    let Some(quota) = Quota::new(50_000) else {
        return;
    };
    let told = quota.run();
    let periods = throttled_periods(&told);
    assert!(periods > 0);
    let caveats = told.caveats.iter();
    let caveat = caveats
        .clone()
        .find(|d| d["kind"] == "quota-around")
        .expect("a caveat");
    let evidence = caveat["evidence"].as_str().unwrap();
    let place = quota.0.to_str().unwrap();
    let used = format!("used up in {periods} periods");
    says(
        evidence,
        &[&used, "0.500 CPUs: 50.0 ms in each 100 ms", place],
    );
    assert_eq!(told.of_throughput(), [""; 0], "{:#?}", told.answers);
}

#[test]
fn a_quota_that_is_never_used_up_is_not_named() {
    let Some(quota) = Quota::new(100_000_000) else {
        return;
    };
    let told = quota.run();
    assert!(
        told.host
            .iter()
            .any(|o| o.kind == ObstacleKind::Quota && o.place == quota.0.to_str().unwrap())
    );
    // Another one around this test may be.
    if told.host.len() == 1 {
        assert_eq!((throttled_periods(&told), told.in_the_way().len()), (0, 0));
    }
}

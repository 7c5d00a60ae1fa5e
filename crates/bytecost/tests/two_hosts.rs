//! Runs on two hosts: two network namespaces of the test's own, joined by a veth pair, between
//! which a command or OpenSSH leads. They need root; what else is missing is said.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{
    BYTECOST as PROGRAM, Ended, Lack, Place, Started, ended, is_root, says, skipped,
};
use bytecost_spec::{Cell, Counter, Manifest, PeerSide, Reading, Readings, Sample, Transport};
use bytecost_sys::network::Network;

const THERE: &str = "10.77.0.2";
/// A run of two cells and the loop's own cost.
const SMALL: &str = "run --mover null,send,sendfile --size 64KiB --budget 4s --blocks 6 --window 20ms --warmup 2ms --seed 7 --quiet";

/// A host: a network, and a process that sleeps in it.
struct Namespace {
    network: Network,
    sleeper: Started,
}

impl Namespace {
    fn new() -> Namespace {
        let network = Network::new().unwrap();
        let place = Place::new();
        let mut command = place.other("sleep", ["600"]);
        network.start_in(&mut command).unwrap();
        let sleeper = place.start(&mut command);
        Namespace { network, sleeper }
    }

    /// The command that leads into it.
    fn entered(&self) -> String {
        format!("nsenter --net=/proc/{}/ns/net", self.sleeper.pid())
    }

    fn ip(&self, words: &str) {
        let ip = || ended(Command::new("ip").args(words.split(' ')));
        let end = self.network.within(ip).unwrap();
        assert_eq!(end.status, Some(0), "ip {words}: {}", end.stderr);
    }
}

struct Hosts {
    here: Namespace,
    there: Namespace,
    place: Place,
}

impl Hosts {
    /// None without the rights for them.
    fn new() -> Option<Hosts> {
        let hosts = is_root().then(|| Hosts {
            here: Namespace::new(),
            there: Namespace::new(),
            place: Place::new(),
        })?;
        let other = hosts.there.sleeper.pid();
        hosts.here.ip(&format!(
            "link add card0 type veth peer name card1 netns {other}"
        ));
        for (at, card, address) in [
            (&hosts.here, "card0", "10.77.0.1"),
            (&hosts.there, "card1", THERE),
        ] {
            at.ip("link set lo up");
            at.ip(&format!("addr add {address}/24 dev {card}"));
            at.ip(&format!("link set {card} up"));
        }
        Some(hosts)
    }

    /// The command on this host, with these words and a peer that is reached so.
    fn call(&self, words: &str, peer: &[&str]) -> Ended {
        ended(self.command(words).args(peer))
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.place.bytecost(words);
        self.here.network.start_in(&mut command).unwrap();
        command
    }

    fn manifest(&self) -> Manifest {
        serde_json::from_str(&self.place.read("manifest.json")).unwrap()
    }

    fn crossed(&self) -> Vec<Sample> {
        let samples = self.place.samples().into_iter().map(|(_, sample)| sample);
        samples.filter(|s| s.cell.starts_with("peer/")).collect()
    }
}

/// A run that went through, between the hosts and both ways.
#[track_caller]
fn measured(hosts: &Hosts, output: Ended, name: &str, side: PeerSide) {
    let header = format!("and {name} (");
    says(
        &output.measured().flat(),
        &["network TCP", &header, "over card0, MTU 1500, round trip"],
    );
    let manifest = hosts.manifest();
    let peer = manifest.peer.as_deref().expect("a peer");
    assert_eq!((peer.address.as_str(), peer.side), (THERE, side));
    assert_eq!(peer.build, manifest.build_id.clone().unwrap());
    assert_eq!(peer.cards[0].driver.as_deref(), Some("veth"));
    assert!(manifest.own_cards[0].is_virtual);
    let samples = hosts.crossed();
    assert!(samples.len() >= 6, "{}", samples.len());
    for sample in &samples {
        assert!(!sample.peer_machine.is_empty());
        // The agent plays as nobody, who may not set it everywhere, and only receives.
        let cell = Cell::from_id(&sample.cell).unwrap();
        assert!(side == PeerSide::Sender || cell.congestion == "cubic");
        let truth = sample.truth.as_ref().unwrap();
        assert_eq!(truth.sent_bytes, truth.received_bytes);
    }
    let caveats = hosts.place.findings().caveats;
    assert!(caveats.iter().any(|c| c.kind == "virtual-way"));
}

#[test]
fn a_command_leads_to_the_other_host_and_the_run_goes_on_where_it_ended() {
    let Some(hosts) = Hosts::new() else { return };
    let entry = hosts.there.entered();
    let peer = ["--peer", &entry, "--peer-program", PROGRAM];
    let output = hosts.call(SMALL, &peer);
    measured(&hosts, output, THERE, PeerSide::Receiver);
    let before = hosts.crossed().len();
    let more = hosts.place.resume("--blocks 9 --budget 30s --quiet");
    // A run directory is data: the command that leads to the other host is given again, the same.
    hosts
        .call(&more, &[])
        .refused(&["give the same --peer again", "`nsenter`"]);
    let other = ["--peer", "sh -c 'touch started; exit 3'"];
    hosts.call(&more, &other).refused(&["is not what run"]);
    assert!(!hosts.place.path().join("started").exists());
    hosts.call(&more, &peer).measured();
    assert!(hosts.crossed().len() > before, "{before}");
    // Where it is not there any more, nothing is measured.
    let Hosts { here, there, place } = hosts;
    drop(there);
    let vacated = Hosts {
        here,
        there: Namespace::new(),
        place,
    };
    vacated.call(&more, &peer).refused(&[]);
}

#[test]
fn a_token_bucket_on_the_other_hosts_card_is_named() {
    let Some(hosts) = Hosts::new() else { return };
    let tc = "qdisc add dev card1 root tbf rate 100mbit burst 256kb latency 50ms";
    let add = || Command::new("tc").args(tc.split(' ')).status();
    let made = hosts.there.network.within(add).unwrap();
    if !made.is_ok_and(|status| status.success()) {
        return skipped(Lack::Machine, "a token bucket");
    }
    let there = hosts.there.entered();
    let peer = ["--peer", &there, "--peer-program", PROGRAM];
    hosts.call(SMALL, &peer).measured();
    let place = format!("card1 on {THERE}");
    for sample in hosts.crossed() {
        let mut obstacles = sample.obstacles.iter();
        let found = obstacles
            .find(|o| o.place == place)
            .map(|o| (o.found.as_str(), o.limits));
        assert_eq!(found, Some(("tbf, 100 Mbit/s", true)));
    }
    let caveats = hosts.place.findings().caveats;
    let limit = caveats.iter().find(|c| c.kind == "path-limit").unwrap();
    says(&limit.text, &[&format!("limits {place}: tbf")]);
    // The congestion control that both hosts may set does not pace.
    assert!(caveats.iter().all(|c| c.kind != "pacing"), "{caveats:?}");
}

/// OpenSSH's server on the other host, with keys made for it.
struct SshServer {
    place: Place,
    _server: Started,
}

impl SshServer {
    /// None where it is not installed.
    fn start(hosts: &Hosts) -> Option<SshServer> {
        let program = "/usr/sbin/sshd";
        if !Path::new(program).exists() {
            skipped(Lack::Tool, "OpenSSH's server is not installed");
            return None;
        }
        let place = Place::new();
        let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
        for key in ["host", "user"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", &at(key)];
            assert!(place.other("ssh-keygen", words).status().unwrap().success());
        }
        // It insists on this directory.
        let _ = fs::create_dir("/run/sshd");
        let server_config = format!(
            "Port 2222\nListenAddress {THERE}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n",
            at("host"),
            at("user.pub")
        );
        fs::write(at("sshd_config"), server_config).unwrap();
        let config = format!(
            "Host db7\nHostName {THERE}\nPort 2222\nUser root\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking accept-new\nBatchMode yes\n",
            at("user"),
            at("known")
        );
        fs::write(at("config"), config).unwrap();
        let mut command = place.other(program, ["-D", "-e", "-f", &at("sshd_config")]);
        hosts.there.network.start_in(&mut command).unwrap();
        let mut server = place.start(&mut command);
        server.until_output("a server of OpenSSH", |_, err| err.contains("listening"));
        Some(SshServer {
            place,
            _server: server,
        })
    }

    fn peer(&self) -> [String; 4] {
        let config = self.place.path().join("config");
        let ssh = format!("ssh -T -F {} db7", config.display());
        ["--peer", &ssh, "--peer-program", PROGRAM].map(str::to_owned)
    }
}

#[test]
fn ssh_leads_to_the_other_host() {
    let Some(mut hosts) = Hosts::new() else {
        return;
    };
    let Some(server) = SshServer::start(&hosts) else {
        return;
    };
    let options = server.peer();
    let peer = options.each_ref().map(String::as_str);
    let reversed = hosts.call(&format!("{SMALL} --reverse"), &peer);
    measured(&hosts, reversed, "db7", PeerSide::Sender);
    every_mover_arrives(&mut hosts, &peer);
    // A key that it does not know.
    fs::write(server.place.path().join("user.pub"), "").unwrap();
    let output = hosts.call(SMALL, &peer);
    output.refused(&["Permission denied"]);
}

#[test]
fn every_mover_of_send_copies_arrives_by_a_command() {
    let Some(mut hosts) = Hosts::new() else {
        return;
    };
    let there = hosts.there.entered();
    every_mover_arrives(&mut hosts, &["--peer", &there, "--peer-program", PROGRAM]);
}

/// All movers of the study that work on this kernel, small and seldom: of each trial the bytes are
/// right, and both sides are read.
fn every_mover_arrives(hosts: &mut Hosts, peer: &[&str]) {
    hosts.place = Place::new();
    let asked = "send,send-fields,writev,sendmsg,send-zerocopy,read-write,sendfile,splice,vmsplice,uring-send,uring-send-zc";
    let words = format!(
        "run send-copies --mover {asked} --size 4KiB --pattern stream --threads 1 --receiver recv --budget 90s --blocks 6 --window 20ms --warmup 5ms --seed 7 --quiet"
    );
    hosts.call(&words, peer).measured();
    let survey = hosts.manifest().survey;
    let mut movers = BTreeSet::new();
    for (cell, sample) in hosts.place.samples() {
        if cell.transport != Transport::Peer {
            continue;
        }
        let truth = sample.truth.as_ref().unwrap();
        assert!(truth.sent_bytes > 0, "{}", sample.cell);
        assert_eq!(truth.sent_bytes, truth.received_bytes, "{}", sample.cell);
        let is_read = |readings: &Readings, counter| {
            let reading = readings.get(&counter).and_then(Reading::measured);
            assert!(reading.is_some(), "{counter:?} of {}", sample.cell);
        };
        is_read(&sample.sender.readings, Counter::CpuNs);
        is_read(&sample.receiver.as_ref().unwrap().readings, Counter::CpuNs);
        is_read(&sample.machine, Counter::TcpOutSegs);
        is_read(&sample.peer_machine, Counter::TcpOutSegs);
        movers.insert(cell.mover);
    }
    for mover in asked.split(',') {
        let refused = survey.mover_refused(mover, Transport::Peer);
        assert_eq!(
            movers.contains(mover),
            refused.is_none(),
            "{mover}: {refused:?}"
        );
    }
}

/// A network that goes away for good: the run ends with the finished trials, and continues later.
#[test]
fn a_link_that_stays_down_ends_the_run_with_what_it_has() {
    let Some(hosts) = Hosts::new() else { return };
    let Some(server) = SshServer::start(&hosts) else {
        return;
    };
    let words = SMALL
        .replace("--blocks 6", "--blocks 40")
        .replace("4s", "60s");
    let mut command = hosts.command(&words);
    command.args(server.peer());
    let mut run = hosts.place.start(&mut command);
    run.until("a few trials", || hosts.place.lines() >= 5);
    hosts.here.ip("link set card0 down");
    let end = run.end();
    assert_eq!(end.status, Some(1), "{}", end.stderr);
    // Before it come the trials that failed.
    let lines: Vec<&str> = end
        .stderr
        .lines()
        .filter(|l| !l.starts_with("failed: "))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("the other host was lost"), "{lines:?}");
    let before = hosts.place.read("samples.jsonl");
    assert!(hosts.crossed().len() >= 2);
    hosts.here.ip("link set card0 up");
    // However many blocks there were before the link was down.
    let last = hosts.crossed().iter().map(|s| s.trial.block).max().unwrap();
    let blocks = format!("--blocks {} --quiet", last.max(5) + 3);
    let more = hosts.place.resume(&blocks);
    let peer = server.peer();
    hosts
        .call(&more, &peer.each_ref().map(|word| &**word))
        .measured();
    let after = hosts.place.read("samples.jsonl");
    assert!(after.len() > before.len() && after.starts_with(&before));
    says(&hosts.place.call("runs").stdout, &["complete"]);
}

/// The user whose rights a process has.
fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn root_plays_the_other_host_as_nobody() {
    let Some(hosts) = Hosts::new() else { return };
    let pid_file = hosts.place.path().join("pid");
    let peer = format!(
        r#"sh -c 'echo $$ > {}; exec {} "$@"' sh"#,
        pid_file.display(),
        hosts.there.entered()
    );
    let mut command = hosts.command(
        "run --mover null,send --size 4KiB --budget 60s --precision 0.1% --window 300ms --quiet",
    );
    command.args(["--peer", &peer, "--peer-program", PROGRAM]);
    let mut run = hosts.place.start(&mut command);
    let agent = || {
        fs::read_to_string(&pid_file)
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    };
    // The agent itself, and who plays a side for it.
    run.until("endpoints that are nobody's", || {
        let Some(agent) = agent() else { return false };
        let ends = crate::common::endpoints_of(agent);
        let all = ends.iter().chain([&agent]);
        !ends.is_empty() && all.copied().all(|pid| user_of(pid) == Some(65534))
    });
    run.interrupted();
}

// Invariant 9.
#[test]
fn who_interrupts_while_the_other_host_is_sought_leaves_nothing() {
    let place = Place::new();
    let pid_file = place.path().join("pid");
    let peer = format!("sh -c 'echo $$ > {}; exec sleep 600'", pid_file.display());
    let mut command = place.bytecost("run send-copies --quiet");
    let mut run = place.start(command.args(["--peer", &peer]));
    let pid = || {
        fs::read_to_string(&pid_file)
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    };
    run.until("the command", || pid().is_some());
    assert_eq!(run.interrupted().stderr.trim(), "interrupted");
    let left = format!("/proc/{}", pid().unwrap());
    assert!(!Path::new(&left).exists(), "the command is still there");
    assert!(!place.runs().exists() || place.all_runs().is_empty());
}

#[test]
fn what_is_no_peer_is_said_in_one_line() {
    let place = Place::new();
    let check = |words: &[&str], why: &str| {
        let mut command = place.bytecost("run send-copies --quiet");
        ended(command.args(words)).refused(&[why]);
    };
    check(&["--peer", "'open"], "a quote is open");
    let zeros = "head -c 64 /dev/zero --";
    let program = ["--peer", zeros, "--peer-program", "/dev/zero"];
    check(&program, "peer ");
    place.refuses(
        "run send-copies --quiet",
        &format!(
            "--peer no-such-command-here => cannot be started
            --peer ssh: => write ssh:
            --peer env --peer-program /no/such => use --copy-program
            --peer echo => the command ended with status 0; it printed `
            --reverse => --peer
            --transport peer => name it with --peer
            --peer env --peer-program {PROGRAM} --mover null,send --transport unix => do not cross a network"
        ),
    );
}

#[test]
fn without_a_word_the_agent_ends() {
    Place::new().call("agent").succeeded();
}

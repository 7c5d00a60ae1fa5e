//! What goes wrong between two hosts, and what is said and left of it.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytecost_lab::peer::{PeerCommand, PeerLink, PeerOptions};
use bytecost_lab::trial::Settings;
use bytecost_spec::{Axis, Counter, PeerSide, Reading};
use libtest_mimic::{Failed, Trial};
use rustix::process::Signal;

use super::{
    NO_STOP, SOON, Way, arrives, cell, ensure, meanwhile, sample, settings, signal, trial,
};

pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result<(), Failed>| Trial::test(name, test);
    vec![
        trial(
            "who answers no word of bytecost is told in one line",
            no_word,
        ),
        // Invariant 9.
        trial(
            "an agent that is killed costs its trial alone, and is sought again",
            killed_agent,
        ),
        trial(
            "an agent that stops to speak costs its trial alone",
            stopped_agent,
        ),
        trial(
            "an endpoint that is lost there fails the trial alone",
            lost_endpoint,
        ),
        trial(
            "an agent whose coordinator is gone ends, and all it started",
            lost_coordinator,
        ),
        trial("strangers at the data ports lose no trial", strangers),
        trial(
            "a program that is not there is put there and gone again",
            copied,
        ),
        trial("a peer that is gone for good is told", gone_for_good),
        trial("a trial has few words that wait for an answer", round_trips),
    ]
}

fn refused(prefix: &str) -> Result<String, Failed> {
    let options = PeerOptions {
        // What follows the program stays there.
        command: PeerCommand::parse(prefix, "bytecost-that-nobody-has").unwrap(),
        address: None,
        data_from_here: false,
        copy_program: false,
        side: PeerSide::Receiver,
    };
    match PeerLink::open(&options, &NO_STOP) {
        Ok(_) => Err("it was reached".into()),
        Err(e) => Ok(e.to_string()),
    }
}

fn no_word() -> Result<(), Failed> {
    let hello = r#"{"hello":{"version":1,"build":"another"}}"#;
    let hello = format!(
        r"sh -c 'printf \\{:03o}\\0\\0\\0; echo -n {}; sleep 60'",
        hello.len(),
        hello.replace('"', "\\\"")
    );
    for (prefix, part) in [
        ("env", "not there"),
        ("/nonexistent/ssh", "cannot be started"),
        (
            "sh -c 'echo no route to host >&2; exit 255'",
            "status 255 (no route to host)",
        ),
        (
            "sh -c 'echo Welcome to db7; sleep 60'",
            "not bytecost's: Welcome to db7",
        ),
        (
            r"sh -c 'printf \\377\\0\\0\\0; while sleep 1; do printf x; done'",
            "no response within 10s",
        ),
        ("sh -c 'sleep 60'", "no response within 10s"),
        (&hello, "another build (another)"),
        (
            r#"sh -c 'echo "error: unrecognized subcommand agent" >&2; exit 2'"#,
            "too old to know `agent`",
        ),
    ] {
        let why = refused(prefix)?;
        ensure(why.contains(part) && !why.contains('\n'), || {
            format!("{prefix}: {why}")
        })?;
    }
    Ok(())
}

/// Settings with a window that is long enough for something to happen in it.
fn long() -> Settings {
    Settings {
        window: Duration::from_secs(2),
        ..settings()
    }
}

/// What is said of a trial in which something is done to the process of that name.
fn disturbed(word: &str, with: Signal, expected: &str) -> Result<(), Failed> {
    let way = Way::default();
    let mut lab = way.lab(long())?;
    let cell = cell(&[]);
    let (done, failed) = meanwhile(
        |_| -> Result<(), Failed> {
            way.program.process("endpoint")?;
            signal(way.program.process(word)?, with);
            Ok(())
        },
        || trial(&mut lab, &cell),
    );
    done?;
    let Err(failure) = failed else {
        return Err("a trial without its other side gave a sample".into());
    };
    ensure(failure.reason.contains(expected), || failure.reason.clone())?;
    // The next one is whole again.
    arrives(&mut lab, &cell)?;
    drop(lab);
    if with == Signal::STOP {
        for (pid, _) in way.program.processes() {
            signal(pid, Signal::CONT);
        }
    }
    way.program.are_gone()
}

fn killed_agent() -> Result<(), Failed> {
    disturbed("agent", Signal::KILL, "is gone")
}

fn stopped_agent() -> Result<(), Failed> {
    disturbed("agent", Signal::STOP, "no response within 3s")
}

fn lost_endpoint() -> Result<(), Failed> {
    disturbed("endpoint", Signal::KILL, "signal 9")
}

/// Closing the channel is all that a coordinator that is killed can do.
fn lost_coordinator() -> Result<(), Failed> {
    use std::process::{Command, Stdio};
    let way = Way::default();
    let mut child = Command::new(&way.program.path)
        .arg("agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    way.program.process("agent")?;
    drop(child.stdin.take());
    child.wait()?;
    way.program.are_gone()
}

/// They say nothing, a part, or too much, and stay; on one host and between two.
fn strangers() -> Result<(), Failed> {
    let held = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = held.local_addr()?.port();
    drop(held);
    let way = Way {
        address: Some("127.0.0.1"),
        ..Way::default()
    };
    let mut lab = way.lab(Settings {
        port: Some(port),
        ..settings()
    })?;
    let (came, done) = meanwhile(
        |over| {
            let mut came = VecDeque::new();
            let mut number = 0_usize;
            while !over.load(Ordering::Relaxed) {
                for say in [&b""[..], b"x", &[7; 64]] {
                    if let Ok(mut stranger) = TcpStream::connect(("127.0.0.1", port)) {
                        let _ = stranger.write_all(say);
                        came.push_back(stranger);
                        number += 1;
                    }
                }
                came.drain(..came.len().saturating_sub(200));
                std::thread::sleep(Duration::from_micros(200));
            }
            number
        },
        || -> Result<u64, Failed> {
            let mut dropped = 0;
            for transport in ["peer", "loopback"].repeat(5) {
                let cell = cell(&[(Axis::Threads, "2"), (Axis::Transport, transport)]);
                let sample = sample(&mut lab, &cell)?;
                let counted = sample.machine.get(&Counter::StrangersDropped);
                dropped += counted.and_then(Reading::measured).unwrap_or(0);
            }
            Ok(dropped)
        },
    );
    println!(
        "{came} strangers connected, {} were turned away in time",
        done?
    );
    Ok(())
}

fn copied() -> Result<(), Failed> {
    let way = Way::default();
    let temp = tempfile::tempdir()?;
    let prefix = format!("env TMPDIR={}", temp.path().display());
    let options = PeerOptions {
        command: PeerCommand::parse(&prefix, "bytecost-that-nobody-has").unwrap(),
        copy_program: true,
        ..way.options()
    };
    let link = PeerLink::open(&options, &NO_STOP).map_err(|e| e.to_string())?;
    let left = || fs::read_dir(temp.path()).map(|all| all.count());
    ensure(left()? == 0, || "the copy is still there".into())?;
    let lab = bytecost_lab::Lab::new(settings(), bytecost_meter::MachineMeter::open("/".as_ref()));
    let mut lab = lab.with_peer(link);
    arrives(&mut lab, &cell(&[]))?;
    Ok(())
}

fn gone_for_good() -> Result<(), Failed> {
    let way = Way::default();
    let mut lab = way.lab(settings())?;
    arrives(&mut lab, &cell(&[]))?;
    let agent = way.program.process("agent")?;
    fs::remove_file(&way.program.path)?;
    signal(agent, Signal::KILL);
    let until = Instant::now() + SOON;
    let key = bytecost_spec::TrialKey {
        block: 0,
        cell: 0,
        attempt: 0,
    };
    while lab.lost_peer().is_none() {
        ensure(Instant::now() < until, || "it was never told".into())?;
        let _ = lab.trial(key, &cell(&[]), &NO_STOP);
    }
    let why = lab.lost_peer().unwrap_or_default();
    ensure(why.contains("could not be reached again"), || {
        why.to_owned()
    })
}

/// A word that waits for its answer costs a trial a round trip. How many there are is the same on
/// every machine, and what they cost `make bench` tells.
fn round_trips() -> Result<(), Failed> {
    for side in [PeerSide::Receiver, PeerSide::Sender] {
        for (values, most) in [
            (&[][..], 4),
            (&[(Axis::Pattern, "ask"), (Axis::Size, "256")][..], 4),
            (&[(Axis::Size, "64MiB"), (Axis::Ring, "message")][..], 5),
            (
                &[
                    (Axis::Server, "epoll"),
                    (Axis::Connections, "4"),
                    (Axis::Size, "100"),
                ][..],
                4,
            ),
        ] {
            let dir = tempfile::tempdir()?;
            let said = dir.path().join("said");
            let mut way = Way {
                side,
                address: Some("127.0.0.1"),
                ..Way::default()
            };
            let own = way.program.path.display();
            way.prefix = format!("{own} relay {}", said.display());
            let mut lab = way.lab(settings())?;
            for _ in 0..2 {
                sample(&mut lab, &cell(values))?;
            }
            drop(lab);
            way.program.are_gone()?;
            let said = fs::read_to_string(said)?;
            let trials: Vec<&str> = said.split("> start\n").skip(1).collect();
            ensure(trials.len() == 2, || said.clone())?;
            for trial in trials {
                let words: Vec<&str> = trial.lines().collect();
                let turns = words.windows(2);
                let turns = turns.filter(|w| w[0].starts_with('>') && w[1].starts_with('<'));
                let turns = turns.count();
                ensure(turns <= most, || {
                    format!("{side:?} there, {values:?}: {turns} round trips: {words:?}")
                })?;
            }
        }
    }
    Ok(())
}

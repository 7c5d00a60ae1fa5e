//! Faults between two hosts, with their messages and what they leave behind.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_lab::peer::{PeerCommand, PeerLink, PeerOptions};
use bytecost_lab::settings::Settings;
use bytecost_spec::sample::Block;
use bytecost_spec::{Counter, TrialKey};
use bytecost_sys::tcp;
use libtest_mimic::Trial;
use rustix::net::{SocketFlags, bind, getsockname, sockopt};
use rustix::process::Signal;

use super::{
    NO_STOP, SIDES, Way, arrives, case, cell, in_time, lab, meanwhile, read, sample, settings,
    signal, trial_in,
};

pub fn trials() -> Vec<Trial> {
    vec![
        case("an answer that is none of bytecost's is reported", no_word),
        // Invariant 9.
        case("an agent that is killed costs its trial alone", || {
            disturbed("agent", Signal::KILL, "is gone");
        }),
        case("an agent that stops to speak costs its trial alone", || {
            disturbed("agent", Signal::STOP, "no response within 3s");
        }),
        case("an endpoint that is lost there fails it alone", || {
            disturbed("endpoint", Signal::KILL, "SIGKILL");
        }),
        case("an observer that is lost there fails it alone", || {
            disturbed("observer", Signal::KILL, "SIGKILL");
        }),
        case("an agent without a coordinator ends", lost_coordinator),
        case("strangers at the data ports lose no trial", strangers),
        case("a program is put there and gone again", copied),
        case(
            "a copy that is interrupted leaves nothing",
            copy_interrupted,
        ),
        case("a peer that is gone for good is reported", gone_for_good),
        case("a trial has few words that wait for an answer", round_trips),
    ]
}

/// One whose program nobody has: what follows it stays there.
fn without_program(prefix: &str, copy_program: bool) -> PeerOptions {
    PeerOptions {
        command: PeerCommand::parse(prefix, "bytecost-that-nobody-has").unwrap(),
        copy_program,
        ..Way::default().options()
    }
}

fn no_word() {
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
            "it printed `Welcome to db7`",
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
        let refused = PeerLink::open(&without_program(prefix, false), &NO_STOP).unwrap_err();
        let why = refused.to_string();
        assert!(why.contains(part) && !why.contains('\n'), "{prefix}: {why}");
    }
}

/// The failure of a trial in which something is done to the process of that name.
fn disturbed(word: &str, with: Signal, expected: &str) {
    let way = Way::default();
    let mut lab = way.lab(settings());
    let cell = cell("");
    // A window of 30 s, so that a busy machine does it in time: the trial ends with it.
    lab.resume(&Block {
        longer: [(cell.id(), 1500)].into(),
        ..Block::default()
    });
    let ((), failed) = meanwhile(
        |_| {
            way.program.process("endpoint");
            signal(way.program.process(word), with);
        },
        || trial_in(&mut lab, &cell),
    );
    let reason = failed.unwrap_err().reason;
    assert!(reason.contains(expected), "{reason}");
    // The next one, with a window of the usual length, is whole again.
    lab.resume(&Block::default());
    arrives(&mut lab, &cell);
    if with == Signal::STOP {
        for (pid, _) in way.program.processes() {
            signal(pid, Signal::CONT);
        }
    }
}

/// Closing the channel is all that a coordinator that is killed can do.
fn lost_coordinator() {
    let way = Way::default();
    let mut child = Command::new(&way.program.path)
        .arg("agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    way.program.process("agent");
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// They say nothing, a part, or too much, and stay; on one host and between two.
fn strangers() {
    // The port is given to nobody else while this is held, and listened at beside it.
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let held = tcp::socket(any, SocketFlags::empty()).unwrap();
    sockopt::set_socket_reuseaddr(&held, true).unwrap();
    bind(&held, &any).unwrap();
    let address = SocketAddr::try_from(getsockname(&held).unwrap());
    let port = address.unwrap().port();
    let way = Way {
        address: Some("127.0.0.1"),
        ..Way::default()
    };
    let mut lab = way.lab(Settings {
        port: Some(port),
        ..settings()
    });
    let (came, dropped) = meanwhile(
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
        || {
            let transports = ["peer", "loopback"].repeat(5).into_iter();
            let dropped = transports.map(|transport| {
                let cell = cell(&format!("threads=2 transport={transport}"));
                let sample = sample(&mut lab, &cell);
                read(&sample.machine, Counter::StrangersDropped).unwrap_or(0)
            });
            dropped.sum::<u64>()
        },
    );
    println!("{came} strangers connected, {dropped} were turned away in time");
}

fn copied() {
    let temp = tempfile::tempdir().unwrap();
    let prefix = format!("env TMPDIR={}", temp.path().display());
    let mut lab = lab(settings(), &without_program(&prefix, true));
    let left = fs::read_dir(temp.path()).unwrap().count();
    assert_eq!(left, 0, "the copy is still there");
    arrives(&mut lab, &cell(""));
}

fn copy_interrupted() {
    let temp = tempfile::tempdir().unwrap();
    let prefix = format!("env TMPDIR={}", temp.path().display());
    let stop = AtomicBool::new(false);
    let count = || fs::read_dir(temp.path()).unwrap().count();
    let (refused, ()) = meanwhile(
        |_| PeerLink::open(&without_program(&prefix, true), &stop).err(),
        || {
            in_time("it was never put there", || count() == 1);
            stop.store(true, Ordering::Relaxed);
        },
    );
    assert!(refused.unwrap().is_interruption());
    in_time("the copy is still there", || count() == 0);
}

fn gone_for_good() {
    let way = Way::default();
    let mut lab = way.lab(settings());
    arrives(&mut lab, &cell(""));
    let agent = way.program.process("agent");
    fs::remove_file(&way.program.path).unwrap();
    signal(agent, Signal::KILL);
    in_time("it was never reported", || {
        lab.lost_peer().is_some() || {
            let _ = lab.trial(TrialKey::default(), &cell(""), &NO_STOP);
            false
        }
    });
    let why = lab.lost_peer().unwrap();
    assert!(why.contains("could not be reached again"), "{why}");
}

/// A word that waits for its answer costs a round trip; their number is the same everywhere.
fn round_trips() {
    for side in SIDES {
        for (values, most) in [
            ("", 5),
            ("pattern=request-response size=256", 5),
            ("size=64MiB ring=message", 7),
            ("server=epoll connections=4 size=100", 5),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let said = dir.path().join("said");
            let mut way = Way {
                side,
                address: Some("127.0.0.1"),
                ..Way::default()
            };
            let own = way.program.path.display();
            way.prefix = format!("{own} relay {}", said.display());
            let mut lab = way.lab(settings());
            for _ in 0..2 {
                sample(&mut lab, &cell(values));
            }
            drop((lab, way));
            let said = fs::read_to_string(said).unwrap();
            let trials: Vec<&str> = said.split("> prepare\n").skip(1).collect();
            assert_eq!(trials.len(), 2, "{said}");
            for trial in trials {
                let words: Vec<&str> = trial.lines().collect();
                let is_turn = |w: &&[&str]| w[0].starts_with('>') && w[1].starts_with('<');
                let turns = words.windows(2).filter(is_turn).count();
                assert!(turns <= most, "{side:?} there, {values}: {words:?}");
            }
        }
    }
}

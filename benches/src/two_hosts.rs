//! `peer`: what a trial costs more whose other side plays on another host. The other host is a
//! network namespace, and the channel there goes through a relay that holds every word.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use bytecost_lab::peer::{PeerCommand, PeerLink, PeerOptions, agent};
use bytecost_lab::protocol::Role;
use bytecost_lab::transports::link::LinkChoice;
use bytecost_lab::transports::veth::VethPair;
use bytecost_spec::{Axis, Counter, Host, PeerSide, Reading, Survey};

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::ours::{self, Ours};
use crate::peer::Peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "peer",
    question: "What does a trial take longer whose other side is on another host, a round trip of 1 ms away?",
    target: "at most 30 ms more than a trial over veth",
    by_name_alone: false,
    run,
};

/// The delay of the relay, in each direction.
const HELD: Duration = Duration::from_micros(500);
const SIZE: (Axis, &str) = (Axis::Size, "64KiB");

fn run(context: &Context) -> Result<BenchOutcome> {
    let pair = match VethPair::new(LinkChoice::default()) {
        Ok(pair) => pair,
        Err(e) => return Ok(BenchOutcome::NotRun(e.to_string())),
    };
    let mut command = Command::new("sleep");
    command.arg("infinity").stdin(Stdio::null());
    pair.network(Role::Receiver).start_in(&mut command)?;
    let keeper = command.spawn().context("sleep cannot be started")?;
    let there = keeper.id();
    let _keeper = Peer::new("sleep", keeper);
    pair.network(Role::Sender)
        .within(|| measured(context, there))?
}

fn measured(context: &Context, there: u32) -> Result<BenchOutcome> {
    let path = std::env::current_exe()?;
    let program = path
        .to_str()
        .context("the path of this program is no text")?;
    let prefix = format!("nsenter --net=/proc/{there}/ns/net {program} relay");
    let options = PeerOptions {
        command: PeerCommand::parse(&prefix, program).map_err(|why| anyhow!(why))?,
        address: None,
        data_from_here: false,
        copy_program: false,
        side: PeerSide::Receiver,
    };
    let link = PeerLink::open(&options, &AtomicBool::new(false)).map_err(|e| anyhow!("{e}"))?;
    let ours = RefCell::new(Ours::new(context.window)?.with_peer(link));
    let trial_ms = |transport| -> Result<_> {
        let (ours, cell) = (&ours, ours::cell(&[(Axis::Transport, transport), SIZE])?);
        Ok(Subject::new(transport, move || {
            let began = Instant::now();
            let sample = ours.borrow_mut().trial(&cell)?;
            let took_ms = began.elapsed().as_secs_f64() * 1e3;
            // It lasts until the connections have stopped growing, which is no cost of a channel.
            let warmup = sample.machine.get(&Counter::WarmupNs);
            let warmup_ns = warmup.and_then(Reading::measured).unwrap_or(0);
            Ok(took_ms - warmup_ns as f64 / 1e6)
        }))
    };
    let subjects = vec![trial_ms("peer")?, trial_ms("veth")?];
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let mut notes = Vec::new();
    for (i, name) in ["peer", "veth"].into_iter().enumerate() {
        notes.push(format!(
            "{name}: a trial takes {:.1} ms, its window of {} ms included and its warm-up left out",
            blocks.typical(i, |ms| *ms),
            context.window.as_millis()
        ));
    }
    let others = ours.borrow().others();
    Ok(BenchOutcome::Ran(BenchResults {
        rows: vec![Row::difference(
            "a trial over peer more than veth, ms",
            blocks.difference(0, 1, |ms| *ms),
            Target::AtMost(30.0),
        )],
        notes,
        failures: blocks.failures,
        others: others.into_iter().collect(),
    }))
}

/// Plays the other host, as `bytecost agent` does.
///
/// # Errors
/// The answer of the channel.
pub fn play() -> Result<()> {
    let from = io::stdin().as_fd().try_clone_to_owned()?;
    let to = io::stdout().as_fd().try_clone_to_owned()?;
    agent::run(from, to, &|| (Host::default(), Survey::default()))?;
    Ok(())
}

/// Runs a command, and holds what goes there and what comes back.
///
/// # Errors
/// It cannot be started.
pub fn relay(mut words: impl Iterator<Item = OsString>) -> Result<()> {
    let program = words.next().context("relay needs a command")?;
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let (to, from) = to.zip(from).context("no pipes")?;
    held(io::stdin(), to);
    let _ = held(from, io::stdout()).join();
    child.wait()?;
    Ok(())
}

/// Copies bytes, each with the delay [`HELD`].
fn held(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> thread::JoinHandle<()> {
    let (queue, delayed) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let chunk = (Instant::now() + HELD, piece[..length].to_vec());
            if queue.send(chunk).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, piece) in delayed {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    })
}

//! `bare-c`: the CPU time of `send` relative to a bare C loop of the same call. `bare-file` drives
//! the same program with files.
//!
//! Both senders send to the same receiver, bytecost's own endpoint with its `recv`: the same
//! program, buffer and checks. The C program (`bare/send.c`) is given the same payload, ring,
//! socket options and schedule, and reads the same clocks at the edges of its window.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytecost_engine::PayloadPattern;
use bytecost_lab::flow_key::FlowKey;
use bytecost_lab::passes::Passes;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::{
    self, ConnectionSetup, ContentCheck, Done, FromEndpoint, LocalSettings, Role, Schedule, Task,
    ToEndpoint,
};
use bytecost_spec::{Axis, Cell, Counter, SideReadings, units};
use bytecost_sys::clock;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::ours::{self, Ours, WARMUP};
use crate::peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "bare-c",
    question: "What does `send` at 64 KiB cost its CPU above a bare C loop of the same call?",
    target: "CPU time per byte of the sender at most 2 % above",
    by_name_alone: false,
    run,
};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bare/send.c");
/// Messages of a whole file take seconds where the machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// From the order to go to the first byte, as in the lab.
const LEAD_NS: u64 = 500_000;

/// Throughput and CPU time of one run.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// CPU seconds of the sending thread per 10^9 bytes.
    pub sender_cpu_s_per_gb: f64,
    /// The same of the receiving one.
    pub receiver_cpu_s_per_gb: f64,
    /// Received bits over the window of the receiver.
    pub gbit_per_s: f64,
}

fn run(context: &Context) -> Result<BenchOutcome> {
    let compiler = match peer::version("cc", "gcc") {
        Ok(version) => version,
        Err(why) => return Ok(BenchOutcome::NotRun(why)),
    };
    let directory = tempfile::tempdir()?;
    let program = compile(directory.path())?;
    let (sender, receiver) = context.cpus;
    let cell = ours::cell(&[
        (Axis::Mover, "send"),
        (Axis::Receiver, "recv"),
        (Axis::Size, "64KiB"),
        (Axis::Placement, &format!("{sender}:{receiver}")),
    ])?;
    let ring = directory.path().join("ring");
    write_payload(&ring, &cell)?;
    let mut ours = Ours::new(context.window)?;
    let subjects = vec![
        Subject::new("send", || {
            let sample = ours.trial(&cell)?;
            sent(&sample.sender, ours::receiver(&sample)?)
        }),
        Subject::new("bare C", || bare(context, &program, &ring, &cell)),
    ];
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let ratio = |value: fn(&Sent) -> f64| blocks.log_ratio(0, 1, value);
    let note = |i: usize, name: &str| {
        format!(
            "{name}: {} Gbit/s, CPU {} + {} s/GB (sender + receiver)",
            units::number(blocks.typical(i, |s| s.gbit_per_s)),
            units::number(blocks.typical(i, |s| s.sender_cpu_s_per_gb)),
            units::number(blocks.typical(i, |s| s.receiver_cpu_s_per_gb)),
        )
    };
    Ok(BenchOutcome::Ran(BenchResults {
        rows: vec![
            Row::new(
                "64 KiB: CPU per byte, sender",
                ratio(|s| s.sender_cpu_s_per_gb),
                Target::AtMost(1.02),
            ),
            Row::new(
                "64 KiB: CPU per byte, both sides",
                ratio(|s| s.sender_cpu_s_per_gb + s.receiver_cpu_s_per_gb),
                Target::Shown,
            ),
            Row::new("64 KiB: throughput", ratio(|s| s.gbit_per_s), Target::Shown),
        ],
        notes: vec![
            format!("Peer: bare/send.c, cc -O2, {compiler}"),
            note(0, "send"),
            note(1, "bare C"),
        ],
        failures: blocks.failures,
        others: ours.others().into_iter().collect(),
    }))
}

/// Compiles the C program into a directory.
pub fn compile(directory: &Path) -> Result<PathBuf> {
    let program = directory.join("bare-send");
    let out = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(SOURCE)
        .output()?;
    ensure!(
        out.status.success(),
        "cc does not compile {SOURCE}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(program)
}

/// Writes one ring of the payload that flow 0 of bytecost sends from memory.
pub fn write_payload(path: &Path, cell: &Cell) -> Result<()> {
    const PIECE: u64 = 1 << 20;
    let period = cell.size_bytes * cell.ring_slots();
    let pattern = PayloadPattern::new(0, period);
    let mut file = File::create(path)?;
    for at in (0..period).step_by(PIECE as usize) {
        let mut piece = vec![0; usize::try_from(PIECE.min(period - at))?];
        pattern.fill(at, &mut piece);
        file.write_all(&piece)?;
    }
    Ok(())
}

/// Throughput and CPU time of a trial of bytecost.
pub fn sent(sender: &SideReadings, receiver: &SideReadings) -> Result<Sent> {
    Ok(Sent {
        sender_cpu_s_per_gb: ours::read(sender, Counter::CpuNs)?
            / ours::read(sender, Counter::Bytes)?,
        receiver_cpu_s_per_gb: receiver_cpu_s_per_gb(receiver)?,
        gbit_per_s: gbit_per_s(receiver)?,
    })
}

fn receiver_cpu_s_per_gb(receiver: &SideReadings) -> Result<f64> {
    Ok(ours::read(receiver, Counter::CpuNs)? / ours::read(receiver, Counter::Bytes)?)
}

fn gbit_per_s(receiver: &SideReadings) -> Result<f64> {
    Ok(ours::read(receiver, Counter::Bytes)? * 8.0 / ours::read(receiver, Counter::ElapsedNs)?)
}

/// One run of the C program, in the way of the cell's mover, against a fresh receiver of bytecost.
pub fn bare(context: &Context, program: &Path, ring: &Path, cell: &Cell) -> Result<Sent> {
    let key = FlowKey::new()?;
    let mut receiver = Receiver::start(cell, key)?;
    let mut sender = peer::start(
        peer::piped(program.to_str().context("the path is no text")?)
            .stdin(Stdio::piped())
            .args([&cell.mover, &receiver.port()?.to_string()])
            .args([&cell.congestion, &key.to_string()])
            .arg(cell.size_bytes.to_string())
            .arg(ring),
        context.cpus.0,
    )?;
    let stdout = sender.child().stdout.take().context("no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut line = || {
        lines
            .next()
            .context("bare C ended early")?
            .map_err(anyhow::Error::from)
    };
    let first = line()?;
    ensure!(first == "ready", "bare C: {first}");
    receiver.expect("ready", |a| matches!(a, FromEndpoint::Ready))?;
    let begin_ns = clock::monotonic_ns() + LEAD_NS;
    let window_from_ns = begin_ns + WARMUP.as_nanos() as u64;
    let schedule = Schedule {
        begin_ns,
        window_from_ns,
        window_to_ns: window_from_ns + context.window.as_nanos() as u64,
        steady_by_ns: None,
    };
    receiver.order(&ToEndpoint::Go(schedule))?;
    writeln!(
        sender.child().stdin.as_mut().context("no input")?,
        "{begin_ns} {window_from_ns} {}",
        schedule.window_to_ns
    )?;
    // Long messages are received in passes: the receiver reports when its window opens, and waits for the
    // order to end.
    let passes = Passes::new(cell).is_some();
    if passes {
        receiver.expect("opening", |a| matches!(a, FromEndpoint::Opening))?;
    }
    receiver.expect("closed", |a| matches!(a, FromEndpoint::Closed))?;
    if passes {
        receiver.order(&ToEndpoint::Stop)?;
    }
    let done = receiver.done()?;
    let [bytes, cpu_ns, _elapsed_ns, total_bytes] = four_numbers(&line()?)?;
    ensure!(
        done.total_bytes == [total_bytes] && done.compared_bytes > 0 && bytes > 0,
        "bare C sent {total_bytes} bytes, {:?} arrived, {} were compared",
        done.total_bytes,
        done.compared_bytes
    );
    ensure!(
        ours::read(&done.side, Counter::Bytes)? > 0.0,
        "no byte arrived within the window"
    );
    Ok(Sent {
        sender_cpu_s_per_gb: cpu_ns as f64 / bytes as f64,
        receiver_cpu_s_per_gb: receiver_cpu_s_per_gb(&done.side)?,
        gbit_per_s: gbit_per_s(&done.side)?,
    })
}

fn four_numbers(line: &str) -> Result<[u64; 4]> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(|w| w.parse().ok()).collect();
    numbers
        .and_then(|n| n.try_into().ok())
        .with_context(|| format!("bare C: {line}"))
}

/// bytecost's receiving endpoint, driven by its protocol.
struct Receiver {
    control: UnixStream,
    address: String,
    // Dropped last: ends the process where it has not ended by itself.
    _process: peer::Peer,
}

impl Receiver {
    fn start(cell: &Cell, key: FlowKey) -> Result<Receiver> {
        let (control, theirs) = UnixStream::pair()?;
        control.set_read_timeout(Some(PATIENCE))?;
        let program = Program::own()?;
        let mut command = program.command();
        command
            .arg("endpoint")
            .arg(std::process::id().to_string())
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = peer::Peer::new("the receiver", command.spawn()?);
        let mut receiver = Receiver {
            control,
            address: String::new(),
            _process: process,
        };
        receiver.order(&ToEndpoint::Prepare(Box::new(Task {
            role: Role::Receiver,
            cell: cell.clone(),
            connection: ConnectionSetup::Listen {
                at: None,
                port: None,
                from: None,
            },
            keys: vec![key],
            check: ContentCheck::Quick,
            min_messages: 0,
            timeout_ms: 5000,
            here: LocalSettings::default(),
        })))?;
        match receiver.answer()? {
            FromEndpoint::Listening { address, .. } => receiver.address = address,
            other => bail!("protocol error of the receiver: {other:?}"),
        }
        Ok(receiver)
    }

    fn port(&self) -> Result<u16> {
        let (_, port) = self.address.rsplit_once(':').context("no port")?;
        Ok(port.parse()?)
    }

    fn order(&mut self, order: &ToEndpoint) -> Result<()> {
        Ok(protocol::write(&mut self.control, order)?)
    }

    fn answer(&mut self) -> Result<FromEndpoint> {
        match protocol::read(&mut self.control).context("the receiver is silent")? {
            FromEndpoint::Failed(reason) => bail!("receiver: {reason}"),
            answer => Ok(answer),
        }
    }

    fn expect(&mut self, what: &str, is_it: impl Fn(&FromEndpoint) -> bool) -> Result<()> {
        let answer = self.answer()?;
        ensure!(
            is_it(&answer),
            "the receiver should be {what}, but: {answer:?}"
        );
        Ok(())
    }

    fn done(&mut self) -> Result<Done> {
        match self.answer()? {
            FromEndpoint::Done(done) => Ok(*done),
            other => bail!("protocol error of the receiver: {other:?}"),
        }
    }
}

//! `iperf3`: bulk over loopback TCP, one flow.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytecost_spec::{Axis, Cell, Counter, Sample, units};
use serde_json::Value;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::ours::{self, Ours};
use crate::peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "iperf3",
    question: "Does `send` move as much as iperf3, for no more CPU time?",
    target: "throughput at least as high, CPU time per byte of both sides no higher",
    by_name_alone: false,
    run,
};

const SIZES: [&str; 2] = ["64KiB", "1MiB"];
const CONGESTION: &str = "cubic";

/// The bytes of one run, and their CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moved {
    gbit_per_s: f64,
    sender_cpu_s_per_gb: f64,
    receiver_cpu_s_per_gb: f64,
}

impl Moved {
    fn cpu_s_per_gb(&self) -> f64 {
        self.sender_cpu_s_per_gb + self.receiver_cpu_s_per_gb
    }
}

fn run(context: &Context) -> Result<BenchOutcome> {
    let version = match peer::version("iperf3", "iperf3") {
        Ok(version) => version,
        Err(why) => return Ok(BenchOutcome::NotRun(why)),
    };
    let mut found = BenchResults {
        notes: vec![format!("Peer: {version}")],
        ..BenchResults::default()
    };
    for size in SIZES {
        one_size(context, size, &mut found)?;
    }
    Ok(BenchOutcome::Ran(found))
}

fn one_size(context: &Context, size: &str, found: &mut BenchResults) -> Result<()> {
    let bytes = units::parse_bytes(size).map_err(anyhow::Error::msg)?;
    // iperf3 sends the same memory again and again, and so does a ring of exactly one message.
    // The default ring has rows of its own.
    let hot = cell(context, size, size)?;
    let usual = cell(
        context,
        size,
        &Cell::default().value(Axis::Ring).to_string(),
    )?;
    let same = hot.ring_slots() == usual.ring_slots();
    let ours = std::cell::RefCell::new(Ours::new(context.window)?);
    let mut subjects = vec![
        Subject::new("send", || moved(&ours.borrow_mut().trial(&hot)?)),
        Subject::new("iperf3", || theirs(context, bytes)),
    ];
    if !same {
        subjects.push(Subject::new("send, default ring", || {
            moved(&ours.borrow_mut().trial(&usual)?)
        }));
    }
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let words = units::bytes_in_words(bytes);
    let mut row = |of: usize, what: String, value: fn(&Moved) -> f64, target| {
        let ratio = blocks.log_ratio(of, 1, value);
        found.rows.push(Row::new(what, ratio, target));
    };
    row(
        0,
        format!("{words}: throughput"),
        |m| m.gbit_per_s,
        Target::AtLeast(1.0),
    );
    row(
        0,
        format!("{words}: CPU per byte, both sides"),
        Moved::cpu_s_per_gb,
        Target::AtMost(1.0),
    );
    if !same {
        row(
            2,
            format!("{words}, default ring: throughput"),
            |m| m.gbit_per_s,
            Target::Shown,
        );
        row(
            2,
            format!("{words}, default ring: CPU per byte"),
            Moved::cpu_s_per_gb,
            Target::Shown,
        );
    }
    let names: &[&str] = &["send", "iperf3", "send with its default ring"];
    for (i, name) in names.iter().enumerate().take(blocks.whole[0].len()) {
        found.notes.push(format!(
            "{words}, {name}: {} Gbit/s, CPU {} + {} s/GB (sender + receiver)",
            units::number(blocks.typical(i, |m| m.gbit_per_s)),
            units::number(blocks.typical(i, |m| m.sender_cpu_s_per_gb)),
            units::number(blocks.typical(i, |m| m.receiver_cpu_s_per_gb)),
        ));
    }
    found.others.extend(ours.borrow().others());
    found.failures.extend(blocks.failures);
    Ok(())
}

fn cell(context: &Context, size: &str, ring: &str) -> Result<Cell> {
    let (sender, receiver) = context.cpus;
    ours::cell(&[
        (Axis::Mover, "send"),
        (Axis::Receiver, "recv"),
        (Axis::Size, size),
        // iperf3 reads as much at a time as it writes.
        (Axis::ReadSize, size),
        (Axis::Ring, ring),
        (Axis::Congestion, CONGESTION),
        (Axis::Placement, &format!("{sender}:{receiver}")),
    ])
}

fn moved(sample: &Sample) -> Result<Moved> {
    let (sender, receiver) = (&sample.sender, ours::receiver(sample)?);
    let received = ours::read(receiver, Counter::Bytes)?;
    Ok(Moved {
        gbit_per_s: received * 8.0 / ours::read(receiver, Counter::ElapsedNs)?,
        sender_cpu_s_per_gb: ours::read(sender, Counter::CpuNs)?
            / ours::read(sender, Counter::Bytes)?,
        receiver_cpu_s_per_gb: ours::read(receiver, Counter::CpuNs)? / received,
    })
}

/// One run of fresh iperf3 processes. It omits no second and has no warm-up.
fn theirs(context: &Context, bytes: u64) -> Result<Moved> {
    let port = peer::free_port()?;
    let (sender, receiver) = context.cpus;
    let mut server = peer::start(
        peer::silent("iperf3").args(["-s", "-1", "-B", "127.0.0.1", "-p", &port.to_string()]),
        receiver,
    )?;
    peer::wait_for_listener(port, &mut server)?;
    let seconds = context.window_s();
    let client = peer::start(
        peer::piped("iperf3")
            .args(["-c", "127.0.0.1", "-p", &port.to_string()])
            .args(["-l", &bytes.to_string(), "-C", CONGESTION])
            .args(["-t", &seconds.to_string(), "-J"]),
        sender,
    )?;
    let said = client.finish(Duration::from_secs(seconds + 10))?;
    parse(&said)
}

/// Reads its JSON. Its percentages are of its own elapsed time, which is the duration and some ms
/// of set-up, so that the CPU time is low by as much.
fn parse(output: &str) -> Result<Moved> {
    let report: Value = serde_json::from_str(output).context("iperf3 did not answer in JSON")?;
    let number = |path: &str| {
        report
            .pointer(path)
            .and_then(Value::as_f64)
            .filter(|n| *n > 0.0)
            .with_context(|| match report["error"].as_str() {
                Some(error) => format!("iperf3: {error}"),
                None => format!("iperf3's answer has no {path}"),
            })
    };
    let (sent, received) = (
        number("/end/sum_sent/bytes")?,
        number("/end/sum_received/bytes")?,
    );
    let sent_s = number("/end/sum_sent/seconds")?;
    let received_s = number("/end/sum_received/seconds")?;
    let percent = |side: &str| number(&format!("/end/cpu_utilization_percent/{side}_total"));
    Ok(Moved {
        gbit_per_s: received * 8.0 / received_s / 1e9,
        sender_cpu_s_per_gb: percent("host")? / 100.0 * sent_s / sent * 1e9,
        receiver_cpu_s_per_gb: percent("remote")? / 100.0 * received_s / received * 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_answer_is_read_in_our_units() {
        let said = r#"{"end": {
            "sum_sent": {"bytes": 8000000000, "seconds": 1.0},
            "sum_received": {"bytes": 4000000000, "seconds": 0.5},
            "cpu_utilization_percent": {"host_total": 80.0, "remote_total": 40.0}}}"#;
        assert_eq!(
            parse(said).unwrap(),
            Moved {
                gbit_per_s: 64.0,
                sender_cpu_s_per_gb: 0.1,
                receiver_cpu_s_per_gb: 0.05,
            }
        );
    }

    #[test]
    fn its_error_is_ours() {
        let error = |said| parse(said).unwrap_err().to_string();
        let refused = error(r#"{"error": "unable to connect"}"#);
        assert!(refused.contains("unable to connect"), "{refused}");
        assert!(error(r#"{"end": {}}"#).contains("/end/sum_sent/bytes"));
        assert!(error("iperf3: busy").contains("JSON"));
    }
}

//! `sockperf`: a small message, its answer, and so on.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytecost_spec::{Axis, Counter, units};

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::ours::{self, Ours};
use crate::peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "sockperf",
    question: "Do requests of 64 bytes get as many responses a second as with sockperf's ping-pong over TCP?",
    target: "rate at least as high",
    by_name_alone: false,
    run,
};

const SIZE: &str = "64";

fn run(context: &Context) -> Result<BenchOutcome> {
    let version = match peer::version("sockperf", "sockperf") {
        Ok(version) => version,
        Err(why) => return Ok(BenchOutcome::NotRun(why)),
    };
    let mut found = BenchResults {
        notes: vec![format!("Peer: {version}")],
        ..BenchResults::default()
    };
    let (a, b) = context.cpus;
    let placements = if a == b {
        vec![(a, a)]
    } else {
        vec![(a, b), (a, a)]
    };
    for (sender, receiver) in placements {
        one_placement(context, sender, receiver, &mut found)?;
    }
    Ok(BenchOutcome::Ran(found))
}

fn one_placement(
    context: &Context,
    sender: u32,
    receiver: u32,
    found: &mut BenchResults,
) -> Result<()> {
    let cell = ours::cell(&[
        (Axis::Pattern, "request-response"),
        (Axis::Mover, "send"),
        (Axis::Receiver, "recv"),
        (Axis::Size, SIZE),
        // sockperf cannot choose.
        (Axis::Congestion, "default"),
        (Axis::Placement, &format!("{sender}:{receiver}")),
    ])?;
    let mut ours = Ours::new(context.window)?;
    let subjects = vec![
        Subject::new("request-response", || {
            let sample = ours.trial(&cell)?;
            let messages = ours::read(&sample.sender, Counter::Messages)?;
            Ok(messages / ours::read(&sample.sender, Counter::ElapsedNs)? * 1e9)
        }),
        Subject::new("sockperf", || theirs(context, sender, receiver)),
    ];
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let place = if sender == receiver {
        format!("both on CPU {sender}")
    } else {
        format!("CPUs {sender} and {receiver}")
    };
    found.rows.push(Row::new(
        format!("{SIZE} B, {place}: rate"),
        blocks.log_ratio(0, 1, |rate| *rate),
        Target::AtLeast(1.0),
    ));
    found.notes.push(format!(
        "{place}: request-response {} a second, sockperf {}",
        units::number(blocks.typical(0, |rate| *rate)),
        units::number(blocks.typical(1, |rate| *rate)),
    ));
    found.others.extend(ours.others());
    found.failures.extend(blocks.failures);
    Ok(())
}

/// One run of fresh sockperf processes, in round trips a second. By default it does as this pattern
/// does: blocking sendto(2) and recvfrom(2), TCP_NODELAY on both ends, the server sends back the
/// whole message.
fn theirs(context: &Context, sender: u32, receiver: u32) -> Result<f64> {
    let port = peer::free_port()?.to_string();
    let address = ["--tcp", "-i", "127.0.0.1", "-p", &port];
    let mut server = peer::start(
        peer::silent("sockperf").arg("server").args(address),
        receiver,
    )?;
    peer::wait_for_listener(port.parse()?, &mut server)?;
    // It takes 0.4 s for its warm-up, and 50 ms at the end, out of the time that it is given.
    let seconds = context.window_s() + 1;
    let client = peer::start(
        peer::piped("sockperf")
            .arg("ping-pong")
            .args(address)
            .args(["-m", SIZE, "-t", &seconds.to_string()]),
        sender,
    )?;
    parse(&client.finish(Duration::from_secs(seconds + 10))?)
}

/// Its valid part, which leaves out the warm-up: messages received, which are whole round trips
/// (only its latencies are halves), over their time.
fn parse(output: &str) -> Result<f64> {
    let line = output
        .lines()
        .find(|l| l.contains("[Valid Duration]"))
        .context("sockperf reported no valid duration")?;
    let number = |key: &str| -> Option<f64> {
        let rest = &line[line.find(key)? + key.len()..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        rest[..end].parse().ok().filter(|n| *n > 0.0)
    };
    let no_rate = || format!("sockperf reported no rate: {line}");
    let received = number("ReceivedMessages=").with_context(no_rate)?;
    Ok(received / number("RunTime=").with_context(no_rate)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_rate_is_that_of_round_trips_in_the_valid_part() {
        let said = "sockperf: [Total Run] RunTime=1.001 sec; Warm up time=400 msec; SentMessages=1427; ReceivedMessages=1426\n\
            sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=835; ReceivedMessages=834\n";
        assert_eq!(parse(said).unwrap(), 1668.0);
    }

    #[test]
    fn an_answer_without_a_rate_is_an_error() {
        for said in [
            "",
            "[Valid Duration] RunTime=0.000 sec; SentMessages=0; ReceivedMessages=0",
            "[Valid Duration] nothing",
        ] {
            assert!(parse(said).is_err(), "{said}");
        }
    }
}

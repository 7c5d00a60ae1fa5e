//! `loop`: what the measuring loop itself costs.

use anyhow::Result;
use bytecost_spec::{Axis, Counter};

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::ours::{self, Ours};
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "loop",
    question: "What does the measuring loop itself cost, a message of `null` that moves nothing?",
    target: "at most 5 ns a message",
    by_name_alone: false,
    run,
};

struct Floor {
    cpu_ns: f64,
    elapsed_ns: f64,
}

fn run(context: &Context) -> Result<BenchOutcome> {
    let (sender, receiver) = context.cpus;
    let cell = ours::cell(&[
        (Axis::Mover, "null"),
        (Axis::Size, "64KiB"),
        (Axis::Placement, &format!("{sender}:{receiver}")),
    ])?;
    let mut ours = Ours::new(context.window)?;
    let subject = Subject::new("null", || {
        let sample = ours.trial(&cell)?;
        let messages = ours::read(&sample.sender, Counter::Messages)?;
        Ok(Floor {
            cpu_ns: ours::read(&sample.sender, Counter::CpuNs)? / messages,
            elapsed_ns: ours::read(&sample.sender, Counter::ElapsedNs)? / messages,
        })
    });
    let blocks = alternate(vec![subject], context.blocks, context.seed)?;
    Ok(BenchOutcome::Ran(BenchResults {
        rows: vec![
            Row::new(
                "null: CPU time a message, ns",
                blocks.log_value(0, |f| f.cpu_ns),
                Target::AtMost(5.0),
            ),
            Row::new(
                "null: elapsed time a message, ns",
                blocks.log_value(0, |f| f.elapsed_ns),
                Target::Shown,
            ),
        ],
        notes: Vec::new(),
        failures: blocks.failures,
        others: ours.others().into_iter().collect(),
    }))
}

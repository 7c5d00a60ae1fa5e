//! `bare-file`: throughput of `sendfile` and `splice` of a large file relative to a bare C
//! loop of the same calls.
//!
//! Both send a file of the same length out of the page cache of the same file system, to the same
//! receiver, bytecost's own endpoint. The C program is that of `bare-c`.

use std::cell::RefCell;
use std::path::Path;

use anyhow::Result;
use bytecost_lab::files::Files;
use bytecost_spec::{Axis, Cache, Cell, units};

use crate::bare_c::{Sent, bare, compile, sent, write_payload};
use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::blocks::{Subject, alternate};
use crate::ours::{self, Ours};
use crate::peer;
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "bare-file",
    question: "Do `sendfile` and `splice` send 1 GiB from the page cache as fast as a bare C loop of the same calls?",
    target: "throughput at least as high",
    by_name_alone: false,
    run,
};

const WAYS: [&str; 2] = ["sendfile", "splice"];
const FILE: &str = "1GiB";

fn run(context: &Context) -> Result<BenchOutcome> {
    let compiler = match peer::version("cc", "gcc") {
        Ok(version) => version,
        Err(why) => return Ok(BenchOutcome::NotRun(why)),
    };
    let directory = tempfile::tempdir()?;
    let program = compile(directory.path())?;
    let payload = directory.path().join("payload");
    write_payload(&payload, &cell(context, WAYS[0])?)?;
    let mut found = BenchResults {
        notes: vec![
            format!("Peer: bare/send.c, cc -O2, {compiler}"),
            format!("Files of {FILE} in {}", directory.path().display()),
        ],
        ..BenchResults::default()
    };
    for way in WAYS {
        one_way(
            context,
            way,
            (&program, &payload),
            directory.path(),
            &mut found,
        )?;
    }
    Ok(BenchOutcome::Ran(found))
}

fn cell(context: &Context, way: &str) -> Result<Cell> {
    let (sender, receiver) = context.cpus;
    ours::cell(&[
        (Axis::Mover, way),
        (Axis::Receiver, "recv"),
        (Axis::Size, FILE),
        (Axis::Ring, "message"),
        (Axis::Cache, "warm"),
        (Axis::Placement, &format!("{sender}:{receiver}")),
    ])
}

fn one_way(
    context: &Context,
    way: &str,
    (program, payload): (&Path, &Path),
    dir: &Path,
    found: &mut BenchResults,
) -> Result<()> {
    let cell = cell(context, way)?;
    // The C program sends the payload of senders from memory.
    let theirs = Cell {
        cache: Cache::Memory,
        ..cell.clone()
    };
    let files = Files::new(dir.to_owned(), None);
    let ours = RefCell::new(Ours::new(context.window)?.with_files(files));
    let subjects = vec![
        Subject::new(way, || {
            let sample = ours.borrow_mut().trial(&cell)?;
            sent(&sample.sender, ours::receiver(&sample)?)
        }),
        Subject::new("bare C", || bare(context, program, payload, &theirs)),
    ];
    let blocks = alternate(subjects, context.blocks, context.seed)?;
    let ratio = |value: fn(&Sent) -> f64| blocks.log_ratio(0, 1, value);
    found.rows.push(Row::new(
        format!("{way} of {FILE}: throughput"),
        ratio(|s| s.gbit_per_s),
        Target::AtLeast(1.0),
    ));
    found.rows.push(Row::new(
        format!("{way} of {FILE}: CPU per byte, sender"),
        ratio(|s| s.sender_cpu_s_per_gb),
        Target::Shown,
    ));
    for (i, name) in [way, "bare C"].iter().enumerate() {
        found.notes.push(format!(
            "{way}, {name}: {} Gbit/s, CPU {} + {} s/GB (sender + receiver)",
            units::number(blocks.typical(i, |s| s.gbit_per_s)),
            units::number(blocks.typical(i, |s| s.sender_cpu_s_per_gb)),
            units::number(blocks.typical(i, |s| s.receiver_cpu_s_per_gb)),
        ));
    }
    found.others.extend(ours.borrow().others());
    found.failures.extend(blocks.failures);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_a_mover_that_sends_from_a_file() {
        for way in WAYS {
            let row = bytecost_engine::Mover::named(way).unwrap();
            assert_eq!(row.route, bytecost_engine::Route::FileToSocket);
        }
    }
}

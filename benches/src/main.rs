//! Benchmarks of bytecost against other tools and against its own bounds. The programs of a bench
//! alternate within one run, in blocks of random order; results are ratios with intervals.
//! `benches/README.md` says how to read them.
//!
//! `bench.rs` is the table of benches, each of which is a file with a row and a function. `blocks.rs`
//! alternates the programs, `peer.rs` runs other tools, `ours.rs` makes trials of bytecost, and
//! `result.rs` compares with targets. No test looks at these numbers.
//!
//! The program starts itself in other roles: `endpoint PID` is one side of a trial, `serve MODEL PORT`
//! one of bytecost's servers, `agent` the other host of a run on two, and `relay COMMAND…` a
//! connection to it with a delay.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;

mod bare_c;
mod bare_file;
mod bench;
mod blocks;
mod clean_build;
mod fio;
mod iperf3;
mod kept;
mod loop_floor;
mod machine;
mod noise;
mod ours;
mod peer;
mod profiles;
mod reports;
mod result;
mod rounds;
mod servers;
mod sockperf;
mod synthetic;
mod truth;
mod two_hosts;

use bench::{Bench, BenchOutcome, Context};

/// Compares bytecost with its peers and with its own bounds.
#[derive(Debug, Parser)]
#[command(name = "bytecost-benches")]
struct Options {
    /// Names of benches; all but those that are run by name alone where there are none
    names: Vec<String>,
    /// Blocks: each runs every subject once, in random order
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    blocks: u32,
    /// Length of a measured window in ms; peers that only know whole seconds take the next
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(20..=60_000))]
    window: u64,
    /// Seed of the order within blocks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also time a clean build, which takes minutes
    #[arg(long)]
    build: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let succeeded = match words.get(1).map(String::as_str) {
        Some("endpoint") => endpoint(words.get(2)),
        Some("agent") => two_hosts::play().map(|()| true),
        Some("relay") => two_hosts::relay(std::env::args_os().skip(2)).map(|()| true),
        Some("serve") => servers::play(words.get(2), words.get(3)).map(|()| true),
        _ => run_benches(&Options::parse()),
    };
    match succeeded {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("bytecost-benches: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn endpoint(pid: Option<&String>) -> Result<bool> {
    let coordinator = pid
        .and_then(|p| p.parse().ok())
        .context("endpoint needs the process id of its coordinator")?;
    bytecost_lab::endpoint::run(io::stdin().as_fd().try_clone_to_owned()?, coordinator)?;
    Ok(true)
}

/// Runs the benches of the command line. Returns false if one of them, or a measurement, failed.
fn run_benches(options: &Options) -> Result<bool> {
    let chosen = bench::chosen(&options.names, options.build)?;
    let context = Context {
        blocks: options.blocks,
        window: Duration::from_millis(options.window),
        seed: options.seed,
        cpus: machine::two_cpus()?,
    };
    let (sender, receiver) = context.cpus;
    println!("{}", machine::describe());
    println!(
        "{} blocks, windows of {} ms, seed {}; sender on CPU {sender}, receiver on CPU {receiver}",
        context.blocks, options.window, context.seed
    );
    if sender == receiver {
        println!("Only one CPU may be used: senders and receivers share it.");
    }
    println!("Load before: {}\n", machine::load());
    let mut outcomes: Vec<(&Bench, Result<BenchOutcome>)> = Vec::new();
    for bench in chosen {
        println!("{}: {}", bench.name, bench.question);
        println!("  Target: {}.", bench.target);
        let outcome = (bench.run)(&context);
        print_notes(&outcome);
        outcomes.push((bench, outcome));
    }
    println!("{}", result::table(&outcomes));
    println!("Load after: {}", machine::load());
    Ok(!outcomes.iter().any(|(_, outcome)| has_failed(outcome)))
}

/// Returns false for a bench that cannot run on this machine, which is no failure.
fn has_failed(outcome: &Result<BenchOutcome>) -> bool {
    match outcome {
        Ok(BenchOutcome::Ran(results)) => !results.failures.is_empty(),
        Ok(BenchOutcome::NotRun(_)) => false,
        Err(_) => true,
    }
}

fn print_notes(outcome: &Result<BenchOutcome>) {
    match outcome {
        Ok(BenchOutcome::Ran(results)) => {
            for line in results.notes.iter().chain(&results.failures) {
                println!("  {line}");
            }
            for share in &results.others {
                println!(
                    "  Others used {:.0} % of the machine meanwhile.",
                    share * 100.0
                );
            }
        }
        Ok(BenchOutcome::NotRun(reason)) => println!("  not run: {reason}"),
        Err(e) => println!("  failed: {e:#}"),
    }
    println!();
}

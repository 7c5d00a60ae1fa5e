//! What bytecost must reach, beside its peers: alternating within one run, in blocks of random
//! order, with intervals. `benches/README.md` says how to read it.
//!
//! Called as `bytecost-benches endpoint PID` it plays one side of a trial, as the command does; as
//! `bytecost-benches serve MODEL PORT` it is one of bytecost's servers, as `bytecost-benches agent`
//! the other host of a run on two, and as `bytecost-benches relay COMMAND…` a slow way there.

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

use bench::{Bench, Context, Told};

/// Holds bytecost against its peers and its own bounds.
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
    let played = match words.get(1).map(String::as_str) {
        Some("endpoint") => endpoint(words.get(2)),
        Some("agent") => two_hosts::play().map(|()| true),
        Some("relay") => two_hosts::relay(std::env::args_os().skip(2)).map(|()| true),
        Some("serve") => servers::play(words.get(2), words.get(3)).map(|()| true),
        _ => benches(&Options::parse()),
    };
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("bytecost-benches: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn endpoint(parent: Option<&String>) -> Result<bool> {
    let parent = parent
        .and_then(|p| p.parse().ok())
        .context("endpoint needs the process id of its coordinator")?;
    bytecost_lab::endpoint::run(io::stdin().as_fd().try_clone_to_owned()?, parent)?;
    Ok(true)
}

/// Runs what was asked for; false when something failed to run.
fn benches(options: &Options) -> Result<bool> {
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
    let told: Vec<(&Bench, Result<Told>)> = chosen
        .into_iter()
        .map(|bench| {
            println!("{}: {}", bench.name, bench.question);
            println!("  Target: {}.", bench.target);
            let told = (bench.run)(&context);
            say(&told);
            (bench, told)
        })
        .collect();
    println!("{}", result::table(&told));
    println!("Load after: {}", machine::load());
    Ok(told.iter().all(|(_, t)| ran_through(t)))
}

fn ran_through(told: &Result<Told>) -> bool {
    match told {
        Ok(Told::Found(found)) => found.failures.is_empty(),
        Ok(Told::Missing(_)) => true,
        Err(_) => false,
    }
}

fn say(told: &Result<Told>) {
    match told {
        Ok(Told::Found(found)) => {
            for line in found.notes.iter().chain(&found.failures) {
                println!("  {line}");
            }
            for share in &found.others {
                println!(
                    "  Others used {:.0} % of the machine meanwhile.",
                    share * 100.0
                );
            }
        }
        Ok(Told::Missing(what)) => println!("  not run: {what}"),
        Err(e) => println!("  failed: {e:#}"),
    }
    println!();
}

//! The command: reads the command line, calls the crates, and prints.
//!
//! Each subcommand is a file in `commands`, with its options in `args`. A run goes from
//! `commands/run.rs` (study, survey, plan, manifest) to `campaign.rs` (trials, log, evidence), and a
//! run that is stored from `recorded_run.rs` to `commands/report.rs`. `failure.rs` has all ways in
//! which the command ends. It measures nothing itself, and no other crate prints. Start with
//! `commands/run.rs`.

mod args;
mod campaign;
mod commands;
mod failure;
mod history;
mod known;
mod machine;
mod machine_cache;
mod pinning;
mod progress;
mod published;
mod recorded_run;
mod signals;
mod studies;
mod terminal;

use std::io::{self, Write};
use std::process::ExitCode;

use bytecost_host::{Roots, limits};
use bytecost_spec::units;
use clap::error::ErrorKind;
use itertools::Itertools as _;

use args::{Cli, LiveCommand, Sub};
use failure::{BadInput, Exit, Interrupted, OutputFailed, bad_input};

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(failure::report_panic));
    if let Err(e) = signals::outlive_file_limit() {
        return fail(&e.into());
    }
    // Two endpoints are started for every trial, so they skip the checks that help a person.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|w| w == "endpoint") {
        return commands::endpoint::run(words.next());
    }
    if let Some(why) = limits::limit_too_small(&Roots::real()) {
        return fail(&bad_input(why));
    }
    let cli = match Cli::read(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(e) => return refuse(&e),
    };
    let ended = match cli.command {
        None => commands::run::run(cli.run),
        Some(Sub::Run(args)) => commands::run::run(*args),
        Some(Sub::Report(args)) => commands::report::run(args),
        Some(Sub::Explain(args)) => commands::report::explain(args),
        Some(Sub::Runs(args)) => commands::runs::run(&args),
        Some(Sub::List(args)) => commands::list::run(&args),
        Some(Sub::Doctor(args)) => commands::doctor::run(&args),
        Some(Sub::Ceiling(args)) => commands::run::ceiling(args),
        Some(Sub::Live(LiveCommand::Send(args))) => commands::live::send::run(*args),
        Some(Sub::Live(LiveCommand::Receive(args))) => commands::live::receive::run(*args),
        Some(Sub::Live(LiveCommand::Server(args))) => commands::live::server::run(args),
        Some(Sub::Live(LiveCommand::Load(args))) => commands::live::load::run(&args),
        Some(Sub::Profile(args)) => commands::profile::run(args),
        Some(Sub::Audit(args)) => commands::audit::run(&args),
        Some(Sub::Export(args)) => commands::export::run(&args),
        Some(Sub::Agent) => commands::agent::run(),
        Some(Sub::Completions { shell }) => commands::manual::completions(shell),
        Some(Sub::Man { out }) => commands::manual::page(out.as_deref()),
        Some(Sub::Schema { file }) => commands::manual::schema(file),
    };
    match ended {
        Ok(ending) => ending.code(),
        Err(e) => fail(&e),
    }
}

/// Prints an error of the command line in one line, or a help text as it is. Clap colours help on a
/// terminal alone.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(2);
    }
    if !error.use_stderr() {
        return match error.print().and_then(|()| io::stdout().flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => Exit::Done.code(),
        };
    }
    let text = error.render().to_string();
    let usage = text.lines().find_map(|l| l.trim().strip_prefix("Usage: "));
    let command = usage
        .unwrap_or("bytecost")
        .split(' ')
        .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .join(" ");
    let reason = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .join("; ")
        .replace(":;", ":")
        .replace("; tip: ", "; ");
    let reason = units::one_line(&reason);
    let _ = writeln!(io::stderr(), "{reason} (see `{command} --help`)");
    ExitCode::from(2)
}

/// Prints an error in one line and gives its exit status.
fn fail(error: &anyhow::Error) -> ExitCode {
    let output = error.downcast_ref::<OutputFailed>();
    if output.is_some_and(OutputFailed::is_reader_gone) {
        return Exit::Done.code();
    }
    if error.is::<Interrupted>() {
        let _ = writeln!(io::stderr(), "{error}");
        return Exit::Interrupted.code();
    }
    let reason = units::one_line(&format!("{error:#}"));
    let _ = writeln!(io::stderr(), "error: {reason}");
    let is_input = error
        .chain()
        .any(|e| e.is::<BadInput>() || e.is::<bytecost_store::StoreError>());
    ExitCode::from(if is_input { 2 } else { 1 })
}

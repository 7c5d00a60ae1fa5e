//! The command: reads the command line, joins the halves of the house, prints.

mod args;
mod campaign;
mod commands;
mod failure;
mod known;
mod machine;
mod pinning;
mod progress;
mod published;
mod recorded_run;
mod signals;
mod studies;
mod terminal;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Sub};
use failure::{BadInput, Exit};

fn main() -> ExitCode {
    if let Err(e) = signals::outlive_file_limit() {
        return fail(&e.into());
    }
    // Endpoints are started for every trial, so they skip all that a person needs.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|w| w == "endpoint") {
        return commands::endpoint::run(words.next());
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return refuse(&e),
    };
    let ended = match cli.command {
        None => commands::run::run(cli.run),
        Some(Sub::Run(args)) => commands::run::run(*args),
        Some(Sub::Ceiling(args)) => commands::ceiling::run(args),
        Some(Sub::Serve(args)) => commands::serve::run(*args),
        Some(Sub::Drive(args)) => commands::drive::run(*args),
        Some(Sub::Ask(args)) => commands::ask::run(&args),
        Some(Sub::Report(args)) => commands::report::run(args),
        Some(Sub::Audit(args)) => commands::audit::run(&args),
        Some(Sub::Export(args)) => commands::export::run(&args),
        Some(Sub::Import(args)) => commands::import::run(&args),
        Some(Sub::Explain(args)) => commands::explain::run(args),
        Some(Sub::Runs(args)) => commands::runs::run(&args),
        Some(Sub::List) => commands::list::run(),
        Some(Sub::Doctor(args)) => commands::doctor::run(&args),
        Some(Sub::Completions { shell }) => commands::manual::completions(shell),
        Some(Sub::Man) => commands::manual::page(),
        Some(Sub::Schema) => commands::manual::schema(),
    };
    match ended {
        Ok(ending) => ending.code(),
        Err(e) => fail(&e),
    }
}

/// What clap has to say in one line, or its help as it is.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match write!(io::stdout(), "{}", error.render().ansi())
            .and_then(|()| io::stdout().flush())
        {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => Exit::Done.code(),
        };
    }
    let text = error.render().to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| {
            !l.is_empty() && !l.starts_with("Usage:") && !l.starts_with("For more information")
        })
        .collect();
    let _ = writeln!(io::stderr(), "{} (see `bytecost --help`)", lines.join(" "));
    ExitCode::from(2)
}

/// An error in one line. A reader that closed its pipe has what it wanted.
fn fail(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(|e| {
        e.downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    }) {
        return Exit::Done.code();
    }
    let _ = writeln!(io::stderr(), "error: {error:#}");
    let is_input = error
        .chain()
        .any(|e| e.is::<BadInput>() || e.is::<bytecost_store::StoreError>());
    ExitCode::from(if is_input { 2 } else { 1 })
}

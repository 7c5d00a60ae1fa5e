//! The command line. The options of the axes come from the table of axes.

use std::path::PathBuf;
use std::time::Duration;

use bytecost_spec::axis::{AXES, AxisRow, ValueKind};
use bytecost_spec::evidence::Means;
use bytecost_spec::{Axis, units};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};

mod hand;
mod service;

pub use hand::{DriveArgs, NOT_BY_HAND, OutputArgs, ServeArgs, applies_by_hand};
pub use service::{AskArgs, ServedService, ServiceArgs};

/// What does it cost this machine to move a byte, which of the ways that Linux offers is best
/// here, from which size on, and why?
///
/// Without a command it runs the study `send-copies`, which takes about a minute and needs no
/// root.
#[derive(Debug, Parser)]
#[command(name = "bytecost", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Sub>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum Sub {
    /// Measure: a study by name, or one of your own from a file
    Run(Box<RunArgs>),
    /// Measure what this machine can copy and its disk gives, for reports to be held against
    Ceiling(CeilingArgs),
    /// By hand, until Ctrl-C: send to whoever drives, and show what it costs; or, with the name
    /// of a service, answer whoever asks
    ///
    /// Without a service this is the sending side of a session of messages, whose other side is
    /// `bytecost drive`. With one it is a server with the concurrency model of choice, whose
    /// clients are `bytecost ask`. Each service has options of its own: `bytecost serve top --help`.
    Serve(Box<ServeArgs>),
    /// By hand: receive from a server, and show what it costs, until Ctrl-C
    Drive(Box<DriveArgs>),
    /// By hand: ask a server, and show the answer, its latency and how many it gives
    Ask(Box<AskArgs>),
    /// Show a run again, and write its files anew
    Report(ReportArgs),
    /// Hold what others concluded against runs: holds, does not, for another reason, or open
    ///
    /// The claims are those of published/claims.toml, or of a file of your own; how to write one
    /// tells published/README.md. Tables that a file names are looked for beside it.
    Audit(AuditArgs),
    /// Write a run as CSV in the columns of a publication
    ///
    /// Only columns, names and order of the publication, so that its own scripts run on it: empty
    /// where something cannot be had, and no row for a cell that was not measured. Numbers are
    /// those of one window, the trimmed mean over trials. pa02-a: msg_size is the size of one of
    /// 8 fields; counters are the client's. pa02-b: msg_size is that of the message; counters are
    /// the server's. Throughput and latency (elapsed time over messages) are of the first client
    /// alone for a run with --as-published, as the programs print them, and of all otherwise.
    /// os-features: a row a trial, with the seconds that 1 GiB of a file or 10^9 steps of work
    /// take at its speed.
    Export(ExportArgs),
    /// Read a published CSV file as a run without trials, to compare and to plot
    Import(ImportArgs),
    /// Say why: questions about a run's results, each answered from it or told what is missing
    Explain(ExplainArgs),
    /// List the runs that are there
    Runs(RootArgs),
    /// List movers, receivers, transports and studies: what works here, and why not
    List,
    /// Look at this machine: what it means for results, and what to do
    Doctor(DoctorArgs),
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Print the JSON Schema of findings.json
    Schema,
}

#[derive(Debug, Args)]
pub struct RootArgs {
    /// Where runs are kept
    #[arg(
        long,
        value_name = "DIR",
        env = "BYTECOST_RUNS",
        default_value = "bytecost-runs"
    )]
    pub runs_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Remove what a killed run may have left on this machine, and say what that was
    #[arg(long)]
    pub clean: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run's name, or its directory; the newest where it is left out
    pub run: Option<String>,
    /// Print everything, not the first screen alone
    #[arg(long)]
    pub all: bool,
    /// An imported run whose published numbers are shown beside the measured ones, or the name of
    /// a publication that is built in: pa02-a, pa02-b, file-transfer, os-features
    #[arg(long, value_name = "RUN")]
    pub beside: Option<String>,
    #[command(flatten)]
    pub figures: FiguresArgs,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Runs by their names or directories, each claim settled by the first that can; the newest
    /// where they are left out
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Claims of your own, in the place of those that are built in
    #[arg(long, value_name = "FILE")]
    pub claims: Option<PathBuf>,
    /// Only the claims of this source, for example pa02-a
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run's name, or its directory
    pub run: String,
    /// pa02-a, pa02-b or os-features
    #[arg(long, value_name = "NAME")]
    pub layout: String,
    /// The file to write; standard output where it is left out
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The CSV file
    pub file: PathBuf,
    /// pa02-a, pa02-b or os-features
    #[arg(long, value_name = "NAME")]
    pub layout: String,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The run's name, or its directory; the newest where it is left out
    pub run: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct FiguresArgs {
    /// Write each figure as a file for a paper, and print the files' paths instead of the answer
    #[arg(long, value_name = "FORMAT")]
    pub figures: Option<FigureFormat>,
    /// Where to write them; `figures` in the run's directory where it is left out
    #[arg(long, value_name = "DIR", requires = "figures")]
    pub out: Option<PathBuf>,
}

/// What a figure is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FigureFormat {
    /// Lines and text, at any size
    Svg,
    /// Dots, three for each unit of the SVG
    Png,
}

#[derive(Debug, Args)]
pub struct CeilingArgs {
    /// Where test files are made: on the disk that is asked about; the system's directory of
    /// temporary files where it is left out
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Time that it may take, for example 60s or 5m
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Go on with a run that was ended early
    #[arg(long, value_name = "RUN", conflicts_with = "dir")]
    pub resume: Option<String>,
    /// Resume a run although machine, kernel, boot or build of bytecost changed: new blocks
    /// follow as a second leg, and reports say so
    #[arg(long, requires = "resume")]
    pub anyway: bool,
    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A study's name, or the path of a study file (*.toml)
    pub study: Option<String>,
    #[command(flatten)]
    pub axes: AxisArgs,
    /// Measure what a study's publication did, to the letter, in the place of the study's own design
    #[arg(long)]
    pub as_published: bool,
    /// Time that the run may take, for example 60s or 5m
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Stop when all intervals are this narrow, for example 3%
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, allow_hyphen_values = true)]
    pub precision: Option<f64>,
    /// Length of the measured window of a trial
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub window: Option<Duration>,
    /// Time before the window
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub warmup: Option<Duration>,
    /// Most blocks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=10_000))]
    pub blocks: Option<u32>,
    /// Seed of the order of trials
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// TCP port of the receivers; a free one where it is left out
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Where test files are made, for studies of files; the system's directory of temporary files
    /// where it is left out
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// A file to read in the place of bytecost's own; it is never written to
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Evidence to gather after the measuring, in trials of its own: copies (how often each byte is
    /// copied, and where), counts (calls, switches, faults and packets of a message), time (where
    /// the CPU time goes, by kind of work), footprint (what the sender displaces from its caches,
    /// by timing), or none; all but footprint need root. Of servers there are counts and time. Where
    /// it and the variable BYTECOST_EVIDENCE are left out: copies and counts, in a tenth of the
    /// budget, if permitted
    #[arg(long, value_name = "MEANS", value_delimiter = ',', value_parser = evidence)]
    pub evidence: Vec<WantedEvidence>,
    /// Go on with a run that was ended early
    #[arg(long, value_name = "RUN", conflicts_with = "study")]
    pub resume: Option<String>,
    /// Resume a run although machine, kernel, boot or build of bytecost changed: new blocks
    /// follow as a second leg, and reports say so
    #[arg(long, requires = "resume")]
    pub anyway: bool,
    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

/// A means of evidence that was named; none for `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedEvidence(pub Option<Means>);

/// A means of evidence by its name.
pub fn evidence(text: &str) -> Result<WantedEvidence, String> {
    let mut known = Means::ALL.iter().copied();
    match known.find(|m| m.name() == text) {
        Some(means) => Ok(WantedEvidence(Some(means))),
        None if text == "none" => Ok(WantedEvidence(None)),
        None => {
            let names: Vec<&str> = Means::ALL.iter().map(|m| m.name()).collect();
            Err(format!("choose from {}, none", names.join(", ")))
        }
    }
}

/// The values that were chosen for axes: one option a row of the table.
#[derive(Clone, Debug, Default)]
pub struct AxisArgs(pub Vec<(Axis, Vec<String>)>);

impl Args for AxisArgs {
    fn augment_args(mut command: Command) -> Command {
        for row in by_group() {
            let mut arg = axis_arg(row, "VALUES");
            if row.axis.is_switch() {
                arg = arg.help(format!("{}; `both` measures on and off", row.help));
            }
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The rows of the axes, one group after the other.
fn by_group() -> Vec<&'static AxisRow> {
    let mut rows: Vec<&AxisRow> = AXES.iter().collect();
    rows.sort_by_key(|row| row.group);
    rows
}

/// The option of an axis.
fn axis_arg(row: &AxisRow, value_name: &'static str) -> Arg {
    let arg = Arg::new(row.name)
        .long(row.name)
        .value_name(value_name)
        .help(row.help)
        .help_heading(row.group.heading())
        .allow_hyphen_values(true)
        .action(clap::ArgAction::Append);
    match row.kind {
        ValueKind::Lists => arg,
        _ => arg.value_delimiter(','),
    }
}

/// The values of an axis with lists: a piece that is a number goes on with the list before it.
fn split(text: &str) -> Vec<String> {
    let is_list = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    let mut values: Vec<String> = Vec::new();
    for piece in text.split(',') {
        let goes_on = piece.trim_start().starts_with(|c: char| c.is_ascii_digit());
        match values.last_mut() {
            Some(last) if goes_on && is_list(last) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => values.push(piece.to_owned()),
        }
    }
    values
}

impl FromArgMatches for AxisArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = AXES.iter().filter_map(|row| {
            let given = matches.get_many::<String>(row.name)?;
            let values: Vec<String> = match row.kind {
                ValueKind::Lists => given.flat_map(|text| split(text)).collect(),
                _ => given.cloned().collect(),
            };
            Some((row.axis, values))
        });
        Ok(AxisArgs(chosen.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lists_of_cpus_keep_their_commas() {
        for (text, values) in [
            ("free,same-cpu,0:1", &["free", "same-cpu", "0:1"][..]),
            ("0,2:1,3", &["0,2:1,3"]),
            ("0-1,4", &["0-1,4"]),
            ("0:1,free,2", &["0:1", "free", "2"]),
            (
                "idle,spin@2,3,chase@smt-sibling",
                &["idle", "spin@2,3", "chase@smt-sibling"],
            ),
            (
                "none,cpuset=0,2,max=5%+cpuset=1,3",
                &["none", "cpuset=0,2", "max=5%+cpuset=1,3"],
            ),
            ("", &[""]),
        ] {
            assert_eq!(split(text), values, "{text}");
        }
    }

    #[test]
    fn axes_are_options_with_and_without_the_word_run() {
        for words in [
            &["bytecost", "run", "--size", "64KiB,1MiB", "--mover=send"][..],
            &["bytecost", "--size", "64KiB,1MiB", "--mover=send"][..],
        ] {
            let cli = Cli::try_parse_from(words).unwrap();
            let run = match cli.command {
                Some(Sub::Run(run)) => *run,
                None => cli.run,
                other => panic!("{other:?}"),
            };
            assert_eq!(
                run.axes.0,
                [
                    (Axis::Mover, vec!["send".into()]),
                    (Axis::Size, vec!["64KiB".into(), "1MiB".into()])
                ]
            );
        }
    }
}

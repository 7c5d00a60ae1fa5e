//! The command line. The options of the axes come from the table of axes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bytecost_spec::evidence::Means;
use bytecost_spec::study::{MAX_PAUSE_MS, MAX_ROUNDS};
use bytecost_spec::units;
use clap::{
    Arg, ArgGroup, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
};
use itertools::Itertools as _;

mod axes;
mod live;
mod peer;
mod service;

pub use axes::{AxisArgs, NOT_LIVE, applies_live};
pub use live::{JoinArgs, OutputArgs, ReceiveArgs, SendArgs};
pub use peer::{DataFrom, PeerArgs};
pub use service::{LoadArgs, ServedService, ServiceArgs};

#[cfg(feature = "full")]
pub use clap_complete::Shell;
#[cfg(not(feature = "full"))]
pub type Shell = String;

/// Text under the help of bytecost without a subcommand.
const WITHOUT_A_COMMAND: &str = "\
Without a command, bytecost runs the study `send-copies`: about a minute, no root.
`bytecost run --help` shows all options of a run; they work without `run` as well.
Exit status: 0 with an answer; 1 where a cell has none, over 5 % of its trials failed, or the run
was interrupted; 2 for bad input; 130 after a second signal.";

/// The options that `bytecost --help` shows; the others are the same as those of `run`.
const SHOWN: &[&str] = &[
    "mover",
    "size",
    "quick",
    "budget",
    "precision",
    "quiet",
    "runs_dir",
];

/// Measure what it costs this machine to move a byte, and which of the ways of Linux is best
#[derive(Debug, Parser)]
#[command(
    name = "bytecost",
    version,
    args_conflicts_with_subcommands = true,
    after_help = WITHOUT_A_COMMAND
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Sub>,
    #[command(flatten)]
    pub run: RunArgs,
}

impl Cli {
    /// The command line as clap knows it.
    pub fn described() -> Command {
        let is_shown = |arg: &Arg| SHOWN.contains(&arg.get_id().as_str());
        Cli::command().mut_args(|arg| {
            if is_shown(&arg) {
                arg.help_heading(None::<&str>)
            } else {
                arg.hide(true)
            }
        })
    }

    /// Reads a command line, of which the first word is the program.
    pub fn read(words: Vec<OsString>) -> Result<Cli, clap::Error> {
        let mut matches = Cli::described().try_get_matches_from(words)?;
        Cli::from_arg_matches_mut(&mut matches)
    }
}

#[derive(Debug, Subcommand)]
pub enum Sub {
    /// Measure: a study by its name, or your own from a file
    Run(Box<RunArgs>),
    /// Show a run again, and write its files again
    Report(ReportArgs),
    /// Explain a run's results: why one way costs less than another
    Explain(ExplainArgs),
    /// List runs, and how much ratios differ from run to run on this machine
    Runs(RootArgs),
    /// List movers, transports, servers and studies, and what works on this machine
    List(ListArgs),
    /// Check this machine for anything that distorts results, with fixes
    Doctor(DoctorArgs),
    /// Measure this machine's copy and disk bandwidth: the upper bound that reports show
    Ceiling(CeilingArgs),
    /// Send, receive, serve or load-test until Ctrl-C, without statistics
    #[command(subcommand)]
    Live(LiveCommand),
    /// Profile a running program, or a command: how it moves its bytes, and what another way would save
    Profile(ProfileArgs),
    /// Check published claims with your runs: confirmed, refuted or undecided
    ///
    /// A claim is confirmed, refuted, confirmed for another reason, or undecided. The claims are
    /// those of published/claims.toml, or of your own file: published/README.md has the format.
    /// Paths in a file are relative to it.
    Audit(AuditArgs),
    /// Write a run as CSV in the columns of a publication
    ///
    /// The file has only the columns, names and order of the publication, so that its scripts run
    /// on it. A field is empty where a value is not available, and a cell that was not measured
    /// has no row. Numbers are those of one window, the trimmed mean over trials. pa02-a: msg_size
    /// is the size of one of 8 fields; counters are the client's. pa02-b: msg_size is that of the
    /// message; counters are the server's. With --as-published, throughput and latency (elapsed
    /// time over messages) are of the first client alone, as the programs print them, and else of
    /// all clients. os-features: a row is a trial, with the seconds for 1 GiB of a file or 10^9
    /// steps of work at its speed.
    Export(ExportArgs),
    /// Play one side of a run on two hosts: is started by `--peer` on the other host
    ///
    /// It speaks over its standard input and output with the bytecost that started it, starts the
    /// processes of each trial, and ends with them when that bytecost ends or is silent for 3 s.
    Agent,
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man {
        /// Write a page for each command into this directory instead
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Print the JSON Schema of findings.json, hosts.json or profile.json
    Schema {
        /// The file that it describes
        #[arg(value_enum, default_value_t)]
        file: SchemaFile,
    },
}

/// A file for programs.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum SchemaFile {
    /// The results of a run
    #[default]
    Findings,
    /// A table over hosts
    Hosts,
    /// A profile of a program
    Profile,
}

/// What runs until Ctrl-C, and stores nothing.
#[derive(Debug, Subcommand)]
pub enum LiveCommand {
    /// Send messages to `bytecost live receive`, and show this side's cost each second
    Send(Box<SendArgs>),
    /// Receive messages from `bytecost live send`, and show this side's cost each second
    Receive(Box<ReceiveArgs>),
    /// Serve many connections with the concurrency model of your choice
    #[command(subcommand)]
    Server(ServedService),
    /// Load-test a server and show its latency and throughput
    Load(Box<LoadArgs>),
}

/// Where runs are kept, unless the variable or the option says something else.
pub const RUNS_DIR: &str = "bytecost-runs";
pub const RUNS_VARIABLE: &str = "BYTECOST_RUNS";

#[derive(Debug, Default, Args)]
pub struct RootArgs {
    /// Where runs are kept
    #[arg(
        long,
        value_name = "DIR",
        env = RUNS_VARIABLE,
        default_value = RUNS_DIR
    )]
    pub runs_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Try everything again, instead of showing what was found since this boot
    #[arg(long)]
    pub fresh: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Remove what a killed run left on this machine, and show what that was
    #[arg(long)]
    pub clean: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

/// Text under the help of `profile`.
const PROFILED: &str = "\
Calls are counted at tracepoints of the kernel, for the process, its threads and all that it starts.
That needs root, or CAP_BPF and CAP_PERFMON; without it only what /proc reports is shown. It ends with
the program, with --for, or with Ctrl-C. A command that still runs then gets SIGTERM. The profile of a
command is printed to standard error, as its standard output is its own.";

#[derive(Debug, Args)]
#[command(after_help = PROFILED, group = ArgGroup::new("program").required(true).args(["pid", "command"]))]
pub struct ProfileArgs {
    /// A process that runs
    #[arg(long)]
    pub pid: Option<u32>,
    /// How long to look, for example 10s [default: until it ends, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub time: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub root: RootArgs,
    /// A command to start, after `--`
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run by its name or directory; several runs of one study, or directories of such, make one
    /// table over hosts [default: the newest]
    ///
    /// The host of a run is named by the directory that holds the run: `runs/db7/RUN` is of db7.
    /// Where a host has several runs, the newest stands in the table.
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Print everything, not the first screen alone
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Published numbers to show next to the measured ones: pa02-a, pa02-b, file-transfer or
    /// os-features
    #[arg(long, value_name = "NAME")]
    pub beside: Option<String>,
    /// Write each figure as a file for a paper, and print the files' paths instead of the answer
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    pub figures: Option<FigureFormat>,
    /// Where to write the report's files [default: the run's directory], figures [default: `figures` in
    /// it], or the table over hosts, as hosts.html, hosts.md, hosts.json and hosts.csv
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Runs by their names or directories; the first that can settles a claim [default: the newest]
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Your own claims, instead of those that are built in
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
    /// The run's name or directory
    pub run: String,
    /// pa02-a, pa02-b or os-features
    #[arg(long, value_name = "NAME")]
    pub layout: String,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The run's name or directory [default: the newest]
    pub run: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

/// What a figure is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FigureFormat {
    /// Lines and text, at any size
    Svg,
}

#[derive(Debug, Args)]
pub struct CeilingArgs {
    /// Where test files are made: on the disk to measure [default: the system's temporary directory]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub dir: Option<PathBuf>,
    /// Time to spend, for example 60s or 5m
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

/// What every command that measures takes.
#[derive(Debug, Default, Args)]
pub struct MeasuringArgs {
    /// Resume a run that ended early
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Resume although the machine, kernel, boot or build of bytecost changed: new blocks follow as
    /// a second leg, and reports state it
    #[arg(long, requires = "resume")]
    pub anyway: bool,
    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Neither use nor extend the history of rounds of this machine: how much ratios differ from run
    /// to run is then assumed
    #[arg(long)]
    pub no_history: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// A study's name, or the path of a study file (*.toml) [default: send-copies]
    #[arg(conflicts_with = "resume")]
    pub study: Option<String>,
    #[command(flatten)]
    pub axes: AxisArgs<{ axes::RUN }>,
    /// Measure for 15 s: 4 movers of `send-copies` at 3 sizes, which decides large differences alone
    #[arg(long, conflicts_with_all = ["resume", "as_published"])]
    pub quick: bool,
    /// Measure exactly what the study's publication did, instead of the study's own design
    #[arg(long)]
    pub as_published: bool,
    /// Time to spend, for example 60s or 5m
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Stop when all intervals are at most this wide, for example 3%
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, allow_hyphen_values = true)]
    pub precision: Option<f64>,
    /// Length of the measured window of a trial
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub window: Option<Duration>,
    /// Time before the window
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub warmup: Option<Duration>,
    /// Maximum number of blocks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=10_000))]
    pub blocks: Option<u32>,
    /// Number of rounds: groups of blocks with pauses between them, which show how much ratios differ
    /// from round to round. They share the budget; pauses are not part of it [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROUNDS)))]
    pub rounds: Option<u32>,
    /// Time between two rounds [default: 2min]
    #[arg(long, value_name = "TIME", requires = "rounds", value_parser = pause, allow_hyphen_values = true)]
    pub pause: Option<Duration>,
    /// Maximum number of times that a block is measured again since other processes used the CPUs
    /// [default: 2, in up to 10 % of the budget]
    #[arg(long, value_name = "N", env = "BYTECOST_REPEATS", hide_env_values = true, value_parser = clap::value_parser!(u32).range(..=10))]
    pub repeats: Option<u32>,
    /// Seed for the order of trials
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// TCP port of the receivers [default: a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Where test files are made, for studies of files [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// A file to read instead of bytecost's own; bytecost never writes to it
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Evidence to collect after measuring, in separate trials: copies (how often each byte is
    /// copied, and where), counts (calls, switches, faults and packets for each message), time
    /// (where the CPU time goes), footprint (what the sender evicts from its caches), or none. All
    /// but footprint need root; for servers there are counts and time
    /// [default: copies and counts, in up to 10 % of the budget in addition]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = evidence)]
    pub evidence: Vec<WantedEvidence>,
    #[command(flatten)]
    pub peer: PeerArgs,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

/// Parses a pause between two rounds, of an hour at most.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = units::parse_duration(text)?;
    let max = Duration::from_millis(MAX_PAUSE_MS);
    if pause.as_millis() == 0 || pause > max {
        let max = units::duration(max);
        return Err(format!("`{text}` is out of bounds: from 1ms to {max}"));
    }
    Ok(pause)
}

/// A value of `--evidence`; none for `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedEvidence(pub Option<Means>);

/// Parses one value of `--evidence`.
pub fn evidence(text: &str) -> Result<WantedEvidence, String> {
    let mut known = Means::ALL.iter().copied();
    match known.find(|m| m.name() == text) {
        Some(means) => Ok(WantedEvidence(Some(means))),
        None if text == "none" => Ok(WantedEvidence(None)),
        None => {
            let names = Means::ALL.iter().map(|m| m.name()).join(", ");
            Err(format!("choose from {names}, none"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_accepts_the_definition_of_the_command_line() {
        Cli::described().debug_assert();
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
            assert_eq!(axes::split(text), values, "{text}");
        }
    }
}

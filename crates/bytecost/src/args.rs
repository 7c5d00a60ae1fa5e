//! The command line. The options of the axes come from the table of axes.

use std::path::PathBuf;
use std::time::Duration;

use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, units};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};

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
    /// Show a run again, and write its files anew
    Report(ReportArgs),
    /// List the runs that are there
    Runs(RootArgs),
    /// List movers, receivers, transports and studies: what works here, and why not
    List,
    /// Look at this machine: what it means for results, and what to do
    Doctor,
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
pub struct ReportArgs {
    /// The run's name, or its directory; the newest where it is left out
    pub run: Option<String>,
    #[command(flatten)]
    pub root: RootArgs,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A study's name, or the path of a study file (*.toml)
    pub study: Option<String>,
    #[command(flatten)]
    pub axes: AxisArgs,
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
    /// Go on with a run that was ended early
    #[arg(long, value_name = "RUN", conflicts_with = "study")]
    pub resume: Option<String>,
    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub root: RootArgs,
}

/// The values that were chosen for axes: one option a row of the table.
#[derive(Clone, Debug, Default)]
pub struct AxisArgs(pub Vec<(Axis, Vec<String>)>);

impl Args for AxisArgs {
    fn augment_args(mut command: Command) -> Command {
        for row in AXES {
            let mut arg = Arg::new(row.name)
                .long(row.name)
                .value_name("VALUES")
                .help(row.summary)
                .allow_hyphen_values(true)
                .action(clap::ArgAction::Append);
            // A placement has commas of its own.
            if row.axis != Axis::Placement {
                arg = arg.value_delimiter(',');
            }
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AxisArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = AXES.iter().filter_map(|row| {
            let values: Vec<String> = matches.get_many::<String>(row.name)?.cloned().collect();
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

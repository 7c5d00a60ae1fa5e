//! The command line of `profile`.

use std::ffi::OsString;
use std::time::Duration;

use bytecost_spec::units;
use clap::{ArgGroup, Args};

use super::RootArgs;

/// What is shown under the help.
const MORE: &str = "\
Calls are counted at tracepoints of the kernel, for the process, its threads and all that it starts.
That needs root, or CAP_BPF and CAP_PERFMON; without it only what /proc reports is shown. It ends with
the program, with --for, or with Ctrl-C. A command that still runs then gets SIGTERM. The profile of a
command is printed to standard error, as its standard output is its own.";

#[derive(Debug, Args)]
#[command(after_help = MORE, group = ArgGroup::new("program").required(true).args(["pid", "command"]))]
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

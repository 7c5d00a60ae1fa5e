//! The command lines of `live send` and `live receive`.

use std::time::Duration;

use bytecost_engine::servers::Addresses;
use bytecost_spec::units;
use clap::Args;

use super::axes::{AxisArgs, RECEIVER, SENDER};

/// Text under the help of both programs.
const JOINED: &str = "\
One side listens and the other one connects, whichever is the sender. `live send` listens at
127.0.0.1:7420 and `live receive` connects there where neither --listen nor --connect is given. They may
be started in any order within 10 s. A side that listens has one session after another until Ctrl-C; one
that connects ends with its session. Ctrl-C on either side ends a session, and both print their totals.
ADDRESS is an IP address or a name, with or without a port: 192.0.2.7, [2001:db8::7]:7420, db7:7420.";

#[derive(Debug, Args)]
#[command(after_help = JOINED)]
pub struct SendArgs {
    #[command(flatten)]
    pub axes: AxisArgs<SENDER>,
    #[command(flatten)]
    pub join: JoinArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = JOINED)]
pub struct ReceiveArgs {
    #[command(flatten)]
    pub axes: AxisArgs<RECEIVER>,
    #[command(flatten)]
    pub join: JoinArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How the two programs are joined, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct JoinArgs {
    /// Listen there; port 0 takes a free one; an address beyond loopback needs --allow
    #[arg(long, value_name = "ADDRESS", conflicts_with = "connect")]
    pub listen: Option<String>,
    /// Connect there, and try again for 10 s
    #[arg(long, value_name = "ADDRESS")]
    pub connect: Option<String>,
    /// Addresses that may connect, for example 192.0.2.7 or 192.0.2.0/24 [default: on loopback all]
    #[arg(
        long,
        value_name = "ADDRESS[/BITS]",
        value_delimiter = ',',
        conflicts_with = "connect"
    )]
    pub allow: Vec<Addresses>,
    /// How long a session lasts, for example 10s [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// The longest session of who connects [default: 60s where others than this machine can connect,
    /// else no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub max_duration: Option<Duration>,
    /// The most bytes a second, all flows together, for example 100MiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true)]
    pub max_rate: Option<u64>,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print one JSON object each second, and one with the totals
    #[arg(long)]
    pub json: bool,
    /// Print the totals only
    #[arg(long, short)]
    pub quiet: bool,
}

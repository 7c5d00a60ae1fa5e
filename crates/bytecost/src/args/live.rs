//! The command lines of `live send` and `live receive`: one value an axis, and only axes that make
//! sense.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover};
use bytecost_lab::greeters::Addresses;
use bytecost_lab::hand::{CLIENT_AXES, PORT};
use bytecost_spec::axis::CellFacts;
use bytecost_spec::{Axis, Cell, Pattern, units};
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::axes::{AxisArgs, axis_arg, by_group, sentence};

/// Axes of messages that a live session does not have.
pub const NOT_LIVE: &[Axis] = &[
    Axis::Transport,
    Axis::Block,
    Axis::Cache,
    Axis::Access,
    Axis::MemNode,
    Axis::Neighbour,
    Axis::Class,
    Axis::Cgroup,
    Axis::Server,
];

/// Whether an axis applies to messages of a live session: they go over TCP, and the other side may
/// want responses.
pub fn applies_live(axis: Axis, mover: &Mover) -> bool {
    let cell = Cell {
        pattern: Pattern::Ask,
        ..Cell::default()
    };
    let applies = CellFacts::moved_by(&cell, mover).applies(axis);
    applies && !NOT_LIVE.contains(&axis)
}

#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    pub axes: LiveAxes<true>,
    /// Address to listen at; one that is not loopback needs --key-file or --insecure
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub listen: IpAddr,
    /// TCP port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub port: u16,
    #[command(flatten)]
    pub access: AdmissionArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Who may open a session, and what it is granted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Who may connect")]
pub struct AdmissionArgs {
    /// File with the key that the receiver must have too; `bytecost key FILE` makes one
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Let anyone connect who can reach an address that is not loopback, without a key
    #[arg(long, conflicts_with = "key_file")]
    pub insecure: bool,
    /// Addresses that may connect, for example 192.0.2.7 or 192.0.2.0/24 [default: all]
    #[arg(long, value_name = "ADDRESS[/BITS]", value_delimiter = ',')]
    pub allow: Vec<Addresses>,
    /// The longest session, for example 10s [default: 60s with --insecure, else no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub max_duration: Option<Duration>,
    /// The most bytes a second that a session sends, for example 100MiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, allow_hyphen_values = true)]
    pub max_rate: Option<u64>,
}

#[derive(Debug, Args)]
pub struct ReceiveArgs {
    /// IP address of the sender, or IP:PORT
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: String,
    #[command(flatten)]
    pub axes: LiveAxes<false>,
    /// TCP port of the sender
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// File with the sender's key, which both sides must prove to have
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// How long, for example 10s [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print one JSON object each second, and one as summary
    #[arg(long)]
    pub json: bool,
    /// Print the summary only
    #[arg(long, short)]
    pub quiet: bool,
}

/// The one value of axes in a live session, of which a side chooses some. All axes are options, so
/// that the wrong ones can be refused with the reason; help shows the others.
#[derive(Clone, Debug, Default)]
pub struct LiveAxes<const SENDS: bool>(pub AxisArgs);

/// Whether a side chooses an axis: the sending one all that apply to messages of a live session.
fn chooses(sends: bool, axis: Axis) -> bool {
    let mut movers = MOVERS.iter().filter(|mover| mover.has_peer());
    match sends {
        true => movers.any(|mover| applies_live(axis, mover)),
        false => CLIENT_AXES.contains(&axis),
    }
}

impl<const SENDS: bool> Args for LiveAxes<SENDS> {
    fn augment_args(mut command: Command) -> Command {
        for row in by_group() {
            let default = if SENDS { row.default } else { "the sender's" };
            let help = format!("{} [default: {default}]", sentence(row.help));
            let arg = axis_arg(row, "VALUE").help(help);
            command = command.arg(arg.hide(!chooses(SENDS, row.axis)));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SENDS: bool> FromArgMatches for LiveAxes<SENDS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        AxisArgs::from_arg_matches(matches).map(LiveAxes)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

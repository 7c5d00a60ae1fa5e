//! The command lines of `serve` and `drive`: one value an axis, and only axes that make sense.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover};
use bytecost_lab::hand::{CLIENT_AXES, PORT};
use bytecost_spec::axis::{AxisRow, CellFacts};
use bytecost_spec::{Axis, Cell, Pattern, units};
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{AxisArgs, ServedService, axis_arg, by_group};

/// Axes of messages that a session by hand does not have.
pub const NOT_BY_HAND: &[Axis] = &[
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

/// Whether an axis applies to messages of a session by hand: they go over TCP, and the other side
/// may ask for answers.
pub fn applies_by_hand(axis: Axis, mover: &Mover) -> bool {
    let cell = Cell {
        pattern: Pattern::Ask,
        ..Cell::default()
    };
    let applies = CellFacts::moved_by(&cell, mover).applies(axis);
    applies && !NOT_BY_HAND.contains(&axis)
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeArgs {
    #[command(subcommand)]
    pub offer: Option<ServedService>,
    #[command(flatten)]
    pub axes: ServeAxes,
    /// Address to listen at; any but a loopback address lets others make this machine send
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub listen: IpAddr,
    /// TCP port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub port: u16,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct DriveArgs {
    /// IP address of the server, or IP:PORT
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: String,
    #[command(flatten)]
    pub axes: DriveAxes,
    /// TCP port of the server
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// How long, for example 10s; until Ctrl-C where it is left out
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print one JSON object a second, and one as summary
    #[arg(long)]
    pub json: bool,
    /// Print the summary only
    #[arg(long, short)]
    pub quiet: bool,
}

/// Axes that the sending side decides: all of them.
#[derive(Clone, Debug, Default)]
pub struct ServeAxes(pub AxisArgs);

/// Axes that the receiving side may decide for itself.
#[derive(Clone, Debug, Default)]
pub struct DriveAxes(pub AxisArgs);

/// All axes are options, so that the wrong ones can be refused in words; help shows the others.
fn augmented(
    mut command: Command,
    shows: impl Fn(Axis) -> bool,
    default: impl Fn(&AxisRow) -> &'static str,
) -> Command {
    for row in by_group() {
        let help = format!("{} [default: {}]", row.help, default(row));
        let arg = axis_arg(row, "VALUE").help(help).hide(!shows(row.axis));
        command = command.arg(arg);
    }
    command
}

macro_rules! axes {
    ($name:ident, $shows:expr, $default:expr) => {
        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                augmented(command, $shows, $default)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                AxisArgs::from_arg_matches(matches).map($name)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                self.0.update_from_arg_matches(matches)
            }
        }
    };
}

axes!(
    ServeAxes,
    |axis| {
        let mut movers = MOVERS.iter().filter(|mover| mover.has_peer());
        movers.any(|mover| applies_by_hand(axis, mover))
    },
    |row: &AxisRow| row.default
);
axes!(DriveAxes, |axis| CLIENT_AXES.contains(&axis), |_| {
    "the server's"
});

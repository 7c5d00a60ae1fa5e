//! The command lines of `live send` and `live receive`: one value an axis, and only axes that make
//! sense.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover};
use bytecost_lab::hand::{CLIENT_AXES, PORT};
use bytecost_spec::axis::{AxisRow, CellFacts};
use bytecost_spec::{Axis, Cell, Pattern, units};
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{AxisArgs, axis_arg, by_group, sentence};

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
    pub axes: SendAxes,
    /// Address to listen at; with one that is not loopback, others can make this machine send
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub listen: IpAddr,
    /// TCP port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub port: u16,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct ReceiveArgs {
    /// IP address of the sender, or IP:PORT
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: String,
    #[command(flatten)]
    pub axes: ReceiveAxes,
    /// TCP port of the sender
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
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

/// Axes that the sending side chooses: all of them.
#[derive(Clone, Debug, Default)]
pub struct SendAxes(pub AxisArgs);

/// Axes that the receiving side may choose itself.
#[derive(Clone, Debug, Default)]
pub struct ReceiveAxes(pub AxisArgs);

/// All axes are options, so that the wrong ones can be refused with the reason; help shows the others.
fn augmented(
    mut command: Command,
    shows: impl Fn(Axis) -> bool,
    default: impl Fn(&AxisRow) -> &'static str,
) -> Command {
    for row in by_group() {
        let help = format!("{} [default: {}]", sentence(row.help), default(row));
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
    SendAxes,
    |axis| {
        let mut movers = MOVERS.iter().filter(|mover| mover.has_peer());
        movers.any(|mover| applies_live(axis, mover))
    },
    |row: &AxisRow| row.default
);
axes!(ReceiveAxes, |axis| CLIENT_AXES.contains(&axis), |_| {
    "the sender's"
});

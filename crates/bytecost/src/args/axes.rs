//! The options of axes: one for each row of the table of axes.

use bytecost_engine::{MOVERS, Mover};
use bytecost_lab::live::RECEIVER_AXES;
use bytecost_spec::axis::{AXES, AxisRow, CellFacts, ValueKind};
use bytecost_spec::{Axis, Cell, Pattern};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// A command that takes options of axes. A run takes several values of each axis, a side of a live
/// session one value of some axes.
pub const RUN: u8 = 0;
pub const SENDER: u8 = 1;
pub const RECEIVER: u8 = 2;

/// The values of axes on a command line. Each command accepts the options of all axes, so that it can
/// refuse those that it does not take with a reason; its help shows only those that it takes.
#[derive(Clone, Debug, Default)]
pub struct AxisArgs<const BY: u8>(pub Vec<(Axis, Vec<String>)>);

impl<const BY: u8> Args for AxisArgs<BY> {
    fn augment_args(command: Command) -> Command {
        let mut rows: Vec<&AxisRow> = rows(BY).collect();
        rows.sort_by_key(|row| row.group);
        command.args(rows.into_iter().map(|row| axis_arg(row, BY)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Axes of messages that a live session does not have.
pub const NOT_LIVE: &[Axis] = &[
    Axis::Transport,
    Axis::Block,
    Axis::Cache,
    Axis::Access,
    Axis::MemNode,
    Axis::Background,
    Axis::Class,
    Axis::Cgroup,
    Axis::Server,
];

/// Returns true if an axis applies to messages of a live session, which go over TCP and may ask for
/// responses.
pub fn applies_live(axis: Axis, mover: &Mover) -> bool {
    let cell = Cell {
        pattern: Pattern::RequestResponse,
        ..Cell::default()
    };
    let applies = CellFacts::moved_by(&cell, mover).applies(axis);
    applies && !NOT_LIVE.contains(&axis)
}

/// Returns true if a command takes an axis: a run all, the sender all that apply to a live session.
fn takes(by: u8, axis: Axis) -> bool {
    let mut movers = MOVERS.iter().filter(|mover| mover.has_peer());
    match by {
        RUN => true,
        SENDER => movers.any(|mover| applies_live(axis, mover)),
        _ => RECEIVER_AXES.contains(&axis),
    }
}

/// The axes that are options of a command. A live session has its own --connect, an address.
fn rows(by: u8) -> impl Iterator<Item = &'static AxisRow> {
    AXES.iter()
        .filter(move |row| by == RUN || row.axis != Axis::Connect)
}

fn axis_arg(row: &AxisRow, by: u8) -> Arg {
    let help = match by {
        RUN if row.axis.is_switch() => format!("{}; `both` compares on and off", row.help),
        RUN => row.help.to_owned(),
        SENDER => format!("{} [default: {}]", row.help, row.default),
        _ if row.axis == Axis::Size => "bytes of a message, the same as of the sender: for --pattern request-response, and to count messages [default: not known]".to_owned(),
        _ => format!("{} [default: {}]", row.help, row.default),
    };
    let arg = Arg::new(row.name)
        .long(row.name)
        .value_name(if by == RUN { "VALUES" } else { "VALUE" })
        .help(sentence(&help))
        .help_heading(row.group.heading())
        .allow_hyphen_values(true)
        .hide(!takes(by, row.axis))
        .action(ArgAction::Append);
    match row.kind {
        ValueKind::Lists => arg,
        _ => arg.value_delimiter(','),
    }
}

/// A help text with a capital, unless it begins with a value and a colon.
fn sentence(help: &str) -> String {
    let first_word = help.split(' ').next();
    let begins_with_value = first_word.is_some_and(|word| word.ends_with(':'));
    match help.chars().next() {
        Some(first) if !begins_with_value => {
            format!(
                "{}{}",
                first.to_ascii_uppercase(),
                &help[first.len_utf8()..]
            )
        }
        _ => help.to_owned(),
    }
}

/// Splits the values of an axis whose values are lists: a piece that begins with a digit belongs to
/// the list before it.
pub(super) fn split(text: &str) -> Vec<String> {
    let ends_as_list = |list: &str| list.ends_with(|c: char| c.is_ascii_digit());
    let mut values: Vec<String> = Vec::new();
    for piece in text.split(',') {
        let is_number = piece.trim_start().starts_with(|c: char| c.is_ascii_digit());
        match values.last_mut() {
            Some(last) if is_number && ends_as_list(last) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => values.push(piece.to_owned()),
        }
    }
    values
}

impl<const BY: u8> FromArgMatches for AxisArgs<BY> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = rows(BY).filter_map(|row| {
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

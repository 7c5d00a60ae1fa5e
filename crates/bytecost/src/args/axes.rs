//! The options of axes: one a row of the table.

use bytecost_engine::{MOVERS, Mover};
use bytecost_lab::live::RECEIVER_AXES;
use bytecost_spec::axis::{AXES, AxisRow, CellFacts, ValueKind};
use bytecost_spec::{Axis, Cell, Pattern};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Who chooses values: a run several of each axis; a side of a live session one, of some axes.
pub const RUN: u8 = 0;
pub const SENDER: u8 = 1;
pub const RECEIVER: u8 = 2;

/// The values that were chosen for axes. All axes are options of all who choose, so that the wrong
/// ones can be refused with the reason; help shows the others.
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

/// Whether an axis applies to messages of a live session: they go over TCP, and may want responses.
pub fn applies_live(axis: Axis, mover: &Mover) -> bool {
    let cell = Cell {
        pattern: Pattern::Ask,
        ..Cell::default()
    };
    let applies = CellFacts::moved_by(&cell, mover).applies(axis);
    applies && !NOT_LIVE.contains(&axis)
}

/// Whether a side chooses an axis: the sending one all that apply to messages of a live session.
fn chooses(by: u8, axis: Axis) -> bool {
    let mut movers = MOVERS.iter().filter(|mover| mover.has_peer());
    match by {
        RUN => true,
        SENDER => movers.any(|mover| applies_live(axis, mover)),
        _ => RECEIVER_AXES.contains(&axis),
    }
}

/// Axes that are options: on a side of a live session, --connect is where the other side listens.
fn rows(by: u8) -> impl Iterator<Item = &'static AxisRow> {
    AXES.iter()
        .filter(move |row| by == RUN || row.axis != Axis::Connect)
}

/// The option of an axis.
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
        .hide(!chooses(by, row.axis))
        .action(ArgAction::Append);
    match row.kind {
        ValueKind::Lists => arg,
        _ => arg.value_delimiter(','),
    }
}

/// A help text with a capital, unless a value stands first.
fn sentence(help: &str) -> String {
    let value_first = help
        .split(' ')
        .next()
        .is_some_and(|word| word.ends_with(':'));
    match help.chars().next() {
        Some(first) if !value_first => {
            format!(
                "{}{}",
                first.to_ascii_uppercase(),
                &help[first.len_utf8()..]
            )
        }
        _ => help.to_owned(),
    }
}

/// The values of an axis with lists: a piece that is a number belongs to the list before it.
pub(super) fn split(text: &str) -> Vec<String> {
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

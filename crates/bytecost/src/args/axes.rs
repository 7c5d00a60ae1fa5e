//! The options of axes: one a row of the table.

use bytecost_spec::Axis;
use bytecost_spec::axis::{AXES, AxisRow, ValueKind};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// The values that were chosen for axes.
#[derive(Clone, Debug, Default)]
pub struct AxisArgs(pub Vec<(Axis, Vec<String>)>);

impl Args for AxisArgs {
    fn augment_args(mut command: Command) -> Command {
        for row in by_group() {
            let mut arg = axis_arg(row, "VALUES");
            if row.axis.is_switch() {
                let help = format!("{}; `both` compares on and off", row.help);
                arg = arg.help(sentence(&help));
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
pub(super) fn by_group() -> Vec<&'static AxisRow> {
    let mut rows: Vec<&AxisRow> = AXES.iter().collect();
    rows.sort_by_key(|row| row.group);
    rows
}

/// The option of an axis.
pub(super) fn axis_arg(row: &AxisRow, value_name: &'static str) -> Arg {
    let arg = Arg::new(row.name)
        .long(row.name)
        .value_name(value_name)
        .help(sentence(row.help))
        .help_heading(row.group.heading())
        .allow_hyphen_values(true)
        .action(clap::ArgAction::Append);
    match row.kind {
        ValueKind::Lists => arg,
        _ => arg.value_delimiter(','),
    }
}

/// A help text with a capital, unless a value stands first.
pub(super) fn sentence(help: &str) -> String {
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

//! Words of the command line that were other ones: still understood, with a note of today's word.

use std::ffi::OsString;

use bytecost_spec::axis::{AXES, AxisRow};
use itertools::Itertools as _;

/// Commands of before, and what they are now; `serve` is two.
const COMMANDS: &[(&str, &str)] = &[("drive", "receive"), ("ask", "load"), ("serve", "send")];

/// A command line in the words of today, and a note for each word that is not one of them. The
/// first word is the program.
pub fn translated(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let mut notes = Vec::new();
    let text = |word: Option<&OsString>| word.and_then(|w| w.to_str()).unwrap_or("").to_owned();
    let command = text(words.get(1));
    if let Some((was, is)) = COMMANDS.iter().find(|(was, _)| *was == command) {
        let next = text(words.get(2));
        let serves = *was == "serve" && !next.is_empty() && !next.starts_with('-');
        let is = if serves { "server" } else { *is };
        words.splice(1..2, ["live".into(), is.into()]);
        notes.push(format!("`bytecost {was}` is now `bytecost live {is}`"));
    }
    // The option whose values the next word has.
    let mut option: Option<&AxisRow> = None;
    for word in words.iter_mut().skip(1) {
        let Some(said) = word.to_str() else { continue };
        let (named, values) = match (said.strip_prefix("--"), option.take()) {
            (None, Some(row)) => (row, Some(said)),
            (None, None) => continue,
            (Some(rest), _) => {
                let (name, values) = rest
                    .split_once('=')
                    .map_or((rest, None), |(n, v)| (n, Some(v)));
                let row = AXES
                    .iter()
                    .find(|row| [row.name, row.formerly].contains(&name));
                let Some(row) = row else { continue };
                if name != row.name {
                    notes.push(format!("--{name} is now --{}", row.name));
                }
                option = values.is_none().then_some(row);
                (row, values)
            }
        };
        let values = values.map(|values| today(named, values, &mut notes));
        *word = match (said.starts_with("--"), values) {
            (true, Some(values)) => format!("--{}={values}", named.name),
            (true, None) => format!("--{}", named.name),
            (false, values) => values.unwrap_or_default(),
        }
        .into();
    }
    (words, notes)
}

/// Values of an axis in the words of today.
fn today(row: &AxisRow, values: &str, notes: &mut Vec<String>) -> String {
    let mut one = |value: &str| {
        let is = row.axis.word(value).to_owned();
        if is != value {
            notes.push(format!("--{} {value} is now --{0} {is}", row.name));
        }
        is
    };
    values.split(',').map(&mut one).join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_before_are_those_of_today() {
        let check = |was: &str, is: &str, said: &[&str]| {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            let (translated, notes) = translated(words(&format!("bytecost {was}")));
            assert_eq!(translated, words(&format!("bytecost {is}")), "{was}");
            assert_eq!(notes, said, "{was}");
        };
        for same in [
            "run ask --size 64",
            "live load",
            "--mover=send run",
            "run --pattern",
        ] {
            check(same, same, &[]);
        }
        for (was, is, command) in [
            ("drive ::1", "live receive ::1", ["drive", "receive"]),
            ("ask --idle 4", "live load --idle 4", ["ask", "load"]),
            ("serve --size 1", "live send --size 1", ["serve", "send"]),
            ("serve top", "live server top", ["serve", "server"]),
        ] {
            let [old, new] = command;
            check(
                was,
                is,
                &[&format!("`bytecost {old}` is now `bytecost live {new}`")],
            );
        }
        check(
            "run --pattern stream,ask --neighbour=spin --answer 64",
            "run --pattern stream,request-response --background=spin --response 64",
            &[
                "--pattern ask is now --pattern request-response",
                "--neighbour is now --background",
                "--answer is now --response",
            ],
        );
    }
}

//! Command lines of runs: the option of their directory, and quoting for a shell.

use itertools::Itertools as _;

/// Directory of runs without `--runs-dir`.
const RUNS_DIR: &str = "bytecost-runs";

/// The `--runs-dir` option of a recorded command line, as two words; none where it names the default.
pub fn runs_dir_option(command: &[String]) -> Option<[String; 2]> {
    let mut words = command.iter();
    let dir = words
        .find_map(|word| match word.strip_prefix("--runs-dir") {
            Some("") => Some(None),
            Some(rest) => rest.strip_prefix('=').map(Some),
            None => None,
        })?
        .or_else(|| words.next().map(String::as_str))?;
    (dir != RUNS_DIR).then(|| ["--runs-dir".to_owned(), dir.to_owned()])
}

/// The option that names the peer to the command that resumes a run, since no record has the peer's
/// command; empty for a run on one host.
pub fn peer_again(has_peer: bool) -> &'static str {
    if has_peer { " --peer COMMAND" } else { "" }
}

/// A command about a run, with the `--runs-dir` of the run.
pub fn command_of_run(words: &[&str], command: &[String]) -> String {
    let option = runs_dir_option(command).into_iter().flatten();
    let line = words.iter().map(|word| (*word).to_owned()).chain(option);
    command_line(&line.collect_vec())
}

/// A command line that a shell splits into these words.
pub fn command_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["--size", "4KiB,1MiB", "my study.toml", "it's", "$(reboot)"];
        let text = "--size 4KiB,1MiB 'my study.toml' 'it'\\''s' '$(reboot)'";
        assert_eq!(command_line(&words.map(str::to_owned)), text);
    }
}

//! Command lines of runs: the options of a recorded one, and quoting for a shell.

use itertools::Itertools as _;

/// Directory of runs without `--runs-dir`.
const RUNS_DIR: &str = "bytecost-runs";

/// An option of `bytecost run` that a further command about a run sets, keeps or leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOption {
    Budget,
    Blocks,
    Rounds,
    Pause,
    Seed,
    Resume,
    RunsDir,
    Peer,
    PeerProgram,
    Quiet,
}

impl RunOption {
    /// The name of each, and the short one of the last.
    const NAMES: [(RunOption, &'static str); 11] = [
        (RunOption::Budget, "--budget"),
        (RunOption::Blocks, "--blocks"),
        (RunOption::Rounds, "--rounds"),
        (RunOption::Pause, "--pause"),
        (RunOption::Seed, "--seed"),
        (RunOption::Resume, "--resume"),
        (RunOption::RunsDir, "--runs-dir"),
        (RunOption::Peer, "--peer"),
        (RunOption::PeerProgram, "--peer-program"),
        (RunOption::Quiet, "--quiet"),
        (RunOption::Quiet, "-q"),
    ];

    fn name(self) -> &'static str {
        let mut names = RunOption::NAMES.into_iter();
        names
            .find(|(option, _)| *option == self)
            .map_or("", |n| n.1)
    }

    fn named(name: &str) -> Option<RunOption> {
        let mut names = RunOption::NAMES.into_iter();
        Some(names.find(|(_, own)| *own == name)?.0)
    }

    /// The place of its value in a command for a reader, where no record has the value or it starts a
    /// program.
    fn placeholder(self) -> Option<&'static str> {
        match self {
            RunOption::Peer => Some("COMMAND"),
            RunOption::PeerProgram => Some("PROGRAM"),
            _ => None,
        }
    }

    /// Returns true if a new run has a value of its own, or none.
    fn is_of_one_run(self) -> bool {
        matches!(
            self,
            RunOption::Seed | RunOption::Resume | RunOption::RunsDir | RunOption::Quiet
        )
    }
}

/// A part of a recorded command line: an option with its value, or any other word.
struct Argument<'c> {
    option: Option<RunOption>,
    words: Vec<&'c str>,
}

/// The recorded command line of a run.
pub(crate) struct RecordedCommand<'c>(Vec<Argument<'c>>);

impl<'c> RecordedCommand<'c> {
    pub(crate) fn new(command: &'c [String]) -> RecordedCommand<'c> {
        let mut arguments = Vec::new();
        let mut words = command.iter().map(String::as_str).skip(1).peekable();
        words.next_if_eq(&"run");
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let option = RunOption::named(name);
            let takes_next = option.is_some_and(|o| o != RunOption::Quiet) && value.is_none();
            let next = takes_next.then(|| words.next()).flatten();
            arguments.push(Argument {
                option,
                words: std::iter::once(word).chain(next).collect(),
            });
        }
        RecordedCommand(arguments)
    }

    /// The directory of the run, where it is not the default one.
    fn runs_dir(&self) -> Option<&'c str> {
        let is_dir = |a: &&Argument<'_>| a.option == Some(RunOption::RunsDir);
        let own = self.0.iter().find(is_dir)?;
        let dir = match own.words[..] {
            [word] => word.split_once('=')?.1,
            [_, value, ..] => value,
            [] => return None,
        };
        (dir != RUNS_DIR).then_some(dir)
    }

    fn runs_dir_words(&self) -> Vec<String> {
        let dir = self.runs_dir().into_iter();
        dir.flat_map(|dir| [RunOption::RunsDir.name(), dir])
            .map(str::to_owned)
            .collect()
    }

    /// The command of a new run like this one, without some options and with others.
    pub(crate) fn with(
        &self,
        study: &str,
        replaced: &[RunOption],
        options: &[(RunOption, String)],
    ) -> String {
        let kept = self.0.iter().flat_map(|argument| match argument.option {
            Some(own) if own.is_of_one_run() || replaced.contains(&own) => Vec::new(),
            Some(own) => match own.placeholder() {
                Some(value) => vec![own.name(), value],
                None => argument.words.clone(),
            },
            None => argument.words.clone(),
        });
        let own = kept.collect_vec();
        let study = own.is_empty().then_some(study);
        let new = options.iter();
        let words = ["bytecost", "run"]
            .into_iter()
            .chain(own)
            .chain(study)
            .chain(new.flat_map(|(option, value)| [option.name(), value]))
            .map(str::to_owned)
            .chain(self.runs_dir_words());
        command_line(&words.collect_vec())
    }
}

/// The option that names the peer to the command that resumes a run, since no record has the peer's
/// command; empty for a run on one host.
pub fn peer_again(has_peer: bool) -> &'static str {
    if has_peer { " --peer COMMAND" } else { "" }
}

/// A command about a run, with the `--runs-dir` of the run.
pub fn command_of_run(words: &[&str], command: &[String]) -> String {
    let line = words.iter().map(|word| (*word).to_owned());
    let recorded = RecordedCommand::new(command);
    command_line(&line.chain(recorded.runs_dir_words()).collect_vec())
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

    #[test]
    fn a_new_command_has_the_options_of_the_run_but_for_its_own_and_the_replaced_ones() {
        let check = |recorded: &str, expected: &str| {
            let command: Vec<String> = recorded.split(' ').map(str::to_owned).collect();
            let options = [(RunOption::Budget, "40s".to_owned())];
            let replaced = [RunOption::Budget, RunOption::Blocks];
            let text = RecordedCommand::new(&command).with("files", &replaced, &options);
            assert_eq!(text, expected, "{recorded}");
        };
        check("bytecost run", "bytecost run files --budget 40s");
        check(
            "bytecost run sends --budget 9s --size=4KiB --blocks=3 --rounds 2",
            "bytecost run sends --size=4KiB --rounds 2 --budget 40s",
        );
        check(
            "bytecost sends --seed 7 -q --resume=otter --runs-dir=there --peer ssh",
            "bytecost run sends --peer COMMAND --budget 40s --runs-dir there",
        );
        check(
            "bytecost run --runs-dir bytecost-runs sends --peer-program=x",
            "bytecost run sends --peer-program PROGRAM --budget 40s",
        );
    }

    #[test]
    fn a_command_about_a_run_names_its_directory_unless_that_is_the_default() {
        let check = |recorded: &str, expected: &str| {
            let command: Vec<String> = recorded.split(' ').map(str::to_owned).collect();
            assert_eq!(command_of_run(&["bytecost", "report"], &command), expected);
        };
        check("bytecost run sends", "bytecost report");
        check(
            "bytecost run --runs-dir there",
            "bytecost report --runs-dir there",
        );
        check("bytecost run --runs-dir=bytecost-runs", "bytecost report");
        check("bytecost run --runs-dir", "bytecost report");
    }
}

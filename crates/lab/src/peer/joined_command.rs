//! The command that runs `bytecost agent` on the other host, with the channel on its pipes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_spec::units;
use bytecost_sys::child_end;
use rustix::process::{Pid, Signal, kill_process_group};

use super::channel::{Channel, Pipes};
use super::command::{ENDED_WITHIN, PeerError, PeerOptions};
use super::copy::{self, COPIED_WITHIN};
use crate::peer_channel::{FromAgent, VERSION};

/// The longest time until bytecost answers there.
const JOINED_WITHIN: Duration = Duration::from_secs(10);
/// The most bytes that are kept of the command's stderr.
const MOST_SAID_BYTES: u64 = 4096;
/// Statuses of a shell that finds no program, or may not run it.
const NO_PROGRAM: [i32; 2] = [126, 127];
/// The message of another command without the program, as ip-netns(8) with status 1.
const NO_SUCH_FILE: &str = "No such file or directory";
/// The status of a bytecost that does not know a word of its command line.
const NO_SUCH_WORD: i32 = 2;

/// A command that runs, and bytecost at its other end. Dropping it closes the channel first.
#[derive(Debug)]
pub(super) struct JoinedCommand {
    pub(super) channel: Channel,
    process: CommandProcess,
}

/// The process of a command. Dropping it waits for its end, and kills it in time.
#[derive(Debug)]
struct CommandProcess {
    child: Child,
    /// The first line of its stderr, or an empty one once that has ended.
    stderr_line: mpsc::Receiver<String>,
}

/// The end of a command before the first message of an agent.
#[derive(Debug, Default)]
struct EarlyEnd {
    /// None where it has not ended.
    code: Option<i32>,
    /// The first line of its stderr.
    line: String,
    /// The first line of its stdout.
    printed: Option<String>,
    /// True if the program was to be copied there first.
    is_copied: bool,
}

impl JoinedCommand {
    /// Has bytecost run there: the program that is there, or, where the user wants that, this one.
    pub(super) fn join(
        options: &PeerOptions,
        own_build: &str,
        stop: &AtomicBool,
    ) -> Result<JoinedCommand, PeerError> {
        let command = &options.command;
        let name = command.to_string();
        match JoinedCommand::start(command.agent(), None, &name, own_build, stop) {
            Err(refused) if refused.wants_program && options.copy_program => {
                let failed =
                    |e| PeerError::of_peer(&name, format!("the program cannot be read: {e}"));
                let (agent, program) = copy::agent(command).map_err(failed)?;
                JoinedCommand::start(agent, Some(program), &name, own_build, stop)
            }
            other => other,
        }
    }

    /// Starts a command, with a copy of the program where it takes one, and exchanges the first messages.
    fn start(
        command: Command,
        copy: Option<File>,
        name: &str,
        own_build: &str,
        stop: &AtomicBool,
    ) -> Result<JoinedCommand, PeerError> {
        let is_copied = copy.is_some();
        let copied_within = if is_copied {
            COPIED_WITHIN
        } else {
            Duration::ZERO
        };
        let greets_within = copied_within + JOINED_WITHIN;
        let mut joined = JoinedCommand::spawn(command, copy, greets_within, name)?;
        // A shell that receives a copy of the program may take bytes behind it for a part of it.
        if !is_copied {
            joined.channel.send_hello(own_build);
        }
        let hello = joined
            .channel
            .wait_for(greets_within, stop, |message| match message {
                FromAgent::Hello { version, build } => Some((version, build)),
                _ => None,
            });
        let (version, build) = match hello {
            Err(e) if !e.is_interruption() => {
                return Err(joined.early_end(is_copied).explain(e, name));
            }
            hello => hello?,
        };
        if is_copied {
            joined.channel.send_hello(own_build);
        }
        if version == VERSION && build == own_build {
            Ok(joined)
        } else {
            Err(another_build(name, &build, own_build))
        }
    }

    fn spawn(
        mut command: Command,
        copy: Option<File>,
        greets_within: Duration,
        name: &str,
    ) -> Result<JoinedCommand, PeerError> {
        let failed = |e: io::Error| PeerError::of_peer(name, e);
        let program = command.get_program().to_os_string();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // So that Ctrl-C at a terminal reaches the coordinator alone.
        let mut child = command.process_group(0).spawn().map_err(|e| {
            let program = program.display();
            let why = format!("`{program}` cannot be started: {e}: is it installed?");
            PeerError::of_peer(name, why)
        })?;
        let (to, from, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (note, stderr_line) = mpsc::channel();
        let process = CommandProcess { child, stderr_line };
        let (Some(to), Some(from), Some(stderr)) = (to, from, stderr) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        thread::Builder::new()
            .spawn(move || read_stderr(stderr, &note))
            .map_err(failed)?;
        let pipes = Pipes {
            from: from.into(),
            to: to.into(),
            copy,
            greets_within,
        };
        Ok(JoinedCommand {
            channel: Channel::open(name, pipes).map_err(failed)?,
            process,
        })
    }

    fn early_end(&mut self, is_copied: bool) -> EarlyEnd {
        let CommandProcess { child, stderr_line } = &mut self.process;
        let status = child_end::wait_for(child, ENDED_WITHIN).ok().flatten();
        // The last message of a command that has ended may still be on its way.
        let timeout = status.map_or(Duration::ZERO, |_| ENDED_WITHIN);
        EarlyEnd {
            code: status.and_then(|status| status.code()),
            line: stderr_line.recv_timeout(timeout).unwrap_or_default(),
            printed: self.channel.printed(),
            is_copied,
        }
    }
}

impl Drop for CommandProcess {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        for signal in [Signal::TERM, Signal::KILL] {
            if !matches!(child_end::wait_for(&mut self.child, ENDED_WITHIN), Ok(None)) {
                return;
            }
            let _ = kill_process_group(group, signal);
        }
        let _ = child_end::wait_or_kill(&mut self.child, Duration::ZERO);
    }
}

impl EarlyEnd {
    /// The error of the first message with the end of the command, and what it has printed.
    fn explain(self, error: PeerError, name: &str) -> PeerError {
        let EarlyEnd {
            code,
            line,
            printed,
            is_copied,
        } = self;
        let mut output = String::new();
        if !line.is_empty() {
            output += &format!(" ({line})");
        }
        if let Some(printed) = printed {
            output += &format!("; it printed `{printed}`");
        }
        let Some(code) = code else {
            return PeerError {
                why: error.why + &output,
                ..error
            };
        };
        let has_no_program =
            !is_copied && (NO_PROGRAM.contains(&code) || line.contains(NO_SUCH_FILE));
        let why = match code {
            _ if has_no_program => format!(
                "the program is not there, or cannot be run{output}: name it with --peer-program, or use --copy-program"
            ),
            NO_SUCH_WORD if line.contains("agent") => "bytecost there is too old to know `agent`: put this version there and name it with --peer-program, or use --copy-program".to_owned(),
            code if is_copied => format!(
                "the program cannot be put there: `sh` there ended with status {code}{output}: is there room in its directory of temporary files, and may programs run from it?"
            ),
            code => format!(
                "the command ended with status {code}{output}: try it with `true` in place of bytecost"
            ),
        };
        PeerError {
            wants_program: has_no_program || code == NO_SUCH_WORD,
            ..PeerError::of_peer(name, why)
        }
    }
}

fn another_build(name: &str, build: &str, own_build: &str) -> PeerError {
    let build = units::one_line(build);
    PeerError {
        wants_program: true,
        ..PeerError::of_peer(
            name,
            format!(
                "bytecost there is another build ({build}) than this one ({own_build}): put the same program there and name it with --peer-program, or use --copy-program"
            ),
        )
    }
}

fn read_stderr(from: ChildStderr, note: &mpsc::Sender<String>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let _ = (&mut from)
        .take(MOST_SAID_BYTES)
        .read_until(b'\n', &mut line);
    let _ = note.send(units::one_line(String::from_utf8_lossy(&line).trim()));
    let _ = io::copy(&mut from, &mut io::sink());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_says_what_to_do_and_if_another_program_would_do() {
        let check = |code: Option<i32>, line: &str, is_copied, part: &str, wants_program| {
            let end = EarlyEnd {
                code,
                line: line.to_owned(),
                is_copied,
                ..EarlyEnd::default()
            };
            let error = end.explain(PeerError::new("peer b is gone"), "b");
            let why = error.to_string();
            assert!(why.starts_with("peer b") && why.contains(part), "{why}");
            assert_eq!(error.wants_program, wants_program, "{why}");
        };
        check(None, "", false, "is gone", false);
        check(None, "Last login", false, "is gone (Last login)", false);
        check(Some(127), "sh: not found", false, "is not there", true);
        check(
            Some(1),
            "exec: No such file or directory",
            false,
            "is not there",
            true,
        );
        check(
            Some(127),
            "sh: not found",
            true,
            "cannot be put there",
            false,
        );
        check(
            Some(2),
            "unrecognized subcommand 'agent'",
            false,
            "too old",
            true,
        );
        check(
            Some(255),
            "no route to host",
            false,
            "status 255 (no route to host)",
            false,
        );
    }

    #[test]
    fn what_a_command_printed_is_shown_with_its_end() {
        let end = EarlyEnd {
            printed: Some("Welcome to db7".to_owned()),
            ..EarlyEnd::default()
        };
        let error = end.explain(PeerError::new("peer b is gone"), "b");
        assert_eq!(
            error.to_string(),
            "peer b is gone; it printed `Welcome to db7`"
        );
    }
}

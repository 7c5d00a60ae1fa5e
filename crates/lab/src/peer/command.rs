//! The command that joins the other host's bytecost to this one.

use std::fmt;
use std::net::IpAddr;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytecost_spec::{PeerSide, units};
use thiserror::Error;

/// How long the command may take to end once it has nobody to talk to.
pub(super) const ENDED_WITHIN: Duration = Duration::from_secs(2);

/// What a peer given as a host begins with.
const SSH: &str = "ssh:";

/// The words of a command that run a program on the other host, and the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCommand {
    prefix: Vec<String>,
    program: String,
    given: String,
}

impl PeerCommand {
    /// Reads `ssh:[USER@]HOST[:PORT]`, or a shell command; else what is wrong, and what to write
    /// instead.
    pub fn parse(given: &str, program: &str) -> Result<PeerCommand, String> {
        let wrong = || {
            format!(
                "peer `{given}`: a quote is open, or there is no word: write ssh:HOST or a command such as 'ip netns exec b'"
            )
        };
        let prefix = match given.strip_prefix(SSH) {
            Some(host) => ssh(host)?,
            None => (shlex::split(given).filter(|words| !words.is_empty())).ok_or_else(wrong)?,
        };
        let (given, program) = (given.to_owned(), program.to_owned());
        match program.is_empty() || program.starts_with('-') {
            true => Err(format!(
                "`{program}` is no program: name bytecost as it is called on the other host"
            )),
            false => Ok(PeerCommand {
                prefix,
                program,
                given,
            }),
        }
    }

    /// The words of the user's own, without the program.
    pub fn words(&self) -> &[String] {
        &self.prefix
    }

    /// What starts the agent there.
    pub fn agent(&self) -> Command {
        self.run(&[&self.program, "agent"])
    }

    /// What runs these words there. Over ssh a shell reads them.
    pub(super) fn run(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.prefix[0]);
        command.args(&self.prefix[1..]);
        let is_ssh = self.given.starts_with(SSH);
        command.args(words.iter().map(|word| match shlex::try_quote(word) {
            Ok(quoted) if is_ssh => quoted.into_owned(),
            _ => (*word).to_owned(),
        }));
        command
    }

    pub(super) fn with_program(&self, program: String) -> PeerCommand {
        PeerCommand {
            program,
            ..self.clone()
        }
    }
}

/// How a command ended, if it does within so long and before it is to stop.
pub(super) fn ended_within(
    child: &mut Child,
    patience: Duration,
    stop: Option<&AtomicBool>,
) -> Option<ExitStatus> {
    let until = Instant::now() + patience;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= until || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

impl fmt::Display for PeerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

/// The words of ssh(1): no terminal, and nothing is asked of anybody.
fn ssh(host: &str) -> Result<Vec<String>, String> {
    let bad = || format!("peer `ssh:{host}`: write ssh:[USER@]HOST[:PORT]");
    // An address of IPv6 stands in brackets where a port follows it.
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let port = port.map(|p| p.parse::<u16>().map_err(|_| bad()));
    let port = port.transpose()?.map(|port| port.to_string());
    let bare = name.replace(['[', ']'], "");
    let host = bare.rsplit('@').next().unwrap_or_default();
    if host.is_empty() || bare.starts_with('-') || bare.contains(char::is_whitespace) {
        return Err(bad());
    }
    let mut words = vec!["ssh", "-T", "-o", "BatchMode=yes"];
    if let Some(port) = &port {
        words.extend(["-p", port]);
    }
    words.extend(["--", &bare]);
    Ok(words.into_iter().map(str::to_owned).collect())
}

/// How the other host is reached, and what plays there.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// What runs bytecost there.
    pub command: PeerCommand,
    /// The one address to be used for data: of the side that listens.
    pub address: Option<IpAddr>,
    /// Whether this host listens, for a peer that can connect to it and not the other way.
    pub data_from_here: bool,
    /// Whether this program is put there where there is none of the same build.
    pub copy_program: bool,
    /// Which side plays there.
    pub side: PeerSide,
}

/// Why the other host cannot be reached.
#[derive(Debug, Default, Error)]
#[error("{}", units::one_line(why))]
pub struct PeerError {
    pub(super) why: String,
    /// Whether another program there would do.
    pub(super) wants_program: bool,
    pub(super) interrupted: bool,
}

impl PeerError {
    pub(super) fn new(why: impl Into<String>) -> PeerError {
        PeerError {
            why: why.into(),
            ..PeerError::default()
        }
    }

    pub(super) fn interrupted() -> PeerError {
        PeerError {
            interrupted: true,
            ..PeerError::new("interrupted")
        }
    }

    /// Whether it was only told to stop.
    pub fn is_interruption(&self) -> bool {
        self.interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_what_a_shell_would_make_of_it() {
        let check = |given: &str, expected: &str| {
            let command = PeerCommand::parse(given, "bytecost").unwrap().agent();
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            let words: Vec<&str> = words.map(|w| w.to_str().unwrap()).collect();
            assert_eq!(words.join("|"), format!("{expected}|bytecost|agent"));
        };
        let ssh = "ssh|-T|-o|BatchMode=yes";
        check("ssh:db7", &format!("{ssh}|--|db7"));
        check("ssh:ann@db7:2222", &format!("{ssh}|-p|2222|--|ann@db7"));
        check(
            "ssh:[2001:db8::7]:22",
            &format!("{ssh}|-p|22|--|2001:db8::7"),
        );
        check("ssh:2001:db8::7", &format!("{ssh}|--|2001:db8::7"));
        check("kubectl exec -i pod-b --", "kubectl|exec|-i|pod-b|--");
        check("srun --nodelist=n7 -J 'a b'", "srun|--nodelist=n7|-J|a b");
    }

    #[test]
    fn what_is_no_command_is_refused_with_what_to_write() {
        let hosts = ["", "-oProxyCommand=x", "a@", "a:b", "a b"].map(|host| format!("ssh:{host}"));
        let commands = ["", "  ", "'open"].map(str::to_owned);
        for given in hosts.iter().chain(&commands) {
            let why = PeerCommand::parse(given, "bytecost").unwrap_err();
            assert!(why.contains("write ssh:"), "{given}: {why}");
        }
        assert!(PeerCommand::parse("ssh:a", "").is_err());
        assert!(PeerCommand::parse("ssh:a", "--help").is_err());
    }

    #[test]
    fn over_ssh_words_are_written_for_a_shell() {
        let command = PeerCommand::parse("ssh:a", "/opt/my tools/bytecost").unwrap();
        let command = command.agent();
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(words[5..], ["'/opt/my tools/bytecost'", "agent"]);
    }
}

//! The command that joins the other host's bytecost to this one.

use std::fmt;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use bytecost_spec::{PeerSide, units};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The longest time for the end of the command once the channel is closed.
pub(super) const ENDED_WITHIN: Duration = Duration::from_secs(2);

/// The beginning of a peer that is given as a host.
const SSH: &str = "ssh:";
/// Options of ssh(1) that have a value.
const SSH_WITH_VALUE: &str = "BbcDEeFIiJLlmOopPQRSWw";
const SALT_BYTES: usize = 8;

/// The words of a command that run a program on the other host, and the program.
///
/// They may hold secrets: messages and records name the program and the host alone, and a run is
/// resumed with the same command by its digest.
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
            "--peer: a quote is open, or there is no word: write ssh:HOST or a command such as 'ip netns exec b'".to_owned()
        };
        let prefix = match given.strip_prefix(SSH) {
            Some(host) => ssh(host)?,
            None => (shlex::split(given).filter(|words| !words.is_empty())).ok_or_else(wrong)?,
        };
        let (given, program) = (given.to_owned(), program.to_owned());
        if program.is_empty() || program.starts_with('-') {
            Err(format!(
                "`{program}` is no program: name bytecost as it is called on the other host"
            ))
        } else {
            Ok(PeerCommand {
                prefix,
                program,
                given,
            })
        }
    }

    /// The program that the command starts, without its directory: `ssh`, `ip`.
    pub fn program_name(&self) -> &str {
        let program = &self.prefix[0];
        program.rsplit('/').next().unwrap_or(program)
    }

    /// The host that ssh(1) is given; none of another program.
    pub fn host(&self) -> Option<&str> {
        let words = &self.prefix[1..];
        let host = (self.program_name() == "ssh").then(|| ssh_destination(words))??;
        host.rsplit('@').next().filter(|host| !host.is_empty())
    }

    /// The command as a record of the command line has it: whole where that is `ssh:HOST`, else the
    /// program alone.
    pub fn for_record(&self) -> String {
        let shown = self.to_string();
        if shown == self.given {
            shown
        } else {
            format!("{} …", self.program_name())
        }
    }

    /// A digest of all words (SHA-256) with a salt of its own, in hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut salt = [0; SALT_BYTES];
        // Without a salt it still distinguishes commands.
        let _ = getrandom(&mut salt, GetRandomFlags::empty());
        self.salted_digest(&units::hexadecimal(&salt))
    }

    /// Returns true where a digest is of these words.
    pub fn has_digest(&self, digest: &str) -> bool {
        let salt = digest.get(..2 * SALT_BYTES);
        salt.is_some_and(|salt| self.salted_digest(salt) == digest)
    }

    fn salted_digest(&self, salt: &str) -> String {
        let mut hash = Sha256::new();
        for word in [salt, &self.program]
            .into_iter()
            .chain(self.prefix.iter().map(|w| &**w))
        {
            hash.update(word);
            hash.update([0]);
        }
        format!("{salt}{}", units::hexadecimal(&hash.finalize()))
    }

    /// The command that starts the agent there.
    pub fn agent(&self) -> Command {
        self.run(&[&self.program, "agent"])
    }

    /// The command that runs these words there. Over ssh a shell reads them.
    pub(super) fn run(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.prefix[0]);
        command.args(&self.prefix[1..]);
        let is_ssh = self.program_name() == "ssh";
        command.args(words.iter().map(|word| match shlex::try_quote(word) {
            Ok(quoted) if is_ssh => quoted.into_owned(),
            _ => (*word).to_owned(),
        }));
        command
    }
}

impl fmt::Display for PeerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host() {
            Some(host) => write!(f, "{SSH}{host}"),
            None => f.write_str(self.program_name()),
        }
    }
}

/// The destination among the words of ssh(1): the first that is no option and no option's value.
fn ssh_destination(words: &[String]) -> Option<&str> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix('-') {
            None => return Some(word),
            Some("-") => return rest.next().map(String::as_str),
            Some(options) => {
                // A value stands behind its letter, or in the next word.
                if options.find(|c| SSH_WITH_VALUE.contains(c)) == options.len().checked_sub(1) {
                    rest.next();
                }
            }
        }
    }
    None
}

/// The words of ssh(1): no terminal, and nothing is asked of anybody.
fn ssh(host: &str) -> Result<Vec<String>, String> {
    let bad = || format!("peer `ssh:{host}`: write ssh:[USER@]HOST[:PORT]");
    // An address of IPv6 stands in brackets where a port follows it.
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let port = port
        .map(|p| p.parse::<u16>().map_err(|_| bad()))
        .transpose()?
        .map(|port| port.to_string());
    let bare = name.replace(['[', ']'], "");
    let address = bare.rsplit('@').next().unwrap_or_default();
    if address.is_empty() || bare.starts_with('-') || bare.contains(char::is_whitespace) {
        return Err(bad());
    }
    let mut words = vec!["ssh", "-T", "-o", "BatchMode=yes"];
    if let Some(port) = &port {
        words.extend(["-p", port]);
    }
    words.extend(["--", &bare]);
    Ok(words.into_iter().map(str::to_owned).collect())
}

/// The way to the other host, and the side that plays there.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// The command that runs bytecost there.
    pub command: PeerCommand,
    /// The one address to be used for data: of the side that listens.
    pub address: Option<IpAddr>,
    /// True if this host listens, for a peer that can connect to it and not the other way.
    pub data_from_here: bool,
    /// True if this program is copied there where there is none of the same build.
    pub copy_program: bool,
    /// The side that plays there.
    pub side: PeerSide,
}

/// The reason why the other host cannot be reached.
#[derive(Debug, Default, Error)]
#[error("{}", units::one_line(why))]
pub struct PeerError {
    pub(super) why: String,
    /// True if another program there would do.
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

    pub(super) fn of_peer(name: &str, why: impl fmt::Display) -> PeerError {
        PeerError::new(format!("peer {name}: {why}"))
    }

    pub(super) fn interrupted() -> PeerError {
        PeerError {
            interrupted: true,
            ..PeerError::new("interrupted")
        }
    }

    /// Returns true if it was only stopped.
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
            let line = std::iter::once(command.get_program()).chain(command.get_args());
            let words: Vec<&str> = line.map(|w| w.to_str().unwrap()).collect();
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
    fn a_record_names_the_program_and_the_host_alone() {
        let check = |given: &str, message: &str, record: &str| {
            let command = PeerCommand::parse(given, "bytecost").unwrap();
            assert_eq!(
                (&*command.to_string(), &*command.for_record()),
                (message, record)
            );
        };
        check("ssh:db7", "ssh:db7", "ssh:db7");
        check("ssh:ann@db7:2222", "ssh:db7", "ssh …");
        check("/usr/bin/ssh -p 22 -- db7", "ssh:db7", "ssh …");
        check("ssh -T -F my.conf ann@db7 env KEY=x", "ssh:db7", "ssh …");
        check("ssh -p22 -oUser=ann", "ssh", "ssh …");
        check("sshpass -p x ssh db7", "sshpass", "sshpass …");
        check("ip netns exec b", "ip", "ip …");
    }

    #[test]
    fn a_digest_is_of_one_command_alone() {
        let command = |given, program| PeerCommand::parse(given, program).unwrap();
        let own = command("ip netns exec b", "bytecost");
        let digest = own.digest();
        assert!(own.has_digest(&digest) && own.has_digest(&own.digest()));
        assert_ne!(digest, own.digest(), "each has a salt of its own");
        assert!(!command("ip netns exec c", "bytecost").has_digest(&digest));
        assert!(!command("ip netns exec b", "other").has_digest(&digest));
        assert!(!own.has_digest("") && !own.has_digest("é"));
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
        let check = |given: &str, program: &str| {
            let peer = PeerCommand::parse(given, "/opt/my tools/bytecost").unwrap();
            let command = peer.agent();
            let words: Vec<_> = command.get_args().collect();
            assert_eq!(words[words.len() - 2..], [program, "agent"], "{given}");
        };
        check("ssh:a", "'/opt/my tools/bytecost'");
        check("/usr/bin/ssh -p 22 a", "'/opt/my tools/bytecost'");
        check("ip netns exec a", "/opt/my tools/bytecost");
    }
}

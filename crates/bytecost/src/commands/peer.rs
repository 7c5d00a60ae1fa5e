//! The other host of a run: its link, and checks that a resumed run has the same one.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use bytecost_lab::peer::{PeerCommand, PeerLink, PeerOptions};
use bytecost_spec::manifest::{Difference, Measurer};
use bytecost_spec::{Manifest, PeerHost, PeerSide, units};

use crate::args::{DataFrom, PeerArgs};
use crate::failure::{Interrupted, bad_input};

/// The link to the host that the options name; none if they name none.
pub(super) fn opened(args: &PeerArgs, stop: &AtomicBool) -> Result<Option<PeerLink>> {
    let Some(given) = &args.peer else {
        return Ok(None);
    };
    let options = PeerOptions {
        command: command(given, args)?,
        address: args.address,
        data_from_here: args.data_from == Some(DataFrom::Here),
        copy_program: args.copy_program,
        side: if args.reverse {
            PeerSide::Sender
        } else {
            PeerSide::Receiver
        },
    };
    match PeerLink::open(&options, stop) {
        Ok(link) => Ok(Some(link)),
        Err(e) if e.is_interruption() => Err(Interrupted.into()),
        Err(e) => Err(bad_input(e)),
    }
}

fn command(given: &str, args: &PeerArgs) -> Result<PeerCommand> {
    let program = args.peer_program.as_deref().unwrap_or("bytecost");
    PeerCommand::parse(given, program).map_err(bad_input)
}

/// Checks the options with which a run is resumed. A run directory is data and starts no command: the
/// user gives the command to the other host again, and its digest must be that of the manifest.
pub(super) fn check_same(manifest: &Manifest, args: &PeerArgs) -> Result<()> {
    let id = &manifest.id;
    let why = match (&manifest.peer, &args.peer) {
        (None, None) => return Ok(()),
        (None, Some(_)) => {
            format!("run {id} was measured on one machine: leave out --peer to resume it")
        }
        (Some(peer), None) => format!(
            "run {id} was measured with {} by `{}`: to resume it, give the same --peer again, with its other options",
            peer.name, peer.program
        ),
        (Some(peer), Some(_)) if (peer.side == PeerSide::Sender) != args.reverse => {
            format!("run {id} sends the other way: give --reverse as when it began")
        }
        (Some(peer), Some(given)) if !command(given, args)?.has_digest(&peer.command_digest) => {
            format!(
                "--peer or --peer-program is not what run {id} began with (`{}`, {}): give the same words again, or start a new run",
                peer.program, peer.name
            )
        }
        (Some(_), Some(_)) => return Ok(()),
    };
    Err(bad_input(units::one_line(&why)))
}

/// A command line with the value of --peer cut to [`PeerCommand::for_record`].
pub(super) fn for_record(words: impl Iterator<Item = String>) -> Vec<String> {
    let shown = |given: &str| {
        // A value that is no command ends the program before anything is recorded.
        PeerCommand::parse(given, "bytecost").map_or_else(|_| "…".to_owned(), |c| c.for_record())
    };
    let mut recorded = Vec::new();
    let mut follows_peer = false;
    for word in words {
        let is_value_of_peer = follows_peer;
        follows_peer = word == "--peer";
        recorded.push(if is_value_of_peer {
            shown(&word)
        } else if let Some(given) = word.strip_prefix("--peer=") {
            format!("--peer={}", shown(given))
        } else {
            word
        });
    }
    recorded
}

/// The facts of the other host that have changed since the run began, with the name of that host.
pub(super) fn differences(before: &Manifest, now: &PeerHost) -> Vec<Difference> {
    let Some(was) = &before.peer else {
        return Vec::new();
    };
    measurer(was)
        .differences(&measurer(now))
        .into_iter()
        .map(|difference| Difference {
            what: format!("{} of {}", difference.what, was.name),
            ..difference
        })
        .collect()
}

/// Build and host of the other side. Its version is part of its build.
fn measurer(peer: &PeerHost) -> Measurer<'_> {
    Measurer {
        version: "",
        build: Some(&peer.build),
        host: &peer.host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_command_line_has_no_words_of_the_peer() {
        let check = |given: &[&str], expected: &[&str]| {
            let words = given.iter().map(|word| (*word).to_owned());
            assert_eq!(for_record(words), expected);
        };
        check(
            &["--peer", "ssh:db7", "--size", "4KiB"],
            &["--peer", "ssh:db7", "--size", "4KiB"],
        );
        check(
            &["--peer", "sshpass -p secret ssh b", "-q"],
            &["--peer", "sshpass …", "-q"],
        );
        check(
            &["--peer=env TOKEN=secret kubectl exec b --"],
            &["--peer=env …"],
        );
        check(
            &["--peer-program", "/opt/b", "--peer", "ip netns exec b"],
            &["--peer-program", "/opt/b", "--peer", "ip …"],
        );
    }
}

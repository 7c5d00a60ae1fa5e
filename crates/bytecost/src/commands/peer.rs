//! The other host of a run: how it is reached, and that it is still the one that it was.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use bytecost_lab::peer::{PeerCommand, PeerLink, PeerOptions};
use bytecost_spec::manifest::{Difference, Measurer};
use bytecost_spec::{Manifest, PeerHost, PeerSide};

use crate::args::{Cli, DataFrom, PeerArgs, Sub};
use crate::failure::{Interrupted, bad_input};
use crate::former;

/// The link to the host that the options name; none where they name none.
pub(super) fn opened(args: &PeerArgs, stop: &AtomicBool) -> Result<Option<PeerLink>> {
    let Some(given) = &args.peer else {
        return Ok(None);
    };
    let program = args.peer_program.as_deref().unwrap_or("bytecost");
    let options = PeerOptions {
        command: PeerCommand::parse(given, program).map_err(bad_input)?,
        address: args.address,
        data_from_here: args.data_from == Some(DataFrom::Here),
        copy_program: args.copy_program,
        side: match args.reverse {
            true => PeerSide::Sender,
            false => PeerSide::Receiver,
        },
    };
    let link = PeerLink::open(&options, stop).map_err(|e| match e.is_interruption() {
        true => Interrupted.into(),
        false => bad_input(e),
    })?;
    Ok(Some(link))
}

/// The options with which a run was begun, from the command line that its manifest has.
pub(super) fn of_run(manifest: &Manifest) -> PeerArgs {
    if manifest.peer.is_none() {
        return PeerArgs::default();
    }
    let words = manifest.command.iter().map(Into::into);
    let (words, _) = former::translated(words);
    match Cli::read(words) {
        Ok(Cli {
            command: Some(Sub::Run(run)),
            ..
        }) => run.peer,
        Ok(cli) => cli.run.peer,
        Err(_) => PeerArgs::default(),
    }
}

/// What is not as it was on the other host, each fact with that host's name.
pub(super) fn differences(before: &Manifest, now: &PeerHost) -> Vec<Difference> {
    let Some(was) = &before.peer else {
        return Vec::new();
    };
    let found = measurer(was).differences(&measurer(now)).into_iter();
    let named = found.map(|difference| Difference {
        what: format!("{} of {}", difference.what, was.name()),
        ..difference
    });
    named.collect()
}

/// What measures there. Its version is that of its build.
fn measurer(peer: &PeerHost) -> Measurer<'_> {
    Measurer {
        version: "",
        build: Some(&peer.build),
        host: &peer.host,
    }
}

//! `bytecost agent`: the other host's end of a run on two hosts.

use std::io;
use std::os::fd::AsFd;

use anyhow::Result;
use bytecost_lab::files::Files;
use bytecost_lab::peer::agent;
use bytecost_lab::{file_survey, server_survey};
use bytecost_spec::{Host, Survey, Transport};
use bytecost_store::caller;

use crate::failure::{Exit, bad_input};

/// Plays what it is told over standard input and output, until that ends or falls silent.
pub fn run() -> Result<Exit> {
    agent::give_up_root(caller()).map_err(bad_input)?;
    let from = io::stdin().as_fd().try_clone_to_owned()?;
    let to = io::stdout().as_fd().try_clone_to_owned()?;
    agent::run(from, to, &machine)?;
    Ok(Exit::Done)
}

/// This machine, and what works on it: TCP as over loopback, files and servers.
fn machine() -> (Host, Survey) {
    let (host, mut survey) = super::look_around(&[Transport::Loopback]);
    let mut files = Files::new(std::env::temp_dir(), None);
    survey.files = file_survey::survey(&mut files).ok();
    survey.serving = Some(server_survey::survey());
    (host, survey)
}

//! `bytecost agent`: the process on the other host of a run on two hosts.

use std::io;
use std::os::fd::AsFd;

use anyhow::Result;
use bytecost_lab::files::Files;
use bytecost_lab::peer::agent;
use bytecost_lab::{file_survey, server_survey};
use bytecost_spec::{Host, Survey, Transport};
use bytecost_store::caller;

use crate::failure::{Exit, bad_input};

/// Runs sides of trials as the coordinator asks over standard input, until that closes or is silent.
pub fn run() -> Result<Exit> {
    agent::give_up_root(caller()).map_err(bad_input)?;
    let requests = io::stdin().as_fd().try_clone_to_owned()?;
    let responses = io::stdout().as_fd().try_clone_to_owned()?;
    agent::run(requests, responses, &machine)?;
    Ok(Exit::Done)
}

/// The description of this machine, with a survey of TCP (over loopback), files and servers.
fn machine() -> (Host, Survey) {
    let (host, mut survey) = super::host_and_survey(&[Transport::Loopback]);
    let mut files = Files::new(std::env::temp_dir(), None);
    survey.files = file_survey::survey(&mut files).ok();
    survey.serving = Some(server_survey::survey());
    (host, survey)
}

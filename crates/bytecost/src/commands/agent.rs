//! `bytecost agent`: the process on the other host of a run on two hosts.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use bytecost_lab::files::Files;
use bytecost_lab::peer::{agent, give_up_root};
use bytecost_lab::program::Program;
use bytecost_lab::short_trials::Surveyor;
use bytecost_lab::{file_survey, server_survey};
use bytecost_spec::{Host, Survey, Transport};
use bytecost_store::caller;

use crate::failure::{Exit, bad_input};

/// Runs sides of trials as the coordinator asks over standard input, until that closes or is silent.
pub fn run() -> Result<Exit> {
    give_up_root(caller()).map_err(bad_input)?;
    let requests = io::stdin().as_fd().try_clone_to_owned()?;
    let responses = io::stdout().as_fd().try_clone_to_owned()?;
    let program = Program::own()?;
    agent::run(requests, responses, &|| machine(&program))?;
    Ok(Exit::Done)
}

/// The description of this machine, with a survey of TCP (over loopback), files and servers.
fn machine(program: &Program) -> (Host, Survey) {
    let stop = AtomicBool::new(false);
    let surveyor = Surveyor::new(program, &stop);
    let (host, mut survey) = super::host_and_survey(&surveyor, &[Transport::Loopback]);
    let mut files = Files::new(std::env::temp_dir(), None);
    survey.files = file_survey::survey(&surveyor, &mut files).ok();
    survey.serving = Some(server_survey::survey(&surveyor));
    (host, survey)
}

//! `bytecost live` and `bytecost key`, and what happens in a live session, printed as it happens:
//! figures on standard output, notes on standard error.

pub mod load;
pub mod receive;
pub mod send;
pub mod server;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use bytecost_host::Roots;
use bytecost_lab::cpu_clock;
use bytecost_lab::hand::{SessionEvent, SessionKey};
use bytecost_report::hand;
use bytecost_spec::Axis;
use bytecost_spec::hand::{Begun, Served, Summary};
use bytecost_spec::survey::ClockVerdict;

use super::note;
use crate::args::{AxisArgs, OutputArgs};
use crate::failure::{Exit, OutputFailed, bad_input};
use crate::terminal;

/// Prints events. A reader that has closed its pipe ends the command, as Ctrl-C does.
pub struct Live<'a> {
    how: OutputArgs,
    stop: &'a AtomicBool,
    /// The file with the key, where sessions need one.
    pub key: Option<PathBuf>,
    session: Option<Begun>,
    failed: Option<OutputFailed>,
}

impl<'a> Live<'a> {
    /// Warns first where CPU times are too low.
    pub fn new(how: OutputArgs, stop: &'a AtomicBool) -> Live<'a> {
        if cpu_clock::test(&Roots::real()).verdict() == ClockVerdict::Loses {
            note(
                "this kernel does not count interrupts in the CPU time of threads: CPU time is too low here; `bytecost run` measures it in another way",
            );
        }
        Live {
            how,
            stop,
            key: None,
            session: None,
            failed: None,
        }
    }

    pub fn show(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Listening(address) => self.listening(address),
            SessionEvent::TurnedAway(why) => note(format!("turned away {why}")),
            SessionEvent::Began(begun) => {
                if !self.how.json && !self.how.quiet {
                    self.print(&hand::begun(&begun, terminal::style()));
                }
                self.session = Some(*begun);
            }
            SessionEvent::Second(second) => {
                let line = match &self.session {
                    Some(begun) if self.how.json => hand::second_json(begun, &second),
                    Some(begun) => hand::second(begun, &second),
                    None => return,
                };
                if !self.how.quiet {
                    self.print(&line);
                }
            }
            SessionEvent::Ended(summary) => self.summary(&summary),
        }
    }

    pub fn summary(&mut self, summary: &Summary) {
        let text = match self.how.json {
            true => hand::summary_json(summary),
            false => hand::summary(summary, terminal::style()),
        };
        self.print(&text);
    }

    pub fn served(&mut self, served: &Served) {
        let text = match self.how.json {
            true => hand::served_json(served),
            false => hand::served(served),
        };
        self.print(&text);
    }

    fn listening(&self, address: SocketAddr) {
        let key = match &self.key {
            Some(file) => format!(" --key-file {}", file.display()),
            None => {
                note_reach(address, "send");
                String::new()
            }
        };
        note(format!(
            "listening at {address}; receive with `bytecost live receive {address}{key}`, end with Ctrl-C"
        ));
    }

    fn print(&mut self, text: &str) {
        if self.failed.is_some() {
            return;
        }
        if let Err(e) = super::print(text) {
            self.failed = Some(e);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// What went wrong with printing, if anything did.
    pub fn end(self) -> Result<()> {
        self.failed.map_or(Ok(()), |e| Err(e.into()))
    }
}

fn session_key(file: Option<&Path>) -> Result<Option<SessionKey>> {
    file.map(SessionKey::read).transpose().map_err(bad_input)
}

/// `bytecost key`: makes a file with a key for live sessions between machines.
pub fn make_key(file: &Path) -> Result<Exit> {
    let name = file.display();
    SessionKey::make(file).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => bad_input(format!(
            "{name} exists and is left as it is: choose another name, or remove it first"
        )),
        _ => bad_input(format!("{name} cannot be written: {e}")),
    })?;
    note(format!(
        "{name} has a new key; copy it to the other machine over a way that you trust, and give --key-file {name} on both"
    ));
    Ok(Exit::Done)
}

/// Refuses to listen where others can connect, unless the user wants that.
fn check_listen(address: IpAddr, may: bool, remedy: &str) -> Result<()> {
    if may || address.is_loopback() {
        return Ok(());
    }
    Err(bad_input(format!(
        "--listen {address} lets anyone who can reach it use this machine: {remedy}"
    )))
}

/// Notes who else can make this machine do so, where others than itself can.
fn note_reach(address: SocketAddr, what: &str) {
    if !address.ip().is_loopback() {
        note(format!(
            "anyone who can reach port {} of {} can make this machine {what}",
            address.port(),
            address.ip()
        ));
    }
}

/// The one value of each axis that was given.
pub fn one_value_each<const BY: u8>(axes: &AxisArgs<BY>) -> Result<Vec<(Axis, String)>> {
    let one = |(axis, values): &(Axis, Vec<String>)| match values.as_slice() {
        [value] => Ok((*axis, value.clone())),
        several => Err(bad_input(format!(
            "--{} takes one value in a live session, and {} were given: `bytecost run` compares several",
            axis.name(),
            several.len()
        ))),
    };
    axes.0.iter().map(one).collect()
}

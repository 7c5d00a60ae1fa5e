//! `bytecost live`: events are printed as they happen, figures on standard output and notes on standard
//! error.

mod join;
pub mod load;
pub mod receive;
pub mod send;
pub mod server;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use bytecost_engine::servers::Addresses;
use bytecost_host::Roots;
use bytecost_lab::cpu_clock;
use bytecost_lab::live::LiveEvent;
use bytecost_report::live;
use bytecost_spec::live::{Served, Session, Totals};
use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::{Axis, Cell, Side, units};

use super::note;
use crate::args::{AxisArgs, OutputArgs};
use crate::failure::{OutputFailed, bad_input};
use crate::terminal;

/// Prints events. A reader that has closed its pipe ends the command, as Ctrl-C does.
struct Screen<'a> {
    how: OutputArgs,
    side: Side,
    stop: &'a AtomicBool,
    session: Option<Session>,
    failed: Option<OutputFailed>,
}

impl<'a> Screen<'a> {
    /// Warns first where CPU times are too low.
    fn new(how: OutputArgs, side: Side, stop: &'a AtomicBool) -> Screen<'a> {
        if cpu_clock::test(&Roots::real()).verdict() == ClockVerdict::Loses {
            note(
                "this kernel does not count interrupts in the CPU time of threads: CPU time is too low here; `bytecost run` measures it in another way",
            );
        }
        Screen {
            how,
            side,
            stop,
            session: None,
            failed: None,
        }
    }

    fn show(&mut self, event: LiveEvent) {
        match event {
            LiveEvent::Listening(address) => {
                let other = match self.side {
                    Side::Receiver => "send",
                    _ => "receive",
                };
                note(format!(
                    "listening at {address}; join it with `bytecost live {other} --connect {address}`, end with Ctrl-C"
                ));
            }
            LiveEvent::Retrying(address, patience) => note(format!(
                "nothing listens at {address} yet: trying again for {}",
                units::duration(patience)
            )),
            LiveEvent::TurnedAway(why) => note(format!("turned away {why}")),
            LiveEvent::Began(session) => {
                if !self.how.json && !self.how.quiet {
                    self.print(&live::began(&session, terminal::style()));
                }
                self.session = Some(*session);
            }
            LiveEvent::Second(number, activity) => {
                let line = match &self.session {
                    Some(session) if self.how.json => live::second_json(session, number, &activity),
                    Some(session) => live::second(session, number, &activity),
                    None => return,
                };
                if !self.how.quiet {
                    self.print(&line);
                }
            }
            LiveEvent::Ended(totals) => self.totals(&totals),
        }
    }

    fn totals(&mut self, totals: &Totals) {
        let text = if self.how.json {
            live::totals_json(totals)
        } else {
            live::totals(totals, terminal::style())
        };
        self.print(&text);
    }

    fn served(&mut self, served: &Served) {
        let text = if self.how.json {
            live::served_json(served)
        } else {
            live::served(served)
        };
        self.print(&text);
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
    fn end(self) -> Result<()> {
        self.failed.map_or(Ok(()), |e| Err(e.into()))
    }
}

/// An IP address, and its port if one is written behind it; none where the text is a name.
fn numeric_address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(whole) = text.parse::<SocketAddr>() {
        return Some((whole.ip(), Some(whole.port())));
    }
    let ip = text.trim_start_matches('[').trim_end_matches(']');
    Some((ip.parse().ok()?, None))
}

/// Refuses to listen where other machines can connect, unless the user says which may.
fn check_listen(address: IpAddr, allow: &[Addresses]) -> Result<()> {
    if address.is_loopback() || !allow.is_empty() {
        return Ok(());
    }
    Err(bad_input(format!(
        "--listen {address} can be reached from other machines: name those that may connect with --allow, for example --allow 192.0.2.0/24"
    )))
}

/// The cell with the one value of each axis that was given, and these axes.
fn cell_with<const BY: u8>(axes: &AxisArgs<BY>) -> Result<(Cell, Vec<Axis>)> {
    let mut cell = Cell::default();
    for (axis, values) in &axes.0 {
        let [value] = values.as_slice() else {
            return Err(bad_input(format!(
                "--{} takes one value in a live session, and {} were given: `bytecost run` compares several",
                axis.name(),
                values.len()
            )));
        };
        cell.set(*axis, value).map_err(bad_input)?;
    }
    Ok((cell, axes.0.iter().map(|(axis, _)| *axis).collect()))
}

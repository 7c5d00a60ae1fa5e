//! `bytecost live`: programs that run until Ctrl-C and store nothing. Figures go to standard output,
//! notes to standard error.

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

/// Printer of the events of sessions. A reader that closes its pipe ends the command, as Ctrl-C does.
struct Screen<'a> {
    output: OutputArgs,
    side: Side,
    stop: &'a AtomicBool,
    session: Option<Session>,
    failed: Option<OutputFailed>,
}

impl<'a> Screen<'a> {
    /// Prints a warning first if the CPU clock of this kernel leaves out interrupts.
    fn new(output: OutputArgs, side: Side, stop: &'a AtomicBool) -> Screen<'a> {
        if cpu_clock::test(&Roots::real()).verdict() == ClockVerdict::Loses {
            note(
                "this kernel does not count interrupts in the CPU time of threads: CPU time is too low here; `bytecost run` measures it in another way",
            );
        }
        Screen {
            output,
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
                if !self.output.json && !self.output.quiet {
                    self.print(&live::began(&session, terminal::style()));
                }
                self.session = Some(*session);
            }
            LiveEvent::Second(number, activity) => {
                let line = match &self.session {
                    Some(session) if self.output.json => {
                        live::second_json(session, number, &activity)
                    }
                    Some(session) => live::second(session, number, &activity),
                    None => return,
                };
                if !self.output.quiet {
                    self.print(&line);
                }
            }
            LiveEvent::Ended(totals) => self.totals(&totals),
        }
    }

    fn totals(&mut self, totals: &Totals) {
        let text = if self.output.json {
            live::totals_json(totals)
        } else {
            live::totals(totals, terminal::style())
        };
        self.print(&text);
    }

    fn served(&mut self, served: &Served) {
        let text = if self.output.json {
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

    /// Gives the error of printing, if there was one.
    fn finish(self) -> Result<()> {
        self.failed.map_or(Ok(()), |e| Err(e.into()))
    }
}

/// Parses an IP address with or without a port; none if the text is a name.
fn numeric_address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(whole) = text.parse::<SocketAddr>() {
        return Some((whole.ip(), Some(whole.port())));
    }
    let ip = text.trim_start_matches('[').trim_end_matches(']');
    Some((ip.parse().ok()?, None))
}

/// Refuses to listen at an address beyond loopback without `--allow`.
fn check_listen(address: IpAddr, allow: &[Addresses]) -> Result<()> {
    if address.is_loopback() || !allow.is_empty() {
        return Ok(());
    }
    Err(bad_input(format!(
        "--listen {address} can be reached from other machines: name those that may connect with --allow, for example --allow 192.0.2.0/24"
    )))
}

/// The cell with the values of the command line, and the axes that this names.
///
/// # Errors
/// Several values of an axis, since a session is of one cell.
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

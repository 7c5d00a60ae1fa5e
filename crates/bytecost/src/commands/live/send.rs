//! `bytecost live send`: the sending side of a live session.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use bytecost_engine::{MOVERS, Mover};
use bytecost_lab::program::Program;
use bytecost_lab::short_trials::Surveyor;
use bytecost_plan::{SurveyedHost, congestion_substitute, exact};
use bytecost_spec::{Axis, Cell, Side, Transport};
use itertools::Itertools as _;

use super::cell_with;
use super::join::{self, Join};
use crate::args::{AxisArgs, NOT_LIVE, SendArgs, applies_live};
use crate::commands::{add_helped_movers, host_and_survey};
use crate::failure::{Exit, bad_input};
use crate::known;

/// Sends in one session if it connects, in one after another until Ctrl-C if it listens.
pub fn run(args: SendArgs) -> Result<Exit> {
    let (mut cell, given) = checked(&args.axes)?;
    let join = Join::new(Side::Sender, &args.join)?;
    let (program, stop) = (Program::own()?, AtomicBool::new(false));
    let surveyor = Surveyor::new(&program, &stop);
    let (host, mut survey) = host_and_survey(&surveyor, &[Transport::Loopback]);
    add_helped_movers(&mut survey, &surveyor, &[Transport::Loopback], [&cell]);
    let here = SurveyedHost {
        host: &host,
        survey: &survey,
    };
    if !given.contains(&Axis::Congestion)
        && let Some(congestion) = congestion_substitute(&[here])
    {
        cell.congestion = congestion;
    }
    if let Some(why) = bytecost_plan::refused(&cell, here) {
        return Err(bad_input(why));
    }
    cell.placement = exact(&cell.placement, &host).map_err(bad_input)?;
    join::run(Side::Sender, cell, true, &join, &args.join, args.output)
}

/// The cell of the options and the axes that they name.
///
/// # Errors
/// An option that a live session does not have, or that does not apply to the mover.
fn checked<const BY: u8>(axes: &AxisArgs<BY>) -> Result<(Cell, Vec<Axis>)> {
    let (cell, given) = cell_with(axes)?;
    let is_loopback = |axis: Axis| axis == Axis::Transport && cell.transport == Transport::Loopback;
    let not_live = |axis: &&Axis| NOT_LIVE.contains(axis) && !is_loopback(**axis);
    if let Some(axis) = given.iter().find(not_live) {
        return Err(bad_input(format!(
            "--{axis} {} is not supported by live sessions, which send over TCP: use `bytecost run`",
            cell.value(*axis)
        )));
    }
    known::tables().check(&cell).map_err(bad_input)?;
    let Some(mover) = Mover::named(&cell.mover).filter(|mover| mover.has_peer()) else {
        let choices = MOVERS
            .iter()
            .filter(|m| m.has_peer())
            .map(|m| m.name)
            .join(", ");
        return Err(bad_input(format!(
            "mover `{}` sends nothing: choose from {choices}",
            cell.mover
        )));
    };
    let is_unused = |axis: &&Axis| {
        let is_live = NOT_LIVE.contains(axis) || applies_live(**axis, mover);
        !is_live && cell.value(**axis) != axis.row().default
    };
    if let Some(axis) = given.iter().find(is_unused) {
        return Err(bad_input(format!(
            "--{axis} {} does not apply to `{}` in a live session: it is for {}; leave it out",
            cell.value(*axis),
            mover.name,
            axis.row().applies_to.words
        )));
    }
    Ok((cell, given))
}

//! `bytecost live receive`: the receiving side of a live session.

use anyhow::Result;
use bytecost_engine::RECEIVERS;
use bytecost_lab::live::RECEIVER_AXES;
use bytecost_spec::{Axis, Side};

use super::cell_with;
use super::join::{self, Join};
use crate::args::ReceiveArgs;
use crate::failure::{Exit, bad_input, unknown};
use crate::machine;

/// Receives in one session if it connects, in one after another until Ctrl-C if it listens.
pub fn run(args: ReceiveArgs) -> Result<Exit> {
    let (mut cell, given) = cell_with(&args.axes)?;
    if let Some(axis) = given.iter().find(|axis| !RECEIVER_AXES.contains(axis)) {
        return Err(bad_input(format!(
            "--{} is an option of `bytecost live send`, the sending side",
            axis.name()
        )));
    }
    if !RECEIVERS.iter().any(|r| r.name == cell.receiver) {
        let names = RECEIVERS.iter().map(|r| r.name);
        return Err(unknown("receiver", &cell.receiver, names));
    }
    let join = Join::new(Side::Receiver, &args.join)?;
    // The congestion control of the sender decides; this side sends next to nothing.
    cell.congestion = "default".to_owned();
    cell.placement =
        bytecost_plan::exact(&cell.placement, &machine::host().0).map_err(bad_input)?;
    let knows_size = given.contains(&Axis::Size);
    join::run(
        Side::Receiver,
        cell,
        knows_size,
        &join,
        &args.join,
        args.output,
    )
}

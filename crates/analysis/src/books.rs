//! The books of each cell: the users of the CPUs during its windows, as in bookkeeping. CPU time that no
//! user accounts for is left over; books close if that is near zero.
//!
//! A window lasts from one reading of the whole machine to the next. What is left over is compared with the
//! CPU time that the sides have measured of themselves, of which costs are made: clocks of the processes would hide CPU
//! time that a side does not measure.
//!
//! Books are sums over blocks. Idle time comes in steps of 10 ms, which begin anywhere in a window, so
//! that the mean over windows is unbiased, and a median is one of the steps: hence means, not
//! medians.

use bytecost_spec::evidence::{CPU_USERS, CpuUser};
use bytecost_stats::{mean, student_mean};

use crate::confidence::{FEWEST, LEVEL};
use crate::input::Input;
use crate::outside_time::typical_sides_ns;
use crate::result::{BookLine, CellBooks, Closed, Uncertain};
use crate::trials::{CellTrials, Trials};

/// Books close if the time that is left over, positive or negative, is at most this share of the mean CPU time
/// of both sides.
const MOST_LEFT_OVER: f64 = 0.03;

/// The books of every cell that moves something and has enough trials. Where a
/// side plays on another host, they are those of both machines together.
pub(crate) fn all(trials: &Trials<'_>, input: &Input<'_>) -> Vec<CellBooks> {
    let books = |cell| cell_books(cell, input);
    trials.moving().filter_map(books).collect()
}

fn cell_books(cell: &CellTrials<'_>, input: &Input<'_>) -> Option<CellBooks> {
    let mut counted = input.evidence.iter().filter(|e| e.cell == cell.id);
    let windows = cell.window_books(input.peer_side(cell.cell));
    if windows.len() < FEWEST {
        return None;
    }
    let lines = CPU_USERS.iter().filter_map(|row| {
        let user = row.user;
        let shares: Vec<f64> = (windows.iter())
            .map(|w| w.ns_of(user) / w.capacity_ns)
            .collect();
        let is_there = shares.iter().any(|s| *s != 0.0) || user == CpuUser::LeftOver;
        let share = student_mean(&shares).filter(|_| is_there)?;
        Some(BookLine {
            user,
            share: share.value,
            error: share.standard_error,
        })
    });
    let typical_ns = typical_sides_ns(&windows)?;
    let of_cell: Vec<f64> = windows.iter().map(|w| w.of_cell_ns).collect();
    let left = Uncertain::from_location(cell.outside.left_over?, LEVEL)?;
    let closed = if left.low > MOST_LEFT_OVER || left.high < -MOST_LEFT_OVER {
        Closed::No
    } else if left.low < -MOST_LEFT_OVER || left.high > MOST_LEFT_OVER {
        Closed::NotToThreePercent
    } else {
        Closed::Yes
    };
    Some(CellBooks {
        cell: cell.id.clone(),
        trials: windows.len(),
        lines: lines.collect(),
        left_over: left.value,
        low: left.low,
        high: left.high,
        machine_over_own: mean(&of_cell)? / typical_ns,
        closed,
        interrupts: cell
            .outside
            .interrupts
            .and_then(|location| Uncertain::from_location(location, LEVEL)),
        interrupts_charged: cell.outside.charged().is_some(),
        counted: counted.find_map(|e| e.accounts.clone()),
    })
}

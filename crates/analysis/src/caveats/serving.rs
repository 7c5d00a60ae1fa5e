//! Caveats about servers: clients that were too slow themselves, and requests that failed.

use bytecost_spec::{Counter, units};
use itertools::Itertools as _;

use super::{UnnamedCaveat, caveat, ids};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::served::{ERRORS, is_limited};
use crate::view::View;

/// Failed requests, as a share of all, that go unremarked.
const FAILED: f64 = 0.0001;
/// Failed requests, as a share of all, up to which the verdicts stand.
const MANY_FAILED: f64 = 0.05;

/// Whether the clients may have limited what was found, in most trials of a cell. What is then said
/// of the server is what a request costs it: its CPU time.
pub(crate) fn clients_limit(cell: &CellTrials<'_>) -> bool {
    let of = cell.trials().filter(|t| is_limited(t.sample)).count();
    2 * of > cell.by_block.len()
}

fn served<'v>(view: &View<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> {
    view.measured().filter(|c| c.cell.is_served())
}

pub(super) fn generator(view: &View<'_>) -> Option<UnnamedCaveat> {
    let cells = served(view).filter(|c| clients_limit(c)).collect_vec();
    let trials = cells.iter().flat_map(|c| c.trials());
    let read = trials.filter_map(|t| {
        let busy = t.sent(Counter::GeneratorBusyNs)? / t.sent(Counter::ElapsedNs)?.max(1.0);
        Some((busy, t.sent(Counter::GeneratorLateNsP99).unwrap_or(0.0)))
    });
    let (busy, late) = read.fold((0.0_f64, 0.0_f64), |most, t| {
        (most.0.max(t.0), most.1.max(t.1))
    });
    caveat(
        "The clients were themselves what limited these rates, or sent their requests late: rates and latencies say nothing of the servers there, the CPU time of the server for a request does. A server that they did not limit and that was slower beside one that they did is slower by at least as much.",
        format!(
            "a thread of the clients was busy for up to {} of the window, and sent 1 of 100 requests up to {:.1} ms late",
            percent(busy.min(1.0)),
            late / 1e6
        ),
        "--placement with a CPU for the clients alone, --threads for more of them, or a lower --rate",
        ids(cells),
    )
}

pub(super) fn failed_requests(view: &View<'_>) -> Option<UnnamedCaveat> {
    let text =
        "Requests failed, warm-up included: rates and latencies are of those that had a response.";
    failed_between(view, FAILED, MANY_FAILED, text)
}

/// What is missing is not missing by chance.
pub(super) fn many_failed_requests(view: &View<'_>) -> Option<UnnamedCaveat> {
    let text = format!(
        "More than {} of the requests failed: rates and latencies of those that had a response say little of the server.",
        percent(MANY_FAILED)
    );
    failed_between(view, MANY_FAILED, f64::INFINITY, &text)
}

/// The cells of which more than one share of the requests failed and no more than another.
fn failed_between<'v>(view: &View<'v>, few: f64, many: f64, text: &str) -> Option<UnnamedCaveat> {
    let shows = |cell: &'v CellTrials<'v>| {
        let sum = |counter| cell.sum(|t| t.sent(counter));
        let (kinds, answers) = (
            ERRORS.map(|(counter, _)| sum(counter)),
            sum(Counter::Messages),
        );
        let failed = kinds.iter().sum::<f64>();
        let share = failed / (failed + answers);
        let is_told = failed > 0.0 && share > few && share <= many;
        is_told.then_some((cell, (kinds, answers)))
    };
    let (cells, sums): (Vec<_>, Vec<_>) = served(view).filter_map(shows).unzip();
    let kinds = ERRORS.iter().enumerate().filter_map(|(kind, (_, what))| {
        let sum: f64 = sums.iter().map(|(kinds, _)| kinds[kind]).sum();
        (sum > 0.0).then(|| format!("{} {what}", units::number(sum)))
    });
    let answers: f64 = sums.iter().map(|(_, answers)| answers).sum();
    caveat(
        text,
        format!(
            "{}, beside {} answers",
            phrases::list(kinds),
            units::number(answers)
        ),
        "fewer --connections, a lower --rate, or --connect kept",
        ids(cells),
    )
}

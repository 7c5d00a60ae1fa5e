//! Caveats about servers: clients that were too slow themselves, requests that failed, and what a
//! model's row says of it.

use bytecost_spec::{Counter, units};

use super::{UnnamedCaveat, ids};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::read;
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

fn served<'v>(view: &View<'v>) -> Vec<&'v CellTrials<'v>> {
    view.measured().filter(|c| c.cell.is_served()).collect()
}

pub(super) fn generator(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let mut cells = served(view);
    cells.retain(|c| clients_limit(c));
    if cells.is_empty() {
        return Vec::new();
    }
    let (mut busy, mut late) = (0.0_f64, 0.0_f64);
    for trial in cells.iter().flat_map(|c| c.trials()) {
        let side = &trial.sample.sender;
        let (Ok(ns), Ok(of)) = (
            read(side, Counter::GeneratorBusyNs),
            read(side, Counter::ElapsedNs),
        ) else {
            continue;
        };
        busy = busy.max(ns / of.max(1.0));
        late = late.max(read(side, Counter::GeneratorLateNsP99).unwrap_or(0.0));
    }
    vec![UnnamedCaveat {
        text: "The clients were themselves what limited these rates, or sent their requests late: rates and latencies say nothing of the servers there, the CPU time of the server for a request does. A server that they did not limit and that was slower beside one that they did is slower by at least as much.".to_owned(),
        evidence: format!(
            "a thread of the clients was busy for up to {} of the window, and sent 1 of 100 requests up to {:.1} ms late",
            percent(busy.min(1.0)),
            late / 1e6
        ),
        remedy: "--placement with a CPU for the clients alone, --threads for more of them, or a lower --rate".to_owned(),
        cells: ids(cells),
    }]
}

/// Requests of a cell that failed, by their kind, and those that were answered.
fn requests(cell: &CellTrials<'_>) -> ([f64; ERRORS.len()], f64) {
    let (mut kinds, mut answers) = ([0.0; ERRORS.len()], 0.0);
    for side in cell.trials().map(|t| &t.sample.sender) {
        for (sum, (counter, _)) in kinds.iter_mut().zip(ERRORS) {
            *sum += read(side, counter).unwrap_or(0.0);
        }
        answers += read(side, Counter::Messages).unwrap_or(0.0);
    }
    (kinds, answers)
}

pub(super) fn failed_requests(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let text =
        "Requests failed, warm-up included: rates and latencies are of those that had a response.";
    failed_between(view, FAILED, MANY_FAILED, text)
}

/// What is missing is not missing by chance.
pub(super) fn many_failed_requests(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let text = format!(
        "More than {} of the requests failed: rates and latencies of those that had a response say little of the server.",
        percent(MANY_FAILED)
    );
    failed_between(view, MANY_FAILED, f64::INFINITY, &text)
}

/// The cells of which more than one share of the requests failed and no more than another.
fn failed_between(view: &View<'_>, few: f64, many: f64, text: &str) -> Vec<UnnamedCaveat> {
    let mut cells = Vec::new();
    let (mut kinds, mut answers) = ([0.0; ERRORS.len()], 0.0);
    for cell in served(view) {
        let (own, of) = requests(cell);
        let failed = own.iter().sum::<f64>();
        let share = if failed > 0.0 {
            failed / (failed + of)
        } else {
            0.0
        };
        if share > few && share <= many {
            cells.push(cell);
            answers += of;
            kinds.iter_mut().zip(own).for_each(|(sum, n)| *sum += n);
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    let told: Vec<String> = kinds
        .iter()
        .zip(ERRORS)
        .filter(|(n, _)| **n > 0.0)
        .map(|(n, (_, what))| format!("{} {what}", units::number(*n)))
        .collect();
    vec![UnnamedCaveat {
        text: text.to_owned(),
        evidence: format!(
            "{}, beside {} answers",
            phrases::list(&told),
            units::number(answers)
        ),
        remedy: "fewer --connections, a lower --rate, or --connect kept".to_owned(),
        cells: ids(cells),
    }]
}

pub(super) fn caution(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let survey = &view.input.manifest.survey;
    let cells = served(view);
    let facts = survey.serving.as_ref().map_or(&[][..], |s| &s.servers);
    let told = facts.iter().filter_map(|server| {
        let caution = server.caution.as_ref()?;
        let named =
            |c: &&&CellTrials<'_>| c.cell.serving.server.as_deref() == Some(server.name.as_str());
        let own: Vec<&CellTrials<'_>> = cells.iter().filter(named).copied().collect();
        (!own.is_empty()).then(|| UnnamedCaveat {
            text: format!("`{}`: {}", server.name, phrases::sentence(caution)),
            evidence: "the table of servers".to_owned(),
            remedy: "choose another model where this matters".to_owned(),
            cells: ids(own),
        })
    });
    told.collect()
}

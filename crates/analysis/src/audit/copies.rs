//! How often bytes are copied, as it was counted: in one trial of each cell, since a count has no
//! chance in it but for what TCP sends again.

use bytecost_spec::claim::{Expected, Place, Quantity};
use bytecost_spec::{Cell, Metric};

use super::claim_test::{CaseResult, ClaimTest, Item};
use super::context::ClaimContext;
use crate::phrases;
use crate::trials::CellTrials;

pub(super) fn draft(
    context: &ClaimContext<'_>,
    metric: Metric,
    place: &Place,
    expect: Expected,
    cells: Quantity,
) -> ClaimTest {
    let found: Vec<&CellTrials<'_>> = context.cells(place).collect();
    if found.is_empty() {
        return ClaimTest::missing(context.no_cells(place, None));
    }
    // Cells beyond a tenth of the budget were not counted, which takes nothing from the others.
    let known = |c: &CellTrials<'_>| context.result(&c.id).is_some_and(|r| has(r, metric));
    let counted: Vec<&CellTrials<'_>> = found.into_iter().filter(|c| known(c)).collect();
    if counted.is_empty() {
        return ClaimTest::missing(
            "bytes copied for each byte of payload were not counted: `--evidence copies` counts them, as root",
        );
    }
    let cells_of: Vec<&Cell> = counted.iter().map(|c| c.cell).collect();
    let places = context.places(&cells_of, &[]);
    let items = counted.iter().zip(places).map(|(c, place)| Item {
        place,
        ..item(context, c, metric, expect)
    });
    ClaimTest {
        subject: phrases::metric(metric),
        expected: expect.to_string(),
        noun: "cell",
        cells,
        items: items.collect(),
        note: None,
        missing: None,
    }
}

fn has(result: &crate::result::CellResult, metric: Metric) -> bool {
    result.estimates.contains_key(&metric) || result.absent.contains_key(&metric)
}

fn item(
    context: &ClaimContext<'_>,
    cell: &CellTrials<'_>,
    metric: Metric,
    expect: Expected,
) -> Item {
    let result = context.result(&cell.id);
    let value = result
        .and_then(|r| r.estimates.get(&metric))
        .map(|e| e.value);
    let state = match value.map(|v| expect.is_met(v)) {
        Some(Some(true)) => CaseResult::Met,
        Some(_) => CaseResult::NotMet,
        None => {
            let why = result.and_then(|r| r.absent.get(&metric));
            CaseResult::Open(why.cloned().unwrap_or_default())
        }
    };
    let means = context.analysis.copies.iter().find(|c| c.cell == cell.id);
    let means = means.and_then(|c| c.legs.iter().find_map(|l| l.means));
    let by = means.map_or_else(String::new, |m| format!(", counted by {}", m.title()));
    Item {
        value: value.unwrap_or(0.0),
        place: String::new(),
        state,
        published: None,
        measured: value.map(|v| format!("{v:.2}{by}")),
        finding: None,
        stalled: false,
        twin: String::new(),
    }
}

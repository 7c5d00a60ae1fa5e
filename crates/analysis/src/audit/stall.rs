//! Whether a kind of caveat touches cells: the stall of small writes, unless another is named.

use bytecost_spec::Cell;
use bytecost_spec::claim::{Place, Quantity};

use super::claim_test::{CaseResult, ClaimTest, Item};
use super::context::ClaimContext;
use crate::caveats;
use crate::trials::CellTrials;

pub(super) fn draft(
    context: &ClaimContext<'_>,
    kind: &str,
    place: &Place,
    present: bool,
    cells: Quantity,
) -> ClaimTest {
    if !caveats::is_looked_for(kind) {
        return ClaimTest::missing(format!("this version does not look for `{kind}`"));
    }
    let measured = context.cells(place).filter(|c| !c.by_block.is_empty());
    let measured: Vec<&CellTrials<'_>> = measured.collect();
    let cells_of: Vec<&Cell> = measured.iter().map(|c| c.cell).collect();
    let items: Vec<Item> = measured
        .iter()
        .zip(context.places(&cells_of, &[]))
        .map(|(c, place)| {
            let found = context.affected(kind, &c.id);
            Item {
                value: 0.0,
                place,
                state: if found == present {
                    CaseResult::Met
                } else {
                    CaseResult::NotMet
                },
                published: None,
                measured: Some(if found { "found" } else { "not found" }.to_owned()),
                finding: None,
                stalled: false,
                twin: String::new(),
            }
        })
        .collect();
    if items.is_empty() {
        return ClaimTest::missing(context.no_cells(place, None));
    }
    ClaimTest {
        subject: format!("`{kind}`"),
        expected: if present { "found" } else { "absent" }.to_owned(),
        noun: "cell",
        cells,
        items,
        note: None,
        missing: None,
    }
}

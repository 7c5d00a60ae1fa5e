//! What was counted of each cell as a table: copies of each byte, and what else a message took.

use bytecost_analysis::{Analysis, CellCounts};
use bytecost_spec::evidence::{EVENTS, Event};
use bytecost_spec::{Cell, Side, units};

use crate::prose::clean;
use crate::question::value_in_words;

/// The most cells that are told; findings.json has the others.
const MOST_ROWS: usize = 48;
/// What stands where nothing was counted.
const NOTHING: &str = "–";

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// Headings, that of the cell first.
    pub columns: Vec<String>,
    /// Cells, each with a text for each further column.
    pub rows: Vec<(String, Vec<String>)>,
    /// What was not counted and why, and how many cells are not here.
    pub notes: Vec<String>,
}

/// The table of a result; none where nothing was counted.
pub(crate) fn counted(a: &Analysis) -> Option<Counted> {
    let copies = |id: &str| {
        let found = a.copies.iter().find(|c| c.cell == id);
        found.filter(|c| !c.is_flagged_only())
    };
    let counts = |id: &str| a.counts.iter().find(|c| c.cell == id);
    let is_counted = |id: &str| copies(id).is_some() || counts(id).is_some();
    let cells: Vec<&Cell> = a
        .cells
        .iter()
        .filter(|c| is_counted(&c.id))
        .map(|c| &c.cell)
        .collect();
    if cells.is_empty() {
        return None;
    }
    let sides = [Side::Both, Side::Sender, Side::Receiver];
    let events: Vec<Event> = EVENTS
        .iter()
        .map(|r| r.event)
        .filter(|e| has(a, *e))
        .collect();
    let mut columns = vec!["cell".to_owned()];
    // Of servers copies are not counted.
    let any_copied = cells.iter().any(|c| copies(&c.id()).is_some());
    if any_copied {
        columns.extend(["copies a byte", "sender", "receiver"].map(str::to_owned));
    }
    columns.extend(events.iter().map(|e| e.row().title.to_owned()));
    let rows = cells.iter().take(MOST_ROWS).map(|cell| {
        let id = cell.id();
        let of_side = |side: Side| {
            let known = copies(&id).and_then(|c| c.per_byte(side)?.ok());
            known.map_or_else(|| NOTHING.to_owned(), |v| format!("{v:.2}"))
        };
        let shown = sides.into_iter().filter(|_| any_copied);
        let mut texts: Vec<String> = shown.map(of_side).collect();
        texts.extend(events.iter().map(|event| {
            let known = counts(&id).and_then(|c| c.per_message(*event));
            known.map_or_else(|| NOTHING.to_owned(), units::number)
        }));
        (label(a, cell), texts)
    });
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    let mut notes = absent(&a.counts);
    if cells.len() > MOST_ROWS {
        let more = cells.len() - MOST_ROWS;
        notes.push(format!("{more} further cells are in findings.json."));
    }
    Some(Counted {
        columns,
        rows,
        notes,
    })
}

/// Whether an event was counted in any cell.
fn has(a: &Analysis, event: Event) -> bool {
    a.counts.iter().any(|c| c.per_message(event).is_some())
}

/// A cell by what varies: `send, 64 KiB`.
fn label(a: &Analysis, cell: &Cell) -> String {
    let varied = a.study.varied.iter();
    let words: Vec<String> = varied
        .map(|axis| match axis {
            bytecost_spec::Axis::Mover | bytecost_spec::Axis::Size => {
                value_in_words(*axis, &cell.value(*axis))
            }
            _ => format!(
                "{} {}",
                axis.name(),
                value_in_words(*axis, &cell.value(*axis))
            ),
        })
        .collect();
    match words.is_empty() {
        true => clean(&cell.mover),
        false => clean(&words.join(", ")),
    }
}

/// Events that could not be counted, each reason once.
fn absent(counts: &[CellCounts]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for rate in counts.iter().flat_map(|c| &c.events) {
        let Some(why) = &rate.absent else { continue };
        let text = clean(&format!("Not counted, {}: {why}.", rate.event.row().title));
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

//! What was counted of each cell as a table: copies of each byte, and what else a message took.

use bytecost_analysis::{Analysis, CellCounts};
use bytecost_spec::evidence::{CountedEvent, EVENTS};
use bytecost_spec::{Cell, Side, units};
use itertools::Itertools as _;

use crate::question::value_in_words;
use crate::text::clean;

/// The most cells that are told; findings.json has the others.
pub(crate) const MOST_ROWS: usize = 48;
/// The most notes of a table.
const MOST_NOTES: usize = 12;
/// What stands where nothing was counted.
pub(crate) const NOTHING: &str = "–";

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct CountTable {
    /// Its section on the page, and its name in the page's list of sections.
    pub section: &'static str,
    pub short: &'static str,
    /// What it is called, and what stands in it.
    pub title: &'static str,
    pub lead: &'static str,
    /// Headings, that of the cell first.
    pub columns: Vec<String>,
    /// Cells, each with a text for each further column.
    pub rows: Vec<(String, Vec<String>)>,
    /// What was not counted and why, and how many cells are not here.
    pub notes: Vec<String>,
}

/// The table of a result; none where nothing was counted.
pub(crate) fn counted(a: &Analysis) -> Option<CountTable> {
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
    let mut sides: &[(Side, &str)] = &[
        (Side::Both, "copies a byte"),
        (Side::Sender, "sender"),
        (Side::Receiver, "receiver"),
    ];
    if !cells.iter().any(|c| copies(&c.id()).is_some()) {
        sides = &[];
    }
    let events: Vec<CountedEvent> = EVENTS
        .iter()
        .map(|r| r.event)
        .filter(|e| has(a, *e))
        .collect();
    let mut columns = vec!["cell".to_owned()];
    columns.extend(sides.iter().map(|(_, heading)| (*heading).to_owned()));
    columns.extend(events.iter().map(|e| e.row().title.to_owned()));
    let rows = cells.iter().take(MOST_ROWS).map(|cell| {
        let id = cell.id();
        let of_side = |side: Side| {
            let known = copies(&id).and_then(|c| c.per_byte(side)?.ok());
            known.map_or_else(|| NOTHING.to_owned(), |v| format!("{v:.2}"))
        };
        let mut texts: Vec<String> = sides.iter().map(|(side, _)| of_side(*side)).collect();
        texts.extend(events.iter().map(|event| {
            let known = counts(&id).and_then(|c| c.per_message(*event));
            known.map_or_else(|| NOTHING.to_owned(), units::number)
        }));
        (label(a, cell), texts)
    });
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    let mut notes = absent(&a.counts);
    if a.counts.iter().any(CellCounts::is_of_server) {
        notes.push("Of servers: what their own threads and processes take for each request that had a response.".to_owned());
    }
    if cells.len() > MOST_ROWS {
        let more = cells.len() - MOST_ROWS;
        notes.push(format!("{more} further cells are in findings.json."));
    }
    Some(CountTable {
        section: "counted",
        short: "Counts",
        title: "What a byte and a message take",
        lead: "Copies of each byte by the kernel, and how often else something happened for each message, both sides together. Counted in one trial of each cell, which is not timed, so that there are no intervals.",
        columns,
        rows,
        notes,
    })
}

/// What servers and their clients used, by the columns of a published table; none without servers.
pub(crate) fn roles(a: &Analysis) -> Option<CountTable> {
    let first = a.roles.first()?;
    let mut columns = vec!["cell".to_owned()];
    columns.extend(first.counters.iter().map(|c| heading(&c.name)));
    columns.push(heading("duration_ms"));
    let cell = |id: &str| a.cells.iter().find(|c| c.id == id).map(|c| &c.cell);
    let rows = a.roles.iter().take(MOST_ROWS).filter_map(|role| {
        let of = if role.role == Side::Client {
            "clients"
        } else {
            "server"
        };
        let number = |n: Option<f64>| n.map_or_else(|| NOTHING.to_owned(), units::number);
        let mut texts: Vec<String> = (role.counters.iter())
            .map(|c| number(c.per_request))
            .collect();
        texts.push(number(Some(role.window_ms)));
        Some((format!("{}, {of}", label(a, cell(&role.cell)?)), texts))
    });
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for counter in a.roles.iter().flat_map(|r| &r.counters) {
        let Some(why) = &counter.absent else { continue };
        let name = counter.name.strip_suffix("_us").unwrap_or(&counter.name);
        let name = name.replace('_', " ");
        match reasons.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let notes = reasons.iter().take(MOST_NOTES);
    let notes = notes.map(|(why, names)| clean(&format!("No {}: {why}.", names.join(", "))));
    let mut notes: Vec<String> = notes.collect();
    if a.roles.len() > MOST_ROWS {
        let more = a.roles.len() - MOST_ROWS;
        notes.push(format!("{more} further rows are in findings.json."));
    }
    Some(CountTable {
        section: "roles",
        short: "Roles",
        title: "What each role uses for a request",
        lead: "Counters of the server and of its clients, threads and children included, for each response within the window, whose length is the duration: the columns of a published table.",
        columns,
        rows,
        notes,
    })
}

/// `task clock, µs` of `task_clock_us`.
fn heading(name: &str) -> String {
    let units = [("_us", "µs"), ("_ms", "ms")].into_iter();
    let mut with_unit =
        units.filter_map(|(end, unit)| Some(format!("{}, {unit}", name.strip_suffix(end)?)));
    let text = with_unit.next().unwrap_or_else(|| name.to_owned());
    text.replace('_', " ")
}

/// Whether an event was counted in any cell.
fn has(a: &Analysis, event: CountedEvent) -> bool {
    a.counts.iter().any(|c| c.per_message(event).is_some())
}

/// A cell by what varies: `send, 64 KiB`.
pub(crate) fn label(a: &Analysis, cell: &Cell) -> String {
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
        true => clean(cell.serving.server.as_ref().unwrap_or(&cell.mover)),
        false => clean(&words.join(", ")),
    }
}

/// Events that could not be counted, each reason once.
fn absent(counts: &[CellCounts]) -> Vec<String> {
    let rates = counts.iter().flat_map(|c| &c.events);
    let told = rates.filter_map(|rate| {
        let why = rate.absent.as_ref()?;
        Some(clean(&format!(
            "Not counted, {}: {why}.",
            rate.event.row().title
        )))
    });
    told.unique().collect()
}

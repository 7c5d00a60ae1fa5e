//! Table of the events counted in each cell: copies of each byte, and other work for a message.

use bytecost_analysis::{Analysis, CellCopies, CellCounts, grouped};
use bytecost_spec::evidence::{CopyPlace, CountedEvent, EVENTS};
use bytecost_spec::{Side, units};
use itertools::Itertools as _;

use crate::document::DocEntry;
use crate::no_value;
use crate::question::{place_in_words, way};

/// The most rows of a table; findings.json has the other cells.
pub(crate) const MOST_ROWS: usize = 48;
const MOST_NOTES: usize = 12;

/// The name of a row and its numbers.
pub(crate) type CountRow = (String, Vec<DocEntry>);

pub(crate) struct CountTable {
    /// Its section on the page, and its name in the page's list of sections.
    pub section: &'static str,
    pub short: &'static str,
    /// Title of the table; `lead` is its introductory paragraph.
    pub title: &'static str,
    pub lead: &'static str,
    /// Headings, without that of the cell, which is first.
    pub columns: Vec<String>,
    pub rows: Vec<CountRow>,
    /// Notes on missing counts and their reasons, and the number of cells left out.
    pub notes: Vec<String>,
}

/// The table of a result; none where nothing was counted.
pub(crate) fn counted(a: &Analysis) -> Option<CountTable> {
    let copies = |id: &str| {
        let found = a.copies.iter().find(|c| c.cell == id);
        found.filter(|c| !c.is_flagged_only())
    };
    let counts = |id: &str| a.counts.iter().find(|c| c.cell == id);
    let is_counted = |id: &&str| copies(id).is_some() || counts(id).is_some();
    let cells = a.cells.iter().map(|c| c.id.as_str());
    let ids: Vec<&str> = cells.filter(is_counted).collect();
    if ids.is_empty() {
        return None;
    }
    let all_copies: Vec<&CellCopies> = ids.iter().filter_map(|id| copies(id)).collect();
    let has_copies = !all_copies.is_empty();
    let mut places = CopyPlace::ALL.to_vec();
    places.retain(|place| {
        let mut legs = all_copies.iter().flat_map(|c| &c.legs);
        legs.any(|leg| leg.leg == *place)
    });
    let has = |e: &CountedEvent| a.counts.iter().any(|c| c.per_message(*e).is_some());
    let events: Vec<CountedEvent> = EVENTS.iter().map(|r| r.event).filter(has).collect();
    let columns = (has_copies.then_some("copies a byte").into_iter())
        .chain(places.iter().map(|p| p.title()))
        .chain(events.iter().map(|e| e.row().title));
    let of_cells = ids.iter().map(|id| {
        let (copies, counts) = (copies(id), counts(id));
        let written = |n: Option<f64>| DocEntry::or_gap(n.map(|n| format!("{n:.2}")));
        let mut texts = Vec::new();
        if has_copies {
            texts.push(written(copies.and_then(|c| c.per_byte(Side::Both)?.ok())));
        }
        for place in &places {
            texts.push(written(copies.and_then(|c| c.at(*place))));
        }
        for event in &events {
            texts.push(number(counts.and_then(|c| c.per_message(*event))));
        }
        (*id, texts)
    });
    let mut notes = absent(&a.counts);
    if a.counts.iter().any(CellCounts::is_of_server) {
        notes.push("Of servers: what their own threads and processes take for each request that had a response.".to_owned());
    }
    notes.extend(further(ids.len(), MOST_ROWS, "further cells"));
    Some(CountTable {
        section: "counted",
        short: "Counts",
        title: "What a byte and a message take",
        lead: "Copies of each byte by the kernel, in all and at each place on its way, and how often else something happened for each message, both sides together. Counted in one trial of each cell, which is not timed, so that there are no intervals.",
        columns: columns.map(str::to_owned).collect(),
        rows: rows(a, of_cells),
        notes,
    })
}

/// The table of the resources that servers and their clients used, with the columns of a published
/// table; none without servers.
pub(crate) fn roles(a: &Analysis) -> Option<CountTable> {
    let first = a.roles.first()?;
    let counter_names = first.counters.iter().map(|c| c.name.as_str());
    let rows = a.roles.iter().take(MOST_ROWS).filter_map(|role| {
        let party = match role.role {
            Side::Client => "clients",
            _ => "server",
        };
        let counters = role.counters.iter().map(|c| c.per_request);
        let texts = counters.chain([Some(role.window_ms)]).map(number);
        Some((
            format!("{}, {party}", label(a, &role.cell)?),
            texts.collect(),
        ))
    });
    let counters = a.roles.iter().flat_map(|r| &r.counters);
    let reasons = grouped(counters.filter_map(|counter| {
        let name = counter.name.strip_suffix("_us").unwrap_or(&counter.name);
        let why = no_value::words(counter.absent.as_ref()?);
        Some((why, name.replace('_', " ")))
    }));
    let mut notes = Vec::new();
    for (why, names) in reasons.iter().take(MOST_NOTES) {
        notes.push(format!("No {}: {why}.", names.iter().unique().join(", ")));
    }
    notes.extend(further(a.roles.len(), MOST_ROWS, "further rows"));
    Some(CountTable {
        section: "roles",
        short: "Roles",
        title: "What each role uses for a request",
        lead: "Counters of the server and of its clients, threads and children included, for each response within the window, whose length is the duration: the columns of a published table.",
        columns: counter_names.chain(["duration_ms"]).map(heading).collect(),
        rows: rows.collect(),
        notes,
    })
}

fn number(n: Option<f64>) -> DocEntry {
    DocEntry::or_gap(n.map(units::number))
}

/// `task clock, µs` of `task_clock_us`.
fn heading(name: &str) -> String {
    let mut units = [("_us", "µs"), ("_ms", "ms")].into_iter();
    let with_unit = |(end, unit)| Some(format!("{}, {unit}", name.strip_suffix(end)?));
    let text = units.find_map(with_unit);
    text.as_deref().unwrap_or(name).replace('_', " ")
}

pub(crate) fn rows<'c>(
    a: &Analysis,
    cells: impl Iterator<Item = (&'c str, Vec<DocEntry>)>,
) -> Vec<CountRow> {
    let row = |(id, texts)| Some((label(a, id)?, texts));
    cells.take(MOST_ROWS).filter_map(row).collect()
}

/// Label of a cell: its values along the axes that vary, `send, 64 KiB`.
fn label(a: &Analysis, id: &str) -> Option<String> {
    let cell = &a.result(id)?.cell;
    let varied = a.study.varied.iter().map(|axis| (*axis, cell.value(*axis)));
    Some(match place_in_words(varied) {
        none if none.is_empty() => way(cell).clone(),
        label => label,
    })
}

/// Note on the rows that are left out; none where all are shown.
pub(crate) fn further(all: usize, shown: usize, what: &str) -> Option<String> {
    let more = all.checked_sub(shown).filter(|n| *n > 0)?;
    Some(format!("{more} {what} are in findings.json."))
}

fn absent(counts: &[CellCounts]) -> Vec<String> {
    let rates = counts.iter().flat_map(|c| &c.events);
    let notes = rates.filter_map(|rate| {
        let (why, title) = (rate.absent.as_ref()?, rate.event.row().title);
        Some(format!("Not counted, {title}: {why}."))
    });
    notes.unique().collect()
}
